"""Find, list and count deliveries, for operators, for readers and for the scheduler."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from sqlalchemy import ColumnElement, and_, func, or_, select
from sqlalchemy.orm import Session

from digest.db.tables.deliveries import Delivery, DeliveryState, Lane
from digest.db.tables.subscribers import Subscriber
from digest.delivery.outbox.open_deliveries import is_due
from digest.errors import NotFound
from digest.mail import addresses

BATCH_ROWS = 500  #: number of rows read at once
IS_SENT_DIGEST = and_(Delivery.edition.is_not(None), Delivery.state == DeliveryState.SENT)


def list_deliveries(
    session: Session,
    *,
    state: DeliveryState | None = None,
    email: str | None = None,
    limit: int | None = None,
) -> Iterator[Delivery]:
    """Yield deliveries, newest first, read in batches."""
    query = select(Delivery).where(*conditions_for(state, email)).order_by(Delivery.id.desc()).limit(limit)
    yield from session.scalars(query.execution_options(yield_per=BATCH_ROWS))


def count_deliveries(
    session: Session, *, state: DeliveryState | None = None, email: str | None = None
) -> int:
    """Return the number of deliveries that meet the conditions."""
    counting = select(func.count()).select_from(Delivery).where(*conditions_for(state, email))
    return session.scalar(counting) or 0


def conditions_for(state: DeliveryState | None, email: str | None) -> list[ColumnElement[bool]]:
    """Return the SQL conditions for a state, and for an address of the subscriber or of the delivery."""
    conditions: list[ColumnElement[bool]] = [] if state is None else [Delivery.state == state]
    if email is not None:
        ids = select(Subscriber.id).where(Subscriber.email_key == addresses.fold_address(email))
        is_to = func.lower(Delivery.email) == email.strip().lower()
        conditions.append(Delivery.subscriber_id.in_(ids) | is_to)
    return conditions


def find_delivery(session: Session, name: str) -> Delivery:
    """Return the delivery with this id or Message-ID, ours or the provider's, or raise NotFound."""
    message_id = name.strip("<>")
    condition = or_(
        Delivery.message_id == f"<{message_id}>", Delivery.provider_id == message_id.partition("@")[0]
    )
    if name.isascii() and name.isdigit() and len(name) < 19:  # the column can hold any 18-digit number
        condition = Delivery.id == int(name)
    row = session.scalars(select(Delivery).where(condition).limit(1)).first()
    if row is None:
        raise NotFound(f"There is no delivery {name}. See: digest deliveries")
    return row


def find_digest(session: Session, subscriber_id: int, edition: str) -> Delivery | None:
    """Return a reader's digest of an edition, or None."""
    conditions = (Delivery.subscriber_id == subscriber_id, Delivery.edition == edition)
    return session.scalars(select(Delivery).where(*conditions)).one_or_none()


def list_sent_digests(session: Session, subscriber_id: int, *, limit: int) -> list[Delivery]:
    """Return the digests that were sent to a reader, latest first."""
    query = select(Delivery).where(Delivery.subscriber_id == subscriber_id, IS_SENT_DIGEST)
    return list(session.scalars(query.order_by(Delivery.id.desc()).limit(limit)))


def count_sent_digests(session: Session, subscriber_id: int) -> int:
    """Return the number of digests that were sent to a reader."""
    counting = select(func.count()).where(Delivery.subscriber_id == subscriber_id, IS_SENT_DIGEST)
    return session.scalar(counting) or 0


def count_due(session: Session, *, lane: Lane, now: datetime, limit: int = 1) -> int:
    """Return the number of due deliveries in a lane, counting at most `limit`."""
    due = select(Delivery.id).where(Delivery.lane == lane, is_due(now)).limit(limit)
    return session.execute(select(func.count()).select_from(due.subquery())).scalar_one()


def count_by_state(session: Session) -> dict[DeliveryState, int]:
    """Return the number of deliveries in each state, including states without deliveries."""
    found = session.execute(select(Delivery.state, func.count()).group_by(Delivery.state))
    count_of = {DeliveryState(state): number for state, number in found}
    return {state: count_of.get(state, 0) for state in DeliveryState}
