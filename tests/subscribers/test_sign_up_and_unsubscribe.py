"""Signing up, changing settings and unsubscribing. Alice is confirmed, Bob pending, Charlie suppressed."""

import json
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, date, datetime, time, timedelta
from threading import Barrier

import pytest
from sqlalchemy import func, select, text

from digest import db
from digest.bounces import suppressions
from digest.bounces.suppressions import SuppressionReason
from digest.db.tables.deliveries import Attempt, Delivery, DeliveryState, Lane, Shown
from digest.db.tables.inbound_mail import OptOut
from digest.db.tables.subscribers import (
    Confirmation,
    Consent,
    FilterRow,
    Subscriber,
    SubscriberState,
    Subscription,
)
from digest.editions import schedule
from digest.editions.schedule import Cadence, Schedule
from digest.errors import BadField, BadFilter, NotFound
from digest.site import links
from digest.subscribers import (
    account,
    confirmation_letters,
    confirmations,
    filter_registry,
    next_digest,
    operator_acts,
    pauses,
    reader_settings,
    subscriber_rows,
    subscriber_topics,
    undo_changes,
    unsubscribe_and_undo,
)
from digest.subscribers.confirmations import SignUpOutcome
from digest.subscribers.reader_settings import ReaderSettings

OSLO = {"timezone": "Europe/Oslo"}


@pytest.fixture
def alice(session, now):
    return subscriber_rows.add(
        session, "Alice@Uni.edu", texts=OSLO, topics={"Vision": "title:image*"},
        state=SubscriberState.ACTIVE, consent="asked at the group meeting", now=now,
    )  # fmt: skip


@pytest.fixture
def bob(session, site, now):
    """Bob's confirmation: its id and its link token."""
    requested = ReaderSettings(
        topics={"Robots": "robot*"}, texts={**OSLO, "max_papers": "5", "abstracts": "titles"}
    )
    asked = confirmations.request_subscription(session, site, "bob@uni.edu", requested=requested, now=now)
    assert asked.confirmation_id
    return asked.confirmation_id, links.confirm_url(site, asked.confirmation_id).rpartition("/")[2]


@pytest.fixture
def charlie(session, site, now):
    suppressions.suppress(session, site, "charlie@uni.edu", SuppressionReason.COMPLAINT, "", now)
    return "charlie@uni.edu"


def letters(session):
    rows = select(Delivery.letter, Delivery.email).order_by(Delivery.id)
    return [tuple(row) for row in session.execute(rows)]


# ── adding ──────────────────────────────────────────────────────────────────────────────────────


def test_a_subscriber_is_found_under_any_spelling_of_the_address(session, alice):
    assert subscriber_rows.get(session, "ALICE@uni.EDU") is alice
    assert (alice.email, alice.email_key) == ("Alice@uni.edu", "alice@uni.edu")
    assert subscriber_rows.schedule_of(alice) == reader_settings.schedule_in(OSLO)
    assert alice.next_due_at is None  # look at the schedule now


def test_nobody_becomes_active_without_a_statement_of_consent(session, now):
    with pytest.raises(BadField, match="consent"):
        subscriber_rows.add(session, "dora@uni.edu", state=SubscriberState.ACTIVE, now=now)


def test_the_proof_of_consent_is_kept(session, alice, now):
    [proof] = session.scalars(select(Consent))

    assert (proof.subscriber_id, proof.given_at, proof.how) == (alice.id, now, "asked at the group meeting")


def test_a_like_clause_with_an_unknown_paper_is_refused(session, alice, now):
    with pytest.raises(BadFilter, match=r"There is no paper '2401.99999' in the catalog"):
        undo_changes.edit(session, alice, ReaderSettings(topics={"Like it": "like:2401.99999"}), now=now)


def test_an_address_subscribes_once(session, alice, now):
    with pytest.raises(BadField, match="is subscribed already"):
        subscriber_rows.add(session, "alice@UNI.edu", now=now)


def test_a_suppressed_address_is_not_added(session, site, charlie, now):
    with pytest.raises(BadField, match="is suppressed"):
        subscriber_rows.add(session, charlie, site=site, now=now)


