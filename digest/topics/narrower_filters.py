"""Suggest a narrower filter for a topic that matches more papers than fit in a digest."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date

from digest import errors
from digest.bitsets import lowest_members
from digest.papers import Paper, display
from digest.topics import tokenizer
from digest.topics.filter_backtest import compare_filters
from digest.topics.filter_parser import Filter, parse
from digest.topics.paper_index import PaperIndex
from digest.topics.similar_papers import pairs, significant_words

MAX_PAPERS_READ = 300  #: maximum number of the topic's best papers from which words are taken
MAX_CLAUSES_TRIED = 200  #: maximum number of words and phrases that are tried, the most common first


@dataclass(frozen=True, kw_only=True, slots=True)
class Narrowing:
    """A clause to add to a filter, and the median number of matches per day without and with the clause."""

    clause: str
    before: float
    after: float


def find_narrowing(
    filter_: Filter,
    papers: Sequence[Paper],
    index: PaperIndex,
    days: Sequence[date],
    *,
    best: int,
    capacity: int,
) -> Narrowing | None:
    """Return the clause that matches most of the `best` papers of a topic and excludes most other papers.

    `best` is a set of paper numbers, and `capacity` is the number of papers that fit per day. The clause must
    reduce the median number of papers per day to at most `capacity` and at most half of its former value, and
    must leave papers on most days. The result is deterministic. Returns None if no clause qualifies.
    """
    matches = index.matches(filter_)
    rest = matches & ~best
    if not (best and rest):
        return None
    found = []
    for name in common_candidates([papers[number] for number in lowest_members(matches, MAX_PAPERS_READ)]):
        try:
            clause = parse(name)
            narrower = parse(f"({filter_.canonical}) AND {name}")
        except errors.BadFilter:
            continue
        kept = matches & index.matches(clause)
        gain = share(kept, best) - share(kept, rest)
        if gain > 0:
            found.append((-gain, len(name), name, narrower))
    for *_, name, narrower in sorted(found, key=lambda one: one[:3])[:20]:
        tried = compare_filters(filter_, narrower, index, days)
        before, after = tried.before.median, tried.after.median
        if 1 <= after <= min(capacity, before / 2):
            return Narrowing(clause=name, before=before, after=after)
    return None


def common_candidates(papers: Sequence[Paper]) -> list[str]:
    """Return the words and phrases that occur in several papers, the most common first."""
    counted = Counter(name for paper in papers for name in names(paper))
    return [name for name, count in sorted(counted.items(), key=lambda one: (-one[1], one[0])) if count > 1][
        :MAX_CLAUSES_TRIED
    ]


def names(paper: Paper) -> set[str]:
    """Return the significant words of a paper, and the phrases of its title."""
    title, abstract = display(paper.title), display(paper.abstract)
    return {*significant_words(title), *significant_words(abstract), *pairs(tokenizer.read(title))}


def share(kept: int, of: int) -> float:
    """Return the share of the papers in `of` that are also in `kept`."""
    return (kept & of).bit_count() / of.bit_count()
