"""Write a batch of checked rows, which suppress addresses, change subscribers or add subscribers.

Each query or change is a single statement for the whole batch.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Set
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from sqlalchemy import delete, select, update
from sqlalchemy.orm import Session

from digest import db
from digest.bounces import opt_outs, suppressions
from digest.bounces.opt_outs import OptOutKind
from digest.bounces.suppressions import SuppressionReason
from digest.db.tables.subscribers import (
    SUBSCRIBED,
    Consent,
    FilterRow,
    OperatorAct,
    Subscriber,
    SubscriberState,
    Subscription,
)
from digest.site.site_profile import Site
from digest.subscribers import invitations, reader_settings, subscriber_topics
from digest.subscribers.csv_import.import_report import ImportReport
from digest.subscribers.csv_import.merge_row import (
    MergedSubscriber,
    merge_row,
    returning_columns,
    row_of_sync,
    topics_after,
)
from digest.subscribers.csv_import.row_values import CheckedTopics, ImportRow
from digest.subscribers.invitations import Invitee
from digest.subscribers.reader_settings import NOTHING_GIVEN
from digest.topics import filter_registry

UniqueRows = dict[str, ImportRow]  #: rows keyed by folded address, so that no address is repeated


SUBSCRIBER_TABLE: Any = Subscriber.__table__
SUBSCRIPTION_TABLE: Any = Subscription.__table__
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
    """The values shared by all steps of an import, including its report."""

    session: Session
    site: Site
    consent: str  #: how active subscribers agreed to get digests
    invited_by: str
    operator: str
    is_sync: bool
    is_dry_run: bool
    now: datetime
    moments: Iterator[datetime]  #: due times of the next invitations
    report: ImportReport = field(default_factory=ImportReport)
    rejected_keys: list[str] = field(default_factory=list)  #: folded addresses of rejected rows


def write_unique_rows(state: ImportState, unique: UniqueRows) -> None:
    """Write rows with distinct addresses, and count the outcomes."""
    suppressed = suppressions.find_suppressed(
        state.session, state.site, [row.address.email for row in unique.values()]
    )
    if state.is_sync:
        mark_listed(state, unique)
    suppress_rows(state, [row for row in unique.values() if row.is_suppressed], suppressed)
    people = {key: row for key, row in unique.items() if not row.is_suppressed}
    allowed = without_suppressed(state, people, suppressed)
    existing = load_existing(state.session, allowed)
    merge_rows(state, [(existing[key], row) for key, row in allowed.items() if key in existing])
    added_by_others = add_rows(state, {key: row for key, row in allowed.items() if key not in existing})
    if added_by_others:
        write_unique_rows(state, added_by_others)


def suppress_rows(state: ImportState, rows: Collection[ImportRow], suppressed: Collection[str]) -> None:
    """Suppress the addresses of these rows."""
    new = [row.address.email for row in rows if row.address.email not in suppressed]
    suppressions.suppress_many(
        state.session,
        state.site,
        new,
        SuppressionReason.OPERATOR,
        "suppressed in an imported file",
        state.now,
    )
    state.report.suppressed += len(new)
    state.report.unchanged += len(rows) - len(new)


def without_suppressed(state: ImportState, unique: UniqueRows, suppressed: Collection[str]) -> UniqueRows:
    """Return the rows whose addresses are not suppressed; reject the others, or only count them in a sync."""
    for row in unique.values():
        if row.address.email in suppressed and state.is_sync:
            state.report.kept_out += 1
        elif row.address.email in suppressed:
            state.report.reject(row.line, f"email: {row.address.email} is suppressed; nothing is sent to it.")
    return {key: row for key, row in unique.items() if row.address.email not in suppressed}


def load_existing(session: Session, keys: Iterable[str]) -> dict[str, Any]:
    """Return the existing subscribers as plain rows, keyed by folded address."""
    names = (
        "id", "email", "email_key", "state", "name", "owner_email", "confirmed_at", "is_removed_by_sync", "link_version",
        *NOTHING_GIVEN.columns,
    )  # fmt: skip
    key = SUBSCRIBER_TABLE.c.email_key
    query = select(*(SUBSCRIBER_TABLE.c[name] for name in names)).where(db.one_of(key, list(keys)))
    return {row.email_key: row for row in session.connection().execute(query)}


# ── existing subscribers ────────────────────────────────────────────────────────────────────────


def merge_rows(state: ImportState, pairs: Collection[tuple[Any, ImportRow]]) -> None:
    """Apply each row to the existing subscriber paired with it."""
    held = load_topics(state.session, [existing.id for existing, _ in pairs])
    pending, changes = [], []
    for existing, given in pairs:
        row = row_of_sync(existing, given) if state.is_sync else given
        if existing.state == SubscriberState.UNSUBSCRIBED and row.state == SubscriberState.ACTIVE:
            state.report.reject(
                row.line, f"state: {row.address.email} has unsubscribed; only they can subscribe again."
            )
            continue
        one = merge_row(existing, held.get(existing.id, ()), row, state.now)
        if state.is_sync and existing.is_removed_by_sync:
            one = replace(one, columns=one.columns | returning_columns(existing))
        if one.is_change:
            changes.append(one)
            state.report.note_changed(existing.email)
        elif state.is_sync and existing.state == SubscriberState.UNSUBSCRIBED:
            state.report.kept_out += 1
        else:
            state.report.unchanged += 1
        if existing.state == row.state == SubscriberState.PENDING:
            contact = row.owner_email or existing.owner_email or existing.email
            pending.append(make_invitee(existing.id, contact, existing.email_key, one.topics))
    state.report.updated += len(changes)
    write_changes(state, changes)
    invite_new(state, invitations.never_asked(state.session, pending))


def load_topics(session: Session, ids: Collection[int]) -> dict[int, CheckedTopics]:
    """Return {subscriber id: topics}, in the form that `ImportRow` uses."""
    held: defaultdict[int, list[tuple[str, str, str]]] = defaultdict(list)
    if ids:
        for subscriber_id, *topic in session.connection().execute(TOPICS_QUERY, {"ids": ids}):
            held[subscriber_id].append((topic[0], topic[1], topic[2]))
    return {subscriber_id: tuple(topics) for subscriber_id, topics in held.items()}


def write_changes(state: ImportState, changes: Collection[MergedSubscriber]) -> None:
    """Write the changed columns and topics, and record the opt-outs and consents."""
    rows_by_columns = defaultdict(list)
    for one in changes:
        rows_by_columns[tuple(one.columns)].append({"id": one.existing.id, **one.columns})
    for names, rows in rows_by_columns.items():
        if names:
            db.update_many(state.session, Subscriber, rows)
    left = [one.existing.id for one in changes if one.columns.get("state") == SubscriberState.UNSUBSCRIBED]
    back = [one.existing.id for one in changes if "is_removed_by_sync" in one.columns]
    opt_outs.record_subscribers(state.session, OptOutKind.UNSUBSCRIBED, left, now=state.now)
    opt_outs.record_subscribers(state.session, OptOutKind.RESUBSCRIBED, back, now=state.now)
    insert_consents(state, {one.existing.id: one.row for one in changes if "confirmed_at" in one.columns})
    record_acts(state, [one.existing.id for one in changes], "changed by an import")
    topics = {one.existing.id: one.topics for one in changes if one.has_new_topics}
    if topics:
        known = subscriber_topics.muted_topics(state.session, topics)
        muted = {number: {name.casefold() for name in names} for number, names in known.items()}
        muted |= {one.existing.id: set(one.row.muted) for one in changes if one.row.muted is not None}
        state.session.execute(
            delete(SUBSCRIPTION_TABLE).where(db.one_of(SUBSCRIPTION_TABLE.c.subscriber_id, topics))
        )
        insert_topics(state.session, topics, muted)


def mark_listed(state: ImportState, keys: Collection[str]) -> None:
    """Record that the synchronized list contains these addresses."""
    listed = db.one_of(SUBSCRIBER_TABLE.c.email_key, list(keys))
    state.session.execute(update(SUBSCRIBER_TABLE).where(listed).values(synced_at=state.now))


# ── new subscribers ─────────────────────────────────────────────────────────────────────────────

#: The defaults of the mapped class; a Core insert does not apply them.
DEFAULTS = {column.name: column.default.arg for column in SUBSCRIBER_TABLE.c if column.default is not None}


def add_rows(state: ImportState, new: UniqueRows) -> UniqueRows:
    """Add new subscribers with their topics and consents.

    Returns the rows of subscribers that another process added in the meantime, which must be merged instead.
    """
    rows = [subscriber_row(row, state.now) for row in new.values()]
    shared = {name: value for name, value in DEFAULTS.items() if name not in rows[0]} if rows else {}
    shared |= {"created_at": state.now, "synced_at": state.now if state.is_sync else None}
    written = db.insert_many(
        state.session, Subscriber, rows, shared=shared, key=("email_key",), returning=("id", "email_key")
    )
    ids = {row.email_key: row.id for row in written}
    added = [(ids[key], row, topics_after(row, ())) for key, row in new.items() if key in ids]
    state.report.added += len(added)
    state.report.note_added(row.address.email for _, row, _ in added)
    muted = {number: row.muted or frozenset() for number, row, _ in added}
    insert_topics(state.session, {number: topics for number, _, topics in added}, muted)
    insert_consents(state, {number: row for number, row, _ in added if row.state in SUBSCRIBED})
    record_acts(state, ids.values(), "added by an import")
    invite_new(
        state,
        [
            make_invitee(number, row.owner_email or row.address.email, row.address.folded, topics)
            for number, row, topics in added
            if row.state == SubscriberState.PENDING
        ],
    )
    return {key: row for key, row in new.items() if key not in ids}


def subscriber_row(row: ImportRow, now: datetime) -> dict[str, Any]:
    """Return the column values of a subscriber to be added."""
    return {
        "email_key": row.address.folded,
        "email": row.address.email,
        "name": row.name or "",
        "owner_email": row.owner_email,
        **reader_settings.columns_of({**reader_settings.defaults(), **row.texts}),
        "state": row.state,
        "paused_until": row.paused_until if row.state == SubscriberState.PAUSED else None,
        "confirmed_at": min(row.confirmed_at or now, now) if row.state in SUBSCRIBED else None,
        "unsubscribed_at": now if row.state == SubscriberState.UNSUBSCRIBED else None,
    }


def record_acts(state: ImportState, ids: Iterable[int], act: str) -> None:
    """Record what the operator did to these subscribers."""
    shared = {"at": state.now, "operator": state.operator, "act": act}
    db.insert_many(state.session, OperatorAct, [{"subscriber_id": number} for number in ids], shared=shared)


# ── consents, topics, invitations ───────────────────────────────────────────────────────────────


def insert_consents(state: ImportState, given: Mapping[int, ImportRow]) -> None:
    """Record how these subscribers agreed, as described in the file or otherwise by the operator."""
    rows = [
        {
            "subscriber_id": number,
            "given_at": min(row.confirmed_at or state.now, state.now),
            "how": row.consent or state.consent,
        }
        for number, row in given.items()
    ]
    db.insert_many(state.session, Consent, rows)


def insert_topics(
    session: Session, topics: Mapping[int, CheckedTopics], muted: Mapping[int, Set[str]]
) -> None:
    """Add the topics of many subscribers; mute those whose case-folded names are in `muted`."""
    filters = {canonical for held in topics.values() for _, canonical, _ in held}
    numbers = filter_registry.filter_ids(session, filters)
    rows = [
        {
            "subscriber_id": subscriber_id,
            "position": position,
            "name": name,
            "filter_id": numbers[canonical],
            "typed": typed,
            "is_muted": name.casefold() in muted.get(subscriber_id, ()),
        }
        for subscriber_id, held in topics.items()
        for position, (name, canonical, typed) in enumerate(held)
    ]
    db.insert_many(session, Subscription, rows)


def make_invitee(number: int, email: str, email_key: str, topics: CheckedTopics) -> Invitee:
    """Convert the row of a pending subscriber to an invitee."""
    return Invitee(id=number, email=email, email_key=email_key, topics=tuple(name for name, _, _ in topics))


def invite_new(state: ImportState, invitees: Collection[Invitee]) -> None:
    """Queue an invitation for each imported subscriber without an earlier one."""
    state.report.invited += invitations.queue_invitations(
        state.session, state.site, invitees, invited_by=state.invited_by, moments=state.moments, now=state.now
    )
