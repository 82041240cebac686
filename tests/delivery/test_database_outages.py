"""If the database is lost while letters are sent, no reply is lost, and nobody gets a letter twice."""

from __future__ import annotations

import select
import signal
import socket
import sqlite3
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial

import pytest
import sqlalchemy
from sqlalchemy import Engine, create_engine, event, update
from sqlalchemy.exc import OperationalError

from digest import db, plurals
from digest.db.tables.deliveries import Attempt, Delivery, Lane
from digest.db.tables.inbound_mail import BounceRow
from digest.db.tables.limits import RateCounter
from digest.db.tables.subscribers import SubscriberState
from digest.delivery import database_retries, delivery_run
from digest.delivery.delivery_run import DeliveryReport
from digest.delivery.limits import limit_rules, warm_up
from digest.delivery.limits.limit_rules import SendLimits
from digest.delivery.outbox import enqueue, transitions
from digest.delivery.outbox.transitions import LEASE
from digest.delivery.transports.memory import MemoryTransport
from digest.delivery.transports.transport import Message, Outcome, Transport, Verdict
from digest.letters.templates import Templates
from digest.site.site_profile import Site
from digest.subscribers import subscriber_rows
from tests.conftest import connected, numbers
from tests.support import real_servers
from tests.support.absent_server import AbsentServer
from tests.support.plain_letters import plain_letter
from tests.support.shared_caches import CACHES
from tests.support.waiting import pause

pytestmark = pytest.mark.postgresql

READERS = [f"reader{number}@example.org" for number in range(3)]
AWAY = 0.7  #: seconds


@dataclass
class Then:
    """A transport, and what happens after each reply, before it is recorded."""

    transport: Transport
    happens: Callable[[], None]

    def send(self, messages: Sequence[Message]) -> Iterator[Outcome]:
        yield from self.transport.send(messages)
        self.happens()

    def close(self) -> None:
        self.transport.close()


class Moody(MemoryTransport):
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


class Refusing(MemoryTransport):
    """Refuses every letter, so no window is on the fast path."""

    def send(self, messages: Sequence[Message]) -> Iterator[Outcome]:
        for message in messages:
            yield Outcome(
                delivery_id=message.delivery_id, verdict=Verdict.REFUSED, phase="dot", code=554, reply="No"
            )


@pytest.fixture
def deliver(site: Site, templates: Templates, now: datetime) -> Callable[..., DeliveryReport]:
    """Deliver at `now`."""
    return partial(delivery_run.deliver, site=site, templates=templates, caches=CACHES, clock=lambda: now)


def write(engine: Engine, site: Site, now: datetime) -> None:
    """Write one letter to each reader."""
    with db.write_session(engine) as session:
        for email in READERS:
            one = subscriber_rows.add(session, email, state=SubscriberState.ACTIVE, consent="a test", now=now)
            enqueue.queue_letter(
                session, letter=plain_letter("settings", f"settings-{one.id}"), subscriber_id=one.id, email=email,
                site=site, now=now, lane=Lane.BULK,
            )  # fmt: skip
        session.commit()


def fates(engine: Engine) -> list[tuple[str, int, int, int]]:
    """(state, attempts, doubts, stored attempts) of every letter, in order."""
    with db.read_session(engine) as session:
        kept = Counter(session.scalars(sqlalchemy.select(Attempt.delivery_id)))
        rows = session.scalars(sqlalchemy.select(Delivery).order_by(Delivery.id))
        return [(row.state, row.attempts, row.in_doubt, kept[row.id]) for row in rows]


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """End a test whose database does not come back."""
    monkeypatch.setattr(database_retries, "MAX_RETRY_TIME", timedelta(seconds=20))


ALL_SENT = [("sent", 1, 0, 1)] * 3
COUNTED = SendLimits(rates=limit_rules.parse_rates("1000/s"))  #: with them windows are checked individually


@pytest.fixture
def engine(database_url: str) -> Iterator[Engine]:
    """An engine of its own, for these tests change how it connects."""
    with connected(database_url) as engine:
        yield engine


# ── a short outage ──────────────────────────────────────────────────────────────────────