def test_an_unknown_address_is_answered_with_the_most_similar_one(session, alice):
    with pytest.raises(NotFound, match=r"Did you mean alice@uni\.edu"):
        subscriber_rows.get(session, "alise@uni.edu")


def test_two_spellings_of_a_filter_are_one_filter(session, alice, now):
    dora = subscriber_rows.add(session, "dora@uni.edu", topics={"Pictures": "ti:image*"}, now=now)

    [hers], [hers_too] = (
        subscriber_topics.topics_of(session, alice),
        subscriber_topics.topics_of(session, dora),
    )
    assert hers.filter_id == hers_too.filter_id
    assert (hers.typed, hers_too.typed) == ("title:image*", "ti:image*")
    assert session.scalar(select(func.count(FilterRow.id))) == 1


def test_an_invalid_filter_adds_nobody(session, now):
    with pytest.raises(BadFilter):
        subscriber_rows.add(session, "dora@uni.edu", topics={"Broken": "a AND (b"}, now=now)
    session.rollback()

    assert subscriber_rows.find(session, "dora@uni.edu") is None


# ── asking and confirming ───────────────────────────────────────────────────────────────────────


def test_a_sign_up_creates_one_pending_row_and_one_letter(session, bob):
    subscriber = subscriber_rows.get(session, "bob@uni.edu")

    assert subscriber.state == SubscriberState.PENDING
    assert letters(session) == [("confirm", "bob@uni.edu")]


def test_the_letter_is_kept_without_its_token(session, bob):
    number, token = bob

    [kept] = session.execute(text("SELECT decision FROM delivery")).scalars()
    assert json.loads(kept) == {
        "confirmation_id": number,
        "requested": "a daily digest of papers on “Robots”",
        "schedule": "Every day at 08:00, Oslo",
    }
    assert token.rpartition(".")[2] not in kept


@pytest.mark.parametrize(
    ("hours", "letters_by_then"),
    [(0, 1), (23, 1), (24, 2), (48, 3), (72, 3), (24 * 29, 3), (24 * 30, 4)],
    ids=["at once", "a day less", "a day", "two days", "three days", "29 days", "30 days"],
)
def test_an_address_gets_at_most_one_confirmation_a_day_and_three_a_month(
    session, site, now, hours, letters_by_then
):
    for hour in range(0, hours + 1, 1 if hours < 100 else 24):
        confirmations.request_subscription(session, site, "bob@uni.edu", now=now + timedelta(hours=hour))
    confirmations.request_subscription(session, site, "BOB@uni.edu", now=now + timedelta(hours=hours))

    assert len(letters(session)) == letters_by_then


def test_confirming_applies_the_requested_settings_and_announces_the_next_edition(session, site, bob, now):
    at_ten = now.replace(hour=10)

    subscriber = confirmations.confirm(session, site, bob[1], at_ten, network="192.0.2.0/24")

    assert subscriber
    assert subscriber.state == SubscriberState.ACTIVE
    assert subscriber_rows.schedule_of(subscriber) == reader_settings.schedule_in(OSLO)
    assert [topic.name for topic in subscriber_topics.topics_of(session, subscriber)] == ["Robots"]
    assert (subscriber.max_papers, subscriber.abstracts) == (5, "titles")
    assert subscriber.next_due_at == datetime(2026, 11, 21, 7, tzinfo=UTC)
    assert letters(session) == [("confirm", "bob@uni.edu"), ("welcome", "bob@uni.edu")]
    [proof] = session.scalars(select(Consent))
    assert (proof.how, proof.address) == ("confirmed by link", "192.0.2.0/24")


def test_confirming_twice_changes_nothing(session, site, bob, now):
    first = confirmations.confirm(session, site, bob[1], now)
    again = confirmations.confirm(session, site, bob[1], now + timedelta(days=9))

    assert again is first
    assert len(letters(session)) == 2


