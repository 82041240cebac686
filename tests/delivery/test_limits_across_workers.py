"""Limits hold across workers: separate processes, one or two real mail servers, and one database."""

from __future__ import annotations

import asyncio
import multiprocessing
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from aiosmtpd.controller import Controller
from sqlalchemy import Engine, select
from sqlalchemy.orm import Session

from digest import db
from digest.db.tables.deliveries import Delivery, Lane
from digest.delivery import delivery_run
from digest.delivery.delivery_run import DeliveryReport
from digest.delivery.limits import emergency_stops
from digest.delivery.limits.canary import parse_canary
from digest.delivery.outbox import enqueue
from digest.delivery.transports.open_transport import open_transport
from digest.letters.templates import Templates
from digest.settings import load_settings, templates_dir
from digest.site.site_profile import Site
from tests.delivery.test_send_policy import ALARM_DECISION, publish_digests, put_edition
from tests.support.plain_letters import plain_letter
from tests.support.real_servers import free_port
from tests.support.shared_caches import CACHES
from tests.support.waiting import pause, wait_until

pytestmark = [pytest.mark.slow, pytest.mark.postgresql, pytest.mark.promise, pytest.mark.whole]

WORKERS, WINDOW = 3, 5
MINUTE = timedelta(minutes=1)


# ── workers ───────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, kw_only=True)
class Order:
    """The instructions for a worker."""

    database: str
    site: Site
    settings: dict[str, Any]
    now: datetime
    name: str
    folder: Path
    window: int = WINDOW


def work(order: Order) -> DeliveryReport:
    """Deliver what is due, in a separate process, once the others are ready too."""
    settings = load_settings(order.settings)
    engine, transport = (
        db.make_engine(order.database),
        open_transport(settings.mail, site=order.site),
    )
    templates = Templates(templates_dir())
    (order.folder / order.name).touch()
    wait_until("the other workers", lambda: len(list(order.folder.iterdir())) >= WORKERS)
    with db.write_session(engine) as session:
        report = delivery_run.deliver(
            session, site=order.site, templates=templates, caches=CACHES, transport=transport, clock=lambda: order.now,
            limits=settings.limits, window=order.window,
        )  # fmt: skip
    transport.close()
    engine.dispose()
    return report


@dataclass
class Post:
    """A mail server that counts letters, and the conversations that carry letters to a domain at once."""

    reply: str = "250 taken"
    taken: Counter[str] = field(default_factory=Counter)
    busy: Counter[str] = field(default_factory=Counter)
    peaks: Counter[str] = field(default_factory=Counter)

    async def handle_RCPT(  # noqa: N802
        self, server: Any, session: Any, envelope: Any, address: str, options: list[str]
    ) -> str:
        domain = address.rpartition("@")[2]
        if self.reply.startswith("250"):
            envelope.rcpt_tos.append(address)
            self.busy[domain] += 1
            self.peaks[domain] = max(self.peaks[domain], self.busy[domain])
        else:
            self.taken[domain] += 1
        return self.reply

    async def handle_DATA(self, server: Any, session: Any, envelope: Any) -> str:  # noqa: N802
        domain = envelope.rcpt_tos[0].rpartition("@")[2]
        await asyncio.to_thread(pause, 0.01, "other conversations go on while a server stores a letter")
        self.busy[domain] -= 1
        self.taken[domain] += 1
        return self.reply


@pytest.fixture(scope="module")
def crowd() -> Iterator[ProcessPoolExecutor]:
    """Workers in separate processes."""
    with ProcessPoolExecutor(WORKERS, mp_context=multiprocessing.get_context("spawn")) as pool:
        yield pool


@pytest.fixture
def posts() -> Iterator[tuple[Callable[..., Post], list[str]]]:
    """Mail servers that start on demand, and their addresses."""
    urls: list[str] = []
    with ExitStack() as stack:

        def opened(**details: Any) -> Post:
            post, port = Post(**details), free_port()
            controller = Controller(post, hostname="127.0.0.1", port=port)
            controller.start()
            stack.callback(controller.stop)
            urls.append(f"smtp://127.0.0.1:{port}")
            return post

        yield opened, urls


Set = Callable[..., list[DeliveryReport]]


@pytest.fixture
def set_to_work(
    crowd: ProcessPoolExecutor, database_url: str, site: Site, now: datetime, tmp_path: Path
) -> Set:
    """Let all workers deliver at once, later than now by `after`, under these settings."""
    rounds = iter(range(100))

    def working(
        mail_url: str, *, after: timedelta = timedelta(), window: int = WINDOW, **settings: str
    ) -> list[DeliveryReport]:
        folder = tmp_path / f"round-{next(rounds)}"
        folder.mkdir()
        values = {"data_dir": str(tmp_path), "mail_url": mail_url, **settings}
        orders = [
            Order(
                database=database_url,
                site=site,
                settings=values,
                now=now + after,
                name=f"{n}",
                folder=folder,
                window=window,
            )
            for n in range(WORKERS)
        ]
        return list(crowd.map(work, orders))

    return working


