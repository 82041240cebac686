"""Time fifty sign-ups a second in one web process, while workers publish and deliver digests.

    make bench ARGS="sign_ups --full"

Ten seconds, or a minute with --full. Each sign-up is sent at its own moment, whether or not the earlier
ones are answered, and its time counts from that moment. Each has another address, another network and
topics. Afterwards the queue must hold exactly these addresses. The response times are multiples of
`forms.RESPONSE_STEP`, because they must not reveal who is subscribed: a p50 of one step is the least.
"""

from __future__ import annotations

import asyncio
import re
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from statistics import quantiles

import httpx2
from sqlalchemy import Engine, func, select

from digest.db.tables.deliveries import Delivery
from digest.db.tables.subscribers import SignUp
from digest.delivery.outbox.open_deliveries import IS_OPEN
from digest.topics.starter_filters import STARTER_TOPICS
from digest.web import forms
from digest.web.forms import MIN_FORM_AGE
from tests.bench import celery_mornings, sink
from tests.bench.celery_mornings import MorningCost, SharedServers
from tests.bench.world import World
from tests.conftest import connected, fresh_database
from tests.support.product_processes import installation
from tests.support.real_servers import free_port

A_SECOND = 50
PATIENCE = 60.0  #: maximum number of seconds for one response
WEB = (sys.executable, "-m", "digest")


@dataclass(frozen=True, kw_only=True)
class SentForm:
    """One sign-up: its address, the status of the answer or the error, and the seconds until the answer."""

    email: str
    answer: str
    seconds: float


def main(full: bool) -> int:
    seconds, readers = (60, 150_000) if full else (10, 25_000)
    world = World(readers=readers, kept=0, now=datetime.now(UTC), at="00:00")
    with (
        celery_mornings.servers() as servers,
        celery_mornings.built_world(servers, world) as template,
        tempfile.TemporaryDirectory() as name,
    ):
        return 0 if holds(servers, world, template, Path(name), A_SECOND * seconds) else 1


def holds(servers: SharedServers, world: World, template: str, folder: Path, count: int) -> bool:
    """Send the sign-ups during a morning; print the figures, and return whether each was answered and queued."""
    with (
        sink.fastest(folder) as taker,
        fresh_database(servers.database, template=template) as url,
        connected(url) as engine,
        celery_mornings.running_workers("ours", servers, url, taker.port, folder / "worker") as workers,
        running_site(servers, url, taker.port, folder / "web") as site,
    ):
        stamp = open_form(site)
        figures = MorningCost(way="ours", readers=world.readers)
        start, _ = celery_mornings.ours(servers, engine, workers, figures, [])
        start()
        workers.wait_until("the first digests", taker.accepted_count)
        before = taker.accepted_count()
        began = time.perf_counter()
        sent = asyncio.run(send_all(site, stamp, count, world.interests))
        took = time.perf_counter() - began
        print_digests(engine, taker.accepted_count() - before, took)
        return print_sign_ups(engine, sent, took)


@contextmanager
def running_site(servers: SharedServers, url: str, port: int, folder: Path) -> Iterator[str]:
    """Run one web process, with this program as its trusted proxy; yield the address of the web process."""
    own = free_port()
    settings = celery_mornings.service_settings(url, servers.broker, port) | {
        "LISTEN": f"127.0.0.1:{own}",
        "PROXIES": "1",
    }
    address = f"http://127.0.0.1:{own}"
    with installation(folder, settings=settings, command=WEB) as service:
        service.start("web")
        service.wait_until("the site", lambda: is_up(address))
        yield address
        assert service.started[0].poll() is None, service.logs()[-4000:]


def is_up(address: str) -> bool:
    """Return whether the site answers."""
    try:
        return httpx2.get(f"{address}/healthz").status_code == 200
    except httpx2.TransportError:
        return False


def open_form(address: str) -> str:
    """Return the timestamp of the form, after the time that a person needs at least."""
    found = re.search(r'name="made" value="([^"]+)"', httpx2.get(f"{address}/", timeout=PATIENCE).text)
    assert found
    time.sleep(MIN_FORM_AGE.total_seconds() + 1)
    return found[1]


# ── the sign-ups ────────────────────────────────────────────────────────────────────────────────


async def send_all(address: str, stamp: str, count: int, filters: list[str]) -> list[SentForm]:
    """Send the sign-ups, each at its moment, and wait for all answers."""
    limits = httpx2.Limits(max_connections=None, max_keepalive_connections=A_SECOND)
    names = list(STARTER_TOPICS)
    began = time.perf_counter()
    async with httpx2.AsyncClient(base_url=address, limits=limits, timeout=PATIENCE) as client:
        forms = []
        for number in range(count):
            due = began + number / A_SECOND
            await asyncio.sleep(max(0.0, due - time.perf_counter()))
            form = {
                "made": stamp,
                "website": "",
                "email": f"visitor-{number}@example.org",
                "interest": names[number % len(names)],
                "filter": filters[number % len(filters)] if number % 3 == 0 else "",
            }
            forms.append(asyncio.create_task(send(client, form, number, due)))
        return await asyncio.gather(*forms)


async def send(client: httpx2.AsyncClient, form: dict[str, str], number: int, due: float) -> SentForm:
    """Send one sign-up, and return its result."""
    network = f"20.{number // 250}.{number % 250}.7"
    try:
        response = await client.post(
            "/", data=form, headers={"x-forwarded-for": network}, follow_redirects=True
        )
        is_page = response.status_code == 200 and form["email"] in response.text
        answer = "accepted" if is_page else f"status {response.status_code}"
    except httpx2.HTTPError as error:
        answer = type(error).__name__
    return SentForm(email=form["email"], answer=answer, seconds=time.perf_counter() - due)


# ── the figures ─────────────────────────────────────────────────────────────────────────────────


def print_digests(engine: Engine, delivered: int, took: float) -> None:
    """Print how many digests were sent in that time, and how many were still waiting."""
    waiting = celery_mornings.count(engine, select(func.count(Delivery.id)).where(IS_OPEN))
    written = celery_mornings.count(engine, select(func.count(Delivery.id)))
    print(
        f"   {delivered:,} digests were delivered in these {took:.1f} s ({delivered / took:,.0f}/s);"
        f" of {written:,} in the outbox, {waiting:,} were still to be sent"
    )


def print_sign_ups(engine: Engine, sent: list[SentForm], took: float) -> bool:
    """Print the figures of the sign-ups.

    Return whether each was accepted, and the queue has exactly these.
    """
    answers = Counter(one.answer for one in sent)
    with engine.connect() as connection:
        queued = Counter(connection.execute(select(SignUp.email)).scalars())
    shares = quantiles([one.seconds for one in sent], n=100)
    print(
        f"   {len(sent):,} sign-ups in {took:.1f} s: {dict(answers)}, {queued.total():,} queued;"
        f" p50 {shares[49]:.2f} s, p99 {shares[98]:.2f} s, longest {max(one.seconds for one in sent):.2f} s"
        f" (responses take multiples of {forms.RESPONSE_STEP} s)"
    )
    return set(answers) == {"accepted"} and queued == Counter(one.email for one in sent)
