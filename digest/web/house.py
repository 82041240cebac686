"""What every page needs: who we are, the database, the templates, the clock."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from threading import RLock
from typing import Any, TypeVar
from urllib.parse import urlsplit

from sqlalchemy import Engine
from starlette.requests import Request

from digest import db, fingerprints
from digest.links import Site
from digest.rendering import Templates
from digest.settings import Settings, templates_dir
from digest.web.limits import Limits

Thing = TypeVar("Thing")
Clock = Callable[[], datetime]


def wall_clock() -> datetime:
    """Return the moment it is."""
    return datetime.now(UTC)


@dataclass(frozen=True, kw_only=True)
class House:
    """Opened once, shared by all requests."""

    settings: Settings
    site: Site
    engine: Engine
    templates: Templates
    clock: Clock
    limits: Limits = field(default_factory=Limits)
    kept: dict[str, tuple[object, Any]] = field(default_factory=dict)  #: what was made once: (of what, it)
    making: RLock = field(default_factory=RLock)

    @property
    def shows_outbox(self) -> bool:
        """Return whether mails may be looked at here: all of them stay in a folder on this machine."""
        return urlsplit(self.settings.mail).scheme == "maildir" and self.site.is_local

    def once(self, name: str, key: object, make: Callable[[], Thing]) -> Thing:
        """Return what `make` makes, from memory as long as the key is the same; one thread makes it."""
        with self.making:
            if name not in self.kept or self.kept[name][0] != key:
                self.kept[name] = key, make()
            thing: Thing = self.kept[name][1]
            return thing


def opened(settings: Settings, clock: Clock = wall_clock) -> House:
    """Open the house, its schema made or checked; raise Misfit where this machine does not belong to it."""
    engine = db.connect(settings.database)
    db.ensure(engine)
    site, templates = settings.site(), Templates(templates_dir())
    with db.writing(engine) as session:
        fingerprints.check(session, site, templates.fingerprint, now=clock())
        session.commit()
    return House(settings=settings, site=site, engine=engine, templates=templates, clock=clock)


def of(request: Request) -> House:
    """Return the house a request came to."""
    house: House = request.app.state.house
    return house
