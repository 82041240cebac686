"""Suggest a topic for a few papers: a name, and a filter of words and phrases that a person would write.

Many words that the examples share do not describe their subject, so the words are tested on the catalog. Each
paper of the catalog has a chance of belonging to the topic, estimated from its similarity to the examples.
Clauses are added to the filter while they raise its expected F1: twice the expected number of relevant papers
found, divided by the number of papers found plus the expected number of relevant papers.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from digest import bitsets, papers
from digest.papers import Paper
from digest.topics import acronyms, clauses, phrase_names, similar_papers, tokenizer, word_rarity, word_roots
from digest.topics.filter_parser import Filter, parse
from digest.topics.filter_tree import DescriptionClause, TextClause
from digest.topics.paper_index import PaperIndex
from digest.topics.tokenizer import WordParts

MAX_CLAUSES = 5  #: maximum number of clauses of a suggested filter
MAX_TITLE_WORDS = 8  #: maximum number of words of a clause made from a title without significant words
MAX_PHRASE = 3  #: maximum number of words of a phrase
MAX_CANDIDATES = 300  #: maximum number of words and phrases that are looked up in the catalog
MAX_USEFUL = 100  #: maximum number of single clauses from which filters are made, the best first
MAX_STARTS = 20  #: maximum number of single clauses that are tried as the first clause of a filter
MAX_ROOTS = 40  #: maximum number of roots by which papers are compared with the examples
LEAST_BITS = 5.0  #: minimum rarity of a phrase, in bits
LEAST_COMPOUND_BITS = 2.5  #: minimum rarity of a compound such as "in-context", in bits
SHORTEST_PREFIX = 5  #: minimum number of letters before a `*`
#: Words of abstracts that describe the publication, not its subject.
BOILERPLATE = frozenset(("http", "https", "www", "com", "github", "org", "arxiv", "publicly", "project"))
TITLE_SHARE = 1 / 15  #: estimated share of a paper's words that are in the title
STEPS = 32  #: chances are rounded to multiples of 1/32, so that many can be added at once


class PaperSearch(Protocol):
    """The part of an index that is needed to suggest a topic."""

    @property
    def papers(self) -> Sequence[Paper]:
        """The papers, in the order of their numbers."""
        ...

    @property
    def size(self) -> int:
        """The number of papers."""
        ...

    @property
    def full(self) -> int:
        """The set of all papers."""
        ...

    def look_up(self, leaf: TextClause, /) -> int:
        """Return the set of papers that a clause matches."""
        ...

    def description_scores(self, leaf: DescriptionClause, /) -> Mapping[int, float]:
        """Return {paper: score} for a description."""
        ...

    def has_word(self, word: str, /) -> bool:
        """Return whether a folded word occurs in any paper."""
        ...


@dataclass(frozen=True, kw_only=True, slots=True)
class SuggestionWeights:
    """The constants of a suggestion; `make bench ARGS=relevance` measures their effect."""

    topic_share: float = 0.03  #: assumed share of the catalog's papers that belong to a topic
    steepness: float = 14.0  #: how steeply the chance increases with the similarity to the examples
    example: float = 3.5  #: an example, or a paper of another topic, counts as this many papers
    #: assumed number of papers outside the catalog, with words as rare as in the fixed table
    unseen: float = 25.0
    extra_word: float = 0.02  #: minimum gain of expected F1 per additional word of a phrase
    least_gain: float = 0.03  #: minimum gain of expected F1 for which a clause is added


WEIGHTS = SuggestionWeights()


@dataclass(frozen=True, slots=True)
class SuggestedClause:
    """A clause of a suggested filter, with the numbers of papers that it finds."""

    clause: str  #: in canonical form
    examples: int  #: number of examples that the clause finds
    found: int  #: number of papers of the catalog that the clause finds
    added: int  #: number of papers of the catalog that this clause finds and no earlier clause finds


@dataclass(frozen=True, slots=True)
class SuggestedTopic:
    """A topic suggested for a few example papers: a name and a filter."""

    name: str
    filter: Filter
    clauses: tuple[SuggestedClause, ...]  #: the alternatives of the filter, the main one first
    missed: tuple[Paper, ...]  #: the examples that the filter does not find
    found: int  #: number of papers of the catalog that the filter finds


@dataclass(frozen=True, slots=True)
class Candidate:
    """A possible clause of a topic, with the sets of examples and of catalog papers that the clause finds."""

    clause: TextClause
    in_title: TextClause  #: the clause limited to titles
    examples: int
    titles: int  #: the examples whose titles contain the clause
    found: int
    usual: float  #: expected share of papers that contain the clause's words, from the fixed table


def suggest_topic(
    examples: Sequence[Paper],
    index: PaperIndex,
    weights: SuggestionWeights = WEIGHTS,
    *,
    background: PaperSearch | None = None,
    others: int = 0,
) -> SuggestedTopic:
    """Return a topic for `examples`, which may be any papers; `index` has the papers of the catalog.

    An example needs no abstract and need not be in the catalog. The order of the examples has no effect. The
    suggestion is not cached in `index`, which many visitors may therefore share. The clauses are tested on
    the papers of `background`, by default the papers of the catalog.
    `others` is the set of papers of `background` that are known not to belong to the topic.
    """
    examples = sorted(examples, key=lambda paper: (paper.id, paper.title))
    own = PaperIndex(examples)
    tested: PaperSearch = background or index
    candidates = candidates_of(examples, own, tested)
    candidates += [*_limited_to_titles(candidates, tested)]
    chosen = _choose(candidates, _Chances(examples, others, tested, weights), weights)
    if not chosen:
        chosen = (_title_clause(examples, own, tested),)
    filter_ = parse(" OR ".join([one.clause.canonical for one in chosen]))
    reported = tuple(_reported(chosen, index))
    missed = own.full
    for one in chosen:
        missed &= ~one.examples
    return SuggestedTopic(
        name=phrase_names.name_of([one.clause for one in chosen], examples),
        filter=filter_,
        clauses=reported,
        missed=tuple([examples[number] for number in bitsets.members(missed)]),
        found=sum(clause.added for clause in reported),
    )


def _reported(chosen: Iterable[Candidate], index: PaperIndex) -> Iterator[SuggestedClause]:
    before = 0
    for one in chosen:
        found = index.look_up(one.clause)
        yield SuggestedClause(
            one.clause.canonical,
            one.examples.bit_count(),
            found.bit_count(),
            (found & ~before).bit_count(),
        )
        before |= found


# ── the chance that a paper belongs to the topic ────────────────────────────────────────────────


class _Chances:
    """The estimated chance that each catalog paper belongs to the same topic as the examples."""

    def __init__(
        self, examples: Sequence[Paper], others: int, index: PaperSearch, weights: SuggestionWeights
    ):
        described = common_words([similar_papers.counted_roots(paper) for paper in examples])
        scores = index.description_scores(described)
        keys = {papers.title_key(paper.title) for paper in examples}
        own = {number for number in scores if papers.title_key(index.papers[number].title) in keys}
        self.examples = bitsets.bitset_of(own)
        self.number_of_examples = len(examples)
        self.others = others & ~self.examples  #: the set of papers known not to belong to the topic
        unknown = {number: score for number, score in scores.items() if number not in own}
        even = _even_score(unknown.values(), weights.topic_share * index.size)
        chances = {number: _chance(score / even, weights.steepness) for number, score in unknown.items()}
        steps_by_number = {
            number: round(chance * STEPS)
            for number, chance in chances.items()
            if not self.others >> number & 1
        }
        #: Each binary digit of the chances: its value, and the papers whose chance has the digit 1.
        self._digits = [
            (
                2**digit / STEPS,
                bitsets.bitset_of([n for n, steps in steps_by_number.items() if steps >> digit & 1]),
            )
            for digit in range(STEPS.bit_length())
        ]
        self.total = self.of(index.full)

    def of(self, found: int) -> float:
        """Return the expected number of relevant papers in a set, not counting the examples."""
        total = 0.0
        for value, having in self._digits:
            total += value * (found & having).bit_count()
        return total


def _even_score(scores: Collection[float], size: float) -> float:
    """Return the score at which the chance of belonging to a topic of `size` papers is one half."""
    ranked = sorted(scores, reverse=True)
    return ranked[min(len(ranked) - 1, int(size))] if ranked else 1.0


def _chance(ratio: float, steepness: float) -> float:
    return 1 / (1 + math.exp(min(50.0, steepness * (1 - ratio))))


def common_words(counts: Sequence[Mapping[str, int]]) -> DescriptionClause:
    """Return the weighted roots of papers; a root's weight grows with the number of papers that have it."""
    shared = Counter(root for counted in counts for root in counted)
    strength = {
        root: number
        / len(counts)
        * sum(counted[root] / (counted[root] + 2) for counted in counts if root in counted)
        for root, number in shared.items()
    }
    best = sorted(strength, key=lambda root: (-strength[root] * word_rarity.bits(root), root))[:MAX_ROOTS]
    times = tuple([max(1, round(100 * strength[root] / len(counts))) for root in best])
    return DescriptionClause(tuple(best), tuple(best), times, "")


