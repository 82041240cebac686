"""The database is lost while letters are out: what their server said is not, and nobody gets a letter twice."""

from __future__ import annotations

import select
import signal
import socket
import sqlite3
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial

import pytest
import sqlalchemy
from sqlalchemy import Engine, create_engine, event
from sqlalchemy.exc import OperationalError

from digest import db, delivery, outbox, rates, subscriptions
from digest.delivery import Report, insisting
from digest.links import Site
from digest.model import Attempt, BounceRow, Delivery, Lane, SubscriberState
from digest.rates import Rules
from digest.rendering import Templates
from digest.transport import Message, Outcome, Transport, Verdict
from digest.transport.memory import Memory
from tests import servers
from tests.conftest import connected, numbers

READERS = [f"reader{number}@example.org" for number in range(3)]
AWAY = 0.7  #: seconds


@dataclass
class Then:
    """A transport, and what happens each time when the server has spoken and nobody has written it down."""

    transport: Transport
    happens: Callable[[], None]

    def send(self, messages: Sequence[Message]) -> Iterator[Outcome]:
        yield from self.transport.send(messages)
        self.happens()

    def close(self) -> None:
        self.transport.close()


class Moody(Memory):
    """Accepts the first letter of three, refuses the second, and defers the third."""

    def send(self, messages: Sequence[Message]) -> Iterator[Outcome]:
        moods = [(Verdict.ACCEPTED, 250), (Verdict.REFUSED, 550), (Verdict.DEFERRED, 450)]
        for message, (verdict, code) in zip(messages, moods, strict=True):
            yield Outcome(
                delivery_id=message.delivery_id,
                verdict=verdict,
                phase="rcpt",
                code=code,
                reply="5.1.1 it says",
            )


@pytest.fixture
def deliver(site: Site, templates: Templates, now: datetime) -> Callable[..., Report]:
    """Deliver at `now`."""
    return partial(delivery.deliver, site=site, templates=templates, clock=lambda: now)


def write(engine: Engine, site: Site, now: datetime) -> None:
    """Write one letter to each reader."""
    with db.writing(engine) as session:
        for email in READERS:
            one = subscriptions.add(session, email, state=SubscriberState.ACTIVE, consent="a test", now=now)
            outbox.put_letter(
                session, letter="settings", subscriber_id=one.id, email=email, decision={},
                dedupe_key=f"settings-{one.id}", site=site, now=now, lane=Lane.BULK,
            )  # fmt: skip
        session.commit()


def fates(engine: Engine) -> list[tuple[str, int, int, int]]:
    """(state, attempts, doubts, attempts in the evidence) of every letter, in order."""
    with db.reading(engine) as session:
        kept = Counter(session.scalars(sqlalchemy.select(Attempt.delivery_id)))
        rows = session.scalars(sqlalchemy.select(Delivery).order_by(Delivery.id))
        return [(row.state, row.attempts, row.in_doubt, kept[row.id]) for row in rows]


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a test whose database does not come back end."""
    monkeypatch.setattr(insisting, "LONGEST", timedelta(seconds=20))


ALL_SENT = [("sent", 1, 0, 1)] * 3
COUNTED = Rules(rates=rates.parse("1000/s"))  #: with them a window is looked at closely


# ── it is away for a while ──────────────────────────────────────────────────────────────────────


def impatient(engine: Engine) -> None:
    """Let SQLite wait for a lock as long as a test can."""
    if engine.dialect.name == "sqlite":
        event.listen(engine, "connect", lambda raw, _record: raw.execute("PRAGMA busy_timeout=50").close())


@contextmanager
def locked(engine: Engine) -> Iterator[None]:
    """Hold SQLite's write lock."""
    foreign = sqlite3.connect(str(engine.url.database), isolation_level=None, check_same_thread=False)
    foreign.execute("BEGIN IMMEDIATE")
    try:
        yield
    finally:
        foreign.execute("ROLLBACK")
        foreign.close()


