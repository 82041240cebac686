"""Ask long-inactive readers whether they still read their digests, and pause those who do not respond.

A reader is active if they press a button on our pages or write to us. Opening a page does not count, because
mail scanners open every link. Since reading is not tracked, readers who only read are asked too: first in two
digests, then by a letter. Their digests are paused two weeks after the letter.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from sqlalchemy import ColumnElement, func, select, update
from sqlalchemy.orm import Session

from digest.db.tables.deliveries import Delivery, DeliveryState, Lane
from digest.db.tables.subscribers import SUBSCRIBED, StillReadingStep, Subscriber, SubscriberState
from digest.delivery.outbox import planned_letters
from digest.letters import figures_in_words
from digest.site.site_profile import Site
from digest.subscribers import pauses, subscriber_letters, subscriber_rows

DIGESTS_ASKING = 2  #: number of digests that ask the question before the letter is sent
ANSWER_WITHIN = timedelta(days=14)  #: time to answer the letter before the digests are paused
BATCH_READERS = 500  #: maximum number of readers that a run processes in each step (asking, mailing, pausing)


# ── activity ────────────────────────────────────────────────────────────────────────────────────


def note_activity(session: Session, subscriber: Subscriber, *, now: datetime) -> None:
    """Record that a reader was active, so that they are not asked whether they still read."""
    if subscriber.state in SUBSCRIBED:
        subscriber.last_active_at = now
        subscriber.still_reading_step = StillReadingStep.NONE
        subscriber.still_reading_at = None
        session.flush()


def note_mail(session: Session, sender: str, *, received_at: datetime) -> None:
    """Record activity if the sender of a message is a reader; ignore other senders."""
    subscriber = subscriber_rows.find(session, sender) if sender else None
    if subscriber is not None:
        note_activity(session, subscriber, now=received_at)


# ── the steps ───────────────────────────────────────────────────────────────────────────────────


def take_steps(session: Session, site: Site, *, after: timedelta | None, now: datetime) -> None:
    """Take each of the three steps for a batch of readers: ask in a digest, mail a letter, and pause.

    Readers inactive for the time `after` are asked; if it is None, nobody is.
    """
    if after is None:
        return
    pause_unanswered(session, now=now)
    send_letters(session, site, now=now)
    ask_in_digests(session, after=after, now=now)


def ask_in_digests(session: Session, *, after: timedelta, now: datetime) -> None:
    """Mark readers who were inactive for the time `after`; their next digests ask whether they still read."""
    last_active = func.coalesce(Subscriber.last_active_at, Subscriber.confirmed_at, Subscriber.created_at)
    silent = (
        select(Subscriber.id)
        .where(
            Subscriber.state == SubscriberState.ACTIVE,
            Subscriber.still_reading_step == StillReadingStep.NONE,
            last_active < now - after,
        )
        .order_by(Subscriber.id)
        .limit(BATCH_READERS)
    )
    numbers = list(session.scalars(silent))
    values = {"still_reading_step": StillReadingStep.ASKED, "still_reading_at": now}
    session.execute(update(Subscriber).where(Subscriber.id.in_(numbers)).values(values))


def send_letters(session: Session, site: Site, *, now: datetime) -> None:
    """Queue the "Still reading?" letter to readers who were asked in two digests."""
    asking = (
        select(func.count())
        .where(
            Delivery.subscriber_id == Subscriber.id,
            Delivery.edition.is_not(None),
            Delivery.state == DeliveryState.SENT,
            Delivery.dated_at >= Subscriber.still_reading_at,
        )
        .correlate(Subscriber)
        .scalar_subquery()
    )
    until = figures_in_words.day_in_words((now + ANSWER_WITHIN).date())
    for subscriber in readers_at(session, StillReadingStep.ASKED, asking >= DIGESTS_ASKING):
        letter = planned_letters.StillReadingLetter(
            subscriber_id=subscriber.id, day=now.date(), contents={"until": until}
        )
        subscriber_letters.queue_letter(session, site, subscriber, letter, now=now, lane=Lane.BULK)
        subscriber.still_reading_step, subscriber.still_reading_at = StillReadingStep.LETTER, now


def pause_unanswered(session: Session, *, now: datetime) -> None:
    """Pause readers who did not answer the "Still reading?" letter in time; the pause lasts until they resume."""
    for subscriber in readers_at(
        session, StillReadingStep.LETTER, Subscriber.still_reading_at <= now - ANSWER_WITHIN
    ):
        pauses.pause(session, subscriber, None, now)
        subscriber.still_reading_step = StillReadingStep.NONE


def readers_at(session: Session, step: StillReadingStep, condition: ColumnElement[bool]) -> list[Subscriber]:
    """Lock and return the active readers who are at this step and meet the condition."""
    found = (
        select(Subscriber)
        .where(Subscriber.state == SubscriberState.ACTIVE, Subscriber.still_reading_step == step, condition)
        .order_by(Subscriber.id)
        .limit(BATCH_READERS)
    )
    return list(session.scalars(found.with_for_update(skip_locked=True)))
