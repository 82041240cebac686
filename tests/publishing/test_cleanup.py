"""Cleanup deletes old rows in time, and never the rows that keep papers from being shown twice."""

from __future__ import annotations

import os
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from sqlalchemy import Engine, func, select, update
from sqlalchemy.orm import Session

from digest import db
from digest.db.tables.deliveries import Attempt, Delivery, DeliveryState, FollowupSent, PressRow, Shown
from digest.db.tables.inbound_mail import BounceRow
from digest.db.tables.papers import ChangeKind
from digest.db.tables.subscribers import Subscriber, SubscriberState
from digest.delivery import shown
from digest.delivery.outbox import delete_old, enqueue
from digest.delivery.outbox.delete_old import prune_attempts
from digest.dumps.intake import dumps_folder
from digest.errors import BadField
from digest.letters.templates import Templates
from digest.publishing import cleanup, retention_rules
from digest.publishing.publication import Publication
from digest.publishing.retention_rules import Retention
from digest.publishing.why import explain_paper
from digest.site.site_profile import Site
from digest.subscribers import confirmations, unsubscribe_and_undo
from tests.conftest import NOW
from tests.support.plain_letters import plain_letter
from tests.support.publishing_world import PublishingWorld, at
from tests.support.shared_caches import CACHES

pytestmark = pytest.mark.postgresql

GRAPHS = {"Graphs": "graph*"}
READER = "alice@example.org"
KEPT = Retention()


@pytest.fixture
def world(engine: Engine, site: Site, templates: Templates) -> PublishingWorld:
    return PublishingWorld(engine=engine, site=site, templates=templates)


@pytest.fixture
def sent(world: PublishingWorld) -> datetime:
    """Send Alice a digest of one paper, and return when."""
    world.subscribe(READER, GRAPHS)
    world.dump("20T00:00", ["Graph one"])
    world.publish("20T08:00")
    assert world.deliver(at("20T08:00")).sent == 1
    return at("20T08:00")


def tidied(world: PublishingWorld, now: datetime) -> dict[str, int]:
    """Delete what is old for readers who had an edition today."""
    with db.write_session(world.engine) as session:
        session.execute(update(Subscriber).values(considered_until=now))
        gone, is_all = cleanup.delete_old_rows(session, kept=KEPT, now=now, between=0)
        cleanup.delete_old_shown(session, now=now, between=0)
    assert is_all
    return {what: number for what, number in gone.items() if number}


def count(world: PublishingWorld, table: type) -> int:
    with db.read_session(world.engine) as session:
        return session.scalar(select(func.count()).select_from(table)) or 0


# ── what is deleted, and when ───────────────────────────────────────────────────────────────────


def test_attempts_are_deleted_after_90_days_and_their_delivery_stays_as_a_compact_row(
    world: PublishingWorld, sent: datetime
) -> None:
    (before,) = world.deliveries()
    assert tidied(world, sent + timedelta(days=89)) == {"presses": 1}

    assert tidied(world, sent + timedelta(days=91)) == {"attempts": 1}

    (row,) = world.deliveries()
    assert (row.content_hash, row.message_id, row.lease) == (None, None, None)
    assert (row.state, row.edition, row.decision) == (DeliveryState.SENT, before.edition, before.decision)
    assert count(world, Attempt) == 0


def test_attempts_behind_many_at_open_letters_are_deleted(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delete_old, "DELETE_BATCH", 2)
    letters = [
        Delivery(
            email=READER, letter="digest", lane="bulk", edition=name, dated_at=NOW, due_at=NOW, expires_at=NOW,
            settled_at=settled_at, state=state,
        )
        for name, state, settled_at in (("stuck", DeliveryState.STUCK, None), ("sent", DeliveryState.SENT, NOW))
    ]  # fmt: skip
    session.add_all(letters)
    session.flush()
    stuck, sent = (letter.id for letter in letters)
    for delivery_id in (stuck, stuck, stuck, sent):
        session.add(Attempt(delivery_id=delivery_id, lease="a", began_at=NOW))
    session.flush()

    assert sum(prune_attempts(session, before=NOW + timedelta(days=1))) == 1
    assert list(session.scalars(select(Attempt.delivery_id))) == [stuck] * 3


def test_a_settled_delivery_is_deleted_after_400_days(world: PublishingWorld, sent: datetime) -> None:
    assert "deliveries" not in tidied(world, sent + timedelta(days=399))
    assert tidied(world, sent + timedelta(days=401))["deliveries"] == 1
    assert (count(world, Delivery), count(world, Attempt), count(world, Shown)) == (0, 0, 0)


