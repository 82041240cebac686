"""Every change of state is a compare-and-set, on SQLite and on PostgreSQL."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from sqlalchemy import Engine, select, text, update
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from digest import db
from digest.db.tables.deliveries import Attempt, Delivery, DeliveryState, Lane
from digest.db.tables.subscribers import Subscriber, SubscriberState
from digest.delivery import stop_and_resume
from digest.delivery.outbox import backoff, delivery_listing, enqueue, letter_eligibility, transitions
from digest.delivery.outbox.attempts import AttemptRecord, list_attempts, record_attempts
from digest.delivery.outbox.enqueue import DIGEST_DEFAULTS
from digest.delivery.outbox.recipients import RecipientState
from digest.delivery.outbox.transitions import (
    DUE_QUERY,
    LEASE,
    ClaimedDelivery,
    Intent,
    claim,
    intend,
    renewed_lease,
)
from digest.editions.schedule import Schedule
from digest.process import heartbeats
from digest.site.site_profile import Site
from tests.support import endings
from tests.support.plain_letters import plain_letter

pytestmark = pytest.mark.postgresql

SECOND = timedelta(seconds=1)


@contextmanager
def another(engine: Engine) -> Iterator[Session]:
    """A second worker's session."""
    with db.write_session(engine) as session:
        yield session


def subscriber(session: Session, email: str, now: datetime, **details: Any) -> Subscriber:
    row = Subscriber(
        email=email, email_key=email, created_at=now, **{"state": SubscriberState.ACTIVE, **details}
    )
    session.add(row)
    session.flush()
    return row


def letter(
    session: Session, site: Site, now: datetime, key: str = "k", kind: str = "help", **details: Any
) -> int | None:
    wanted: dict[str, Any] = {"subscriber_id": None, "email": "alice@example.org", **details}
    return enqueue.queue_letter(session, letter=plain_letter(kind, key), **wanted, site=site, now=now)


def digest_row(subscriber_id: int, now: datetime, **details: Any) -> dict[str, Any]:
    return {
        "subscriber_id": subscriber_id,
        "email": f"reader{subscriber_id}@example.org",
        "edition": "daily-2026-11-20",
        "dated_at": now,
        "due_at": now,
        "expires_at": now + timedelta(hours=16),
        **details,
    }


def intents(*ids: int) -> list[Intent]:
    return [Intent(id=each, message_id=f"<{each}@example.org>", content_hash=f"{each:064d}") for each in ids]


def state_of(session: Session, delivery_id: int) -> tuple[Any, ...]:
    """The whole state of a delivery in the database."""
    row = session.get_one(Delivery, delivery_id, populate_existing=True)
    return (row.state, row.attempts, row.in_doubt, row.lease is None, row.leased_until is None)


def sending(session: Session, now: datetime) -> list[ClaimedDelivery]:
    """Claim what is due and commit the intent to send it."""
    batch = claim(session, lane=Lane.PROMPT, now=now, limit=10)
    intend(
        session,
        intents(*(each.id for each in batch)),
        lease=batch[0].lease,
        until=now + LEASE,
    )
    session.commit()
    return batch


# ── writing ─────────────────────────────────────────────────────────────────────────────────────


def test_letter_is_written_once_per_key(session: Session, site: Site, now: datetime) -> None:
    first, again = letter(session, site, now), letter(session, site, now)

    (row,) = session.scalars(select(Delivery))
    assert (first, again) == (row.id, None)
    assert (row.lane, row.state, row.key_id) == (Lane.PROMPT, DeliveryState.QUEUED, site.signing_key_id)
    assert (row.dated_at, row.due_at, row.expires_at) == (now, now, now + timedelta(days=2))


def test_edition_is_written_once_per_subscriber(session: Session, now: datetime) -> None:
    ids = [subscriber(session, f"reader{n}@example.org", now).id for n in range(3)]

    first = enqueue.queue_digests(session, [digest_row(each, now) for each in ids[:2]])
    second = enqueue.queue_digests(
        session, [digest_row(each, now, state=DeliveryState.EMPTY, reason="nothing") for each in ids]
    )

    assert (set(first), set(second)) == (set(ids[:2]), {ids[2]})
    assert delivery_listing.count_by_state(session)[DeliveryState.QUEUED] == 2
    assert enqueue.queue_digests(session, []) == {}


