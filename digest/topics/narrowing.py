"""A narrower filter, proposed where a topic brings more than its reader has room for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date

from digest import errors
from digest.papers import Paper, display
from digest.topics import text
from digest.topics.backtest import compared
from digest.topics.index import Index
from digest.topics.language import Filter, parse
from digest.topics.likeness import pairs, telling
from digest.topics.sets import members

LOOKED_AT = 300  #: papers of the topic whose words are tried, the first in the batch
TRIED = 200  #: words and phrases that most of them have in common


@dataclass(frozen=True, kw_only=True, slots=True)
class Narrowing:
    """A clause to add to a filter, and what the filter brings a day without it and with it."""

    clause: str
    before: float
    after: float


def narrowed(
    filter_: Filter, papers: Sequence[Paper], index: Index, days: Sequence[date], *, best: int, room: int
) -> Narrowing | None:
    """Return the clause that keeps most of the `best` papers of a topic and leaves most others out.

    `best` is a set of numbers, `room` the papers a day there is room for: the clause must bring the topic
    down to that, and to half of what it was, and leave something most days. The same papers give the same
    clause; None where no word does it.
    """
    matches = index.matches(filter_)
    rest = matches & ~best
    if not (best and rest):
        return None
    found = []
    for name in usual_names([papers[number] for number in list(members(matches))[:LOOKED_AT]]):
        try:
            clause = parse(name)
            narrower = parse(f"({filter_.canonical}) AND {name}")
        except errors.BadFilter:
            continue
        kept = matches & index.matches(clause)
        gain = share(kept, best) - share(kept, rest)
        if gain > 0 and kept != matches:
            found.append((-gain, len(name), name, narrower))
    for *_, name, narrower in sorted(found, key=lambda one: one[:3])[:20]:
        tried = compared(filter_, narrower, index, days)
        before, after = tried.before.median, tried.after.median
        if 1 <= after <= min(room, before / 2):
            return Narrowing(clause=name, before=before, after=after)
    return None


def usual_names(papers: Sequence[Paper]) -> list[str]:
    """Return the words and phrases that most of these papers have, the usual ones first."""
    counted = Counter(name for paper in papers for name in names(paper))
    return [name for name, count in sorted(counted.items(), key=lambda one: (-one[1], one[0])) if count > 1][
        :TRIED
    ]


def names(paper: Paper) -> set[str]:
    """Return the telling words of a paper, and the phrases of its title."""
    title, abstract = display(paper.title), display(paper.abstract)
    return {*telling(title), *telling(abstract), *pairs(text.read(title))}


def share(kept: int, of: int) -> float:
    """Return how much of a set is kept."""
    return (kept & of).bit_count() / of.bit_count()
