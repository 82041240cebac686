"""Append opt-outs to a file outside the database, because a restore replaces the database.

The file has one JSON object per line: ids and keyed hashes, no addresses.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import msgspec
from msgspec import Struct
from sqlalchemy import select
from sqlalchemy.orm import Session

from digest.bounces.opt_outs import OptOutKind, mark_saved, subscriber_hash, unsaved_opt_outs
from digest.db.tables.inbound_mail import OptOut
from digest.db.tables.subscribers import Subscriber
from digest.site.site_profile import Site

#: The file's name in the data directory of the scheduler's machine or, without a scheduler, of the machine on
#: which commands run.
OPT_OUT_FILE = "opt-outs.jsonl"
BATCH_ROWS = 1_000


class SavedOptOut(Struct, frozen=True, kw_only=True):
    """One opt-out, as stored in a line of the file of opt-outs."""

    id: int
    kind: OptOutKind
    hmac: str
    reason: str
    subscriber_id: int | None
    at: datetime


@dataclass(frozen=True, kw_only=True, slots=True)
class SavedOptOuts:
    """The content of the file of opt-outs."""

    opt_outs: tuple[SavedOptOut, ...] = ()  #: the opt-outs in the order of the file
    #: number of unreadable lines; an opt-out whose line was truncated by a crash is written again
    damaged: int = 0


# ── writing ─────────────────────────────────────────────────────────────────────────────────────


def save_opt_outs_in_batches(session: Session, site: Site, path: Path, *, now: datetime) -> int:
    """Append the opt-outs that are not in the file yet, commit each batch, and return their number.

    After a crash before the commit, the next call appends the same lines again, which does no harm.
    """
    saved = 0
    while rows := unsaved_opt_outs(session, limit=BATCH_ROWS):
        hashes = subscriber_hashes(session, site, rows)
        append_lines(
            path, [saved_opt_out(row, row.hmac or hashes.get(row.subscriber_id, "")) for row in rows]
        )
        mark_saved(session, [row.id for row in rows], now=now)
        session.commit()
        saved += len(rows)
    return saved


def subscriber_hashes(session: Session, site: Site, rows: Sequence[OptOut]) -> dict[int | None, str]:
    """Return the keyed hashes that identify the subscribers of these opt-outs, keyed by subscriber id."""
    ids = {row.subscriber_id for row in rows if not row.hmac}
    found = session.execute(select(Subscriber.id, Subscriber.created_at).where(Subscriber.id.in_(ids)))
    return {number: subscriber_hash(site, number, created_at) for number, created_at in found}


def saved_opt_out(row: OptOut, hmac: str) -> SavedOptOut:
    """Return an opt-out as it is stored in the file."""
    return SavedOptOut(
        id=row.id,
        kind=OptOutKind(row.kind),
        hmac=hmac,
        reason=row.reason,
        subscriber_id=row.subscriber_id,
        at=row.at,
    )


def append_lines(path: Path, opt_outs: Iterable[SavedOptOut]) -> None:
    """Append opt-outs and wait until they are on disk; the file is created with mode 600."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
    with os.fdopen(descriptor, "rb+") as file:
        end = file.seek(0, os.SEEK_END)
        file.seek(max(0, end - 1))
        is_cut = file.read(1) not in {b"", b"\n"}  # a crash has truncated the last line
        file.write(b"\n" * is_cut + b"".join(msgspec.json.encode(one) + b"\n" for one in opt_outs))
        file.flush()
        os.fsync(descriptor)


# ── reading ─────────────────────────────────────────────────────────────────────────────────────


def read_opt_outs(path: Path) -> SavedOptOuts:
    """Return the opt-outs in the file; none if there is no file."""
    if not path.exists():
        return SavedOptOuts()
    found, damaged = [], 0
    for line in path.read_bytes().splitlines():
        try:
            found.append(msgspec.json.decode(line, type=SavedOptOut))
        except msgspec.MsgspecError:
            damaged += 1
    return SavedOptOuts(opt_outs=tuple(found), damaged=damaged)
