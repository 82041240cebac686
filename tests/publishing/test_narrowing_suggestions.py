"""A topic that overflows several digests in a row gets one narrowing suggestion, with its figures."""

from __future__ import annotations

import pytest
from sqlalchemy import Engine

from digest.editions.compose import Digest, NarrowingSuggestion
from digest.letters import Templates
from digest.papers import Record
from digest.site_profile import Site
from tests.support.publishing_world import PublishingWorld

ALICE = "alice@example.org"
GRAPHS = {"Graphs": "graph"}


@pytest.fixture
def world(sqlite_engine: Engine, site: Site, templates: Templates) -> PublishingWorld:
    world = PublishingWorld(engine=sqlite_engine, site=site, templates=templates)
    world.subscribe(ALICE, GRAPHS, now="16T00:00", max_papers=3)
    return world


def a_day(world: PublishingWorld, day: int, *, many: bool = True) -> NarrowingSuggestion | None:
    """Publish two liked papers on protein graphs, and many others; return the digest's suggestion."""
    liked = [record("folded", f"Protein graph {n} of {day}", 50) for n in range(2)]
    others = [record("sparse", f"Sparse graph {n} of {day}", 1) for n in range(8 if many else 0)]
    world.dump(f"{day:02}T00:00", liked + others)
    world.publish(f"{day:02}T08:00")
    return Digest.from_json(world.deliveries(ALICE)[-1].decision).offer


def record(word: str, title: str, votes: float) -> Record:
    return Record(title=title, abstract=f"All about {title} {word}.", signals={"upvotes": votes})


def test_after_three_full_digests_the_next_one_suggests_once(world: PublishingWorld):
    offered = [a_day(world, day) for day in range(16, 24)]

    assert [one is not None for one in offered] == [False, False, False, True] + [False] * 4
    offer = offered[3]
    assert offer is not None
    assert (offer.topic, offer.clause, offer.before, offer.after) == ("Graphs", "folded", 10.0, 2.0)


def test_a_digest_that_is_not_full_restarts_the_count(world: PublishingWorld):
    offered = [a_day(world, day, many=day != 18) for day in range(16, 22)]

    assert offered == [None] * 6


def test_changing_topics_restarts_the_count(world: PublishingWorld):
    from digest import db, subscribers
    from tests.support.publishing_world import at

    for day in range(16, 19):
        a_day(world, day)
    with db.write_session(world.engine) as session:
        alice = subscribers.get(session, ALICE)
        subscribers.edit(session, alice, topics={"All": "graph*"}, now=at("18T09:00"))
        session.commit()

    assert a_day(world, 19) is None


def test_the_preview_has_the_same_suggestion_and_the_letter_shows_it(world: PublishingWorld):
    for day in range(16, 19):
        a_day(world, day)
    world.dump("19T00:00", [record("sparse", f"Sparse graph {n} of 19", 1) for n in range(8)])

    preview = world.preview(ALICE, "19T08:00")

    assert preview.json["narrowing_suggestion"]["clause"] == "folded"
    for body in (preview.letter.html, preview.letter.text.replace("\n", " ")):
        assert "Adding “folded” would leave" in body
        assert "/narrow" in body
