"""Serve feeds: trending papers, matches of a published filter, and a subscriber's digests or saved papers."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from xml.etree import ElementTree

from starlette.exceptions import HTTPException
from starlette.responses import Response

from digest.delivery.outbox import delivery_listing
from digest.editions.compose import Digest
from digest.errors import BadFilter
from digest.letters import cards
from digest.papers import trending as trending_scores
from digest.papers.catalog import queries
from digest.papers.display_text import display
from digest.papers.paper_record import Paper
from digest.papers.trending import Ranked
from digest.site import links
from digest.subscribers import saved_papers
from digest.subscribers.filter_registry import FilterRegistry
from digest.topics import paper_index
from digest.topics.filter_parser import Filter
from digest.web import trending_list
from digest.web.visits import Visit

ATOM = "http://www.w3.org/2005/Atom"
EDITIONS_IN_FEED = 14  #: maximum number of digests, the latest ones, in the feed of one subscriber
#: The name of a published filter; a feed of any other filter is refused.
REFERENCE = re.compile(r"[\w.-]{1,80}(/[\w.-]{1,80})?(@\d{1,6})?")
MAX_FEEDS = 256  #: maximum number of cached filter feeds; each takes 100 KB
#: Maximum number of papers in a published filter's feed, and the number of days that the feed covers.
MAX_SHARED_PAPERS, SHARED_DAYS = 50, 8
ElementTree.register_namespace("", ATOM)


@dataclass(frozen=True, kw_only=True, slots=True)
class FeedEntry:
    """A paper in a feed."""

    page: str  #: the address of its page here
    href: str
    title: str
    authors: tuple[str, ...]
    summary: str  #: an excerpt of the paper, and the reason why the feed contains it
    at: datetime
    topic: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Feed:
    """A feed: its papers, title and URL."""

    title: str
    address: str
    entries: tuple[FeedEntry, ...]
    at: datetime


# ── which papers ────────────────────────────────────────────────────────────────────────────────


def show_trending(visit: Visit) -> Response:
    """Return the feed of today's trending papers."""
    found = trending_list.todays_list(visit)
    return as_response(visit, ranked_feed(visit, "trending papers", found.ranked if found else ()))


def show_shared(visit: Visit) -> Response:
    """Return the feed of a filter from a published pack."""
    reference = visit.request.path_params["topic"]
    if not REFERENCE.fullmatch(reference):
        raise HTTPException(404)
    try:
        published = FilterRegistry(visit.session).resolve_text(f"use:{reference}")
    except BadFilter:
        raise HTTPException(404) from None
    return show_matches(visit, published, reference)


def show_matches(visit: Visit, filter_: Filter, title: str) -> Response:
    """Return the feed of a filter's recent matches, most trending first."""

    def make() -> Feed:
        at = queries.observed_at(visit.session, until=visit.now) or visit.now
        papers = trending_list.recent_papers(visit, at, visit.now, days=SHARED_DAYS)
        found = paper_index.PaperIndex(papers).matches(filter_)
        chosen = [paper for place, paper in enumerate(papers) if found >> place & 1]
        ranked = trending_scores.rank(chosen, queries.evidence(visit.session, chosen, as_of=at), at)
        return ranked_feed(visit, title, ranked[:MAX_SHARED_PAPERS], topic=title)

    return as_response(visit, visit.cached("feed", make, filter_, visit.path, bound=MAX_FEEDS))


def show_own(visit: Visit) -> Response:
    """Return the feed of the papers in the latest digests sent to one subscriber; its URL is private."""
    reader = visit.reader("feed")
    deliveries = delivery_listing.list_sent_digests(visit.session, reader.id, limit=EDITIONS_IN_FEED)
    digests = [(delivery.dated_at, Digest.from_json(delivery.decision)) for delivery in deliveries]
    ids = {paper for _, digest in digests for paper in digest.papers}
    found = queries.papers(visit.session, ids=ids) if ids else []
    papers = {paper.id: paper for paper in found if not paper.is_hidden}
    entries = [
        entry_of(visit, papers[number], at, topic=section.topic)
        for at, digest in digests
        for section in digest.sections
        for number in section.papers
        if number in papers
    ]
    at = max((at for at, _ in digests), default=reader.created_at)
    return as_response(visit, feed_of(visit, "your papers", entries, at))


