"""Open the app context of an entry point: settings, database, site, templates, mail, clock and caches."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from threading import get_ident
from typing import TYPE_CHECKING, Any

from sqlalchemy import Engine
from sqlalchemy.orm import Session

from digest import __version__, db
from digest.delivery.transports.open_transport import open_transport
from digest.delivery.transports.transport import Transport
from digest.mail import dns_records
from digest.papers.public_view import PublicRules
from digest.process import key_fingerprints
from digest.process.caches import Caches
from digest.settings import Settings
from digest.site.site_profile import Site

if TYPE_CHECKING:
    from digest.delivery.delivery_run import DeliveryReport
    from digest.dumps.sources.polling import PollContext
    from digest.letters.dkim_signing import Signer
    from digest.letters.dkim_verification import Lookup
    from digest.letters.templates import Templates
    from digest.publishing.publication import Publication

Clock = Callable[[], datetime]

MAX_TRANSPORTS = 64  #: maximum number of cached transports; each sending thread needs one


def wall_clock() -> datetime:
    """Return the current time in UTC."""
    return datetime.now(UTC)


@dataclass(frozen=True, kw_only=True)
class AppContext:
    """The settings and resources of an entry point."""

    settings: Settings
    engine: Engine
    site: Site
    clock: Clock = wall_clock
    lookup: Lookup = dns_records.txt_records  #: the function that looks up DKIM keys
    caches: Caches = field(default_factory=Caches)

    @property
    def templates(self) -> Templates:
        """Return the templates, read on first use."""
        return self.caches.get_or_make("templates", self.settings.template_overrides, self.settings.templates)

    def publication(self, session: Session, now: datetime) -> Publication:
        """Return what the digests of this moment are made from."""
        from digest.publishing.publication import Publication

        return Publication(session, site=self.site, templates=self.templates, caches=self.caches, now=now)

    def deliver(self, session: Session, *, clock: Clock, **options: Any) -> DeliveryReport:
        """Deliver due letters with this transport and these limits; the options are those of `delivery_run.deliver`."""
        from digest.delivery import delivery_run

        with self.open_transport() as transport:
            return delivery_run.deliver(
                session,
                site=self.site,
                templates=self.templates,
                caches=self.caches,
                transport=transport,
                clock=clock,
                signers=self.signers,
                limits=self.settings.limits,
                window=self.settings.window,
                **options,
            )

    @cached_property
    def public_rules(self) -> PublicRules:
        """Return the rules for showing the papers of each source on pages and in feeds."""
        return PublicRules(self.settings.public.parts, is_local=self.site.is_local)

    @cached_property
    def signers(self) -> tuple[Signer, ...]:
        """Return the DKIM signers; without a key there are none, and only the relay may sign letters."""
        if not self.settings.dkim_keys:
            return ()
        from digest.letters import dkim_signing  # imports cryptography, which few commands need

        return dkim_signing.load_signers(
            {key.selector: key.pem for key in self.settings.dkim_keys},
            domain=self.site.domain,
            unsigned=self.settings.mail.rewritten_headers,
        )

    def read_session(self) -> AbstractContextManager[Session]:
        """Open a session that only reads."""
        return db.read_session(self.engine)

    def write_session(self) -> AbstractContextManager[Session]:
        """Open a session that a use case commits."""
        return db.write_session(self.engine)

    @contextmanager
    def open_transport(self) -> Iterator[Transport]:
        """Yield the mail transport of this thread, and close its connections afterwards.

        A thread always gets the same transport, because the transport stores which server is next and which
        are down.
        """
        transport = self.caches.get_or_make(
            "transport",
            (self.settings.mail, self.site, get_ident()),
            lambda: open_transport(self.settings.mail, site=self.site),
            bound=MAX_TRANSPORTS,
        )
        try:
            yield transport
        finally:
            transport.close()

    def poll_context(self, session: Session, now: datetime) -> PollContext:
        """Return the context for polling sources: session, fetcher, folder and clock."""
        from digest.dumps.sources import polling  # imports TLS and XML, which few commands need

        return polling.PollContext(
            session=session,
            fetcher=polling.fetcher_of(self.site, __version__),
            folder=self.settings.data_dir / "sources",
            now=now,
            clock=self.clock,
            incomplete_ok=self.settings.sends_short_dumps,
        )

    def check_setup(self, *, renders: bool = True) -> None:
        """Raise SetupMismatch unless this machine has the same keys and templates as the other machines.

        For a process that renders no letters (`renders=False`), only the keys are checked.
        """
        with self.write_session() as session:
            own = self.templates.fingerprint
            known = key_fingerprints.stored_fingerprints(session).get(key_fingerprints.TEMPLATES, own)
            key_fingerprints.check_fingerprints(
                session, self.site, own if renders else known, now=self.clock()
            )


def open_context(
    settings: Settings, *, clock: Clock = wall_clock, caches: Caches | None = None
) -> AppContext:
    """Open the app context; create the schema if the database is empty.

    Raises SetupMismatch if the schema has another revision, and Unreachable if the database does not respond.
    """
    engine = db.make_engine(settings.database)
    db.ensure_schema(engine)
    return AppContext(
        settings=settings, engine=engine, site=settings.site(), clock=clock, caches=caches or Caches()
    )
