"""Show digests in the browser, rendered again from the stored decisions, and list a reader's past digests.

A forwarded letter contains its view link, so the page masks the reader's address and does not link to the
reader's settings.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from msgspec import structs
from starlette.exceptions import HTTPException
from starlette.responses import HTMLResponse, Response

from digest.db.tables.deliveries import Delivery
from digest.db.tables.subscribers import Subscriber
from digest.delivery import press_store
from digest.delivery.outbox import delivery_listing
from digest.editions.compose import Digest
from digest.editions.schedule import local_day
from digest.errors import NotFound
from digest.letters import cards, figures_in_words, personalization
from digest.letters.cards import CardForm
from digest.letters.letter_rendering import Personalization
from digest.letters.press.load_templates import letters_of
from digest.letters.press.press_value import Press
from digest.mail import addresses
from digest.papers.catalog import queries
from digest.publishing import candidate_papers
from digest.site import links
from digest.subscribers import filter_registry, subscriber_rows
from digest.web import citation_files, front_page, page_rendering
from digest.web.middleware import mail_headers
from digest.web.problem_pages import EXPIRED_DIGEST, Gone
from digest.web.sign_up_form import OfferedTopic
from digest.web.visits import Visit

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


def show_digest(visit: Visit) -> Response:
    """Show the digest that a link names, as long as its press (the stored papers behind it) exists."""
    context, (delivery, reader) = visit.context, digest_of_link(visit)
    made = press_of(visit, delivery)
    digest = Digest.from_json(delivery.decision)
    hidden = hidden_papers(visit, digest.papers)
    letters = letters_of(made, context.site, context.templates, context.caches)
    copy = personalization_of(visit, delivery, reader, digest)
    letter = letters.letter(digest.without(hidden) if hidden else digest, copy)
    return HTMLResponse(page_rendering.letter_page(letter.html), headers=mail_headers())


def show_overflow(visit: Visit) -> Response:
    """List the papers of one section that did not fit into the digest."""
    delivery, reader = digest_of_link(visit)
    sections, place = Digest.from_json(delivery.decision).sections, visit.request.path_params["place"]
    if not 1 <= place <= len(sections):
        raise HTTPException(404)
    section, made = sections[place - 1], press_of(visit, delivery)
    publication = visit.context.publication(visit.session, delivery.dated_at)
    found = candidate_papers.overflow_papers(replace(publication, fixed_press=made), delivery, section)
    hidden = hidden_papers(visit, found)
    overflow = [paper for paper in found if paper not in hidden]
    return visit.page(
        "more_matches",
        topic=section.topic,
        is_trending=section.filter_id is None,
        day=day_of(delivery, reader),
        count=len(overflow),
        cards=[
            cards.make_card(
                made.papers[made.rank_of_paper[paper]],
                page=links.paper_url(visit.site, paper),
                form=CardForm.BRIEF,
            )
            for paper in overflow[:MAX_LISTED]
        ],
    )


def show_topics(visit: Visit) -> Response:
    """Show the sign-up form, with the topics of a forwarded digest to choose from."""
    delivery, _reader = digest_of_link(visit)
    digest = Digest.from_json(delivery.decision)
    filters = filters_of(visit, digest)
    offered = [
        OfferedTopic(name=section.topic, filter=filters[section.filter_id])
        for section in digest.sections
        if section.filter_id in filters
    ]
    return front_page.offer_topics(visit, offered)


def show_file(visit: Visit) -> Response:
    """Return the digest's papers as BibTeX or RIS, in reading order; merged papers are replaced by those that remain."""
    delivery, _ = digest_of_link(visit)
    ids = Digest.from_json(delivery.decision).papers
    current = queries.resolve(visit.session, ids)
    in_order = list(dict.fromkeys(current.get(number, number) for number in ids))
    found = {paper.id: paper for paper in queries.papers(visit.session, ids=in_order) if not paper.is_hidden}
    return citation_files.as_file(visit, [found[number] for number in in_order if number in found])


