"""Suggest topics for a library: a topic for each of one to five clusters of papers, and frequent authors.

Each cluster begins with the papers that share a phrase which is rare in the catalog. Every paper is then
assigned to the cluster with the most similar words, as in k-means, and each large cluster becomes a topic.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from digest import bitsets
from digest.papers import Paper, title_key
from digest.topics import author_names, similar_papers, word_rarity
from digest.topics.filter_parser import Filter, parse
from digest.topics.filter_tree import DescriptionClause, TextClause
from digest.topics.paper_index import PaperIndex
from digest.topics.suggested_topics import (
    WEIGHTS,
    Candidate,
    PaperSearch,
    SuggestedTopic,
    SuggestionWeights,
    candidates_of,
    suggest_topic,
)

MAX_TOPICS = 5
MAX_AUTHORS = 5
LEAST_PAPERS = 3  #: minimum number of a library's papers in a suggested topic or by a suggested author
LEAST_SHARE = 0.05  #: minimum share of the library's papers in a topic
MAX_EXAMPLES = 30  #: maximum number of papers of a cluster from which the cluster's filter is made
MAX_SAMPLED = 200  #: maximum number of papers from whose phrases the first clusters are made
MAX_ROUNDS = 8  #: maximum number of k-means rounds

#: The weights of the roots of a text's words, keyed by root, as a vector of length 1.
Vector: TypeAlias = Mapping[str, float]


@dataclass(frozen=True, slots=True)
class LibraryTopic:
    """A topic suggested for a library, and the number of papers in the topic's cluster."""

    topic: SuggestedTopic
    papers: int


@dataclass(frozen=True, slots=True)
class FrequentAuthor:
    """An author of several papers of a library, and the filter that finds the author's papers."""

    name: str
    papers: int
    filter: Filter


@dataclass(frozen=True, slots=True)
class LibraryTopics:
    """The topics and authors that are suggested for a library, the most frequent first."""

    topics: tuple[LibraryTopic, ...]
    authors: tuple[FrequentAuthor, ...]


def suggest_from_library(
    library: Sequence[Paper], index: PaperIndex, weights: SuggestionWeights = WEIGHTS
) -> LibraryTopics:
    """Return topics and authors for the papers of a library; `index` contains the papers of the catalog."""
    if not library:
        return LibraryTopics((), ())
    library = sorted(library, key=lambda paper: (paper.id, paper.title))
    background = _background_of(library, index)
    by_title = {title_key(paper.title): number for number, paper in enumerate(background.papers)}
    numbers = [by_title[title_key(paper.title)] for paper in library]
    all_papers = bitsets.bitset_of(numbers)
    found: dict[str, LibraryTopic] = {}
    for cluster in clusters_of(library, background, weights):
        examples, others = cluster[:MAX_EXAMPLES], cluster[MAX_EXAMPLES:]
        share = max(weights.topic_share, len(others) / background.size)
        topic = suggest_topic(
            [library[number] for number in examples],
            index,
            replace(weights, topic_share=share),
            background=background,
            others=all_papers & ~bitsets.bitset_of([numbers[at] for at in cluster]),
        )
        found.setdefault(topic.name.casefold(), LibraryTopic(topic, len(cluster)))
    return LibraryTopics(tuple(found.values()), tuple(frequent_authors(library)))


def _background_of(library: Sequence[Paper], index: PaperIndex) -> PaperSearch:
    """Return an index of catalog and library, so that clauses can be tested on papers of other clusters."""
    known = {title_key(paper.title) for paper in index.papers}
    new = [paper for paper in library if title_key(paper.title) not in known]
    return JoinedIndexes(index, PaperIndex(new)) if new else index


class JoinedIndexes:
    """A combination of two indexes; the second index's papers are numbered after the first's."""

    def __init__(self, first: PaperIndex, second: PaperIndex):
        self.first, self.second = first, second
        self.papers: Sequence[Paper] = (*first.papers, *second.papers)
        self.size = first.size + second.size
        self.full = (1 << self.size) - 1

    def look_up(self, leaf: TextClause) -> int:
        """Return the set of papers that a clause matches."""
        return self.first.look_up(leaf) | self.second.look_up(leaf) << self.first.size

    def description_scores(self, leaf: DescriptionClause) -> Mapping[int, float]:
        """Return {paper: score} for a description."""
        others = self.second.description_scores(leaf)
        shifted = {number + self.first.size: score for number, score in others.items()}
        return {**self.first.description_scores(leaf), **shifted}

    def has_word(self, word: str) -> bool:
        """Return whether a folded word occurs in any paper."""
        return self.first.has_word(word) or self.second.has_word(word)


# ── clusters ────────────────────────────────────────────────────────────────────────────────────


