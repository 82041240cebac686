"""Look up the stored dumps and their records that could not be read."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from sqlalchemy import select
from sqlalchemy.orm import Session

from digest.db.tables.dumps import DumpRow, ProblemRow
from digest.errors import NotFound

OLD_LIST = "it may be the list of an earlier day"  #: how the remark on a list without new papers ends


def list_dumps(session: Session, *, limit: int | None = None) -> Sequence[DumpRow]:
    """Return the dumps, newest first."""
    return session.scalars(select(DumpRow).order_by(DumpRow.id.desc()).limit(limit)).all()


def get_dump(session: Session, dump_id: int) -> DumpRow:
    """Return a dump, or raise NotFound."""
    dump = session.get(DumpRow, dump_id)
    if dump is None:
        raise NotFound(f"There is no dump {dump_id}; see digest dumps list.")
    return dump


def repeated_lists(session: Session, *, since: datetime) -> list[tuple[int, str, str]]:
    """Return (id, path, reason) of the lists loaded since then that may be lists of an earlier day."""
    query = (
        select(DumpRow.id, DumpRow.path, ProblemRow.reason)
        .join(ProblemRow, ProblemRow.dump_id == DumpRow.id)
        .where(DumpRow.read_at > since, ProblemRow.reason.endswith(OLD_LIST))
    )
    rows = session.execute(query.order_by(DumpRow.id).limit(10))
    return [(number, path, reason) for number, path, reason in rows]


def list_unread_records(session: Session, dump_id: int) -> Sequence[ProblemRow]:
    """Return all unreadable records of a dump."""
    return session.scalars(select(ProblemRow).filter_by(dump_id=dump_id).order_by(ProblemRow.id)).all()