def impatient(engine: Engine) -> None:
    """Make SQLite wait for a lock only as long as a test can."""
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
    """End every connection to PostgreSQL, or lock SQLite's file for a while."""
    if engine.dialect.name == "sqlite":
        holds = threading.Event()

        def hold() -> None:
            with locked(engine):
                holds.set()
                pause(AWAY, "the file is locked")

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
def test_replies_are_recorded_once_when_the_database_is_back(
    engine: Engine,
    site: Site,
    now: datetime,
    deliver: Callable[..., DeliveryReport],
    window: int,
    caplog: pytest.LogCaptureFixture,
) -> None:
    impatient(engine)
    write(engine, site, now)
    memory = MemoryTransport()

    with db.write_session(engine) as session:
        report = deliver(session, transport=Then(memory, once(lambda: lose(engine))), window=window)

    assert report == DeliveryReport(sent=3)
    assert fates(engine) == ALL_SENT
    assert sorted(message.recipient for message in memory.messages) == READERS
    if engine.dialect.name == "postgresql":  # the pool replaces dead connections before they are used
        return
    first, last = [record.getMessage() for record in caplog.records if "database" in record.getMessage()]
    letters = plurals.count(min(window, 3), "letter")
    assert first.startswith(f"The database failed while recording the outcome of {letters}; ")
    assert last.endswith(f"recorded the outcome of {letters}")


def once(happens: Callable[[], None]) -> Callable[[], None]:
    """Return a function that acts only the first time."""
    left = [happens]
    return lambda: left.pop()() if left else None


@pytest.fixture(scope="module")
def mortal() -> Iterator[real_servers.Server]:
    """A PostgreSQL that can be stopped and started; it keeps asynchronous commits in memory for seconds."""
    careful = ("fsync=off", "synchronous_commit=on", "wal_writer_delay=10s", "shared_buffers=16MB")
    with real_servers.cluster(*careful) as server:
        engine = db.make_engine(server.url)
        db.upgrade(engine)
        engine.dispose()  # it is a template now
        yield server


@pytest.fixture
def fallible(
    mortal: real_servers.Server, site: Site, now: datetime
) -> Iterator[tuple[real_servers.Server, Engine]]:
    """The stoppable server, and a fresh database on it with a letter to each reader."""
    name, maker = f"fallible_{next(numbers)}", create_engine(mortal.url, isolation_level="AUTOCOMMIT")
    with maker.connect() as connection:
        connection.exec_driver_sql(f"CREATE DATABASE {name} TEMPLATE postgres")
    maker.dispose()
    with connected(mortal.url.removesuffix("postgres") + name) as engine:
        write(engine, site, now)
        yield mortal, engine


def restart(server: real_servers.Server, how: signal.Signals) -> None:
    """Stop it, and start it again after a while."""
    server.end(how)

    def come_back() -> None:
        pause(AWAY, "the server is away")
        server.start()
        if server.process:
            server.process.wait()  # it would end with the thread that started it

    threading.Thread(target=come_back, daemon=True).start()


@pytest.mark.slow
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGQUIT], ids=["restarts", "crashes"])
def test_database_lost_after_the_replies_causes_no_doubt_and_no_copy(
    fallible: tuple[real_servers.Server, Engine],
    deliver: Callable[..., DeliveryReport],
    how: signal.Signals,
) -> None:
    server, engine = fallible
    memory = MemoryTransport()

    with db.write_session(engine) as session:
        report = deliver(session, transport=Then(memory, once(lambda: restart(server, how))), window=2)

    assert report == DeliveryReport(sent=3)
    assert fates(engine) == ALL_SENT
    assert len(memory.messages) == 3


@pytest.mark.slow
def test_settlement_survives_a_crash_right_after_it(
    fallible: tuple[real_servers.Server, Engine],
    deliver: Callable[..., DeliveryReport],
) -> None:
    server, engine = fallible
    memory = MemoryTransport()

    with db.write_session(engine) as session, pytest.raises(OperationalError):
        deliver(
            session, transport=memory, window=1,
            progress=lambda done: restart(server, signal.SIGQUIT) if done == 1 else None,
        )  # fmt: skip

    assert fates(engine) == [("sent", 1, 0, 1), ("queued", 0, 0, 0), ("queued", 0, 0, 0)]
    with db.write_session(engine) as session:
        assert deliver(session, transport=memory) == DeliveryReport(sent=2)
    assert sorted(message.recipient for message in memory.messages) == READERS


