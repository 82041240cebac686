"""Match canonical filters against a batch of papers without parsing each, and group matches by relevance.

Filters share clauses, so each distinct clause is parsed and looked up once. Everything else is done with sets
of papers, so papers of equal relevance are usually handled together.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from digest.bitsets import ScoredSets
from digest.topics import filter_shapes, relevance
from digest.topics.filter_shapes import FilterShape
from digest.topics.filter_tree import Leaf, PackClause
from digest.topics.paper_index import PaperIndex
from digest.topics.relevance import ScoredClause
from digest.topics.word_rows import LazyDict


class _MatchedClause(NamedTuple):
    """The papers that a clause matches, and the clauses whose words count for their scores."""

    papers: int
    parts: Sequence[ScoredClause]


class CanonicalMatcher:
    """Matches canonical filters against the papers of an index.

    Several threads may use it concurrently, because each thread computes missing values independently.
    """

    def __init__(self, index: PaperIndex) -> None:
        self.index = index
        self._clauses: dict[str, _MatchedClause | None] = LazyDict(self._read_clause)
        self._weights: Mapping[FilterShape, Sequence[tuple[int, float]]] = LazyDict(self._weights_of)

    def sets_by_relevance(self, canonical: str) -> ScoredSets:
        """Return the papers that a filter matches as (relevance, papers), highest relevance first.

        Raises BadFilter if the filter is invalid.
        """
        shape, clauses = filter_shapes.outline(canonical, self._clauses, self._look_up)
        matches = filter_shapes.matches_among(shape.node, [one.papers for one in clauses], self.index.full)
        if not matches:
            return ()
        weighted = {
            part.canonical: (self.index.scored_sets(part), weight)
            for place, weight in self._weights[shape]
            for part in clauses[place].parts
        }
        return relevance.by_relevance(relevance.totals(matches, weighted.values()))

    @property
    def clauses_cached(self) -> int:
        """Return the number of cached clauses."""
        return len(self._clauses)

    def forget_clauses(self) -> None:
        """Discard the cached clauses and all cached results of the index."""
        self._clauses.clear()
        self.index.forget_results()

    def _read_clause(self, text: str) -> _MatchedClause | None:
        leaf = filter_shapes.read_clause(text)
        return None if leaf is None or isinstance(leaf, PackClause) else self._look_up(leaf)

    def _look_up(self, leaf: Leaf) -> _MatchedClause:
        return _MatchedClause(self.index.leaf(leaf), relevance.scored_parts(leaf))

    def _weights_of(self, shape: FilterShape) -> Sequence[tuple[int, float]]:
        return tuple(relevance.clause_weights(shape.node, self.index.weights.other_name))
