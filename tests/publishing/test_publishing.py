"""Every due subscriber gets the right papers once, also after crashes and with concurrent publishers."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date, time
from threading import Barrier, Thread
from typing import Any

import pytest
from sqlalchemy import Engine, event, select, text, update
from sqlalchemy.orm import Session

from digest import db
from digest.db.tables.deliveries import Delivery, DeliveryState, PressRow, Shown
from digest.db.tables.subscribers import FilterRow, Subscriber, SubscriberState
from digest.delivery import press_store, shown
from digest.editions.compose import Digest
from digest.editions.schedule import Cadence
from digest.letters.press.press_value import Press
from digest.letters.templates import Templates
from digest.papers.paper_record import Record
from digest.publishing import chunk_of_digests, due_readers, publish_due
from digest.publishing.chunk_of_digests import PublishReport
from digest.publishing.publication import Publication
from digest.publishing.reader_values import GatheredInputs
from digest.site.site_profile import Site
from digest.subscribers import account, subscriber_rows, subscriber_topics
from tests.conftest import connected
from tests.support.publishing_world import PublishingWorld, at
from tests.support.shared_caches import CACHES
from tests.support.waiting import wait_until

pytestmark = pytest.mark.postgresql

GRAPHS = {"Graphs": "graph*"}


@pytest.fixture
def world(sqlite_engine: Engine, site: Site, templates: Templates) -> PublishingWorld:
    return PublishingWorld(engine=sqlite_engine, site=site, templates=templates)


@pytest.fixture
def on_both(engine: Engine, site: Site, templates: Templates) -> PublishingWorld:
    """The same on SQLite and on PostgreSQL, for what rests on statements that differ between them."""
    return PublishingWorld(engine=engine, site=site, templates=templates)


# ── who is due, and when ────────────────────────────────────────────────────────────────────────


def test_everybody_is_due_at_their_own_hour(world: PublishingWorld):
    world.dump("20T00:00", ["Graph one"])
    world.subscribe("tokyo@example.org", hour="08:00", timezone="Asia/Tokyo", now="19T20:00")
    world.subscribe("oslo@example.org", hour="08:00", timezone="Europe/Oslo")
    world.subscribe("york@example.org", hour="08:00", timezone="America/New_York")

    assert world.publish("20T06:59") == PublishReport(due=1, queued=1)
    assert world.publish("20T07:00") == PublishReport(due=2, queued=1, already=1)
    assert world.publish("20T12:59") == PublishReport(due=2, already=2)
    assert world.publish("20T13:00") == PublishReport(due=3, queued=1, already=2)
    assert [one.email for one in world.deliveries()] == [
        "tokyo@example.org", "oslo@example.org", "york@example.org",
    ]  # fmt: skip


@pytest.mark.parametrize(
    "state", [SubscriberState.PENDING, SubscriberState.PAUSED, SubscriberState.UNSUBSCRIBED]
)
def test_only_active_subscribers_get_digests(world: PublishingWorld, state: SubscriberState):
    world.dump("20T00:00", ["Graph one"])
    world.subscribe("bob@example.org", state=state)

    assert world.publish("20T08:00") == PublishReport()


def test_the_next_due_moment_is_set_after_every_edition(world: PublishingWorld):
    world.dump("20T00:00", ["Graph one"])
    world.subscribe("alice@example.org", cadence=Cadence.WEEKDAYS, hour="07:30", timezone="Europe/Oslo")

    world.publish("20T06:30")  # a Friday

    assert world.subscriber("alice@example.org").next_due_at == at("23T06:30")


def test_before_its_hour_a_new_subscriber_only_gets_a_due_moment(world: PublishingWorld):
    world.dump("20T00:00", ["Graph one"])
    world.subscribe("alice@example.org", hour="08:00")

    assert world.publish("20T07:00") == PublishReport()
    assert world.subscriber("alice@example.org").next_due_at == at("20T08:00")


def test_a_pause_that_is_over_ends_at_the_next_publication(world: PublishingWorld):
    world.dump("20T00:00", ["Graph one"])
    world.subscribe(
        "alice@example.org", now="18T00:00", state=SubscriberState.PAUSED, paused_until=date(2026, 11, 20)
    )

    assert world.publish("19T23:00") == PublishReport()
    assert world.publish("20T08:00") == PublishReport(due=1, queued=1)
    assert world.subscriber("alice@example.org").state == SubscriberState.ACTIVE


def test_missed_editions_are_recorded_and_their_papers_are_in_the_next(on_both: PublishingWorld):
    on_both.subscribe("alice@example.org", GRAPHS, now="16T00:00")
    on_both.dump("17T00:00", ["Graph one"])
    on_both.publish("17T08:00")
    on_both.dump("18T00:00", ["Graph two"])
    on_both.dump("20T00:00", ["Graph three"])

    assert on_both.publish("20T09:00") == PublishReport(due=3, queued=1, expired=2)
    assert [(one.edition, one.state) for one in on_both.deliveries()] == [
        ("daily-2026-11-17", DeliveryState.QUEUED),
        ("daily-2026-11-20", DeliveryState.QUEUED),
        ("daily-2026-11-18", DeliveryState.EXPIRED),
        ("daily-2026-11-19", DeliveryState.EXPIRED),
    ]
    assert on_both.digest("alice@example.org", "daily-2026-11-20") == {"Graphs": ["Graph three", "Graph two"]}


def test_papers_of_a_new_subscribers_missed_first_edition_are_in_the_next(world: PublishingWorld):
    world.subscribe("alice@example.org", GRAPHS, now="19T09:00", next_due_at=at("20T08:00"))
    world.dump("19T20:00", ["Graph one"])

    world.publish("21T07:00")  # no run published yesterday
    world.publish("21T08:00")

    assert world.digest("alice@example.org", "daily-2026-11-21") == {"Graphs": ["Graph one"]}


def test_a_new_subscriber_misses_no_paper_while_publishing_is_down(world: PublishingWorld):
    world.dump("16T07:00", ["Graph from before"])
    world.subscribe("alice@example.org", GRAPHS, now="17T09:00")
    world.dump("18T00:00", ["Graph one"])
    world.dump("20T00:00", ["Graph two"])

    previewed = world.preview("alice@example.org", "20T09:00").digest
    world.publish("20T09:00")

    assert world.digest("alice@example.org") == {"Graphs": ["Graph two", "Graph one"]}
    assert world.titles(previewed.papers) == ["Graph two", "Graph one"]


# ── which papers ────────────────────────────────────────────────────────────────────────────────


def test_a_subscriber_without_topics_gets_trending_papers(world: PublishingWorld):
    world.subscribe("alice@example.org", max_papers=2)
    world.dump(
        "20T00:00",
        [Record(title=f"Paper {n}", signals={"upvotes": n}) for n in (3, 40, 1, 7)],
    )

    world.publish("20T08:00")

    assert world.digest("alice@example.org") == {"Trending": ["Paper 40", "Paper 7"]}


def test_sections_are_in_the_order_of_the_topics(world: PublishingWorld):
    world.dump("20T00:00", ["Proof search", "A graph of proofs", "Graph cuts", "Robots"])
    world.subscribe("alice@example.org", {"Proofs": 'ti:"proof search"', "Graphs": "graph*"})

    world.publish("20T08:00")

    made = world.digest("alice@example.org")
    assert list(made) == ["Proofs", "Graphs"]
    assert made["Proofs"] == ["Proof search"]
    assert sorted(made["Graphs"]) == ["A graph of proofs", "Graph cuts"]


def test_a_new_subscriber_gets_the_last_24_hours(world: PublishingWorld):
    world.dump("19T07:59", ["Graph of the day before"])
    world.dump("19T08:01", ["Graph of yesterday"])
    world.subscribe("alice@example.org", GRAPHS)

    world.publish("20T08:00")

    assert world.digest("alice@example.org") == {"Graphs": ["Graph of yesterday"]}


def test_the_next_digest_begins_where_the_last_one_ended(world: PublishingWorld):
    world.subscribe("alice@example.org", GRAPHS)
    world.dump("20T00:00", ["Graph one"])
    world.publish("20T08:00")
    world.dump("20T12:00", ["Graph two"])
    world.dump("21T00:00", ["Graph three", "Graph one"])

    world.publish("21T08:00")

    assert world.digest("alice@example.org") == {"Graphs": ["Graph three", "Graph two"]}


def test_papers_of_a_second_dump_of_the_same_day_are_new(world: PublishingWorld):
    world.subscribe("alice@example.org", GRAPHS)
    world.dump("20T00:00", ["Graph one"])
    world.publish("20T08:00")
    world.dump("20T00:00", ["Graph two"])  # arrives in the afternoon, but is dated to the day

    world.publish("21T08:00")

    assert world.digest("alice@example.org") == {"Graphs": ["Graph two"]}


def test_a_dump_loaded_while_an_empty_edition_is_made_is_new_for_the_next(world: PublishingWorld):
    world.subscribe("alice@example.org", GRAPHS)
    world.publish("20T08:00")
    world.dump("20T08:00", ["Graph one"])

    assert world.publish("21T08:00") == PublishReport(due=1, queued=1)


def test_history_is_never_shown(world: PublishingWorld):
    world.subscribe("alice@example.org", GRAPHS)
    world.dump("20T00:00", ["Graph of old"], is_history=True)

    assert world.publish("20T08:00") == PublishReport(due=1, empty=1)


def test_an_edition_without_matches_is_recorded_and_not_sent(world: PublishingWorld):
    world.subscribe("alice@example.org", GRAPHS)
    world.dump("20T00:00", ["Robots", "More robots"])

    assert world.publish("20T08:00") == PublishReport(due=1, empty=1)
    assert [(one.state, one.reason, one.press) for one in world.deliveries()] == [
        (DeliveryState.EMPTY, "2 papers checked, none matched", None)
    ]


def test_an_empty_catalog_gives_empty_editions(world: PublishingWorld):
    world.subscribe("alice@example.org")

    assert world.publish("20T08:00") == PublishReport(due=1, empty=1)
    assert world.deliveries()[0].reason == "no new papers"


@pytest.mark.parametrize("most", [11, 50])
def test_one_topic_fills_the_digest_up_to_its_limit(world: PublishingWorld, most: int):
    world.dump("20T00:00", [f"Graph {number} of rivers" for number in range(100)])
    world.subscribe("alice@example.org", GRAPHS, max_papers=most)

    world.publish("20T08:00")

    assert len(world.digest("alice@example.org")["Graphs"]) == most


def test_a_paper_left_out_returns_once_if_newer_figures_make_it_trend(world: PublishingWorld):
    world.subscribe("alice@example.org", GRAPHS, max_papers=1)
    world.dump("20T00:00", [Record(title="Graph one", signals={"upvotes": 9}), "Graph two", "Graph three"])
    world.publish("20T08:00")
    world.dump("21T00:00", [Record(title="Graph three", signals={"upvotes": 80})])

    world.publish("21T08:00")
    world.publish("22T08:00")

    assert world.digest("alice@example.org", "daily-2026-11-20") == {"Graphs": ["Graph one"]}
    assert world.digest("alice@example.org", "daily-2026-11-21") == {"Graphs": ["Graph three"]}
    assert world.digest("alice@example.org", "daily-2026-11-22") == {}


def test_a_paper_left_out_a_week_ago_does_not_return(world: PublishingWorld):
    world.subscribe("alice@example.org", GRAPHS, max_papers=1)
    world.dump("20T00:00", [Record(title="Graph one", signals={"upvotes": 9}), "Graph two"])
    world.publish("20T08:00")
    for day in range(21, 28):
        world.publish(f"{day}T08:00")
    world.dump("28T00:00", [Record(title="Graph two", signals={"upvotes": 80})])

    assert world.publish("28T08:00") == PublishReport(due=1, empty=1)


def test_a_catch_up_after_a_pause_is_no_longer_than_other_digests(world: PublishingWorld):
    world.subscribe("alice@example.org", now="01T00:00", max_papers=3, hour="08:00")
    world.dump("01T00:00", ["Paper 0"])
    world.publish("01T08:00")
    world.change("alice@example.org", state=SubscriberState.PAUSED, paused_until=date(2026, 11, 20))
    for day in range(2, 20):
        world.dump(f"{day:02}T00:00", [f"Paper {day}"])

    assert world.publish("20T08:00") == PublishReport(due=1, queued=1)
    assert world.digest("alice@example.org") == {"Trending": ["Paper 19", "Paper 18", "Paper 17"]}


# ── never twice ─────────────────────────────────────────────────────────────────────────────────


def test_publishing_twice_writes_nothing_twice(on_both: PublishingWorld):
    on_both.subscribe("alice@example.org", GRAPHS)
    on_both.subscribe("carol@example.org", {"Robots": "robot*"})
    on_both.dump("20T00:00", ["Graph one"])

    assert on_both.publish("20T08:00") == PublishReport(due=2, queued=1, empty=1)
    shown = on_both.shown()
    assert on_both.publish("20T08:00") == PublishReport(due=2, already=2)
    assert on_both.publish("20T20:00") == PublishReport(due=2, already=2)
    assert on_both.shown() == shown
    assert len(on_both.deliveries()) == 2


def test_a_changed_hour_zone_or_cadence_sends_no_edition_twice(on_both: PublishingWorld):
    on_both.subscribe("alice@example.org", GRAPHS)
    on_both.dump("20T00:00", ["Graph one"])
    on_both.publish("20T08:00")
    on_both.dump("20T12:00", ["Graph two"])
    on_both.change(
        "alice@example.org", at=time(18), cadence="weekdays", timezone="Europe/Oslo", next_due_at=None
    )

    assert on_both.publish("20T18:00") == PublishReport(due=1, already=1)
    on_both.publish("23T17:00")

    assert on_both.digest("alice@example.org", "daily-2026-11-23") == {"Graphs": ["Graph two"]}


def test_an_edition_taken_by_one_subscriber_does_not_block_the_others(on_both: PublishingWorld):
    on_both.subscribe("alice@example.org", GRAPHS)
    on_both.subscribe("emil@example.org", GRAPHS, at=time(9))
    on_both.dump("20T00:00", ["Graph one"])
    on_both.publish("20T08:00")
    on_both.change("alice@example.org", next_due_at=None)

    assert on_both.publish("20T09:00") == PublishReport(due=2, queued=1, already=1)
    assert on_both.digest("emil@example.org") == {"Graphs": ["Graph one"]}
    assert on_both.publish("20T09:00") == PublishReport(due=2, already=2)


def test_a_merged_paper_is_not_shown_again(on_both: PublishingWorld):
    on_both.subscribe("alice@example.org")
    on_both.dump("20T00:00", [Record(title="On graphs", ids={"arxiv": "2611.00001"})])
    on_both.publish("20T08:00")
    on_both.dump("21T00:00", [Record(title="Graphs, at last", ids={"doi": "10.5555/1"})])
    on_both.dump("21T01:00", [Record(title="On graphs", ids={"arxiv": "2611.00001", "doi": "10.5555/1"})])

    assert on_both.publish("21T08:00") == PublishReport(due=1, empty=1)


class Killed(BaseException):
    """A simulated crash of the process."""


def test_a_crash_before_the_commit_leaves_nothing_and_the_next_run_does_all(on_both: PublishingWorld):
    for n in range(7):
        on_both.subscribe(f"reader{n}@example.org", GRAPHS)
    on_both.dump("20T00:00", ["Graph one"])
    press = prepared(on_both)

    def die(connection, cursor, statement, parameters, context, executemany):
        if statement.startswith('UPDATE "subscriber"'):  # deliveries and shown rows are written
            raise Killed

    with db.write_session(on_both.engine) as session:
        chunk(session, on_both, press, after_id=0, limit=3)
    event.listen(on_both.engine, "before_cursor_execute", die)
    with pytest.raises(Killed), db.write_session(on_both.engine) as session:
        chunk(session, on_both, press, after_id=0, limit=3)
    event.remove(on_both.engine, "before_cursor_execute", die)

    assert len(on_both.deliveries()) == len(on_both.shown()) == 3
    assert on_both.publish("20T08:01") == PublishReport(due=7, queued=4, already=3)
    assert len(on_both.deliveries()) == len(on_both.shown()) == 7


def prepared(world: PublishingWorld) -> Press:
    """Return the press at 08:00."""
    with db.write_session(world.engine) as session:
        press = publish_due.prepare_press(
            Publication(
                session, site=world.site, templates=world.templates, caches=CACHES, now=at("20T08:00")
            )
        )
    assert press is not None
    return press


def chunk(
    session: Session, world: PublishingWorld, press: Press, *, after_id: int, limit: int
) -> tuple[PublishReport, int | None]:
    """Publish one chunk at 08:00."""
    publication = Publication(
        session,
        site=world.site,
        templates=world.templates,
        caches=CACHES,
        now=at("20T08:00"),
        fixed_press=press,
    )
    return chunk_of_digests.publish_chunk(publication, after_id=after_id, limit=limit)


def test_two_publishers_at_once_write_everything_once(on_both: PublishingWorld):
    for n in range(60):
        on_both.subscribe(f"reader{n}@example.org", GRAPHS)
    on_both.dump("20T00:00", ["Graph one", "Graph two"])
    press = prepared(on_both)
    start = Barrier(2)
    queued: list[int] = []

    def run() -> None:
        last_id: int | None = 0
        with db.write_session(on_both.engine) as session:
            start.wait()
            while last_id is not None:
                published, last_id = chunk(session, on_both, press, after_id=last_id, limit=7)
                queued.append(published.queued)

    threads = [Thread(target=run) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert sum(queued) == len(on_both.deliveries()) == 60
    assert len(on_both.shown()) == 120


def test_a_paper_shown_by_a_concurrent_letter_is_not_shown_again(
    postgres_engine: Engine, postgres_url: str, site: Site, templates: Templates
):
    world = PublishingWorld(engine=postgres_engine, site=site, templates=templates)
    alice = world.subscribe("alice@example.org")
    one, _ = world.dump("20T00:00", ["Graph one", "Graph two"])
    press = prepared(world)
    elsewhere = db.make_engine(postgres_url)

    def show_meanwhile(connection, cursor, statement, parameters, context, executemany):
        if "nextval" in statement:  # after the read, before the write
            with db.write_session(elsewhere) as session:
                shown.record(session, (alice, 0, [one]), shown_on=date(2026, 11, 20))
                session.commit()

    event.listen(postgres_engine, "before_cursor_execute", show_meanwhile)
    with db.write_session(postgres_engine) as session:
        published, _ = chunk(session, world, press, after_id=0, limit=500)
    elsewhere.dispose()

    assert published == PublishReport(due=1, queued=1)
    assert world.digest("alice@example.org") == {"Trending": ["Graph two"]}


def test_a_subscriber_erased_while_publishing_has_no_delivery(
    postgres_engine: Engine, postgres_url: str, site: Site, templates: Templates
):
    world = PublishingWorld(engine=postgres_engine, site=site, templates=templates)
    world.subscribe("alice@example.org")
    world.dump("20T00:00", ["Graph one"])
    press = prepared(world)

    def erase() -> None:
        with connected(postgres_url) as elsewhere, db.write_session(elsewhere) as session:
            account.erase(session, site, "alice@example.org", now=at("20T08:00"))
            session.commit()

    eraser = Thread(target=erase)

    def erase_meanwhile(connection, cursor, statement, parameters, context, executemany):
        if "nextval" in statement:
            eraser.start()
            wait_for_a_lock(postgres_url)

    event.listen(postgres_engine, "before_cursor_execute", erase_meanwhile)
    with db.write_session(postgres_engine) as session:
        published, _ = chunk(session, world, press, after_id=0, limit=500)
    eraser.join()

    assert published == PublishReport(due=1, queued=1)
    [delivery] = world.deliveries()
    assert (delivery.subscriber_id, delivery.email) == (None, None)
    assert delivery.state == DeliveryState.SUPPRESSED


def wait_for_a_lock(url: str) -> None:
    """Return once a session waits for another one's lock."""
    waiting = text("SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'")
    with connected(url) as engine, engine.connect() as connection:

        def is_waiting() -> object:
            connection.rollback()
            return connection.scalar(waiting)

        wait_until("a session that waits for a lock", is_waiting)


