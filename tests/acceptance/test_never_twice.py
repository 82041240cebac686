"""Simulate months of random events, and check that the promises of the product hold.

Dumps arrive, papers merge, readers change hour, zone, cadence and topics, pause and unsubscribe;
digests are sent, fail, expire or stay in doubt; the clock jumps over nights in which clocks change.
"""

from __future__ import annotations

import shutil
import tempfile
from datetime import UTC, datetime, time, timedelta
from pathlib import Path

from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from sqlalchemy import select

from digest import db
from digest.db.tables.deliveries import Delivery, DeliveryState, FollowupSent, Shown
from digest.db.tables.papers import PaperRow
from digest.db.tables.subscribers import Subscriber, SubscriberState
from digest.delivery import shown
from digest.delivery.outbox.planned_letters import NothingTodayLetter
from digest.editions.compose import Digest
from digest.editions.schedule import Cadence, Schedule
from digest.letters.templates import Templates
from digest.papers.catalog import queries
from digest.papers.paper_record import Announcement, Record
from digest.publishing.publication import Publication
from digest.publishing.why.explain_paper import why
from digest.publishing.why.question import WhyCause
from digest.settings import templates_dir
from digest.site.site_profile import Site
from digest.subscribers import pauses, subscriber_rows, undo_changes
from digest.subscribers.reader_settings import ReaderSettings
from tests.support.publishing_world import PublishingWorld
from tests.support.schedule_texts import schedule_texts
from tests.support.shared_caches import CACHES

SITE = Site(keys=(b"key",), pepper=b"pepper")
WORDS = ("graph", "proof", "robot", "flow")
TOPICS: dict[str, dict[str, str]] = {
    "none": {},
    "one": {"Graphs": "graph"},
    "two": {"Proofs": "proof*", "Graphs or robots": "graph OR robot"},
    "all": {word.title(): word for word in WORDS},
}
ZONES = ("UTC", "Europe/Oslo", "America/New_York", "Asia/Tokyo", "Pacific/Kiritimati", "America/Havana")
READERS = ("alice@example.org", "dora@example.org", "emil@example.org")
NEWS_FOR = timedelta(days=36)  #: for which a paper is news (docs/privacy.md)
OPEN = (DeliveryState.QUEUED, DeliveryState.CLAIMED, DeliveryState.SENDING)

SCHEDULES = st.builds(
    Schedule,
    cadence=st.sampled_from(Cadence),
    at=st.sampled_from([time(0), time(2, 30), time(8), time(23, 30)]),
    timezone=st.sampled_from(ZONES),
    weekday=st.integers(0, 6),
)