# ── clauses ─────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class _Choice:
    """The clauses chosen so far, the expected F1 of their filter, and the numbers that determine this F1."""

    chosen: tuple[Candidate, ...] = ()
    f1: float = 0.0
    hits: float = 0.0  #: expected number of relevant papers found
    size: float = 0.0  #: expected number of papers found
    examples: int = 0
    found: int = 0


def _choose(
    candidates: Sequence[Candidate], chances: _Chances, weights: SuggestionWeights
) -> tuple[Candidate, ...]:
    """Return the clauses that together have the highest expected F1, the best clause first.

    Several of the best clauses are tried as the first clause, since the best pair may not include the best
    single clause. Further clauses are added one by one.
    """
    alone = [_extended(_Choice(), one, chances, weights) for one in candidates]
    useful = sorted(alone, key=lambda choice: -choice.f1)[:MAX_USEFUL]
    in_order = [choice.chosen[0] for choice in useful]
    tried = [_completed(choice, in_order, chances, weights) for choice in useful[:MAX_STARTS]]
    best = max(tried, key=lambda choice: choice.f1, default=_Choice())
    return tuple([one for one in in_order if one in best.chosen])


def _completed(
    choice: _Choice, candidates: Sequence[Candidate], chances: _Chances, weights: SuggestionWeights
) -> _Choice:
    """Return `choice` with more clauses; each step adds the clause that raises the expected F1 most."""
    while len(choice.chosen) < MAX_CLAUSES:
        best = max((_extended(choice, one, chances, weights) for one in candidates), key=lambda more: more.f1)
        if best.f1 < choice.f1 + weights.least_gain:
            break
        choice = best
    return choice