def test_a_published_chunk_leaves_nothing_for_the_garbage_collector(on_both: PublishingWorld):
    on_both.dump("20T00:00", ["Graph one", "Graph two"])
    for number in range(50):
        on_both.subscribe(f"reader-{number}@example.org")
    press = prepared(on_both)
    looks: list[str] = []
    found: list[object] = []

    def look(phase: str, details: dict[str, int]) -> None:
        looks.append(phase)
        found.extend(one for one in gc.get_objects() if isinstance(one, GatheredInputs))

    with db.write_session(on_both.engine) as session, eager_collector():
        gc.callbacks.append(look)
        chunk(session, on_both, press, after_id=0, limit=100)
        gc.callbacks.remove(look)

    assert looks
    assert found == []


@contextmanager
def eager_collector() -> Iterator[None]:
    """Run the garbage collector as often as possible, on the youngest generation only."""
    usual = gc.get_threshold()
    gc.freeze()
    gc.set_threshold(1)
    try:
        yield
    finally:
        gc.set_threshold(*usual)
        gc.unfreeze()


# ── released ───────────────────────────────────────────────────────────────────────────────────


def ended(world: PublishingWorld, state: DeliveryState, *, in_doubt: int = 0) -> int:
    """End the last delivery in that state and release it if allowed; return how many were released."""
    number = world.deliveries()[-1].id
    with db.write_session(world.engine) as session:
        session.execute(update(Delivery).where(Delivery.id == number).values(state=state, in_doubt=in_doubt))
        released = shown.release(session, [number])
        session.commit()
    return released