def show_saved(visit: Visit) -> Response:
    """Return the feed of the papers that a subscriber saved, latest first; its URL is private."""
    saved = saved_papers.list_saved(visit.session, visit.reader("saved-feed").id)
    entries = [entry_of(visit, paper, at) for paper, at in saved]
    at = max((at for _, at in saved), default=visit.now)
    return as_response(visit, feed_of(visit, "saved papers", entries, at))


def ranked_feed(visit: Visit, title: str, ranked: Sequence[Ranked], topic: str = "") -> Feed:
    """Return a feed of ranked papers, each with its reasons."""
    at = queries.observed_at(visit.session, until=visit.now) or visit.now
    entries = [
        entry_of(visit, one.paper, one.paper.first_seen_at, topic=topic, why=" · ".join(one.reasons[:2]))
        for one in ranked
    ]
    return feed_of(visit, title, entries, at)


def feed_of(visit: Visit, title: str, entries: Iterable[FeedEntry], at: datetime) -> Feed:
    """Return the feed at the address that is visited."""
    named, address = f"{visit.site.name}: {title}", f"{visit.site.url}{visit.path}"
    return Feed(title=named, address=address, entries=tuple(entries), at=at)


def entry_of(visit: Visit, paper: Paper, at: datetime, *, topic: str = "", why: str = "") -> FeedEntry:
    """Return the entry of a paper."""
    page = links.paper_url(visit.site, paper.id)
    return FeedEntry(
        page=page,
        href=cards.make_card(paper, page=page).href,
        title=cards.display_title(paper),
        authors=tuple(map(display, paper.authors)),
        summary="\n\n".join(filter(None, (cards.shown_abstract(paper), why))),
        at=at,
        topic=topic,
    )


# ── Atom and JSON Feed ────────────────────────────────────────────────────────────────────────


def as_response(visit: Visit, feed: Feed) -> Response:
    """Return a feed in the format that the URL names."""
    return as_atom(visit, feed) if visit.request.path_params["format"] == "atom" else as_json(visit, feed)


def as_atom(visit: Visit, feed: Feed) -> Response:
    """Return a feed as Atom (RFC 4287)."""
    root = ElementTree.Element(f"{{{ATOM}}}feed")
    add_element(root, "id", feed.address)
    add_element(root, "title", feed.title)
    add_element(root, "updated", feed.at.isoformat())
    add_element(root, "link", rel="self", href=feed.address)
    add_element(root, "link", rel="alternate", href=f"{visit.site.url}/")
    add_element(add_element(root, "author"), "name", visit.site.name)
    for entry in feed.entries:
        element = add_element(root, "entry")
        add_element(element, "id", entry.page)
        add_element(element, "title", entry.title)
        add_element(element, "updated", entry.at.isoformat())
        add_element(element, "link", rel="alternate", href=entry.href)
        for author in entry.authors or [visit.site.name]:
            add_element(add_element(element, "author"), "name", author)
        if entry.topic:
            add_element(element, "category", term=entry.topic)
        add_element(element, "summary", entry.summary)
    content = ElementTree.tostring(root, encoding="utf-8", xml_declaration=True)
    return Response(content, media_type="application/atom+xml")


def add_element(
    parent: ElementTree.Element, name: str, text: str = "", **attributes: str
) -> ElementTree.Element:
    """Add an element and return it; characters that XML forbids are left out."""
    element = ElementTree.SubElement(parent, f"{{{ATOM}}}{name}", attributes)
    if text:
        element.text = "".join(
            char for char in text if char in "\t\n" or (char >= " " and char not in "\ufffe\uffff")
        )
    return element


def as_json(visit: Visit, feed: Feed) -> Response:
    """Return a feed as JSON Feed 1.1."""
    content = {
        "version": "https://jsonfeed.org/version/1.1",
        "title": feed.title,
        "home_page_url": f"{visit.site.url}/",
        "feed_url": feed.address,
        "items": [
            {
                "id": entry.page,
                "url": entry.href,
                "title": entry.title,
                "content_text": entry.summary,
                "date_published": entry.at.isoformat(),
                "authors": [{"name": author} for author in entry.authors],
                **({"tags": [entry.topic]} if entry.topic else {}),
            }
            for entry in feed.entries
        ],
    }
    return Response(json.dumps(content, ensure_ascii=False), media_type="application/feed+json")
