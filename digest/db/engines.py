"""Engines: the database that a URL names, and how connections to it are made, kept and asked after."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from time import monotonic
from typing import Any

from sqlalchemy import Dialect, Engine, create_engine, event, make_url
from sqlalchemy.exc import DisconnectionError
from sqlalchemy.pool import ConnectionPoolEntry

logging.getLogger("psycopg").setLevel(logging.ERROR)  # it warns of what it raises as well

#: A server that is gone without a word, as after a power cut, is given up within a minute: a system's own
#: settings let us wait for hours, with letters out whose fate nobody has written down.
SILENCE = {
    "connect_timeout": 5,
    "keepalives_idle": 30,
    "keepalives_interval": 10,
    "keepalives_count": 3,
    "tcp_user_timeout": 60_000,
}
IDLE = 1.0  #: seconds after which a connection is asked whether it is still alive


def connect(url: str) -> Engine:
    """Return an engine for `url` (SQLite or PostgreSQL); nothing is opened yet.

    SQLite runs in WAL with `synchronous=FULL`, since with NORMAL a power cut can take back a
    committed acknowledgement and so cause a second mail (sqlite.org/pragma.html#pragma_synchronous).
    """
    parsed = make_url(normalised(url))
    if parsed.get_backend_name() == "sqlite":
        if parsed.database and parsed.database != ":memory:":
            Path(parsed.database).parent.mkdir(parents=True, exist_ok=True)
        engine = create_engine(parsed, connect_args={"timeout": 30, "check_same_thread": False})
        event.listen(engine, "connect", set_up_sqlite)
        event.listen(engine, "begin", begin_sqlite)
        return engine
    engine = create_engine(parsed, connect_args={"application_name": "digest", **SILENCE})
    event.listen(engine, "connect", tell_in_utc)
    event.listen(engine, "checkin", note_last_use)
    event.listen(engine, "checkout", asking_if_idle(engine.dialect))
    return engine


def tell_in_utc(connection: Any, _record: Any) -> None:
    """Let PostgreSQL tell moments in UTC: of any other zone, `Etc/UTC` included, the driver reads them half as fast.

    It is said here and not at the door, where some poolers take no options.
    """
    connection.autocommit = True
    connection.execute("SET TIME ZONE 'UTC'")
    connection.autocommit = False


def note_last_use(_connection: Any, record: ConnectionPoolEntry) -> None:
    """Note when a connection was given back to the pool."""
    record.info["used_at"] = monotonic()


def asking_if_idle(dialect: Dialect) -> Callable[[Any, ConnectionPoolEntry, Any], None]:
    """Return what asks a connection that lay idle whether it is alive; the pool replaces one that is not.

    One that was in use just now is not asked: each window of letters takes two transactions, and the
    questions made a fifth of its round trips.
    """

    def ask(connection: Any, record: ConnectionPoolEntry, _proxy: Any) -> None:
        if monotonic() - record.info.get("used_at", monotonic()) < IDLE:
            return
        try:
            dialect.do_ping(connection)
        except dialect.loaded_dbapi.Error as error:
            raise DisconnectionError from error

    return ask


def normalised(url: str) -> str:
    """Return `url` with the driver we ship: hosts hand out `postgres://` and `postgresql://`."""
    for prefix in ("postgres://", "postgresql://"):
        if url.startswith(prefix):
            return "postgresql+psycopg://" + url.removeprefix(prefix)
    return url


def set_up_sqlite(connection: Any, _record: Any) -> None:
    """Prepare a fresh SQLite connection; transactions are begun by `begin_sqlite`, not by the driver."""
    connection.isolation_level = None
    cursor = connection.cursor()
    for pragma in (
        "journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON", "busy_timeout=30000", "secure_delete=ON",
        "cache_size=-16384",  # KiB: with the usual 2,000 a large dump writes each page of an index several times
    ):  # fmt: skip
        cursor.execute(f"PRAGMA {pragma}")
    cursor.close()


def begin_sqlite(connection: Any) -> None:
    """Begin: a writer takes the lock at once, or two readers that turn writers would deadlock."""
    writing = connection.get_execution_options().get("writing", False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writing else "BEGIN")
