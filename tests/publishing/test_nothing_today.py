"""An edition without matches is recorded as empty; readers who want it, or got no mail for long, get a letter."""

from __future__ import annotations

import json
from email import message_from_bytes, policy

import pytest
from sqlalchemy import Engine, select

from digest import db
from digest.db.tables.deliveries import Delivery, DeliveryState, Lane
from digest.delivery.transports.memory import MemoryTransport
from digest.letters.templates import Templates
from digest.publishing.chunk_of_digests import PublishReport
from digest.site.site_profile import Site
from digest.subscribers import subscriber_rows, unsubscribe_and_undo
from tests.support.publishing_world import PublishingWorld, at

ALICE = "alice@example.org"


@pytest.fixture
def world(sqlite_engine: Engine, site: Site, templates: Templates) -> PublishingWorld:
    return PublishingWorld(engine=sqlite_engine, site=site, templates=templates)


@pytest.fixture
def on_both(engine: Engine, site: Site, templates: Templates) -> PublishingWorld:
    """The same on SQLite and on PostgreSQL, for what rests on statements that differ between them."""
    return PublishingWorld(engine=engine, site=site, templates=templates)


def letters(world: PublishingWorld) -> list[Delivery]:
    with db.read_session(world.engine) as session:
        return list(
            session.scalars(select(Delivery).where(Delivery.letter == "nothing_today").order_by(Delivery.id))
        )


def test_an_edition_without_matches_is_recorded_and_sends_nothing(world: PublishingWorld):
    world.dump("20T00:00", ["Robot one"])
    world.subscribe(ALICE, {"Graphs": "graph"})

    assert world.publish("20T08:00") == PublishReport(due=1, empty=1)
    assert letters(world) == []


def test_a_reader_who_wants_it_gets_one_letter_with_the_closest_paper(world: PublishingWorld):
    world.dump("20T00:00", ["Robot one", "Graph two", "Flow three"])
    world.subscribe(ALICE, {"Both": "graph AND robot"}, wants_nothing_today_letters=True)

    world.publish("20T08:00")
    world.publish("20T09:00")

    (letter,) = letters(world)
    decision = json.loads(letter.decision)
    assert (decision["checked"], letter.lane) == (3, Lane.BULK)
    assert decision["nearest"]["title"] in {"Robot one", "Graph two"}
    assert decision["nearest"]["lacked"] == (
        "graph" if decision["nearest"]["title"] == "Robot one" else "robot"
    )
    assert world.deliveries(ALICE)[0].state == DeliveryState.EMPTY
    assert world.shown() == []


def test_fourteen_days_without_mail_bring_one_letter(on_both: PublishingWorld):
    on_both.subscribe(ALICE, {"Graphs": "graph"}, now="01T00:00")
    for day in range(1, 31):
        on_both.dump(f"{day:02}T00:00", [f"Robot {day}"])
        on_both.publish(f"{day:02}T08:00")

    assert [one.dated_at for one in letters(on_both)] == [at("15T08:00"), at("29T08:00")]


def test_a_digest_restarts_the_fourteen_days(world: PublishingWorld):
    world.subscribe(ALICE, {"Graphs": "graph"}, now="01T00:00")
    for day in range(1, 24):
        world.dump(f"{day:02}T00:00", [f"Graph {day}" if day == 10 else f"Robot {day}"])
        world.publish(f"{day:02}T08:00")

    assert letters(world) == []


def test_a_day_without_papers_sends_no_letter(world: PublishingWorld):
    world.dump("18T00:00", ["Graph one"])
    world.subscribe(ALICE, {"Graphs": "graph"}, wants_nothing_today_letters=True)
    world.publish("20T08:00")

    assert letters(world) == []


def test_the_closest_paper_mentions_all_the_rest_of_a_topic(world: PublishingWorld):
    world.dump("20T00:00", ["Flow one", "Robot with video", "Robot two"], order="rank")
    world.subscribe(ALICE, {"Three": "robot AND video AND diffusion"}, wants_nothing_today_letters=True)

    text = world.preview(ALICE, "20T08:00").letter.text

    assert "Nothing on your topics today. 3 papers checked." in text
    assert "Closest: Robot with video (does not mention “diffusion”)" in text


@pytest.mark.parametrize("text", ["diffusion", "diffusion AND sailing", "diffusion AND NOT video"])
def test_a_paper_that_mentions_nothing_of_a_topic_is_only_trending(world: PublishingWorld, text: str):
    world.dump("20T00:00", ["Robot one"])
    world.subscribe(ALICE, {"Diffusion": text}, wants_nothing_today_letters=True)

    written = world.preview(ALICE, "20T08:00").letter.text

    assert "Nothing on your topics today. 1 paper checked." in written
    assert "Trending anyway: Robot one\n" in written
    assert "mention" not in written


def test_a_trending_paper_that_a_topic_excludes_is_not_offered(world: PublishingWorld):
    world.dump("20T00:00", ["Robot one"])
    world.subscribe(ALICE, {"Diffusion": "diffusion NOT robot"}, wants_nothing_today_letters=True)

    assert "Robot one" not in world.preview(ALICE, "20T08:00").letter.text


def test_a_paper_that_was_sent_before_is_not_offered(world: PublishingWorld):
    world.dump("20T00:00", ["Robot one"])
    world.subscribe(ALICE, {"Robots": "robot"}, wants_nothing_today_letters=True)
    world.publish("20T08:00")
    world.dump("21T00:00", ["Flow two"])

    text = world.preview(ALICE, "21T08:00").letter.text

    assert "Trending anyway: Flow two" in text


def test_the_letter_is_sent_with_an_unsubscribe_header(world: PublishingWorld):
    world.dump("20T00:00", ["Robot one"])
    world.subscribe(ALICE, {"Diffusion": "diffusion"}, wants_nothing_today_letters=True)
    world.publish("20T08:00")
    transport = MemoryTransport()
    report = world.deliver(at("20T08:05"), transport)
    (sent,) = transport.messages
    message = message_from_bytes(sent.content, policy=policy.default)
    assert report.sent == 1
    assert message["subject"] == "Nothing on your topics today"
    assert "List-Unsubscribe" in message


def test_a_reader_who_unsubscribed_meanwhile_gets_no_letter(world: PublishingWorld):
    world.dump("20T00:00", ["Robot one"])
    world.subscribe(ALICE, {"Diffusion": "diffusion"}, wants_nothing_today_letters=True)
    world.publish("20T08:00")
    with db.write_session(world.engine) as session:
        unsubscribe_and_undo.mark_unsubscribed(
            session, subscriber_rows.get(session, ALICE), now=at("20T08:01")
        )
        session.commit()
    report = world.deliver(at("20T08:05"))
    assert (report.suppressed, report.sent) == (1, 0)
