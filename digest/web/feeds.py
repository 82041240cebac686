"""The same papers for feed readers: what trends, and what one subscriber was sent."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from xml.etree import ElementTree

from sqlalchemy import select
from sqlalchemy.orm import Session
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from digest import catalog, db, links, packs, ranking, subscriptions, topics
from digest.composition import Digest
from digest.errors import BadFilter
from digest.house import House
from digest.model import Delivery, DeliveryState, Subscriber
from digest.papers import Paper, display
from digest.rendering import cards
from digest.web import house, trending
from digest.web.leaving import theirs

ATOM = "http://www.w3.org/2005/Atom"
EDITIONS = 14  #: of one subscriber's digests
REFERENCE = re.compile(
    r"[\w.-]{1,80}(/[\w.-]{1,80})?(@\d{1,6})?"
)  #: a published filter, and no more of the language
SHARED, SHARED_DAYS = 50, 8  #: papers of a shared filter, and how far back they reach
ElementTree.register_namespace("", ATOM)


@dataclass(frozen=True, kw_only=True, slots=True)
class Entry:
    """A paper in a feed."""

    paper: Paper
    at: datetime
    topic: str = ""
    why: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Feed:
    """A list of papers, and the address it is read at."""

    title: str
    address: str
    entries: tuple[Entry, ...]
    at: datetime


# ── which papers ────────────────────────────────────────────────────────────────────────────────


def trending_feed(of: House, address: str) -> Feed:
    """Return today's trending papers."""
    with db.reading(of.engine) as session:
        found = trending.today(of, session)
        at = catalog.observed_at(session, until=of.clock()) or of.clock()
    ranked = found.ranked if found else ()
    entries = tuple(
        Entry(paper=one.paper, at=one.paper.first_seen_at, why=" · ".join(one.reasons[:2])) for one in ranked
    )
    return Feed(title=f"{of.site.name}: trending papers", address=address, entries=entries, at=at)


def shared_feed(of: House, session: Session, reference: str, address: str) -> Feed:
    """Return the latest papers that a published filter finds, what trends first; raises BadFilter."""
    wanted = subscriptions.Books(session).whole(f"use:{reference}")
    at = catalog.observed_at(session, until=of.clock()) or of.clock()
    papers = trending.news(session, at, of.clock(), days=SHARED_DAYS)
    found = topics.Index(papers).matches(wanted)
    chosen = [paper for place, paper in enumerate(papers) if found >> place & 1]
    ranked = ranking.rank(chosen, catalog.evidence(session, chosen, as_of=at), at)[:SHARED]
    entries = tuple(
        Entry(paper=one.paper, at=one.paper.first_seen_at, topic=reference, why=" · ".join(one.reasons[:2]))
        for one in ranked
    )
    return Feed(title=f"{of.site.name}: {reference}", address=address, entries=entries, at=at)


def sent_feed(of: House, session: Session, subscriber: Subscriber, address: str) -> Feed:
    """Return the papers of one subscriber's latest digests, as they were sent."""
    deliveries = session.scalars(
        select(Delivery)
        .where(
            Delivery.subscriber_id == subscriber.id,
            Delivery.edition.is_not(None),
            Delivery.state == DeliveryState.SENT,
        )
        .order_by(Delivery.id.desc())
        .limit(EDITIONS)
    ).all()
    entries = tuple(entries_of(session, deliveries))
    at = max((delivery.dated_at for delivery in deliveries), default=subscriber.created_at)
    return Feed(title=f"{of.site.name}: your papers", address=address, entries=entries, at=at)


def entries_of(session: Session, deliveries: Iterable[Delivery]) -> Iterator[Entry]:
    """Yield the papers of digests, in reading order."""
    digests = [(delivery.dated_at, Digest.from_json(delivery.decision)) for delivery in deliveries]
    wanted = {paper for _, digest in digests for paper in digest.papers}
    papers = {paper.id: paper for paper in catalog.papers(session, ids=wanted)} if wanted else {}
    for at, digest in digests:
        for section in digest.sections:
            for number in section.papers:
                if number in papers:
                    yield Entry(paper=papers[number], at=at, topic=section.topic)


# ── how they are written ────────────────────────────────────────────────────────────────────────


