"""Follow-ups: what became of papers that readers were sent, told to each of them once.

A reader is told with the next digest that has papers. Where none comes, news wait no longer than a week:
then a quiet letter brings them. It costs one short statement a chunk as long as nothing has changed, and
one look at the readers' own showings where something has.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Any, NamedTuple

from sqlalchemy import Row, Select, bindparam, func, select
from sqlalchemy.orm import Session

from digest import db, papers, showings
from digest.composition import FollowUp
from digest.model import ChangeRow, Delivery, DeliveryState, PaperRow, Shown, Told
from digest.publishing.values import Pending, Reader

LATE = timedelta(days=2)  #: a dump is dated to its day, and may come so long after it
STALE = timedelta(days=60)  #: what became of a paper so long ago is no news
MOST = 20  #: in one digest; withdrawals first

GRAVITY = ("withdrawn", "published", "rewritten")


class Change(NamedTuple):
    """What became of a paper."""

    place: int  #: in the order in which changes are told: the gravest first
    seen_at: datetime
    news: FollowUp


def pending(session: Session, readers: Sequence[Reader], now: datetime) -> Mapping[int, Pending]:
    """Return what has become of papers that these were sent, where they have not been told."""
    if not readers:
        return {}
    changed = changes(session, max(min(map(last_heard, readers)) - LATE, now - STALE), now)
    if not changed:
        return {}
    began = {reader.id: max(last_heard(reader) - LATE, now - STALE) for reader in readers}
    found: dict[int, list[Change]] = defaultdict(list)
    for reader_id, paper_id, sent_at, told in sent(session, list(began), list(changed)):
        if sent_at is not None:
            heard = max(sent_at, began[reader_id])
            news = [
                one for one in changed[paper_id] if one.seen_at > heard and one.news.kind not in (told or "")
            ]
            if news:
                found[reader_id] += news
    return {number: gathered(some) for number, some in found.items()}


def last_heard(reader: Reader) -> datetime:
    """Return when the reader was last told something, or began to listen."""
    moment: datetime = reader.heard_at or reader.confirmed_at or reader.created_at
    return moment


def gathered(found: list[Change]) -> Pending:
    """Return the news of one reader, the gravest first."""
    found.sort()
    return Pending(tuple([one.news for one in found[:MOST]]), min([one.seen_at for one in found]))


CHANGE: Any = ChangeRow.__table__.c
SHOWN: Any = Shown.__table__.c
TOLD: Any = Told.__table__.c
CHANGED = (
    select(CHANGE.paper_id, CHANGE.kind, CHANGE.seen_at, PaperRow.title, CHANGE.says)
    .join(PaperRow, PaperRow.id == CHANGE.paper_id)
    .where(CHANGE.seen_at > bindparam("since"), CHANGE.seen_at <= bindparam("until"))
)


def changes(session: Session, since: datetime, until: datetime) -> Mapping[int, Sequence[Change]]:
    """Return what has become of papers in that time, by paper: it is read once for many readers."""
    rows = session.connection().execute(CHANGED, {"since": since, "until": until})
    found = sorted(
        (
            GRAVITY.index(kind),
            seen_at,
            FollowUp(paper, str(kind), papers.display(title), papers.display(says)),
        )
        for paper, kind, seen_at, title, says in rows
    )
    by_paper: dict[int, list[Change]] = defaultdict(list)
    for place, (_, seen_at, news) in enumerate(found):
        by_paper[news.paper].append(Change(place, seen_at, news))
    return by_paper


def sent(
    session: Session, subscriber_ids: Collection[int], papers: Collection[int]
) -> Sequence[Row[int, int, datetime | None, str | None]]:
    """Return (reader, paper, when it was sent, what was told of it) for those of the papers these were shown.

    When is None for what was never delivered; what was told is a list of kinds, or None.
    """
    connection = session.connection()
    asked = {"ids": subscriber_ids, "papers": papers}
    return connection.execute(sending(connection.dialect.name), asked).all()


@lru_cache
def sending(dialect: str) -> Select[int, int, datetime | None, str | None]:
    """Return the statement of `sent`, put together once.

    Of each showing its delivery is asked, and what was told: a planner that has not heard yet what was sent
    would read all deliveries, again and again.
    """
    shown = showings.by_reader(dialect, db.among(SHOWN.paper_id, db.many("papers", SHOWN.paper_id))).c
    delivered = Delivery.id == shown.delivery_id, Delivery.state == DeliveryState.SENT
    same = TOLD.subscriber_id == shown.subscriber_id, TOLD.paper_id == shown.paper_id
    return select(
        shown.subscriber_id,
        shown.paper_id,
        select(Delivery.dated_at).where(*delivered).scalar_subquery(),
        select(func.aggregate_strings(TOLD.kind, ",")).where(*same).scalar_subquery(),
    )


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