@pytest.mark.parametrize(
    "state", [DeliveryState.FAILED, DeliveryState.EXPIRED, DeliveryState.SUPPRESSED, DeliveryState.STUCK]
)
def test_papers_of_an_undelivered_digest_are_new_again(on_both: PublishingWorld, state: DeliveryState):
    on_both.subscribe("alice@example.org", GRAPHS)
    on_both.dump("20T00:00", ["Graph one"])
    on_both.publish("20T08:00")

    assert ended(on_both, state) == 1
    assert on_both.shown() == []
    assert on_both.publish("21T08:00") == PublishReport(due=1, queued=1)
    assert on_both.digest("alice@example.org") == {"Graphs": ["Graph one"]}


@pytest.mark.parametrize(
    ("state", "in_doubt"),
    [
        (DeliveryState.STUCK, 1),
        (DeliveryState.FAILED, 2),
        (DeliveryState.SENT, 0),
        (DeliveryState.SENDING, 0),
    ],
)
def test_papers_of_a_digest_that_may_have_arrived_are_not_shown_again(
    on_both: PublishingWorld, state: DeliveryState, in_doubt: int
):
    on_both.subscribe("alice@example.org", GRAPHS)
    on_both.dump("20T00:00", ["Graph one"])
    on_both.publish("20T08:00")

    assert ended(on_both, state, in_doubt=in_doubt) == 0
    assert on_both.publish("21T08:00") == PublishReport(due=1, empty=1)


