"""Synchronize subscribers with a list: remove the members that are missing from it, up to a limit."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, and_, func, select, update
from sqlalchemy.orm import Session

from digest import db
from digest.bounces import opt_outs
from digest.bounces.opt_outs import OptOutKind
from digest.db.tables.subscribers import Subscriber, SubscriberState
from digest.errors import UsageError
from digest.site.site_profile import Site
from digest.subscribers.csv_import.file_rows import Row
from digest.subscribers.csv_import.import_list import (
    ImportReport,
    ImportState,
    UniqueRows,
    load_existing,
    name_some,
    record_acts,
    suppressed_emails,
    write_in_batches,
    write_rows,
)
from digest.subscribers.csv_import.row_values import ImportRow

BATCH_REMOVED = 1_000  #: number of subscribers that one batch removes
FEW_REMOVED = 10  #: a synchronization that removes at most this many subscribers needs no `allows_many`


def sync_in_batches(
    session: Session,
    site: Site,
    rows: Iterable[Row],
    *,
    allows_many: bool = False,
    now: datetime,
    **options: Any,
) -> ImportReport:
    """Synchronize the subscribers with a list: add members, change packs, and unsubscribe missing members.

    Only members of an earlier list are removed. Nothing changes for suppressed addresses and for members who unsubscribed themselves; members
    removed because of an earlier list are resubscribed. Nobody is removed if the address in any row
    cannot be read. Unless `allows_many`, raises UsageError if more than ten subscribers, and more than the
    list contains, would be removed. Commits each batch; a dry run only counts, and is not stopped by this limit.
    The other options are those of `ImportState`.
    """
    state = ImportState(session=session, site=site, now=now, **options)
    write_in_batches(state, rows, write_members)
    mark_listed(state, state.rejected_keys)
    if not state.report.names_nobody:
        check_removals(state, allows_many=allows_many or state.is_dry_run)
        remove_in_batches(state)
    if state.is_dry_run:
        session.rollback()
    return state.report


def write_members(state: ImportState, unique: UniqueRows) -> None:
    """Add the new members among these rows, give the others the packs of the list, and mark all as listed."""
    suppressed = suppressed_emails(state, unique)
    existing = load_existing(state.session, unique)
    rows: UniqueRows = {}
    for key, row in unique.items():
        member = existing.get(key)
        if member is None or row.is_suppressed:
            rows[key] = row
        elif member.state != SubscriberState.UNSUBSCRIBED or member.is_removed_by_sync:
            rows[key] = row_of_member(member, row)
    rows = {key: row for key, row in rows.items() if row.is_suppressed or row.address.email not in suppressed}
    state.report.kept_out += len(unique) - len(rows)
    write_rows(state, rows)
    mark_listed(state, unique)


def row_of_member(member: Subscriber, row: ImportRow) -> ImportRow:
    """Return a row with only the address and packs of a member, since all else belongs to the reader."""
    return ImportRow(
        line=row.line,
        address=row.address,
        state=SubscriberState(member.state),
        is_suppressed=False,
        packs=() if row.packs is None and row.lists_packs else row.packs,
        returns=member.is_removed_by_sync,
    )


def mark_listed(state: ImportState, keys: Iterable[str]) -> None:
    """Record that the synchronized list contains these addresses."""
    listed = db.one_of(Subscriber.__table__.c.email_key, list(keys))
    marking = update(Subscriber).where(listed).values(synced_at=state.now)
    state.session.execute(marking, execution_options={"synchronize_session": False})


def is_missing(now: datetime) -> ColumnElement[bool]:
    """Return the condition for subscribed members of an earlier list who are missing from the one of `now`."""
    return and_(Subscriber.synced_at != now, Subscriber.state != SubscriberState.UNSUBSCRIBED)


def check_removals(state: ImportState, *, allows_many: bool) -> None:
    """Raise UsageError if so many members are missing that the list may be incomplete."""
    counts = (
        func.count().filter(Subscriber.synced_at == state.now),
        func.count().filter(is_missing(state.now)),
    )
    listed, missing = state.session.execute(select(*counts).select_from(Subscriber)).one()
    if missing > max(listed, FEW_REMOVED) and not allows_many:
        raise UsageError(
            f"The list has {listed:,} subscribers and lacks {missing:,}, so it may be incomplete. Nobody was"
            " removed. To remove them all, add --allow-many."
        )


def remove_in_batches(state: ImportState) -> None:
    """Unsubscribe missing members without notifying them; commit each batch, but in a dry run."""
    query = select(Subscriber).where(is_missing(state.now)).order_by(Subscriber.id).limit(BATCH_REMOVED)
    while members := state.session.scalars(query).all():
        for member in members:
            member.state, member.unsubscribed_at = SubscriberState.UNSUBSCRIBED, state.now
            member.paused_until, member.is_removed_by_sync = None, True
        state.session.flush()
        ids = [member.id for member in members]
        opt_outs.record_subscribers(state.session, OptOutKind.UNSUBSCRIBED, ids, now=state.now)
        record_acts(state, ids, "unsubscribed, since a synchronized list lacks them")
        name_some(state.report.removed_emails, [member.email for member in members])
        state.report.removed += len(members)
        if not state.is_dry_run:
            state.session.commit()
