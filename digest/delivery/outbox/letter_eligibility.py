"""Decide whether a letter may still be sent, given the current state of its recipient."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, time
from functools import lru_cache
from typing import Any

from sqlalchemy import Select, case, literal_column, select
from sqlalchemy.orm import Session

from digest import db
from digest.db.tables.deliveries import DeliveryState
from digest.db.tables.subscribers import Subscriber, SubscriberState
from digest.delivery.outbox.stuck_deliveries import MAX_IN_DOUBT
from digest.delivery.outbox.transitions import ClaimedDelivery
from digest.editions.schedule import Cadence, Schedule

#: Key in the decision of a confirmation that may go to an address suppressed by bounces or a complaint.
LIFTS_SUPPRESSION = "lifts_suppression"
#: The letters to addresses that anybody may have entered. What happens to them must not affect other letters.
UNCONFIRMED_LETTERS = frozenset({"confirm", "reminder"})


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


def refusal_reason(  # noqa: PLR0911  (one return for each reason)
    delivery: ClaimedDelivery, recipient: RecipientState | None, *, is_suppressed: bool, now: datetime
) -> tuple[DeliveryState, str] | None:
    """Return the terminal state and the reason if this delivery must not be sent, else None."""
    if delivery.in_doubt >= MAX_IN_DOUBT:
        return DeliveryState.STUCK, f"in doubt {delivery.in_doubt} times: it may or may not have arrived"
    if delivery.email is None:
        return DeliveryState.SUPPRESSED, "the address was erased"
    if is_suppressed:
        return DeliveryState.SUPPRESSED, "the address is suppressed"
    if not is_eligible(delivery, recipient):
        return DeliveryState.SUPPRESSED, f"the subscriber is {recipient.state if recipient else 'removed'}"
    if delivery.expires_at <= now:
        waited = f"; it had waited: {delivery.reason}" if delivery.reason else ""
        return (
            DeliveryState.EXPIRED,
            f"too late: it expired at {delivery.expires_at:%Y-%m-%d %H:%M} UTC{waited}",
        )
    return None


def may_reach_suppressed(delivery: ClaimedDelivery) -> bool:
    """Return whether this is a confirmation that lets the owner of an address lift its suppression."""
    return delivery.letter == "confirm" and bool(json.loads(delivery.decision).get(LIFTS_SUPPRESSION))


def is_eligible(delivery: ClaimedDelivery, recipient: RecipientState | None) -> bool:  # noqa: PLR0911  (one return for each condition)
    """Return whether the recipient's current state allows this letter."""
    if delivery.letter == "invite":
        return recipient is not None and recipient.state is SubscriberState.PENDING
    match recipient.state if recipient else None:
        case None:  # a sender who is not a subscriber gets a reply; an erased subscriber gets no digest
            return delivery.edition is None
        case SubscriberState.ACTIVE:
            return True
        case SubscriberState.PAUSED:
            return delivery.edition is None and delivery.letter not in {"nothing_today", "still_reading"}
        case SubscriberState.PENDING:
            return delivery.letter in UNCONFIRMED_LETTERS
        case SubscriberState.UNSUBSCRIBED:
            return delivery.letter not in {"digest", "welcome", "nothing_today", "changed", "still_reading"}
