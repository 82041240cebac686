"""Load the recipients of letters, with the version of each row, which shows whether it has changed."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import time
from functools import lru_cache
from typing import Any

from sqlalchemy import Select, case, literal_column, select
from sqlalchemy.orm import Session

from digest import db
from digest.db.tables.subscribers import Subscriber, SubscriberState
from digest.editions.schedule import Cadence, Schedule


@dataclass(frozen=True, kw_only=True, slots=True)
class RecipientState:
    """A subscriber's state and settings, loaded again immediately before a letter is sent."""

    state: SubscriberState
    link_version: int
    schedule: Schedule
    group: str = ""  #: the address of a group; "" for a person


RECIPIENT_COLUMNS = tuple(
    Subscriber.__table__.c[name]
    for name in (
        "id",
        "state",
        "link_version",
        "cadence",
        "at",
        "timezone",
        "weekday",
    )
)
OWNER_EMAIL: Any = Subscriber.__table__.c.owner_email
#: The address of a group, as named in letters to the group's owner.
GROUP = case((OWNER_EMAIL.is_not(None), Subscriber.__table__.c.email), else_="")


@lru_cache(maxsize=2)  # there are two dialects
def recipient_version(dialect: str) -> str:
    """Return the SQL for the version of a recipient's row; it changes whenever one of these columns does."""
    columns = [*(column.name for column in RECIPIENT_COLUMNS), OWNER_EMAIL.name]
    return db.row_version_sql(dialect, "subscriber", columns)


@lru_cache(maxsize=2)  # there are two dialects
def recipients_query(dialect: str) -> Select[Any]:
    """Return the query that selects recipients by id, each with the version of its row."""
    is_given = db.one_of(RECIPIENT_COLUMNS[0], db.values_param("ids", RECIPIENT_COLUMNS[0]))
    return select(literal_column(recipient_version(dialect)), *RECIPIENT_COLUMNS, GROUP).where(is_given)


def load_recipients_with_versions(
    session: Session, ids: Iterable[int | None]
) -> dict[int, tuple[RecipientState, str]]:
    """Return the subscribers with these ids that still exist, keyed by id, each with its row's version."""
    known = {number for number in ids if number is not None}
    if not known:
        return {}
    query = recipients_query(db.dialect_name(session))
    found = session.connection().execute(query, {"ids": known}).all()
    return {row[1]: (recipient_state(*row[2:]), row[0]) for row in found}


@lru_cache(maxsize=4096)  # readers share a few hundred schedules, and most have link version 0
def recipient_state(  # noqa: PLR0917  (the columns of one row)
    state: str,
    link_version: int,
    cadence: str,
    at: time,
    timezone: str,
    weekday: int,
    group: str,
) -> RecipientState:
    """Return the state in a subscriber's row, cached because many subscribers have the same settings."""
    schedule = Schedule(cadence=Cadence(cadence), at=at, timezone=timezone, weekday=weekday)
    return RecipientState(
        state=SubscriberState(state),
        link_version=link_version,
        schedule=schedule,
        group=group,
    )
