"""Both outboxes behave alike, each on its real database."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from sqlalchemy import Engine, select, update
from sqlalchemy.orm import Session

from digest import db
from digest.bounces import suppressions
from digest.bounces.suppressions import SuppressionReason
from digest.db.tables.deliveries import Attempt, Delivery, DeliveryState, Lane
from digest.db.tables.subscribers import Subscriber, SubscriberState
from digest.delivery import outbox
from digest.delivery.limits import domain_pauses, emergency_stops, shared_limits
from digest.delivery.limits.decisions import ALL
from digest.delivery.outbox import AcceptedWindow, AttemptRecord, ClaimedDelivery, Intent, NextWindow, Outbox
from digest.site.site_profile import Site
from digest.subscribers import account, operator_acts, subscriber_rows
from tests.conftest import ROOT
from tests.support.plain_letters import plain_letter

pytestmark = pytest.mark.postgresql

READERS = ("alice@example.org", "bob@example.org")
MINUTE = timedelta(minutes=1)


@pytest.fixture
def box(session: Session, site: Site, now: datetime) -> Outbox:
    """An outbox with a letter to each of two readers."""
    for email in READERS:
        one = subscriber_rows.add(session, email, state=SubscriberState.ACTIVE, consent="a test", now=now)
        outbox.queue_letter(
            session, letter=plain_letter("settings", email), subscriber_id=one.id, email=email, site=site,
            now=now,
        )  # fmt: skip
    session.commit()
    return outbox.open_outbox(session)


def claim(box: Outbox, now: datetime) -> list[ClaimedDelivery]:
    found = box.claim(lane=Lane.PROMPT, now=now, limit=10)
    box.session.commit()
    return found


def intents(box: Outbox, site: Site, claimed: list[ClaimedDelivery]) -> list[Intent]:
    """The intents of letters rendered for their recipients as they are now."""
    recipients = outbox.load_recipients_with_versions(box.session, [each.subscriber_id for each in claimed])
    box.session.commit()
    return [
        Intent(
            id=each.id,
            message_id=f"<{each.id}@example.org>",
            content_hash=f"{each.id:064d}",
            recipient_version=recipients[each.subscriber_id or 0][1],
            address_hash=suppressions.address_hmac(site, each.email or ""),
        )
        for each in claimed
    ]


def following(going: list[Intent], *, lease: str, now: datetime) -> NextWindow:
    return NextWindow(
        intents=going,
        lease=lease,
        until=now + outbox.LEASE,
        now=now,
        scopes=domain_pauses.blocking_scopes(READERS),
    )


def settle_and_intend(
    box: Outbox, accepted: AcceptedWindow | None, going: list[Intent], *, lease: str, now: datetime
) -> tuple[int, set[int]]:
    """Settle a window and intend another, and fetch the reply."""
    with box.settle_and_intend(accepted, following(going, lease=lease, now=now)) as fetch:
        pass
    return fetch()


def accepted(claimed: list[ClaimedDelivery], now: datetime) -> AcceptedWindow:
    attempts = [AttemptRecord(each.id, now, "accepted", "dot", 250, f"taken {each.id}") for each in claimed]
    return AcceptedWindow(attempts=attempts, lease=claimed[0].lease, ended_at=now)


def states(engine: Engine) -> list[tuple[str, int, int]]:
    """(state, attempts, in doubt) of each delivery, as another process sees it."""
    with db.read_session(engine) as other:
        rows = other.execute(
            select(Delivery.state, Delivery.attempts, Delivery.in_doubt).order_by(Delivery.id)
        )
        return [(row[0], row[1], row[2]) for row in rows]


# ── claim, renew, release, sweep ────────────────────────────────────────────────────────────────


def test_letter_goes_from_queued_to_sent(box: Outbox, engine: Engine, site: Site, now: datetime) -> None:
    claimed = claim(box, now)
    ids, lease = [each.id for each in claimed], claimed[0].lease
    assert states(engine) == [("claimed", 0, 0)] * 2

    assert box.intend(intents(box, site, claimed), lease=lease, until=now + outbox.LEASE) == set(ids)
    box.session.commit()
    assert states(engine) == [("sending", 1, 0)] * 2
    stored = box.session.execute(select(Delivery.message_id, Delivery.content_hash).order_by(Delivery.id))
    assert [tuple(row) for row in stored] == [(f"<{each}@example.org>", f"{each:064d}") for each in ids]

    sent = box.settle(ids, DeliveryState.SENT, from_state=DeliveryState.SENDING, lease=lease, now=now)
    box.session.commit()
    assert sent == set(ids)
    assert states(engine) == [("sent", 1, 0)] * 2


def test_renewed_lease_keeps_letters_from_other_workers(box: Outbox, now: datetime) -> None:
    claimed = claim(box, now)
    ids, later = {each.id for each in claimed}, now + outbox.LEASE

    assert box.renew(ids, lease=claimed[0].lease, until=later + MINUTE) == ids
    box.session.commit()

    assert claim(box, later) == []
    assert {each.id for each in claim(box, later + MINUTE)} == ids


def test_released_letter_is_due_again_and_what_was_not_sent_uses_up_no_attempt(
    box: Outbox, engine: Engine, site: Site, now: datetime
) -> None:
    first, second = claim(box, now)
    lease, until = first.lease, now + outbox.LEASE
    box.intend(intents(box, site, [second]), lease=lease, until=until)

    for state, each in ((DeliveryState.CLAIMED, first), (DeliveryState.SENDING, second)):
        held = box.release(
            [each.id], "why", from_state=state, lease=lease, due_at=now + MINUTE, counts_as_attempt=False
        )
        assert held == {each.id}
    box.session.commit()

    assert states(engine) == [("queued", 0, 0)] * 2
    assert claim(box, now) == []
    assert [each.reason for each in claim(box, now + MINUTE)] == ["why", "why"]


def test_sweep_queues_what_a_dead_worker_held_and_counts_a_doubt_only_after_an_intent(
    box: Outbox, engine: Engine, site: Site, now: datetime
) -> None:
    first, second = claim(box, now)
    box.intend(intents(box, site, [second]), lease=second.lease, until=now + outbox.LEASE)
    ids = [first.id, second.id]

    assert box.sweep(ids, now=now + outbox.LEASE - MINUTE) == set()
    assert box.sweep(ids, now=now + outbox.LEASE) == set(ids)
    assert box.sweep(ids, now=now + outbox.LEASE) == set()
    box.session.commit()

    assert states(engine) == [("queued", 0, 0), ("queued", 1, 1)]
    assert [attempt.verdict for attempt in outbox.list_attempts(box.session, second.id)] == ["in doubt"]


def test_worker_that_lost_its_lease_changes_nothing(
    box: Outbox, engine: Engine, site: Site, now: datetime
) -> None:
    lost = claim(box, now)
    later = now + outbox.LEASE
    claim(box, later)
    ids, lease, was = [each.id for each in lost], lost[0].lease, DeliveryState.CLAIMED
    going = intents(box, site, lost)

    assert settle_and_intend(box, accepted(lost, later), going, lease=lease, now=later) == (0, set())
    assert [
        box.renew(ids, lease=lease, until=later),
        box.intend(going, lease=lease, until=later),
        box.settle(ids, DeliveryState.FAILED, from_state=was, lease=lease, now=later),
        box.release(ids, from_state=was, lease=lease, due_at=later, counts_as_attempt=True),
    ] == [set()] * 4
    box.session.commit()
    assert states(engine) == [("claimed", 0, 0)] * 2


# ── settle_and_intend ───────────────────────────────────────────────────────────────────────────


def test_one_transaction_settles_a_window_and_intends_the_next(
    box: Outbox, engine: Engine, site: Site, now: datetime
) -> None:
    first, second = claim(box, now)
    lease = first.lease

    assert settle_and_intend(box, None, intents(box, site, [first]), lease=lease, now=now) == (0, {first.id})
    assert states(engine) == [("sending", 1, 0), ("claimed", 0, 0)]
    done = accepted([first], now + MINUTE)
    assert settle_and_intend(box, done, intents(box, site, [second]), lease=lease, now=now) == (
        1,
        {second.id},
    )

    assert states(engine) == [("sent", 1, 0), ("sending", 1, 0)]
    with db.read_session(engine) as other:
        (attempt,) = other.scalars(select(Attempt))
        settled_at = other.get_one(Delivery, first.id).settled_at
    assert (attempt.verdict, attempt.phase, attempt.code, attempt.reply) == (
        "accepted", "dot", 250, f"taken {first.id}",
    )  # fmt: skip
    assert attempt.ended_at == settled_at == now + MINUTE


def test_intents_are_committed_even_if_the_block_raises(
    box: Outbox, engine: Engine, site: Site, now: datetime
) -> None:
    claimed = claim(box, now)
    going = intents(box, site, claimed)

    with (
        pytest.raises(KeyboardInterrupt),
        box.settle_and_intend(None, following(going, lease=claimed[0].lease, now=now)),
    ):
        raise KeyboardInterrupt
    box.session.rollback()

    assert states(engine) == [("sending", 1, 0)] * 2


def change_settings(session: Session, site: Site, now: datetime) -> None:
    session.execute(update(Subscriber).where(Subscriber.email == READERS[0]).values(timezone="Europe/Oslo"))


def unsubscribe(session: Session, site: Site, now: datetime) -> None:
    operator_acts.remove_by_operator(session, READERS[0], operator="mara", now=now)


def suppress(session: Session, site: Site, now: datetime) -> None:
    suppressions.suppress(session, site, READERS[0], SuppressionReason.OPERATOR, "", now)


def erase(session: Session, site: Site, now: datetime) -> None:
    account.erase(session, site, READERS[0], now=now)


@pytest.mark.parametrize("is_checked", [False, True], ids=["fast path", "checked"])
@pytest.mark.parametrize("change", [change_settings, unsubscribe, suppress, erase])
def test_letter_whose_recipient_changed_is_not_intended(
    box: Outbox,
    engine: Engine,
    site: Site,
    now: datetime,
    change: Callable[[Session, Site, datetime], None],
    is_checked: bool,
) -> None:
    first, second = claimed = claim(box, now)
    going = intents(box, site, claimed)
    with db.write_session(engine) as other:
        change(other, site, now)
        other.commit()

    if is_checked:
        assert box.intend(going, lease=first.lease, until=now + outbox.LEASE) == {second.id}
    else:
        assert settle_and_intend(box, None, going, lease=first.lease, now=now) == (0, {second.id})


def test_intent_that_names_no_version_and_no_address_is_not_blocked_by_them(
    box: Outbox, engine: Engine, site: Site, now: datetime
) -> None:
    (first, second) = claim(box, now)
    going = [
        Intent(id=each, message_id="<m@example.org>", content_hash="0" * 64) for each in (first.id, second.id)
    ]
    with db.write_session(engine) as other:
        suppress(other, site, now)
        change_settings(other, site, now)
        other.commit()

    assert box.intend(going, lease=first.lease, until=now + outbox.LEASE) == {first.id, second.id}


def stop(session: Session, now: datetime) -> None:
    emergency_stops.emergency_stop(session, "a test", scope=ALL, now=now)


def pause(session: Session, now: datetime) -> None:
    shared_limits.pause_server(session, "example.org", now + MINUTE)


@pytest.mark.parametrize("happens", [stop, pause])
def test_nothing_is_intended_during_a_stop_or_a_pause(
    box: Outbox, engine: Engine, site: Site, now: datetime, happens: Callable[[Session, datetime], None]
) -> None:
    claimed = claim(box, now)
    going = intents(box, site, claimed)
    with db.write_session(engine) as other:
        happens(other, now)
        other.commit()

    assert settle_and_intend(box, None, going, lease=claimed[0].lease, now=now) == (0, set())
    assert states(engine) == [("claimed", 0, 0)] * 2


# ── nobody else ─────────────────────────────────────────────────────────────────────────────────


def test_only_the_outbox_changes_the_state_of_a_delivery() -> None:
    changing = re.compile(r"update\((Delivery|DELIVERY_TABLE)\)|UPDATE delivery\b|delivery\.state = ")

    found = [path for path in Path(ROOT, "digest").rglob("*.py") if changing.search(path.read_text())]

    assert {path.parent.name for path in found} == {"outbox"}
