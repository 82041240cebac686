"""A flood of sign-ups causes little mail and blocks nobody, and a suppressed owner can return."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import datetime, timedelta

import pytest
from sqlalchemy import func, select, text, update
from sqlalchemy.orm import Session

from digest.bounces import bounce_score, suppressions
from digest.bounces.failure_kinds import FailureKind
from digest.bounces.report_parser import Complaint, Failure
from digest.bounces.suppressions import SuppressionReason
from digest.db.tables.deliveries import Delivery
from digest.db.tables.subscribers import Confirmation, SignUp, Subscriber, SubscriberState
from digest.delivery import delivery_run
from digest.delivery.transports.memory import MemoryTransport
from digest.errors import UsageError
from digest.letters.templates import Templates
from digest.monitoring import operator_letters, problems
from digest.site import links
from digest.site.site_profile import Site
from digest.subscribers import (
    account,
    confirmation_letters,
    confirmations,
    sign_up_limits,
    sign_up_queue,
    subscriber_rows,
    subscriber_topics,
    unsubscribe_and_undo,
)
from digest.subscribers import sign_up_limits as limits
from digest.subscribers.reader_settings import ReaderSettings
from digest.subscribers.sign_up_limits import Counts
from tests.support.shared_caches import CACHES

on_both = pytest.mark.postgresql  #: of the tests whose statements may differ

ADA = "ada@uni.example"
SECOND, MINUTE, HOUR, DAY = (
    timedelta(seconds=1),
    timedelta(minutes=1),
    timedelta(hours=1),
    timedelta(days=1),
)

SignUpFrom = Callable[..., None]


@pytest.fixture
def sign_up(session: Session, site: Site, now: datetime) -> SignUpFrom:
    """Return a function that signs an address up from a network after some time."""

    def asked(email: str, *, network: str | None = "192.0.2.0/24", after: timedelta = timedelta()) -> None:
        hashed = sign_up_queue.network_hash(site, network)
        sign_up_queue.request(session, email, network=hashed, now=now + after)

    return asked


Tick = Callable[..., int]


@pytest.fixture
def tick(session: Session, site: Site, now: datetime) -> Tick:
    """Return a function that runs the scheduler's tick after some time."""

    def done(after: timedelta = timedelta()) -> int:
        written = sign_up_queue.send_confirmations(session, site, now + after)
        session.commit()
        return written

    return done


def letters(session: Session, *names: str) -> list[str | None]:
    """Return the recipients of letters of these kinds."""
    query = select(Delivery.email).where(Delivery.letter.in_(names or ("confirm",))).order_by(Delivery.id)
    return list(session.scalars(query))


def moments(until: timedelta) -> Iterator[timedelta]:
    """Yield the moments of the scheduler's ticks: every five seconds for 15 minutes, then every ten minutes."""
    moment = timedelta()
    while moment < until:
        yield moment
        moment += 5 * SECOND if moment < HOUR / 4 else 10 * MINUTE


def test_our_own_addresses_cannot_sign_up(
    session: Session, site: Site, now: datetime, sign_up: SignUpFrom, tick: Tick
) -> None:
    for local in (site.mailbox, site.mailbox.upper(), f"{site.mailbox}+x", "unsubscribe+1-0.abc", "ada"):
        sign_up(f"{local}@{site.domain}", network=local)
    tick()

    assert letters(session) == [f"ada@{site.domain}"]