def test_a_used_link_does_not_reactivate_an_unsubscribed_reader(session, site, bob, now):
    subscriber = confirmations.confirm(session, site, bob[1], now)
    assert subscriber
    unsubscribe_and_undo.unsubscribe(session, site, subscriber, now=now)

    assert confirmations.confirm(session, site, bob[1], now) is subscriber
    assert subscriber.state == SubscriberState.UNSUBSCRIBED


def test_a_confirmation_expires_in_48_hours(session, site, bob, now):
    assert confirmations.confirm(session, site, bob[1], now + timedelta(hours=48)) is None
    assert confirmations.confirm(session, site, bob[1], now + timedelta(hours=47)) is not None


def test_an_unanswered_confirmation_is_followed_by_one_reminder_after_a_day(session, site, bob, now):
    remind = [
        confirmation_letters.queue_reminders(session, site, now + timedelta(hours=hours))
        for hours in (23, 24, 25, 47, 49)
    ]

    assert remind == [0, 1, 0, 0, 0]
    assert letters(session) == [("confirm", "bob@uni.edu"), ("reminder", "bob@uni.edu")]
    reminder = session.scalars(select(Delivery).where(Delivery.letter == "reminder")).one()
    assert json.loads(reminder.decision) == {
        "confirmation_id": bob[0],
        "requested": "a daily digest of papers on “Robots”",
        "schedule": "Every day at 08:00, Oslo",
    }
    assert reminder.expires_at == now + timedelta(hours=48)


def test_repeated_sign_ups_cause_one_reminder_in_all(session, site, bob, now):
    confirmation_letters.queue_reminders(session, site, now + timedelta(hours=25))
    confirmations.request_subscription(session, site, "bob@uni.edu", now=now + timedelta(hours=26))

    assert confirmation_letters.queue_reminders(session, site, now + timedelta(hours=51)) == 0


def test_a_confirmed_reader_gets_no_reminder(session, site, bob, now):
    confirmations.confirm(session, site, bob[1], now + timedelta(hours=1))

    assert confirmation_letters.queue_reminders(session, site, now + timedelta(hours=25)) == 0


@pytest.mark.parametrize("token", ["", "x", "a.b.c", "..", "é.1.é", "0.1.0", "0.99999999999999999999.0"])
def test_a_forged_link_confirms_nothing(session, site, bob, now, token):
    assert confirmations.confirm(session, site, token, now) is None


def test_an_unsubscribe_link_does_not_confirm(session, site, bob, now):
    other = links.sign_token(site, "unsubscribe", str(bob[0]))

    assert confirmations.confirm(session, site, other, now) is None


def test_nothing_is_sent_to_a_suppressed_address(session, site, charlie, now):
    assert (
        confirmations.request_subscription(session, site, charlie, now=now).outcome
        is SignUpOutcome.SUPPRESSED
    )
    assert letters(session) == []
    assert session.scalar(select(func.count(Subscriber.id))) == 0


def test_a_suppression_after_the_confirmation_letter_wins(session, site, bob, now):
    suppressions.suppress(session, site, "bob@uni.edu", SuppressionReason.COMPLAINT, "", now)

    assert confirmations.confirm(session, site, bob[1], now) is None


def test_a_sign_up_for_an_active_address_changes_nothing(session, site, alice, now):
    for _ in range(3):
        requested = ReaderSettings(topics={"Evil": "spam"})
        asked = confirmations.request_subscription(
            session, site, "alice@uni.edu", requested=requested, now=now
        )
        assert asked.outcome is SignUpOutcome.KNOWN

    assert alice.state == SubscriberState.ACTIVE
    assert [topic.name for topic in subscriber_topics.topics_of(session, alice)] == ["Vision"]
    assert letters(session) == [("settings", "Alice@uni.edu")]


def test_a_restore_is_to_know_that_a_reader_unsubscribed_and_confirmed_again(session, site, alice, bob, now):
    unsubscribe_and_undo.unsubscribe(session, site, alice, now=now)
    asked = confirmations.request_subscription(session, site, alice.email, now=now)
    assert asked.confirmation_id
    for number in (asked.confirmation_id, bob[0]):
        token = links.confirm_url(site, number).rpartition("/")[2]
        confirmations.confirm(session, site, token, now=now)

    assert session.execute(select(OptOut.kind, OptOut.subscriber_id).order_by(OptOut.id)).all() == [
        ("unsubscribed", alice.id),
        ("resubscribed", alice.id),
    ]