def digest_of_link(visit: Visit) -> tuple[Delivery, Subscriber]:
    """Return the digest that a link names, and its reader; raise 404 if the link or the digest is unknown."""
    found = links.read_view_token(visit.site, visit.token)
    reader = subscriber_rows.find_by_link(visit.session, found[0], found[1]) if found else None
    delivery = delivery_listing.find_digest(visit.session, reader.id, found[2]) if found and reader else None
    if delivery is None or reader is None:
        raise HTTPException(404)
    return delivery, reader


def press_of(visit: Visit, delivery: Delivery) -> Press:
    """Return the press of a digest; raise 404 if it never had one, and 410 if it was deleted."""
    if delivery.press is None:
        raise HTTPException(404)
    try:
        return press_store.load_press(visit.session, delivery.press, visit.context.caches)
    except NotFound:
        raise Gone(EXPIRED_DIGEST) from None


def hidden_papers(visit: Visit, ids: tuple[int, ...] | list[int]) -> set[int]:
    """Return those of these papers that the operator has hidden."""
    return {paper.id for paper in queries.papers(visit.session, ids=ids) if paper.is_hidden}


def day_of(delivery: Delivery, reader: Subscriber) -> str:
    """Return the day of a digest in words."""
    return figures_in_words.day_in_words(local_day(subscriber_rows.schedule_of(reader), delivery.dated_at))


def filters_of(visit: Visit, digest: Digest) -> dict[int, str]:
    """Return the canonical filters by which the digest's papers were chosen."""
    chosen_by = {section.filter_id for section in digest.sections if section.filter_id is not None}
    return filter_registry.canonical_filters(visit.session, chosen_by)


def personalization_of(
    visit: Visit, delivery: Delivery, reader: Subscriber, digest: Digest
) -> Personalization:
    """Return the parts of a digest that depend on its reader, with the reader's address masked."""
    copy = personalization.personalize(
        visit.site,
        delivery_id=delivery.id,
        subscriber_id=reader.id,
        link_version=reader.link_version,
        email=delivery.email or "",
        edition=delivery.edition or "",
        dated_at=delivery.dated_at,
        schedule=subscriber_rows.schedule_of(reader),
        key_id=delivery.key_id,
        filters=filters_of(visit, digest),
        message_id=delivery.message_id,
        is_group=reader.is_group,
    )
    return structs.replace(copy, recipient=addresses.masked_address(copy.recipient))


# ── the archive ─────────────────────────────────────────────────────────────────────────────────


def show_archive(visit: Visit) -> Response:
    """List the digests sent to one subscriber."""
    return visit.page("archive", digests=list(archive_entries(visit, visit.reader("archive"))))


def archive_entries(visit: Visit, reader: Subscriber) -> Iterator[ArchiveEntry]:
    """Yield an entry for each digest, with the digest's day and the title of its first paper."""
    sent = delivery_listing.list_sent_digests(visit.session, reader.id, limit=MAX_LISTED)
    digests = [(one, Digest.from_json(one.decision).papers) for one in sent if one.press is not None]
    wanted = {papers[0] for _, papers in digests if papers}
    wanted |= {paper for _, papers in digests[:MAX_WITH_TITLES] for paper in papers}
    found = queries.papers(visit.session, ids=wanted) if wanted else []
    titles = {one.id: cards.display_title(one) for one in found}
    for place, (delivery, ids) in enumerate(digests):
        listed = ids if place < MAX_WITH_TITLES else ()
        if ids:
            yield ArchiveEntry(
                day=day_of(delivery, reader),
                href=links.view_url(visit.site, reader.id, reader.link_version, delivery.edition or ""),
                title=titles.get(ids[0], figures_in_words.papers_for_you(len(ids))),
                papers=len(ids),
                listed=tuple((paper, titles[paper]) for paper in listed if paper in titles),
            )