# ── a flood ─────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("flood", "come"),
    [
        (750, 30 * SECOND),
        *(pytest.param(3000, come, marks=pytest.mark.whole) for come in (30 * SECOND, HOUR)),
    ],
    ids=str,
)
def test_a_flood_causes_few_letters_and_others_get_theirs_within_five_minutes(
    flood: int, come: timedelta, session: Session, site: Site, now: datetime, sign_up: SignUpFrom, tick: Tick
) -> None:
    """Forged sign-ups within a minute from 50 networks, and ten readers from others."""
    honest = {f"reader-{number}@uni.example": f"198.51.{number}.0/24" for number in range(10)}
    forged = [(n * MINUTE / flood, f"victim-{n}@else.example", f"203.0.{n % 50}.0/24") for n in range(flood)]
    got: dict[str, timedelta] = {}
    turns = sorted({*moments(48 * HOUR), *(come + n * 5 * SECOND for n in range(80))})
    has_come = False
    for moment in turns:
        while forged and forged[0][0] <= moment:
            _, email, network = forged.pop(0)
            with suppress(UsageError):
                sign_up(email, network=network, after=moment)
        if moment >= come and not has_come:
            has_come = True
            for email, network in honest.items():
                sign_up(email, network=network, after=moment)
        tick(moment)
        confirmation_letters.queue_reminders(session, site, now + moment)
        for email, number in session.execute(
            select(Subscriber.email, Confirmation.id)
            .join(Confirmation, Confirmation.subscriber_id == Subscriber.id)
            .where(Confirmation.used_at.is_(None), Subscriber.email.startswith("reader-"))
        ).all():
            got[email] = moment
            token = links.confirm_url(site, number).rpartition("/")[2]
            assert confirmations.confirm(session, site, token, now + moment + SECOND)

    assert got.keys() == honest.keys()
    assert max(got.values()) - come <= 5 * MINUTE
    assert len([email for email in letters(session, "confirm", "reminder") if email not in honest]) <= max(
        flood / 10, 150
    )
    tick(48 * HOUR + MINUTE)
    assert session.scalar(select(func.count(SignUp.id))) == 0  # what waited 48 hours was dropped unsent


def test_a_distributed_flood_lowers_the_pace(session: Session, sign_up: SignUpFrom, tick: Tick) -> None:
    for number in range(400):
        sign_up(f"victim-{number}@else.example", network=f"10.{number // 250}.{number % 250}.0/24")

    by_the_hour = []
    for hour in range(3):
        sent = [tick(hour * HOUR + number * MINUTE / 2) for number in range(120)]
        by_the_hour.append(sum(sent))

    assert by_the_hour == sorted(by_the_hour, reverse=True)
    assert sum(by_the_hour) < 400


def test_sixty_confirmations_a_minute_go_out_while_sign_ups_are_confirmed(
    session: Session, now: datetime, sign_up: SignUpFrom, tick: Tick
) -> None:
    for number in range(300):
        sign_up(f"reader-{number}@uni.example", network=f"10.0.{number % 100}.0/24")

    for second in range(0, 300, 3):
        tick(second * SECOND)
        session.execute(update(Confirmation).values(used_at=now + second * SECOND))

    assert len(letters(session)) == 300


@on_both
def test_many_honest_sign_ups_of_one_network_proceed_as_they_confirm(
    session: Session, now: datetime, sign_up: SignUpFrom, tick: Tick
) -> None:
    for number in range(30):
        sign_up(f"student-{number}@uni.example")
    assert tick() == limits.PER_NETWORK

    session.execute(update(Confirmation).values(used_at=now))
    tick(MINUTE)

    assert len(letters(session)) == 30


def test_at_the_lowest_pace_reminders_stop_and_the_operator_gets_one_letter(
    session: Session, site: Site, now: datetime, sign_up: SignUpFrom, tick: Tick
) -> None:
    for number in range(200):
        sign_up(f"victim-{number}@else.example", network=f"10.0.{number}.0/24")
    assert not sign_up_limits.counts(session, now).is_lowest
    for turn in range(200):
        tick(turn * 10 * SECOND)
    late = now + 24 * HOUR + HOUR

    assert sign_up_limits.counts(session, late).is_lowest
    assert confirmation_letters.queue_reminders(session, site, late) == 0
    found = [one for one in problems.find_problems(session, now=late) if one.cause == "slow-sign-ups"]
    assert len(found) == 1
    for _ in range(2):
        operator_letters.queue_alarm_letters(session, found, site=site, operator="ops@uni.example", now=late)
    assert letters(session, "alarm") == ["ops@uni.example"]


