"""Create engines from URLs."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import quote

from sqlalchemy import URL, Engine, create_engine, make_url
from sqlalchemy.exc import ArgumentError

from digest.db.dialects import dialect_named
from digest.errors import BadField

#: the drivers that a database URL may name
DRIVERS = frozenset({"sqlite", "sqlite+pysqlite", "postgresql+psycopg"})
HOST = r"[\w.-]+(?::\d+)?"
HOST_LIST = re.compile(
    rf"(?P<before>postgresql\+psycopg://(?>(?:[^@]*@)?))(?P<hosts>{HOST}(?:,{HOST})+)(?P<after>/.*)?"
)


def make_engine(url: str) -> Engine:
    """Return an engine for `url` (SQLite or PostgreSQL) without connecting."""
    parsed = parsed_url(url)
    return dialect_named(parsed.get_backend_name()).make_engine(parsed)


def open_read_only(path: Path) -> Engine:
    """Return an engine that reads an SQLite file without changing it."""
    return create_engine(
        URL.create("sqlite", database=f"file:{quote(str(path))}", query={"mode": "ro", "uri": "true"})
    )


def truncate_log(engine: Engine) -> bool:
    """Empty the write-ahead log if the database is a local file; return False if a reader prevents this."""
    return dialect_named(engine.dialect.name).truncate_log(engine)


def parsed_url(url: str) -> URL:
    """Return the parts of a database URL, or raise BadField if the URL is invalid or unsupported."""
    address, hosts = without_hosts(with_driver(url))
    try:
        parsed = make_url(address).update_query_dict({"host": hosts} if hosts else {})
        if parsed.drivername not in DRIVERS:
            raise ValueError(parsed.drivername)
    except (ArgumentError, ValueError):
        message = "write sqlite:////folder/file.sqlite3 or postgresql://user:password@host/name."
        raise BadField("database address", message) from None
    return with_primary(parsed)


def without_hosts(url: str) -> tuple[str, list[str]]:
    """Split `user@one:5432,two:5432/name` into the URL without its hosts and the list of hosts.

    A URL with a single host is returned unchanged, with an empty list.
    """
    found = HOST_LIST.fullmatch(url)
    return (f"{found['before']}{found['after']}", found["hosts"].split(",")) if found else (url, [])


def with_primary(url: URL) -> URL:
    """Make a URL with several hosts connect to the primary, unless the URL sets `target_session_attrs`."""
    is_open = isinstance(url.query.get("host"), tuple) and "target_session_attrs" not in url.query
    return url.update_query_dict({"target_session_attrs": "read-write"}) if is_open else url


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