def test_an_unsubscribed_reader_returns_only_by_confirming(session, site, alice, now):
    operator_acts.remove_by_operator(session, "alice@uni.edu", operator="mara", now=now)
    unsubscribe_and_undo.note_leaving_reason(alice, "Too many papers")

    asked = confirmations.request_subscription(session, site, "alice@uni.edu", now=now)
    assert (asked.outcome, alice.state) == (SignUpOutcome.ASKED, SubscriberState.UNSUBSCRIBED)
    assert asked.confirmation_id
    token = links.confirm_url(site, asked.confirmation_id).rpartition("/")[2]
    confirmed = confirmations.confirm(session, site, token, now)
    assert confirmed
    assert confirmed.state == SubscriberState.ACTIVE
    assert (alice.considered_until, alice.leaving_reason) == (None, "")


@pytest.mark.parametrize(
    ("domains", "refused"),
    [
        pytest.param(None, False, id="open"),
        pytest.param(frozenset({"uni.edu"}), False, id="our domain"),
        pytest.param(frozenset({"lab.org"}), True, id="another domain"),
        pytest.param(frozenset(), True, id="closed"),
    ],
)
def test_sign_up_may_be_open_closed_or_limited_to_domains(session, site, now, domains, refused):
    if not refused:
        confirmations.request_subscription(session, site, "bob@uni.edu", may_sign_up=domains, now=now)
        return
    with pytest.raises(BadField, match="This site is"):
        confirmations.request_subscription(session, site, "bob@uni.edu", may_sign_up=domains, now=now)


# ── changing ────────────────────────────────────────────────────────────────────────────────────


def test_a_new_hour_counts_from_the_next_edition(session, alice, now):
    alice.next_due_at = datetime(2026, 11, 21, 7, tzinfo=UTC)  # today's did not come, since alice is new

    undo_changes.edit(session, alice, ReaderSettings(texts={"at": "18:00"}), now=now)

    assert alice.next_due_at == datetime(2026, 11, 20, 17, tzinfo=UTC)
    assert alice.at == time(18)


def test_moving_the_hour_back_past_now_does_not_lose_todays_edition(session, alice):
    early = datetime(2026, 11, 20, 6, tzinfo=UTC)
    alice.next_due_at = datetime(2026, 11, 20, 7, tzinfo=UTC)

    undo_changes.edit(session, alice, ReaderSettings(texts={"at": "06:30"}), now=early)

    assert alice.next_due_at == datetime(2026, 11, 20, 5, 30, tzinfo=UTC)
    assert next_digest.next_digest_in_words(session, alice, now=early) == "today, if there are new papers"


def test_an_edit_says_whether_anything_changed(session, alice, now):
    same = ReaderSettings(topics={"Vision": "title:image*"}, texts=reader_settings.texts_of(alice))

    assert not undo_changes.edit(session, alice, same, now=now)
    assert undo_changes.edit(session, alice, ReaderSettings(topics={}), now=now)
    assert subscriber_topics.topics_of(session, alice) == []


@pytest.mark.parametrize(
    ("change", "field", "hint"),
    [
        ({"cadence": "dayly"}, "cadence", "Did you mean daily"),
        ({"cadence": "weekly-f"}, "cadence", "Did you mean weekly-fri"),
        ({"at": "25:00"}, "at", "Write it as 08:00"),
        ({"timezone": "Olso"}, "timezone", "Did you mean Europe/Oslo"),
        ({"timezone": "New Yrok"}, "timezone", "Did you mean America/New_York"),
    ],
    ids=str,
)
def test_an_invalid_value_is_reported_with_its_field_and_a_suggestion(
    session, alice, now, change, field, hint
):
    with pytest.raises(BadField, match=hint) as caught:
        undo_changes.edit(session, alice, ReaderSettings(texts=change), now=now)

    assert caught.value.field == field