def lose(engine: Engine) -> None:
    """End every connection to PostgreSQL; let somebody lock SQLite's file for a while."""
    if engine.dialect.name == "sqlite":
        holds = threading.Event()

        def hold() -> None:
            with locked(engine):
                holds.set()
                time.sleep(AWAY)

        threading.Thread(target=hold).start()
        holds.wait()
        return
    other = create_engine(engine.url)
    with other.connect() as connection:
        connection.exec_driver_sql(
            "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )
    other.dispose()


@pytest.mark.parametrize("window", [1, 50])
def test_what_a_server_said_is_kept_once_the_database_is_back_and_told_once(
    engine: Engine,
    site: Site,
    now: datetime,
    deliver: Callable[..., Report],
    window: int,
    caplog: pytest.LogCaptureFixture,
) -> None:
    impatient(engine)
    write(engine, site, now)
    memory = Memory()

    with db.writing(engine) as session:
        report = deliver(session, transport=Then(memory, once(lambda: lose(engine))), window=window)

    assert report == Report(sent=3)
    assert fates(engine) == ALL_SENT
    assert sorted(message.recipient for message in memory.messages) == READERS
    told = [record.getMessage() for record in caplog.records if "database" in record.getMessage()]
    assert [line.split(",")[0] for line in told if "was lost" in line] == [
        f"The database was lost over the fate of {min(window, 3)} letters"
    ]
    assert len(told) == 2


def once(happens: Callable[[], None]) -> Callable[[], None]:
    """Return what happens the first time only."""
    left = [happens]
    return lambda: left.pop()() if left else None


@pytest.fixture(scope="module")
def mortal() -> Iterator[servers.Server]:
    """A PostgreSQL that can be ended and started again; what nobody waits for it keeps in memory for seconds."""
    careful = ("fsync=off", "synchronous_commit=on", "wal_writer_delay=10s", "shared_buffers=16MB")
    with servers.cluster(*careful) as server:
        engine = db.connect(server.url)
        db.upgrade(engine)
        engine.dispose()  # it is a template now
        yield server


@pytest.fixture
def fallible(mortal: servers.Server) -> Iterator[tuple[servers.Server, Engine]]:
    """That server, and a fresh database of it, which goes with it."""
    name, maker = f"fallible_{next(numbers)}", create_engine(mortal.url, isolation_level="AUTOCOMMIT")
    with maker.connect() as connection:
        connection.exec_driver_sql(f"CREATE DATABASE {name} TEMPLATE postgres")
    maker.dispose()
    with connected(mortal.url.removesuffix("postgres") + name) as engine:
        yield mortal, engine


def restart(server: servers.Server, how: signal.Signals) -> None:
    """End it, and let it be away for a while."""
    server.end(how)

    def come_back() -> None:
        time.sleep(AWAY)
        server.start()
        if server.process:
            server.process.wait()  # it would go with the thread that started it

    threading.Thread(target=come_back, daemon=True).start()


@pytest.mark.slow
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGQUIT], ids=["restarts", "crashes"])
def test_a_database_that_falls_after_the_replies_costs_no_doubt_and_no_copy(
    fallible: tuple[servers.Server, Engine],
    site: Site,
    now: datetime,
    deliver: Callable[..., Report],
    how: signal.Signals,
) -> None:
    server, engine = fallible
    write(engine, site, now)
    memory = Memory()

    with db.writing(engine) as session:
        report = deliver(session, transport=Then(memory, once(lambda: restart(server, how))), window=2)

    assert report == Report(sent=3)
    assert fates(engine) == ALL_SENT
    assert len(memory.messages) == 3


@pytest.mark.slow
def test_a_database_that_crashes_between_two_windows_is_waited_for(
    fallible: tuple[servers.Server, Engine], site: Site, now: datetime, deliver: Callable[..., Report]
) -> None:
    server, engine = fallible
    write(engine, site, now)
    memory = Memory()

    with db.writing(engine) as session:
        report = deliver(
            session, transport=memory, window=1,
            progress=lambda done: restart(server, signal.SIGQUIT) if done == 1 else None,
        )  # fmt: skip

    assert report == Report(sent=3)
    assert fates(engine) == ALL_SENT
    assert sorted(message.recipient for message in memory.messages) == READERS


@pytest.mark.slow
def test_a_crash_that_takes_back_what_was_kept_is_told_again(
    fallible: tuple[servers.Server, Engine], site: Site, now: datetime, deliver: Callable[..., Report]
) -> None:
    server, engine = fallible
    write(engine, site, now)
    memory = Memory()

    with db.writing(engine) as session, pytest.raises(OperationalError):
        deliver(
            session, transport=memory, window=1, limits=COUNTED,
            progress=lambda done: restart(server, signal.SIGQUIT) if done == 1 else None,
        )  # fmt: skip

    assert fates(engine) == [("sent", 1, 0, 1), ("queued", 0, 0, 0), ("queued", 0, 0, 0)]
    with db.writing(engine) as session:
        assert deliver(session, transport=memory) == Report(sent=2)
    assert sorted(message.recipient for message in memory.messages) == READERS


# ── the reply to a commit is lost ───────────────────────────────────────────────────────────────


@dataclass
class Lossy:
    """An engine whose next commit goes through, if it is armed, and is not heard of."""

    engine: Engine
    is_armed: bool = False

    def arm(self) -> None:
        self.is_armed = True

    def fires(self) -> bool:
        was, self.is_armed = self.is_armed, False
        return was


