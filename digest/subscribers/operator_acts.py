"""What an operator does to a subscriber; each act is recorded, and the records are erased with the subscriber."""

from __future__ import annotations

from datetime import date, datetime

from sqlalchemy.orm import Session

from digest.db.tables.subscribers import SUBSCRIBED, OperatorAct, Subscriber, SubscriberState
from digest.errors import BadField
from digest.site.site_profile import Site
from digest.subscribers import confirmations, pauses, subscriber_rows, subscriber_topics, undo_changes
from digest.subscribers.confirmations import SignUpOutcome
from digest.subscribers.reader_settings import ReaderSettings
from digest.subscribers.unsubscribe_and_undo import mark_unsubscribed


def record_act(session: Session, subscriber: Subscriber, act: str, *, operator: str, now: datetime) -> None:
    """Record that an operator did something; `act` is a sentence or a few words."""
    session.add(OperatorAct(subscriber_id=subscriber.id, at=now, operator=operator[:80], act=act))
    session.flush()


def add_by_operator(  # noqa: PLR0913  (the columns of a subscriber, by keyword)
    session: Session,
    site: Site,
    email: str,
    given: ReaderSettings,
    *,
    name: str = "",
    owner: str | None = None,
    consent: str | None = None,
    operator: str = "",
    now: datetime,
) -> Subscriber:
    """Add an active subscriber, whose `consent` describes how they agreed, or without it a pending one.

    The `owner` manages the digests of a group address, and gets its confirmation. Raises BadField or BadFilter if a
    value is invalid, or if the address is suppressed or subscribed already.
    """
    if consent:
        texts, state, act = given.texts, SubscriberState.ACTIVE, "added as confirmed"
        subscriber = subscriber_rows.add(
            session, email, name=name, topics=given.topics, texts=texts, state=state, owner=owner, consent=consent,
            now=now, site=site,
        )  # fmt: skip
    else:
        ask_to_confirm(session, site, email, given, owner=owner, now=now)
        subscriber, act = subscriber_rows.get(session, email), "added, confirmation requested"
        subscriber.name = subscriber_topics.clean_line(name) or subscriber.name
    record_act(session, subscriber, act, operator=operator, now=now)
    return subscriber


def ask_to_confirm(
    session: Session, site: Site, email: str, given: ReaderSettings, *, owner: str | None, now: datetime
) -> None:
    """Queue the confirmation letter of a pending subscriber; raise BadField, with the reason, if it may not be sent."""
    known = subscriber_rows.find(session, email)
    if known is not None and known.state in SUBSCRIBED:
        raise BadField("email", f"{known.email} is already {known.state}. See: digest subscribers edit")
    result = confirmations.request_subscription(session, site, email, requested=given, owner=owner, now=now)
    reasons = {
        SignUpOutcome.SUPPRESSED: "is suppressed (digest suppressions list), or an address of this service.",
        SignUpOutcome.CAPPED: "got a confirmation mail in the last 24 hours, or three in the last 30 days; wait, or use --confirmed.",
    }
    if result.outcome in reasons:
        raise BadField("email", f"{email} {reasons[result.outcome]}")


def change_by_operator(
    session: Session,
    subscriber: Subscriber,
    given: ReaderSettings,
    *,
    name: str | None = None,
    owner: str | None = None,
    operator: str = "",
    now: datetime,
) -> bool:
    """Change the given settings, without notifying the subscriber; return whether any changed.

    `owner` is the person who will manage the subscription, which makes the address a group's.
    """
    before = undo_changes.settings_of(session, subscriber)
    sentences = ["New owner."] if owner is not None and subscriber_rows.set_owner(subscriber, owner) else []
    if name is not None and subscriber_topics.clean_line(name) != subscriber.name:
        subscriber.name = subscriber_topics.clean_line(name)
        sentences.append("New name.")
    undo_changes.edit(session, subscriber, given, now=now)
    if undo_changes.record_change(session, subscriber, before, now=now) is not None:
        sentences[:0] = undo_changes.describe_change(before, undo_changes.settings_of(session, subscriber))
    if sentences:
        record_act(session, subscriber, " ".join(sentences), operator=operator, now=now)
    return bool(sentences)


def undo_by_operator(
    session: Session, subscriber: Subscriber, *, operator: str = "", now: datetime
) -> tuple[str, ...]:
    """Undo a subscriber's latest change without notice; return sentences about the restored settings."""
    undone = undo_changes.undo_change(session, subscriber, now=now)
    if undone:
        undo_changes.withdraw_change_letter(session, subscriber, now=now)
        record_act(session, subscriber, f"undone: {' '.join(undone)}", operator=operator, now=now)
    return undone


def pause_by_operator(
    session: Session, subscriber: Subscriber, until: date | None, *, operator: str = "", now: datetime
) -> bool:
    """Pause a subscriber, or change a pause, without notice; return False if they get no digests."""
    is_paused = pauses.pause(session, subscriber, until, now)
    if is_paused:
        record_act(session, subscriber, f"paused until {until or 'they resume'}", operator=operator, now=now)
    return is_paused


def resume_by_operator(session: Session, subscriber: Subscriber, *, operator: str, now: datetime) -> bool:
    """Resume a paused subscriber; return False if they are not paused."""
    is_resumed = pauses.resume(session, subscriber, now)
    if is_resumed:
        record_act(session, subscriber, "resumed", operator=operator, now=now)
    return is_resumed


def remove_by_operator(session: Session, email: str, *, operator: str, now: datetime) -> Subscriber:
    """Unsubscribe a subscriber without notice; their history is kept in case they return."""
    subscriber = subscriber_rows.get(session, email)
    if mark_unsubscribed(session, subscriber, now=now):
        record_act(session, subscriber, "unsubscribed", operator=operator, now=now)
    return subscriber
