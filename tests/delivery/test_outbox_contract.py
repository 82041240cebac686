"""Both outboxes behave alike, each on its real database."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from msgspec.structs import replace
from sqlalchemy import Engine, select, update
from sqlalchemy.orm import Session

from digest import db
from digest.bounces import suppressions
from digest.bounces.suppressions import SuppressionReason
from digest.db.tables.deliveries import Delivery, DeliveryState, Lane
from digest.db.tables.subscribers import Subscriber, SubscriberState
from digest.delivery.outbox import attempts, enqueue, transitions
from digest.delivery.outbox.recipients import load_recipients_with_versions
from digest.delivery.outbox.transitions import LEASE, ClaimedDelivery, Ending, Intent
from digest.site.site_profile import Site
from digest.subscribers import account, operator_acts, subscriber_rows
from tests.conftest import ROOT
from tests.support import endings
from tests.support.plain_letters import plain_letter

pytestmark = pytest.mark.postgresql

READERS = ("alice@example.org", "bob@example.org")
MINUTE = timedelta(minutes=1)


@pytest.fixture
def box(session: Session, site: Site, now: datetime) -> Session:
    """An outbox with a letter to each of two readers."""
    for email in READERS:
        one = subscriber_rows.add(session, email, state=SubscriberState.ACTIVE, consent="a test", now=now)
        enqueue.queue_letter(
            session, letter=plain_letter("settings", email), subscriber_id=one.id, email=email, site=site,
            now=now,
        )  # fmt: skip
    session.commit()
    return session


def claim(box: Session, now: datetime) -> list[ClaimedDelivery]:
    found = transitions.claim(box, lane=Lane.PROMPT, now=now, limit=10)
    box.commit()
    return found


def intents(box: Session, site: Site, claimed: list[ClaimedDelivery]) -> list[Intent]:
    """The intents of letters rendered for their recipients as they are now."""
    recipients = load_recipients_with_versions(box, [each.subscriber_id for each in claimed])
    box.commit()
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


def states(engine: Engine) -> list[tuple[str, int, int]]:
    """(state, attempts, in doubt) of each delivery, as another process sees it."""
    with db.read_session(engine) as other:
        rows = other.execute(
            select(Delivery.state, Delivery.attempts, Delivery.in_doubt).order_by(Delivery.id)
        )
        return [(row[0], row[1], row[2]) for row in rows]


# ── claim, renew, release, sweep ────────────────────────────────────────────────────────────────


def test_letter_goes_from_queued_to_sent(box: Session, engine: Engine, site: Site, now: datetime) -> None:
    claimed = claim(box, now)
    ids, lease = [each.id for each in claimed], claimed[0].lease
    assert states(engine) == [("claimed", 0, 0)] * 2

    assert transitions.intend(box, intents(box, site, claimed), lease=lease, until=now + LEASE) == set(ids)
    box.commit()
    assert states(engine) == [("sending", 1, 0)] * 2
    stored = box.execute(select(Delivery.message_id, Delivery.content_hash).order_by(Delivery.id))
    assert [tuple(row) for row in stored] == [(f"<{each}@example.org>", f"{each:064d}") for each in ids]

    sent = endings.settle(
        box, ids, DeliveryState.SENT, from_state=DeliveryState.SENDING, lease=lease, now=now
    )
    box.commit()
    assert sent == set(ids)
    assert states(engine) == [("sent", 1, 0)] * 2


def test_renewed_lease_keeps_letters_from_other_workers(box: Session, now: datetime) -> None:
    claimed = claim(box, now)
    ids, later = {each.id for each in claimed}, now + LEASE

    assert transitions.renew(box, ids, lease=claimed[0].lease, until=later + MINUTE) == ids
    box.commit()

    assert claim(box, later) == []
    assert {each.id for each in claim(box, later + MINUTE)} == ids


def test_released_letter_is_due_again_and_what_was_not_sent_uses_up_no_attempt(
    box: Session, engine: Engine, site: Site, now: datetime
) -> None:
    first, second = claim(box, now)
    lease, until = first.lease, now + LEASE
    transitions.intend(box, intents(box, site, [second]), lease=lease, until=until)

    for state, each in ((DeliveryState.CLAIMED, first), (DeliveryState.SENDING, second)):
        held = endings.release(
            box, [each.id], "why", from_state=state, lease=lease, due_at=now + MINUTE, counts_as_attempt=False
        )
        assert held == {each.id}
    box.commit()

    assert states(engine) == [("queued", 0, 0)] * 2
    assert claim(box, now) == []
    assert [each.reason for each in claim(box, now + MINUTE)] == ["why", "why"]


def test_sweep_queues_what_a_dead_worker_held_and_counts_a_doubt_only_after_an_intent(
    box: Session, engine: Engine, site: Site, now: datetime
) -> None:
    first, second = claim(box, now)
    transitions.intend(box, intents(box, site, [second]), lease=second.lease, until=now + LEASE)
    ids = [first.id, second.id]

    assert transitions.sweep(box, ids, now=now + LEASE - MINUTE) == set()
    assert transitions.sweep(box, ids, now=now + LEASE) == set(ids)
    assert transitions.sweep(box, ids, now=now + LEASE) == set()
    box.commit()

    assert states(engine) == [("queued", 0, 0), ("queued", 1, 1)]
    assert [attempt.verdict for attempt in attempts.list_attempts(box, second.id)] == ["in doubt"]


def test_worker_that_lost_its_lease_changes_nothing(
    box: Session, engine: Engine, site: Site, now: datetime
) -> None:
    lost = claim(box, now)
    later = now + LEASE
    claim(box, later)
    ids, lease, was = [each.id for each in lost], lost[0].lease, DeliveryState.CLAIMED
    going = intents(box, site, lost)

    assert [
        transitions.renew(box, ids, lease=lease, until=later),
        transitions.intend(box, going, lease=lease, until=later),
        endings.settle(box, ids, DeliveryState.FAILED, from_state=was, lease=lease, now=later),
        endings.release(box, ids, from_state=was, lease=lease, due_at=later, counts_as_attempt=True),
    ] == [set()] * 4
    box.commit()
    assert states(engine) == [("claimed", 0, 0)] * 2


# ── intend and settle ──────────────────────────────────────────────────────────────────────────


def test_one_statement_gives_each_letter_its_own_end(
    box: Session, engine: Engine, site: Site, now: datetime
) -> None:
    first, second = claimed = claim(box, now)
    transitions.intend(box, intents(box, site, claimed), lease=first.lease, until=now + LEASE)
    later = now + MINUTE
    ends = [
        Ending(id=first.id, state=DeliveryState.SENT, provider_id="its id"),
        Ending(
            id=second.id, state=DeliveryState.QUEUED, reason="450 'busy' \N{SNOWMAN}", due_at=later + MINUTE
        ),
    ]

    assert transitions.settle(box, ends, was=DeliveryState.SENDING, lease=first.lease, now=later) == {
        first.id,
        second.id,
    }
    box.commit()

    assert states(engine) == [("sent", 1, 0), ("queued", 1, 0)]
    sent, queued = box.scalars(select(Delivery).order_by(Delivery.id))
    assert (sent.settled_at, sent.reason, sent.provider_id, sent.lease) == (later, "", "its id", None)
    assert (queued.settled_at, queued.reason, queued.due_at) == (None, ends[1].reason, later + MINUTE)


def test_letter_in_doubt_keeps_its_lease(box: Session, engine: Engine, site: Site, now: datetime) -> None:
    first, _ = claimed = claim(box, now)
    transitions.intend(box, intents(box, site, claimed), lease=first.lease, until=now + LEASE)

    doubt = [Ending(id=first.id, state=DeliveryState.SENDING, reason="in doubt: no reply")]
    transitions.settle(box, doubt, was=DeliveryState.SENDING, lease=first.lease, now=now)
    box.commit()

    assert claim(box, now + LEASE - MINUTE) == []
    assert states(engine)[0] == ("sending", 1, 0)
    assert {each.in_doubt for each in claim(box, now + LEASE)} == {1}


def change_settings(session: Session, site: Site, now: datetime) -> None:
    session.execute(update(Subscriber).where(Subscriber.email == READERS[0]).values(timezone="Europe/Oslo"))


def unsubscribe(session: Session, site: Site, now: datetime) -> None:
    operator_acts.remove_by_operator(session, READERS[0], operator="mara", now=now)


def suppress(session: Session, site: Site, now: datetime) -> None:
    suppressions.suppress(session, site, READERS[0], SuppressionReason.OPERATOR, "", now)


def erase(session: Session, site: Site, now: datetime) -> None:
    account.erase(session, site, READERS[0], now=now)


@pytest.mark.parametrize("change", [change_settings, unsubscribe, suppress, erase])
def test_letter_whose_recipient_changed_is_not_intended(
    box: Session,
    engine: Engine,
    site: Site,
    now: datetime,
    change: Callable[[Session, Site, datetime], None],
) -> None:
    first, second = claimed = claim(box, now)
    going = intents(box, site, claimed)
    with db.write_session(engine) as other:
        change(other, site, now)
        other.commit()

    assert transitions.intend(box, going, lease=first.lease, until=now + LEASE) == {second.id}


def test_intent_that_names_no_version_and_no_address_is_not_blocked_by_them(
    box: Session, engine: Engine, site: Site, now: datetime
) -> None:
    (first, second) = claim(box, now)
    going = [
        Intent(id=each, message_id="<m@example.org>", content_hash="0" * 64) for each in (first.id, second.id)
    ]
    with db.write_session(engine) as other:
        suppress(other, site, now)
        change_settings(other, site, now)
        other.commit()

    assert transitions.intend(box, going, lease=first.lease, until=now + LEASE) == {first.id, second.id}


@pytest.mark.parametrize(
    ("reason", "is_sent"), [(SuppressionReason.BOUNCE, True), (SuppressionReason.OPERATOR, False)]
)
def test_confirmation_reaches_an_address_whose_owner_can_lift_the_suppression(
    box: Session, engine: Engine, site: Site, now: datetime, reason: SuppressionReason, is_sent: bool
) -> None:
    first, _ = claimed = claim(box, now)
    going = [replace(each, lifts_suppression=True) for each in intents(box, site, claimed)]
    with db.write_session(engine) as other:
        suppressions.suppress(other, site, READERS[0], reason, "", now)
        other.commit()

    intended = transitions.intend(box, going, lease=first.lease, until=now + LEASE)
    assert (first.id in intended) is is_sent


# ── nobody else ─────────────────────────────────────────────────────────────────────────────────


def test_only_the_outbox_changes_the_state_of_a_delivery() -> None:
    changing = re.compile(r"update\((Delivery|DELIVERY_TABLE)\)|UPDATE delivery\b|delivery\.state = ")

    found = [path for path in Path(ROOT, "digest").rglob("*.py") if changing.search(path.read_text())]

    assert {path.parent.name for path in found} == {"outbox"}