@pytest.fixture
def lossy(engine: Engine) -> Iterator[Lossy]:
    """One over a line that breaks; SQLite, which has none, is said to have met an error behind its commit."""
    if engine.dialect.name == "sqlite":
        made = Lossy(engine)

        class Unlucky(sqlite3.Connection):
            def commit(self) -> None:
                super().commit()
                if made.fires():
                    raise sqlite3.OperationalError("disk I/O error")

        event.listen(engine, "do_connect", lambda *told: told[3].update(factory=Unlucky))
        yield made
        return
    with socket.create_server(("127.0.0.1", 0)) as door:
        between = engine.url.set(port=door.getsockname()[1])
        made = Lossy(db.connect(between.render_as_string(hide_password=False)))
        there = (str(engine.url.host), int(engine.url.port or 5432))
        threading.Thread(target=let_through, args=(door, there, made), daemon=True).start()
        yield made
        made.engine.dispose()
        door.shutdown(socket.SHUT_RDWR)  # which ends its thread, too


def let_through(door: socket.socket, there: tuple[str, int], made: Lossy) -> None:
    """Stand between somebody and their database, for as long as the door is open."""
    with suppress(OSError):
        while True:
            near, _ = door.accept()
            threading.Thread(target=carry, args=(near, socket.create_connection(there), made)).start()


def carry(near: socket.socket, far: socket.socket, made: Lossy) -> None:
    """Carry what is asked and answered; what an armed COMMIT is answered is not, we hang up instead."""
    is_deaf = False
    with near, far, suppress(OSError):
        while True:
            for end in select.select([near, far], [], [])[0]:
                data = end.recv(65536)
                if not data or (is_deaf and end is far):
                    return
                is_deaf = is_deaf or (end is near and b"COMMIT" in data and made.fires())
                (far if end is near else near).sendall(data)


def test_a_record_whose_commit_was_not_heard_of_is_not_made_twice(
    lossy: Lossy, engine: Engine, site: Site, now: datetime, deliver: Callable[..., Report]
) -> None:
    write(engine, site, now)

    with db.writing(lossy.engine) as session:
        report = deliver(session, transport=Then(Moody(), lossy.arm))

    assert not lossy.is_armed
    assert report == Report(sent=1, failed=1, deferred=1)
    assert fates(engine) == [("sent", 1, 0, 1), ("failed", 1, 0, 1), ("queued", 1, 0, 1)]
    with db.reading(engine) as session:
        assert len(session.scalars(sqlalchemy.select(BounceRow)).all()) == 1


@pytest.mark.parametrize("lost", ["claim", "intent"])
def test_a_commit_before_the_first_byte_that_was_not_heard_of_leaves_no_doubt_and_nobody_waiting(
    lossy: Lossy, engine: Engine, site: Site, now: datetime, deliver: Callable[..., Report], lost: str
) -> None:
    write(engine, site, now)
    memory, looks = Memory(), ["claim", "intent"]  # before each of them the clock is looked at
    told = {"transport": memory, "lane": Lane.BULK, "limits": Rules(at_once=rates.at_once_in("1 at once"))}

    def clock() -> datetime:
        if looks and looks.pop(0) == lost:
            lossy.arm()
        return now

    with db.writing(lossy.engine) as session, pytest.raises(OperationalError):
        deliver(session, clock=clock, **told)

    assert not lossy.is_armed
    assert memory.messages == []
    assert fates(engine) == [("queued", 0, 0, 0)] * 3
    with db.writing(engine) as session:
        assert deliver(session, **told) == Report(sent=3)
    assert fates(engine) == ALL_SENT


# ── it does not come back in time ───────────────────────────────────────────────────────────────


@pytest.mark.parametrize("because", ["it is told to stop", "its patience ends", "its lease ends"])
def test_a_worker_gives_up_before_its_lease_is_over_and_what_it_knew_is_in_doubt(
    sqlite_engine: Engine,
    site: Site,
    now: datetime,
    deliver: Callable[..., Report],
    because: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    engine, held, memory = sqlite_engine, locked(sqlite_engine), Memory()
    impatient(engine)
    write(engine, site, now)
    if because == "its patience ends":
        monkeypatch.setattr(insisting, "LONGEST", timedelta(seconds=0.5))
    if because == "its lease ends":
        for room in (outbox, outbox.claiming):
            monkeypatch.setattr(room, "LEASE", timedelta(seconds=2))

    with db.writing(engine) as session, pytest.raises(OperationalError, match="locked"):
        deliver(
            session, transport=Then(memory, once(held.__enter__)),
            is_stopping=lambda: because == "it is told to stop" and bool(memory.messages),
        )  # fmt: skip
    held.__exit__(None, None, None)

    assert fates(engine) == [("sending", 1, 0, 0)] * 3
    with db.writing(engine) as session:
        again = deliver(session, transport=memory, clock=lambda: now + outbox.LEASE)
    assert again == Report(sent=3)
    assert fates(engine) == [("sent", 2, 1, 2)] * 3
    assert len({message.content for message in memory.messages}) == 3
