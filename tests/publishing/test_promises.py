"""What a page promises is what a run publishes, and a missed edition of a week or month comes late."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta
from random import Random

import pytest
from sqlalchemy import Engine, select

from digest import db
from digest.backups.expire_past import expire_past
from digest.db.tables.deliveries import Delivery, DeliveryState
from digest.db.tables.subscribers import Subscriber, SubscriberState
from digest.delivery import press_store
from digest.editions.schedule import Cadence, Edition, Schedule
from digest.letters import personalization
from digest.letters.templates import Templates
from digest.papers.paper_record import Record
from digest.publishing.chunk_of_digests import PublishReport
from digest.publishing.cleanup import delete_old_shown
from digest.publishing.dry_run import dry_run
from digest.publishing.publication import Publication
from digest.publishing.why.explain_paper import why
from digest.site.site_profile import Site
from digest.subscribers import next_digest, pauses, subscriber_rows, undo_changes, unsubscribe_and_undo
from digest.subscribers.reader_settings import ReaderSettings
from tests.support.publishing_world import PublishingWorld, at
from tests.support.schedule_texts import schedule_texts
from tests.support.shared_caches import CACHES

GRAPHS = {"Graphs": "graph*"}


@pytest.fixture
def world(sqlite_engine: Engine, site: Site, templates: Templates) -> PublishingWorld:
    return PublishingWorld(engine=sqlite_engine, site=site, templates=templates)


@pytest.fixture
def on_both(engine: Engine, site: Site, templates: Templates) -> PublishingWorld:
    """The same on SQLite and on PostgreSQL, for what rests on statements that differ between them."""
    return PublishingWorld(engine=engine, site=site, templates=templates)


# ── promise, then run the clock ─────────────────────────────────────────────────────────────────

ZONES = (
    "UTC", "Europe/Oslo", "America/New_York", "America/Nuuk", "America/Scoresbysund", "Australia/Lord_Howe",
    "Pacific/Kiritimati", "Pacific/Honolulu", "Asia/Kathmandu", "UTC-3:30",
)  # fmt: skip
HOURS = (time(0), time(2, 30), time(8), time(20), time(23, 30))
READERS = 20
BEGIN, END = datetime(2026, 3, 24, 12, tzinfo=UTC), datetime(2026, 4, 8, tzinfo=UTC)


@dataclass
class PromisedRuns:
    """Readers who change their minds, runs at the promised moments, and what was promised to each."""

    world: PublishingWorld
    chance: Random
    now: datetime = BEGIN
    promised: dict[int, Edition] = field(default_factory=dict)
    last_delivery: int = 0

    def next_moment(self) -> datetime:
        """Return when the next promise is due."""
        return min((max(one.due_at, self.now) for one in self.promised.values()), default=END)

    def run(self, moment: datetime) -> None:
        """Publish, and compare what was published with what was promised."""
        self.now = moment
        with db.write_session(self.world.engine) as session:
            pauses.resume_due(session, moment)
            session.commit()
        self.note_promises()
        self.world.publish(f"{moment:%Y-%m-%dT%H:%M}")
        with db.read_session(self.world.engine) as session:
            query = select(Delivery).where(Delivery.id > self.last_delivery, Delivery.edition.is_not(None))
            published = {row.subscriber_id: row for row in session.scalars(query)}
        due = {number: one.name for number, one in self.promised.items() if one.due_at <= moment}
        assert (moment, {number: row.edition for number, row in published.items()}) == (moment, due)
        assert {row.state for row in published.values()} <= {DeliveryState.QUEUED, DeliveryState.EMPTY}
        self.last_delivery = max([self.last_delivery, *(row.id for row in published.values())])
        self.note_promises()

    def note_promises(self) -> None:
        """Note what the pages of all readers promise now."""
        with db.read_session(self.world.engine) as session:
            active = select(Subscriber).where(Subscriber.state == SubscriberState.ACTIVE)
            self.promised = {
                one.id: next_digest.edition_status(session, one, self.now).next
                for one in session.scalars(active)
            }

    def change_something(self, moment: datetime) -> None:
        """Let a reader do one of the things that move a digest."""
        self.now = moment
        with db.write_session(self.world.engine) as session:
            reader = session.get_one(Subscriber, self.chance.randint(1, READERS))
            match self.chance.randrange(8):
                case 0:
                    until = (moment + timedelta(days=self.chance.randint(2, 9))).date()
                    pauses.pause(session, reader, until, moment)
                case 1:
                    pauses.resume(session, reader, moment)
                case 2:
                    unsubscribe_and_undo.unsubscribe(session, self.world.site, reader, now=moment)
                case 3:
                    unsubscribe_and_undo.undo(session, reader, now=moment)
                case _:
                    given = ReaderSettings(texts=schedule_texts(random_schedule(self.chance)))
                    undo_changes.edit(session, reader, given, now=moment)
            session.commit()
        self.note_promises()


def random_schedule(chance: Random) -> Schedule:
    return Schedule(
        cadence=chance.choice([*Cadence, Cadence.DAILY, Cadence.DAILY]), at=chance.choice(HOURS), timezone=chance.choice(ZONES),
        weekday=chance.randrange(7),
    )  # fmt: skip


def test_what_a_page_promises_is_what_a_run_publishes(world: PublishingWorld):
    """Readers of all cadences change their schedules, pause and leave while clocks change."""
    chance = Random(40)
    for number in range(READERS):
        chosen = random_schedule(chance)
        world.subscribe(
            f"reader-{number}@example.org", now=f"{BEGIN:%Y-%m-%dT%H:%M}", cadence=chosen.cadence,
            hour=f"{chosen.at:%H:%M}", timezone=chosen.timezone, weekday=chosen.weekday,
        )  # fmt: skip
    clock = PromisedRuns(world, chance)
    clock.note_promises()
    changes = sorted(BEGIN + (END - BEGIN) * chance.random() for _ in range(200))
    for change in [one.replace(second=0, microsecond=0) for one in changes]:
        while (moment := clock.next_moment()) <= change:
            clock.run(moment)
        clock.change_something(change)
    assert clock.last_delivery > 60


def test_a_digest_promises_the_edition_that_comes_after_it(world: PublishingWorld):
    world.subscribe("alice@example.org", GRAPHS, cadence=Cadence.WEEKLY, now="22T12:00")
    world.dump("23T00:00", ["Graph one"])
    world.publish("23T08:00")

    friday = Schedule(cadence=Cadence.WEEKLY, weekday=4)
    with db.write_session(world.engine) as session:
        alice = subscriber_rows.get(session, "alice@example.org")
        undo_changes.edit(session, alice, ReaderSettings(texts={"cadence": "weekly-fri"}), now=at("24T09:00"))
        session.commit()
        page = next_digest.next_digest_in_words(session, alice, now=at("24T09:00"))
    _, in_letter = personalization.day_and_next_due(friday, at("24T09:00"), "weekly-2026-W48")

    assert page == "Friday 4 December, 08:00, UTC"
    assert in_letter == at("12-04T08:00")
    assert world.publish("27T08:00").queued == 0
    world.dump("12-03T00:00", ["Graph two"])
    assert world.publish("12-04T08:00").queued == 1


# ── a machine that was off ──────────────────────────────────────────────────────────────────────


def test_a_missed_weekly_or_monthly_edition_comes_late_with_all_its_papers(on_both: PublishingWorld):
    on_both.subscribe("month@example.org", GRAPHS, cadence=Cadence.MONTHLY, now="09-20T00:00", max_papers=50)
    on_both.subscribe("week@example.org", GRAPHS, cadence=Cadence.WEEKLY, now="09-20T00:00", max_papers=50)
    on_both.dump("09-30T00:00", ["Graph September"])
    on_both.publish("10-01T08:00")
    on_both.publish("10-26T08:00")
    for day in range(1, 32):
        on_both.dump(f"10-{day:02}T04:00", [f"Graph {day}"])

    assert on_both.publish("29T03:00").queued == 2  # the machine was off since 26 October

    month = on_both.digest("month@example.org", "monthly-2026-11")["Graphs"]
    assert {*month} == {f"Graph {day}" for day in range(1, 32)}
    assert on_both.digest("week@example.org", "weekly-2026-W48")
    states = {(one.edition, one.state) for one in on_both.deliveries() if one.state == DeliveryState.EXPIRED}
    assert states == {(f"weekly-2026-W{week}", DeliveryState.EXPIRED) for week in (41, 42, 43, 45, 46, 47)}
    assert on_both.subscriber("month@example.org").next_due_at == at("12-01T08:00")


def test_papers_of_a_month_without_runs_are_in_the_next_edition(world: PublishingWorld):
    world.subscribe("month@example.org", GRAPHS, cadence=Cadence.MONTHLY, now="09-20T00:00", max_papers=50)
    world.dump("09-30T00:00", ["Graph September"])
    world.publish("10-01T08:00")
    world.dump("10-02T04:00", ["Graph October"])
    world.dump("15T04:00", ["Graph November"])

    assert world.publish("12-31T22:00") == PublishReport(due=2, queued=1, expired=1)
    assert world.digest("month@example.org", "monthly-2026-12") == {
        "Graphs": ["Graph November", "Graph October"]
    }


def why_not(world: PublishingWorld, title: str, now: str) -> str:
    """Return why Alice did not get a paper."""
    with db.read_session(world.engine) as session:
        return why(Publication(session, site=world.site, templates=world.templates, caches=CACHES, now=at(now)), email="alice@example.org", reference=title).verdict  # fmt: skip


def test_a_digest_after_a_long_pause_covers_a_hundred_days_and_shows_no_paper_again(on_both: PublishingWorld):
    on_both.subscribe("alice@example.org", GRAPHS, now="2026-01-01T00:00", max_papers=50)
    on_both.dump("2026-01-10T04:00", [Record(title="Graph shown", signals={"upvotes": 900.0})])
    on_both.publish("2026-01-10T08:00")
    on_both.dump("2026-01-11T04:00", ["Graph too old"])
    with db.write_session(on_both.engine) as session:
        pauses.pause(session, subscriber_rows.get(session, "alice@example.org"), None, at("2026-01-11T07:00"))
        session.commit()
    on_both.dump("2026-10-23T04:00", ["Graph just too old"])
    on_both.dump("2026-10-25T04:00", ["Graph missed"])
    with db.write_session(on_both.engine) as session:
        delete_old_shown(session, now=at("2027-02-01T00:00"), between=0)
        pauses.resume(session, subscriber_rows.get(session, "alice@example.org"), at("2027-02-01T07:00"))
        session.commit()
    assert "covers 100 days at most" in why_not(on_both, "Graph too old", "2027-02-01T07:30")

    assert on_both.publish("2027-02-01T08:00").queued == 1
    assert on_both.digest("alice@example.org", "daily-2027-02-01") == {"Graphs": ["Graph missed"]}
    with db.read_session(on_both.engine) as session:
        press = press_store.load_press(session, on_both.deliveries()[-1].press or "", CACHES)
    assert [paper.title for paper in press.papers] == ["Graph missed", "Graph just too old"]
    for title in ("Graph too old", "Graph just too old"):
        assert "covers 100 days at most" in why_not(on_both, title, "2027-02-01T09:00")


def test_a_digest_that_the_end_of_a_pause_promised_comes_late(world: PublishingWorld):
    """The machine is off on the Friday on which a pause ends; the week's digest comes on Saturday."""
    world.subscribe("alice@example.org", GRAPHS, cadence=Cadence.WEEKLY, weekday=4, now="02T00:00")
    world.publish("06T08:00")
    with db.write_session(world.engine) as session:
        friday = date(2026, 11, 20)
        pauses.pause(session, subscriber_rows.get(session, "alice@example.org"), friday, at("09T08:00"))
        session.commit()
    world.dump("18T04:00", ["Graph missed"])

    with db.read_session(world.engine) as session:
        dry = dry_run(
            Publication(
                session, site=world.site, templates=world.templates, caches=CACHES, now=at("21T15:00")
            )
        )
        assert [one.edition for one, _ in dry] == ["weekly-2026-W47"]
    assert world.publish("21T15:00").queued == 1
    assert world.digest("alice@example.org", "weekly-2026-W47") == {"Graphs": ["Graph missed"]}
    assert world.publish("27T08:00").due == 1