def test_confirmations_requested_by_the_operator_do_not_lower_the_pace(
    session: Session, site: Site, now: datetime
) -> None:
    for number in range(200):
        confirmations.request_subscription(session, site, f"reader-{number}@uni.example", now=now)

    assert not sign_up_limits.counts(session, now).is_lowest


# ── who is next ─────────────────────────────────────────────────────────────────────────────────


@on_both
def test_the_network_with_the_fewest_unanswered_confirmations_is_next(
    session: Session, site: Site, now: datetime, sign_up: SignUpFrom, tick: Tick
) -> None:
    for network, count in (("flood", 2), ("quiet", 1)):
        for number in range(count):
            sign_up(f"{network}-{number}@else.example", network=network)
    assert tick() == 3
    for number in range(20):
        sign_up(f"victim-{number}@else.example", network="flood")
    sign_up("quiet@uni.example", network="quiet")
    sign_up("new@uni.example", network="new")

    assert tick(MINUTE) == 10

    flood = [f"victim-{number}@else.example" for number in range(8)]  # and two that are unanswered
    assert letters(session)[3:] == ["new@uni.example", "quiet@uni.example", *flood]


def test_an_address_requested_by_several_networks_gets_one_letter(
    session: Session, sign_up: SignUpFrom, tick: Tick
) -> None:
    for number in range(5):
        sign_up(ADA, network=f"{number}")

    assert tick() == 1
    assert letters(session) == [ADA]


def test_the_pace_falls_with_unanswered_confirmations_and_never_reaches_zero() -> None:
    paces = [Counts(unanswered=number).per_minute for number in range(2000)]

    assert paces[:51] == [60] * 51
    assert paces == sorted(paces, reverse=True)
    assert (paces[100], paces[200], paces[1000]) == (5, 2.5, 0.5)
    assert Counts(unanswered=1000, answered=480).per_minute == 60


# ── a request ───────────────────────────────────────────────────────────────────────────────────


@on_both
def test_a_strangers_earlier_sign_up_does_not_delay_the_owners(
    session: Session, sign_up: SignUpFrom, tick: Tick
) -> None:
    for number in range(39):
        sign_up(f"victim-{number}@else.example")
    sign_up(ADA)  # behind 39 others of that network ...
    sign_up(ADA, network="198.51.100.0/24")  # ... and first in that of its owner

    tick()

    assert ADA in letters(session)
    assert (
        session.scalar(select(func.count()).where(SignUp.email_key == ADA)) == 1
    )  # waits for its own letter


def test_each_request_gets_its_own_letter_one_a_day_and_its_link_confirms_it(
    session: Session, site: Site, tick: Tick, now: datetime
) -> None:
    """A stranger, who asks from another network or from the same one, swaps nothing that is shown already."""

    def request(network: str, topic: str, *, email: str = ADA, after: timedelta = timedelta()) -> None:
        requested = ReaderSettings(topics={topic: topic.lower()})
        sign_up_queue.request(session, email, network=network, requested=requested, now=now + after)

    request("a", "Robots")
    assert tick() == 1
    request("b", "Whales", email="Ada@uni.example", after=MINUTE)
    request("a", "Tides", after=MINUTE)
    assert tick(HOUR) == 0
    assert tick(DAY + MINUTE) == 1
    assert letters(session) == [ADA, "Ada@uni.example"]

    first, second = session.scalars(select(Confirmation).order_by(Confirmation.id)).all()
    ada = subscriber_rows.get(session, ADA)
    assert "Robots" in str(confirmation_letters.request_of(session, first, ada))
    assert "Whales" in str(confirmation_letters.request_of(session, second, ada))

    def topics_after(confirmation: Confirmation) -> tuple[list[str], str]:
        token = links.sign_token(site, "confirm", str(confirmation.id))
        assert confirmations.confirm(session, site, token, now + DAY + 2 * HOUR)
        return [one.name for one in subscriber_topics.topics_of(session, ada)], ada.email

    with session.begin_nested() as undone:  # the later request first: the earlier one no longer replaces it
        assert topics_after(second) == (["Whales"], "Ada@uni.example")
        assert topics_after(first) == (["Whales"], "Ada@uni.example")
        undone.rollback()
    session.expire_all()
    assert topics_after(first) == (["Robots"], ADA)
    assert topics_after(second) == (["Whales"], ADA)


