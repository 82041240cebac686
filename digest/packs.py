"""Packs as they are kept: a version is added, and never changed."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from difflib import get_close_matches

from sqlalchemy import func, select, text
from sqlalchemy.orm import Session

from digest.errors import NotFound
from digest.model import PackRow
from digest.topics import Pack, Shelf

#: Who stores a filter that uses packs and who publishes a pack wait for one another under this number.
LOCK = 0x7061636B


def shelf(session: Session) -> Shelf:
    """Return every published pack by name and version."""
    found: dict[str, dict[int, Pack]] = {}
    for row in session.scalars(select(PackRow).order_by(PackRow.name, PackRow.version)):
        found.setdefault(row.name, {})[row.version] = as_value(row)
    return found


def get(session: Session, name: str, version: int | None = None) -> Pack:
    """Return a version of a pack, the newest if none is named; raises NotFound with a close one."""
    wanted = select(PackRow).where(PackRow.name == name).order_by(PackRow.version.desc()).limit(1)
    if version is not None:
        wanted = wanted.where(PackRow.version == version)
    row = session.scalars(wanted).one_or_none()
    if row is not None:
        return as_value(row)
    known = newest_versions(session)
    if name in known:
        raise NotFound(f"The pack {name} has no version {version}; its newest is {known[name]}.")
    close = get_close_matches(name, known, n=1, cutoff=0.5)
    hint = f"Did you mean {close[0]}?" if close else "See: digest topics pack list"
    raise NotFound(f"There is no pack {name}. {hint}")


def newest_versions(session: Session) -> dict[str, int]:
    """Return the packs there are, each with its newest version."""
    newest = select(PackRow.name, func.max(PackRow.version)).group_by(PackRow.name).order_by(PackRow.name)
    return {row[0]: row[1] for row in session.execute(newest)}


def versions(session: Session, name: str) -> list[tuple[int, datetime]]:
    """Return the versions of a pack with the moments they were published, oldest first."""
    found = (
        select(PackRow.version, PackRow.published_at).where(PackRow.name == name).order_by(PackRow.version)
    )
    return [(version, moment) for version, moment in session.execute(found)]


def put(session: Session, pack: Pack, now: datetime) -> Pack:
    """Keep a pack as the next version of its name."""
    version = newest_versions(session).get(pack.name, 0) + 1
    session.add(
        PackRow(
            name=pack.name,
            version=version,
            description=pack.description,
            filters=dict(pack.filters),
            stood_on=dict(pack.stood_on),
            text=pack.text,
            published_at=now,
        )
    )
    session.flush()
    return replace(pack, version=version)


def hold(session: Session) -> None:
    """Keep packs as they are until this transaction ends. On SQLite there is one writer anyway."""
    if session.get_bind().dialect.name == "postgresql":
        session.execute(text(f"SELECT pg_advisory_xact_lock_shared({LOCK})"))


def hold_alone(session: Session) -> None:
    """Do so for a change of packs: nobody else holds them meanwhile."""
    if session.get_bind().dialect.name == "postgresql":
        session.execute(text(f"SELECT pg_advisory_xact_lock({LOCK})"))


def as_value(row: PackRow) -> Pack:
    """Return a stored pack as the filters read it."""
    return Pack(
        name=row.name,
        version=row.version,
        description=row.description,
        filters=row.filters,
        stood_on=row.stood_on,
        text=row.text,
    )
