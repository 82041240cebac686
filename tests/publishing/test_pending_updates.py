"""Each reader gets an update to a paper they were sent, once."""

from __future__ import annotations

import json

import pytest
from sqlalchemy import Engine, select, update

from digest import db
from digest.db.tables.deliveries import Delivery, DeliveryState, FollowupSent
from digest.delivery import shown
from digest.editions.compose import Digest, FollowUp
from digest.letters.templates import Templates
from digest.papers.paper_record import Announcement, Record
from digest.publishing.chunk_of_digests import PublishReport
from digest.publishing.publication import Publication
from digest.publishing.why.explain_paper import why
from digest.site.site_profile import Site
from tests.support.publishing_world import PublishingWorld, at
from tests.support.shared_caches import CACHES

ALICE, DORA = "alice@example.org", "dora@example.org"
GRAPHS = {"Graphs": "graph"}
ONE = Record(title="Graph one", abstract="About it.", ids={"arxiv": "2611.00001"})
PUBLISHED = Record(title="Graph one", ids={"arxiv": "2611.00001"}, journal="J. Graphs 12 (2026)")
WITHDRAWN = Record(title="Graph one", ids={"arxiv": "2611.00001"}, announcement=Announcement.WITHDRAWN)
NEWS = FollowUp(paper=1, kind="published", title="Graph one", detail="J. Graphs 12 (2026)")


@pytest.fixture
def world(sqlite_engine: Engine, site: Site, templates: Templates) -> PublishingWorld:
    return world_with_a_sent_paper(sqlite_engine, site, templates)


@pytest.fixture
def on_both(engine: Engine, site: Site, templates: Templates) -> PublishingWorld:
    """The same on SQLite and on PostgreSQL, for what rests on statements that differ between them."""
    return world_with_a_sent_paper(engine, site, templates)


def world_with_a_sent_paper(engine: Engine, site: Site, templates: Templates) -> PublishingWorld:
    """Return a world in which Alice was sent a paper on Friday."""
    world = PublishingWorld(engine=engine, site=site, templates=templates)
    world.subscribe(ALICE, GRAPHS)
    world.dump("20T00:00", [ONE])
    world.publish("20T08:00")
    end_all(world, DeliveryState.SENT)
    return world


def end_all(world: PublishingWorld, state: DeliveryState) -> None:
    with db.write_session(world.engine) as session:
        waiting = list(session.scalars(select(Delivery.id).where(Delivery.state == DeliveryState.QUEUED)))
        session.execute(update(Delivery).where(Delivery.id.in_(waiting)).values(state=state))
        shown.release(session, waiting)
        session.commit()


def news(world: PublishingWorld, email: str = ALICE) -> tuple[FollowUp, ...]:
    """Return the updates in the latest digest."""
    return Digest.from_json(world.deliveries(email)[-1].decision).news


def nothing_today_letters(world: PublishingWorld) -> list[Delivery]:
    with db.read_session(world.engine) as session:
        return list(
            session.scalars(select(Delivery).where(Delivery.letter == "nothing_today").order_by(Delivery.id))
        )


def test_the_next_digest_has_the_update_once(on_both: PublishingWorld):
    on_both.dump("21T00:00", [PUBLISHED, "Graph two"])
    previewed = on_both.preview(ALICE, "21T08:00")
    on_both.publish("21T08:00")

    assert news(on_both) == previewed.digest.news == (NEWS,)
    assert previewed.json["updates"][0]["kind"] == "published"
    for body in (previewed.letter.html, previewed.letter.text):
        assert "Updates to papers we sent you" in body
        assert "Published: J. Graphs 12 (2026)" in body
    assert on_both.digest(ALICE) == {"Graphs": ["Graph two"]}  # an update is not a showing

    on_both.dump("22T00:00", [PUBLISHED, "Graph three"])
    on_both.publish("22T08:00")

    assert news(on_both) == ()


def test_a_reader_who_was_not_sent_the_paper_gets_no_update(world: PublishingWorld):
    world.subscribe(DORA, {"All": "graph OR robot"}, now="20T12:00")
    world.dump("21T00:00", [PUBLISHED, "Graph two"])

    world.publish("21T08:00")

    assert news(world, DORA) == ()


def test_a_paper_that_was_never_delivered_has_no_update(world: PublishingWorld):
    world.dump("21T00:00", ["Graph two"])
    world.publish("21T08:00")
    end_all(world, DeliveryState.FAILED)
    world.dump("22T00:00", [Record(title="Graph two", journal="J. Graphs")])

    world.publish("22T08:00")

    assert world.digest(ALICE) == {"Graphs": ["Graph two"]}
    assert news(world) == ()


def test_history_makes_no_updates(world: PublishingWorld):
    world.dump("21T00:00", [PUBLISHED], is_history=True)
    world.dump("21T00:00", ["Graph two"])

    world.publish("21T08:00")

    assert news(world) == ()


def test_a_change_before_the_paper_was_shown_is_no_update(world: PublishingWorld):
    world.dump("21T00:00", ["Graph two"])
    world.dump("21T06:00", [Record(title="Graph two", journal="J. Graphs")])
    world.publish("21T08:00")
    end_all(world, DeliveryState.SENT)
    world.dump("22T00:00", ["Graph three"])

    world.publish("22T08:00")

    assert news(world) == ()


def test_an_update_in_an_undelivered_digest_is_sent_again(world: PublishingWorld):
    world.dump("21T00:00", [PUBLISHED, "Graph two"])
    world.publish("21T08:00")
    end_all(world, DeliveryState.FAILED)

    world.publish("22T08:00")

    assert news(world) == (NEWS,)


def test_updates_wait_for_a_digest_with_papers(world: PublishingWorld):
    world.dump("21T00:00", [PUBLISHED])
    assert world.publish("21T08:00") == PublishReport(due=1, empty=1)
    world.dump("23T00:00", ["Graph two"])
    world.publish("22T08:00")
    world.publish("23T08:00")

    assert news(world) == (NEWS,)
    assert nothing_today_letters(world) == []


def test_after_a_week_without_papers_a_letter_brings_the_update_once(on_both: PublishingWorld):
    on_both.dump("21T00:00", [WITHDRAWN])
    for day in range(21, 31):
        on_both.publish(f"{day}T08:00")

    (letter,) = nothing_today_letters(on_both)
    updates = json.loads(letter.decision)["news"]
    assert letter.dated_at == at("28T08:00")
    assert [(one["title"], one["text"]) for one in updates] == [("Graph one", "Withdrawn by its authors")]


def test_a_nothing_today_letter_brings_the_updates(world: PublishingWorld):
    world.change(ALICE, wants_nothing_today_letters=True)
    world.dump("21T00:00", [PUBLISHED, "Robot"])
    world.publish("21T08:00")

    (letter,) = nothing_today_letters(world)
    assert len(json.loads(letter.decision)["news"]) == 1
    with db.read_session(world.engine) as session:
        assert session.scalars(select(FollowupSent.delivery_id)).all() == [letter.id]


def test_why_names_the_change_and_when_its_update_was_sent(world: PublishingWorld):
    world.dump("21T00:00", [PUBLISHED, "Graph two"])
    world.publish("21T08:00")

    with db.read_session(world.engine) as session:
        answer = why(Publication(session, site=world.site, templates=world.templates, caches=CACHES, now=at("21T09:00")), email=ALICE, reference="Graph one")  # fmt: skip

    assert any(
        "published since" in line and "update sent on 2026-11-21 in daily-2026-11-21" in line
        for line in answer.lines
    )