@pytest.mark.slow
def test_settlement_survives_a_crash_that_the_worker_does_not_notice(
    fallible: tuple[real_servers.Server, Engine],
    deliver: Callable[..., DeliveryReport],
) -> None:
    server, engine = fallible

    def crash_and_recover(done: int) -> None:
        if done == 1:
            server.end(signal.SIGQUIT)
            server.start()

    with db.write_session(engine) as session:
        report = deliver(
            session, transport=MemoryTransport(), window=1, limits=COUNTED, progress=crash_and_recover
        )

    assert report == DeliveryReport(sent=3)
    assert fates(engine) == ALL_SENT


@pytest.mark.slow
def test_settlement_survives_a_crash_after_an_intent_that_found_no_letter(
    fallible: tuple[real_servers.Server, Engine],
    deliver: Callable[..., DeliveryReport],
) -> None:
    server, engine = fallible

    def lose_the_rest_and_crash(done: int) -> None:
        if done == 1:
            take_over_the_rest(engine)
        else:
            restart(server, signal.SIGQUIT)

    with db.write_session(engine) as session, pytest.raises(OperationalError):
        deliver(session, transport=Refusing(), window=1, progress=lose_the_rest_and_crash)

    assert fates(engine)[0] == ("failed", 1, 0, 1)


def take_over_the_rest(engine: Engine) -> None:
    """Queue the letters again that are not sent, by a commit that does not wait for the disk."""
    with db.write_session(engine) as session:
        db.commit_asynchronously(session)
        session.execute(update(Delivery).where(Delivery.state == "claimed").values(lease="another's"))
        session.commit()


# ── the reply to a commit is lost ───────────────────────────────────────────────────────────────


@dataclass
class Lossy:
    """An engine whose next commit, if it is armed, succeeds while its reply is lost."""

    engine: Engine
    is_armed: bool = False

    def arm(self) -> None:
        self.is_armed = True

    def fires(self) -> bool:
        was, self.is_armed = self.is_armed, False
        return was


@pytest.fixture
def lossy(engine: Engine) -> Iterator[Lossy]:
    """An engine on a connection that breaks.

    On SQLite, which has no connection, the commit is followed by an error.
    """
    if engine.dialect.name == "sqlite":
        made = Lossy(engine)

        class Unlucky(sqlite3.Connection):
            def commit(self) -> None:
                super().commit()
                if made.fires():
                    raise sqlite3.OperationalError("disk I/O error")

        event.listen(engine, "do_connect", lambda *event_args: event_args[3].update(factory=Unlucky))
        yield made
        return
    with socket.create_server(("127.0.0.1", 0)) as listener:
        between = engine.url.set(port=listener.getsockname()[1])
        made = Lossy(db.make_engine(between.render_as_string(hide_password=False)))
        there = (str(engine.url.host), int(engine.url.port or 5432))
        threading.Thread(target=let_through, args=(listener, there, made), daemon=True).start()
        yield made
        made.engine.dispose()
        listener.shutdown(socket.SHUT_RDWR)  # which ends its thread, too


def let_through(listener: socket.socket, there: tuple[str, int], made: Lossy) -> None:
    """Relay connections to a database, until the listener is closed."""
    with suppress(OSError):
        while True:
            near, _ = listener.accept()
            threading.Thread(target=carry, args=(near, socket.create_connection(there), made)).start()


def carry(near: socket.socket, far: socket.socket, made: Lossy) -> None:
    """Relay statements and replies; in place of the reply to an armed COMMIT, close the connection."""
    is_deaf = False
    with near, far, suppress(OSError):
        while True:
            for end in select.select([near, far], [], [])[0]:
                data = end.recv(65536)
                if not data or (is_deaf and end is far):
                    return
                is_deaf = is_deaf or (end is near and b"COMMIT" in data and made.fires())
                (far if end is near else near).sendall(data)