@pytest.mark.parametrize(
    "word", ["daily", "weekdays", "weekly", "weekly-tue", "weekly-fri", "weekly-sun", "monthly"]
)
def test_a_cadence_is_unchanged_by_a_round_trip(word):
    cadence, weekday = schedule.parse_cadence(word)

    assert schedule.cadence_text(Schedule(cadence=cadence, weekday=weekday)) == word


def test_monday_is_the_weekly_day_unless_another_is_named():
    assert schedule.parse_cadence("weekly-mon") == schedule.parse_cadence("weekly") == (Cadence.WEEKLY, 0)


def test_a_pause_ends_on_its_day_in_the_subscribers_time_zone(session, alice, now):
    alice.timezone = "Pacific/Kiritimati"  # 14 hours ahead
    assert pauses.pause(session, alice, date(2026, 11, 25), now)

    assert pauses.resume_due(session, datetime(2026, 11, 24, 9, 59, tzinfo=UTC)) == 0
    assert pauses.due_to_resume(session, datetime(2026, 11, 24, 10, 0, tzinfo=UTC)) == [alice]
    assert pauses.resume_due(session, datetime(2026, 11, 24, 10, 0, tzinfo=UTC)) == 1
    assert (alice.state, alice.next_due_at) == (
        SubscriberState.ACTIVE,
        datetime(2026, 11, 24, 18, tzinfo=UTC),
    )


def test_a_pause_without_an_end_lasts_until_resumed(session, alice, now):
    pauses.pause(session, alice, None, now)

    assert pauses.resume_due(session, now + timedelta(days=4000)) == 0
    assert pauses.resume(session, alice, now)
    assert not pauses.resume(session, alice, now)


def test_a_pause_cannot_end_in_the_past(session, alice, now):
    with pytest.raises(BadField, match="is not in the future"):
        pauses.pause(session, alice, now.date(), now)


# ── leaving ─────────────────────────────────────────────────────────────────────────────────────


def test_unsubscribing_works_at_once_and_sends_one_goodbye(session, site, alice, now):
    assert unsubscribe_and_undo.unsubscribe(session, site, alice, now=now)
    assert not unsubscribe_and_undo.unsubscribe(session, site, alice, now=now)

    assert (alice.state, alice.unsubscribed_at) == (SubscriberState.UNSUBSCRIBED, now)
    assert letters(session) == [("goodbye", "Alice@uni.edu")]


def test_an_unsubscribe_can_be_undone_for_30_days(session, site, alice, now):
    unsubscribe_and_undo.unsubscribe(session, site, alice, now=now)

    assert not unsubscribe_and_undo.undo(session, alice, now=now + timedelta(days=30))
    assert unsubscribe_and_undo.undo(session, alice, now=now + timedelta(days=29))
    assert (alice.state, alice.unsubscribed_at) == (SubscriberState.ACTIVE, None)


def test_undo_does_not_activate_an_unconfirmed_address(session, site, bob, now):
    subscriber = subscriber_rows.get(session, "bob@uni.edu")
    unsubscribe_and_undo.unsubscribe(session, site, subscriber, now=now)

    assert not unsubscribe_and_undo.undo(session, subscriber, now=now)


def test_an_erased_subscriber_is_in_no_table(session, site, alice, now):
    unsubscribe_and_undo.unsubscribe(session, site, alice, now=now)
    [delivery] = session.scalars(select(Delivery))
    session.add(
        Attempt(delivery_id=delivery.id, lease="x", began_at=now, reply="550 no such user Alice@uni.edu")
    )
    session.add(Shown(subscriber_id=alice.id, paper_id=1, delivery_id=delivery.id, shown_on=now.date()))
    session.flush()

    account.erase(session, site, "alice@uni.edu", now=now)
    session.expire_all()

    everything = ""
    for table in Subscriber.metadata.sorted_tables:
        everything += str(session.execute(select(table)).all())
    assert "alice" not in everything.lower()
    assert (delivery.state, delivery.reason) == (DeliveryState.SUPPRESSED, "erased")
    assert session.scalar(select(func.count()).select_from(Shown)) == 0
    assert not suppressions.is_suppressed(session, site, "alice@uni.edu")


