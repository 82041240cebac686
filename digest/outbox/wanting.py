"""Wanting: whether a letter may still go out, and what its reader wants now."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, time
from functools import lru_cache

from sqlalchemy import literal_column, select
from sqlalchemy.orm import Session

from digest import db
from digest.editions import Cadence, Schedule
from digest.model import DeliveryState, Subscriber, SubscriberState
from digest.outbox.claiming import Claimed

MAX_IN_DOUBT = 3  #: attempts in doubt after which a person must look


@dataclass(frozen=True, kw_only=True, slots=True)
class Reader:
    """What a subscriber wants, as of now: asked again right before their letter goes out."""

    state: SubscriberState
    epoch: int
    language: str
    schedule: Schedule


READER = tuple(
    Subscriber.__table__.c[name]
    for name in ("id", "state", "epoch", "language", "cadence", "at", "timezone", "weekday", "not_after")
)
#: What tells one state of a row from the next; PostgreSQL numbers whoever wrote it.
VERSION = {"postgresql": "CAST(subscriber.xmin AS text)", "sqlite": "''"}
READING = {
    kind: select(literal_column(version), *READER).where(db.among(READER[0], db.many("ids", READER[0])))
    for kind, version in VERSION.items()
}


def readers(session: Session, ids: Iterable[int | None]) -> dict[int, Reader]:
    """Return these subscribers by id; who was removed is left out."""
    return {number: reader for number, (reader, _) in seen(session, ids).items()}


def seen(session: Session, ids: Iterable[int | None]) -> dict[int, tuple[Reader, str]]:
    """Return them with the version of their row, which is another once anything in it has changed."""
    wanted = {number for number in ids if number is not None}
    if not wanted:
        return {}
    connection = session.connection()
    found = connection.execute(READING[connection.dialect.name], {"ids": wanted}).all()
    return {row[1]: (reader(*row[2:]), row[0]) for row in found}


@lru_cache(maxsize=4096)
def reader(
    state: str,
    epoch: int,
    language: str,
    cadence: str,
    at: time,
    timezone: str,
    weekday: int,
    not_after: time | None,
) -> Reader:
    """Return a subscriber's row as a value: thousands want the same at the same hour."""
    schedule = Schedule(
        cadence=Cadence(cadence), at=at, timezone=timezone, weekday=weekday, not_after=not_after
    )
    return Reader(state=SubscriberState(state), epoch=epoch, language=language, schedule=schedule)


def refusal(
    delivery: Claimed, reader: Reader | None, *, is_suppressed: bool, now: datetime
) -> tuple[DeliveryState, str] | None:
    """Return the state and reason in which this delivery ends unsent, or None if it may go out."""
    if delivery.in_doubt >= MAX_IN_DOUBT:
        return DeliveryState.STUCK, f"in doubt {delivery.in_doubt} times: nobody can know whether it arrived"
    if delivery.email is None:
        return DeliveryState.SUPPRESSED, "the address was erased"
    if is_suppressed:
        return DeliveryState.SUPPRESSED, "the address is suppressed"
    if not is_wanted(delivery, reader):
        return DeliveryState.SUPPRESSED, f"the subscriber is {reader.state if reader else 'removed'}"
    if delivery.expires_at <= now:
        waited = f"; it had waited: {delivery.reason}" if delivery.reason else ""
        return (
            DeliveryState.EXPIRED,
            f"too late: it expired at {delivery.expires_at:%Y-%m-%d %H:%M} UTC{waited}",
        )
    return None


def is_wanted(delivery: Claimed, reader: Reader | None) -> bool:
    """Return whether its subscriber, as they are now, may be sent this letter."""
    if delivery.letter == "invite":
        return reader is not None and reader.state is SubscriberState.PENDING
    match reader.state if reader else None:
        case None:  # a stranger's question is answered; the digest of somebody removed is not sent
            return delivery.edition is None
        case SubscriberState.ACTIVE:
            return True
        case SubscriberState.PAUSED:
            return delivery.edition is None and delivery.letter != "quiet"
        case SubscriberState.PENDING:
            return delivery.letter in {"confirm", "reminder"}
        case SubscriberState.UNSUBSCRIBED:
            return delivery.letter not in {"digest", "welcome", "quiet", "changed"}