def _extended(choice: _Choice, one: Candidate, chances: _Chances, weights: SuggestionWeights) -> _Choice:
    own = weights.example * (one.examples & ~choice.examples).bit_count()
    added = one.found & ~choice.found & ~chances.examples
    hits = choice.hits + own + chances.of(added)
    wrong = (weights.example - 1) * (added & chances.others).bit_count()
    size = choice.size + own + added.bit_count() + wrong + weights.unseen * one.usual
    total = chances.total + weights.example * chances.number_of_examples
    return _Choice(
        (*choice.chosen, one),
        2 * hits / (size + total)
        - weights.extra_word * sum(len(each.clause.tokens) - 1 for each in (*choice.chosen, one)),
        hits,
        size,
        choice.examples | one.examples,
        choice.found | one.found,
    )


def candidates_of(examples: Sequence[Paper], own: PaperIndex, index: PaperSearch) -> list[Candidate]:
    """Return the words and phrases that may describe the examples, the most common first.

    Each of them meets at least two of these conditions: it is in a title; it is in several examples; it is a
    phrase. If no word or phrase meets two, all significant words and phrases of the titles are returned.
    """
    counted = Counter(written for paper in examples for written in set(_spellings(paper)))
    in_title = {written for paper in examples for written in _phrases(_parts(paper.title))}
    fitting = [
        written
        for written, count in counted.items()
        if (written in in_title) + (count > 1) + (written[0] == '"') >= 2
    ]
    eligible = fitting or [*in_title]
    eligible.sort(key=lambda written: (-counted[written], written not in in_title, len(written), written))
    plain = [written for written in eligible if not _begins_as_another_word(written, index)]
    return [_candidate(written, own, index) for written in plain[:MAX_CANDIDATES]]


def _begins_as_another_word(written: str, index: PaperSearch) -> bool:
    """Return whether a prefix is itself a word of the catalog, which means that the prefix is too short."""
    return written[0] != '"' and written[-1] == "*" and index.has_word(written[:-1])


def _candidate(written: str, own: PaperIndex, index: PaperSearch) -> Candidate:
    quoted = written[0] == '"'
    leaf = clauses.text_clause("tiab", written.strip('"'), quoted=quoted)
    in_title = clauses.text_clause("ti", written.strip('"'), quoted=quoted)
    return Candidate(
        leaf, in_title, own.look_up(leaf), own.look_up(in_title), index.look_up(leaf), usual_share(leaf)
    )


