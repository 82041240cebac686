"""A canonical filter is split into the clauses and the operators that the parser finds."""

from __future__ import annotations

import pytest
from hypothesis import assume, example, given

from digest import errors, topics
from digest.papers import Paper
from digest.topics import filter_shapes, filter_tree
from digest.topics.filter_shapes import split_filter
from tests.topics import strategies
from tests.topics.invented_papers import paper


@given(strategies.filters)
@example('au:"lind, a" OR ("two words"~3 ANDNOT (NOT_A_WORD AND "AND"))')
@example("a ANDNOT (b ANDNOT c)")
def test_a_split_filter_has_the_clauses_and_operators_of_the_parsed_filter(written: str) -> None:
    try:
        filter_ = topics.parse(written)
    except errors.BadFilter:
        assume(False)

    split = split_filter(filter_.canonical)

    assert split is not None
    shape, clauses = split
    assert clauses == [leaf.canonical for leaf in filter_tree.leaves(filter_.tree)]
    assert shape == filter_shapes.shape_of(filter_.tree)
    assert [filter_shapes.read_clause(text) for text in clauses] == [*filter_tree.leaves(filter_.tree)]


@pytest.mark.parametrize("written", ["(cups", "NOT cups graphs", "OR cups"])
def test_a_filter_whose_operators_mean_nothing_by_themselves_is_not_split(written: str) -> None:
    assert split_filter(written) is None


@pytest.mark.parametrize("text", ["a OR b", "NOT a", "-a", '"a', "ti:", "Cups", ""])
def test_text_that_is_no_canonical_clause_is_not_read_as_one(text: str) -> None:
    assert filter_shapes.read_clause(text) is None


@pytest.mark.parametrize(
    "written", ["cups  graphs", "ti:(cups OR graphs)", "Cups robots", "NOT robots graphs"]
)
def test_a_filter_that_is_not_canonical_is_matched_as_parsed(written: str) -> None:
    batch: list[Paper] = [paper("Cups", "Graphs and robots."), paper("Robots of graphs", "Cups.")]
    explainer = topics.Explainer(topics.PaperIndex(batch))

    found = explainer.matched_clauses(written, (0, 1))

    assert found == explainer.matched_clauses(topics.parse(written).canonical, (0, 1))
    assert {number for number in (0, 1) if explainer.explain(topics.parse(written), number).matched} == {
        *found
    }