def as_atom(of: House, feed: Feed) -> Response:
    """Return a feed as Atom (RFC 4287)."""
    root = ElementTree.Element(f"{{{ATOM}}}feed")
    put(root, "id", feed.address)
    put(root, "title", feed.title)
    put(root, "updated", feed.at.isoformat())
    put(root, "link", rel="self", href=feed.address)
    put(root, "link", rel="alternate", href=f"{of.site.url}/")
    put(put(root, "author"), "name", of.site.name)
    for entry in feed.entries:
        root.append(atom_entry(of, entry))
    content = ElementTree.tostring(root, encoding="utf-8", xml_declaration=True)
    return Response(content, media_type="application/atom+xml")


def atom_entry(of: House, entry: Entry) -> ElementTree.Element:
    """Return one paper as an Atom entry."""
    page = links.paper_url(of.site, entry.paper.id)
    element = ElementTree.Element(f"{{{ATOM}}}entry")
    put(element, "id", page)
    put(element, "title", cards.title(entry.paper))
    put(element, "updated", entry.at.isoformat())
    put(element, "link", rel="alternate", href=cards.card(entry.paper, page=page).href)
    for author in entry.paper.authors or [of.site.name]:
        put(put(element, "author"), "name", display(author))
    if entry.topic:
        put(element, "category", term=entry.topic)
    put(element, "summary", summary(entry))
    return element


def put(parent: ElementTree.Element, name: str, text: str = "", **said: str) -> ElementTree.Element:
    """Add an element and return it; what XML cannot hold is left out."""
    element = ElementTree.SubElement(parent, f"{{{ATOM}}}{name}", said)
    if text:
        element.text = "".join(
            char for char in text if char in "\t\n" or (char >= " " and char not in "\ufffe\uffff")
        )
    return element


def summary(entry: Entry) -> str:
    """Return the abstract, and why the paper is here."""
    return "\n\n".join(filter(None, (display(entry.paper.abstract), entry.why)))


def as_json(of: House, feed: Feed) -> Response:
    """Return a feed as JSON Feed 1.1."""
    content = {
        "version": "https://jsonfeed.org/version/1.1",
        "title": feed.title,
        "home_page_url": f"{of.site.url}/",
        "feed_url": feed.address,
        "items": [json_item(of, entry) for entry in feed.entries],
    }
    return Response(json.dumps(content, ensure_ascii=False), media_type="application/feed+json")


def json_item(of: House, entry: Entry) -> dict[str, object]:
    """Return one paper as an item of a JSON feed."""
    page = links.paper_url(of.site, entry.paper.id)
    return {
        "id": page,
        "url": cards.card(entry.paper, page=page).href,
        "title": cards.title(entry.paper),
        "content_text": summary(entry),
        "date_published": entry.at.isoformat(),
        "authors": [{"name": display(author)} for author in entry.paper.authors],
        **({"tags": [entry.topic]} if entry.topic else {}),
    }


FORMATS = {"atom": as_atom, "json": as_json}


# ── where they are read ─────────────────────────────────────────────────────────────────────────


def show(request: Request) -> Response:
    """Give today's trending papers."""
    of, form = house.of(request), request.path_params["format"]
    if form not in FORMATS:
        raise HTTPException(404)
    return FORMATS[form](of, trending_feed(of, f"{of.site.url}/feed.{form}"))


def shared(request: Request) -> Response:
    """Give what one of the filters finds that a group has published."""
    of, form, reference = house.of(request), request.path_params["format"], request.path_params["topic"]
    if form not in FORMATS or not REFERENCE.fullmatch(reference):
        raise HTTPException(404)
    address = f"{of.site.url}/feed/{reference}.{form}"
    with db.reading(of.engine) as session:
        key = (trending.state_of(session), packs.shelf(session), of.clock().date())
        try:
            feed = of.memory.once(
                f"feed {reference}.{form}", key, lambda: shared_feed(of, session, reference, address)
            )
        except BadFilter:
            raise HTTPException(404) from None
    return FORMATS[form](of, feed)


def mine(request: Request) -> Response:
    """Give one subscriber the papers they were sent; the address is theirs alone."""
    of, form = house.of(request), request.path_params["format"]
    if form not in FORMATS:
        raise HTTPException(404)
    with db.reading(of.engine) as session:
        subscriber = theirs(session, request, "feed")
        feed = sent_feed(of, session, subscriber, links.feed_url(of.site, subscriber.id, subscriber.epoch))
    return FORMATS[form](of, feed)
