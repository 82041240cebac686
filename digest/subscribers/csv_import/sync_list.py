"""Synchronize subscribers with a list: remove the members that are missing from it, up to a limit."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from sqlalchemy import ColumnElement, and_, func, select
from sqlalchemy.orm import Session

from digest import db
from digest.bounces import opt_outs
from digest.bounces.opt_outs import OptOutKind
from digest.db.tables.subscribers import Subscriber, SubscriberState
from digest.errors import UsageError
from digest.site.site_profile import Site
from digest.subscribers.csv_import.csv_rows import Row
from digest.subscribers.csv_import.import_list import import_state, write_in_batches
from digest.subscribers.csv_import.import_report import ImportReport
from digest.subscribers.csv_import.write_rows import SUBSCRIBER_TABLE, ImportState, record_acts

SYNCED_AT = SUBSCRIBER_TABLE.c.synced_at
BATCH_REMOVED = 1_000  #: number of subscribers that one batch removes
FEW_REMOVED = 10  #: a synchronization that removes at most this many subscribers needs no `allows_many`


def sync_in_batches(  # noqa: PLR0913  (the options of the command, by keyword)
    session: Session,
    site: Site,
    rows: Iterable[Row],
    *,
    consent: str | None = None,
    invited_by: str = "",
    operator: str = "",
    allows_many: bool = False,
    report: ImportReport | None = None,
    is_dry_run: bool = False,
    now: datetime,
) -> ImportReport:
    """Synchronize the subscribers with a list: add members, change packs, and unsubscribe missing members.

    Only members of an earlier list are removed. Nothing changes for suppressed addresses and for members who unsubscribed themselves; members
    removed because of an earlier list are resubscribed. Nobody is removed if the address in any row
    cannot be read. Unless `allows_many`, raises UsageError if more than ten subscribers, and more than the
    list contains, would be removed. Commits each batch; a dry run only counts, and is not stopped by this limit.
    """
    state = import_state(
        session,
        site,
        consent=consent,
        invited_by=invited_by,
        operator=operator,
        is_sync=True,
        is_dry_run=is_dry_run,
        report=report,
        now=now,
    )
    write_in_batches(state, rows)
    counts = func.count().filter(now == SYNCED_AT), func.count().filter(is_missing(now))
    listed, missing = session.execute(select(*counts).select_from(SUBSCRIBER_TABLE)).one()
    if missing > max(listed, FEW_REMOVED) and not (allows_many or is_dry_run or state.report.names_nobody):
        raise UsageError(
            f"The list has {listed:,} subscribers and lacks {missing:,}, so it may be incomplete. Nobody was"
            " removed. To remove them all, add --allow-many."
        )
    if not state.report.names_nobody:
        remove_in_batches(state)
    if is_dry_run:
        session.rollback()
    return state.report


def is_missing(now: datetime) -> ColumnElement[bool]:
    """Return the condition for subscribed members of an earlier list who are missing from the one of `now`."""
    return and_(now != SYNCED_AT, SUBSCRIBER_TABLE.c.state != SubscriberState.UNSUBSCRIBED)


def remove_in_batches(state: ImportState) -> None:
    """Unsubscribe missing members without notifying them; commit each batch, but in a dry run."""
    query = select(SUBSCRIBER_TABLE.c.id, SUBSCRIBER_TABLE.c.email).where(is_missing(state.now))
    gone = {
        "state": SubscriberState.UNSUBSCRIBED, "unsubscribed_at": state.now, "paused_until": None,
        "is_removed_by_sync": True,
    }  # fmt: skip
    while rows := state.session.execute(query.order_by(SUBSCRIBER_TABLE.c.id).limit(BATCH_REMOVED)).all():
        ids = [row.id for row in rows]
        db.update_many(state.session, Subscriber, [{"id": number, **gone} for number in ids])
        opt_outs.record_subscribers(state.session, OptOutKind.UNSUBSCRIBED, ids, now=state.now)
        record_acts(state, ids, "unsubscribed, since a synchronized list lacks them")
        state.report.note_removed(row.email for row in rows)
        state.report.removed += len(rows)
        if not state.is_dry_run:
            state.session.commit()
