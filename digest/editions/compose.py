"""Choose the papers for one edition of one subscriber's digest.

Papers are numbered by trending rank (0 is the most trending). A set of papers is an integer with one
bit for each paper. The matches of a filter are sorted once for all its subscribers.

* A paper can be in the digest only if a topic matches it; trending and relevance only order the papers.
* Within a topic, papers are ordered by **worth**: first by the band of their relevance, then by the trending
  score in bits. There are `RELEVANCE_BANDS` bands of equal width. Votes decide the order within a band, but
  never put a paper before a paper of a higher band.
* Papers are picked in rounds: in each round every topic picks its best remaining paper. A broad topic
  therefore cannot displace the papers of other topics. If the last round has more picks than fit, the
  picks with the highest worth are kept.
* A paper is shown once, under the topic for which it has the highest relevance.
"""

from __future__ import annotations

from array import array
from collections.abc import Collection, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from dataclasses import replace as replace_fields
from itertools import chain, groupby
from types import MappingProxyType
from typing import NamedTuple

from msgspec import MsgspecError, Struct, json
from msgspec.structs import replace

from digest.papers import bitsets
from digest.papers.bitsets import ScoredSets

TRENDING_TOPIC = "Trending"
MAX_PAPERS = 50  #: maximum number of papers of a digest, whose title lines then always fit a letter
RELEVANCE_BANDS = 6  #: number of relevance bands; within a band, the trending score decides the order
BAND_BITS = 64.0  #: number of bits between two bands, more than any difference between trending scores
#: Number of bits that a relevance of 1 adds, to order papers of one band with equal trending scores.
TIE_BITS = 1 / 1024
NO_RELEVANCE = -1.0  #: the relevance of a paper that was chosen without a filter
ALREADY_SHOWN = -1  #: stored instead of a topic's position for a paper already shown, which no topic may pick
#: Number of bits subtracted from the worth of a paper if one of its near-duplicates has a higher worth.
DUPLICATE_PENALTY_BITS = 2.0

#: Number of a topic's best papers that are sorted first and cached, in an array to save memory.
FIRST_CANDIDATES = 16
MAX_ELIGIBLE_SETS = 64  #: maximum number of eligible sets for which a filter's first candidates are cached
NO_DUPLICATES: Mapping[int, int] = MappingProxyType({})


class Section(NamedTuple):
    """The papers under one topic, best first; `filter_id` is None if the topic has no filter."""

    topic: str
    filter_id: int | None
    papers: tuple[int, ...]  #: paper ids
    more: int = 0  #: number of papers that match the topic but did not fit


class FollowUp(NamedTuple):
    """An update to a paper that was sent to the reader earlier; the update does not show the paper again."""

    paper: int
    kind: str  #: withdrawn, published or rewritten
    title: str
    detail: str  #: the journal, the previous title or the reason for the withdrawal


class Digest(Struct, frozen=True, kw_only=True, omit_defaults=True, rename={"is_catch_up": "catch_up"}):
    """The content of a digest as stored with its delivery: the papers in reading order, grouped by topic."""

    sections: tuple[Section, ...]
    checked: int  #: number of papers considered for this edition
    #: whether this is the first digest after a pause, and covers three days or more
    is_catch_up: bool = False
    matched: int = 0  #: in a catch-up, the number of papers that matched, including the papers shown
    news: tuple[FollowUp, ...] = ()  #: updates to papers of earlier digests
    asks_still_reading: bool = False  #: whether to ask "Still reading?"
    abstracts: str = "short"  #: the length of abstracts that the reader chose: "titles", "short" or "full"
    others: tuple[
        str, ...
    ] = ()  #: the topics without a section whose papers other topics show, or did not fit
    silent: tuple[str, ...] = ()  #: the topics that no new paper matched

    @property
    def papers(self) -> tuple[int, ...]:
        """Return every paper id, in reading order."""
        return tuple([paper for section in self.sections for paper in section.papers])

    @property
    def size(self) -> int:
        """Return the number of papers in the digest."""
        return sum([len(section.papers) for section in self.sections])  # noqa: C419  (a list is faster)

    def without(self, papers: Container[int]) -> Digest:
        """Return the digest without these papers, and without the sections that become empty."""
        kept = [
            each._replace(papers=tuple(number for number in each.papers if number not in papers))
            for each in self.sections
        ]
        return replace(self, sections=tuple(each for each in kept if each.papers))

    def to_json(self) -> str:
        """Return the compact JSON that the outbox stores, without default values."""
        return encode_digest(self).decode()

    @classmethod
    def from_json(cls, text: str) -> Digest:
        """Parse the JSON that `to_json` returned; raise ValueError if it is invalid."""
        try:
            return decode_digest(text)
        except MsgspecError as error:
            raise ValueError(f"not a stored digest: {error}") from error


