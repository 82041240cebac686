"""Digests in the browser: the same letters, set again from the decisions that were kept.

A view is passed on like the letter itself, so its page names no address and carries no key.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass

from msgspec.structs import replace
from sqlalchemy import select
from sqlalchemy.orm import Session
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response

from digest import catalog, copies, db, links, press, presses, publishing, subscriptions
from digest.composition import Digest
from digest.errors import NotFound
from digest.house import House
from digest.model import Delivery, DeliveryState, FilterRow, Subscriber
from digest.papers import Paper
from digest.rendering import Copy, cards, words
from digest.rendering.cards import Form
from digest.web import house, pages, papers
from digest.web.leaving import masked, theirs
from digest.web.shell import mail_headers

LISTED = 400  #: digests in an archive: more than a year of them


@dataclass(frozen=True, kw_only=True, slots=True)
class Listed:
    """One digest as the archive lists it."""

    day: str
    href: str
    title: str
    papers: int


def show(request: Request) -> Response:
    """Show the digest a link names, as long as the press it was made with is kept."""
    of = house.of(request)
    with db.reading(of.engine) as session:
        delivery, reader = named(request, session)
        if delivery.press is None:
            raise HTTPException(404)
        try:
            made = presses.load(session, delivery.press)
        except NotFound:
            raise HTTPException(410) from None
        copy = copy_of(of, session, delivery, reader)
    letter = press.digest_letter(made, of.site, Digest.from_json(delivery.decision), copy)
    return HTMLResponse(pages.letter_page(letter.html), headers=mail_headers())


def rest(request: Request) -> Response:
    """List what matched a topic of that digest and had no room in it."""
    of = house.of(request)
    with db.reading(of.engine) as session:
        delivery, reader = named(request, session)
        sections = Digest.from_json(delivery.decision).sections
        place = request.path_params["place"]
        if delivery.press is None or not 1 <= place <= len(sections):
            raise HTTPException(404)
        try:
            made = presses.load(session, delivery.press)
        except NotFound:
            raise HTTPException(410) from None
        left = publishing.rest(session, made, delivery, sections[place - 1])
        schedule = subscriptions.schedule_of(reader)
    return pages.page(
        request,
        "rest",
        topic=sections[place - 1].topic,
        day=words.day_in_words(copies.day_of(schedule, delivery.dated_at)),
        count=len(left),
        cards=[
            cards.card(made.papers[made.number[paper]], page=links.paper_url(of.site, paper), form=Form.BRIEF)
            for paper in left[:LISTED]
        ],
    )


def named(request: Request, session: Session) -> tuple[Delivery, Subscriber]:
    """Return the digest that a link names, and whose it is; a link that is not ours opens nothing."""
    found = links.view_in(house.of(request).site, request.path_params["token"])
    reader = session.get(Subscriber, found[0]) if found else None
    if found is None or reader is None or reader.epoch != found[1]:
        raise HTTPException(404)
    theirs = (Delivery.subscriber_id == reader.id, Delivery.edition == found[2])
    delivery = session.scalars(select(Delivery).where(*theirs)).one_or_none()
    if delivery is None:
        raise HTTPException(404)
    return delivery, reader


def copy_of(of: House, session: Session, delivery: Delivery, reader: Subscriber) -> Copy:
    """Return the reader's copy of that digest, without their address."""
    chosen_by = {section[1] for section in json.loads(delivery.decision)["sections"]} - {None}
    found = session.execute(select(FilterRow.id, FilterRow.canonical).where(FilterRow.id.in_(chosen_by)))
    copy = copies.digest_copy(
        of.site,
        delivery_id=delivery.id,
        subscriber_id=reader.id,
        epoch=reader.epoch,
        email=delivery.email or "",
        edition=delivery.edition or "",
        dated_at=delivery.dated_at,
        schedule=subscriptions.schedule_of(reader),
        key_id=delivery.key_id,
        filters={row.id: row.canonical for row in found},
        message_id=delivery.message_id,
    )
    return replace(copy, recipient=masked(copy.recipient))


# ── into a reference manager ────────────────────────────────────────────────────────────────────


def bibtex(request: Request) -> Response:
    """Give the digest's papers as BibTeX."""
    of = house.of(request)
    text = "\n".join(papers.entry(paper, of) for paper in shown(request))
    return PlainTextResponse(text, media_type="application/x-bibtex", headers=saved_as("bib"))


def ris(request: Request) -> Response:
    """Give the digest's papers for reference managers that read RIS."""
    of = house.of(request)
    text = "".join(papers.ris_entry(paper, of) for paper in shown(request))
    return PlainTextResponse(text, media_type="application/x-research-info-systems", headers=saved_as("ris"))


def saved_as(ending: str) -> dict[str, str]:
    """Return the header that names the file."""
    return {"content-disposition": f'attachment; filename="digest.{ending}"'}


def shown(request: Request) -> list[Paper]:
    """Return the digest's papers in reading order; one that was merged with another is that other."""
    with db.reading(house.of(request).engine) as session:
        delivery, _ = named(request, session)
        ids = Digest.from_json(delivery.decision).papers
        current = catalog.resolve(session, ids)
        found = {
            paper.id: paper for paper in catalog.papers(session, ids=[current.get(id, id) for id in ids])
        }
    wanted = dict.fromkeys(current.get(number, number) for number in ids)
    return [found[number] for number in wanted if number in found]


# ── the archive ─────────────────────────────────────────────────────────────────────────────────


def archive(request: Request) -> Response:
    """List the digests that one subscriber was sent."""
    of = house.of(request)
    with db.reading(of.engine) as session:
        reader = theirs(session, request, "archive")
        return pages.page(request, "archive", digests=list(listing(of, session, reader)))


def sent(session: Session, reader: Subscriber) -> list[Delivery]:
    """Return the reader's digests, latest first."""
    theirs = (Delivery.subscriber_id == reader.id, Delivery.edition.is_not(None))
    there = (Delivery.state == DeliveryState.SENT, Delivery.press.is_not(None))
    wanted = select(Delivery).where(*theirs, *there).order_by(Delivery.id.desc()).limit(LISTED)
    return list(session.scalars(wanted))


def listing(of: House, session: Session, reader: Subscriber) -> Iterator[Listed]:
    """Yield how the archive lists each digest: by its day, and by the paper it led with."""
    digests = [(one, Digest.from_json(one.decision).papers) for one in sent(session, reader)]
    leading = {papers[0] for _, papers in digests if papers}
    titles = {one.id: cards.title(one) for one in catalog.papers(session, ids=leading)} if leading else {}
    schedule = subscriptions.schedule_of(reader)
    for delivery, ids in digests:
        if ids:
            yield Listed(
                day=words.day_in_words(copies.day_of(schedule, delivery.dated_at)),
                href=links.view_url(of.site, reader.id, reader.epoch, delivery.edition or ""),
                title=titles.get(ids[0], words.headline(len(ids))),
                papers=len(ids),
            )
