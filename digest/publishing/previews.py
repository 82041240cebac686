"""A preview: the very digest that a run at that moment would make, by the same code; nothing is kept."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from digest import copies, editions, press, presses, rendering, subscriptions
from digest.composition import Digest
from digest.editions import Edition, Schedule
from digest.links import Site
from digest.model import Delivery, FilterRow, Subscriber
from digest.press import Press
from digest.publishing import quiet
from digest.publishing.deciding import decide
from digest.publishing.gathering import COLUMNS, desk_of, gather, reach
from digest.publishing.values import Decision, Reader
from digest.rendering import Copy, Letter, Templates
from digest.rendering.dkim import Signer, signed


@dataclass(frozen=True, kw_only=True, slots=True)
class Preview:
    """What one subscriber would be sent."""

    edition: Edition
    digest: Digest
    letter: Letter
    message: bytes
    json: dict[str, Any]


def preview(
    session: Session,
    *,
    site: Site,
    templates: Templates,
    signers: Sequence[Signer] = (),
    email: str,
    now: datetime,
) -> Preview:
    """Return the digest this subscriber would get at `now`: the open edition's, else the next one's.

    The message is signed as it would be. Raises NotFound for an address nobody subscribed with. Changes nothing.
    """
    subscriber = subscriptions.get(session, email)
    made, decision = decided(session, site, templates, subscriber, edition_for(session, subscriber, now), now)
    return previewed(session, site, templates, signers, subscriber, made, decision, now)


def previewed(
    session: Session,
    site: Site,
    templates: Templates,
    signers: Sequence[Signer],
    subscriber: Subscriber,
    made: Press,
    decision: Decision,
    now: datetime,
) -> Preview:
    """Return the decision as its reader would get it."""
    schedule = subscriptions.schedule_of(subscriber)
    copy = copy_of(session, site, subscriber, schedule, decision, now)
    if decision.digest.sections:
        letter = press.digest_letter(made, site, decision.digest, copy)
        message = press.digest_message(made, site, decision.digest, copy)
    else:
        topics = gather(session, desk_of(session, made), [decision.reader], now).topics.get(subscriber.id, ())
        proof = quiet.proof(desk_of(session, made), decision, topics, site=site, next_due_at=copy.next_due_at)
        letter = quiet_letter(site, templates, proof, copy)
        message = quiet_message(site, letter, copy)
    return Preview(
        edition=decision.edition,
        digest=decision.digest,
        letter=letter,
        message=signed(message, signers, dated_at=copy.dated_at),
        json=in_words(made, decision, copy.filters),
    )


def quiet_letter(site: Site, templates: Templates, proof: Mapping[str, Any], copy: Copy) -> Letter:
    """Return what there is to read where a digest is empty: that nothing matched. Few readers are sent it."""
    told = {
        "site": site,
        **proof,
        "email": copy.recipient,
        "manage_url": copy.manage_url,
        "unsubscribe_url": copy.unsubscribe_url,
        "timezone": copy.timezone,
        "dated_at": copy.dated_at,
    }
    return rendering.letter(templates, "quiet", told)


def quiet_message(site: Site, letter: Letter, copy: Copy) -> bytes:
    """Return the same as a whole message."""
    return rendering.message(
        letter,
        site=site,
        recipient=copy.recipient,
        message_id=copy.message_id,
        dated_at=copy.dated_at,
        headers=rendering.list_headers(
            site, copy.unsubscribe_url, leave_address=copy.leave_address, campaign=copy.edition
        ),
    )


def decided(
    session: Session,
    site: Site,
    templates: Templates,
    subscriber: Subscriber,
    edition: Edition,
    now: datetime,
) -> tuple[Press, Decision]:
    """Return what a run would decide for one subscriber, and the press it would do that on."""
    since = presses.since(now, reach(session, now, and_for=subscriber.id)[1])
    made, _ = presses.fitting(session, site=site, templates=templates, now=now, since=since)
    reader = reader_of(session, subscriber.id)
    desk = desk_of(session, made)
    return made, decide(desk, gather(session, desk, [reader], now), reader, edition, now, site=site)


def reader_of(session: Session, subscriber_id: int) -> Reader:
    """Return what deciding needs to know of one subscriber."""
    return Reader._make(session.execute(select(*COLUMNS).where(Subscriber.id == subscriber_id)).one())


def edition_for(session: Session, subscriber: Subscriber, now: datetime) -> Edition:
    """Return the edition that is open and not decided yet, else the next one."""
    schedule = subscriptions.schedule_of(subscriber)
    found = editions.edition_open(schedule, now)
    if found is None or is_decided(session, subscriber.id, found.name):
        return editions.edition_after(schedule, now)
    return found


def is_decided(session: Session, subscriber_id: int, edition: str) -> bool:
    """Return whether the subscriber's digest of that edition was published before."""
    decision = select(Delivery.id).where(Delivery.subscriber_id == subscriber_id, Delivery.edition == edition)
    return session.execute(decision).first() is not None


def copy_of(
    session: Session,
    site: Site,
    subscriber: Subscriber,
    schedule: Schedule,
    decision: Decision,
    now: datetime,
) -> Copy:
    """Return the one copy of this digest; of an edition still to come as it will be when that is due."""
    chosen_by = {section.filter_id for section in decision.digest.sections} - {None}
    found = session.execute(select(FilterRow.id, FilterRow.canonical).where(FilterRow.id.in_(chosen_by)))
    return copies.digest_copy(
        site,
        delivery_id=0,
        subscriber_id=subscriber.id,
        epoch=subscriber.epoch,
        email=subscriber.email,
        edition=decision.edition.name,
        dated_at=max(now, decision.edition.due_at),
        schedule=schedule,
        key_id=site.signing_key_id,
        filters={row[0]: row[1] for row in found},
    )


def in_words(made: Press, decision: Decision, filters: Mapping[int, str]) -> dict[str, Any]:
    """Return the decision as `digest.json` has it."""
    return {
        "email": decision.reader.email,
        "edition": decision.edition.name,
        "due_at": decision.edition.due_at.isoformat(),
        "checked": decision.digest.checked,
        "sections": [
            {
                "topic": section.topic,
                "filter": filters.get(section.filter_id) if section.filter_id is not None else None,
                "more": section.more,
                "papers": [paper_in_words(made, number) for number in section.papers],
            }
            for section in decision.digest.sections
        ],
        "news": [
            {"id": one.paper, "title": one.title, "became": one.kind, "says": one.says}
            for one in decision.digest.news
        ],
        "offer": decision.digest.offer._asdict() if decision.digest.offer else None,
    }


def paper_in_words(made: Press, paper_id: int) -> dict[str, Any]:
    """Return one chosen paper as `digest.json` has it."""
    number = made.number[paper_id]
    paper = made.papers[number]
    return {
        "id": paper.id,
        "title": paper.title,
        "ids": dict(paper.ids),
        "score": round(made.scores[number], 4),
        "trending": number + 1,
        "reasons": list(made.reasons[number]),
    }
