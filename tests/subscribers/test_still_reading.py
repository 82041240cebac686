"""A reader who was long inactive is asked in two digests, then by one letter, then paused, and never erased."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest
from sqlalchemy import select
from sqlalchemy.orm import Session

from digest.db.tables.deliveries import Delivery, DeliveryState, Lane
from digest.db.tables.subscribers import StillReadingStep, Subscriber, SubscriberState
from digest.site.site_profile import Site
from digest.subscribers import pauses, still_reading, subscriber_rows, unsubscribe_and_undo

AFTER = timedelta(days=730)
DAY = timedelta(days=1)


@pytest.fixture
def alice(session: Session, now: datetime) -> Subscriber:
    return subscriber_rows.add(
        session, "alice@uni.edu", state=SubscriberState.ACTIVE, consent="asked", now=now - AFTER - DAY
    )


def ask(session: Session, site: Site, now: datetime) -> None:
    still_reading.take_steps(session, site, after=AFTER, now=now)
    session.expire_all()


def send_digest(session: Session, reader: Subscriber, at: datetime, state: DeliveryState) -> None:
    session.add(
        Delivery(
            subscriber_id=reader.id, email=reader.email, letter="digest", lane=Lane.BULK, dated_at=at,
            edition=f"daily-{at.date()}", state=state, due_at=at, expires_at=at, settled_at=at,
        )
    )  # fmt: skip
    session.commit()


def letters(session: Session) -> list[str]:
    return list(session.scalars(select(Delivery.letter).where(Delivery.edition.is_(None))))


def test_a_silent_reader_is_asked_by_two_digests_then_a_letter_then_paused(
    session: Session, site: Site, alice: Subscriber, now: datetime
) -> None:
    ask(session, site, now)
    assert alice.still_reading_step == StillReadingStep.ASKED

    send_digest(session, alice, now, DeliveryState.SENT)
    send_digest(session, alice, now + DAY, DeliveryState.FAILED)
    ask(session, site, now + DAY)
    assert (alice.still_reading_step, letters(session)) == (StillReadingStep.ASKED, [])

    send_digest(session, alice, now + 2 * DAY, DeliveryState.SENT)
    for hours in (1, 2):  # the letter is sent once
        ask(session, site, now + 2 * DAY + timedelta(hours=hours))
    assert (alice.still_reading_step, letters(session)) == (StillReadingStep.LETTER, ["still_reading"])

    ask(session, site, now + 15 * DAY)
    assert alice.state == SubscriberState.ACTIVE
    ask(session, site, now + 17 * DAY)
    assert (alice.state, alice.paused_until) == (SubscriberState.PAUSED, None)
    ask(session, site, now + 900 * DAY)
    assert subscriber_rows.get(session, "alice@uni.edu").state == SubscriberState.PAUSED
    assert letters(session) == ["still_reading"]


@pytest.mark.parametrize("step", list(StillReadingStep))
def test_any_activity_ends_the_questions(
    session: Session, site: Site, alice: Subscriber, now: datetime, step: StillReadingStep
) -> None:
    alice.still_reading_step, alice.still_reading_at = step, now - 20 * DAY

    still_reading.note_activity(session, alice, now=now)
    ask(session, site, now)

    assert (alice.state, alice.still_reading_step) == (SubscriberState.ACTIVE, StillReadingStep.NONE)


def test_a_reader_is_asked_again_after_another_silent_time(
    session: Session, site: Site, alice: Subscriber, now: datetime
) -> None:
    still_reading.note_activity(session, alice, now=now)

    steps = []
    for later in (AFTER - DAY, AFTER + DAY):
        ask(session, site, now + later)
        steps.append(alice.still_reading_step)

    assert steps == [StillReadingStep.NONE, StillReadingStep.ASKED]


def test_a_mail_from_a_reader_is_activity_and_one_from_a_stranger_is_nothing(
    session: Session, site: Site, alice: Subscriber, now: datetime
) -> None:
    still_reading.note_mail(session, "ALICE@uni.edu", received_at=now)
    still_reading.note_mail(session, "stranger@uni.edu", received_at=now)
    still_reading.note_mail(session, "", received_at=now)
    ask(session, site, now)

    assert (alice.last_active_at, alice.still_reading_step) == (now, StillReadingStep.NONE)


def test_a_new_paused_or_unsubscribed_reader_is_not_asked(
    session: Session, site: Site, now: datetime
) -> None:
    new = subscriber_rows.add(session, "new@uni.edu", state=SubscriberState.ACTIVE, consent="asked", now=now)
    old = now - 2 * AFTER
    away = subscriber_rows.add(
        session, "away@uni.edu", state=SubscriberState.ACTIVE, consent="asked", now=old
    )
    left = subscriber_rows.add(
        session, "left@uni.edu", state=SubscriberState.ACTIVE, consent="asked", now=old
    )
    pauses.pause(session, away, None, now)
    unsubscribe_and_undo.unsubscribe(session, site, left, now=now)

    ask(session, site, now)

    assert {new.still_reading_step, away.still_reading_step, left.still_reading_step} == {
        StillReadingStep.NONE
    }


def test_with_never_no_reader_is_asked(
    session: Session, site: Site, alice: Subscriber, now: datetime
) -> None:
    still_reading.take_steps(session, site, after=None, now=now)

    assert alice.still_reading_step == StillReadingStep.NONE