def test_new_digests_are_written_under_their_reserved_ids(session: Session, now: datetime) -> None:
    ids = [subscriber(session, f"reader{n}@example.org", now).id for n in range(3)]
    numbers = enqueue.reserve_ids(session, 2)
    rows = [digest_row(each, now, id=number) for each, number in zip(ids, numbers, strict=False)]

    enqueue.queue_new_digests(session, rows)

    assert session.scalars(select(Delivery.id).order_by(Delivery.id)).all() == list(numbers)
    decided = dict.fromkeys(ids[:2], frozenset({"daily-2026-11-20"}))
    assert enqueue.decided_editions(session, ids, now) == decided
    assert enqueue.decided_editions(session, ids, now + timedelta(days=3)) == {}
    with pytest.raises(IntegrityError):
        enqueue.queue_new_digests(session, [rows[0] | {"id": max(numbers) + 1}])


def test_schema_forbids_a_second_edition(session: Session, now: datetime) -> None:
    reader = subscriber(session, "alice@example.org", now)
    enqueue.queue_digests(session, [digest_row(reader.id, now)])

    details = {**DIGEST_DEFAULTS, **digest_row(reader.id, now)}
    with pytest.raises(IntegrityError):
        session.execute(Delivery.__table__.insert(), details)  # type: ignore[attr-defined]


# ── claiming ────────────────────────────────────────────────────────────────────────────────────


def test_claimed_delivery_cannot_be_claimed_again(
    engine: Engine, session: Session, site: Site, now: datetime
) -> None:
    letter(session, site, now)
    session.commit()

    (claimed,) = claim(session, lane=Lane.PROMPT, now=now, limit=10)
    session.commit()

    with another(engine) as rival:
        assert claim(rival, lane=Lane.PROMPT, now=now, limit=10) == []
    assert (claimed.identity, claimed.attempts, claimed.in_doubt) == (plain_letter("help", "k").key, 0, 0)


def test_many_workers_share_the_work_without_overlap(
    engine: Engine, session: Session, site: Site, now: datetime
) -> None:
    for number in range(200):
        letter(session, site, now, key=f"k{number}")
    session.commit()
    taken: list[list[int]] = [[] for _ in range(4)]

    def work(mine: list[int]) -> None:
        with another(engine) as rival:
            while batch := claim(rival, lane=Lane.PROMPT, now=now, limit=7):
                rival.commit()
                mine.extend(each.id for each in batch)

    workers = [threading.Thread(target=work, args=(mine,)) for mine in taken]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()

    everything = [each for mine in taken for each in mine]
    assert sorted(everything) == sorted(set(everything))
    assert len(everything) == 200


def test_claim_on_postgresql_does_not_wait_for_another_workers_claim(
    postgres_engine: Engine, site: Site, now: datetime
) -> None:
    with db.write_session(postgres_engine) as session, another(postgres_engine) as rival:
        for number in range(4):
            letter(session, site, now, key=f"k{number}")
        session.commit()

        first = claim(session, lane=Lane.PROMPT, now=now, limit=2)  # and does not commit
        second = claim(rival, lane=Lane.PROMPT, now=now, limit=10)

        assert len(first) == len(second) == 2
        assert not {each.id for each in first} & {each.id for each in second}


def test_claim_takes_only_what_is_due_in_that_lane(session: Session, site: Site, now: datetime) -> None:
    reader = subscriber(session, "alice@example.org", now)
    enqueue.queue_digests(session, [digest_row(reader.id, now)])
    letter(session, site, now + SECOND, key="later")

    assert claim(session, lane=Lane.PROMPT, now=now, limit=10) == []
    (claimed,) = claim(session, lane=Lane.BULK, now=now, limit=10)
    assert claimed.edition == "daily-2026-11-20"
    assert claimed.identity == f"{reader.id}|daily-2026-11-20"