encode_digest, decode_digest = json.Encoder().encode, json.Decoder(Digest).decode


@dataclass(frozen=True, slots=True)
class RankedMatches:
    """The matches of one filter, grouped once for all its subscribers.

    Papers are numbered by trending rank, so in a set of papers of equal relevance the lowest numbers are the
    best. Papers are sorted only as far as a digest needs them.
    """

    matches: int  #: the set of matching paper numbers
    by_relevance: ScoredSets  #: the same papers by their relevance, 0 to 1, highest first
    scores: Sequence[float]  #: the trending scores by paper number, highest first
    demoted: int = 0  #: the set of near-duplicates whose worth was reduced
    cache: dict[int, array[int]] = field(default_factory=dict, repr=False, compare=False)

    def relevance_of(self, paper: int, at_least: float = NO_RELEVANCE) -> float:
        """Return the relevance of the one paper in the set `paper`.

        Return `NO_RELEVANCE` if the paper has none, or if its relevance is below `at_least`.
        """
        for relevance, papers in self.by_relevance:
            if relevance < at_least:
                break
            if papers & paper:
                return relevance
        return NO_RELEVANCE

    def worth(self, number: int) -> float:
        """Return the worth of a matching paper, in bits."""
        paper = 1 << number
        bits = relevance_bits(
            self.by_relevance[0][0] if len(self.by_relevance) == 1 else self.relevance_of(paper)
        )
        worth = bits + self.scores[number]
        return worth - DUPLICATE_PENALTY_BITS if self.demoted & paper else worth

    def eligible_order(self, eligible: int) -> tuple[int, ...]:
        """Return the eligible papers, highest worth first."""
        return tuple(self.sort(eligible, self.matches.bit_count()))

    def candidates(self, eligible: int) -> Iterator[int]:
        """Yield the eligible papers, highest worth first; cache the first `FIRST_CANDIDATES` of them.

        Many readers have the same eligible set, and few need more than the first papers.
        """
        first = self.cache.get(eligible)
        if first is None:
            if len(self.cache) >= MAX_ELIGIBLE_SETS:
                self.cache.clear()
            first = self.cache[eligible] = array("I", self.sort(eligible, FIRST_CANDIDATES))
        return iter(first) if len(first) < FIRST_CANDIDATES else chain(first, self.others(eligible))

    def others(self, eligible: int) -> Iterator[int]:
        """Yield the eligible papers after the first `FIRST_CANDIDATES`, highest worth first."""
        yield from self.eligible_order(eligible)[FIRST_CANDIDATES:]

    def sort(self, eligible: int, most: int) -> list[int]:
        """Return up to `most` eligible papers, highest worth first.

        Papers of equal worth are ordered by trending rank.
        """
        best: list[int] = []
        for _, sets in groupby(self.by_relevance, band_of):
            best += self.sort_band([*sets], eligible, most - len(best))
            if len(best) >= most:
                break
        return best[:most]

    def sort_band(self, sets: ScoredSets, eligible: int, most: int) -> list[int]:
        """Return the best eligible papers of one band, at least `most` unless the band has fewer."""
        if len(sets) == 1 and not self.demoted:
            return bitsets.lowest_members(sets[0][1] & eligible, most)
        worth: dict[int, float] = {}
        for relevance, papers in sets:
            bits = relevance_bits(relevance)
            for number in bitsets.lowest_members(papers & eligible & ~self.demoted, most):
                worth[number] = bits + self.scores[number]
            for number in bitsets.members(papers & eligible & self.demoted):
                worth[number] = bits + self.scores[number] - DUPLICATE_PENALTY_BITS
        return sorted(sorted(worth), key=worth.__getitem__, reverse=True)