@pytest.fixture
def put(session: Session, site: Site, now: datetime) -> Callable[..., None]:
    """Write letters into the bulk lane."""

    def written(count: int, *domains: str) -> None:
        for number in range(count):
            domain = (domains or ("example.org",))[number % len(domains or (1,))]
            enqueue.queue_letter(
                session, letter=plain_letter("help", f"letter-{number}", ALARM_DECISION), subscriber_id=None, email=f"r{number}@{domain}",
                site=site, now=now, lane=Lane.BULK,
            )  # fmt: skip
        session.commit()

    return written


def states(session: Session) -> Counter[str]:
    found = Counter(str(state) for state in session.scalars(select(Delivery.state)))
    session.rollback()  # with SQLite, who writes is alone
    return found


# ── what holds ──────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("settings", "sent", "to_one"),
    [
        ({"rates": "40/day"}, 40, 40),
        ({"rates": "15/s"}, 30, 30),
        ({"rates": "one.example 12/h"}, 42, 12),
        ({"warm_up": "2026-11-20: 25, 60"}, 25, 25),
        ({"send_hours": "10:00-22:00"}, 0, 0),
        ({"rates": "1000/s"}, 60, 30),
    ],
    ids=["a quota", "a speed", "a domain's quota", "a warm-up", "hours", "enough tokens"],
)
def test_many_workers_send_no_more_than_one_may(
    put, posts, set_to_work: Set, session: Session, settings: dict[str, str], sent: int, to_one: int
) -> None:
    opened, urls = posts
    post = opened()
    put(60, "one.example", "two.example")

    set_to_work(urls[0], **settings)

    assert post.taken.total() == states(session)["sent"] == sent
    assert post.taken["one.example"] <= to_one
    assert "one.example" not in settings.get("rates", "") or post.taken["one.example"] == to_one
    assert states(session)["queued"] == 60 - sent


def test_each_server_has_its_own_rate_across_many_workers(
    put, posts, set_to_work: Set, session: Session
) -> None:
    opened, urls = posts
    small, large = opened(), opened()
    put(60)

    set_to_work(f"{urls[0]}?rate=10/day,{urls[1]}?rate=25/day&weight=3")

    assert (small.taken.total(), large.taken.total()) == (10, 25)
    assert states(session) == {"sent": 35, "queued": 25}


@pytest.mark.parametrize(("limit", "most"), [("1 at once", 1), ("2 at once", 2), ("", 3)])
def test_domain_has_no_more_conversations_than_allowed_with_many_workers(
    put, posts, set_to_work: Set, limit: str, most: int
) -> None:
    opened, urls = posts
    post = opened()
    put(90)

    set_to_work(urls[0], rates=limit)

    assert 1 <= post.peaks["example.org"] <= most
    assert limit or post.peaks["example.org"] > 1  # without a limit they do overlap
    assert post.taken.total() >= WINDOW


def test_many_workers_send_a_canary_ahead_and_the_rest_in_time(
    session: Session, set_to_work: Set, posts, now: datetime
) -> None:
    opened, urls = posts
    opened()
    put_edition(session, 100, now)
    canary = parse_canary("20% for 30 min")
    assert canary
    first = sum(canary.is_first(number) for number in session.scalars(select(Delivery.id)))

    session.rollback()

    def waiting() -> int:
        found = sum("canary until" in reason for reason in session.scalars(select(Delivery.reason)))
        session.rollback()
        return found

    set_to_work(urls[0], canary="20% for 30 min")
    assert waiting() == 100 - first
    set_to_work(urls[0], canary="20% for 30 min", after=29 * MINUTE)
    assert waiting() == 100 - first
    set_to_work(urls[0], canary="20% for 30 min", after=31 * MINUTE)
    assert waiting() == 0


def test_exceeded_threshold_stops_all_workers_once(
    posts, set_to_work: Set, engine: Engine, session: Session, site: Site, templates: Templates
) -> None:
    opened, urls = posts
    post = opened(reply="451 4.3.0 not now")
    publish_digests(engine, site, templates, 200)

    set_to_work(urls[0], stop_at="deferred 50%", window=25)
    tried = post.taken.total()
    set_to_work(urls[0], stop_at="deferred 50%", window=25, after=MINUTE)

    assert len(emergency_stops.active_stops(session)) == 1
    assert post.taken.total() == tried < 200
    put_off = [
        reason for reason in session.scalars(select(Delivery.reason)) if reason.startswith("stopped: ")
    ]
    assert len(put_off) == 200 - tried
