"""Propose clauses that make a topic match fewer or more papers like a given paper.

Making a proposal does not change the topic. A proposal consists of the clause, the filter with the
clause, and the recent papers that the clause would drop or add.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import date

from digest import errors
from digest.papers import Paper, display
from digest.topics import tokenizer
from digest.topics.filter_backtest import compare_filters
from digest.topics.filter_parser import Filter, parse
from digest.topics.filter_tree import Or
from digest.topics.paper_index import PaperIndex
from digest.topics.similar_papers import pairs, significant_words

MAX_PROPOSALS = 3
MAX_WORD_PROPOSALS = 2  #: maximum number of proposals of words; the others are authors or categories
MAX_DROPPED_SHARE = 0.25  #: maximum share of a topic's papers that an exclusion may drop
MIN_DROPPED = 2  #: number of papers that an exclusion may drop even if they are a larger share
#: An addition may add at most this share of all papers, and at most as many papers as the topic has.
MAX_ADDED_SHARE = 0.2
MAX_ADDED_FEW = 5  #: number of papers that an addition may add even if it exceeds one of these limits
TITLE_WEIGHT = 2.0  #: factor for the weight of a word that is in the title
PHRASE_WEIGHT = 1.5  #: factor for the weight of a pair of words
CATEGORY = re.compile(
    r"[A-Za-z]+(?:-[A-Za-z]+)?(?:\.[A-Za-z-]+)?"
)  #: pattern of a subject class such as cs.LG
#: Factors for the weight of a clause that drops or adds no paper, one paper, and several papers.
CHANGED_WEIGHTS = (0.05, 0.5, 1.0)


@dataclass(frozen=True, kw_only=True, slots=True)
class ClauseProposal:
    """A clause to add to a filter, and the papers of past days that the clause would drop or add."""

    clause: str  #: the clause with its operator: `ANDNOT medical`, `OR "flow matching"`
    filter: str  #: the filter after the clause is added
    papers: int  #: number of papers that the filter matched without the clause
    changed: tuple[int, ...]  #: paper numbers of the dropped or added papers, latest day first


@dataclass(frozen=True, slots=True)
class _Candidate:
    clause: str
    weight: float
    changed: int  #: the set of papers that the clause drops or adds


def propose_exclusions(
    written: str, filter_: Filter, paper: Paper, index: PaperIndex, days: Sequence[date]
) -> tuple[ClauseProposal, ...]:
    """Return clauses that exclude `paper` and few other papers of a topic, the most informative first.

    `written` is the filter as its owner wrote it, and `filter_` its resolved form.
    """
    matches = index.matches(filter_)
    limit = min(
        max(MIN_DROPPED, int(MAX_DROPPED_SHARE * matches.bit_count())), max(1, matches.bit_count() - 1)
    )

    def found(clauses: Iterable[str]) -> list[_Candidate]:
        others = (clause for clause in clauses if clause.strip('"*').lower() not in written.lower())
        return _weighted(others, paper, index, lambda one: matches & index.matches(one), limit=limit)

    chosen = _distinct(found(_words(paper)), found([*_categories(paper), *_authors(paper)]))
    return tuple(_proposals(written, filter_, "ANDNOT", chosen, index, days))


def propose_additions(
    written: str, filter_: Filter, paper: Paper, index: PaperIndex, days: Sequence[date]
) -> tuple[ClauseProposal, ...]:
    """Return clauses that would add `paper` and similar papers to a topic, the most informative first.

    `written` is the filter as its owner wrote it, and `filter_` its resolved form.
    """
    matches = index.matches(filter_)
    limit = max(MAX_ADDED_FEW, min(matches.bit_count(), int(MAX_ADDED_SHARE * index.size)))

    def found(clauses: Iterable[str]) -> list[_Candidate]:
        candidates = _weighted(clauses, paper, index, lambda one: index.matches(one) & ~matches, limit=limit)
        return [one for one in candidates if one.changed]

    chosen = _distinct(found(_words(paper)), found(_authors(paper)))
    return tuple(_proposals(written, filter_, "OR", chosen, index, days))


def _proposals(
    written: str,
    filter_: Filter,
    operator: str,
    chosen: Sequence[_Candidate],
    index: PaperIndex,
    days: Sequence[date],
) -> Iterator[ClauseProposal]:
    """Yield a proposal for each clause that does not make the filter too long."""
    for one in chosen:
        with suppress(errors.BadFilter):
            yield _proposal(written, filter_, operator, one.clause, index, days)


def _proposal(
    written: str, filter_: Filter, operator: str, clause: str, index: PaperIndex, days: Sequence[date]
) -> ClauseProposal:
    excludes = operator == "ANDNOT"
    is_alternative = isinstance(filter_.tree, Or)
    before = f"({written})" if excludes and is_alternative else written
    changed = parse(f"({filter_.canonical}) {operator} {clause}")
    compared = compare_filters(filter_, changed, index, days)
    return ClauseProposal(
        clause=f"{operator} {clause}",
        filter=f"{before} {operator} {clause}",
        papers=index.matches(filter_).bit_count(),
        changed=compared.lost if excludes else compared.gained,
    )


def _weighted(
    clauses: Iterable[str],
    paper: Paper,
    index: PaperIndex,
    changed_by: Callable[[Filter], int],
    *,
    limit: int,
) -> list[_Candidate]:
    """Return the clauses that match `paper` and drop or add at most `limit` papers, highest weight first."""
    own, found = PaperIndex((paper,)), []
    for name in dict.fromkeys(clauses):
        try:
            clause = parse(name)
            changed = changed_by(clause)
        except errors.BadFilter:
            continue
        if own.matches(clause) and changed.bit_count() <= limit:
            found.append(_Candidate(name, _weight(name, clause, changed, own, index), changed))
    return sorted(found, key=lambda one: (-one.weight, one.clause))


def _weight(name: str, clause: Filter, changed: int, own: PaperIndex, index: PaperIndex) -> float:
    """Return the weight of a clause, which is higher for rare words, title words and pairs of words.

    The weight is lower for a clause that drops or adds fewer than two papers.
    """
    rare = math.log((index.size + 1) / (index.matches(clause).bit_count() + 0.5))
    in_title = ":" not in name and own.matches(parse(f"ti:{name}"))
    return (
        max(rare, 0.0)
        * (TITLE_WEIGHT if in_title else 1.0)
        * (PHRASE_WEIGHT if name.startswith('"') else 1.0)
        * CHANGED_WEIGHTS[min(changed.bit_count(), 2)]
    )


def _distinct(words: Sequence[_Candidate], named: Sequence[_Candidate]) -> list[_Candidate]:
    """Return the words with the highest weights, then authors and categories.

    No two of the clauses drop or add the same set of papers.
    """
    chosen: list[_Candidate] = []
    for candidates, limit in ((words, MAX_WORD_PROPOSALS), (named, MAX_PROPOSALS)):
        for one in candidates:
            if len(chosen) < limit and one.changed not in [other.changed for other in chosen]:
                chosen.append(one)
    return chosen


def _words(paper: Paper) -> Iterator[str]:
    """Yield the significant words and neighbouring pairs of words of a paper, as clauses."""
    for text in (display(paper.title), display(paper.abstract)):
        row = tokenizer.read(text)
        yield from pairs(row)
        yield from (_as_word(word) for word in significant_words(text))


def _as_word(word: str) -> str:
    """Return a word as a clause; the word is in the singular, which also matches the plural."""
    return tokenizer.stem(word) if tokenizer.stem(word).isalnum() else word


def _categories(paper: Paper) -> Iterator[str]:
    """Yield the categories of a paper as clauses."""
    yield from (f"cat:{category}" for category in paper.categories if CATEGORY.fullmatch(category))


def _authors(paper: Paper) -> Iterator[str]:
    """Yield the first and the last author of a paper as clauses."""
    authors = [author for author in (*paper.authors[:1], *paper.authors[-1:]) if '"' not in author]
    yield from dict.fromkeys(f'au:"{display(author)}"' for author in authors)