@on_both
def test_a_full_queue_drops_sign_ups_of_the_largest_network(
    session: Session, sign_up: SignUpFrom, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "MAX_WAITING", 30)
    for number in range(29):
        sign_up(f"victim-{number}@else.example", network="203.0.113.0/24")
    sign_up(ADA)
    sign_up("bob@uni.example")

    waiting = list(session.scalars(select(SignUp.email)))
    assert len(waiting) == 30
    assert {ADA, "bob@uni.example"} < set(waiting)


@on_both
def test_a_network_is_stored_as_a_hash_for_72_hours(
    session: Session, sign_up: SignUpFrom, tick: Tick
) -> None:
    sign_up(ADA)
    tick()

    kept = session.scalars(select(Confirmation.network)).one()
    assert len(kept) == 16
    assert "192.0.2" not in str(session.execute(text("SELECT * FROM confirmation")).all())
    tick(72 * HOUR)
    assert session.scalars(select(Confirmation.network)).all() == [""]


@on_both
def test_an_erasure_also_deletes_queued_sign_ups(
    session: Session, site: Site, now: datetime, sign_up: SignUpFrom
) -> None:
    subscriber_rows.add(session, ADA, now=now)
    sign_up(ADA)

    account.erase(session, site, ADA, now=now)

    assert session.scalar(select(func.count(SignUp.id))) == 0


# ── the way back of an address that is suppressed ───────────────────────────────────────────────


@pytest.fixture
def ada(session: Session, now: datetime) -> Subscriber:
    row = subscriber_rows.add(
        session, ADA, state=SubscriberState.ACTIVE, consent="a test", now=now - 90 * DAY
    )
    session.commit()
    return row


@pytest.fixture
def suppressed(
    session: Session, site: Site, ada: Subscriber, now: datetime
) -> Callable[[SuppressionReason], None]:
    """Suppress Ada's address for that reason, as it happens."""

    def by(reason: SuppressionReason) -> None:
        match reason:
            case SuppressionReason.BOUNCE:
                for day in range(-4, 1):
                    told = Failure(kind=FailureKind.HARD, status="5.1.1", diagnostic="no")
                    bounce_score.record_failure(session, site, ADA, told, now=now + day * DAY)
            case SuppressionReason.COMPLAINT:
                bounce_score.record_failure(session, site, ADA, Complaint(), now=now)
                unsubscribe_and_undo.mark_unsubscribed(session, ada, now=now)
            case SuppressionReason.OPERATOR:
                suppressions.suppress(session, site, ADA, reason, "", now)
            case SuppressionReason.ERASED:
                account.erase(session, site, ADA, suppress=True, now=now)
        assert suppressions.is_suppressed(session, site, ADA)
        session.commit()

    return by


@pytest.fixture
def sent(
    session: Session, site: Site, templates: Templates, now: datetime
) -> Callable[[timedelta], list[str]]:
    """Deliver what is due and return the recipients."""

    def delivered(after: timedelta) -> list[str]:
        memory = MemoryTransport()
        clock = lambda: now + after  # noqa: E731
        delivery_run.deliver(
            session, site=site, templates=templates, caches=CACHES, transport=memory, clock=clock
        )
        return [message.recipient for message in memory.messages]

    return delivered