def test_a_restore_repeats_no_edition_that_the_end_of_a_pause_may_have_brought(world: PublishingWorld):
    """The reader is paused in the backup of the 19th; the edition of the 20th may have been sent before the restore."""
    world.subscribe("alice@example.org", GRAPHS, now="16T00:00")
    with db.write_session(world.engine) as session:
        alice = subscriber_rows.get(session, "alice@example.org")
        pauses.pause(session, alice, date(2026, 11, 20), at("17T08:00"))
        expire_past(session, world.site, made_at=at("19T00:00"), now=at("20T12:00"))
        session.commit()
    world.dump("20T13:00", ["Graph new"])

    assert world.publish("20T14:00").queued == 0
    assert world.publish("21T08:00").queued == 1


def test_a_list_that_is_loaded_late_by_hand_is_in_the_next_digest(world: PublishingWorld):
    world.subscribe("alice@example.org", GRAPHS, now="10T00:00")
    world.dump("18T04:00", ["Graph 18"])
    world.publish("18T08:00")
    world.dump("20T04:00", ["Graph 20"])
    world.publish("20T08:00")
    world.dump("19T00:00", ["Graph 19"])  # on the 20th at 10:00, with the date of its list
    world.dump("05T00:00", ["Graph 5"])  # older than a week: it stays in its day
    world.publish("21T08:00")

    assert world.digest("alice@example.org", "daily-2026-11-21") == {"Graphs": ["Graph 19"]}
