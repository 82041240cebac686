"""`like:PAPER` finds similar papers, and a filter can be proposed for several."""

from __future__ import annotations

from time import process_time

import pytest

from digest import errors, topics
from tests.topics.invented_papers import paper

GRASPS = [
    paper(
        "Grasp Planning for Soft Grippers", "Soft grippers plan a grasp by touch. A soft gripper bends.", id=1
    ),
    paper("Tactile Grasp Planning", "We plan grasps with tactile sensing and a soft gripper.", id=2),
    paper("Planning a Grasp in Clutter", "Clutter makes grasp planning hard; touch helps a gripper.", id=3),
]
OTHERS = [
    paper("Language Models Tell Stories", "Stories told by large language models in planning of plots.", id=4),
    paper("Graph Kernels Revisited", "Kernels on graphs, compared.", id=5),
    paper("A Soft Landing for Drones", "Drones land softly with a model of wind.", id=6),
    *(paper(f"Weather of Year {year}", "Rain and wind.", id=year) for year in range(100, 130)),
]  # fmt: skip
ALL = topics.PaperIndex([*GRASPS, *OTHERS])


def by_id(reference):
    for one in (*GRASPS, *OTHERS):
        if str(one.id) == reference:
            return one
    raise errors.NotFound(f"There is no paper {reference!r} in the catalog.")


def test_a_like_clause_is_replaced_by_words_of_the_paper():
    written = topics.expand_like("like:1 ANDNOT ti:survey", by_id)

    assert written.startswith('about:"grasp planning soft grippers')
    assert written.endswith("ANDNOT ti:survey")


def test_a_like_clause_finds_the_paper_and_similar_ones():
    found = ALL.matches(topics.parse(topics.expand_like("like:1", by_id)))

    assert found & 0b111 == 0b111
    assert found.bit_count() <= 4


def test_like_inside_quotes_is_text():
    assert topics.expand_like('"like: this" OR like:"2"', by_id).startswith('"like: this" OR about:"')


def test_an_unknown_paper_in_a_like_clause_is_pointed_at():
    with pytest.raises(errors.BadFilter, match="There is no paper '99'") as caught:
        topics.expand_like("robot OR like:99", by_id)

    assert (caught.value.column, caught.value.length) == (10, 7)


def test_a_like_clause_without_a_catalog_is_refused_with_the_reason():
    with pytest.raises(errors.BadFilter, match="needs the catalog"):
        topics.parse("like:2401.01234")


def test_a_proposed_filter_finds_its_papers_and_little_else():
    proposed = topics.suggest(GRASPS, ALL)

    assert ALL.matches(proposed) == 0b111
    assert topics.parse(proposed.canonical) == proposed


def test_the_same_papers_in_any_order_give_the_same_filter():
    assert topics.suggest(GRASPS, ALL) == topics.suggest(GRASPS[::-1], ALL)


def test_a_filter_is_proposed_even_for_unrelated_or_empty_papers():
    odd = [paper("Of It", "", id=8), paper("量子", "", id=9), *OTHERS[:2]]
    proposed = topics.suggest(odd, topics.PaperIndex([*odd, *GRASPS]))

    assert topics.PaperIndex(odd).matches(proposed) & 0b1100 == 0b1100


def test_a_filter_is_proposed_quickly():
    start = process_time()
    topics.suggest([paper("Long", "grasp planning " * 2000, id=1), *GRASPS], ALL)

    assert process_time() - start < 2
