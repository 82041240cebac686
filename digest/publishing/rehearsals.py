"""Rehearsals: every due digest, composed and set as a run would; nothing is sent, nothing is kept.

A rehearsal is compared with another one, or with what everybody was last sent: before templates,
topics or weights go live, one sees who gains and who loses mail.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import func, or_, select
from sqlalchemy.orm import Session

from digest import copies, press, presses, subscriptions
from digest.composition import Digest
from digest.errors import NotFound
from digest.links import Site
from digest.model import Delivery, DeliveryState, FilterRow, Subscriber
from digest.publishing import quiet
from digest.publishing.deciding import decide, slot_for, waits
from digest.publishing.gathering import COLUMNS, desk_of, gather, is_due, reach
from digest.publishing.previews import Preview, is_decided, previewed
from digest.publishing.values import Reader
from digest.rendering import Templates
from digest.rendering.dkim import Signer

AT_ONCE = 500  #: subscribers looked at together


@dataclass(frozen=True, kw_only=True, slots=True)
class Played:
    """What one subscriber gets, in figures. `letter` is empty where nothing is sent."""

    email: str
    edition: str
    letter: str
    papers: int
    bytes: int | None  #: of the whole message; None where it cannot be set any more
    subject: str | None
    file: str = ""  #: the name of its files, without their endings

    def to_json(self) -> dict[str, Any]:
        """Return the same as `rehearsal.json` has it."""
        return asdict(self)


def rehearse(
    session: Session, *, site: Site, templates: Templates, signers: Sequence[Signer] = (), now: datetime
) -> Iterator[tuple[Played, Preview]]:
    """Yield everybody who is due at `now` with what a run would make for them. Changes nothing."""
    asleep = [subscriber.id for subscriber in subscriptions.sleepers_due(session, now)]
    due, earliest = reach(session, now)
    if not due and not asleep:
        return
    since = presses.since(now, earliest)
    made, _ = presses.fitting(session, site=site, templates=templates, now=now, since=since)
    desk, last_id = desk_of(session, made), 0
    wanted = select(*COLUMNS).where(or_(is_due(now), Subscriber.id.in_(asleep))).order_by(Subscriber.id)
    while found := session.execute(wanted.where(Subscriber.id > last_id).limit(AT_ONCE)).all():
        readers = [Reader._make(row) for row in found]
        gathered = gather(session, desk, readers, now)
        for reader in readers:
            edition = slot_for(reader, now).open
            if edition is None or is_decided(session, reader.id, edition.name):
                continue
            decision = decide(desk, gathered, reader, edition, now, site=site)
            if waits(decision):
                continue
            subscriber = session.get_one(Subscriber, reader.id)
            preview = previewed(session, site, templates, signers, subscriber, made, decision, now)
            letter = "digest" if preview.digest.sections else "quiet" if quiet.is_told(decision, now) else ""
            yield played(reader.id, reader.email, letter, preview), preview
        last_id = readers[-1].id
        session.expunge_all()


def played(subscriber_id: int, email: str, letter: str, preview: Preview) -> Played:
    """Return what one subscriber would get, in figures."""
    return Played(
        email=email,
        edition=preview.edition.name,
        letter=letter,
        papers=len(preview.digest.papers),
        bytes=len(preview.message) if letter else 0,
        subject=preview.letter.subject if letter else "",
        file=str(subscriber_id) if letter else "",
    )


def last_run(session: Session, *, site: Site) -> Iterator[Played]:
    """Yield what was last decided for each subscriber, set again with the press of then where that is kept."""
    latest = (
        select(func.max(Delivery.id))
        .where(Delivery.edition.is_not(None), Delivery.state != DeliveryState.EXPIRED)
        .group_by(Delivery.subscriber_id)
    )
    found = select(Delivery, Subscriber).join(Subscriber, Subscriber.id == Delivery.subscriber_id)
    for delivery, subscriber in session.execute(found.where(Delivery.id.in_(latest))):
        digest = Digest.from_json(delivery.decision)
        size, subject = set_again(session, site, delivery, subscriber, digest) if digest.sections else (0, "")
        yield Played(
            email=subscriber.email,
            edition=delivery.edition or "",
            letter="digest" if digest.sections else "",
            papers=len(digest.papers),
            bytes=size,
            subject=subject,
        )


def set_again(
    session: Session, site: Site, delivery: Delivery, subscriber: Subscriber, digest: Digest
) -> tuple[int | None, str | None]:
    """Return the size and the subject of a digest that was decided before; None of a press that is gone."""
    try:
        made = presses.load(session, delivery.press or "")
    except NotFound:
        return None, None
    chosen_by = {section.filter_id for section in digest.sections} - {None}
    filters = session.execute(select(FilterRow.id, FilterRow.canonical).where(FilterRow.id.in_(chosen_by)))
    copy = copies.digest_copy(
        site,
        delivery_id=delivery.id,
        subscriber_id=subscriber.id,
        epoch=subscriber.epoch,
        email=subscriber.email,
        edition=delivery.edition or "",
        dated_at=delivery.dated_at,
        schedule=subscriptions.schedule_of(subscriber),
        key_id=delivery.key_id,
        filters={row[0]: row[1] for row in filters},
    )
    message = press.digest_message(made, site, digest, copy)
    return len(message), press.digest_letter(made, site, digest, copy).subject


@dataclass(frozen=True, kw_only=True, slots=True)
class Difference:
    """What changes from one rehearsal or run to another, by address."""

    gains: tuple[str, ...]  #: get mail now, and got none
    loses: tuple[str, ...]
    changed: tuple[dict[str, Any], ...]  #: {email, papers, bytes, subject}, each as [before, after]
    same: int
    mails: tuple[int, int]  #: before, after
    papers: tuple[int, int]
    bytes: tuple[int, int]

    def to_json(self) -> dict[str, Any]:
        """Return the same as plain values."""
        return asdict(self)


def differ(before: Iterable[Played], after: Iterable[Played]) -> Difference:
    """Return who gains and loses mail, and what changes for everybody else."""
    old, new = mailed(before), mailed(after)
    both = sorted(old.keys() & new.keys())
    changed = tuple(one for email in both if (one := change_of(old[email], new[email])) is not None)
    return Difference(
        gains=tuple(sorted(new.keys() - old.keys())),
        loses=tuple(sorted(old.keys() - new.keys())),
        changed=changed,
        same=len(both) - len(changed),
        mails=(len(old), len(new)),
        papers=(sum(one.papers for one in old.values()), sum(one.papers for one in new.values())),
        bytes=(sum(one.bytes or 0 for one in old.values()), sum(one.bytes or 0 for one in new.values())),
    )


def mailed(some: Iterable[Played]) -> Mapping[str, Played]:
    """Return those who get something, by address."""
    return {one.email: one for one in some if one.letter}


def change_of(old: Played, new: Played) -> dict[str, Any] | None:
    """Return what is not the same for one subscriber, or None."""
    named = {name: [getattr(old, name), getattr(new, name)] for name in ("papers", "bytes", "subject")}
    found = {name: pair for name, pair in named.items() if None not in pair and pair[0] != pair[1]}
    return {"email": new.email, **found} if found else None