def test_old_shown_rows_are_deleted(on_both: PublishingWorld):
    on_both.subscribe("alice@example.org", GRAPHS)
    on_both.dump("20T00:00", ["Graph one"])
    on_both.publish("20T08:00")
    on_both.publish("29T08:00")

    with db.write_session(on_both.engine) as session:
        assert sum(gone for gone, _ in shown.delete_old(session, before=date(2026, 11, 20))) == 0
        assert sum(gone for gone, _ in shown.delete_old(session, before=date(2026, 11, 21))) == 1


# ── preview ─────────────────────────────────────────────────────────────────────────────────────


def test_a_preview_shows_todays_digest_until_the_next_has_papers(world: PublishingWorld):
    world.subscribe("alice@example.org", GRAPHS)
    world.dump("20T00:00", ["Graph one"])
    before = world.preview("alice@example.org", "20T08:00")
    world.publish("20T08:00")

    after = world.preview("alice@example.org", "20T09:00")
    assert (before.is_published, after.is_published) == (False, True)
    assert (after.letter, after.json) == (before.letter, before.json)

    world.dump("20T10:00", ["Graph two"])
    later = world.preview("alice@example.org", "20T11:00")
    assert (later.is_published, later.edition.name) == (False, "daily-2026-11-21")
    assert world.preview("alice@example.org", "21T09:00").edition.name == "daily-2026-11-21"


