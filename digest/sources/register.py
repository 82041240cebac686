"""The sources that are turned on: rows, and who may ask which server when. Nothing here commits."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from sqlalchemy import select, update
from sqlalchemy.orm import Session

from digest import db
from digest.errors import BadField, NotFound
from digest.model import HostRow, SourceRow
from digest.sources import presets

CLAIM = timedelta(minutes=15)  #: for which whoever polls a source keeps it to itself


def add(
    session: Session,
    name: str,
    *,
    now: datetime,
    url: str | None = None,
    order: str | None = None,
    every: timedelta | None = None,
) -> SourceRow:
    """Turn a source on, or on again with these wishes; it is due at once.

    `name` is a preset or an https address; a long address is known by a shorter name from then on. `url`
    overrules where a preset's requests go.
    """
    preset = presets.named(name)
    name = presets.short_name(name)
    if every is not None and not presets.LEAST <= every <= presets.MOST:
        raise BadField("every", "a source is polled every 15 minutes at most, and every 7 days at least.")
    row = session.scalar(select(SourceRow).where(SourceRow.name == name))
    if row is None:
        row = SourceRow(name=name, since=now.date(), every=0, url="", failures=0, validators={})
        session.add(row)
    row.kind, row.is_on, row.next_poll_at, row.failures = preset.kind, True, now, 0
    row.url = url or row.url or preset.url
    row.order = order or row.order or preset.order
    row.every = int((every or preset.every).total_seconds()) if every or not row.every else row.every
    session.flush()
    return row


def remove(session: Session, name: str) -> None:
    """Forget a source; what it brought stays."""
    session.delete(get(session, name))
    session.flush()


def get(session: Session, name: str) -> SourceRow:
    """Return the source of that name."""
    row = session.scalar(select(SourceRow).where(SourceRow.name == presets.short_name(name)))
    if row is None:
        raise NotFound(f"There is no source {name}; see digest sources list.")
    return row


def listing(session: Session) -> Sequence[SourceRow]:
    """Return all sources by name."""
    return session.scalars(select(SourceRow).order_by(SourceRow.name)).all()


def due(session: Session, now: datetime) -> Sequence[str]:
    """Return the names of the sources that are due, the one that waits longest first."""
    wanted = select(SourceRow.name).where(SourceRow.is_on, SourceRow.next_poll_at <= now)
    return session.scalars(wanted.order_by(SourceRow.next_poll_at, SourceRow.id)).all()


def claim(session: Session, name: str, *, now: datetime, is_forced: bool) -> SourceRow | None:
    """Return the source if it is ours to poll now, and nobody else's for a while."""
    row = get(session, name)
    session.refresh(row)
    if not is_forced and not (row.is_on and row.next_poll_at <= now):
        return None
    taking = (
        update(SourceRow)
        .where(SourceRow.id == row.id, SourceRow.next_poll_at == row.next_poll_at)
        .values(next_poll_at=now + CLAIM)
    )
    taken = session.connection().execute(taking).rowcount
    session.refresh(row)
    return row if taken else None


# ── servers ─────────────────────────────────────────────────────────────────────────────────────


def turn(session: Session, host: str, *, now: datetime, until: datetime) -> datetime | None:
    """Take a server for ourselves until that moment; else return when it is free."""
    adding = db.upsert(session, HostRow).values({"name": host, "free_at": now})
    session.execute(adding.on_conflict_do_nothing(index_elements=["name"]))
    taking = update(HostRow).where(HostRow.name == host, HostRow.free_at <= now).values(free_at=until)
    if session.connection().execute(taking).rowcount:
        return None
    return session.scalar(select(HostRow.free_at).where(HostRow.name == host))


def leave(session: Session, host: str, *, until: datetime) -> None:
    """Leave a server in peace until that moment."""
    session.execute(update(HostRow).where(HostRow.name == host).values(free_at=until))
