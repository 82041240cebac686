"""Provide the real site on a real database, with a clock that tests set."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime, timedelta
from email import message_from_bytes, policy
from pathlib import Path
from typing import Any

import pytest
from anyio.from_thread import start_blocking_portal
from httpx2 import Response
from sqlalchemy import Engine, select
from sqlalchemy.orm import Session
from starlette.applications import Starlette
from starlette.testclient import TestClient

from digest import db
from digest.app_context import AppContext
from digest.db.tables.deliveries import Delivery
from digest.db.tables.dumps import DumpRow, DumpState
from digest.db.tables.papers import PaperRow
from digest.db.tables.subscribers import Subscriber, SubscriberState
from digest.delivery import delivery_run
from digest.delivery.transports.memory import MemoryTransport
from digest.delivery.transports.transport import Transport
from digest.papers.catalog import match_or_add_records
from digest.papers.paper_record import Record
from digest.publishing import publish_due
from digest.publishing.publication import Publication
from digest.settings import Settings, load_settings
from digest.site import links
from digest.site.site_profile import Site
from digest.subscribers import sign_up_queue, subscriber_rows
from digest.web.app import create_app
from tests.support.clock import Clock
from tests.support.mail_bodies import body_of
from tests.support.shared_caches import CACHES, caches_with_templates

BASE = "http://127.0.0.1:8000"
ENGINES: dict[
    str, Engine
] = {}  #: kept for their compiled statements; each test has a new file at the same URL


class Browser(TestClient):
    """A client that opens the page with the answer to a form, and follows no other redirect."""

    def post(self, *args: Any, **options: Any) -> Response:
        answer = super().post(*args, **options)
        location = answer.headers.get("location", "")
        if "?answer=" not in location:
            return answer
        assert answer.status_code == 303
        page = self.get(location)
        page.history = [answer]
        return page


@dataclass(kw_only=True)
class ServedSite:
    """The site as a browser sees it."""

    client: TestClient
    context: AppContext
    clock: Clock
    waits: list[float]  #: the seconds by which responses would be delayed

    @property
    def app(self) -> Starlette:
        assert isinstance(self.client.app, Starlette)
        return self.client.app

    @property
    def site(self) -> Site:
        return self.context.site

    def writing(self) -> AbstractContextManager[Session]:
        return self.context.write_session()

    def stamp(self) -> str:
        """Open the front page, wait five seconds, and return the form's timestamp token."""
        found = re.search(r'name="made" value="([^"]+)"', self.client.get("/").text)
        assert found
        self.clock.now += timedelta(seconds=5)
        return found[1]

    def sign_up(self, email: str, **fields: str):
        """Send the form as a person does, and run the scheduler's tick."""
        data = {"made": self.stamp(), "website": "", "email": email, **fields}
        answer = self.client.post("/", data=data)
        self.send_confirmations()
        return answer

    def send_confirmations(self) -> int:
        """Do what the scheduler does every few seconds."""
        with self.writing() as session:
            written = sign_up_queue.send_confirmations(session, self.site, self.clock.now)
            session.commit()
            return written

    def letters(self) -> list[tuple[str, str | None]]:
        with self.writing() as session:
            rows = select(Delivery.letter, Delivery.email).order_by(Delivery.id)
            return [(letter, address) for letter, address in session.execute(rows)]

    def deliver(self, session: Session, transport: Transport) -> None:
        """Deliver what is due."""
        delivery_run.deliver(
            session,
            site=self.site,
            templates=self.context.templates,
            caches=CACHES,
            transport=transport,
            clock=self.clock,
        )

    def deliver_mail(self) -> list[tuple[str, str]]:
        """Deliver due letters, and return the subject and text of every sent letter."""
        memory = MemoryTransport()
        with self.writing() as session:
            self.deliver(session, memory)
        parsed = [message_from_bytes(one.content, policy=policy.default) for one in memory.messages]
        return [(one["Subject"], body_of(one, "plain").replace("\r\n", "\n")) for one in parsed]

    def subscriber(self, email: str) -> Subscriber:
        with self.writing() as session:
            return subscriber_rows.get(session, email)

    def everything(self) -> str:
        """Return all rows of all tables but the answers to forms; neither a GET nor an error changes these rows."""
        with self.writing() as session:
            tables = [one for one in Subscriber.metadata.sorted_tables if one.name != "kept_page"]
            return "\n".join(str(session.execute(select(table)).all()) for table in tables)


@pytest.fixture
def clock(now: datetime) -> Clock:
    return Clock(now)


def settings_for(url: str, folder: Path, **changed: Any) -> Settings:
    return load_settings(
        {
            "data_dir": folder, "database_url": url, "base_url": BASE, "site_name": "Example Digest",
            "secret_key": "the key of the tests", "pepper": "the pepper of the tests", **changed,
        }  # equal sites share the templates of a digest, which are split once per site
    )  # fmt: skip