def everything(engine: Engine) -> list[object]:
    """Return every row that publishing writes."""
    with db.read_session(engine) as session:
        return [
            session.execute(select(table).order_by(*table.primary_key)).all()
            for table in (Delivery.__table__, Shown.__table__, Subscriber.__table__, PressRow.__table__)
        ]


def test_a_preview_equals_the_real_run_and_changes_nothing(on_both: PublishingWorld):
    on_both.subscribe("alice@example.org", {"Proofs": "proof*", "Graphs": "graph*"}, timezone="Europe/Oslo")
    on_both.subscribe("carol@example.org")
    on_both.dump("20T00:00", ["Graph one", "Proof one", "A graph of proofs", "Robots"])
    before = everything(on_both.engine)

    previews = {
        email: on_both.preview(email, "20T08:00") for email in ("alice@example.org", "carol@example.org")
    }

    assert everything(on_both.engine) == before
    on_both.publish("20T08:00")
    assert {one.email: one.decision for one in on_both.deliveries()} == {
        email: made.digest.to_json() for email, made in previews.items()
    }


def test_a_preview_between_editions_shows_the_next_one(world: PublishingWorld):
    world.subscribe("alice@example.org", GRAPHS)
    world.dump("20T00:00", ["Graph one"])
    world.publish("20T08:00")
    world.dump("20T12:00", ["Graph two"])

    made = world.preview("alice@example.org", "20T13:00")

    assert made.edition.name == "daily-2026-11-21"
    assert [section["papers"][0]["title"] for section in made.json["sections"]] == ["Graph two"]


