"""Store the sources, and claim sources and their servers for one worker at a time."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from sqlalchemy import select, update
from sqlalchemy.orm import Session

from digest import db
from digest.db.tables.dumps import HostRow, SourceRow
from digest.dumps.sources import source_presets
from digest.errors import BadField, NotFound

CLAIM_TIME = timedelta(minutes=15)  #: time during which no other worker polls a claimed source


def add(
    session: Session,
    name: str,
    *,
    now: datetime,
    url: str | None = None,
    order: str | None = None,
    interval: timedelta | None = None,
) -> SourceRow:
    """Add a source, or turn it on again with these options, make it due immediately, and commit.

    `name` is a preset or an https URL; if the URL is long or contains a secret, the source gets a shorter
    name. `url` replaces the URL of a preset. Raises BadField for an invalid name or URL, or an interval not
    between 15 minutes and 7 days.
    """
    preset = source_presets.preset_for(name)
    name = source_presets.short_name(name)
    if interval is not None and not source_presets.MIN_INTERVAL <= interval <= source_presets.MAX_INTERVAL:
        raise BadField("every", "the interval must be between 15 minutes and 7 days.")
    row = session.scalar(select(SourceRow).where(SourceRow.name == name))
    if row is None:
        row = SourceRow(name=name, since=now.date(), interval_seconds=0, url="", failures=0, validators={})
        session.add(row)
    row.kind, row.is_on, row.next_poll_at, row.failures = preset.kind, True, now, 0
    row.url = url or row.url or preset.url
    row.order = order or row.order or preset.order
    if interval or not row.interval_seconds:
        row.interval_seconds = int((interval or preset.interval).total_seconds())
    return row


def remove(session: Session, name: str) -> None:
    """Delete a source without deleting its dumps and papers."""
    session.delete(get(session, name))


def get(session: Session, name: str) -> SourceRow:
    """Return the source with this name; raise NotFound if there is none."""
    row = session.scalar(select(SourceRow).where(SourceRow.name == source_presets.short_name(name)))
    if row is None:
        raise NotFound(f"There is no source {source_presets.without_secrets(name)}; see digest sources list.")
    return row


def list_sources(session: Session) -> Sequence[SourceRow]:
    """Return all sources, sorted by name."""
    return session.scalars(select(SourceRow).order_by(SourceRow.name)).all()


def due(session: Session, now: datetime) -> Sequence[str]:
    """Return the names of the sources that are due, the most overdue first."""
    query = select(SourceRow.name).where(SourceRow.is_on, SourceRow.next_poll_at <= now)
    return session.scalars(query.order_by(SourceRow.next_poll_at, SourceRow.id)).all()


def claim(session: Session, name: str, *, now: datetime, is_forced: bool) -> SourceRow | None:
    """Claim a source for CLAIM_TIME and return it, or return None if it is not due or already claimed."""
    row = get(session, name)
    session.refresh(row)
    if not is_forced and not (row.is_on and row.next_poll_at <= now):
        return None
    taking = (
        update(SourceRow)
        .where(SourceRow.id == row.id, SourceRow.next_poll_at == row.next_poll_at)
        .values(next_poll_at=now + CLAIM_TIME)
    )
    taken = session.connection().execute(taking).rowcount
    session.refresh(row)
    return row if taken else None


# ── servers ─────────────────────────────────────────────────────────────────────────────────────


def reserve_host(session: Session, host: str, *, now: datetime, until: datetime) -> datetime | None:
    """Reserve a server until `until` and return None; if it is not free, return when the next request is due."""
    adding = db.upsert(session, HostRow).values({"name": host, "next_request_at": now})
    session.execute(adding.on_conflict_do_nothing(index_elements=["name"]))
    taking = (
        update(HostRow)
        .where(HostRow.name == host, HostRow.next_request_at <= now)
        .values(next_request_at=until)
    )
    if session.connection().execute(taking).rowcount:
        return None
    return session.scalar(select(HostRow.next_request_at).where(HostRow.name == host))


def release_host(session: Session, host: str, *, until: datetime) -> None:
    """End the reservation of a server, allowing the next request from `until` on."""
    session.execute(update(HostRow).where(HostRow.name == host).values(next_request_at=until))
