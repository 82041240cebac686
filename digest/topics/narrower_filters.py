"""Propose a narrower filter for a topic that matches more papers than a digest holds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date

from digest import errors
from digest.papers import Paper, display
from digest.topics import tokenizer
from digest.topics.backtest import compare_filters
from digest.topics.bitsets import members
from digest.topics.filter_parser import Filter, parse
from digest.topics.paper_index import PaperIndex
from digest.topics.similar_papers import pairs, significant_words

MAX_PAPERS_READ = 300  #: papers whose words are tried: the first of the topic in the batch
MAX_CLAUSES_TRIED = 200  #: words and phrases tried: the most common ones


@dataclass(frozen=True, kw_only=True, slots=True)
class Narrowing:
    """A clause to add to a filter, and how many papers a day the filter matches without and with it."""

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
    """Return the clause that keeps most of the `best` papers of a topic and leaves most others out.

    `best` is a set of numbers, `capacity` how many papers a day fit: the clause must reduce the topic to that
    and to half of what it was, and leave something on most days. The same papers give the same clause;
    None if no word does it.
    """
    matches = index.matches(filter_)
    rest = matches & ~best
    if not (best and rest):
        return None
    found = []
    for name in common_candidates([papers[number] for number in list(members(matches))[:MAX_PAPERS_READ]]):
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
    """Return the words and phrases that several papers have, the most common first."""
    counted = Counter(name for paper in papers for name in names(paper))
    return [name for name, count in sorted(counted.items(), key=lambda one: (-one[1], one[0])) if count > 1][
        :MAX_CLAUSES_TRIED
    ]


def names(paper: Paper) -> set[str]:
    """Return the significant words of a paper, and the phrases of its title."""
    title, abstract = display(paper.title), display(paper.abstract)
    return {*significant_words(title), *significant_words(abstract), *pairs(tokenizer.read(title))}


def share(kept: int, of: int) -> float:
    """Return which share of a set is kept."""
    return (kept & of).bit_count() / of.bit_count()
