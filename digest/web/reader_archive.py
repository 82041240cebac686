"""Show digests in the browser, rendered again from the stored decisions, and list a reader's past digests.

A forwarded letter contains its view link, so the page masks the reader's address and does not link to the
reader's settings.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass

from msgspec.structs import replace
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from digest import db
from digest.app_context import AppContext
from digest.db import Session
from digest.db.tables.deliveries import Delivery
from digest.db.tables.subscribers import Subscriber
from digest.delivery import outbox
from digest.editions.compose import Digest
from digest.editions.schedule import local_day
from digest.errors import NotFound
from digest.letters import cards, figures_in_words, personalization, press_store
from digest.letters.cards import CardForm
from digest.letters.letter_rendering import Personalization
from digest.letters.press.load_templates import letters_of
from digest.mail import addresses
from digest.papers.catalog import queries
from digest.papers.paper_record import Paper
from digest.publishing import candidate_papers
from digest.site import links
from digest.subscribers import subscriber_rows
from digest.topics import filter_registry
from digest.web import front_page, page_rendering, problem_pages, request_context
from digest.web.citation_files import bibtex_file, ris_file
from digest.web.middleware import mail_headers
from digest.web.sign_up_form import OfferedTopic
from digest.web.unsubscribe_page import subscriber_of_link

MAX_LISTED = 400  #: maximum number of digests listed in an archive, more than a year of daily digests
MAX_WITH_TITLES = 60  #: number of the latest digests for which the archive lists all papers


@dataclass(frozen=True, kw_only=True, slots=True)
class ArchiveEntry:
    """One entry in the list of past digests."""

    day: str
    href: str
    title: str
    papers: int
    #: Id and title of each paper; empty for digests older than the latest `MAX_WITH_TITLES`.
    listed: tuple[tuple[int, str], ...]


def show_digest(request: Request) -> Response:
    """Show the digest that a link names, as long as its press (the stored papers behind it) exists."""
    context = request_context.context_of(request)
    with db.read_session(context.engine) as session:
        delivery, reader = digest_of_link(request, session)
        if delivery.press is None:
            raise HTTPException(404)
        try:
            made = press_store.load_press(session, delivery.press, context.caches)
        except NotFound:
            raise problem_pages.expired_digest() from None
        copy = personalization_of(context, session, delivery, reader)
        digest = Digest.from_json(delivery.decision)
        hidden = {paper.id for paper in queries.papers(session, ids=digest.papers) if paper.is_hidden}
    if hidden:
        digest = digest.without(hidden)
    letter = letters_of(made, context.site, context.templates, context.caches).letter(digest, copy)
    return HTMLResponse(page_rendering.letter_page(letter.html), headers=mail_headers())


def show_overflow(request: Request) -> Response:
    """List the papers of one section that did not fit into the digest."""
    context = request_context.context_of(request)
    with db.read_session(context.engine) as session:
        delivery, reader = digest_of_link(request, session)
        sections = Digest.from_json(delivery.decision).sections
        place = request.path_params["place"]
        if delivery.press is None or not 1 <= place <= len(sections):
            raise HTTPException(404)
        try:
            made = press_store.load_press(session, delivery.press, context.caches)
        except NotFound:
            raise problem_pages.expired_digest() from None
        found = candidate_papers.overflow_papers(session, made, context.caches, delivery, sections[place - 1])
        hidden = {paper.id for paper in queries.papers(session, ids=found) if paper.is_hidden}
        overflow = [paper for paper in found if paper not in hidden]
        schedule = subscriber_rows.schedule_of(reader)
    return page_rendering.render_page(
        request,
        "more_matches",
        topic=sections[place - 1].topic,
        is_trending=sections[place - 1].filter_id is None,
        day=figures_in_words.day_in_words(local_day(schedule, delivery.dated_at)),
        count=len(overflow),
        cards=[
            cards.make_card(
                made.papers[made.rank_of_paper[paper]],
                page=links.paper_url(context.site, paper),
                form=CardForm.BRIEF,
            )
            for paper in overflow[:MAX_LISTED]
        ],
    )


def show_topics(request: Request) -> Response:
    """Show the sign-up form, with the topics of a forwarded digest to choose from."""
    context = request_context.context_of(request)
    with db.read_session(context.engine) as session:
        delivery, _reader = digest_of_link(request, session)
        sections = Digest.from_json(delivery.decision).sections
        chosen_by = {section.filter_id for section in sections if section.filter_id is not None}
        filters = filter_registry.canonical_filters(session, chosen_by)
        offered = [
            OfferedTopic(name=section.topic, filter=filters[section.filter_id])
            for section in sections
            if section.filter_id in filters
        ]
        return front_page.offer_topics(context, session, offered)


def digest_of_link(request: Request, session: Session) -> tuple[Delivery, Subscriber]:
    """Return the digest that a link names, and its reader; raise 404 if the link or the digest is unknown."""
    found = links.read_view_token(request_context.context_of(request).site, request.path_params["token"])
    reader = subscriber_rows.find_by_link(session, found[0], found[1]) if found else None
    delivery = outbox.find_digest(session, reader.id, found[2]) if found and reader else None
    if delivery is None or reader is None:
        raise HTTPException(404)
    return delivery, reader


def personalization_of(
    context: AppContext, session: Session, delivery: Delivery, reader: Subscriber
) -> Personalization:
    """Return the parts of a digest that depend on its reader, with the reader's address masked."""
    chosen_by = {section[1] for section in json.loads(delivery.decision)["sections"]} - {None}
    copy = personalization.personalize(
        context.site,
        delivery_id=delivery.id,
        subscriber_id=reader.id,
        link_version=reader.link_version,
        email=delivery.email or "",
        edition=delivery.edition or "",
        dated_at=delivery.dated_at,
        schedule=subscriber_rows.schedule_of(reader),
        key_id=delivery.key_id,
        filters=filter_registry.canonical_filters(session, chosen_by),
        message_id=delivery.message_id,
        is_group=reader.is_group,
    )
    return replace(copy, recipient=addresses.masked_address(copy.recipient))


