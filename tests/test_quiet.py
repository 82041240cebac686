"""Quiet days: recorded as empty, and told with proof to who wants it or has heard nothing for long."""

from __future__ import annotations

import json
from email import message_from_bytes, policy

import pytest
from sqlalchemy import Engine, select

from digest import db, delivery, subscriptions
from digest.links import Site
from digest.model import Delivery, DeliveryState, Lane
from digest.publishing import Published
from digest.rendering import Templates
from digest.transport.memory import Memory
from tests.newsroom import Newsroom, at

ALICE = "alice@example.org"


@pytest.fixture
def newsroom(engine: Engine, site: Site, templates: Templates) -> Newsroom:
    return Newsroom(engine=engine, site=site, templates=templates)


def letters(newsroom: Newsroom) -> list[Delivery]:
    with db.reading(newsroom.engine) as session:
        return list(session.scalars(select(Delivery).where(Delivery.letter == "quiet").order_by(Delivery.id)))


def test_a_quiet_day_is_recorded_and_nobody_is_bothered(newsroom: Newsroom):
    newsroom.dump("20T00:00", ["Robot one"])
    newsroom.subscribe(ALICE, {"Graphs": "graph"})

    assert newsroom.publish("20T08:00") == Published(due=1, empty=1)
    assert letters(newsroom) == []


def test_who_wants_a_word_gets_it_with_proof_and_once(newsroom: Newsroom):
    newsroom.dump("20T00:00", ["Robot one", "Graph two", "Flow three"])
    newsroom.subscribe(ALICE, {"Both": "graph AND robot"}, wants_quiet_letters=True)

    newsroom.publish("20T08:00")
    newsroom.publish("20T09:00")

    (quiet,) = letters(newsroom)
    told = json.loads(quiet.decision)
    assert (told["checked"], quiet.lane) == (3, Lane.BULK)
    assert told["nearest"]["title"] in {"Robot one", "Graph two"}
    assert told["nearest"]["lacked"] == ("'graph'" if told["nearest"]["title"] == "Robot one" else "'robot'")
    assert newsroom.deliveries(ALICE)[0].state == DeliveryState.EMPTY
    assert newsroom.shown() == []


def test_after_fourteen_silent_days_one_word_is_due(newsroom: Newsroom):
    newsroom.subscribe(ALICE, {"Graphs": "graph"}, now="01T00:00")
    for day in range(1, 31):
        newsroom.dump(f"{day:02}T00:00", [f"Robot {day}"])
        newsroom.publish(f"{day:02}T08:00")

    assert [one.dated_at for one in letters(newsroom)] == [at("15T08:00"), at("29T08:00")]


def test_a_digest_breaks_the_silence(newsroom: Newsroom):
    newsroom.subscribe(ALICE, {"Graphs": "graph"}, now="01T00:00")
    for day in range(1, 24):
        newsroom.dump(f"{day:02}T00:00", [f"Graph {day}" if day == 10 else f"Robot {day}"])
        newsroom.publish(f"{day:02}T08:00")

    assert letters(newsroom) == []


def test_a_day_without_any_paper_proves_nothing(newsroom: Newsroom):
    newsroom.dump("18T00:00", ["Graph one"])
    newsroom.subscribe(ALICE, {"Graphs": "graph"}, wants_quiet_letters=True)
    newsroom.publish("20T08:00")

    assert letters(newsroom) == []


def test_a_preview_shows_the_same_proof(newsroom: Newsroom):
    newsroom.dump("20T00:00", ["Robot one"])
    newsroom.subscribe(ALICE, {"Diffusion": "diffusion"}, wants_quiet_letters=True)

    told = newsroom.preview(ALICE, "20T08:00").letter.text

    assert "1 paper checked, none matched." in told
    assert "Nearest: Robot one; it lacked 'diffusion'." in told


def test_a_quiet_letter_is_sent_with_the_way_out(newsroom: Newsroom):
    newsroom.dump("20T00:00", ["Robot one"])
    newsroom.subscribe(ALICE, {"Diffusion": "diffusion"}, wants_quiet_letters=True)
    newsroom.publish("20T08:00")
    transport = Memory()
    with db.writing(newsroom.engine) as session:
        report = delivery.deliver(
            session,
            site=newsroom.site,
            templates=newsroom.templates,
            transport=transport,
            clock=lambda: at("20T08:05"),
        )
    (sent,) = transport.messages
    message = message_from_bytes(sent.content, policy=policy.default)
    assert report.sent == 1
    assert message["subject"] == "Nothing for you today"
    assert "List-Unsubscribe" in message


def test_who_left_meanwhile_is_left_alone(newsroom: Newsroom):
    newsroom.dump("20T00:00", ["Robot one"])
    newsroom.subscribe(ALICE, {"Diffusion": "diffusion"}, wants_quiet_letters=True)
    newsroom.publish("20T08:00")
    with db.writing(newsroom.engine) as session:
        subscriptions.leave(session, subscriptions.get(session, ALICE), now=at("20T08:01"))
        session.commit()
    transport = Memory()
    with db.writing(newsroom.engine) as session:
        report = delivery.deliver(
            session,
            site=newsroom.site,
            templates=newsroom.templates,
            transport=transport,
            clock=lambda: at("20T08:05"),
        )
    assert (report.suppressed, report.sent) == (1, 0)
