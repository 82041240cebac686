"""Import the valid rows of a file of subscribers, and report each rejected row with its line and the reason.

A file can be imported repeatedly: rows that change nothing are skipped, so an interrupted import can simply
be started again. An import never resubscribes anybody who unsubscribed, never overrides a suppression, and
never activates a subscriber without consent. Rows are processed in batches of a thousand, so that even a
large file needs little memory; each query or change is a single statement for the whole batch.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from itertools import islice
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from digest import db
from digest.bounces import opt_outs, suppressions
from digest.bounces.opt_outs import OptOutKind
from digest.bounces.suppressions import SuppressionReason
from digest.db.tables.subscribers import SUBSCRIBED, Consent, OperatorAct, Subscriber, SubscriberState
from digest.errors import BadField, UsageError
from digest.mail import addresses
from digest.process import gc_control
from digest.site.site_profile import Site
from digest.subscribers import invitations, reader_settings, subscriber_topics
from digest.subscribers.csv_import.file_rows import Row
from digest.subscribers.csv_import.row_values import (
    CheckedTopics,
    FilterCellReader,
    ImportRow,
    check_row,
    merge_row,
    rows_with_lines,
    topics_after,
)
from digest.subscribers.invitations import Invitee

BATCH_ROWS = 1_000  #: number of rows that are read and written in one batch
MAX_EMAILS = 1_000  #: maximum number of addresses stored per outcome
MAX_PROBLEMS = 10_000  #: maximum number of rejected rows whose reasons are stored

UniqueRows = dict[str, ImportRow]  #: rows keyed by folded address, so that no address is repeated


@dataclass(frozen=True, kw_only=True, slots=True)
class ImportProblem:
    """A row that was not imported, and the reason."""

    line: int
    reason: str


@dataclass(kw_only=True, slots=True)
class ImportReport:
    """The numbers of rows and addresses by outcome, and the problems of an import."""

    added: int = 0
    updated: int = 0
    unchanged: int = 0
    #: Number of pending subscribers who were invited; a repeated import does not invite them again.
    invited: int = 0
    suppressed: int = 0  #: number of addresses suppressed by the file that were not suppressed before
    removed: int = 0  #: number of subscribers who were unsubscribed because they are no longer in the list
    kept_out: int = 0  #: number of rows of the list whose address is suppressed or unsubscribed
    rejected: int = 0  #: number of rows that were not imported
    names_nobody: int = 0  #: number of rejected rows whose address cannot be read
    #: Addresses of the subscribers who were added first, at most `MAX_EMAILS`.
    added_emails: list[str] = field(default_factory=list)
    changed_emails: list[str] = field(default_factory=list)
    removed_emails: list[str] = field(default_factory=list)
    #: The first rejected rows, at most `MAX_PROBLEMS`.
    problems: list[ImportProblem] = field(default_factory=list)

    @property
    def is_loaded(self) -> bool:
        """Return whether the import accepted any row."""
        return bool(self.added or self.updated or self.unchanged or self.suppressed)

    def reject(self, line: int, reason: str) -> None:
        """Count a rejected row, and store the reason unless the maximum is reached."""
        self.rejected += 1
        if len(self.problems) < MAX_PROBLEMS:
            self.problems.append(ImportProblem(line=line, reason=reason))


def name_some(named: list[str], emails: Iterable[str]) -> None:
    """Add addresses to those that a report names, until the maximum is reached."""
    named += islice(emails, MAX_EMAILS - len(named))


@dataclass(frozen=True, kw_only=True, slots=True)
class ImportState:
    """The values shared by all steps of an import, including its report."""

    session: Session
    site: Site
    consent: str | None = None  #: how active subscribers agreed to get digests
    invited_by: str = ""
    operator: str = ""
    is_dry_run: bool = False
    now: datetime
    report: ImportReport = field(default_factory=ImportReport)
    rejected_keys: list[str] = field(default_factory=list)  #: folded addresses of rejected rows


def import_in_batches(
    session: Session, site: Site, rows: Iterable[Row], *, now: datetime, **options: Any
) -> ImportReport:
    """Add and update subscribers from `rows`; the options are those of `ImportState`.

    If there is no consent, or if their row has no state, subscribers are added as pending and invited once.
    `invited_by` names the person who added them. If `rows` has no `line` attribute, lines are counted from
    the header, which is line 1. Commits each batch; a dry run only counts. Raises BadField if the whole file is
    unreadable, for example because it ends inside a quoted cell.
    """
    state = ImportState(session=session, site=site, now=now, **options)
    write_in_batches(state, rows, write_rows)
    if state.is_dry_run:
        session.rollback()
    return state.report


def write_in_batches(
    state: ImportState, rows: Iterable[Row], write: Callable[[ImportState, UniqueRows], None]
) -> None:
    """Check the rows and write them in batches; commit each, but in a dry run."""
    valid = good_rows(rows, FilterCellReader(state.session), state)
    while batch := list(islice(valid, BATCH_ROWS)):
        with gc_control.gc_paused():  # a batch creates tens of thousands of values but few reference cycles
            while batch:  # rows with the same address are written one after the other
                unique: UniqueRows = {}
                batch = [row for row in batch if unique.setdefault(row.address.folded, row) is not row]
                write(state, unique)
        if not state.is_dry_run:
            state.session.commit()
    state.report.problems.sort(key=lambda problem: problem.line)


def good_rows(rows: Iterable[Row], cell_reader: FilterCellReader, state: ImportState) -> Iterator[ImportRow]:
    """Yield the valid rows; record the others as rejected, with their addresses, which a synchronization keeps."""
    for line, row in rows_with_lines(rows):
        try:
            yield check_row(row, line, cell_reader, may_activate=bool(state.consent))
        except UsageError as error:
            state.report.reject(line, str(error))
            email = "" if isinstance(row, csv.Error) else str(row.get("email", ""))
            try:
                state.rejected_keys.append(addresses.parse_address(email).folded)
            except BadField:
                state.report.names_nobody += 1


def write_rows(state: ImportState, unique: UniqueRows) -> None:
    """Write rows with distinct addresses: suppress addresses, change subscribers or add them; count the outcomes."""
    suppressed = suppressed_emails(state, unique)
    suppress(state, [row.address.email for row in unique.values() if row.is_suppressed], suppressed)
    allowed: UniqueRows = {}
    for key, row in unique.items():
        if row.address.email not in suppressed and not row.is_suppressed:
            allowed[key] = row
        elif not row.is_suppressed:
            state.report.reject(row.line, f"email: {row.address.email} is suppressed; nothing is sent to it.")
    existing = load_existing(state.session, allowed)
    change_subscribers(state, [(existing[key], row) for key, row in allowed.items() if key in existing])
    added_by_others = add_subscribers(
        state, {key: row for key, row in allowed.items() if key not in existing}
    )
    if added_by_others:
        write_rows(state, added_by_others)


def suppressed_emails(state: ImportState, unique: UniqueRows) -> Collection[str]:
    """Return the addresses in these rows that are suppressed."""
    emails = [row.address.email for row in unique.values()]
    return suppressions.find_suppressed(state.session, state.site, emails)


def suppress(state: ImportState, emails: Collection[str], suppressed: Collection[str]) -> None:
    """Suppress these addresses, of which some are suppressed already."""
    new = [email for email in emails if email not in suppressed]
    reason = SuppressionReason.OPERATOR, "suppressed in an imported file"
    suppressions.suppress_many(state.session, state.site, new, *reason, state.now)
    state.report.suppressed += len(new)
    state.report.unchanged += len(emails) - len(new)


def load_existing(session: Session, keys: Iterable[str]) -> dict[str, Subscriber]:
    """Return the existing subscribers, keyed by folded address."""
    query = select(Subscriber).where(db.one_of(Subscriber.__table__.c.email_key, list(keys)))
    return {row.email_key: row for row in session.scalars(query.execution_options(populate_existing=True))}


# ── existing subscribers ────────────────────────────────────────────────────────────────────────


def change_subscribers(state: ImportState, pairs: Collection[tuple[Subscriber, ImportRow]]) -> None:
    """Apply each row to the existing subscriber paired with it."""
    held = subscriber_topics.stored_topics(state.session, [existing.id for existing, _ in pairs])
    merged = [
        merge_row(existing, held.get(existing.id, []), row, state.now)
        for existing, row in pairs
        if may_change(state, existing, row)
    ]
    pending = [
        invitee(one.existing.id, one.row, one.topics, one.existing.contact_email)
        for one in merged
        if one.existing.state == one.row.state == SubscriberState.PENDING
    ]
    changed = [one for one in merged if one.is_change]
    for one in changed:
        for column, value in one.columns.items():
            setattr(one.existing, column, value)
    state.session.flush()
    state.report.updated += len(changed)
    state.report.unchanged += len(merged) - len(changed)
    name_some(state.report.changed_emails, [one.existing.email for one in changed])
    left = [one.existing.id for one in changed if one.columns.get("state") == SubscriberState.UNSUBSCRIBED]
    back = [one.existing.id for one in changed if one.row.returns]
    opt_outs.record_subscribers(state.session, OptOutKind.UNSUBSCRIBED, left, now=state.now)
    opt_outs.record_subscribers(state.session, OptOutKind.RESUBSCRIBED, back, now=state.now)
    insert_consents(state, {one.existing.id: one.row for one in changed if "confirmed_at" in one.columns})
    record_acts(state, [one.existing.id for one in changed], "changed by an import")
    with_topics = [one for one in changed if one.topics != one.held]
    subscriber_topics.store_topics(
        state.session,
        {one.existing.id: one.topics for one in with_topics},
        {one.existing.id: one.muted for one in with_topics},
    )
    invite(state, invitations.never_asked(state.session, pending))


def may_change(state: ImportState, existing: Subscriber, row: ImportRow) -> bool:
    """Return whether a row may change a subscriber; reject it if it would activate one who unsubscribed."""
    if existing.state != SubscriberState.UNSUBSCRIBED or row.state != SubscriberState.ACTIVE:
        return True
    reason = f"state: {row.address.email} has unsubscribed; only they can subscribe again."
    state.report.reject(row.line, reason)
    return False


# ── new subscribers ─────────────────────────────────────────────────────────────────────────────


def add_subscribers(state: ImportState, new: UniqueRows) -> UniqueRows:
    """Add new subscribers with their topics and consents.

    Returns the rows of subscribers that another process added in the meantime, which must be merged instead.
    """
    rows, key = [subscriber_row(row, state.now) for row in new.values()], ("email_key",)
    written = db.insert_many(state.session, Subscriber, rows, key=key, returning=("id", "email_key"))
    added = {one.id: new[one.email_key] for one in written}
    topics = {number: topics_after(row, ()) for number, row in added.items()}
    muted = {number: row.muted or () for number, row in added.items()}
    state.report.added += len(added)
    name_some(state.report.added_emails, [row.address.email for row in added.values()])
    subscriber_topics.store_topics(state.session, topics, muted)
    insert_consents(state, {number: row for number, row in added.items() if row.state in SUBSCRIBED})
    record_acts(state, added, "added by an import")
    pending = [number for number, row in added.items() if row.state == SubscriberState.PENDING]
    invite(state, [invitee(number, added[number], topics[number]) for number in pending])
    taken = {row.address.folded for row in added.values()}
    return {key: row for key, row in new.items() if key not in taken}


def subscriber_row(row: ImportRow, now: datetime) -> dict[str, Any]:
    """Return the column values of a subscriber to be added."""
    return {
        "email_key": row.address.folded,
        "email": row.address.email,
        "name": row.name or "",
        "owner_email": row.owner_email,
        **reader_settings.columns_of({**reader_settings.defaults(), **row.texts}),
        "state": row.state,
        "created_at": now,
        "paused_until": row.paused_until if row.state == SubscriberState.PAUSED else None,
        "confirmed_at": min(row.confirmed_at or now, now) if row.state in SUBSCRIBED else None,
        "unsubscribed_at": now if row.state == SubscriberState.UNSUBSCRIBED else None,
    }


# ── acts, consents, invitations ─────────────────────────────────────────────────────────────────


def record_acts(state: ImportState, ids: Iterable[int], act: str) -> None:
    """Record what the operator did to these subscribers."""
    shared = {"at": state.now, "operator": state.operator, "act": act}
    db.insert_many(state.session, OperatorAct, [{"subscriber_id": number} for number in ids], shared=shared)


def insert_consents(state: ImportState, given: Mapping[int, ImportRow]) -> None:
    """Record how these subscribers agreed, as described in the file or otherwise by the operator."""
    rows = [
        {
            "subscriber_id": number,
            "given_at": min(row.confirmed_at or state.now, state.now),
            "how": row.consent or state.consent or "",
        }
        for number, row in given.items()
    ]
    db.insert_many(state.session, Consent, rows)


def invitee(number: int, row: ImportRow, topics: CheckedTopics, email: str = "") -> Invitee:
    """Return a pending subscriber as an invitee; `email` is the address for personal letters, if it is stored."""
    return Invitee(
        id=number,
        email=row.owner_email or email or row.address.email,
        email_key=row.address.folded,
        topics=tuple(name for name, _, _ in topics),
    )


def invite(state: ImportState, invitees: Collection[Invitee]) -> None:
    """Queue an invitation for each imported subscriber without an earlier one."""
    state.report.invited += invitations.queue_invitations(
        state.session, state.site, invitees, invited_by=state.invited_by, now=state.now
    )