def clusters_of(
    library: Sequence[Paper], index: PaperSearch, weights: SuggestionWeights = WEIGHTS
) -> list[list[int]]:
    """Return the paper numbers of each cluster; the largest cluster and the most typical papers are first."""
    vectors = _vectors(library)
    own = PaperIndex(library)
    sample = library[:: -(-len(library) // MAX_SAMPLED)]
    clusters = _seeds(candidates_of(sample, own, index), len(library), index.size, weights)
    for _ in range(MAX_ROUNDS):
        before = clusters
        clusters = _assigned(vectors, before)
        if clusters == before:
            break
    least = max(LEAST_PAPERS, LEAST_SHARE * len(library))
    large = [_typical_first(vectors, cluster) for cluster in clusters if len(cluster) >= least]
    return sorted(large, key=lambda cluster: (-len(cluster), cluster)) or [[*range(len(library))]]


def _seeds(
    candidates: Iterable[Candidate], papers: int, catalog: int, weights: SuggestionWeights
) -> list[list[int]]:
    """Return the initial papers of each cluster, which share one of the most informative phrases."""
    bits = {
        one: -math.log2((one.found.bit_count() + weights.unseen * one.usual) / (catalog + weights.unseen))
        for one in candidates
    }
    seeds: list[list[int]] = []
    rest = (1 << papers) - 1
    while bits and len(seeds) < MAX_TOPICS:
        best = max(
            bits,
            key=lambda one: ((one.examples & rest).bit_count() + (one.titles & rest).bit_count()) * bits[one],
        )
        added = best.examples & rest
        if added.bit_count() < max(LEAST_PAPERS, LEAST_SHARE * papers):
            break
        seeds.append(bitsets.members(added))
        rest &= ~added
    return seeds


def _vectors(library: Sequence[Paper]) -> list[Vector]:
    """Return a vector for each paper, with weights for the roots that at least two of the papers contain."""
    counts = [similar_papers.counted_roots(paper) for paper in library]
    papers_with = Counter(root for counted in counts for root in counted)
    return [
        _normal(
            {
                root: count
                / (count + 2)
                * word_rarity.bits(root)
                * math.log(1 + len(library) / papers_with[root])
                for root, count in counted.items()
                if papers_with[root] > 1
            }
        )
        for counted in counts
    ]


def _normal(weights: Mapping[str, float]) -> Vector:
    length = math.sqrt(sum(weight * weight for weight in weights.values()))
    return {root: weight / length for root, weight in weights.items()} if length else {}


def _centre(vectors: Sequence[Vector], cluster: Iterable[int]) -> Vector:
    total: defaultdict[str, float] = defaultdict(float)
    for number in cluster:
        for root, weight in vectors[number].items():
            total[root] += weight
    return _normal(total)


def _likeness(one: Vector, other: Vector) -> float:
    weight_of = other.get
    return sum([weight * weight_of(root, 0.0) for root, weight in one.items()])  # noqa: C419  (a list is faster)


def _assigned(vectors: Sequence[Vector], clusters: Sequence[Sequence[int]]) -> list[list[int]]:
    """Return the clusters after moving each paper to the cluster with the most similar centre."""
    centres = [_centre(vectors, cluster) for cluster in clusters]
    moved: list[list[int]] = [[] for _ in centres]
    for number, vector in enumerate(vectors):
        likeness = [_likeness(vector, centre) for centre in centres]
        if any(likeness):
            moved[likeness.index(max(likeness))].append(number)
    return moved


def _typical_first(vectors: Sequence[Vector], cluster: Sequence[int]) -> list[int]:
    centre = _centre(vectors, cluster)
    return sorted(cluster, key=lambda number: (-_likeness(vectors[number], centre), number))


# ── authors ─────────────────────────────────────────────────────────────────────────────────────


def frequent_authors(library: Sequence[Paper]) -> list[FrequentAuthor]:
    """Return up to five authors of at least three papers each, the most frequent first."""
    spellings: defaultdict[tuple[str, ...], Counter[str]] = defaultdict(Counter)
    for paper in library:
        for parts, author in {author_names.parts_of(author): author for author in paper.authors}.items():
            if len(parts) > 1:  # several people may share a name of one word
                spellings[parts][author] += 1
    frequent = [parts for parts, written in spellings.items() if written.total() >= LEAST_PAPERS]
    frequent.sort(key=lambda parts: (-spellings[parts].total(), parts))
    return [
        FrequentAuthor(
            name=min(spellings[parts], key=lambda author: (-spellings[parts][author], author)),
            papers=spellings[parts].total(),
            filter=parse(f'au:"{" ".join(parts)}"'),
        )
        for parts in frequent[:MAX_AUTHORS]
    ]
