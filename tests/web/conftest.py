"""The real site over a real database, with a clock that tests can wind."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from email import message_from_bytes, policy
from pathlib import Path

import pytest
from sqlalchemy import select
from sqlalchemy.orm import Session
from starlette.testclient import TestClient

from digest import catalog, delivery, links, publishing, subscriptions, transport
from digest.house import House
from digest.links import Site
from digest.model import Delivery, DumpRow, DumpState, Subscriber, SubscriberState
from digest.papers import Record
from digest.settings import Settings
from digest.transport.memory import Memory
from digest.web import create_app
from digest.web.limits import Limits

BASE = "http://127.0.0.1:8000"


@dataclass(kw_only=True)
class Door:
    """The site as a browser meets it."""

    client: TestClient
    house: House
    clock: Clock

    @property
    def limits(self) -> Limits:
        return self.client.app.state.limits

    @property
    def site(self) -> Site:
        return self.house.site

    def writing(self) -> Session:
        return Session(self.house.engine.execution_options(writing=True), expire_on_commit=False)

    def stamp(self) -> str:
        """Open the first page, look at it for five seconds, and return the form's stamp."""
        found = re.search(r'name="made" value="([^"]+)"', self.client.get("/").text)
        assert found
        self.clock.now += timedelta(seconds=5)
        return found[1]

    def ask(self, email: str, **fields: str):
        """Send the form as a person does."""
        return self.client.post("/", data={"made": self.stamp(), "website": "", "email": email, **fields})

    def letters(self) -> list[tuple[str, str | None]]:
        with self.writing() as session:
            rows = select(Delivery.letter, Delivery.email).order_by(Delivery.id)
            return [tuple(row) for row in session.execute(rows)]

    def mailed(self) -> list[tuple[str, str]]:
        """Deliver what is due, and return subject and text of every letter that went out."""
        memory = Memory()
        with self.writing() as session:
            delivery.deliver(
                session,
                site=self.site,
                templates=self.house.templates,
                transport=memory,
                clock=self.clock,
            )
        parsed = [message_from_bytes(one.content, policy=policy.default) for one in memory.messages]
        return [
            (one["Subject"], one.get_body(("plain",)).get_content().replace("\r\n", "\n")) for one in parsed
        ]

    def subscriber(self, email: str) -> Subscriber:
        with self.writing() as session:
            return subscriptions.get(session, email)

    def everything(self) -> str:
        """All rows of all tables: what must not change when somebody only looks."""
        with self.writing() as session:
            tables = Subscriber.metadata.sorted_tables
            return "\n".join(str(session.execute(select(table)).all()) for table in tables)


@dataclass
class Clock:
    """The clock of the house; it stands still until wound."""

    now: datetime

    def __call__(self) -> datetime:
        return self.now


@pytest.fixture
def clock(now: datetime) -> Clock:
    return Clock(now)


def settings_for(url: str, folder: Path, **changed: str) -> Settings:
    return Settings(data_dir=folder, database_url=url, base_url=BASE, site_name="Example Digest", **changed)


@pytest.fixture
def door(sqlite_url: str, tmp_path: Path, clock: Clock) -> Iterator[Door]:
    yield from opened(settings_for(sqlite_url, tmp_path), clock)


def opened(settings: Settings, clock: Clock) -> Iterator[Door]:
    app = create_app(settings, clock=clock)
    client = TestClient(app, base_url=settings.base_url, follow_redirects=False)
    yield Door(client=client, house=app.state.house, clock=clock)
    app.state.house.engine.dispose()


@pytest.fixture
def papers(door: Door, now: datetime) -> list[int]:
    """Twelve invented papers of this morning; the first has links, the second a nasty title."""
    records = [
        Record(
            title="Slow Diffusion", abstract="Diffusion models wait.", authors=("Ada Ito", "Ben Okafor"),
            ids={"arxiv": "2611.00001"}, urls=("https://arxiv.org/abs/2611.00001",), position=1,
            signals={"upvotes": 90.0},
        ),
        Record(
            title='<script>alert("x")</script> & $x^2$ {}', abstract="<img src=x onerror=alert(1)>",
            urls=("javascript:alert(1)",), position=2, signals={"upvotes": 80.0},
        ),
        *(
            Record(title=f"Quiet Paper {n}", abstract="Nothing happens.", position=n, signals={"upvotes": 60.0 - n})
            for n in range(3, 13)
        ),
    ]  # fmt: skip
    with door.writing() as session:
        dump = DumpRow(
            sha256="0" * 64,
            path="dump.txt",
            state=DumpState.LOADED,
            observed_at=now,
            read_at=now,
            date=now.date(),
        )
        session.add(dump)
        catalog.add(session, records, dump=dump)
        session.commit()
        return [catalog.find(session, record.title).id for record in records]


@pytest.fixture
def alice(door: Door, now: datetime) -> Subscriber:
    with door.writing() as session:
        added = subscriptions.add(
            session, "alice@uni.edu", state=SubscriberState.ACTIVE, consent="asked", now=now,
            topics={"Vision": "title:image*"},
        )  # fmt: skip
        session.commit()
        return added


def path_of(url: str) -> str:
    return url.removeprefix(BASE)


@pytest.fixture
def unsubscribe_path(door: Door, alice: Subscriber) -> str:
    return path_of(links.unsubscribe_url(door.site, alice.id, alice.epoch))


@pytest.fixture
def manage_path(door: Door, alice: Subscriber) -> str:
    return path_of(links.manage_url(door.site, alice.id, alice.epoch))


@pytest.fixture
def digest_sent(door: Door, papers: list[int], now: datetime) -> Delivery:
    """Dora's digest of this morning, published and delivered; returns its delivery."""
    with door.writing() as session:
        dora = subscriptions.add(
            session, "dora@uni.edu", state=SubscriberState.ACTIVE, consent="asked", now=now,
            topics={"Diffusion": "title:diffusion", "Quiet": "title:quiet"},
        )  # fmt: skip
        session.commit()
        at = now + timedelta(minutes=1)
        publishing.publish(session, site=door.site, templates=door.house.templates, now=at)
        memory = transport.open("memory:", site=door.site)
        delivery.deliver(
            session, site=door.site, templates=door.house.templates, transport=memory, clock=lambda: at
        )
        session.commit()
        door.clock.now = at
        return session.query(Delivery).filter_by(subscriber_id=dora.id, edition="daily-2026-11-20").one()
