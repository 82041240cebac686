"""Create engines from URLs."""

from __future__ import annotations

import logging
import re
from pathlib import Path
from typing import Any
from urllib.parse import quote

from sqlalchemy import URL, Engine, create_engine, event, make_url
from sqlalchemy.exc import ArgumentError

from digest.db import sqlite
from digest.errors import BadField

logging.getLogger("psycopg").setLevel(logging.ERROR)  # psycopg logs warnings for errors that it also raises

#: If the server disappears, as in a power failure, its connections are closed within a minute. With the
#: defaults, they would stay open for hours, during which no outcome of a sent letter could be recorded.
CONNECT_OPTIONS = {
    "connect_timeout": 5,
    "keepalives_idle": 30,
    "keepalives_interval": 10,
    "keepalives_count": 3,
    "tcp_user_timeout": 60_000,
}
#: the drivers that a database URL may name
DRIVERS = frozenset({"sqlite", "sqlite+pysqlite", "postgresql+psycopg"})
HOST = r"[\w.-]+(?::\d+)?"
HOST_LIST = re.compile(
    rf"(?P<before>postgresql\+psycopg://(?>(?:[^@]*@)?))(?P<hosts>{HOST}(?:,{HOST})+)(?P<after>/.*)?"
)


def make_engine(url: str) -> Engine:
    """Return an engine for `url` (SQLite or PostgreSQL) without connecting."""
    parsed = parsed_url(url)
    if parsed.get_backend_name() == "sqlite":
        return sqlite.make_engine(parsed)
    engine = create_engine(
        parsed, connect_args={"application_name": "digest", **CONNECT_OPTIONS}, pool_pre_ping=True
    )
    event.listen(engine, "connect", set_utc)
    return engine


def set_utc(connection: Any, _record: Any) -> None:
    """Set the time zone of a session on PostgreSQL to UTC.

    With any other name of the zone, even `Etc/UTC`, the driver parses times half as fast. A connection option
    could also set the time zone, but some poolers refuse options.
    """
    connection.autocommit = True
    connection.execute("SET TIME ZONE 'UTC'")
    connection.autocommit = False


def open_read_only(path: Path) -> Engine:
    """Return an engine that reads an SQLite file without changing it."""
    return create_engine(
        URL.create("sqlite", database=f"file:{quote(str(path))}", query={"mode": "ro", "uri": "true"})
    )


def truncate_log(engine: Engine) -> bool:
    """Empty the write-ahead log if the database is a local file; return False if a reader prevents this."""
    return engine.dialect.name != "sqlite" or sqlite.truncate_log(engine)


def parsed_url(url: str) -> URL:
    """Return the parts of a database URL, or raise BadField if the URL is invalid or unsupported."""
    address, hosts = with_driver(url), list[str]()
    if found := HOST_LIST.fullmatch(address):
        address, hosts = f"{found['before']}{found['after']}", found["hosts"].split(",")
    try:
        parsed = make_url(address).update_query_dict({"host": hosts} if hosts else {})
        if parsed.drivername not in DRIVERS:
            raise ValueError(parsed.drivername)
    except (ArgumentError, ValueError):
        message = "write sqlite:////folder/file.sqlite3 or postgresql://user:password@host/name."
        raise BadField("database address", message) from None
    if isinstance(parsed.query.get("host"), tuple) and "target_session_attrs" not in parsed.query:
        return parsed.update_query_dict(
            {"target_session_attrs": "read-write"}
        )  # of several hosts, the primary
    return parsed


def with_driver(url: str) -> str:
    """Return `url` with the installed driver; the URLs of hosting providers may begin with `postgres://`."""
    for prefix in ("postgres://", "postgresql://"):
        if url.startswith(prefix):
            return "postgresql+psycopg://" + url.removeprefix(prefix)
    return url


def database_file(url: str) -> Path | None:
    """Return the file of an SQLite database; None for PostgreSQL, or for a database in memory."""
    parsed = parsed_url(url)
    is_file = parsed.get_backend_name() == "sqlite" and parsed.database not in {None, "", ":memory:"}
    return Path(str(parsed.database)) if is_file else None
