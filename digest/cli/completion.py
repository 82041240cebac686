"""Complete addresses, topics and dumps on the command line, from the database."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from digest.db import Session

MAX_CHOICES = 50


def emails(incomplete: str) -> list[str]:
    """Return the addresses of subscribers that begin with this text."""
    from digest.subscribers import subscriber_rows

    return choices(lambda session: subscriber_rows.emails_starting(session, incomplete, limit=MAX_CHOICES))


def topics(incomplete: str) -> list[str]:
    """Return the names of topics that begin with this text."""
    from digest.subscribers import subscriber_rows

    return choices(lambda session: subscriber_rows.topics_starting(session, incomplete, limit=MAX_CHOICES))


def packs(incomplete: str) -> list[str]:
    """Return the names of packs that begin with this text."""
    from digest.subscribers import stored_packs

    found = choices(lambda session: sorted(stored_packs.load_packs(session)))
    return [name for name in found if name.startswith(incomplete)]


def dumps(incomplete: str) -> list[str]:
    """Return the ids of the latest dumps that begin with this text."""
    from digest.monitoring.figures import latest_dumps

    found = choices(lambda session: [str(dump.id) for dump in latest_dumps(session)])
    return [number for number in found if number.startswith(incomplete)]


def choices(read: Callable[[Session], list[str]]) -> list[str]:
    """Return the values that `read` reads, or none after an error: completion must not print errors."""
    from digest import db
    from digest.errors import DigestError
    from digest.settings import load_settings

    try:
        url = load_settings().database
        file = db.database_file(url)
        if file is not None and not file.exists():
            return []
        with db.read_session(db.make_engine(url)) as session:
            return read(session)
    except (DigestError, db.SQLAlchemyError, OSError):
        return []
