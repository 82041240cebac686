"""Define a database for publishing tests, in which dumps arrive, people subscribe and editions are published.

Catalog, publishing and delivery are the functions that the entry points call; only dump rows are written here.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta

from sqlalchemy import Engine, select, update

from digest import db
from digest.db.tables.deliveries import Delivery, Shown
from digest.db.tables.dumps import DumpRow, DumpState
from digest.db.tables.papers import PaperRow
from digest.db.tables.subscribers import Subscriber, SubscriberState
from digest.delivery import delivery_run
from digest.delivery.delivery_run import DeliveryReport
from digest.delivery.transports.memory import MemoryTransport
from digest.delivery.transports.transport import Transport
from digest.editions.compose import Digest
from digest.editions.schedule import Cadence, Schedule
from digest.letters.templates import Templates
from digest.papers.catalog import match_or_add_records, queries
from digest.papers.paper_record import Record
from digest.process.caches import Caches
from digest.publishing import digest_preview, publish_due
from digest.publishing.chunk_of_digests import PublishReport
from digest.publishing.digest_preview import Preview
from digest.publishing.publication import Publication
from digest.site.site_profile import Site
from digest.subscribers import subscriber_rows
from tests.support.schedule_texts import schedule_texts
from tests.support.shared_caches import CACHES


def at(text: str) -> datetime:
    """Return a moment in UTC: "20T08:00" is in November 2026, "11-27T08:00" in 2026; a year may be given, too."""
    day, _, clock = text.partition("T")
    year, month, number = (
        "2026-11-" + day if "-" not in day else "2026-" + day if len(day) == 5 else day
    ).split("-")
    return datetime.combine(
        date(int(year), int(month), int(number)), time.fromisoformat(clock or "00:00"), UTC
    )


@dataclass(kw_only=True)
class PublishingWorld:
    """A database with its site, and shortcuts for the events of a test."""

    engine: Engine
    site: Site
    templates: Templates
    caches: Caches = CACHES
    dumps: int = 0

    def dump(
        self,
        day: str,
        records: Iterable[Record | str],
        *,
        order: str = "none",
        is_history: bool = False,
    ) -> list[int]:
        """Load a dump observed at that moment, and return the papers' ids; a title alone makes a record."""
        self.dumps += 1
        seen = at(day)
        with db.write_session(self.engine) as session:
            dump = DumpRow(
                sha256=hashlib.sha256(str(self.dumps).encode()).hexdigest(), path=f"dump-{self.dumps}", order=order,
                state=DumpState.LOADED, is_history=is_history, observed_at=seen, read_at=seen, date=seen.date(),
            )  # fmt: skip
            session.add(dump)
            made = [
                Record(title=one, abstract=f"All about {one}.") if isinstance(one, str) else one
                for one in records
            ]
            match_or_add_records.add(session, made, dump=dump)
            session.commit()
        return [self.paper(record.title) for record in made]

    def paper(self, title: str) -> int:
        """Return the id of the paper of that title."""
        with db.read_session(self.engine) as session:
            return queries.find(session, title).id

    def titles(self, ids: Iterable[int]) -> list[str]:
        """Return the titles of these papers, in order."""
        with db.read_session(self.engine) as session:
            known = {row.id: row.title for row in session.execute(select(PaperRow.id, PaperRow.title))}
        return [known[number] for number in ids]

    def subscribe(
        self,
        email: str,
        topics: Mapping[str, str] | None = None,
        *,
        now: str = "20T00:00",
        cadence: Cadence = Cadence.DAILY,
        hour: str = "08:00",
        timezone: str = "UTC",
        weekday: int = 0,
        state: SubscriberState = SubscriberState.ACTIVE,
        **columns: object,
    ) -> int:
        """Add a subscriber as the operator does, and return their id."""
        schedule = Schedule(cadence=cadence, at=time.fromisoformat(hour), timezone=timezone, weekday=weekday)
        with db.write_session(self.engine) as session:
            subscriber = subscriber_rows.add(
                session, email, topics=topics or {}, texts=schedule_texts(schedule), state=state, consent="asked in person",
                now=at(now),
            )  # fmt: skip
            for name, value in columns.items():
                setattr(subscriber, name, value)
            session.commit()
            return subscriber.id

    def change(self, email: str, **columns: object) -> None:
        """Write columns of a subscriber."""
        with db.write_session(self.engine) as session:
            subscriber = subscriber_rows.get(session, email)
            for name, value in columns.items():
                setattr(subscriber, name, value)
            session.commit()

    def change_deliveries(self, **columns: object) -> None:
        """Write columns of all deliveries."""
        with db.write_session(self.engine) as session:
            session.execute(update(Delivery).values(**columns))
            session.commit()

    def publish(self, now: str) -> PublishReport:
        """Publish every due digest."""
        with db.write_session(self.engine) as session:
            return publish_due.publish(
                Publication(
                    session, site=self.site, templates=self.templates, caches=self.caches, now=at(now)
                )
            )

    def deliver(self, now: datetime, transport: Transport | None = None) -> DeliveryReport:
        """Deliver what is due, into memory unless a transport is given."""
        with db.write_session(self.engine) as session:
            return delivery_run.deliver(
                session,
                site=self.site,
                templates=self.templates,
                caches=self.caches,
                transport=transport or MemoryTransport(),
                clock=lambda: now,
            )

    def preview(self, email: str, now: str) -> Preview:
        """Preview one subscriber's digest."""
        with db.read_session(self.engine) as session:
            return digest_preview.preview(
                Publication(
                    session, site=self.site, templates=self.templates, caches=self.caches, now=at(now)
                ),
                email=email,
            )

    def deliveries(self, email: str | None = None) -> list[Delivery]:
        """Return the deliveries of digests, oldest first; with `email`, only those to this address."""
        with db.read_session(self.engine) as session:
            query = select(Delivery).where(Delivery.edition.is_not(None)).order_by(Delivery.id)
            if email is not None:
                query = query.where(Delivery.email == email)
            return list(session.scalars(query))

    def digest(self, email: str, edition: str | None = None) -> dict[str, list[str]]:
        """Return what a subscriber was shown in an edition, by default the latest, as {topic: titles}."""
        own = [one for one in self.deliveries(email) if edition in {None, one.edition}]
        decided = Digest.from_json(own[-1].decision)
        return {section.topic: self.titles(section.papers) for section in decided.sections}

    def subscriber(self, email: str) -> Subscriber:
        """Return the row of a subscriber."""
        with db.read_session(self.engine) as session:
            return subscriber_rows.get(session, email)

    def shown(self) -> list[tuple[int, int, int]]:
        """Return every `shown` row, as (subscriber, paper, delivery)."""
        with db.read_session(self.engine) as session:
            found = session.execute(select(Shown.subscriber_id, Shown.paper_id, Shown.delivery_id))
            return sorted((row[0], row[1], row[2]) for row in found)


def later(moment: str, **delta: float) -> str:
    """Return the moment plus `delta`, in the form that `at` reads."""
    return (at(moment) + timedelta(**delta)).strftime("%Y-%m-%dT%H:%M")
