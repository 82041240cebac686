"""Read and write the papers that readers were shown, one at a time."""

from __future__ import annotations

from datetime import date

from sqlalchemy import select
from sqlalchemy.orm import Session

from digest import db
from digest.db.tables import Shown
from digest.editions import shown


def shown_rows(session: Session) -> set[tuple[int, int, int]]:
    """Return (subscriber, paper, delivery) for each paper that a reader was shown; fail if one is listed twice."""
    papers = shown.each_paper(db.dialect_of(session), Shown.__table__).c
    found = session.execute(select(papers.subscriber_id, papers.paper_id, papers.delivery_id)).all()
    assert len({(row.subscriber_id, row.paper_id) for row in found}) == len(found)
    return {(row.subscriber_id, row.paper_id, row.delivery_id) for row in found}


def papers_shown_to(session: Session, subscriber_id: int) -> set[int]:
    """Return the papers that a reader was shown."""
    return set(session.scalars(select(shown.papers_of_reader(session, subscriber_id).c.paper_id)))


def shown_list(subscriber_id: int, delivery_id: int, day: date, *papers: int) -> Shown:
    """Return the row of a letter with these papers."""
    listed = ",".join(map(str, papers))
    return Shown(
        subscriber_id=subscriber_id,
        last_paper_id=max(papers),
        delivery_id=delivery_id,
        shown_on=day,
        papers=listed,
    )
