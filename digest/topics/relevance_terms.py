"""Show the arithmetic of a score: the terms whose sum is the relevance of a paper."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain

from digest.topics import about_clauses, relevance, tokenizer
from digest.topics.filter_parser import Filter
from digest.topics.filter_tree import ExampleClause, TextClause
from digest.topics.paper_index import FIELDS, PaperIndex, fields_of


@dataclass(frozen=True, slots=True)
class RelevanceTerm:
    """A summand of a score."""

    words: str  #: the clause, or a word or pair of words of a description
    value: float
    arithmetic: str  #: the formula from which the value is computed


def score_terms(
    index: PaperIndex, filter_: Filter, numbers: Iterable[int]
) -> Mapping[int, tuple[RelevanceTerm, ...]]:
    """Return {paper: terms} for these papers; the terms of a paper add up to its relevance.

    The relevance of a paper is the paper's total divided by the best match's total, so each term is also
    divided by the best match's total.
    """
    totals = index.totals(filter_, index.matches(filter_))
    best = max(totals, default=0.0)
    clauses = [*relevance.weighted_clauses(filter_.tree, index.weights.other_name)]
    if not best:
        constant = RelevanceTerm("", relevance.WORDLESS_SCORE, "the filter has no words that can be counted")
        return dict.fromkeys(numbers, (constant,))
    return {
        number: tuple(
            chain.from_iterable(_terms(index, leaf, weight, number, best) for leaf, weight in clauses)
        )
        for number in numbers
    }


def _terms(
    index: PaperIndex, leaf: relevance.ScoredClause, weight: float, number: int, best: float
) -> Iterator[RelevanceTerm]:
    if not any(papers >> number & 1 for _, papers in index.scored_sets(leaf)):
        return
    times = "" if weight == 1 else f"{weight:.4g} × "
    share = f"{times}{{}} ÷ {best:.4g}" if best != 1 else f"{times}{{}}"
    for words, value, formula in _summands(index, leaf, number):
        yield RelevanceTerm(words, weight * value / best, share.format(formula))


def _summands(
    index: PaperIndex, leaf: relevance.ScoredClause, number: int
) -> Iterator[tuple[str, float, str]]:
    """Yield (words, value, formula) for a clause, or for each root and pair of roots of a description."""
    described = index.descriptions
    if isinstance(leaf, TextClause):
        yield leaf.canonical, *_occurrences(index, leaf, number)
    elif isinstance(leaf, ExampleClause):
        value = described.scores(leaf)[number]
        yield leaf.canonical, value, f"{value:.4g} similarity to the nearest examples"
    else:
        whole = about_clauses.bits_of(leaf.roots)
        written = {tokenizer.root(word): word for word in reversed(leaf.words)}
        for phrase, bits in about_clauses.bits_of_phrases(leaf.roots).items():
            if frequency := described.mentions(phrase).get(number, 0.0):
                share = described.weights.score(frequency, described.lengths[number])
                yield (
                    " ".join(written.get(root, root) for root in phrase),
                    bits * share / whole,
                    f"{bits:.4g} bits × {frequency:g} ÷ {frequency / share:.4g} ÷ {whole:.4g} bits",
                )


def _occurrences(index: PaperIndex, leaf: TextClause, number: int) -> tuple[float, str]:
    """Return the score of a text clause for a paper, and the formula of the score."""
    counts, weights = index.texts.counts(leaf), index.weights
    found = {
        place: counts[place * index.size + number]
        for place in fields_of(leaf)
        if counts.get(place * index.size + number)
    }
    in_title = found.pop(0, 0)
    elsewhere = sum(found.values())
    shown = [f"{in_title} in title × {weights.title:g}"] if in_title else []
    shown += [f"{count} in {FIELDS[place]}" for place, count in found.items()]
    total = weights.title * in_title + elsewhere
    formula = f"({' + '.join(shown)}) ÷ ({total:g} + {weights.saturation:g})"
    return weights.score(in_title, elsewhere), formula
