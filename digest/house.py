"""The house, opened by a door: the settings of this machine, and what follows from them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from threading import RLock, get_ident
from typing import TYPE_CHECKING, Any, TypeVar

from sqlalchemy import Engine
from sqlalchemy.orm import Session

from digest import __version__, db, fingerprints, transport
from digest.links import Site
from digest.rendering import Templates
from digest.settings import Settings, templates_dir
from digest.transport import Transport

if TYPE_CHECKING:
    from digest.rendering.dkim import Signer
    from digest.sources import Line

Thing = TypeVar("Thing")
Clock = Callable[[], datetime]


def wall_clock() -> datetime:
    """Return the moment it is."""
    return datetime.now(UTC)


class Memory:
    """What is dear to make and wanted again: kept as long as what it was made from stays the same."""

    def __init__(self) -> None:
        self.kept: dict[str, tuple[object, Any]] = {}
        self.making = RLock()

    def once(self, name: str, key: object, make: Callable[[], Thing]) -> Thing:
        """Return what `make` makes, from memory as long as the key is the same; one thread makes it."""
        with self.making:
            if name not in self.kept or self.kept[name][0] != key:
                self.kept[name] = key, make()
            thing: Thing = self.kept[name][1]
            return thing


@dataclass(frozen=True, kw_only=True)
class House:
    """What every door works with: who we are, the database, the templates, the mail, the clock."""

    settings: Settings
    engine: Engine
    site: Site
    clock: Clock = wall_clock
    memory: Memory = field(default_factory=Memory)

    @cached_property
    def templates(self) -> Templates:
        """Return the templates, read on first use."""
        return Templates(templates_dir(), self.settings.overrides)

    @cached_property
    def signers(self) -> tuple[Signer, ...]:
        """Return what signs our mail: none if no key is set, and the relay signs."""
        from digest.rendering import dkim  # its cryptography is for who signs

        if self.settings.dkim_key is None:
            return ()
        return dkim.ring(
            self.settings.dkim_key.get_secret_value(),
            self.settings.dkim_selector,
            domain=self.site.domain,
            unsigned=transport.rewritten(self.settings.mail),
        )

    def reading(self) -> AbstractContextManager[Session]:
        """Open a session that only reads."""
        return db.reading(self.engine)

    def writing(self) -> AbstractContextManager[Session]:
        """Open a session for a story."""
        return db.writing(self.engine)

    @contextmanager
    def transport(self) -> Iterator[Transport]:
        """Lend what takes our mail, and let go of its connections afterwards.

        A thread gets the same each time: it remembers whose turn it is, and which server does not answer.
        """
        ours, name = (self.settings.mail, self.site), f"transport of {get_ident()}"
        lent = self.memory.once(name, ours, lambda: transport.open(self.settings.mail, site=self.site))
        try:
            yield lent
        finally:
            lent.close()

    def line(self, session: Session, now: datetime) -> Line:
        """Return what polling works with here."""
        from digest import sources  # TLS and XML are for who fetches

        return sources.Line(
            session=session,
            fetcher=sources.fetcher_of(self.site, __version__),
            folder=self.settings.data_dir / "sources",
            now=now,
            clock=self.clock,
            incomplete_ok=self.settings.sends_short_dumps,
        )

    def check(self, *, renders: bool = True) -> None:
        """Raise Misfit unless this machine, the database and the other machines belong together.

        Who makes no letters (`renders=False`) needs the keys, but not the templates, of the others.
        """
        with self.writing() as session:
            ours = self.templates.fingerprint
            known = fingerprints.recorded(session).get(fingerprints.TEMPLATES, ours)
            fingerprints.check(session, self.site, ours if renders else known, now=self.clock())
            session.commit()


def opened(settings: Settings, *, clock: Clock = wall_clock) -> House:
    """Open the house; in an empty database its schema is made, another than ours raises Misfit."""
    engine = db.connect(settings.database)
    db.ensure(engine)
    return House(settings=settings, engine=engine, site=settings.site(), clock=clock)
