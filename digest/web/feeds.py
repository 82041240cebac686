"""Serve feeds: trending papers, matches of a published filter, and a subscriber's digests or saved papers."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from xml.etree import ElementTree

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from digest import db
from digest.app_context import AppContext
from digest.db import Session
from digest.db.tables.deliveries import Delivery
from digest.db.tables.subscribers import Subscriber
from digest.delivery import outbox
from digest.editions.compose import Digest
from digest.errors import BadFilter
from digest.letters import cards
from digest.papers import trending as trending_scores
from digest.papers.catalog import queries
from digest.papers.display_text import display
from digest.papers.paper_record import Paper
from digest.site import links
from digest.topics.filter_parser import Filter
from digest.topics.filter_registry import FilterRegistry
from digest.topics.paper_index import PaperIndex
from digest.web import request_context, trending_list
from digest.web.unsubscribe_page import subscriber_of_link

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

    paper: Paper
    at: datetime
    topic: str = ""
    why: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Feed:
    """A feed: its papers, title and URL."""

    title: str
    address: str
    entries: tuple[FeedEntry, ...]
    at: datetime


# ── which papers ────────────────────────────────────────────────────────────────────────────────


def trending_feed(context: AppContext, address: str) -> Feed:
    """Return a feed of today's trending papers."""
    with db.read_session(context.engine) as session:
        found = trending_list.todays_list(context, session)
        at = queries.observed_at(session, until=context.clock()) or context.clock()
    ranked = found.ranked if found else ()
    entries = tuple(
        FeedEntry(paper=one.paper, at=one.paper.first_seen_at, why=" · ".join(one.reasons[:2]))
        for one in ranked
    )
    return Feed(title=f"{context.site.name}: trending papers", address=address, entries=entries, at=at)


def cached_feed(context: AppContext, session: Session, filter: Filter, title: str, address: str) -> Feed:
    """Return the feed of a filter's recent matches, cached until the catalog or the day changes."""
    key = (filter, address, queries.state(session), context.clock().date())
    return context.caches.get_or_make(
        "feed", key, lambda: matches_feed(context, session, filter, title, address), bound=MAX_FEEDS
    )


def matches_feed(context: AppContext, session: Session, filter: Filter, title: str, address: str) -> Feed:
    """Return a feed of the recent matches of a filter, most trending first."""
    at = queries.observed_at(session, until=context.clock()) or context.clock()
    papers = trending_list.recent_papers(context, session, at, context.clock(), days=SHARED_DAYS)
    found = PaperIndex(papers).matches(filter)
    chosen = [paper for place, paper in enumerate(papers) if found >> place & 1]
    ranked = trending_scores.rank(chosen, queries.evidence(session, chosen, as_of=at), at)[:MAX_SHARED_PAPERS]
    entries = tuple(
        FeedEntry(paper=one.paper, at=one.paper.first_seen_at, topic=title, why=" · ".join(one.reasons[:2]))
        for one in ranked
    )
    return Feed(title=f"{context.site.name}: {title}", address=address, entries=entries, at=at)


def sent_feed(context: AppContext, session: Session, subscriber: Subscriber, address: str) -> Feed:
    """Return the feed of the papers in the latest digests sent to one subscriber."""
    deliveries = outbox.list_sent_digests(session, subscriber.id, limit=EDITIONS_IN_FEED)
    entries = tuple(digest_entries(session, deliveries))
    at = max((delivery.dated_at for delivery in deliveries), default=subscriber.created_at)
    return Feed(title=f"{context.site.name}: your papers", address=address, entries=entries, at=at)


def saved_feed(context: AppContext, saved: Sequence[tuple[Paper, datetime]], address: str) -> Feed:
    """Return a feed of the papers that a subscriber saved, latest first."""
    entries = tuple(FeedEntry(paper=paper, at=at) for paper, at in saved)
    at = max((at for _, at in saved), default=context.clock())
    return Feed(title=f"{context.site.name}: saved papers", address=address, entries=entries, at=at)


def digest_entries(session: Session, deliveries: Iterable[Delivery]) -> Iterator[FeedEntry]:
    """Yield the papers of the digests in the order in which readers see them."""
    digests = [(delivery.dated_at, Digest.from_json(delivery.decision)) for delivery in deliveries]
    ids = {paper for _, digest in digests for paper in digest.papers}
    found = queries.papers(session, ids=ids) if ids else []
    papers = {paper.id: paper for paper in found if not paper.is_hidden}
    for at, digest in digests:
        for section in digest.sections:
            for number in section.papers:
                if number in papers:
                    yield FeedEntry(paper=papers[number], at=at, topic=section.topic)


