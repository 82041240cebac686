"""Offers: a topic that is full digest after digest is offered one narrowing, with its back-test, once."""

from __future__ import annotations

import pytest
from sqlalchemy import Engine

from digest.composition import Digest, Offer
from digest.links import Site
from digest.papers import Record
from digest.rendering import Templates
from tests.newsroom import Newsroom

ALICE = "alice@example.org"
GRAPHS = {"Graphs": "graph"}


@pytest.fixture
def newsroom(engine: Engine, site: Site, templates: Templates) -> Newsroom:
    newsroom = Newsroom(engine=engine, site=site, templates=templates)
    newsroom.subscribe(ALICE, GRAPHS, now="16T00:00", max_papers=3)
    return newsroom


def a_day(newsroom: Newsroom, day: int, *, many: bool = True) -> Offer | None:
    """A dump with two liked papers on protein graphs, and with many others; what the digest then offers."""
    liked = [record("folded", f"Protein graph {n} of {day}", 50) for n in range(2)]
    others = [record("sparse", f"Sparse graph {n} of {day}", 1) for n in range(8 if many else 0)]
    newsroom.dump(f"{day:02}T00:00", liked + others)
    newsroom.publish(f"{day:02}T08:00")
    return Digest.from_json(newsroom.deliveries(ALICE)[-1].decision).offer


def record(word: str, title: str, votes: float) -> Record:
    return Record(title=title, abstract=f"All about {title} {word}.", signals={"upvotes": votes})


def test_after_three_full_digests_in_a_row_the_next_one_offers_once(newsroom: Newsroom):
    offered = [a_day(newsroom, day) for day in range(16, 24)]

    assert [one is not None for one in offered] == [False, False, False, True] + [False] * 4
    offer = offered[3]
    assert offer is not None
    assert (offer.topic, offer.clause, offer.before, offer.after) == ("Graphs", "folded", 10.0, 2.0)


def test_a_day_with_room_begins_the_count_anew(newsroom: Newsroom):
    offered = [a_day(newsroom, day, many=day != 18) for day in range(16, 22)]

    assert offered == [None] * 6


def test_changing_topics_begins_the_count_anew(newsroom: Newsroom):
    from digest import db, subscriptions
    from tests.newsroom import at

    for day in range(16, 19):
        a_day(newsroom, day)
    with db.writing(newsroom.engine) as session:
        alice = subscriptions.get(session, ALICE)
        subscriptions.edit(session, alice, topics={"All": "graph*"}, now=at("18T09:00"))
        session.commit()

    assert a_day(newsroom, 19) is None


def test_the_preview_makes_the_same_offer_and_the_letter_says_it(newsroom: Newsroom):
    for day in range(16, 19):
        a_day(newsroom, day)
    newsroom.dump("19T00:00", [record("sparse", f"Sparse graph {n} of 19", 1) for n in range(8)])

    preview = newsroom.preview(ALICE, "19T08:00")

    assert preview.json["offer"]["clause"] == "folded"
    for body in (preview.letter.html, preview.letter.text.replace("\n", " ")):
        assert "Narrow it to folded" in body
        assert "/narrow" in body