def test_a_digest_shows_as_much_of_each_abstract_as_its_reader_chose(world: PublishingWorld):
    lengths = {
        "titles": "",
        "short": "We show how to cut.",
        "full": "Graphs are old. However, we show how to cut.",
    }
    for length in lengths:
        world.subscribe(f"{length}@example.org", GRAPHS, abstracts=length)
    world.dump("20T00:00", [Record(title="Graph cuts", abstract=lengths["full"])])

    previews = {length: world.preview(f"{length}@example.org", "20T08:00") for length in lengths}
    world.publish("20T08:00")

    texts = {length: made.letter.text for length, made in previews.items()}
    assert all("Graph cuts" in text for text in texts.values())
    assert {length: lengths[length] in text for length, text in texts.items()} == dict.fromkeys(lengths, True)
    assert ["show how to cut" in text for text in texts.values()] == [False, True, True]
    assert ["Graphs are old" in text for text in texts.values()] == [False, False, True]
    assert {one.decision for one in world.deliveries()} == {
        made.digest.to_json() for made in previews.values()
    }


def test_a_preview_for_a_pending_subscriber_shows_what_they_would_get(world: PublishingWorld):
    world.subscribe("bob@example.org", GRAPHS, state=SubscriberState.PENDING)
    world.dump("20T00:00", ["Graph one"])

    made = world.preview("bob@example.org", "20T08:00")

    assert "Graph one" in made.letter.html
    assert "Graph one" in made.letter.text
    assert b"bob@example.org" in made.message