# ── Atom and JSON Feed ────────────────────────────────────────────────────────────────────────


def as_atom(context: AppContext, feed: Feed) -> Response:
    """Return a feed as Atom (RFC 4287)."""
    root = ElementTree.Element(f"{{{ATOM}}}feed")
    add_element(root, "id", feed.address)
    add_element(root, "title", feed.title)
    add_element(root, "updated", feed.at.isoformat())
    add_element(root, "link", rel="self", href=feed.address)
    add_element(root, "link", rel="alternate", href=f"{context.site.url}/")
    add_element(add_element(root, "author"), "name", context.site.name)
    for entry in feed.entries:
        root.append(atom_entry(context, entry))
    content = ElementTree.tostring(root, encoding="utf-8", xml_declaration=True)
    return Response(content, media_type="application/atom+xml")


def atom_entry(context: AppContext, entry: FeedEntry) -> ElementTree.Element:
    """Return one paper as an Atom entry."""
    page = links.paper_url(context.site, entry.paper.id)
    element = ElementTree.Element(f"{{{ATOM}}}entry")
    add_element(element, "id", page)
    add_element(element, "title", cards.display_title(entry.paper))
    add_element(element, "updated", entry.at.isoformat())
    add_element(element, "link", rel="alternate", href=cards.make_card(entry.paper, page=page).href)
    for author in entry.paper.authors or [context.site.name]:
        add_element(add_element(element, "author"), "name", display(author))
    if entry.topic:
        add_element(element, "category", term=entry.topic)
    add_element(element, "summary", entry_summary(entry))
    return element


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


def entry_summary(entry: FeedEntry) -> str:
    """Return an excerpt of the paper, and the reason why the feed contains it."""
    return "\n\n".join(filter(None, (cards.shown_abstract(entry.paper), entry.why)))


def as_json(context: AppContext, feed: Feed) -> Response:
    """Return a feed as JSON Feed 1.1."""
    content = {
        "version": "https://jsonfeed.org/version/1.1",
        "title": feed.title,
        "home_page_url": f"{context.site.url}/",
        "feed_url": feed.address,
        "items": [json_item(context, entry) for entry in feed.entries],
    }
    return Response(json.dumps(content, ensure_ascii=False), media_type="application/feed+json")


def json_item(context: AppContext, entry: FeedEntry) -> dict[str, object]:
    """Return one paper as an item of a JSON feed."""
    page = links.paper_url(context.site, entry.paper.id)
    return {
        "id": page,
        "url": cards.make_card(entry.paper, page=page).href,
        "title": cards.display_title(entry.paper),
        "content_text": entry_summary(entry),
        "date_published": entry.at.isoformat(),
        "authors": [{"name": display(author)} for author in entry.paper.authors],
        **({"tags": [entry.topic]} if entry.topic else {}),
    }


FEED_FORMATS = {"atom": as_atom, "json": as_json}


# ── endpoints ────────────────────────────────────────────────────────────────────────────────────


def show_trending(request: Request) -> Response:
    """Return the feed of today's trending papers."""
    context, form = request_context.context_of(request), request.path_params["format"]
    if form not in FEED_FORMATS:
        raise HTTPException(404)
    return FEED_FORMATS[form](context, trending_feed(context, f"{context.site.url}/feed.{form}"))


def show_shared(request: Request) -> Response:
    """Return the feed of a filter from a published pack."""
    context, form, reference = (
        request_context.context_of(request),
        request.path_params["format"],
        request.path_params["topic"],
    )
    if form not in FEED_FORMATS or not REFERENCE.fullmatch(reference):
        raise HTTPException(404)
    address = f"{context.site.url}/feed/{reference}.{form}"
    with db.read_session(context.engine) as session:
        try:
            published = FilterRegistry(session).resolve_text(f"use:{reference}")
        except BadFilter:
            raise HTTPException(404) from None
        feed = cached_feed(context, session, published, reference, address)
    return FEED_FORMATS[form](context, feed)


def show_own(request: Request) -> Response:
    """Return the feed of one subscriber's digests; its URL is private."""
    context, form = request_context.context_of(request), request.path_params["format"]
    if form not in FEED_FORMATS:
        raise HTTPException(404)
    with db.read_session(context.engine) as session:
        subscriber = subscriber_of_link(session, request, "feed")
        feed = sent_feed(
            context, session, subscriber, links.feed_url(context.site, subscriber.id, subscriber.link_version)
        )
    return FEED_FORMATS[form](context, feed)
