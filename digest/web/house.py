"""What every page needs: who we are, the database, the templates, the clock."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from urllib.parse import urlsplit

from sqlalchemy import Engine
from starlette.requests import Request

from digest import db
from digest.links import Site
from digest.rendering import Templates
from digest.settings import Settings, templates_dir
from digest.web.limits import Limits

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
    kept: dict[str, tuple[object, object]] = field(default_factory=dict)  #: pages made once: (of what, page)

    @property
    def shows_outbox(self) -> bool:
        """Return whether mails may be looked at here: all of them stay in a folder on this machine."""
        return urlsplit(self.settings.mail).scheme == "maildir" and self.site.is_local


def opened(settings: Settings, clock: Clock = wall_clock) -> House:
    """Open the house, its schema made or checked."""
    engine = db.connect(settings.database)
    db.ensure(engine)
    return House(
        settings=settings,
        site=settings.site(),
        engine=engine,
        templates=Templates(templates_dir()),
        clock=clock,
    )


def of(request: Request) -> House:
    """Return the house a request came to."""
    house: House = request.app.state.house
    return house