class RequestedTopic(Struct, frozen=True, gc=False):
    """A subscriber's topic with its ranked matches.

    A million digests create millions of topics, and a struct is the fastest class to create.
    """

    topic: str
    filter_id: int | None
    matches: RankedMatches


def rank_sets(
    by_relevance: ScoredSets, scores: Sequence[float], near_duplicates: Mapping[int, int] = NO_DUPLICATES
) -> RankedMatches:
    """Rank the matches of a filter by worth; `by_relevance` groups the matches, highest relevance first.

    `scores` are the trending scores by paper number, highest first. `near_duplicates` maps a paper number to
    the set of its near-duplicates. A match loses `DUPLICATE_PENALTY_BITS` if one of its near-duplicates also
    matches and has a higher worth.
    """
    matches = (
        by_relevance[0][1] if by_relevance else 0
    )  # most filters have one set of equal relevance, which need not be copied
    for _, papers in by_relevance[1:]:
        matches |= papers
    ranked = RankedMatches(matches, by_relevance, scores)
    alike = [
        number for number, others in near_duplicates.items() if matches >> number & 1 and matches & others
    ]
    if not alike:
        return ranked
    placed = demoted = 0
    for number in sorted(alike, key=lambda number: (-ranked.worth(number), number)):
        if near_duplicates[number] & placed:
            demoted |= 1 << number
        placed |= 1 << number
    return replace_fields(ranked, demoted=demoted)


#: A little more than a sixth, so that a relevance of 1 is in the last band.
_BAND_WIDTH = 1 / RELEVANCE_BANDS + 1e-9


def relevance_bits(relevance: float) -> float:
    """Return the worth of a relevance in bits: the bits of its band, plus a fraction that breaks ties."""
    if relevance == NO_RELEVANCE:
        return 0.0
    return relevance // _BAND_WIDTH * BAND_BITS + relevance * TIE_BITS


def band_of(scored: tuple[float, int]) -> float:
    """Return the relevance band of a pair (relevance, papers)."""
    return scored[0] // _BAND_WIDTH


def rank_all(scores: Sequence[float], near_duplicates: Mapping[int, int] = NO_DUPLICATES) -> RankedMatches:
    """Return all papers in trending order, for subscribers without a topic."""
    return rank_sets([(NO_RELEVANCE, (1 << len(scores)) - 1)], scores, near_duplicates)


def compose(
    topics: Sequence[RequestedTopic],
    *,
    eligible: int,
    ids: Sequence[int],
    shown: Collection[int] = frozenset(),
    max_papers: int = 10,
) -> tuple[Section, ...]:
    """Return the sections of one subscriber's digest, in the order of their topics.

    `eligible` is the set of paper numbers that may be shown, `shown` contains the numbers of papers already
    shown, and `ids[number]` is a paper's id. One topic may fill the digest if no other matches.
    """
    picked = pick_papers(topics, eligible, shown, max_papers)
    if not picked:
        return ()
    found = bitsets.bitset_of(picked)
    by_topic = assign_to_topics(topics, picked, found)
    left = eligible & ~(found | bitsets.bitset_of(shown)) if shown else eligible & ~found
    return tuple(
        [
            Section(
                requested.topic,
                requested.filter_id,
                tuple(map(ids.__getitem__, own)),
                (requested.matches.matches & left).bit_count(),
            )
            for requested, own in zip(topics, by_topic, strict=True)
            if own
        ]
    )


