"""Serve a page for each paper."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, date
from urllib.parse import quote_plus

from markupsafe import escape
from starlette.exceptions import HTTPException
from starlette.responses import RedirectResponse, Response

from digest import plurals
from digest.errors import BadFilter
from digest.letters import cards, figures_in_words
from digest.letters.cards import Link
from digest.papers.bylines import byline
from digest.papers.catalog import queries
from digest.papers.display_text import display
from digest.papers.paper_record import Paper, links_of
from digest.papers.trending import Appearance
from digest.site import links
from digest.topics import explanation, filter_parser, marked_text
from digest.topics.explanation import MatchedWord
from digest.web import citation_files
from digest.web.citation_files import bibtex_entry
from digest.web.problem_pages import REMOVED_PAPER, Gone
from digest.web.visits import Visit

#: Sites on which a paper can be found by its title, each with the beginning of the search URL.
PAPER_FINDERS = (
    ("arXiv", "https://arxiv.org/search/?searchtype=title&query="),
    ("Scholar", "https://scholar.google.com/scholar?q="),
    ("Semantic Scholar", "https://www.semanticscholar.org/search?q="),
)
MAX_HISTORY = 14  #: maximum number of days listed on a paper's page


def show_paper(visit: Visit) -> Response:
    """Show one paper; a paper that was merged into another redirects to it."""
    found = public_paper(visit)
    if found.id != visit.request.path_params["number"]:
        return RedirectResponse(f"/papers/{found.id}", 301)
    here = links.paper_url(visit.site, found.id)
    card = cards.make_card(found, page=here)
    words = matched_words(visit.request.query_params.get("filter", ""), found)
    searched = quote_plus(cards.display_title(found))
    return visit.page(
        "paper",
        card=card,
        meta=cards.quiet_line(found),
        written_by=byline(found),
        ways=[way for way in card.text_links if way.href not in (here, f"{here}#cite")],
        title=marked_text.marked_html(card.title, "title", words),
        abstract=escape(cards.summary_label(found))
        + marked_text.marked_html(display(found.abstract), "abstract", words),
        authors=found.authors,
        first_seen=figures_in_words.day_in_words(found.first_seen_at.date()),
        finders=[Link(label, href + searched) for label, href in PAPER_FINDERS],
        paper=found,
        bibtex=bibtex_entry(found, visit.site),
        citation=list(citation_tags(found, here)),
        history=list_history(visit, found),
    )


def matched_words(filter_: str, paper: Paper) -> tuple[MatchedWord, ...]:
    """Return the paper's words that match the filter in the page's URL.

    The result is empty if the filter is invalid or refers to a pack.
    """
    if not filter_:
        return ()
    try:
        parsed = filter_parser.parse(filter_)
    except BadFilter:
        return ()
    return () if parsed.uses else explanation.explain(parsed, paper).words


def list_history(visit: Visit, paper: Paper) -> list[str]:
    """Return the paper's days on the list, newest first: `20 November 2026: number 3 of 49, 28 upvotes`."""
    seen = queries.evidence(visit.session, [paper], as_of=visit.now)[paper.id]
    upvotes = {at.astimezone(UTC).date(): value for at, value in seen.observations.get("upvotes", ())}
    places = {
        each.observed_at.astimezone(UTC).date(): each for each in seen.appearances if each.order == "ranked"
    }
    days = sorted(upvotes.keys() | places.keys(), reverse=True)[:MAX_HISTORY]
    return [history_line(day, places.get(day), upvotes.get(day)) for day in days]


def history_line(day: date, place: Appearance | None, upvotes: float | None) -> str:
    """Return in words a paper's position and upvotes on one day."""
    facts = [
        f"number {place.position} of {place.size}" if place else "",
        "" if upvotes is None else plurals.count(int(upvotes), "upvote"),
    ]
    return f"{figures_in_words.day_in_words(day)}: {', '.join(filter(None, facts))}"


def show_file(visit: Visit) -> Response:
    """Return the paper's BibTeX or RIS entry."""
    return citation_files.as_file(visit, [public_paper(visit)])


def public_paper(visit: Visit) -> Paper:
    """Return the public view of the paper in the URL, or of the paper into which it was merged.

    Raises HTTPException: 404 if there is no such paper, 410 if it is hidden or may not be shown.
    """
    shown = visit.context.public_rules.public_copy(current_paper(visit))
    if shown is None:
        raise Gone(REMOVED_PAPER)
    return shown


def current_paper(visit: Visit) -> Paper:
    """Return the paper in the URL, or the paper into which it was merged.

    Raises HTTPException: 404 if there is no such paper, 410 if it is hidden.
    """
    found = queries.current(visit.session, visit.request.path_params["number"])
    if found is None:
        raise HTTPException(404)
    if found.is_hidden:
        raise Gone(REMOVED_PAPER)
    return found


def citation_tags(paper: Paper, here: str) -> Iterator[tuple[str, str]]:
    """Yield the names and values of the meta tags that Google Scholar and Zotero read.

    The tags follow the "Inclusion Guidelines for Webmasters" of Google Scholar.
    """
    found = links_of(paper)
    yield "citation_title", display(paper.title)
    yield from (("citation_author", display(author)) for author in paper.authors)
    if paper.published:
        yield "citation_publication_date", f"{paper.published:%Y/%m/%d}"
    if paper.journal:
        yield "citation_journal_title", display(paper.journal)
    if "doi" in paper.ids:
        yield "citation_doi", paper.ids["doi"]
    if "arxiv" in paper.ids:
        yield "citation_arxiv_id", paper.ids["arxiv"]
    if pdf := cards.safe_url(found.pdf):
        yield "citation_pdf_url", pdf
    yield "citation_abstract_html_url", cards.safe_url(found.abstract) or here