def test_three_years_keep_as_many_rows_as_400_days(world: PublishingWorld) -> None:
    world.subscribe(READER, GRAPHS)
    reader = world.subscriber(READER).id
    counts = {}
    for day in range(0, 3 * 365, 50):
        now = at("20T08:00") + timedelta(days=day)
        with db.write_session(world.engine) as session:
            put_settled(session, reader, now)
        tidied(world, now)
        if day in {400, 700, 1050}:
            counts[day] = [count(world, table) for table in (Delivery, Attempt, Shown, PressRow, BounceRow)]

    assert counts[400] == counts[700] == counts[1050] == [9, 2, 4, 2, 9]


def put_settled(session: Session, reader: int, now: datetime) -> None:
    """Write a sent digest of one paper, with its dependent rows."""
    row = Delivery(
        subscriber_id=reader, email=READER, letter="digest", lane="bulk", edition=f"daily-{now:%Y-%m-%d}", dated_at=now,
        due_at=now, expires_at=now, settled_at=now, state=DeliveryState.SENT,
    )  # fmt: skip
    session.add(row)
    session.flush()
    session.add(Attempt(delivery_id=row.id, lease="a", began_at=now))
    session.add(Shown(subscriber_id=reader, paper_id=row.id, delivery_id=row.id, shown_on=now.date()))
    session.add(PressRow(name=str(row.id), key=str(row.id), made_at=now, content=b"press"))
    session.add(
        BounceRow(delivery_id=row.id, hmac="a", domain="example.org", kind="soft", reported_by="smtp", at=now)
    )
    session.commit()


def test_loaded_dumps_are_deleted_after_30_days_and_rejected_ones_stay(
    session: Session, tmp_path: Path
) -> None:
    folder = tmp_path / "dumps"
    for kind in ("done", "rejected"):
        (folder / kind).mkdir(parents=True)
        (folder / kind / "old.txt").write_text("a dump")
        os.utime(folder / kind / "old.txt", (0, 0))  # written years ago, but moved here just now
    (folder / "new.txt").write_text("a dump")
    now = datetime.fromtimestamp((folder / "new.txt").stat().st_ctime).astimezone()

    assert dumps_folder.prune_done(folder, before=now + timedelta(days=29) - KEPT.dumps) == 0
    assert dumps_folder.prune_done(folder, before=now + timedelta(days=31) - KEPT.dumps) == 1

    assert sorted(str(path.relative_to(folder)) for path in folder.glob("**/*.txt")) == [
        "new.txt",
        "rejected/old.txt",
    ]


def test_an_unconfirmed_address_is_deleted_after_400_days_unless_asked_again(
    world: PublishingWorld,
) -> None:
    now = at("20T08:00")
    with db.write_session(world.engine) as session:
        for name in ("silent", "again"):
            confirmations.request_subscription(session, world.site, f"{name}@example.org", now=now)
        session.commit()
    world.deliver(now)
    with db.write_session(world.engine) as session:
        confirmations.request_subscription(
            session, world.site, "again@example.org", now=now + timedelta(days=300)
        )
        session.commit()
    world.deliver(now + timedelta(days=300))

    assert "unconfirmed addresses" not in tidied(world, now + timedelta(days=399))
    assert tidied(world, now + timedelta(days=401))["unconfirmed addresses"] == 1
    assert world.subscriber("again@example.org").state == SubscriberState.PENDING


def test_an_unconfirmed_address_is_kept_while_a_letter_to_it_waits(world: PublishingWorld) -> None:
    now = at("20T08:00")
    with db.write_session(world.engine) as session:
        confirmations.request_subscription(session, world.site, "silent@example.org", now=now)
        session.flush()
        later = now + timedelta(days=401)

        assert list(unsubscribe_and_undo.prune_unconfirmed(session, before=later)) == []
        session.execute(update(Delivery).values(state=DeliveryState.EXPIRED, settled_at=later))
        assert list(unsubscribe_and_undo.prune_unconfirmed(session, before=later)) == [1]


def test_updates_that_were_sent_are_forgotten_with_the_papers_that_were_shown(
    world: PublishingWorld, sent: datetime
) -> None:
    reader = world.subscriber(READER).id
    with db.write_session(world.engine) as session:
        for paper, day in ((1, sent.date()), (2, sent.date() + timedelta(days=1))):
            session.add(
                FollowupSent(
                    subscriber_id=reader,
                    paper_id=paper,
                    kind=ChangeKind.REWRITTEN,
                    delivery_id=1,
                    sent_on=day,
                )
            )
        session.flush()
        assert (
            sum(count for count, _ in shown.delete_old(session, before=sent.date() + timedelta(days=1))) == 1
        )

        assert session.scalars(select(FollowupSent.paper_id)).all() == [2]


# ── what is never deleted ───────────────────────────────────────────────────────────────────────


def test_without_attempts_a_paper_is_not_sent_again_and_why_explains_it(
    world: PublishingWorld, sent: datetime
) -> None:
    later = sent + timedelta(days=170)
    tidied(world, later)

    assert world.publish(f"{later:%Y-%m-%dT%H:%M}").queued == 0
    with db.read_session(world.engine) as session:
        answer = explain_paper.why(
            Publication(session, site=world.site, templates=world.templates, caches=CACHES, now=later),
            email=READER,
            reference="Graph one",
        )
    assert answer.verdict == "Shown on 2026-11-20 in daily-2026-11-20, under Graphs."