@pytest.fixture(scope="session", autouse=True)
def event_loop_of_requests() -> Iterator[None]:
    """Serve all requests of a process in one event loop: a client starts one per request otherwise."""
    with start_blocking_portal() as portal:
        TestClient.portal = portal
        yield
    TestClient.portal = None


@pytest.fixture
def served(sqlite_url: str, tmp_path: Path, clock: Clock) -> Iterator[ServedSite]:
    yield from opened(settings_for(sqlite_url, tmp_path), clock)


def opened(settings: Settings, clock: Clock) -> Iterator[ServedSite]:
    waits: list[float] = []

    async def sleep(seconds: float) -> None:
        waits.append(seconds)

    url = settings.database
    if url not in ENGINES:
        ENGINES[url] = db.make_engine(url)
    context = AppContext(
        settings=settings, engine=ENGINES[url].execution_options(), site=settings.site(), clock=clock,
        caches=caches_with_templates(settings),
    )  # fmt: skip
    app = create_app(context, sleep=sleep)
    client = Browser(app, base_url=settings.base_url, follow_redirects=False)
    yield ServedSite(client=client, context=app.state.context, clock=clock, waits=waits)
    app.state.context.engine.dispose()


@pytest.fixture
def papers(served: ServedSite, now: datetime) -> list[int]:
    """Twelve invented papers of this morning; the first has links, the second a hostile title."""
    records = [
        Record(
            title="Slow Diffusion", abstract="Diffusion models wait.", authors=("Ada Ito", "Ben Okafor"), n_authors=2,
            ids={"arxiv": "2611.00001"}, urls=("https://arxiv.org/abs/2611.00001",),
            signals={"upvotes": 90.0},
        ),
        Record(
            title='<script>alert("x")</script> & $x^2$ {}', abstract="<img src=x onerror=alert(1)>",
            urls=("javascript:alert(1)",), signals={"upvotes": 80.0},
        ),
        *(
            Record(title=f"Quiet Paper {n}", abstract="Nothing happens.", signals={"upvotes": 60.0 - n})
            for n in range(3, 13)
        ),
    ]  # fmt: skip
    load_papers(served, records, at=now)
    with served.writing() as session:
        return list(session.scalars(select(PaperRow.id).order_by(PaperRow.id)))  # in the order of the records


def load_papers(served: ServedSite, records: Sequence[Record], *, at: datetime) -> None:
    """Store the papers of a dump that was observed and read at `at`."""
    with served.writing() as session:
        dump = DumpRow(
            sha256=f"{at.timestamp():064.0f}",
            path=f"{at:%Y-%m-%d-%H%M}.txt",
            state=DumpState.LOADED,
            observed_at=at,
            read_at=at,
            date=at.date(),
        )
        session.add(dump)
        match_or_add_records.add(session, records, dump=dump)
        session.commit()


@pytest.fixture
def alice(served: ServedSite, now: datetime) -> Subscriber:
    with served.writing() as session:
        added = subscriber_rows.add(
            session, "alice@uni.edu", state=SubscriberState.ACTIVE, consent="asked", now=now,
            topics={"Vision": "title:image*"},
        )  # fmt: skip
        session.commit()
        return added


def path_of(url: str) -> str:
    return url.removeprefix(BASE)


@pytest.fixture
def unsubscribe_path(served: ServedSite, alice: Subscriber) -> str:
    return path_of(links.unsubscribe_url(served.site, alice.id, alice.link_version))


@pytest.fixture
def manage_path(served: ServedSite, alice: Subscriber) -> str:
    return path_of(links.manage_url(served.site, alice.id, alice.link_version))


def publish_and_deliver(
    served: ServedSite, session: Session, transport: MemoryTransport, at: datetime
) -> None:
    """Publish what is due at that moment, and deliver it."""
    common: dict[str, Any] = {"site": served.site, "templates": served.context.templates, "caches": CACHES}
    publish_due.publish(Publication(session, **common, now=at))
    delivery_run.deliver(session, **common, transport=transport, clock=lambda: at)


@pytest.fixture
def digest_sent(served: ServedSite, papers: list[int], now: datetime) -> Delivery:
    """Dora's digest of this morning, published and delivered; returns its delivery."""
    with served.writing() as session:
        dora = subscriber_rows.add(
            session, "dora@uni.edu", state=SubscriberState.ACTIVE, consent="asked", now=now,
            topics={"Diffusion": "title:diffusion", "Quiet": "title:quiet"},
        )  # fmt: skip
        session.commit()
        at = now + timedelta(minutes=1)
        publish_and_deliver(served, session, MemoryTransport(), at)
        session.commit()
        served.clock.now = at
        return session.query(Delivery).filter_by(subscriber_id=dora.id, edition="daily-2026-11-20").one()


@pytest.fixture
def dora(served: ServedSite, digest_sent: Delivery) -> Subscriber:
    return served.subscriber("dora@uni.edu")


@pytest.fixture
def view(served: ServedSite, dora: Subscriber) -> str:
    """The path of Dora's digest on the web."""
    return path_of(links.view_url(served.site, dora.id, dora.link_version, "daily-2026-11-20"))
