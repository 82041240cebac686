"""List the recorded consents, letters, bounces and state changes of one subscriber, ordered by time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import select
from sqlalchemy.orm import Session

from digest import plurals
from digest.bounces import suppressions
from digest.db.tables.deliveries import Delivery
from digest.db.tables.inbound_mail import BounceRow
from digest.db.tables.subscribers import Confirmation, Consent, OperatorAct, Subscriber, SubscriberState
from digest.delivery.outbox import delivery_listing
from digest.editions.compose import Digest
from digest.site.site_profile import Site
from digest.subscribers import subscriber_rows


@dataclass(frozen=True, kw_only=True, slots=True, order=True)
class HistoryEvent:
    """A recorded event in a subscriber's history."""

    at: datetime
    event: str
    detail: str = ""
    delivery_id: int = 0  #: id of the delivery; 0 if the event is not about a letter


def reader_history(session: Session, site: Site, email: str) -> list[HistoryEvent]:
    """Return the events of a subscriber, latest first."""
    subscriber = subscriber_rows.get(session, email)
    of_reader = session, subscriber
    events = [*own_events(*of_reader), *letter_events(*of_reader), *bounce_events(session, site, subscriber)]
    return sorted(events, reverse=True)


def own_events(session: Session, subscriber: Subscriber) -> Iterator[HistoryEvent]:
    """Yield when the subscriber was added or unsubscribed, the consents, and what operators did with commands."""
    yield HistoryEvent(at=subscriber.created_at, event="added")
    if subscriber.state == SubscriberState.UNSUBSCRIBED and subscriber.unsubscribed_at:
        yield HistoryEvent(at=subscriber.unsubscribed_at, event="unsubscribed")
    for asked in session.scalars(select(Confirmation).where(Confirmation.subscriber_id == subscriber.id)):
        yield HistoryEvent(at=asked.made_at, event="confirmation requested")
    for given in session.scalars(select(Consent).where(Consent.subscriber_id == subscriber.id)):
        yield HistoryEvent(at=given.given_at, event="consent", detail=given.how)
    for act in session.scalars(select(OperatorAct).where(OperatorAct.subscriber_id == subscriber.id)):
        yield HistoryEvent(at=act.at, event=f"operator {act.operator}".rstrip(), detail=act.act)


def letter_events(session: Session, subscriber: Subscriber) -> Iterator[HistoryEvent]:
    """Yield an event for each letter to the subscriber or, about a group, to its owner."""
    rows = list(delivery_listing.list_deliveries(session, email=subscriber.email))
    if subscriber.is_group:
        to_owner = delivery_listing.list_deliveries(session, email=subscriber.contact_email)
        rows += [row for row in to_owner if row.subscriber_id == subscriber.id]
    for row in rows:
        yield HistoryEvent(
            at=row.settled_at or row.dated_at,
            event=f"{row.edition or row.letter}: {row.state}",
            detail=letter_detail(row),
            delivery_id=row.id,
        )


def letter_detail(row: Delivery) -> str:
    """Return a digest's number of papers, the reason for its state, and its attempts in doubt, in words."""
    size = Digest.from_json(row.decision).size if row.edition else 0
    parts = [
        plurals.count(size, "paper") if size else "",
        row.reason,
        f"{plurals.count(row.in_doubt, 'attempt')} in doubt" if row.in_doubt else "",
    ]
    return "; ".join(filter(None, parts))


def bounce_events(session: Session, site: Site, subscriber: Subscriber) -> Iterator[HistoryEvent]:
    """Yield the bounces and complaints, and the suppression of the address."""
    hmac = suppressions.address_hmac(site, subscriber.email)
    for row in session.scalars(select(BounceRow).where(BounceRow.hmac == hmac)):
        name = "complaint" if row.kind == "complaint" else f"{row.kind} bounce"
        yield HistoryEvent(
            at=row.at, event=name, detail=row.diagnostic or row.status, delivery_id=row.delivery_id or 0
        )
    entry = suppressions.find_suppression(session, site, subscriber.email)
    if entry is not None:
        detail = f"{entry.reason}: {entry.note}" if entry.note else str(entry.reason)
        yield HistoryEvent(at=entry.since, event="suppressed", detail=detail)
