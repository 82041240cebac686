"""Save papers to a private list, and show the list and its files for reference managers.

Every digest contains save links, and digests may be forwarded. With a save link, anybody can add the paper to
the list or remove it. The list is shown only by the settings link and by the private link to its feed.
"""

from __future__ import annotations

from starlette.exceptions import HTTPException
from starlette.responses import Response

from digest.db.tables.subscribers import Subscriber, SubscriberState
from digest.errors import UsageError
from digest.letters import cards, figures_in_words
from digest.papers.bylines import byline
from digest.papers.paper_record import Paper
from digest.site import links
from digest.subscribers import saved_papers, topic_feedback
from digest.web import citation_files, paper_page
from digest.web.visits import Visit


def show_button(visit: Visit, error: str = "") -> Response:
    """Show a paper with a button that saves it, or removes it if just saved; loading changes nothing.

    The page shows only which button was pressed, not whether the paper is in the list: otherwise, anybody
    with a forwarded link could find out which papers the reader has saved.
    """
    reader, paper = reader_and_paper(visit)
    return visit.page(
        "save",
        status=422 if error else 200,
        title=cards.display_title(paper),
        written_by=byline(paper),
        paper_url=links.paper_url(visit.site, paper.id),
        topics_url=links.topic_links_url(visit.site, reader.id, reader.link_version),
        is_saved=visit.done == "saved",
        error=error,
    )


def handle_button(visit: Visit) -> Response:
    """Save the paper or remove it from the list, and redirect to the page."""
    reader, paper = reader_and_paper(visit)
    if visit.field("do") == "remove":
        saved_papers.remove(visit.session, reader.id, paper.id)
        return visit.back()
    try:
        saved_papers.save(visit.session, reader.id, paper.id, now=visit.now)
    except UsageError as error:
        return show_button(visit, error=str(error))
    return visit.back("saved")


def reader_and_paper(visit: Visit) -> tuple[Subscriber, Paper]:
    """Return the subscriber and the paper of a save link.

    Raises HTTPException: 404 for an invalid link, an unknown paper or an unsubscribed reader, 410 for a
    hidden paper.
    """
    reader = visit.reader("paper")
    if reader.state == SubscriberState.UNSUBSCRIBED:
        raise HTTPException(404)
    return reader, paper_page.current_paper(visit)


# ── the list ────────────────────────────────────────────────────────────────────────────────────


def show_list(visit: Visit) -> Response:
    """Show the saved papers."""
    reader = visit.reader("manage")
    return visit.page(
        "saved",
        papers=[
            {
                "id": paper.id,
                "title": cards.display_title(paper),
                "href": links.paper_url(visit.site, paper.id),
                "day": figures_in_words.day_in_words(at.date()),
            }
            for paper, at in saved_papers.list_saved(visit.session, reader.id)
        ],
        offer=topic_feedback.propose_saved_topic(visit.session, reader),
        settings_url=links.manage_url(visit.site, reader.id, reader.link_version),
        feed_url=links.saved_feed_url(visit.site, reader.id, reader.link_version),
    )


def handle_list_form(visit: Visit) -> Response:
    """Remove a paper, or accept or decline the proposed topic, and redirect to the list."""
    session, reader, number = visit.session, visit.reader("manage"), visit.field("paper", 20)
    match visit.field("do"):
        case "add-topic":
            offer = topic_feedback.propose_saved_topic(session, reader)
            topic_feedback.decide_saved_topic(session, visit.site, reader, offer, now=visit.now)
        case "decline-topic":
            topic_feedback.decide_saved_topic(session, visit.site, reader, None, now=visit.now)
        case _ if number.isascii() and number.isdigit() and int(number) < 2**63:
            saved_papers.remove(session, reader.id, int(number))
    return visit.back()


def show_file(visit: Visit) -> Response:
    """Return the saved papers as BibTeX or RIS, latest first."""
    saved = saved_papers.list_saved(visit.session, visit.reader("manage").id)
    return citation_files.as_file(visit, [paper for paper, _ in saved])