def _limited_to_titles(candidates: Iterable[Candidate], index: PaperSearch) -> Iterator[Candidate]:
    """Yield the title-only form of each clause that is in several titles, if that form finds fewer papers."""
    for one in candidates:
        if one.titles.bit_count() > 1 and (found := index.look_up(one.in_title)) != one.found:
            yield Candidate(
                one.in_title, one.in_title, one.titles, one.titles, found, one.usual * TITLE_SHARE
            )


def usual_share(clause: TextClause) -> float:
    """Estimate the share of papers that contain a clause's words, from the fixed table of word rarity."""
    bits = [word_rarity.bits(word_roots.root(token.rstrip("*").lower())) for token in clause.tokens]
    return 2.0 ** -min(sum(bits), 2 * word_rarity.RAREST)


def _title_clause(examples: Sequence[Paper], own: PaperIndex, index: PaperSearch) -> Candidate:
    """Return a clause for examples without significant words: the first title with words, or `untitled`."""
    for paper in examples:
        words = [word for word in _parts(paper.title).folded if 0 < len(word) < similar_papers.LONGEST_WORD]
        if words:
            return _candidate(f'"{" ".join(words[:MAX_TITLE_WORDS])}"', own, index)
    return _candidate('"untitled"', own, index)


# ── spellings ───────────────────────────────────────────────────────────────────────────────────


def _parts(text: str) -> WordParts:
    return tokenizer.read(papers.display(text))


def _spellings(paper: Paper) -> Iterator[str]:
    yield from _phrases(_parts(paper.title))
    yield from _phrases(_parts(paper.abstract))


def _phrases(row: WordParts) -> Iterator[str]:
    """Yield the significant words and phrases of a text, spelled as clauses."""
    for start in range(len(row.folded)):
        is_outside = row.folded[start] in phrase_names.OUTSIDE or row.folded[start] in BOILERPLATE
        if is_outside and row.glue[start : start + 1] != "-":
            continue
        if similar_papers.is_significant(row.folded[start]):
            yield from _word_spellings(row, start)
        for end in range(start + 2, min(start + MAX_PHRASE, len(row.folded)) + 1):
            if _is_phrase(row, start, end):
                yield from _phrase_spellings(row, start, end)


def _is_phrase(row: WordParts, start: int, end: int) -> bool:
    """Return whether the words may describe a subject and neither begin nor end inside a compound."""
    words, glue = row.folded[start:end], row.glue[start : end - 1]
    is_cut = row.glue[start - 1 : start] == "-" or row.glue[end - 1 : end] == "-"
    if is_cut or "," in glue or any(len(word) >= similar_papers.LONGEST_WORD for word in words):
        return False
    if not glue.strip("-"):  # a compound, such as "in-context"
        return all(word.isalpha() for word in words) and _bits(words) >= LEAST_COMPOUND_BITS
    return all(map(similar_papers.is_significant_in_pair, words)) and _bits(words) >= LEAST_BITS


def _bits(words: Iterable[str]) -> float:
    return sum(word_rarity.bits(word_roots.root(word)) for word in words)


def _word_spellings(row: WordParts, at: int) -> Iterator[str]:
    if acronyms.is_acronym(row.surfaces[at]):
        yield row.surfaces[at].rstrip("s")
        return
    stem, root = tokenizer.stem(row.folded[at]), word_roots.root(row.folded[at])
    yield stem
    if root != stem and len(root) >= SHORTEST_PREFIX:
        yield f"{root}*"


def _phrase_spellings(row: WordParts, start: int, end: int) -> Iterator[str]:
    words = [_as_typed(row, start)]
    for at in range(start + 1, end):
        words += ["-" if row.glue[at - 1] == "-" else " ", _as_typed(row, at)]
    *head, last = words
    stem, root = tokenizer.stem(last), word_roots.root(last)
    beginning = "".join(head)
    if not last.startswith(stem) or len(stem) < SHORTEST_PREFIX - 1:
        yield f'"{beginning}{last}"'
        return
    yield f'"{beginning}{stem}*"'
    if root != stem and stem.startswith(root):
        yield f'"{beginning}{root}*"'


def _as_typed(row: WordParts, at: int) -> str:
    """Return the word at index `at`: an acronym as typed, any other word folded."""
    return row.surfaces[at] if acronyms.is_acronym(row.surfaces[at]) else row.folded[at]