def pick_papers(
    topics: Sequence[RequestedTopic], eligible: int, shown: Collection[int], max_papers: int
) -> dict[int, int]:
    """Return {paper number: position of the topic that picked the paper}.

    In each round every topic picks its best remaining paper. If the last round has more picks than fit, the
    picks with the highest worth are kept.
    """
    picked = dict.fromkeys(shown, ALREADY_SHOWN)
    full, before_round = len(picked) + max_papers, -1
    candidates = [requested.matches.candidates(eligible) for requested in topics]
    while before_round < len(picked) < full:
        before_round = len(picked)
        for at, numbers in enumerate(candidates):
            for number in numbers:
                if number not in picked:
                    picked[number] = at
                    break
    if len(picked) > full:
        last = list(picked.items())[before_round:]
        worth = {number: topics[at].matches.worth(number) for number, at in last}
        for number in sorted(worth, key=worth.__getitem__, reverse=True)[full - before_round :]:
            del picked[number]
    for number in shown:
        del picked[number]
    return picked


def assign_to_topics(
    topics: Sequence[RequestedTopic], picked: Mapping[int, int], found: int
) -> list[list[int]]:
    """Assign each picked paper to its best topic; return each topic's paper numbers by decreasing worth.

    `found` is the set of the picked numbers. Most papers match only the topic that picked them; these papers
    are already sorted.
    """
    by_topic: list[list[int]] = [[] for _ in topics]
    for number, at in picked.items():
        by_topic[at].append(number)
    ambiguous, changed = found & matched_by_several(topics), set()
    for number in bitsets.members(ambiguous):
        picked_by = picked[number]
        best = best_topic(number, picked_by, topics)
        if best != picked_by:
            by_topic[picked_by].remove(number)
            by_topic[best].append(number)
            changed.add(best)
    for at in changed:
        if len(by_topic[at]) > 1:
            worth = topics[at].matches.worth
            by_topic[at].sort(key=lambda number: (-worth(number), number))
    return by_topic


def topics_without_section(
    topics: Sequence[RequestedTopic], sections: Sequence[Section], eligible: int, shown: Collection[int]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the names of the topics without a section: those that a new paper matched, and the others."""
    if len(sections) == len(topics):
        return (), ()
    new, present = eligible & ~bitsets.bitset_of(shown), {section.topic for section in sections}
    absent = [one for one in topics if one.topic not in present]
    matched = [one.topic for one in absent if one.matches.matches & new]
    return tuple(matched), tuple(one.topic for one in absent if one.topic not in matched)


def count_matching(topics: Sequence[RequestedTopic], eligible: int, shown: Collection[int]) -> int:
    """Return the number of eligible papers that match these topics, including those that do not fit."""
    matching = 0
    for requested in topics:
        matching |= requested.matches.matches
    return (matching & eligible & ~bitsets.bitset_of(shown)).bit_count()


def matched_by_several(topics: Sequence[RequestedTopic]) -> int:
    """Return the set of paper numbers that more than one topic matches."""
    seen = twice = 0
    for requested in topics:
        twice |= seen & requested.matches.matches
        seen |= requested.matches.matches
    return twice


def best_topic(number: int, chosen_by: int, topics: Sequence[RequestedTopic]) -> int:
    """Return the position of the topic for which a paper has the highest relevance.

    If several topics have the same highest relevance, the first of them is returned.
    """
    paper = 1 << number
    best_at, best = chosen_by, topics[chosen_by].matches.relevance_of(paper)
    for at, requested in enumerate(topics):
        ranked = requested.matches
        if ranked.matches & paper and at != chosen_by:
            relevance = ranked.relevance_of(paper, best)
            if relevance > best or (relevance == best > NO_RELEVANCE and at < best_at):
                best_at, best = at, relevance
    return best_at