def test_claimed_delivery_without_intent_comes_back_unchanged(
    session: Session, site: Site, now: datetime
) -> None:
    letter(session, site, now)
    (first,) = claim(session, lane=Lane.PROMPT, now=now, limit=10)

    assert claim(session, lane=Lane.PROMPT, now=now + LEASE - SECOND, limit=10) == []
    (second,) = claim(session, lane=Lane.PROMPT, now=now + LEASE, limit=10)

    assert (second.id, second.attempts, second.in_doubt) == (first.id, 0, 0)
    assert second.lease != first.lease


def test_intended_delivery_without_outcome_comes_back_in_doubt(
    session: Session, site: Site, now: datetime
) -> None:
    letter(session, site, now)
    (first,) = sending(session, now)

    (second,) = claim(session, lane=Lane.PROMPT, now=now + LEASE, limit=10)

    assert (second.attempts, second.in_doubt) == (1, 1)
    assert (second.message_id, second.content_hash) == (f"<{first.id}@example.org>", f"{first.id:064d}")
    (attempt,) = list_attempts(session, first.id)
    assert (attempt.lease, attempt.verdict, attempt.began_at) == (first.lease, "in doubt", now)


def test_recorded_attempt_is_not_recorded_again(session: Session, site: Site, now: datetime) -> None:
    letter(session, site, now)
    (first,) = sending(session, now)
    record_attempts(session, [AttemptRecord(first.id, now, "in doubt", "dot")], lease=first.lease, now=now)

    claim(session, lane=Lane.PROMPT, now=now + LEASE, limit=10)

    assert len(list_attempts(session, first.id)) == 1


@pytest.mark.parametrize("lane", Lane)
def test_due_deliveries_are_found_by_the_index(
    engine: Engine, session: Session, now: datetime, lane: Lane
) -> None:
    compiled = DUE_QUERY.params(lane=lane, now=now, most=10).compile(engine)
    if engine.dialect.name == "postgresql":
        session.execute(text("SET enable_seqscan = off"))
        session.execute(text("SET plan_cache_mode = force_generic_plan"))
    explain = "EXPLAIN " if engine.dialect.name == "postgresql" else "EXPLAIN QUERY PLAN "

    plan = session.connection().exec_driver_sql(
        explain + str(compiled),
        compiled.construct_params() if compiled.positional is False else _values(compiled),
    )

    words = " ".join(str(row) for row in plan)
    assert "ix_delivery_open" in words
    assert "Sort" not in words
    assert "TEMP B-TREE" not in words


#: Rows of the outbox that this transaction has read, on PostgreSQL.
READ = text("SELECT seq_tup_read + idx_tup_fetch FROM pg_stat_xact_user_tables WHERE relname = 'delivery'")


def put_many(session: Session, site: Site, now: datetime) -> None:
    row = {"letter": "nothing_today", "subscriber_id": None, "email": "a@example.org", "decision": "{}"}
    keyed = [{**row, "dedupe_key": str(number)} for number in range(5_000)]
    enqueue.queue_bulk_letters(session, keyed, site=site, now=now)
    session.commit()


def test_claim_planned_on_an_empty_table_does_not_read_all_due_rows_later(
    postgres_engine: Engine, site: Site, now: datetime
) -> None:
    """PostgreSQL keeps a plan that it made when the table was empty."""
    with another(postgres_engine) as session:
        session.execute(text("ANALYZE delivery"))
        for _ in range(20):
            assert claim(session, lane=Lane.BULK, now=now, limit=10) == []
            session.commit()
        put_many(session, site, now)
        before = session.scalar(READ) or 0

        assert len(claim(session, lane=Lane.BULK, now=now, limit=10)) == 10

        assert session.scalar(READ) - before <= 4 * 10


def test_claim_and_intend_read_only_their_own_rows(
    postgres_engine: Engine, site: Site, now: datetime
) -> None:
    with another(postgres_engine) as session:
        put_many(session, site, now)
        ids = list(session.scalars(select(Delivery.id)))
        for start in range(0, 70, 10):  # after five PostgreSQL keeps its plan
            before = session.scalar(READ)
            some = ids[start : start + 10]
            assert transitions.change(
                session, transitions.CLAIM_STATEMENT, some, token="ours", until=now + LEASE
            ) == set(some)
            assert session.scalar(READ) - before <= 2 * 10
            before = session.scalar(READ)
            assert intend(session, intents(*some), lease="ours", until=now + LEASE) == set(some)
            assert session.scalar(READ) - before <= 2 * 10
            session.commit()


