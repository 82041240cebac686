"""Months of a house in minutes: whatever happens in whatever order, the promises hold.

Dumps arrive, papers turn out to be one, people change hour, zone, cadence and topics, pause and leave;
digests are sent, fail, expire or stay in doubt; the clock jumps over nights in which clocks are changed.
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

from digest import catalog, db, showings, subscriptions
from digest import settings as house
from digest.composition import Digest
from digest.editions import Cadence, Schedule
from digest.links import Site
from digest.model import Delivery, DeliveryState, PaperRow, Shown, Subscriber, SubscriberState, Told
from digest.papers import Announcement, Record
from digest.rendering import Templates
from digest.why import Cause, why
from tests.newsroom import Newsroom

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
OPEN = (DeliveryState.QUEUED, DeliveryState.CLAIMED, DeliveryState.SENDING)

SCHEDULES = st.builds(
    Schedule,
    cadence=st.sampled_from(Cadence),
    at=st.sampled_from([time(0), time(2, 30), time(8), time(23, 30)]),
    timezone=st.sampled_from(ZONES),
    weekday=st.integers(0, 6),
    not_after=st.sampled_from([None, None, time(11)]),
)


class House(RuleBasedStateMachine):
    """A house, and what its readers have certainly or possibly seen."""

    @initialize(start=st.sampled_from(["2026-03-25T05:00", "2026-10-21T05:00", "2026-11-20T05:00"]))
    def open(self, start: str) -> None:
        self.folder = tempfile.TemporaryDirectory()
        path = Path(self.folder.name) / "house.sqlite3"
        shutil.copyfile(MIGRATED(), path)
        self.now = datetime.fromisoformat(start).replace(tzinfo=UTC)
        self.newsroom = Newsroom(engine=db.connect(f"sqlite:///{path}"), site=SITE, templates=TEMPLATES())
        self.titles: list[str] = []
        self.seen: dict[int, set[int]] = {}
        self.told: dict[int, set[tuple[str, str]]] = {}
        self.known = 0  #: deliveries checked so far
        for email in READERS:
            self.newsroom.subscribe(email, TOPICS["two"], now=self.clock, max_papers=3, max_per_topic=2)
        self.greedy: dict[str, datetime] = {}  #: since when
        self.somebody_who_wants_everything_comes()

    @property
    def clock(self) -> str:
        """Now, as the newsroom reads it."""
        return self.now.strftime("%Y-%m-%dT%H:%M")

    @property
    def everybody(self) -> tuple[str, ...]:
        return (*READERS, *self.greedy)

    def teardown(self) -> None:
        if hasattr(self, "newsroom"):
            self.newsroom.engine.dispose()
            self.folder.cleanup()

    # ── what happens ────────────────────────────────────────────────────────────────────────────

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
        self.newsroom.dump(seen.strftime("%Y-%m-%dT%H:%M"), records)

    def number(self, title: str) -> int:
        return int(title.rpartition(" ")[2])

    @rule(days=st.integers(1, 4))
    def nobody_publishes_for_days(self, days: int) -> None:
        """Dumps land all the same, and somebody comes on the first of those days."""
        if len(self.greedy) < 4:
            self.somebody_who_wants_everything_comes()
        for _ in range(days):
            self.time_passes(24)
            self.a_dump_arrives(["graph"], is_dated=False, votes=0, again=0)

    @precondition(lambda self: self.titles)
    @rule(place=st.integers(0, 30), is_withdrawn=st.booleans(), is_history=st.booleans())
    def something_becomes_of_a_paper(self, place: int, is_withdrawn: bool, is_history: bool) -> None:
        title = self.titles[-1 - place % len(self.titles)]
        ids = {"arxiv": f"2611.{self.number(title):05}"}
        withdrawn = Record(title=title, ids=ids, announcement=Announcement.WITHDRAWN)
        published = Record(title=title, ids=ids, journal="J. Months")
        self.newsroom.dump(self.clock, [withdrawn if is_withdrawn else published], is_history=is_history)

    @invariant()
    def news_are_told_only_of_papers_that_arrived_before(self) -> None:
        if not hasattr(self, "newsroom"):
            return
        with db.reading(self.newsroom.engine) as session:
            told = set(session.execute(select(Told.subscriber_id, Told.paper_id)).all())
            arrived = (
                select(Shown.subscriber_id, Shown.paper_id)
                .join(Delivery, Delivery.id == Shown.delivery_id)
                .where(Delivery.state == DeliveryState.SENT)
            )
            assert told <= set(session.execute(arrived).all())

    @precondition(lambda self: len(self.titles) > 1)
    @rule(chance=st.randoms(use_true_random=False))
    def two_papers_turn_out_to_be_one(self, chance: object) -> None:
        one, two = chance.sample(self.titles, 2)  # type: ignore[attr-defined]
        doi = f"10.5555/{self.number(one)}-{self.number(two)}"
        for title in (one, two):
            tie = Record(title=title, ids={"arxiv": f"2611.{self.number(title):05}", "doi": doi})
            self.newsroom.dump(self.clock, [tie])

    @precondition(lambda self: len(self.greedy) < 4)
    @rule()
    def somebody_who_wants_everything_comes(self) -> None:
        """Every day, and never goes away."""
        email = f"greedy-{len(self.greedy)}@example.org"
        self.newsroom.subscribe(email, now=self.clock, max_papers=100, max_per_topic=100)
        self.greedy[email] = self.now

    @rule(email=st.sampled_from(READERS), schedule=SCHEDULES)
    def a_reader_changes_the_schedule(self, email: str, schedule: Schedule) -> None:
        with db.writing(self.newsroom.engine) as session:
            subscriptions.edit(session, subscriptions.get(session, email), schedule=schedule, now=self.now)
            session.commit()

    @rule(email=st.sampled_from(READERS), topics=st.sampled_from(sorted(TOPICS)), trending=st.booleans())
    def a_reader_changes_the_topics(self, email: str, topics: str, trending: bool) -> None:
        with db.writing(self.newsroom.engine) as session:
            reader = subscriptions.get(session, email)
            subscriptions.edit(session, reader, topics=TOPICS[topics], now=self.now)
            reader.wants_trending = trending
            session.commit()

    @rule(email=st.sampled_from(READERS), least=st.integers(1, 3), most=st.integers(1, 5))
    def a_reader_changes_the_caps(self, email: str, least: int, most: int) -> None:
        self.newsroom.change(email, min_papers=least, max_papers=max(least, most))

    @rule(email=st.sampled_from(READERS), wants=st.booleans())
    def a_reader_wants_a_word_on_quiet_days(self, email: str, wants: bool) -> None:
        self.newsroom.change(email, wants_quiet_letters=wants)

    @invariant()
    def a_quiet_letter_stands_for_an_empty_edition(self) -> None:
        if not hasattr(self, "newsroom"):
            return
        with db.reading(self.newsroom.engine) as session:
            keys = session.scalars(select(Delivery.dedupe_key).where(Delivery.letter == "quiet")).all()
            empty = session.execute(
                select(Delivery.subscriber_id, Delivery.edition).where(Delivery.state == DeliveryState.EMPTY)
            )
            assert set(keys) <= {f"quiet-{row[0]}-{row[1]}" for row in empty}

    @invariant()
    def what_is_open_is_not_settled(self) -> None:
        if not hasattr(self, "newsroom"):
            return
        with db.reading(self.newsroom.engine) as session:
            found = session.execute(select(Delivery.state, Delivery.settled_at)).all()
            assert all((state in OPEN) == (settled_at is None) for state, settled_at in found)

    @rule(email=st.sampled_from(READERS), days=st.integers(1, 9))
    def a_reader_goes_on_leave(self, email: str, days: int) -> None:
        with db.writing(self.newsroom.engine) as session:
            until = (self.now + timedelta(days=days, hours=26)).date()
            subscriptions.pause(session, subscriptions.get(session, email), until, self.now)
            session.commit()

    @rule(email=st.sampled_from(READERS))
    def a_reader_comes_back(self, email: str) -> None:
        with db.writing(self.newsroom.engine) as session:
            reader = subscriptions.get(session, email)
            subscriptions.resume(session, reader)
            if reader.state is SubscriberState.UNSUBSCRIBED:
                reader.state, reader.next_due_at = SubscriberState.ACTIVE, None
            session.commit()

    @rule(email=st.sampled_from(READERS))
    def a_reader_leaves(self, email: str) -> None:
        self.newsroom.change(email, state=SubscriberState.UNSUBSCRIBED)

    @rule()
    def everybody_due_is_published(self) -> None:
        previews = self.previews()
        self.newsroom.publish(self.clock)
        self.check_new_digests(previews)

    @precondition(lambda self: self.known > 0)
    @rule(
        state=st.sampled_from([DeliveryState.SENT, DeliveryState.SENT, *showings.UNACCEPTED]),
        in_doubt=st.integers(0, 1),
        newest_first=st.booleans(),
    )
    def a_digest_ends(self, state: DeliveryState, in_doubt: int, newest_first: bool) -> None:
        with db.writing(self.newsroom.engine) as session:
            order = Delivery.id.desc() if newest_first else Delivery.id
            delivery = session.scalar(
                select(Delivery).where(Delivery.state.in_(OPEN)).order_by(order).limit(1)
            )
            if delivery is None:
                return
            delivery.state, delivery.in_doubt, delivery.settled_at = state, in_doubt, self.now
            session.flush()
            showings.release(session, [delivery.id])
            if state in showings.UNACCEPTED and not in_doubt:
                digest = Digest.from_json(delivery.decision)
                self.seen[delivery.subscriber_id or 0] -= set(digest.papers)
                self.told[delivery.subscriber_id or 0] -= self.news(digest)
            session.commit()

    # ── what must hold ──────────────────────────────────────────────────────────────────────────

    def previews(self) -> dict[str, Digest]:
        """What everybody who is due is told they would get."""
        return {email: self.newsroom.preview(email, self.clock).digest for email in self.everybody}

    def check_new_digests(self, previews: dict[str, Digest]) -> None:
        with db.reading(self.newsroom.engine) as session:
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
                assert not digest.papers or len(digest.papers) >= reader.min_papers
                assert digest == previews[reader.email]  # the same answer everywhere
                assert not self.news(digest) & self.told.setdefault(reader.id, set())  # nor told twice
                self.told[reader.id] |= self.news(digest)
                seen = self.seen.setdefault(reader.id, set())
                assert not self.merged(session, digest.papers) & self.merged(session, seen)  # never twice
                seen |= set(digest.papers)

    def news(self, digest: Digest) -> set[tuple[str, str]]:
        """What a digest tells of earlier papers."""
        return {(one.title, one.kind) for one in digest.news}

    def merged(self, session: object, papers: object) -> set[int]:
        """These papers, as what they turned out to be."""
        into = catalog.resolve(session, list(papers))  # type: ignore[arg-type,call-overload]
        return {into.get(paper, paper) for paper in papers}  # type: ignore[attr-defined]

    @invariant()
    def what_is_remembered_is_what_may_have_been_seen(self) -> None:
        if not hasattr(self, "newsroom"):
            return
        with db.reading(self.newsroom.engine) as session:
            for subscriber_id, papers in self.seen.items():
                kept = set(
                    session.scalars(select(Shown.paper_id).where(Shown.subscriber_id == subscriber_id))
                )
                assert self.merged(session, papers) <= kept

    @rule()
    def every_paper_is_accounted_for(self) -> None:
        with db.reading(self.newsroom.engine) as session:
            shown = set(session.execute(select(Shown.subscriber_id, Shown.paper_id)).all())
            papers = session.scalars(select(PaperRow.id).where(PaperRow.merged_into.is_(None))).all()
            for email in self.everybody:
                reader = subscriptions.get(session, email)
                for paper in papers[-12:]:
                    answer = why(
                        session,
                        site=SITE,
                        templates=TEMPLATES(),
                        email=email,
                        reference=str(paper),
                        now=self.now,
                    )
                    assert (answer.json["cause"] == Cause.SHOWN) == ((reader.id, paper) in shown)

    @rule(days=st.integers(1, 4))
    def who_wants_everything_gets_everything(self, days: int) -> None:
        """Also what came while nobody published, beginning with their very first morning."""
        self.now = (self.now + timedelta(days=days)).replace(hour=9)
        self.everybody_due_is_published()
        with db.reading(self.newsroom.engine) as session:
            for email, came in self.greedy.items():
                greedy = subscriptions.get(session, email)
                shown = set(session.scalars(select(Shown.paper_id).where(Shown.subscriber_id == greedy.id)))
                news = select(PaperRow.id).where(
                    PaperRow.merged_into.is_(None),
                    PaperRow.announcement != Announcement.WITHDRAWN,
                    PaperRow.first_seen_at > came,
                    PaperRow.first_seen_at <= self.now,
                )
                assert set(session.scalars(news)) <= shown


class Once:
    """Something that is made when it is first asked for."""

    def __init__(self, make):
        self.make, self.made = make, None

    def __call__(self):
        self.made = self.made or self.make()
        return self.made


def migrated() -> Path:
    path = Path(tempfile.mkdtemp()) / "migrated.sqlite3"
    engine = db.connect(f"sqlite:///{path}")
    db.upgrade(engine)
    engine.dispose()
    return path


MIGRATED = Once(migrated)
TEMPLATES = Once(lambda: Templates(house.templates_dir()))

TestHouse = House.TestCase
TestHouse.settings = settings(
    max_examples=15,
    stateful_step_count=40,
    phases=[Phase.explicit, Phase.generate],
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
