"""Index a batch of papers, and evaluate filters on it.

Papers are numbered by their position in the batch, best first. A set of papers is an integer whose lowest
bits represent the best papers. Each distinct clause is evaluated once, even if many filters contain it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache, lru_cache, reduce
from operator import and_, or_

from digest.papers import bitsets, display_text, paper_record
from digest.papers.bitsets import ScoredSets
from digest.papers.paper_record import Paper
from digest.topics import about_clauses, example_words, language_detection, relevance
from digest.topics.about_clauses import DescriptionWeights
from digest.topics.clauses import author_names
from digest.topics.description_index import DescriptionIndex
from digest.topics.filter_parser import Filter
from digest.topics.filter_tree import (
    And,
    AnywhereClause,
    AuthorClause,
    DateClause,
    DescriptionClause,
    ExampleClause,
    LabelClause,
    Leaf,
    Node,
    Not,
    Or,
    SignalClause,
    TextClause,
)
from digest.topics.relevance import RelevanceWeights, ScoredClause
from digest.topics.text_index import TextIndex

#: Maximum number of clauses whose results are cached; a result for 4,000 papers takes up to 3 kB.
MAX_RESULTS = 10_000

#: The fields of n papers are numbered as documents: titles 0..n-1, abstracts n..2n-1, and so on.
FIELDS = ("title", "abstract", "comment", "journal", "organization")
_PLACES = {"ti": (0,), "abs": (1,), "tiab": (0, 1), "co": (2,), "jr": (3,), "org": (4,)}


class PaperIndex:
    """A batch of papers that filters are matched against.

    Several threads may evaluate filters at the same time.
    """

    def __init__(
        self,
        batch: Sequence[Paper],
        weights: RelevanceWeights = relevance.WEIGHTS,
        described: DescriptionWeights = about_clauses.WEIGHTS,
    ):
        self.weights = weights
        self.papers = tuple(batch)
        self.size = len(self.papers)
        self.full = (1 << self.size) - 1
        self.texts = TextIndex(self._documents())
        self.descriptions = DescriptionIndex(self.texts, self.size, described)
        self.leaf = lru_cache(MAX_RESULTS)(self._look_up)
        self.scored_sets = lru_cache(MAX_RESULTS)(self._scored_sets)
        self._counted: dict[str, Mapping[int, int]] = {}
        self._labelled = cache(self._look_up_labels)

    def _documents(self) -> Iterator[tuple[int, str]]:
        for number, paper in enumerate(self.papers):
            for place, written in enumerate(texts_of(paper)):
                if written:
                    yield place * self.size + number, written

    # ── matching ───────────────────────────────────────────────────────────────────────────────

    def matches(self, filter_: Filter) -> int:
        """Return the set of papers that match a filter: bit n is paper number n."""
        return self.matches_of_node(filter_.tree)

    def matches_of_node(self, node: Node) -> int:
        """Return the set of papers that a part of a filter matches."""
        if isinstance(node, And):
            return reduce(and_, map(self.matches_of_node, node.children))
        if isinstance(node, Or):
            return reduce(or_, map(self.matches_of_node, node.children))
        if isinstance(node, Not):
            return self.full & ~self.matches_of_node(node.child)
        return self.leaf(node)

    def _look_up(self, leaf: Leaf) -> int:  # noqa: PLR0911  (one return for each kind of clause)
        match leaf:
            case TextClause():
                documents = reduce(or_, self._documents_by_count(leaf).values(), 0)
                return reduce(or_, [documents >> place * self.size for place in fields_of(leaf)]) & self.full
            case AnywhereClause():
                return reduce(or_, map(self.leaf, leaf.parts))
            case DescriptionClause() | ExampleClause():
                found = bitsets.bitset_of(self.descriptions.scores(leaf))
                return found & ~self._having("hash", leaf.known) if isinstance(leaf, ExampleClause) else found
            case AuthorClause():
                return self._people(leaf)
            case LabelClause():
                return self._having(leaf.field, leaf.values)
            case DateClause():
                return self._where(
                    lambda paper: paper.published is not None and leaf.since <= paper.published <= leaf.until
                )
            case SignalClause():
                return self._where(lambda paper: leaf.low <= paper.signals.get(leaf.name, -1) <= leaf.high)
        raise TypeError(f"{leaf.canonical} must be resolved first")

    def _where(self, holds: Callable[[Paper], bool]) -> int:
        return sum(1 << number for number, paper in enumerate(self.papers) if holds(paper))

    def _having(self, field: str, values: Iterable[str]) -> int:
        """Return the papers that have any of these labels."""
        labelled = self._labelled(field)
        return reduce(or_, [labelled.get(value, 0) for value in values], 0)

    def _look_up_labels(self, field: str) -> Mapping[str, int]:
        """Return {label: papers} for a field."""
        found: defaultdict[str, int] = defaultdict(int)
        for number, paper in enumerate(self.papers):
            for label in labels_of(paper, field):
                found[label] |= 1 << number
        return found

    def _people(self, leaf: AuthorClause) -> int:
        family, named = leaf.family[-1], self._labelled("name")
        names = [name for name in named if name.startswith(family)] if leaf.starred else [family]
        having = bitsets.members(self._having("name", names))
        return bitsets.bitset_of(
            [number for number in having if author_names.author_of(self.papers[number], leaf)]
        )

    # ── relevance ──────────────────────────────────────────────────────────────────────────────

    def sets_by_relevance(self, filter_: Filter, matches: int | None = None) -> ScoredSets:
        """Return the papers in `matches`, by default all matches, as (relevance, papers), highest first."""
        found = self.matches(filter_) if matches is None else matches
        return relevance.by_relevance(self.totals(filter_, found))

    def totals(self, filter_: Filter, matches: int) -> dict[float, int]:
        """Return {total of the weighted scores of all clauses: papers} for the papers in `matches`."""
        weighted = relevance.weighted_clauses(filter_.tree, self.weights.other_name)
        return relevance.totals(matches, ((self.scored_sets(leaf), weight) for leaf, weight in weighted))

    def relevance(self, filter_: Filter, matches: int) -> dict[int, float]:
        """Return {paper: relevance} for the papers in `matches`, from 0 to 1 for the best paper."""
        sets = self.sets_by_relevance(filter_, matches)
        return {number: score for score, papers in sets for number in bitsets.members(papers)}

    def _scored_sets(self, leaf: ScoredClause) -> ScoredSets:
        """Return the papers that a clause matches as (score, papers), cached for all filters.

        Scores of words depend on the numbers of occurrences in the title and elsewhere.
        """
        scored: defaultdict[float, int] = defaultdict(int)
        if not isinstance(leaf, TextClause):
            for number, score in self.descriptions.scores(leaf).items():
                scored[score] |= 1 << number
            return tuple(scored.items())
        fields, having = fields_of(leaf), self._documents_by_count(leaf)
        in_title = self._by_count(having, 0) if fields[0] == 0 else {0: self.full}
        elsewhere = self._by_count(having, fields[-1]) if fields[-1] else {0: self.full}
        for title_count, titles in in_title.items():
            for count, others in elsewhere.items():
                if both := titles & others:
                    scored[self.weights.score(title_count, count)] |= both
        scored.pop(0.0, None)
        return tuple(scored.items())

    def _by_count(self, having: Mapping[int, int], field: int) -> Mapping[int, int]:
        """Return {number of occurrences in a field: papers}, including the papers without occurrences."""
        found = {count: bits >> field * self.size & self.full for count, bits in having.items()}
        return {**found, 0: self.full & ~reduce(or_, found.values(), 0)}

    def _documents_by_count(self, leaf: TextClause) -> Mapping[int, int]:
        """Return {number of occurrences: documents}, cached for the clauses with the same words."""
        found = self._counted.get(leaf.words)
        if found is None:
            documents: defaultdict[int, list[int]] = defaultdict(list)
            for document, count in self.texts.counts(leaf).items():
                documents[count].append(document)
            found = {count: bitsets.bitset_of(some) for count, some in documents.items()}
            if len(self._counted) >= MAX_RESULTS:
                self._counted.clear()
            self._counted[leaf.words] = found
        return found


def fields_of(leaf: TextClause) -> tuple[int, ...]:
    """Return the indexes in `FIELDS` of the fields that a clause searches."""
    return _PLACES[leaf.field]


def texts_of(paper: Paper) -> tuple[str, ...]:
    """Return the texts of a paper, in the order of `FIELDS`."""
    organization = paper.organization
    return (
        display_text.display(paper.title),
        display_text.display(paper.abstract),
        display_text.display(paper.comment),
        display_text.display(paper.journal),
        display_text.display(f"{organization.name} {organization.handle}") if organization else "",
    )


def labels_of(paper: Paper, field: str) -> Iterable[str]:  # noqa: PLR0911  (one return for each field)
    """Return the labels of a paper in a field, as `LabelClause` has them."""
    categories = [code.lower() for code in paper.categories[: 1 if field == "pcat" else None]]
    match field:
        case "id":
            return map(str.lower, paper.ids.values())
        case "is":
            return (paper.announcement,)
        case "source":
            return [" ".join(paper_record.fold(name).split()) for name in paper.sources]
        case "lang":
            return (language_detection.language_of(f"{paper.title} {paper.abstract}"),)
        case "name":
            return [part for author in paper.authors for part in author_names.parts_of(author)]
        case "hash":
            return example_words.hashes_of(paper)
    return [*categories, *(f"{code.partition('.')[0]}.*" for code in categories)]
