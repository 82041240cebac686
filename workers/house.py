"""What a task works with, opened once per process and only after the fork."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache, cached_property

from sqlalchemy import Engine
from sqlalchemy.orm import Session

from digest import db, fingerprints, transport
from digest.links import Site
from digest.rendering import Templates
from digest.settings import Settings, load, templates_dir
from digest.transport import Transport


@dataclass(frozen=True, kw_only=True)
class House:
    """The settings of this machine, and what follows from them."""

    settings: Settings
    engine: Engine
    site: Site

    @cached_property
    def templates(self) -> Templates:
        """Return the templates, read on first use."""
        return Templates(templates_dir())

    def writing(self) -> AbstractContextManager[Session]:
        """Open a session for a story."""
        return db.writing(self.engine)

    def reading(self) -> AbstractContextManager[Session]:
        """Open a session that only reads."""
        return db.reading(self.engine)

    @contextmanager
    def transport(self) -> Iterator[Transport]:
        """Open what takes our mail, and let go of it afterwards."""
        opened = transport.open(self.settings.mail, site=self.site)
        try:
            yield opened
        finally:
            opened.close()

    def check(self) -> None:
        """Raise Misfit unless this machine, the database and the other machines belong together."""
        db.ensure(self.engine)
        with self.writing() as session:
            fingerprints.check(session, self.site, self.templates.fingerprint, now=clock())
            session.commit()


@cache
def house() -> House:
    """Return the house of this process."""
    settings = load()
    return House(settings=settings, engine=db.connect(settings.database), site=settings.site())


def clock() -> datetime:
    """Return the moment it is."""
    return datetime.now(UTC)
