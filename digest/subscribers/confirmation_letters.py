"""Ask addresses by mail to confirm what was requested for them, and remind them once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from digest.db.tables.deliveries import DeliveryState
from digest.db.tables.subscribers import Confirmation, Subscriber, SubscriberState
from digest.delivery.outbox import enqueue, planned_letters
from digest.delivery.outbox.letter_eligibility import LIFTS_SUPPRESSION
from digest.letters import figures_in_words
from digest.letters.headers import one_line
from digest.site.site_profile import Site
from digest.subscribers import (
    filter_registry,
    invitations,
    reader_settings,
    sign_up_limits,
    subscriber_letters,
    subscriber_topics,
)
from digest.subscribers.reader_settings import ReaderSettings, Remark
from digest.topics.starter_filters import STARTER_TOPICS

REMIND_AFTER = timedelta(hours=24)


def confirmation_decision(
    session: Session, confirmation: Confirmation, subscriber: Subscriber
) -> dict[str, Any]:
    """Return the variables of a letter with a confirmation link: the requested digest and its schedule."""
    asked = request_of(session, confirmation, subscriber)
    decision = {"confirmation_id": confirmation.id, "requested": asked.digest, "schedule": asked.schedule}
    if not asked.remarks:
        return decision
    if confirmation.evidence:
        return {**decision, "remarks": asked.remarks}
    # a stranger may have written these lines, so nothing in them links or dials
    harmless = [
        (figures_in_words.quoted_words(line), figures_in_words.unlinkable(result))
        for line, result in asked.remarks
    ]
    return {**decision, "remarks": harmless}


@dataclass(frozen=True, kw_only=True, slots=True)
class Request:
    """What a confirmation asks for: the digest and its schedule in words, and the topics."""

    digest: str  #: such as `a daily digest of papers on diffusion and robots`
    schedule: str  #: such as `Monday to Friday at 08:00, Oslo`
    topics: Mapping[str, str]  #: filters by name
    settings: str  #: such as `Every day at 08:00, UTC · at most 10 papers · short abstracts`
    remarks: tuple[Remark, ...] = ()  #: what the lines of a sign-up by mail gave


def request_of(session: Session, confirmation: Confirmation, subscriber: Subscriber) -> Request:
    """Return the request stored with a confirmation; current settings replace what it leaves out."""
    requested = ReaderSettings.from_json(confirmation.requested_settings)
    texts = {**reader_settings.texts_of(subscriber), **requested.texts}
    schedule = reader_settings.schedule_in(texts)
    stored = subscriber_topics.typed_topics(session, [subscriber.id])
    topics = requested.topics or stored.get(subscriber.id, {})
    return Request(
        digest=figures_in_words.requested_digest(
            schedule.cadence, list(map(one_line, topics)), own=own_names(topics)
        ),
        schedule=figures_in_words.schedule_in_words(schedule),
        topics=topics,
        settings=reader_settings.in_words(texts),
        remarks=requested.remarks,
    )


def own_names(topics: Mapping[str, str]) -> frozenset[str]:
    """Return the names that no stranger chose: those of the topics that the form offers, and of packs."""
    return frozenset(
        name
        for name, text in topics.items()
        if STARTER_TOPICS.get(name) == text or filter_registry.is_pack_topic(name, text)
    )


def queue_confirmation(
    session: Session, site: Site, subscriber: Subscriber, confirmation: Confirmation, *, now: datetime
) -> None:
    """Store a confirmation and queue its letter; the letter stores the confirmation's id, never the token."""
    session.add(confirmation)
    session.flush()
    decision = confirmation_decision(session, confirmation, subscriber)
    if confirmation.lifts_suppression:
        decision[LIFTS_SUPPRESSION] = True
    invitations.withdraw_invitation(session, site, subscriber.email_key, now=now)
    letter = planned_letters.ConfirmLetter(confirmation_id=confirmation.id, contents=decision)
    email, expires_at = confirmation.email, confirmation.expires_at
    subscriber_letters.queue_letter(
        session, site, subscriber, letter, email=email, now=now, expires_at=expires_at
    )


def queue_reminders(session: Session, site: Site, now: datetime) -> int:
    """Queue a reminder for each confirmation that is unused after a day; return how many were queued.

    An address gets only one reminder, however often it is signed up. Invited and suppressed addresses get no
    reminder. No reminders are sent while too many unused confirmations slow down sign-ups.
    """
    if sign_up_limits.counts(session, now).is_slower:
        return 0
    unanswered = (
        select(Confirmation, Subscriber)
        .join(Subscriber, Subscriber.id == Confirmation.subscriber_id)
        .where(
            Confirmation.used_at.is_(None),
            sign_up_limits.IS_ASKED_FOR,
            ~Confirmation.lifts_suppression,
            Confirmation.made_at <= now - REMIND_AFTER,
            Confirmation.expires_at > now,
            Subscriber.state == SubscriberState.PENDING,
        )
    )
    queued = 0
    for confirmation, subscriber in session.execute(unanswered).all():
        contents = confirmation_decision(session, confirmation, subscriber)
        letter = planned_letters.ReminderLetter(subscriber_id=subscriber.id, contents=contents)
        email, expires_at = confirmation.email, confirmation.expires_at
        number = subscriber_letters.queue_letter(
            session, site, subscriber, letter, email=email, now=now, expires_at=expires_at
        )
        queued += number is not None
    return queued


def skip_reminders(session: Session, site: Site, reason: str, *, now: datetime) -> int:
    """Store an expired reminder for every unused confirmation, so that no reminder is sent.

    Returns the number of reminders stored.
    """
    unanswered = (
        select(Subscriber.id, func.coalesce(Subscriber.owner_email, Subscriber.email))
        .join(Confirmation, Confirmation.subscriber_id == Subscriber.id)
        .where(Confirmation.used_at.is_(None), Confirmation.expires_at > now)
        .distinct()
    )
    ended = {"state": DeliveryState.EXPIRED, "reason": reason, "settled_at": now}
    rows = [
        {
            **ended,
            **planned_letters.ReminderLetter(subscriber_id=number).columns(),
            "subscriber_id": number,
            "email": email,
        }
        for number, email in session.execute(unanswered)
    ]
    return enqueue.queue_bulk_letters(session, rows, site=site, now=now) if rows else 0
