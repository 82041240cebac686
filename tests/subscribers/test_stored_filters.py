"""Stored filters match, and score, what plain arithmetic on their clauses gives."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from digest import errors
from digest.papers import bitsets
from digest.topics import filter_parser, pack_resolution, relevance
from digest.topics.filter_parser import Filter
from digest.topics.filter_tree import And, AnywhereClause, DescriptionClause, Node, Or, TextClause
from digest.topics.paper_index import PaperIndex
from tests.topics import strategies
from tests.topics.invented_papers import paper

BATCH = PaperIndex(
    [
        paper("Cups and robots", "A robot lifts cups; robots wash cups.", authors=("Ada Lind",)),
        paper("Graphs", "Graph proofs of graphs about robots.", categories=("cs.RO",)),
        paper("Robots, robots", "Tea.", categories=("cs.LG", "cs.RO")),
        paper("Tea of arms", "A cup, two cups, three cups of tea for robots.", comment="robots"),
    ]
)


def weighted(node: Node, weight: float = 1.0) -> Iterator[tuple[TextClause | DescriptionClause, float]]:
    """Yield the clauses of a tree whose words count, with their weights."""
    if isinstance(node, TextClause | DescriptionClause):
        yield node, weight
    elif isinstance(node, AnywhereClause):
        yield from [(part, weight) for part in node.parts if isinstance(part, TextClause)]
    elif isinstance(node, And | Or):
        for place, child in enumerate(node.children):
            lower = relevance.WEIGHTS.other_name if isinstance(node, Or) and place else 1.0
            yield from weighted(child, weight * lower)


def plain_relevance(filter_: Filter) -> dict[int, float]:
    """Score paper by paper and clause by clause."""
    weights = {leaf.canonical: (leaf, weight) for leaf, weight in weighted(filter_.tree)}
    totals = {}
    for number in bitsets.members(BATCH.matches(filter_)):
        totals[number] = 0.0
        for leaf, weight in weights.values():
            totals[number] += weight * score_of(leaf, number)
    best = max(totals.values(), default=0.0)
    return {number: total / best if best else relevance.WORDLESS_SCORE for number, total in totals.items()}


def score_of(leaf: TextClause | DescriptionClause, number: int) -> float:
    if isinstance(leaf, DescriptionClause):
        return BATCH.descriptions.scores(leaf).get(number, 0.0)
    counts, places = BATCH.texts.counts(leaf), {"ti": (0,), "abs": (1,), "co": (2,), "jr": (3,), "org": (4,)}
    found = {place: counts.get(place * 4 + number, 0) for place in places.get(leaf.field, (0, 1))}
    return relevance.WEIGHTS.score(found.pop(0, 0), sum(found.values()))


words = st.sampled_from(
    ["robots", '"robots"', "ti:cups", "abs:cups", "tea", "graph*", "cat:cs.RO", "all:robots"]
)
joined = st.recursive(
    words | st.just('about:"cups of tea for robots"'),
    lambda inner: st.tuples(inner, st.sampled_from([" AND ", " OR ", " ANDNOT "]), inner).map(
        lambda parts: f"({parts[0]}{parts[1]}{parts[2]})"
    ),
    max_leaves=6,
)


@given(joined | strategies.filters)
@example("(cups OR tea) AND (tea OR cups)")
@example("all:robots AND robots")
def test_matches_and_relevance_are_those_of_plain_arithmetic(written: str) -> None:
    try:
        filter_ = filter_parser.parse(written)
    except errors.BadFilter:
        assume(False)
    assume(not filter_.uses)

    found = BATCH.sets_by_relevance(pack_resolution.parse_resolved(filter_.canonical))

    scored = {number: score for score, papers in found for number in bitsets.members(papers)}
    assert scored == plain_relevance(filter_) == BATCH.relevance(filter_, BATCH.matches(filter_))
    assert [score for score, _ in found] == sorted((score for score, _ in found), reverse=True)


@pytest.mark.parametrize("text", ["(cups", "use:lab/nlp", "use:lab/nlp OR cups"])
def test_a_filter_that_cannot_be_parsed_or_resolved_is_refused(text: str) -> None:
    with pytest.raises(errors.BadFilter):
        pack_resolution.parse_resolved(text)