def test_settlement_with_a_lost_commit_reply_is_not_written_twice(
    lossy: Lossy, engine: Engine, site: Site, now: datetime, deliver: Callable[..., DeliveryReport]
) -> None:
    write(engine, site, now)

    with db.write_session(lossy.engine) as session:
        report = deliver(session, transport=Then(Moody(), lossy.arm))

    assert not lossy.is_armed
    assert report == DeliveryReport(sent=1, failed=1, deferred=1)
    assert fates(engine) == [("sent", 1, 0, 1), ("failed", 1, 0, 1), ("queued", 1, 0, 1)]
    with db.read_session(engine) as session:
        assert len(session.scalars(sqlalchemy.select(BounceRow)).all()) == 1


def test_settlement_that_no_server_began_gives_tokens_back_once_although_its_reply_is_lost(
    lossy: Lossy, engine: Engine, site: Site, now: datetime, deliver: Callable[..., DeliveryReport]
) -> None:
    rules = SendLimits(rates=limit_rules.parse_rates("9/day"))
    write(engine, site, now)
    with db.write_session(engine) as session:
        deliver(session, transport=MemoryTransport(), limits=rules, limit=1)

    with db.write_session(lossy.engine) as session:
        report = deliver(session, transport=Then(AbsentServer(), lossy.arm), limits=rules)

    assert not lossy.is_armed
    assert report == DeliveryReport(deferred=2)
    with db.read_session(engine) as session:
        assert session.scalars(sqlalchemy.select(sqlalchemy.func.sum(RateCounter.used))).one() == 1


@pytest.mark.parametrize("lost", ["claim", "intent"])
def test_intent_with_a_lost_commit_reply_leaves_no_doubt_and_no_delay(
    lossy: Lossy, engine: Engine, site: Site, now: datetime, deliver: Callable[..., DeliveryReport], lost: str
) -> None:
    write(engine, site, now)
    memory, looks = MemoryTransport(), ["claim", "intent"]  # the clock is read before each of them
    options = {
        "transport": memory,
        "lane": Lane.BULK,
        "limits": SendLimits(
            rates=limit_rules.parse_rates("3/day, 2/s"),
            conversation_limits=limit_rules.parse_conversation_limits("1 at once"),
            warm_up=warm_up.parse_warm_up("2026-11-20: 3", "UTC"),
        ),
    }

    def clock() -> datetime:
        if looks and looks.pop(0) == lost:
            lossy.arm()
        return now

    with db.write_session(lossy.engine) as session, pytest.raises(OperationalError):
        deliver(session, clock=clock, **options)

    assert not lossy.is_armed
    assert memory.messages == []
    assert fates(engine) == [("queued", 0, 0, 0)] * 3
    with db.write_session(engine) as session:
        assert deliver(session, **options) == DeliveryReport(sent=3)
    assert fates(engine) == ALL_SENT


# ── an outage that lasts too long ───────────────────────────────────────────────────────────────


@pytest.mark.parametrize("because", ["stopped", "time is up", "lease ends"])
def test_worker_gives_up_before_its_lease_ends_and_the_window_is_in_doubt(
    sqlite_engine: Engine,
    site: Site,
    now: datetime,
    deliver: Callable[..., DeliveryReport],
    because: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    engine, held, memory = sqlite_engine, locked(sqlite_engine), MemoryTransport()
    impatient(engine)
    write(engine, site, now)
    if because == "time is up":
        monkeypatch.setattr(database_retries, "MAX_RETRY_TIME", timedelta(seconds=0.5))
    if because == "lease ends":
        monkeypatch.setattr(transitions, "LEASE", timedelta(seconds=2))

    with db.write_session(engine) as session, pytest.raises(OperationalError, match="locked"):
        deliver(
            session, transport=Then(memory, once(held.__enter__)),
            is_stopping=lambda: because == "stopped" and bool(memory.messages),
        )  # fmt: skip
    held.__exit__(None, None, None)

    assert fates(engine) == [("sending", 1, 0, 0)] * 3
    with db.write_session(engine) as session:
        again = deliver(session, transport=memory, clock=lambda: now + LEASE)
    assert again == DeliveryReport(sent=3)
    assert fates(engine) == [("sent", 2, 1, 2)] * 3
    assert len({message.content for message in memory.messages}) == 3
