"""Rows written by hundreds: who is suppressed, who stands here already, and who is new.

Every question and every change is one statement for all of them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from sqlalchemy import delete, select
from sqlalchemy.orm import Session

from digest import bounces, db
from digest.links import Site
from digest.model import Consent, FilterRow, Subscriber, SubscriberState, Subscription
from digest.subscriptions import filters, inviting, people
from digest.subscriptions.importing.cells import Checked, Wanted, schedule_in
from digest.subscriptions.importing.merging import Merged, merged, topics_after
from digest.subscriptions.importing.reports import Imported
from digest.subscriptions.inviting import Invitee

Layer = dict[str, Wanted]  #: rows by the folded address: each stands there once

AGREED = frozenset({SubscriberState.ACTIVE, SubscriberState.PAUSED})

PERSON: Any = Subscriber.__table__
HELD: Any = Subscription.__table__
STANDING = select(
    *(
        PERSON.c[name]
        for name in (
            "id", "email", "email_key", "name", "state", "cadence", "at", "timezone", "weekday", "not_after",
        )
    )
).where(db.among(PERSON.c.email_key, db.many("keys", PERSON.c.email_key)))  # fmt: skip
TOPICS = (
    select(HELD.c.subscriber_id, HELD.c.name, FilterRow.canonical, HELD.c.typed)
    .join(FilterRow, FilterRow.id == HELD.c.filter_id)
    .where(db.among(HELD.c.subscriber_id, db.many("ids", HELD.c.subscriber_id)))
    .order_by(HELD.c.subscriber_id, HELD.c.position)
)


@dataclass(frozen=True, slots=True)
class Desk:
    """What an import has at hand, and what it has come to."""

    session: Session
    site: Site
    consent: str  #: how the active ones agreed
    invited_by: str
    now: datetime
    moments: Iterator[datetime]  #: when the next invitations may go
    done: Imported = field(default_factory=Imported)


def write(desk: Desk, layer: Layer) -> None:
    """Write some rows, each address once, and count what became of them."""
    allowed = without_suppressed(desk, layer)
    stands = standing(desk.session, allowed)
    merge(desk, [(stands[key], wanted) for key, wanted in allowed.items() if key in stands])
    late = add(desk, {key: wanted for key, wanted in allowed.items() if key not in stands})
    if late:
        write(desk, late)


def without_suppressed(desk: Desk, layer: Layer) -> Layer:
    """Return the rows but those whose address must not be written to, which are told."""
    barred = bounces.suppressed(desk.session, desk.site, [row.address.email for row in layer.values()])
    for wanted in layer.values():
        if wanted.address.email in barred:
            desk.done.reject(
                wanted.line, f"email: {wanted.address.email} is suppressed; nothing is sent to it."
            )
    return {key: wanted for key, wanted in layer.items() if wanted.address.email not in barred}


def standing(session: Session, keys: Iterable[str]) -> dict[str, Any]:
    """Return those who subscribed already by their folded address, as plain rows."""
    return {row.email_key: row for row in session.connection().execute(STANDING, {"keys": list(keys)})}


# ── who stands here already ─────────────────────────────────────────────────────────────────────


def merge(desk: Desk, pairs: Collection[tuple[Any, Wanted]]) -> None:
    """Bring those who stand here to what their rows say, as far as rows may."""
    held = topics_held(desk.session, [there.id for there, _ in pairs])
    pending, changes = [], []
    for there, wanted in pairs:
        if there.state == SubscriberState.UNSUBSCRIBED and wanted.state == SubscriberState.ACTIVE:
            desk.done.reject(wanted.line, f"state: {wanted.address.email} has left; only they can come back.")
            continue
        one = merged(there, held.get(there.id, ()), wanted, desk.now)
        if one.is_change:
            changes.append(one)
        else:
            desk.done.unchanged += 1
        if there.state == wanted.state == SubscriberState.PENDING:
            pending.append(invitee(there.id, there.email, there.email_key, one.topics))
    desk.done.updated += len(changes)
    change(desk, changes)
    invite(desk, inviting.never_asked(desk.session, pending))


def topics_held(session: Session, ids: Collection[int]) -> dict[int, Checked]:
    """Return the topics of each subscriber, in the form in which rows bring them."""
    held: defaultdict[int, list[tuple[str, str, str]]] = defaultdict(list)
    if ids:
        for subscriber_id, *topic in session.connection().execute(TOPICS, {"ids": ids}):
            held[subscriber_id].append((topic[0], topic[1], topic[2]))
    return {subscriber_id: tuple(topics) for subscriber_id, topics in held.items()}


def change(desk: Desk, changes: Iterable[Merged]) -> None:
    """Write what changes, and nothing of what stays."""
    alike = defaultdict(list)
    for one in changes:
        alike[tuple(one.columns)].append({"id": one.there.id, **one.columns})
    for names, rows in alike.items():
        if names:
            db.change_many(desk.session, Subscriber, rows)
    put_consents(desk, [one.there.id for one in changes if "confirmed_at" in one.columns])
    topics = {one.there.id: one.topics for one in changes if one.has_new_topics}
    if topics:
        desk.session.execute(delete(HELD).where(db.among(HELD.c.subscriber_id, topics)))
        put_topics(desk.session, topics)


# ── who is new ──────────────────────────────────────────────────────────────────────────────────

SAID = ("name", "cadence", "at", "timezone", "weekday")  #: by a row, of what has a default

#: The other defaults: what is written past the mapping brings none along.
USUAL = {
    column.name: column.default.arg
    for column in PERSON.c
    if column.default is not None and column.name not in SAID
}


def add(desk: Desk, new: Layer) -> Layer:
    """Add those who are not here, with their topics and the proof of their consent.

    Return those whom somebody else added meanwhile: their rows are to be looked at again.
    """
    rows = [as_row(wanted, desk.now) for wanted in new.values()]
    same = {**USUAL, "created_at": desk.now}
    written = db.put_many(
        desk.session, Subscriber, rows, same=same, key=("email_key",), returning=("id", "email_key")
    )
    ids = {row.email_key: row.id for row in written}
    added = [(ids[key], wanted, topics_after(wanted, ())) for key, wanted in new.items() if key in ids]
    desk.done.added += len(added)
    put_topics(desk.session, {number: topics for number, _, topics in added})
    put_consents(desk, [number for number, wanted, _ in added if wanted.state in AGREED])
    invite(
        desk,
        [
            invitee(number, wanted.address.email, wanted.address.key, topics)
            for number, wanted, topics in added
            if wanted.state == SubscriberState.PENDING
        ],
    )
    return {key: wanted for key, wanted in new.items() if key not in ids}


def as_row(wanted: Wanted, now: datetime) -> dict[str, Any]:
    """Return a new subscriber as the columns to insert."""
    schedule = schedule_in(wanted.cadence or "daily", wanted.at or "08:00", wanted.timezone or "UTC")
    return {
        "email_key": wanted.address.key,
        "email": wanted.address.email,
        "name": wanted.name or "",
        "state": wanted.state,
        "confirmed_at": now if wanted.state in AGREED else None,
        "left_at": now if wanted.state == SubscriberState.UNSUBSCRIBED else None,
        **people.columns(schedule),
    }


# ── what both get ───────────────────────────────────────────────────────────────────────────────


def put_consents(desk: Desk, ids: Iterable[int]) -> None:
    """Keep the proof that these agreed."""
    rows = [{"subscriber_id": number} for number in ids]
    db.put_many(desk.session, Consent, rows, same={"given_at": desk.now, "how": desk.consent})


def put_topics(session: Session, topics: Mapping[int, Checked]) -> None:
    """Add the topics of many subscribers."""
    wanted = {canonical for theirs in topics.values() for _, canonical, _ in theirs}
    numbers = filters.filter_ids(session, wanted)
    rows = [
        {
            "subscriber_id": subscriber_id,
            "position": position,
            "name": name,
            "filter_id": numbers[canonical],
            "typed": typed,
        }
        for subscriber_id, theirs in topics.items()
        for position, (name, canonical, typed) in enumerate(theirs)
    ]
    db.put_many(session, Subscription, rows)


def invitee(number: int, email: str, email_key: str, topics: Checked) -> Invitee:
    """Return somebody who may be asked."""
    return Invitee(id=number, email=email, email_key=email_key, topics=tuple(name for name, _, _ in topics))


def invite(desk: Desk, invitees: Collection[Invitee]) -> None:
    """Ask those who were never asked."""
    desk.done.invited += inviting.invite(
        desk.session, desk.site, invitees, by=desk.invited_by, moments=desk.moments, now=desk.now
    )