@pytest.mark.parametrize("reason", [SuppressionReason.BOUNCE, SuppressionReason.COMPLAINT])
def test_confirming_lifts_a_suppression_caused_by_others(
    reason: SuppressionReason,
    session: Session,
    site: Site,
    now: datetime,
    ada: Subscriber,
    suppressed: Callable[[SuppressionReason], None],
    sign_up: SignUpFrom,
    tick: Tick,
    sent: Callable[[timedelta], list[str]],
) -> None:
    suppressed(reason)

    sign_up(ADA, after=DAY)
    assert tick(DAY) == 1
    assert sent(DAY) == [ADA]
    number = session.scalars(select(Confirmation.id)).one()
    token = links.confirm_url(site, number).rpartition("/")[2]
    assert confirmations.confirm(session, site, token, now + DAY + HOUR)

    assert not suppressions.is_suppressed(session, site, ADA)
    assert ada.state == SubscriberState.ACTIVE
    assert sent(DAY + HOUR) == [ADA]  # the welcome letter
    told = Failure(kind=FailureKind.HARD, status="5.1.1", diagnostic="no")
    assert (
        bounce_score.record_failure(session, site, ADA, told, now=now + 2 * DAY).score == 1
    )  # what was before is forgotten


@pytest.mark.parametrize("reason", [SuppressionReason.BOUNCE, SuppressionReason.COMPLAINT])
def test_a_suppressed_address_gets_one_confirmation_in_30_days_and_no_reminder(
    reason: SuppressionReason,
    session: Session,
    site: Site,
    now: datetime,
    suppressed: Callable[[SuppressionReason], None],
    sign_up: SignUpFrom,
    tick: Tick,
    sent: Callable[[timedelta], list[str]],
) -> None:
    suppressed(reason)

    got = []
    for day in range(1, 32):
        sign_up(ADA, after=day * DAY)
        tick(day * DAY)
        confirmation_letters.queue_reminders(session, site, now + day * DAY)
        got += [day for _ in sent(day * DAY)]

    assert got == [1, 31]
    assert suppressions.is_suppressed(session, site, ADA)


@pytest.mark.parametrize("reason", [SuppressionReason.OPERATOR, SuppressionReason.ERASED])
def test_addresses_suppressed_by_the_operator_or_an_erasure_get_nothing(
    reason: SuppressionReason,
    session: Session,
    suppressed: Callable[[SuppressionReason], None],
    sign_up: SignUpFrom,
    tick: Tick,
    sent: Callable[[timedelta], list[str]],
) -> None:
    suppressed(reason)

    for day in (1, 40):
        sign_up(ADA, after=day * DAY)
        assert tick(day * DAY) == 0
        assert sent(day * DAY) == []


@on_both
def test_a_suppression_newer_than_the_confirmation_stays(
    session: Session, site: Site, now: datetime, suppressed: Callable[[SuppressionReason], None], sign_up: SignUpFrom, tick: Tick
) -> None:  # fmt: skip
    suppressed(SuppressionReason.COMPLAINT)
    sign_up(ADA, after=DAY)
    tick(DAY)
    suppressions.unsuppress(session, site, ADA, now=now)
    bounce_score.record_failure(session, site, ADA, Complaint(), now=now + DAY + HOUR)

    number = session.scalars(select(Confirmation.id)).one()
    token = links.confirm_url(site, number).rpartition("/")[2]
    assert confirmations.confirm(session, site, token, now + DAY + 2 * HOUR) is None
    assert suppressions.is_suppressed(session, site, ADA)


@on_both
def test_a_confirmation_queued_before_a_suppression_is_not_sent(
    session: Session, site: Site, now: datetime, sign_up: SignUpFrom, tick: Tick, sent: Callable[[timedelta], list[str]]
) -> None:  # fmt: skip
    sign_up(ADA)
    assert tick(timedelta()) == 1
    suppressions.suppress(session, site, ADA, SuppressionReason.COMPLAINT, "", now)
    session.commit()

    assert sent(SECOND) == []
