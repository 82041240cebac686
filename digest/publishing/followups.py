"""Follow-ups: what became of papers that readers were sent, told to each of them once.

A reader is told with the next digest that has papers. Where none comes, news wait no longer than a week:
then a quiet letter brings them. It costs one short statement a chunk as long as nothing has changed.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import and_, bindparam, select
from sqlalchemy.orm import Session

from digest import db, papers, showings
from digest.composition import FollowUp
from digest.model import ChangeRow, Delivery, DeliveryState, PaperRow, Shown, Told
from digest.publishing.values import Pending, Reader

LATE = timedelta(days=2)  #: a dump is dated to its day, and may come so long after it
STALE = timedelta(days=60)  #: what became of a paper so long ago is no news
MOST = 20  #: in one digest; withdrawals first

GRAVITY = ("withdrawn", "published", "rewritten")


def pending(session: Session, readers: Sequence[Reader], now: datetime) -> Mapping[int, Pending]:
    """Return what has become of papers that these were sent, where they have not been told."""
    if not readers:
        return {}
    changed = changes(session, max(min(map(last_heard, readers)) - LATE, now - STALE), now)
    if not changed:
        return {}
    began = {reader.id: max(last_heard(reader) - LATE, now - STALE) for reader in readers}
    found: dict[int, list[tuple[int, datetime, FollowUp]]] = defaultdict(list)
    for subscriber_id, seen_at, kind, paper, title, says in untold(session, list(began), changed):
        if seen_at > began[subscriber_id]:
            news = FollowUp(paper, str(kind), papers.display(title), papers.display(says))
            found[subscriber_id].append((GRAVITY.index(kind), seen_at, news))
    return {number: gathered(some) for number, some in found.items()}


def last_heard(reader: Reader) -> datetime:
    """Return when the reader was last told something, or began to listen."""
    moment: datetime = reader.heard_at or reader.confirmed_at or reader.created_at
    return moment


def gathered(found: list[tuple[int, datetime, FollowUp]]) -> Pending:
    """Return the news of one reader, the gravest first."""
    found.sort()
    return Pending(tuple(news for _, _, news in found[:MOST]), min(seen_at for _, seen_at, _ in found))


def changes(session: Session, since: datetime, until: datetime) -> Sequence[int]:
    """Return the papers of which something has become in that time."""
    return session.connection().execute(CHANGED, {"since": since, "until": until}).scalars().all()


CHANGE: Any = ChangeRow.__table__.c
SHOWN: Any = Shown.__table__.c
TOLD: Any = Told.__table__.c
CHANGED = (
    select(CHANGE.paper_id)
    .where(CHANGE.seen_at > bindparam("since"), CHANGE.seen_at <= bindparam("until"))
    .distinct()
)


def untold(
    session: Session, subscriber_ids: Sequence[int], changed: Sequence[int]
) -> Iterable[tuple[int, datetime, str, int, str, str]]:
    """Yield what became of those of the papers that these were sent before, unless they have been told."""
    connection = session.connection()
    papers_changed = db.among(SHOWN.paper_id, db.many("papers", SHOWN.paper_id))
    shown = showings.by_reader(connection.dialect.name, papers_changed).c
    # Asked row by row: a planner that has not heard yet what was sent would read all deliveries, again and again.
    sent_at = select(Delivery.dated_at).where(
        Delivery.id == shown.delivery_id, Delivery.state == DeliveryState.SENT
    )
    told = and_(
        TOLD.subscriber_id == shown.subscriber_id,
        TOLD.paper_id == CHANGE.paper_id,
        TOLD.kind == CHANGE.kind,
    )
    wanted = (
        select(
            shown.subscriber_id, CHANGE.seen_at, CHANGE.kind, CHANGE.paper_id, PaperRow.title, CHANGE.says,
        )
        .join(ChangeRow, CHANGE.paper_id == shown.paper_id)
        .join(PaperRow, PaperRow.id == CHANGE.paper_id)
        .outerjoin(Told, told)
        .where(CHANGE.seen_at > sent_at.scalar_subquery(), TOLD.subscriber_id.is_(None))
    )  # fmt: skip
    found = connection.execute(wanted, {"ids": subscriber_ids, "papers": changed})
    return [tuple(row) for row in found]


def put(session: Session, told: Iterable[tuple[int, int, Sequence[FollowUp]]], *, now: datetime) -> None:
    """Write who was told what by which delivery; IntegrityError if somebody else told one of them meanwhile."""
    rows = [
        {
            "subscriber_id": subscriber_id,
            "paper_id": one.paper,
            "kind": one.kind,
            "delivery_id": delivery_id,
            "told_on": now.date(),
        }
        for subscriber_id, delivery_id, news in told
        for one in news
    ]
    showings.tell(session, rows)