def _values(compiled: Any) -> tuple[Any, ...]:
    params = compiled.construct_params()
    processors = compiled._bind_processors
    return tuple(
        processors[name](params[name]) if name in processors else params[name]
        for name in compiled.positiontup
    )


# ── fencing ─────────────────────────────────────────────────────────────────────────────────────


def test_lost_lease_changes_nothing(session: Session, site: Site, now: datetime) -> None:
    letter(session, site, now)
    (zombie,) = claim(session, lane=Lane.PROMPT, now=now, limit=10)
    later = now + LEASE
    (holder,) = claim(session, lane=Lane.PROMPT, now=later, limit=10)
    was = DeliveryState.CLAIMED

    def nothing_changed(lease: str) -> list[set[int]]:
        ids = [zombie.id]
        return [
            intend(session, intents(*ids), lease=lease, until=later + LEASE),
            endings.settle(session, ids, DeliveryState.FAILED, from_state=was, lease=lease, now=later),
            endings.release(session, ids, from_state=was, lease=lease, due_at=later, counts_as_attempt=True),
        ]

    assert nothing_changed(zombie.lease) == [set(), set(), set()]
    assert state_of(session, holder.id) == ("claimed", 0, 0, False, False)
    assert intend(session, intents(holder.id), lease=holder.lease, until=later + LEASE) == {holder.id}


def test_delivery_is_sent_once_under_one_lease(session: Session, site: Site, now: datetime) -> None:
    letter(session, site, now)
    (claimed,) = sending(session, now)

    assert intend(session, intents(claimed.id), lease=claimed.lease, until=now + LEASE) == set()
    sent = endings.settle(
        session,
        [claimed.id],
        DeliveryState.SENT,
        from_state=DeliveryState.SENDING,
        lease=claimed.lease,
        now=now,
    )
    again = endings.settle(
        session,
        [claimed.id],
        DeliveryState.FAILED,
        from_state=DeliveryState.SENDING,
        lease=claimed.lease,
        now=now,
    )

    assert (sent, again) == ({claimed.id}, set())
    assert state_of(session, claimed.id) == ("sent", 1, 0, True, True)


def test_intent_renews_the_lease(session: Session, site: Site, now: datetime) -> None:
    letter(session, site, now)
    (claimed,) = claim(session, lane=Lane.PROMPT, now=now, limit=10)
    later = now + timedelta(minutes=10)

    until = renewed_lease(claimed.leased_until, later)
    intend(session, intents(claimed.id), lease=claimed.lease, until=until)

    assert claim(session, lane=Lane.PROMPT, now=now + LEASE, limit=10) == []
    assert len(claim(session, lane=Lane.PROMPT, now=later + LEASE, limit=10)) == 1


def test_claim_on_postgresql_writes_to_no_index_and_most_intents_do_not(
    postgres_engine: Engine, site: Site, now: datetime
) -> None:
    with db.write_session(postgres_engine) as session:
        for number in range(100):
            letter(session, site, now, key=f"k{number}")
        session.commit()

        batch = claim(session, lane=Lane.PROMPT, now=now, limit=100)
        assert changed_in_place(session) == 100

        session.commit()
        ids = [each.id for each in batch]
        intend(session, intents(*ids), lease=batch[0].lease, until=batch[0].leased_until)
        assert changed_in_place(session) > 140


def changed_in_place(session: Session) -> int:
    """Return how many rows this connection has changed without a new index entry."""
    counted = "SELECT pg_stat_get_xact_tuples_hot_updated('delivery'::regclass)"
    return int(session.execute(text(counted)).scalar_one())


