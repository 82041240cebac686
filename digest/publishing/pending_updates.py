"""Load the updates to papers that readers were sent earlier; each reader gets each update only once.

Updates are sent with the next digest that has papers. If no digest of a reader has papers within a week, the
updates are sent in a nothing-today letter. Loading takes one short statement per chunk, and a second query on
the readers' `shown` rows if any paper has changed.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from sqlalchemy import Row, bindparam, func, select
from sqlalchemy.orm import Session

from digest import db
from digest.db.tables.deliveries import Delivery, DeliveryState, FollowupSent, Shown
from digest.db.tables.papers import ChangeRow, PaperRow
from digest.delivery import shown as shown_papers
from digest.editions.compose import FollowUp
from digest.papers import display_text
from digest.publishing.reader_values import PendingFollowups, Reader

MAX_DELAY = timedelta(days=2)  #: maximum time between a dump's date and its arrival
MAX_AGE = timedelta(days=60)  #: a change older than this is not sent
MAX_WAIT = timedelta(days=7)  #: maximum time for which updates wait for a digest with papers
MAX_FOLLOWUPS = 20  #: maximum number of updates in a digest; withdrawals come first

KINDS_BY_GRAVITY = ("withdrawn", "published", "rewritten")


class PaperChange(NamedTuple):
    """A change of a paper, with the update that reports the change."""

    gravity: int  #: the key by which updates are sorted, withdrawals first
    seen_at: datetime
    news: FollowUp


def load_pending(
    session: Session, readers: Sequence[Reader], now: datetime
) -> Mapping[int, PendingFollowups]:
    """Return the updates that have not been sent to these readers yet, keyed by subscriber id."""
    if not readers:
        return {}
    changed = load_changes(session, max(min(map(last_mail_at, readers)) - MAX_DELAY, now - MAX_AGE), now)
    if not changed:
        return {}
    began = {reader.id: max(last_mail_at(reader) - MAX_DELAY, now - MAX_AGE) for reader in readers}
    found: dict[int, list[PaperChange]] = defaultdict(list)
    for reader_id, paper_id, sent_at, sent_kinds in load_sent_papers(session, list(began), list(changed)):
        if sent_at is not None:
            since = max(sent_at, began[reader_id])
            news = [
                one
                for one in changed[paper_id]
                if one.seen_at > since and one.news.kind not in (sent_kinds or "")
            ]
            if news:
                found[reader_id] += news
    return {
        number: PendingFollowups(
            news=tuple(one.news for one in sorted(some)[:MAX_FOLLOWUPS]),
            since=min(one.seen_at for one in some),
        )
        for number, some in found.items()
    }


def are_overdue(pending: PendingFollowups, now: datetime) -> bool:
    """Return whether a reader's updates may no longer wait for a digest with papers."""
    return now - pending.since >= MAX_WAIT


def last_mail_at(reader: Reader) -> datetime:
    """Return when a reader last got mail; if never, when they confirmed or else signed up."""
    moment: datetime = reader.last_mail_at or reader.confirmed_at or reader.created_at
    return moment


CHANGE_COLUMNS: Any = ChangeRow.__table__.c
SHOWN_COLUMNS: Any = Shown.__table__.c
FOLLOWUP_SENT_COLUMNS: Any = FollowupSent.__table__.c
CHANGES_QUERY = (
    select(
        CHANGE_COLUMNS.paper_id,
        CHANGE_COLUMNS.kind,
        CHANGE_COLUMNS.seen_at,
        PaperRow.title,
        CHANGE_COLUMNS.detail,
    )
    .join(PaperRow, PaperRow.id == CHANGE_COLUMNS.paper_id)
    .where(CHANGE_COLUMNS.seen_at > bindparam("since"), CHANGE_COLUMNS.seen_at <= bindparam("until"))
)


def load_changes(session: Session, since: datetime, until: datetime) -> Mapping[int, Sequence[PaperChange]]:
    """Return the changes of papers that were seen in (since, until], keyed by paper id."""
    rows = session.connection().execute(CHANGES_QUERY, {"since": since, "until": until})
    found = sorted(
        (
            KINDS_BY_GRAVITY.index(kind),
            seen_at,
            FollowUp(paper, str(kind), display_text.display(title), display_text.display(detail)),
        )
        for paper, kind, seen_at, title, detail in rows
    )
    by_paper: dict[int, list[PaperChange]] = defaultdict(list)
    for place, (_, seen_at, news) in enumerate(found):
        by_paper[news.paper].append(PaperChange(place, seen_at, news))
    return by_paper


def load_sent_papers(
    session: Session, subscriber_ids: Collection[int], papers: Collection[int]
) -> Sequence[Row[int, int, datetime | None, str | None]]:
    """Return (subscriber id, paper id, sent at, update kinds sent) for each paper that a reader was shown.

    `sent at` is None if the digest was not delivered. The kinds are separated by commas, or None if no update
    was sent. The delivery and the sent updates are found by a subquery for each `shown` row: with a join, a
    query planner without current statistics would read all deliveries repeatedly.
    """
    shown = shown_papers.shown_by_subscriber(session, db.one_of(SHOWN_COLUMNS.paper_id, papers)).c
    delivered = Delivery.id == shown.delivery_id, Delivery.state == DeliveryState.SENT
    same = (
        FOLLOWUP_SENT_COLUMNS.subscriber_id == shown.subscriber_id,
        FOLLOWUP_SENT_COLUMNS.paper_id == shown.paper_id,
    )
    query = select(
        shown.subscriber_id,
        shown.paper_id,
        select(Delivery.dated_at).where(*delivered).scalar_subquery(),
        select(func.aggregate_strings(FOLLOWUP_SENT_COLUMNS.kind, ",")).where(*same).scalar_subquery(),
    )
    return session.connection().execute(query, {"ids": subscriber_ids}).all()


def record_followups(
    session: Session, sent_followups: Iterable[tuple[int, int, Sequence[FollowUp]]], *, now: datetime
) -> None:
    """Record with which delivery each update was sent; raise IntegrityError if one is already recorded."""
    rows = [
        {
            "subscriber_id": subscriber_id,
            "paper_id": one.paper,
            "kind": one.kind,
            "delivery_id": delivery_id,
            "sent_on": now.date(),
        }
        for subscriber_id, delivery_id, news in sent_followups
        for one in news
    ]
    db.load_rows(session, FollowupSent, rows)
