"""Create engines from URLs, and configure and check their connections."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from time import monotonic
from typing import Any

from sqlalchemy import URL, Dialect, Engine, create_engine, event, make_url
from sqlalchemy.exc import ArgumentError, DisconnectionError
from sqlalchemy.pool import ConnectionPoolEntry

from digest.errors import BadField

logging.getLogger("psycopg").setLevel(logging.ERROR)  # it logs a warning for errors that it also raises

#: A server that vanishes, as in a power cut, is given up within a minute. By the system's own settings that takes
#: hours, in which letters that were sent are not recorded.
CONNECT_OPTIONS = {
    "connect_timeout": 5,
    "keepalives_idle": 30,
    "keepalives_interval": 10,
    "keepalives_count": 3,
    "tcp_user_timeout": 60_000,
}
DRIVERS = frozenset({"sqlite", "sqlite+pysqlite", "postgresql+psycopg"})  #: the drivers that are installed
PING_AFTER_SECONDS = 1.0  #: idle seconds after which a connection is tested before use


def make_engine(url: str) -> Engine:
    """Return an engine for `url` (SQLite or PostgreSQL), without connecting yet.

    SQLite runs in WAL with `synchronous=FULL`, since with NORMAL a power cut can take back a
    committed acknowledgement and cause a second mail (sqlite.org/pragma.html#pragma_synchronous).
    """
    parsed = parsed_url(url)
    if parsed.get_backend_name() == "sqlite":
        if parsed.database and parsed.database != ":memory:":
            Path(parsed.database).parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        engine = create_engine(parsed, connect_args={"timeout": 30, "check_same_thread": False})
        event.listen(engine, "do_connect", make_private)
        event.listen(engine, "connect", set_up_sqlite)
        event.listen(engine, "begin", begin_sqlite)
        return engine
    engine = create_engine(parsed, connect_args={"application_name": "digest", **CONNECT_OPTIONS})
    event.listen(engine, "connect", set_utc)
    event.listen(engine, "checkin", note_last_use)
    event.listen(engine, "checkout", ping_if_idle(engine.dialect))
    return engine


def parsed_url(url: str) -> URL:
    """Return the parts of a database URL, or raise BadField if it is invalid or unsupported."""
    try:
        parsed = make_url(with_driver(url))
        if parsed.drivername not in DRIVERS:
            raise ValueError(parsed.drivername)
    except (ArgumentError, ValueError):
        message = "write sqlite:////folder/file.sqlite3 or postgresql://user:password@host/name."
        raise BadField("database address", message) from None
    return parsed


def set_utc(connection: Any, _record: Any) -> None:
    """Set the session's time zone to UTC: with any other, `Etc/UTC` included, the driver reads moments half as fast.

    It is set here and not as a connection option, because some poolers refuse options.
    """
    connection.autocommit = True
    connection.execute("SET TIME ZONE 'UTC'")
    connection.autocommit = False


def note_last_use(_connection: Any, record: ConnectionPoolEntry) -> None:
    """Record when a connection was returned to the pool."""
    record.info["used_at"] = monotonic()


def ping_if_idle(dialect: Dialect) -> Callable[[Any, ConnectionPoolEntry, Any], None]:
    """Return a hook that tests a connection that was idle; the pool replaces one that is dead.

    A connection that was in use a moment ago is not tested: each window of letters takes two transactions,
    and the tests made a fifth of its round trips.
    """

    def ping(connection: Any, record: ConnectionPoolEntry, _proxy: Any) -> None:
        if monotonic() - record.info.get("used_at", monotonic()) < PING_AFTER_SECONDS:
            return
        try:
            dialect.do_ping(connection)
        except dialect.loaded_dbapi.Error as error:
            raise DisconnectionError from error

    return ping


def with_driver(url: str) -> str:
    """Return `url` with our driver, since hosting providers write `postgres://` and `postgresql://`."""
    for prefix in ("postgres://", "postgresql://"):
        if url.startswith(prefix):
            return "postgresql+psycopg://" + url.removeprefix(prefix)
    return url


def make_private(_dialect: Dialect, _record: Any, arguments: Sequence[Any], _options: Any) -> None:
    """Create a missing database file with mode 600; SQLite would make it readable for everybody.

    The files that SQLite puts beside it get the same mode. Errors are left for SQLite to report.

    A file that exists is never opened here: closing any descriptor of it would drop the locks that SQLite holds
    for this process (POSIX), and another process would then delete the log this one writes to.
    """
    path = str(arguments[0])
    if path and not path.startswith((":", "file:")):
        with suppress(OSError):
            os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))


def set_up_sqlite(connection: Any, _record: Any) -> None:
    """Configure a new SQLite connection; `begin_sqlite` begins transactions, not the driver."""
    connection.isolation_level = None
    cursor = connection.cursor()
    for pragma in (
        "journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON", "busy_timeout=30000", "secure_delete=ON",
        "cache_size=-16384",  # KiB: with the default of 2,000 a large dump writes each page of an index several times
    ):  # fmt: skip
        cursor.execute(f"PRAGMA {pragma}")
    cursor.close()


def begin_sqlite(connection: Any) -> None:
    """Begin a transaction; a writer takes the lock at once, or two readers that start to write would deadlock."""
    writing = connection.get_execution_options().get("writing", False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writing else "BEGIN")