def test_a_preview_without_papers_is_the_nothing_today_letter(world: PublishingWorld):
    world.subscribe("alice@example.org", GRAPHS)
    world.dump("20T00:00", ["Robots"])

    made = world.preview("alice@example.org", "20T08:00")

    assert made.json["sections"] == []
    assert "Nothing on your topics today. 1 paper checked." in made.letter.text
    assert b"alice@example.org" in made.message


# ── presses ─────────────────────────────────────────────────────────────────────────────────────


def test_one_press_serves_a_day_and_a_new_dump_makes_a_new_one(world: PublishingWorld):
    for hour in range(8, 12):
        world.subscribe(f"reader{hour}@example.org", hour=f"{hour:02}:00")
    world.dump("20T00:00", ["Graph one"])
    for hour in (8, 9, 10):
        world.publish(f"20T{hour:02}:00")
    world.dump("20T10:30", ["Graph two"])
    world.publish("20T11:00")

    used = [one.press for one in world.deliveries()]
    assert used[0] == used[1] == used[2] != used[3]


def test_a_press_is_kept_while_a_delivery_needs_it(on_both: PublishingWorld):
    on_both.subscribe("alice@example.org")
    on_both.dump("20T00:00", ["Graph one"])
    on_both.publish("20T08:00")

    with db.write_session(on_both.engine) as session:
        assert press_store.delete_old_presses(session, before=at("25T00:00")) == 0
        session.execute(update(Delivery).values(state=DeliveryState.SENT, settled_at=at("20T09:00")))
        assert press_store.delete_old_presses(session, before=at("25T00:00")) == 1


def test_old_shown_rows_are_not_read(on_both: PublishingWorld):
    alice = on_both.subscribe("alice@example.org", GRAPHS)
    on_both.dump("20T00:00", ["Graph one"])
    read = []
    with db.write_session(on_both.engine) as session:
        shown.record(session, (alice, 1, range(-1999, 0)), shown_on=date(2026, 1, 1))
        session.commit()
        read = shown.shown_to(session, [alice], shown.SHOWN_TABLE.c.paper_id >= 1)

    assert read == []
    assert on_both.publish("20T08:00") == PublishReport(due=1, queued=1)


def test_shown_rows_are_read_by_key_although_statistics_say_the_table_is_empty(
    postgres_engine: Engine,
):
    asked: list[tuple[str, dict[str, object]]] = []
    with db.write_session(postgres_engine) as session:
        session.connection().exec_driver_sql("ANALYZE shown")  # it says: empty
        shown.record_new(session, [(reader, 1, range(8), date(2026, 11, 20)) for reader in range(2_000)])
        event.listen(
            postgres_engine, "before_cursor_execute", lambda *given: asked.append((given[2], given[3]))
        )
        assert len(shown.shown_to(session, range(1_000), shown.SHOWN_TABLE.c.paper_id >= 1)) == 7_000
        question, values = asked[-1]
        plan = session.connection().exec_driver_sql(f"EXPLAIN {question}", values).scalars().all()

    assert any("Index" in step and "pk_shown" in step for step in plan), plan


def test_the_next_due_readers_are_found_without_sorting_all(sqlite_engine: Engine):
    asked: list[tuple[str, tuple[object, ...]]] = []
    event.listen(sqlite_engine, "before_cursor_execute", lambda *given: asked.append((given[2], given[3])))
    with db.write_session(sqlite_engine) as session:
        due_readers.lock_due_readers(session, after_id=0, limit=500, now=at("20T08:00"))
        question, values = asked[-1]
        plan = session.connection().exec_driver_sql(f"EXPLAIN QUERY PLAN {question}", values).all()

    assert [step[-1] for step in plan] == ["SEARCH subscriber USING INTEGER PRIMARY KEY (rowid>?)"]


def test_the_next_due_readers_are_found_without_reading_all(postgres_engine: Engine):
    read = text(
        "SELECT seq_tup_read + idx_tup_fetch FROM pg_stat_xact_user_tables WHERE relname = 'subscriber'"
    )
    with db.write_session(postgres_engine) as session:
        for number in range(300):
            subscriber_rows.add(
                session,
                f"reader{number}@example.org",
                state=SubscriberState.ACTIVE,
                consent="t",
                now=at("19T08:00"),
            )
        session.commit()
        before = session.scalar(read)
        found = due_readers.lock_due_readers(session, after_id=100, limit=20, now=at("20T08:00"))
        assert [one.id for one in found] == [*range(101, 121)]
        assert session.scalar(read) - before <= 2 * 20