def test_an_open_delivery_stays_with_its_attempts_and_its_press_however_old(
    world: PublishingWorld, sent: datetime
) -> None:
    with db.write_session(world.engine) as session:
        session.execute(update(Delivery).values(state=DeliveryState.QUEUED, settled_at=None))
        session.commit()
    (before,) = world.deliveries()

    tidied(world, sent + timedelta(days=500))

    (row,) = world.deliveries()
    assert (row.message_id, row.content_hash) == (before.message_id, before.content_hash)
    assert (count(world, Attempt), count(world, PressRow)) == (1, 1)


@pytest.mark.parametrize("letter", ["invite", "reminder"])
def test_a_letter_sent_only_once_keeps_its_key_but_no_address(world: PublishingWorld, letter: str) -> None:
    now = at("20T08:00")

    def put(session: Session, now: datetime) -> int | None:
        return enqueue.queue_letter(
            session, letter=plain_letter(letter, "once"), subscriber_id=None, email=READER, site=world.site,
            now=now,
        )  # fmt: skip

    with db.write_session(world.engine) as session:
        assert put(session, now) is not None
        session.execute(update(Delivery).values(state=DeliveryState.SENT, settled_at=now))
        session.commit()
    tidied(world, now + timedelta(days=1_000))

    with db.write_session(world.engine) as session:
        assert put(session, now + timedelta(days=1_000)) is None
        assert session.scalars(select(Delivery.email)).all() == [None]


def test_an_unsubscribed_address_is_kept(world: PublishingWorld) -> None:
    world.subscribe(READER, GRAPHS)
    world.change(READER, state=SubscriberState.UNSUBSCRIBED)

    tidied(world, at("20T08:00") + timedelta(days=2_000))

    assert count(world, Subscriber) == 1


# ── a bounded batch at a time ───────────────────────────────────────────────────────────────────


def test_others_can_write_between_batches_and_an_interrupted_run_continues(world: PublishingWorld) -> None:
    world.subscribe(READER, GRAPHS)
    reader, now = world.subscriber(READER).id, at("20T08:00")
    with db.write_session(world.engine) as session:
        for day in range(5):
            put_settled(session, reader, now + timedelta(days=day))
    late, written = now + timedelta(days=1_000), iter(range(100))

    def write_and_stop() -> bool:
        with db.write_session(world.engine) as other:
            enqueue.queue_letter(
                other, letter=plain_letter("alarm", str(next(written))), subscriber_id=None, email=READER,
                site=world.site, now=late,
            )  # fmt: skip
            other.commit()
        return True

    is_all, calls = False, 0
    while not is_all and calls < 20:
        with db.write_session(world.engine) as session:
            _, is_all = cleanup.delete_old_rows(
                session, kept=KEPT, now=late, is_over=write_and_stop, between=0
            )
        calls += 1

    assert count(world, Attempt) == 0
    assert (
        count(world, Delivery) == calls - 1
    )  # only what was written meanwhile: the last call was not interrupted


def test_old_shown_rows_are_deleted_in_batches_that_continue(world: PublishingWorld) -> None:
    readers = [world.subscribe(f"reader{number}@example.org") for number in range(120)]
    with db.write_session(world.engine) as session:
        session.add_all(
            Shown(subscriber_id=one, paper_id=1, delivery_id=one, shown_on=at("20T08:00").date())
            for one in readers
        )
        session.execute(update(Subscriber).values(considered_until=at("20T08:00") + timedelta(days=180)))
        session.commit()
    now, steps = at("20T08:00") + timedelta(days=181), []

    after: int | None = 0
    while after is not None:
        with db.write_session(world.engine) as session:
            gone, after = cleanup.delete_old_shown(
                session, now=now, after=after, is_over=lambda: True, between=0
            )
        steps.append(gone)

    assert steps == [100, 20, 0]


# ── the setting ─────────────────────────────────────────────────────────────────────────────────


def test_a_retention_that_the_setting_does_not_name_keeps_its_default() -> None:
    assert retention_rules.parse_retention("") == Retention()
    assert retention_rules.parse_retention("attempts 30 days, dumps 1 day") == Retention(
        attempts=timedelta(days=30), dumps=timedelta(days=1)
    )


@pytest.mark.parametrize(
    "text",
    [
        "attempts",
        "letters 3 days",
        "deliveries 30 days",
        "attempts 0 days",
        "attempts 300 days, deliveries 200 days",
    ],
)
def test_an_invalid_retention_setting_is_refused(text: str) -> None:
    with pytest.raises(BadField):
        retention_rules.parse_retention(text)
