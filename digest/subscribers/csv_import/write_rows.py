"""Write a batch of checked rows: suppressed addresses, existing subscribers and new subscribers.

Each query and each change is one statement for the whole batch.
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
from digest.db.tables import AbstractLength, Consent, FilterRow, Subscriber, SubscriberState, Subscription
from digest.site_profile import Site
from digest.subscribers import invitations, subscriber_rows
from digest.subscribers.csv_import.import_report import ImportReport
from digest.subscribers.csv_import.merge_row import MergedSubscriber, merge_row, topics_after
from digest.subscribers.csv_import.row_values import CheckedTopics, ImportRow, cached_schedule
from digest.subscribers.invitations import Invitee
from digest.topics import filter_registry

Layer = dict[str, ImportRow]  #: rows by folded address, so addresses are unique

CONSENTING_STATES = frozenset({SubscriberState.ACTIVE, SubscriberState.PAUSED})

SUBSCRIBER_TABLE: Any = Subscriber.__table__
SUBSCRIPTION_TABLE: Any = Subscription.__table__
EXISTING_QUERY = select(
    *(
        SUBSCRIBER_TABLE.c[name]
        for name in (
            "id", "email", "email_key", "name", "state", "cadence", "at", "timezone", "weekday", "not_after",
            "abstracts",
        )
    )
).where(db.one_of(SUBSCRIBER_TABLE.c.email_key, db.values_param("keys", SUBSCRIBER_TABLE.c.email_key)))  # fmt: skip
TOPICS_QUERY = (
    select(
        SUBSCRIPTION_TABLE.c.subscriber_id,
        SUBSCRIPTION_TABLE.c.name,
        FilterRow.canonical,
        SUBSCRIPTION_TABLE.c.typed,
    )
    .join(FilterRow, FilterRow.id == SUBSCRIPTION_TABLE.c.filter_id)
    .where(
        db.one_of(
            SUBSCRIPTION_TABLE.c.subscriber_id, db.values_param("ids", SUBSCRIPTION_TABLE.c.subscriber_id)
        )
    )
    .order_by(SUBSCRIPTION_TABLE.c.subscriber_id, SUBSCRIPTION_TABLE.c.position)
)


@dataclass(frozen=True, slots=True)
class ImportState:
    """The state shared by all steps of an import, including its report."""

    session: Session
    site: Site
    consent: str  #: how active subscribers agreed
    invited_by: str
    now: datetime
    moments: Iterator[datetime]  #: times at which the next invitations are due
    report: ImportReport = field(default_factory=ImportReport)


def write_layer(state: ImportState, layer: Layer) -> None:
    """Write rows with distinct addresses, and count their outcomes."""
    suppressed = bounces.find_suppressed(
        state.session, state.site, [row.address.email for row in layer.values()]
    )
    suppress_rows(state, [row for row in layer.values() if row.is_suppressed], suppressed)
    people = {key: row for key, row in layer.items() if not row.is_suppressed}
    allowed = without_suppressed(state, people, suppressed)
    existing = load_existing(state.session, allowed)
    merge_rows(state, [(existing[key], row) for key, row in allowed.items() if key in existing])
    added_by_others = add_rows(state, {key: row for key, row in allowed.items() if key not in existing})
    if added_by_others:
        write_layer(state, added_by_others)


def suppress_rows(state: ImportState, rows: Collection[ImportRow], suppressed: Collection[str]) -> None:
    """Suppress the addresses of these rows."""
    new = [row.address.email for row in rows if row.address.email not in suppressed]
    bounces.suppress_many(
        state.session,
        state.site,
        new,
        bounces.SuppressionReason.OPERATOR,
        "suppressed in an imported file",
        state.now,
    )
    state.report.suppressed += len(new)
    state.report.unchanged += len(rows) - len(new)


def without_suppressed(state: ImportState, layer: Layer, suppressed: Collection[str]) -> Layer:
    """Return the rows except those of suppressed addresses, which are rejected."""
    for row in layer.values():
        if row.address.email in suppressed:
            state.report.reject(row.line, f"email: {row.address.email} is suppressed; nothing is sent to it.")
    return {key: row for key, row in layer.items() if row.address.email not in suppressed}


def load_existing(session: Session, keys: Iterable[str]) -> dict[str, Any]:
    """Return the existing subscribers by folded address, as plain rows."""
    return {row.email_key: row for row in session.connection().execute(EXISTING_QUERY, {"keys": list(keys)})}


# ── existing subscribers ────────────────────────────────────────────────────────────────────────


def merge_rows(state: ImportState, pairs: Collection[tuple[Any, ImportRow]]) -> None:
    """Apply rows to existing subscribers."""
    held = load_topics(state.session, [existing.id for existing, _ in pairs])
    pending, changes = [], []
    for existing, row in pairs:
        if existing.state == SubscriberState.UNSUBSCRIBED and row.state == SubscriberState.ACTIVE:
            state.report.reject(
                row.line, f"state: {row.address.email} has unsubscribed; only they can subscribe again."
            )
            continue
        one = merge_row(existing, held.get(existing.id, ()), row, state.now)
        if one.is_change:
            changes.append(one)
        else:
            state.report.unchanged += 1
        if existing.state == row.state == SubscriberState.PENDING:
            pending.append(make_invitee(existing.id, existing.email, existing.email_key, one.topics))
    state.report.updated += len(changes)
    write_changes(state, changes)
    invite_new(state, invitations.never_asked(state.session, pending))


def load_topics(session: Session, ids: Collection[int]) -> dict[int, CheckedTopics]:
    """Return the topics of each subscriber, in the same form as in rows."""
    held: defaultdict[int, list[tuple[str, str, str]]] = defaultdict(list)
    if ids:
        for subscriber_id, *topic in session.connection().execute(TOPICS_QUERY, {"ids": ids}):
            held[subscriber_id].append((topic[0], topic[1], topic[2]))
    return {subscriber_id: tuple(topics) for subscriber_id, topics in held.items()}


def write_changes(state: ImportState, changes: Iterable[MergedSubscriber]) -> None:
    """Write only the changed columns and topics."""
    rows_by_columns = defaultdict(list)
    for one in changes:
        rows_by_columns[tuple(one.columns)].append({"id": one.existing.id, **one.columns})
    for names, rows in rows_by_columns.items():
        if names:
            db.update_many(state.session, Subscriber, rows)
    insert_consents(state, [one.existing.id for one in changes if "confirmed_at" in one.columns])
    topics = {one.existing.id: one.topics for one in changes if one.has_new_topics}
    if topics:
        state.session.execute(
            delete(SUBSCRIPTION_TABLE).where(db.one_of(SUBSCRIPTION_TABLE.c.subscriber_id, topics))
        )
        insert_topics(state.session, topics)


# ── new subscribers ─────────────────────────────────────────────────────────────────────────────

GIVEN_COLUMNS = ("name", "cadence", "at", "timezone", "weekday", "abstracts")  #: columns with defaults

#: The other defaults, because a Core insert does not apply the defaults of the mapping.
DEFAULT_VALUES = {
    column.name: column.default.arg
    for column in SUBSCRIBER_TABLE.c
    if column.default is not None and column.name not in GIVEN_COLUMNS
}


def add_rows(state: ImportState, new: Layer) -> Layer:
    """Add new subscribers with their topics and consents.

    Returns the rows of subscribers that another process added at the same time; they must be merged instead.
    """
    rows = [subscriber_row(row, state.now) for row in new.values()]
    shared = {**DEFAULT_VALUES, "created_at": state.now}
    written = db.insert_many(
        state.session, Subscriber, rows, shared=shared, key=("email_key",), returning=("id", "email_key")
    )
    ids = {row.email_key: row.id for row in written}
    added = [(ids[key], row, topics_after(row, ())) for key, row in new.items() if key in ids]
    state.report.added += len(added)
    insert_topics(state.session, {number: topics for number, _, topics in added})
    insert_consents(state, [number for number, row, _ in added if row.state in CONSENTING_STATES])
    invite_new(
        state,
        [
            make_invitee(number, row.address.email, row.address.folded, topics)
            for number, row, topics in added
            if row.state == SubscriberState.PENDING
        ],
    )
    return {key: row for key, row in new.items() if key not in ids}


def subscriber_row(row: ImportRow, now: datetime) -> dict[str, Any]:
    """Return a new subscriber as the columns to insert."""
    schedule = cached_schedule(cadence=row.cadence, at=row.at, timezone=row.timezone)
    return {
        "email_key": row.address.folded,
        "email": row.address.email,
        "name": row.name or "",
        "abstracts": row.abstracts or AbstractLength.SHORT,
        "state": row.state,
        "confirmed_at": now if row.state in CONSENTING_STATES else None,
        "unsubscribed_at": now if row.state == SubscriberState.UNSUBSCRIBED else None,
        **subscriber_rows.schedule_columns(schedule),
    }


# ── consents, topics, invitations ───────────────────────────────────────────────────────────────


def insert_consents(state: ImportState, ids: Iterable[int]) -> None:
    """Record how these subscribers agreed."""
    rows = [{"subscriber_id": number} for number in ids]
    db.insert_many(state.session, Consent, rows, shared={"given_at": state.now, "how": state.consent})


def insert_topics(session: Session, topics: Mapping[int, CheckedTopics]) -> None:
    """Add the topics of many subscribers."""
    filters = {canonical for held in topics.values() for _, canonical, _ in held}
    numbers = filter_registry.filter_ids(session, filters)
    rows = [
        {
            "subscriber_id": subscriber_id,
            "position": position,
            "name": name,
            "filter_id": numbers[canonical],
            "typed": typed,
        }
        for subscriber_id, held in topics.items()
        for position, (name, canonical, typed) in enumerate(held)
    ]
    db.insert_many(session, Subscription, rows, shared={"is_muted": False})


def make_invitee(number: int, email: str, email_key: str, topics: CheckedTopics) -> Invitee:
    """Return a pending subscriber as an invitee."""
    return Invitee(id=number, email=email, email_key=email_key, topics=tuple(name for name, _, _ in topics))


def invite_new(state: ImportState, invitees: Collection[Invitee]) -> None:
    """Queue an invitation for each imported person who has not been invited yet."""
    state.report.invited += invitations.queue_invitations(
        state.session, state.site, invitees, invited_by=state.invited_by, moments=state.moments, now=state.now
    )