# ── for reference managers ──────────────────────────────────────────────────────────────────────


def show_bibtex(request: Request) -> Response:
    """Return the digest's papers as BibTeX."""
    return bibtex_file(request_context.context_of(request), load_shown_papers(request))


def show_ris(request: Request) -> Response:
    """Return the digest's papers as RIS."""
    return ris_file(request_context.context_of(request), load_shown_papers(request))


def load_shown_papers(request: Request) -> list[Paper]:
    """Return the digest's papers in reading order, with merged papers replaced by those that remain."""
    with db.read_session(request_context.context_of(request).engine) as session:
        delivery, _ = digest_of_link(request, session)
        ids = Digest.from_json(delivery.decision).papers
        current = queries.resolve(session, ids)
        found = {
            paper.id: paper
            for paper in queries.papers(session, ids=[current.get(id, id) for id in ids])
            if not paper.is_hidden
        }
    in_order = dict.fromkeys(current.get(number, number) for number in ids)
    return [found[number] for number in in_order if number in found]


# ── the archive ─────────────────────────────────────────────────────────────────────────────────


def show_archive(request: Request) -> Response:
    """List the digests sent to one subscriber."""
    context = request_context.context_of(request)
    with db.read_session(context.engine) as session:
        reader = subscriber_of_link(session, request, "archive")
        return page_rendering.render_page(
            request, "archive", digests=list(archive_entries(context, session, reader))
        )


def archive_entries(context: AppContext, session: Session, reader: Subscriber) -> Iterator[ArchiveEntry]:
    """Yield an entry for each digest, with the digest's day and the title of its first paper."""
    sent = outbox.list_sent_digests(session, reader.id, limit=MAX_LISTED)
    digests = [(one, Digest.from_json(one.decision).papers) for one in sent if one.press is not None]
    wanted = {papers[0] for _, papers in digests if papers}
    wanted |= {paper for _, papers in digests[:MAX_WITH_TITLES] for paper in papers}
    titles = (
        {one.id: cards.display_title(one) for one in queries.papers(session, ids=wanted)} if wanted else {}
    )
    schedule = subscriber_rows.schedule_of(reader)
    for place, (delivery, ids) in enumerate(digests):
        if ids:
            yield ArchiveEntry(
                day=figures_in_words.day_in_words(local_day(schedule, delivery.dated_at)),
                href=links.view_url(context.site, reader.id, reader.link_version, delivery.edition or ""),
                title=titles.get(ids[0], figures_in_words.papers_for_you(len(ids))),
                papers=len(ids),
                listed=tuple((paper, titles[paper]) for paper in ids if paper in titles)
                if place < MAX_WITH_TITLES
                else (),
            )
