"""Store packs; published versions are never changed."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from difflib import get_close_matches

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from digest.db.tables.subscribers import PackRow
from digest.errors import NotFound
from digest.topics.pack_files import Pack
from digest.topics.pack_resolution import PackVersions

#: The id of the advisory lock that prevents publishing a pack (exclusive) while a filter that uses packs is stored (shared).
LOCK = 0x7061636B


def load_packs(session: Session) -> PackVersions:
    """Return all published packs, keyed by name and version."""
    found: dict[str, dict[int, Pack]] = {}
    for row in session.scalars(select(PackRow).order_by(PackRow.name, PackRow.version)):
        found.setdefault(row.name, {})[row.version] = pack_from_row(row)
    return found


def get(session: Session, name: str, version: int | None = None) -> Pack:
    """Return a version of a pack, by default the newest; raise NotFound if the pack or version is missing."""
    query = select(PackRow).where(PackRow.name == name).order_by(PackRow.version.desc()).limit(1)
    if version is not None:
        query = query.where(PackRow.version == version)
    row = session.scalars(query).one_or_none()
    if row is not None:
        return pack_from_row(row)
    known = newest_versions(session)
    if name in known:
        raise NotFound(f"The pack {name} has no version {version}; its newest is {known[name]}.")
    close = get_close_matches(name, known, n=1, cutoff=0.5)
    hint = f"Did you mean {close[0]}?" if close else "See: digest topics pack list"
    raise NotFound(f"There is no pack {name}. {hint}")


def newest_versions(session: Session) -> dict[str, int]:
    """Return {pack name: number of its newest version} for all packs."""
    newest = select(PackRow.name, func.max(PackRow.version)).group_by(PackRow.name).order_by(PackRow.name)
    return {row[0]: row[1] for row in session.execute(newest)}


def versions(session: Session, name: str) -> list[tuple[int, datetime]]:
    """Return (version, publication time) for all versions of a pack, oldest first."""
    found = (
        select(PackRow.version, PackRow.published_at).where(PackRow.name == name).order_by(PackRow.version)
    )
    return [(version, moment) for version, moment in session.execute(found)]


def store_pack(session: Session, pack: Pack, now: datetime) -> Pack:
    """Store a pack under the next version number, and return it with this number."""
    version = newest_versions(session).get(pack.name, 0) + 1
    session.add(
        PackRow(
            name=pack.name,
            version=version,
            description=pack.description,
            filters=dict(pack.filters),
            dependency_versions=dict(pack.dependency_versions),
            text=pack.text,
            published_at=now,
        )
    )
    session.flush()
    return replace(pack, version=version)


def pack_from_row(row: PackRow) -> Pack:
    """Return the pack of a database row."""
    return Pack(
        name=row.name,
        version=row.version,
        description=row.description,
        filters=row.filters,
        dependency_versions=row.dependency_versions,
        text=row.text,
    )
