"""Near-duplicates rank lower; papers that are only similar keep their rank."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest

from digest.papers.paper_record import Paper
from digest.publishing.near_duplicates import near_duplicates
from tests.support.product_processes import ROOT
from tests.support.ranked_matches import order_of, rank_matches

SEEDS = sorted((ROOT.parent / "shared" / "seeds").glob("*.truth.jsonl"))
SEEN = datetime(2026, 11, 20, tzinfo=UTC)
ABSTRACT = (
    "We show that a swarm of small robots can sort parcels by asking each other before they move. "
    "The method needs no map, learns from ten minutes of play, and stays safe when half of the swarm "
    "is switched off. In three warehouses it halved the time to the first sorted parcel, and people "
    "who worked beside it found it easier to foresee than the planner that stood there before. We "
    "release the simulator, the recordings and the questionnaires, so that others may repeat all of it."
)


def paper(number: int, title: str, abstract: str) -> Paper:
    return Paper(id=number, title=title, abstract=abstract, first_seen_at=SEEN)


def test_two_versions_of_one_abstract_are_near_duplicates():
    longer = ABSTRACT + " A second study with forty people confirms the first."
    found = [paper(1, "Robots that ask first", ABSTRACT), paper(2, "Asking swarms", longer)]
    assert near_duplicates(found) == {0: 0b10, 1: 0b01}


def test_short_similar_titles_are_not_near_duplicates():
    other = "A survey of generalisation in deep networks: bounds, measures and what experiments say of them."
    found = [
        paper(1, "Generalization in Deep Learning", ABSTRACT),
        paper(2, "On the Generalization Mystery in Deep Learning", other),
        paper(3, "Robots", "Robots of all kinds, from arms to legs."),
        paper(4, "Robots", "A robot is a machine that tires of nothing."),
    ]
    assert near_duplicates(found) == {}


def test_papers_with_one_long_title_are_near_duplicates():
    title = "Attention that forgets what it no longer needs"
    assert near_duplicates([paper(1, title, "One."), paper(2, title.upper(), "Another.")]) == {
        0: 0b10,
        1: 0b01,
    }


def test_a_phrase_shared_by_many_papers_is_ignored():
    found = [paper(n, f"Paper {n}", ABSTRACT) for n in range(20)]
    assert near_duplicates(found) == {}


@pytest.mark.skipif(not SEEDS, reason="the seed dumps are not here")
def test_the_seed_papers_have_no_near_duplicates():
    known = {}
    for path in SEEDS:
        for line in path.read_text().splitlines():
            record = json.loads(line)
            known[record["title"]] = record["abstract"]
    assert (
        near_duplicates([paper(n, title, text) for n, (title, text) in enumerate(known.items(), start=1)])
        == {}
    )


def test_the_weaker_near_duplicate_ranks_below_other_matches():
    order = order_of(rank_matches(0b111, [3.0, 2.9, 2.5], {}, {0: 0b010, 1: 0b001}))
    assert order == (0, 2, 1)