def test_deliveries_of_an_erased_subscriber_are_still_counted(session, site, alice, now):
    session.add(
        Delivery(
            subscriber_id=alice.id,
            email=alice.email,
            letter="digest",
            lane=Lane.BULK,
            edition="daily-2026-11-20",
            dated_at=now,
            due_at=now,
            expires_at=now,
            state=DeliveryState.SENT,
        )
    )
    session.flush()

    account.erase(session, site, "alice@uni.edu", now=now)
    session.expire_all()

    [kept] = session.scalars(select(Delivery))
    assert (kept.state, kept.email, kept.subscriber_id) == (DeliveryState.SENT, None, None)


def test_an_erasure_with_suppression_blocks_later_sign_ups(session, site, alice, now):
    account.erase(session, site, "alice@uni.edu", now=now, suppress=True)

    assert (
        confirmations.request_subscription(session, site, "alice@uni.edu", now=now).outcome
        is SignUpOutcome.SUPPRESSED
    )


def test_an_old_link_does_not_open_a_new_subscribers_settings(session, site, alice, now):
    old = alice.id
    account.erase(session, site, "alice@uni.edu", now=now)

    assert subscriber_rows.add(session, "dora@uni.edu", now=now).id != old


def test_deleting_a_subscriber_deletes_their_rows(session, site, alice, bob, now):
    account.erase(session, site, "alice@uni.edu", now=now)
    account.erase(session, site, "bob@uni.edu", now=now)

    for row in (Subscriber, Subscription, Consent, Confirmation):
        assert session.scalar(select(func.count()).select_from(row)) == 0


# ── many at once ────────────────────────────────────────────────────────────────────────────────


def at_once(engine, act, times=8):
    """Run a function in several threads at the same moment, each with its own transaction."""
    gate = Barrier(times)

    def one(_):
        gate.wait()
        with db.write_session(engine) as session:
            done = act(session)
            session.commit()
            return done

    with ThreadPoolExecutor(times) as pool:
        return list(pool.map(one, range(times)))


def test_concurrent_sign_ups_of_an_address_send_one_letter(engine, site, now):
    at_once(engine, lambda session: confirmations.request_subscription(session, site, "bob@uni.edu", now=now))

    with db.read_session(engine) as session:
        assert letters(session) == [("confirm", "bob@uni.edu")]


def test_concurrent_confirmations_start_one_subscription(engine, site, now):
    [asked] = at_once(
        engine, lambda session: confirmations.request_subscription(session, site, "bob@uni.edu", now=now), 1
    )
    token = links.confirm_url(site, asked.confirmation_id).rpartition("/")[2]

    at_once(engine, lambda session: confirmations.confirm(session, site, token, now) is not None)

    with db.read_session(engine) as session:
        assert letters(session) == [("confirm", "bob@uni.edu"), ("welcome", "bob@uni.edu")]
        assert session.scalar(select(func.count(Consent.id))) == 1


def test_concurrent_unsubscribes_send_one_goodbye(engine, site, now):
    def join(session):
        return subscriber_rows.add(
            session, "dora@uni.edu", state=SubscriberState.ACTIVE, consent="asked", now=now
        )

    at_once(engine, join, 1)
    left = at_once(
        engine,
        lambda session: unsubscribe_and_undo.unsubscribe(
            session, site, subscriber_rows.get(session, "dora@uni.edu"), now=now
        ),
    )

    assert sorted(left) == [False] * 7 + [True]
    with db.read_session(engine) as session:
        assert letters(session) == [("goodbye", "dora@uni.edu")]


def test_concurrent_subscribers_with_the_same_new_filters_store_them_once(engine):
    texts = [f"ti:word{number}" for number in range(50)]

    found = at_once(engine, lambda session: filter_registry.filter_ids(session, texts))

    assert all(one == found[0] for one in found)
    assert len(set(found[0].values())) == 50
