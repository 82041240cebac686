"""A welcome letter has up to three papers that the reader's first digest could have had."""

from __future__ import annotations

import pytest
from sqlalchemy import Engine

from digest import db
from digest.letters.templates import Templates
from digest.publishing import welcome_papers
from digest.publishing.publication import Publication
from digest.site.site_profile import Site
from digest.subscribers import subscriber_rows
from digest.subscribers.welcome_letters import WelcomePapers
from tests.support.publishing_world import PublishingWorld, at

ALICE = "alice@example.org"


@pytest.fixture
def world(sqlite_engine: Engine, site: Site, templates: Templates) -> PublishingWorld:
    return PublishingWorld(engine=sqlite_engine, site=site, templates=templates)


def chosen(world: PublishingWorld, now: str) -> WelcomePapers:
    with db.read_session(world.engine) as session:
        publication = Publication(
            session, site=world.site, templates=world.templates, caches=world.caches, now=at(now)
        )
        return welcome_papers.welcome_chooser(publication)(session, subscriber_rows.get(session, ALICE))


def titles(papers: WelcomePapers) -> list[str]:
    return [card.title for card in papers.cards.values()]


def test_welcome_papers_are_the_best_of_today_on_the_readers_topics(world: PublishingWorld):
    world.dump("20T00:00", ["Flow one", *(f"Robot {n}" for n in range(2, 7))], order="rank")
    world.subscribe(ALICE, {"Robots": "robot"}, now="20T09:00")

    papers = chosen(world, "20T09:00")

    assert titles(papers) == ["Robot 2", "Robot 3", "Robot 4"]
    assert papers.sentence == "Until then, you can read three papers from today on your topics."
    assert all("robot" in card.why.words for card in papers.cards.values())


def test_welcome_papers_come_from_the_past_week_if_today_has_too_few(world: PublishingWorld):
    world.dump("11T00:00", ["Robot too old"])
    world.dump("16T00:00", ["Robot of Monday"])
    world.dump("20T00:00", ["Robot of today"])
    world.subscribe(ALICE, {"Robots": "robot"}, now="20T09:00")

    papers = chosen(world, "20T09:00")

    assert sorted(titles(papers)) == ["Robot of Monday", "Robot of today"]
    assert papers.sentence == "Until then, you can read two papers from the past week on your topics."


def test_welcome_papers_are_trending_papers_if_no_topic_matches(world: PublishingWorld):
    world.dump("20T00:00", ["Flow one", "Flow two", "Flow three", "Flow four"], order="rank")
    world.subscribe(ALICE, {"Robots": "robot"}, now="20T09:00")

    papers = chosen(world, "20T09:00")

    assert titles(papers) == ["Flow one", "Flow two", "Flow three"]
    assert papers.sentence == "Until then, you can read three papers from today’s trending list."


def test_no_paper_that_the_reader_was_sent_before_comes_again(world: PublishingWorld):
    world.dump("20T00:00", ["Robot one"])
    world.subscribe(ALICE, {"Robots": "robot"}, now="20T00:00")
    world.publish("20T08:00")
    world.dump("20T09:00", ["Robot two"])

    assert titles(chosen(world, "20T10:00")) == ["Robot two"]


def test_an_empty_catalog_gives_no_welcome_papers(world: PublishingWorld):
    world.subscribe(ALICE, {"Robots": "robot"}, now="20T00:00")

    assert chosen(world, "20T10:00").sentence == ""
