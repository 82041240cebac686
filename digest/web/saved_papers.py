"""Save papers to a private list, and show the list, its files for reference managers, and its feed.

Every digest contains save links, and digests may be forwarded. With a save link, anybody can add the paper to
the list or remove it. The list is shown only by the settings link and by the private link to its feed.
"""

from __future__ import annotations

from starlette.datastructures import FormData
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from digest import db
from digest.db import Session
from digest.db.tables.subscribers import Subscriber, SubscriberState
from digest.errors import UsageError
from digest.letters import cards, figures_in_words
from digest.papers.bylines import byline
from digest.papers.paper_record import Paper
from digest.site import links
from digest.subscribers import saved_papers, topic_feedback
from digest.web import citation_files, feeds, page_rendering, paper_page, request_context
from digest.web.forms import field_text
from digest.web.unsubscribe_page import subscriber_of_link


def show_button(request: Request) -> Response:
    """Show a paper with a button that saves it, or removes it if just saved; loading changes nothing."""
    with db.read_session(request_context.context_of(request).engine) as session:
        reader, paper = reader_and_paper(request, session)
        return save_page(request, reader, paper)


def handle_button(request: Request, form: FormData) -> Response:
    """Save the paper or remove it from the list, and redirect to the page."""
    context = request_context.context_of(request)
    with db.write_session(context.engine) as session:
        reader, paper = reader_and_paper(request, session)
        if field_text(form, "do") == "remove":
            saved_papers.remove(session, reader.id, paper.id)
            return page_rendering.redirect_back(request)
        try:
            saved_papers.save(session, reader.id, paper.id, now=context.clock())
        except UsageError as error:
            return save_page(request, reader, paper, error=str(error))
    return page_rendering.redirect_back(request, "saved")


def save_page(request: Request, reader: Subscriber, paper: Paper, error: str = "") -> Response:
    """Return the page to which a save link leads.

    The page shows only which button was pressed, not whether the paper is in the list: otherwise, anybody
    with a forwarded link could find out which papers the reader has saved.
    """
    site = request_context.context_of(request).site
    return page_rendering.render_page(
        request,
        "save",
        status=422 if error else 200,
        title=cards.display_title(paper),
        written_by=byline(paper),
        paper_url=links.paper_url(site, paper.id),
        topics_url=links.topic_links_url(site, reader.id, reader.link_version),
        is_saved=request.query_params.get("done") == "saved",
        error=error,
    )


def reader_and_paper(request: Request, session: Session) -> tuple[Subscriber, Paper]:
    """Return the subscriber and the paper of a save link.

    Raises HTTPException: 404 for an invalid link, an unknown paper or an unsubscribed reader, 410 for a
    hidden paper.
    """
    reader = subscriber_of_link(session, request, "paper")
    if reader.state == SubscriberState.UNSUBSCRIBED:
        raise HTTPException(404)
    return reader, paper_page.current_paper(session, int(request.path_params["number"]))


# ── the list ────────────────────────────────────────────────────────────────────────────────────


def show_list(request: Request) -> Response:
    """Show the saved papers."""
    context = request_context.context_of(request)
    with db.read_session(context.engine) as session:
        reader = subscriber_of_link(session, request, "manage")
        saved = saved_papers.list_saved(session, reader.id)
        offer = topic_feedback.propose_saved_topic(session, reader)
    return page_rendering.render_page(
        request,
        "saved",
        papers=[
            {
                "id": paper.id,
                "title": cards.display_title(paper),
                "href": links.paper_url(context.site, paper.id),
                "day": figures_in_words.day_in_words(at.date()),
            }
            for paper, at in saved
        ],
        offer=offer,
        settings_url=links.manage_url(context.site, reader.id, reader.link_version),
        feed_url=links.saved_feed_url(context.site, reader.id, reader.link_version),
    )


def handle_list_form(request: Request, form: FormData) -> Response:
    """Remove a paper, or accept or decline the proposed topic, and redirect to the list."""
    context, number = request_context.context_of(request), field_text(form, "paper", 20)
    now = context.clock()
    with db.write_session(context.engine) as session:
        reader = subscriber_of_link(session, request, "manage")
        match field_text(form, "do"):
            case "add-topic":
                offer = topic_feedback.propose_saved_topic(session, reader)
                topic_feedback.decide_saved_topic(session, context.site, reader, offer, now=now)
            case "decline-topic":
                topic_feedback.decide_saved_topic(session, context.site, reader, None, now=now)
            case _ if number.isascii() and number.isdigit() and int(number) < 2**63:
                saved_papers.remove(session, reader.id, int(number))
    return page_rendering.redirect_back(request)


def show_bibtex(request: Request) -> Response:
    """Return the saved papers as BibTeX."""
    return citation_files.bibtex_file(request_context.context_of(request), load_list(request))


def show_ris(request: Request) -> Response:
    """Return the saved papers as RIS."""
    return citation_files.ris_file(request_context.context_of(request), load_list(request))


def load_list(request: Request) -> list[Paper]:
    """Return the saved papers, latest first."""
    with db.read_session(request_context.context_of(request).engine) as session:
        reader = subscriber_of_link(session, request, "manage")
        return [paper for paper, _ in saved_papers.list_saved(session, reader.id)]


def show_feed(request: Request) -> Response:
    """Return the feed of the saved papers; its URL is private."""
    context, form = request_context.context_of(request), request.path_params["format"]
    if form not in feeds.FEED_FORMATS:
        raise HTTPException(404)
    with db.read_session(context.engine) as session:
        reader = subscriber_of_link(session, request, "saved-feed")
        saved = saved_papers.list_saved(session, reader.id)
    address = links.saved_feed_url(context.site, reader.id, reader.link_version)
    return feeds.FEED_FORMATS[form](context, feeds.saved_feed(context, saved, address))