def test_recent_lease_is_not_extended(session: Session, site: Site, now: datetime) -> None:
    letter(session, site, now)
    (claimed,) = claim(session, lane=Lane.PROMPT, now=now, limit=10)

    assert renewed_lease(claimed.leased_until, now + timedelta(seconds=30)) == now + LEASE
    assert claimed.leased_until == now + LEASE == session.get_one(Delivery, claimed.id).leased_until


# ── again, later ────────────────────────────────────────────────────────────────────────────────


def test_missing_server_uses_up_no_attempt(session: Session, site: Site, now: datetime) -> None:
    letter(session, site, now)
    (claimed,) = sending(session, now)

    endings.release(
        session,
        [claimed.id],
        "refused",
        from_state=DeliveryState.SENDING,
        lease=claimed.lease,
        due_at=now + SECOND,
        counts_as_attempt=False,
    )

    assert state_of(session, claimed.id) == ("queued", 0, 0, True, True)
    assert delivery_listing.count_due(session, lane=Lane.PROMPT, now=now) == 0
    assert delivery_listing.count_due(session, lane=Lane.PROMPT, now=now + SECOND) == 1


def test_nothing_waits_beyond_its_expiry(session: Session, site: Site, now: datetime) -> None:
    number = letter(session, site, now, expires_at=now + 3 * SECOND)
    (claimed,) = sending(session, now)

    zone = timezone(timedelta(hours=9))
    endings.release(
        session,
        [claimed.id],
        from_state=DeliveryState.SENDING,
        lease=claimed.lease,
        due_at=(now + timedelta(hours=1)).astimezone(zone),
        counts_as_attempt=True,
    )

    assert session.get_one(Delivery, number, populate_existing=True).due_at == now + 3 * SECOND


def test_backoff_grows_to_at_most_seventy_five_minutes() -> None:
    start = datetime(2026, 11, 20, 8, tzinfo=UTC)

    waits = [backoff.next_attempt_at(7, attempts, start) - start for attempts in range(1, 60)]

    assert timedelta(minutes=5) <= waits[0] <= timedelta(minutes=6.25)  # many greylist for five
    assert waits[0] < waits[1] < waits[2]
    assert max(waits) <= timedelta(minutes=75)
    assert len({backoff.next_attempt_at(number, 1, start) for number in range(100)}) > 90


# ── who may be written to ───────────────────────────────────────────────────────────────────────


def reader(state: SubscriberState) -> RecipientState:
    return RecipientState(state=state, link_version=0, schedule=Schedule())


def claimed_letter(now: datetime, **details: Any) -> ClaimedDelivery:
    fields: dict[str, Any] = {
        "id": 1, "subscriber_id": 1, "email": "alice@example.org", "letter": "digest", "edition": "daily-2026-11-20",
        "dedupe_key": None, "decision": "{}", "press": None, "key_id": "", "dated_at": now,
        "expires_at": now + SECOND, "attempts": 0, "in_doubt": 0, "message_id": None, "content_hash": None,
        "reason": "", "lease": "", "leased_until": now,
    }  # fmt: skip
    return ClaimedDelivery(**{**fields, **details})


@pytest.mark.parametrize(
    ("letter", "state", "is_wanted"),
    [
        ("digest", SubscriberState.ACTIVE, True),
        ("digest", SubscriberState.PAUSED, False),
        ("digest", SubscriberState.PENDING, False),
        ("digest", SubscriberState.UNSUBSCRIBED, False),
        ("digest", None, False),
        ("confirm", SubscriberState.PENDING, True),
        ("welcome", SubscriberState.PENDING, False),
        ("welcome", SubscriberState.UNSUBSCRIBED, False),
        ("settings", SubscriberState.PENDING, False),
        ("settings", SubscriberState.PAUSED, True),
        ("goodbye", SubscriberState.UNSUBSCRIBED, True),
        ("confirm", SubscriberState.UNSUBSCRIBED, True),
        ("help", None, True),
    ],
)
def test_letter_goes_only_to_an_eligible_recipient(
    letter: str, state: SubscriberState | None, is_wanted: bool, now: datetime
) -> None:
    delivery = claimed_letter(now, letter=letter, edition="daily-2026-11-20" if letter == "digest" else None)

    refusal = letter_eligibility.refusal_reason(
        delivery, reader(state) if state else None, is_suppressed=False, now=now
    )

    assert (refusal is None) == is_wanted