class SimulatedService(RuleBasedStateMachine):
    """A service, and what its readers have certainly or possibly seen."""

    @initialize(start=st.sampled_from(["2026-03-25T05:00", "2026-10-21T05:00", "2026-11-20T05:00"]))
    def open(self, start: str) -> None:
        self.folder = tempfile.TemporaryDirectory()
        path = Path(self.folder.name) / "service.sqlite3"
        shutil.copyfile(MIGRATED(), path)
        self.now = datetime.fromisoformat(start).replace(tzinfo=UTC)
        self.world = PublishingWorld(
            engine=db.make_engine(f"sqlite:///{path}"), site=SITE, templates=TEMPLATES()
        )
        self.titles: list[str] = []
        self.seen: dict[int, set[int]] = {}
        self.told: dict[int, set[tuple[str, str]]] = {}
        self.known = 0  #: deliveries checked so far
        for email in READERS:
            self.world.subscribe(email, TOPICS["two"], now=self.clock, max_papers=3)
        self.greedy: dict[str, datetime] = {}  #: since when
        self.a_reader_of_everything_subscribes()

    @property
    def clock(self) -> str:
        """Return the current moment in the form that the world reads."""
        return self.now.strftime("%Y-%m-%dT%H:%M")

    @property
    def everybody(self) -> tuple[str, ...]:
        return (*READERS, *self.greedy)

    def teardown(self) -> None:
        if hasattr(self, "world"):
            self.world.engine.dispose()
            self.folder.cleanup()

    # ── events ──────────────────────────────────────────────────────────────────────────────────

    @rule(hours=st.integers(1, 30))
    def time_passes(self, hours: int) -> None:
        self.now += timedelta(hours=hours)

    @rule(
        words=st.lists(st.sampled_from(WORDS), min_size=1, max_size=6),
        is_dated=st.booleans(),
        votes=st.integers(0, 90),
        again=st.integers(0, 3),
    )
    def a_dump_arrives(self, words: list[str], is_dated: bool, votes: int, again: int) -> None:
        fresh = [f"The {word} number {len(self.titles) + n}" for n, word in enumerate(words)]
        listed = fresh + self.titles[-again:] if again else fresh
        self.titles += fresh
        seen = self.now.replace(hour=0) if is_dated else self.now
        records = [
            Record(
                title=title,
                ids={"arxiv": f"2611.{self.number(title):05}"},
                signals={"upvotes": votes + place},
            )
            for place, title in enumerate(dict.fromkeys(listed))
        ]
        self.world.dump(seen.strftime("%Y-%m-%dT%H:%M"), records)

    def number(self, title: str) -> int:
        return int(title.rpartition(" ")[2])

    @rule(days=st.integers(1, 4))
    def publishing_stops_for_days(self, days: int) -> None:
        """Skip publishing for days while dumps arrive and a reader subscribes."""
        if len(self.greedy) < 4:
            self.a_reader_of_everything_subscribes()
        for _ in range(days):
            self.time_passes(24)
            self.a_dump_arrives(["graph"], is_dated=False, votes=0, again=0)

    @precondition(lambda self: self.titles)
    @rule(place=st.integers(0, 30), is_withdrawn=st.booleans(), is_history=st.booleans())
    def a_paper_changes(self, place: int, is_withdrawn: bool, is_history: bool) -> None:
        title = self.titles[-1 - place % len(self.titles)]
        ids = {"arxiv": f"2611.{self.number(title):05}"}
        withdrawn = Record(title=title, ids=ids, announcement=Announcement.WITHDRAWN)
        published = Record(title=title, ids=ids, journal="J. Months")
        self.world.dump(self.clock, [withdrawn if is_withdrawn else published], is_history=is_history)

    @invariant()
    def updates_are_sent_only_of_papers_that_arrived_before(self) -> None:
        if not hasattr(self, "world"):
            return
        with db.read_session(self.world.engine) as session:
            told = set(session.execute(select(FollowupSent.subscriber_id, FollowupSent.paper_id)).all())
            arrived = (
                select(Shown.subscriber_id, Shown.paper_id)
                .join(Delivery, Delivery.id == Shown.delivery_id)
                .where(Delivery.state == DeliveryState.SENT)
            )
            assert told <= set(session.execute(arrived).all())

    @precondition(lambda self: len(self.titles) > 1)
    @rule(chance=st.randoms(use_true_random=False))
    def two_papers_merge(self, chance: object) -> None:
        one, two = chance.sample(self.titles, 2)  # type: ignore[attr-defined]
        doi = f"10.5555/{self.number(one)}-{self.number(two)}"
        for title in (one, two):
            tie = Record(title=title, ids={"arxiv": f"2611.{self.number(title):05}", "doi": doi})
            self.world.dump(self.clock, [tie])

    @precondition(lambda self: len(self.greedy) < 4)
    @rule()
    def a_reader_of_everything_subscribes(self) -> None:
        """Add a daily reader with the largest digest, who never pauses or unsubscribes."""
        email = f"greedy-{len(self.greedy)}@example.org"
        self.world.subscribe(email, now=self.clock, max_papers=50)
        self.greedy[email] = self.now

    @rule(email=st.sampled_from(READERS), schedule=SCHEDULES)
    def a_reader_changes_the_schedule(self, email: str, schedule: Schedule) -> None:
        with db.write_session(self.world.engine) as session:
            given = ReaderSettings(texts=schedule_texts(schedule))
            undo_changes.edit(session, subscriber_rows.get(session, email), given, now=self.now)
            session.commit()

    @rule(email=st.sampled_from(READERS), topics=st.sampled_from(sorted(TOPICS)))
    def a_reader_changes_the_topics(self, email: str, topics: str) -> None:
        with db.write_session(self.world.engine) as session:
            reader = subscriber_rows.get(session, email)
            undo_changes.edit(session, reader, ReaderSettings(topics=TOPICS[topics]), now=self.now)
            session.commit()

    @rule(email=st.sampled_from(READERS), most=st.integers(1, 5))
    def a_reader_changes_the_number_of_papers(self, email: str, most: int) -> None:
        self.world.change(email, max_papers=most)

    @rule(email=st.sampled_from(READERS), wants=st.booleans())
    def a_reader_asks_for_nothing_today_letters(self, email: str, wants: bool) -> None:
        self.world.change(email, wants_nothing_today_letters=wants)

    @invariant()
    def a_nothing_today_letter_belongs_to_an_empty_edition(self) -> None:
        if not hasattr(self, "world"):
            return
        with db.read_session(self.world.engine) as session:
            keys = session.scalars(
                select(Delivery.dedupe_key).where(Delivery.letter == "nothing_today")
            ).all()
            empty = session.execute(
                select(Delivery.subscriber_id, Delivery.edition).where(Delivery.state == DeliveryState.EMPTY)
            )
            assert set(keys) <= {
                NothingTodayLetter(subscriber_id=row[0] or 0, edition=row[1] or "").key for row in empty
            }

    @invariant()
    def an_open_delivery_is_not_settled(self) -> None:
        if not hasattr(self, "world"):
            return
        with db.read_session(self.world.engine) as session:
            found = session.execute(select(Delivery.state, Delivery.settled_at)).all()
            assert all((state in OPEN) == (settled_at is None) for state, settled_at in found)

    @rule(email=st.sampled_from(READERS), days=st.integers(1, 9))
    def a_reader_pauses(self, email: str, days: int) -> None:
        with db.write_session(self.world.engine) as session:
            until = (self.now + timedelta(days=days, hours=26)).date()
            pauses.pause(session, subscriber_rows.get(session, email), until, self.now)
            session.commit()

    @rule(email=st.sampled_from(READERS))
    def a_reader_resumes(self, email: str) -> None:
        with db.write_session(self.world.engine) as session:
            reader = subscriber_rows.get(session, email)
            pauses.resume(session, reader, self.now)
            if reader.state is SubscriberState.UNSUBSCRIBED:
                reader.state, reader.next_due_at = SubscriberState.ACTIVE, None
            session.commit()

    @rule(email=st.sampled_from(READERS))
    def a_reader_unsubscribes(self, email: str) -> None:
        self.world.change(email, state=SubscriberState.UNSUBSCRIBED)

    @rule()
    def every_due_digest_is_published(self) -> None:
        previews = self.previews()
        self.world.publish(self.clock)
        self.check_new_digests(previews)

    @precondition(lambda self: self.known > 0)
    @rule(
        state=st.sampled_from([DeliveryState.SENT, DeliveryState.SENT, *shown.UNACCEPTED_STATES]),
        in_doubt=st.integers(0, 1),
        newest_first=st.booleans(),
    )
    def a_digest_ends(self, state: DeliveryState, in_doubt: int, newest_first: bool) -> None:
        with db.write_session(self.world.engine) as session:
            order = Delivery.id.desc() if newest_first else Delivery.id
            delivery = session.scalar(
                select(Delivery).where(Delivery.state.in_(OPEN)).order_by(order).limit(1)
            )
            if delivery is None:
                return
            delivery.state, delivery.in_doubt, delivery.settled_at = state, in_doubt, self.now
            session.flush()
            shown.release(session, [delivery.id])
            if state in shown.UNACCEPTED_STATES and not in_doubt:
                digest = Digest.from_json(delivery.decision)
                self.seen[delivery.subscriber_id or 0] -= set(digest.papers)
                self.told[delivery.subscriber_id or 0] -= self.news(digest)
            session.commit()

    # ── promises ────────────────────────────────────────────────────────────────────────────────

    def previews(self) -> dict[str, Digest]:
        """Return the preview of every due digest."""
        return {email: self.world.preview(email, self.clock).digest for email in self.everybody}

    def check_new_digests(self, previews: dict[str, Digest]) -> None:
        with db.read_session(self.world.engine) as session:
            new = session.execute(
                select(Delivery, Subscriber)
                .join(Subscriber, Subscriber.id == Delivery.subscriber_id)
                .where(Delivery.id > self.known)
                .order_by(Delivery.id)
            ).all()
            for delivery, reader in new:
                self.known = delivery.id
                if delivery.state == DeliveryState.EXPIRED:
                    assert delivery.expires_at <= self.now
                    continue
                digest = Digest.from_json(delivery.decision)
                assert reader.state == SubscriberState.ACTIVE
                assert delivery.due_at <= self.now < delivery.expires_at  # never stale
                assert len(digest.papers) == len(set(digest.papers)) <= reader.max_papers
                assert digest == previews[reader.email]  # the same answer everywhere
                assert not self.news(digest) & self.told.setdefault(reader.id, set())  # no update twice
                self.told[reader.id] |= self.news(digest)
                seen = self.seen.setdefault(reader.id, set())
                assert not self.merged(session, digest.papers) & self.merged(session, seen)  # never twice
                seen |= set(digest.papers)

    def news(self, digest: Digest) -> set[tuple[str, str]]:
        """Return the updates in a digest."""
        return {(one.title, one.kind) for one in digest.news}

    def merged(self, session: object, papers: object) -> set[int]:
        """Return these papers with merged ids resolved."""
        into = queries.resolve(session, list(papers))  # type: ignore[arg-type,call-overload]
        return {into.get(paper, paper) for paper in papers}  # type: ignore[attr-defined]

    @invariant()
    def shown_papers_are_those_that_may_have_been_seen(self) -> None:
        if not hasattr(self, "world"):
            return
        with db.read_session(self.world.engine) as session:
            for subscriber_id, papers in self.seen.items():
                kept = set(
                    session.scalars(select(Shown.paper_id).where(Shown.subscriber_id == subscriber_id))
                )
                assert self.merged(session, papers) <= kept

    @rule()
    def every_paper_is_accounted_for(self) -> None:
        with db.read_session(self.world.engine) as session:
            shown = set(session.execute(select(Shown.subscriber_id, Shown.paper_id)).all())
            papers = session.scalars(select(PaperRow.id).where(PaperRow.merged_into.is_(None))).all()
            for email in self.everybody:
                reader = subscriber_rows.get(session, email)
                for paper in papers[-12:]:
                    answer = why(
                        Publication(session, site=SITE, templates=TEMPLATES(), caches=CACHES, now=self.now),
                        email=email,
                        reference=str(paper),
                    )
                    assert (answer.json["cause"] == WhyCause.SHOWN) == ((reader.id, paper) in shown)

    @rule(days=st.integers(1, 4))
    def a_reader_of_everything_gets_everything(self, days: int) -> None:
        """Check that the reader of everything got every paper that is news, also after days without publishing."""
        self.now = (self.now + timedelta(days=days)).replace(hour=9)
        self.every_due_digest_is_published()
        oldest = self.now.replace(hour=0) - NEWS_FOR
        with db.read_session(self.world.engine) as session:
            for email, came in self.greedy.items():
                greedy = subscriber_rows.get(session, email)
                shown = set(session.scalars(select(Shown.paper_id).where(Shown.subscriber_id == greedy.id)))
                news = select(PaperRow.id).where(
                    PaperRow.merged_into.is_(None),
                    PaperRow.announcement != Announcement.WITHDRAWN,
                    PaperRow.first_seen_at > came,
                    PaperRow.first_seen_at >= oldest,
                    PaperRow.first_seen_at <= self.now,
                )
                assert set(session.scalars(news)) <= shown


class Once:
    """A value that is made on first use."""

    def __init__(self, make):
        self.make, self.made = make, None

    def __call__(self):
        self.made = self.made or self.make()
        return self.made


def migrated() -> Path:
    path = Path(tempfile.mkdtemp()) / "migrated.sqlite3"
    engine = db.make_engine(f"sqlite:///{path}")
    db.upgrade(engine)
    engine.dispose()
    return path


MIGRATED = Once(migrated)
TEMPLATES = Once(lambda: Templates(templates_dir()))

TestSimulatedService = SimulatedService.TestCase
TestSimulatedService.settings = settings(
    max_examples=settings().max_examples // 4,  # each of them is a long story
    stateful_step_count=40,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
)