def test_an_invalid_stored_filter_matches_nothing_and_stops_no_digest(world: PublishingWorld):
    world.subscribe("alice@example.org", GRAPHS)
    world.subscribe("carol@example.org", {"Robots": "robot*"})
    world.dump("20T00:00", ["Graph one", "Robots"])
    with db.write_session(world.engine) as session:
        broken = subscriber_topics.topics_of(session, subscriber_rows.get(session, "alice@example.org"))[0]
        session.execute(update(FilterRow).where(FilterRow.id == broken.filter_id).values(canonical="((("))
        session.commit()

    assert world.publish("20T08:00") == PublishReport(due=2, queued=1, empty=1)


def test_two_databases_in_one_process_keep_their_filters_apart(
    sqlite_engine: Engine, postgres_engine: Engine, site: Site, templates: Templates
):
    worlds = [
        PublishingWorld(engine=one, site=site, templates=templates)
        for one in (sqlite_engine, postgres_engine)
    ]
    for world, topics in zip(worlds, (GRAPHS, {"Robots": "robot*"}), strict=True):
        world.subscribe("alice@example.org", topics)  # a filter of the same id in both
        world.dump("20T00:00", ["Graph one", "Robots"])
        world.publish("20T08:00")

    assert [world.digest("alice@example.org") for world in worlds] == [
        {"Graphs": ["Graph one"]},
        {"Robots": ["Robots"]},
    ]
    assert len({delivery.press for world in worlds for delivery in world.deliveries()}) == 1


# ── after a pause ───────────────────────────────────────────────────────────────────────────────


def test_after_a_pause_there_is_one_catch_up_and_then_daily_digests(world: PublishingWorld):
    world.subscribe("alice@example.org", GRAPHS, now="10T00:00", max_papers=3)
    world.dump("11T00:00", ["Graph one"])
    world.publish("11T08:00")
    world.change("alice@example.org", state=SubscriberState.PAUSED, paused_until=date(2026, 11, 20))
    for day in range(12, 21):
        world.dump(f"{day}T00:00", [f"Graph of day {day}"])
        world.publish(f"{day}T08:00")
    world.dump("21T00:00", ["Graph of day 21"])
    world.publish("21T08:00")

    first, back, next_one = world.deliveries("alice@example.org")
    digests = [Digest.from_json(one.decision) for one in (first, back, next_one)]
    assert [one.is_catch_up for one in digests] == [False, True, False]
    assert (len(digests[1].papers), digests[1].sections[0].more) == (3, 6)


def test_a_catch_up_says_so_in_its_subject(world: PublishingWorld):
    world.dump("18T00:00", ["Graph one", "Graph two"])
    world.subscribe(
        "alice@example.org", GRAPHS, now="10T00:00", considered_until=at("12T08:00"), is_resumed=True
    )

    letter = world.preview("alice@example.org", "20T08:00").letter
    assert letter.subject == "While you were away: the top 2 papers"


@pytest.mark.parametrize(
    ("max_papers", "sentence"),
    [
        (2, "While you were away: the top 2 of 3 matches"),
        (1, "While you were away: the best of 3 matches"),
    ],
)
def test_a_catch_up_names_how_many_papers_matched(world: PublishingWorld, max_papers: int, sentence: str):
    world.dump("18T00:00", ["Graph one", "Graph two", "Graph three"])
    alice: dict[str, Any] = {"considered_until": at("12T08:00"), "is_resumed": True, "max_papers": max_papers}
    world.subscribe("alice@example.org", GRAPHS, now="10T00:00", **alice)

    letter = world.preview("alice@example.org", "20T08:00").letter
    assert sentence in letter.text.replace("\n", " ")
    assert sentence in letter.html


def test_a_catch_up_with_all_matches_names_no_count(world: PublishingWorld):
    world.dump("18T00:00", ["Graph one", "Graph two"])
    world.subscribe(
        "alice@example.org", GRAPHS, now="10T00:00", considered_until=at("12T08:00"), is_resumed=True
    )

    assert "while you were away" not in world.preview("alice@example.org", "20T08:00").letter.text


def test_a_one_day_pause_makes_no_catch_up(world: PublishingWorld):
    world.dump("20T00:00", ["Graph one"])
    world.subscribe(
        "alice@example.org", GRAPHS, now="10T00:00", considered_until=at("19T08:00"), is_resumed=True
    )

    assert not world.preview("alice@example.org", "20T08:00").digest.is_catch_up