@pytest.mark.parametrize(
    ("details", "is_suppressed", "state", "reason"),
    [
        ({}, True, "suppressed", "the address is suppressed"),
        ({"email": None}, False, "suppressed", "the address was erased"),
        ({"in_doubt": 3}, True, "stuck", "in doubt 3 times: it may or may not have arrived"),
    ],
)
def test_refused_letter_ends_with_a_reason(
    details: dict[str, Any], is_suppressed: bool, state: str, reason: str, now: datetime
) -> None:
    found = letter_eligibility.refusal_reason(
        claimed_letter(now, **details), reader(SubscriberState.ACTIVE), is_suppressed=is_suppressed, now=now
    )

    assert found == (state, reason)


def test_letter_expires_at_its_exact_moment(now: datetime) -> None:
    delivery, active = claimed_letter(now), reader(SubscriberState.ACTIVE)

    assert letter_eligibility.refusal_reason(delivery, active, is_suppressed=False, now=now) is None
    assert letter_eligibility.refusal_reason(delivery, active, is_suppressed=False, now=now + SECOND) == (
        DeliveryState.EXPIRED,
        "too late: it expired at 2026-11-20 08:00 UTC",
    )


def test_attempts_stay_after_a_delivery_is_settled(session: Session, site: Site, now: datetime) -> None:
    number = letter(session, site, now)
    assert number is not None
    tried = AttemptRecord(number, now, "deferred", "rcpt", 450, "busy " * 200)

    record_attempts(session, [tried], lease="l" * 32, now=now + SECOND)

    (attempt,) = list_attempts(session, number)
    assert (attempt.code, len(attempt.reply), attempt.ended_at) == (450, 500, now + SECOND)
    assert session.scalars(select(Attempt)).all() == [attempt]


def test_unprintable_reply_is_stored_with_replacements(session: Session, site: Site, now: datetime) -> None:
    number = letter(session, site, now)
    assert number is not None
    replies = ["busy\x00\x1f", "\x1e", "try again"]

    tried = [AttemptRecord(number, now, "deferred", "rcpt", 450, reply) for reply in replies]
    record_attempts(session, tried, lease="a", now=now + SECOND)

    kept = [attempt.reply for attempt in list_attempts(session, number)]
    assert kept == [
        "busy\N{REPLACEMENT CHARACTER}\N{REPLACEMENT CHARACTER}",
        "\N{REPLACEMENT CHARACTER}",
        "try again",
    ]


def test_only_the_unsent_claims_of_dead_workers_return_before_their_lease_ends(
    sqlite_engine: Engine, site: Site, now: datetime
) -> None:
    with db.write_session(sqlite_engine) as session:
        check_dead_claims(session, site, now)


def check_dead_claims(session: Session, site: Site, now: datetime) -> None:
    for key in ("ours", "claimed there", "sending there"):
        letter(session, site, now, key)
    ours, theirs, sending = (claim(session, lane=Lane.PROMPT, now=now, limit=1)[0] for _ in range(3))
    there = f"{heartbeats.machine_key('lab2')}-1f-0"
    for held in (theirs, sending):
        session.execute(update(Delivery).where(Delivery.id == held.id).values(lease=there))
    intend(session, intents(sending.id), lease=there, until=now + LEASE)
    row = {"role": "worker", "host": "lab2", "pid": 31, "at": now, "started_at": now}
    heartbeats.write_heartbeat(session, row, changed=row)

    def states_at(moment: datetime) -> list[str]:
        stop_and_resume.requeue_dead_claims(session, now=moment)
        return [str(state_of(session, held.id)[0]) for held in (ours, theirs, sending)]

    assert states_at(now + SECOND) == ["claimed", "claimed", "sending"]
    dead = now + heartbeats.SILENT_AFTER + SECOND
    assert states_at(dead) == ["claimed", "queued", "sending"]
    assert claim(session, lane=Lane.PROMPT, now=dead, limit=10)[0].id == theirs.id
