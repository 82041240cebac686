"""Run a filter on the papers of past days, and measure the effect of each of its clauses."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date
from itertools import islice

from digest.papers import bitsets
from digest.topics import filter_tree
from digest.topics.filter_parser import Filter
from digest.topics.filter_tree import And, Node, Not, Or
from digest.topics.paper_index import PaperIndex

#: A filter gets a warning if it matches more than this share of all papers, or if it is tested on fewer days
#: than `FEW_DAYS`.
TOO_WIDE_SHARE = 0.25
FEW_DAYS = 7
#: Maximum number of latest matches that a backtest lists.
LAST_MATCHES = 10


@dataclass(frozen=True, slots=True)
class PerDay:
    """Statistics of the number of papers per day; `days` is the number of days on which they are based."""

    median: int  #: a whole number; half a paper counts as one
    p90: float
    max: int
    days: int


@dataclass(frozen=True, slots=True)
class Backtest:
    """The papers that a filter would have matched on past days."""

    per_day: PerDay
    clauses: tuple[
        tuple[str, float], ...
    ]  #: (clause, papers per day that the clause adds); the number is negative if the clause removes papers
    warnings: tuple[str, ...]
    last: tuple[int, ...] = ()  #: the paper numbers of the latest matches, latest day first

    @property
    def clause_effects(self) -> tuple[str, ...]:
        """Return a phrase for the effect of each clause, such as `OR LLM adds 31 papers a day`."""
        return tuple(effect_in_words(clause, effect) for clause, effect in self.clauses)


def effect_in_words(clause: str, effect: float) -> str:
    """Return a phrase for the effect of a clause, such as `OR LLM adds 31 papers a day`."""
    if not effect:
        return f"{clause} changes nothing"
    a_day = int(abs(effect) + 0.5)
    often = f"{a_day} {'paper' if a_day == 1 else 'papers'} a day" if a_day else "fewer than one paper a day"
    return f"{clause} {'adds' if effect > 0 else 'removes'} {often}"


def backtest(filter_: Filter, index: PaperIndex, days: Sequence[date]) -> Backtest:
    """Test a filter on the papers in `index`; `days` contains the day of each paper."""
    matches, calendar = index.matches(filter_), _calendar(days)
    span = max(1, len(calendar))
    effects = [
        (clause, matches.bit_count() - index.matches_of_node(rest).bit_count())
        for clause, rest in _edits(filter_.tree)
    ]
    return Backtest(
        per_day=_per_day(matches, calendar),
        clauses=tuple((clause, round(effect / span, 2)) for clause, effect in effects),
        warnings=tuple(dict.fromkeys(_warnings(filter_, index, matches, span))),
        last=tuple(islice(_latest(matches, calendar), LAST_MATCHES)),
    )


@dataclass(frozen=True, slots=True)
class FilterComparison:
    """The difference between the matches of two filters on past days."""

    before: PerDay
    after: PerDay
    gained: tuple[int, ...]  #: numbers of the papers that only `after` matches, latest day first
    lost: tuple[int, ...]


def compare_filters(
    before: Filter | None, after: Filter | None, index: PaperIndex, days: Sequence[date]
) -> FilterComparison:
    """Compare the matches of two filters in `index`; a filter that is None matches nothing."""
    old = index.matches(before) if before else 0
    new = index.matches(after) if after else 0

    calendar = _calendar(days)
    return FilterComparison(
        _per_day(old, calendar),
        _per_day(new, calendar),
        tuple(_latest(new & ~old, calendar)),
        tuple(_latest(old & ~new, calendar)),
    )


def _calendar(days: Sequence[date]) -> list[int]:
    """Return the set of papers of each day, the latest day first."""
    papers: defaultdict[date, list[int]] = defaultdict(list)
    for number, day in enumerate(days):
        papers[day].append(number)
    return [bitsets.bitset_of(papers[day]) for day in sorted(papers, reverse=True)]


def _latest(matches: int, calendar: Sequence[int]) -> Iterator[int]:
    """Yield the papers of a set, latest day first."""
    for papers in calendar:
        yield from bitsets.members(matches & papers)


def _per_day(matches: int, calendar: Sequence[int]) -> PerDay:
    counts = sorted((matches & papers).bit_count() for papers in calendar) or [0]
    return PerDay(
        median=(counts[(len(counts) - 1) // 2] + counts[len(counts) // 2] + 1) // 2,
        p90=float(counts[min(len(counts) - 1, len(counts) * 9 // 10)]),
        max=counts[-1],
        days=len(calendar),
    )


def _edits(node: Node) -> Iterator[tuple[str, Node]]:
    """Yield (clause with operator, tree without the clause) for each clause of every AND and OR."""
    if isinstance(node, Not):
        for clause, rest in _edits(node.child):
            yield clause, filter_tree.negation(rest)
    elif isinstance(node, And | Or):
        join = filter_tree.conjunction if isinstance(node, And) else filter_tree.disjunction
        for i, child in enumerate(node.children):
            before, behind = node.children[:i], node.children[i + 1 :]
            operator = "OR " if isinstance(node, Or) else "AND" if isinstance(child, Not) else "AND "
            yield f"{operator}{filter_tree.bracketed(child, And, Or)}", join([*before, *behind])
            for clause, rest in _edits(child):
                yield clause, join([*before, rest, *behind])


def _warnings(filter_: Filter, index: PaperIndex, matches: int, span: int) -> Iterator[str]:
    """Yield the warnings that the author of the filter sees."""
    if not index.size:
        return
    if span < FEW_DAYS:
        yield f"Based on {span} day{'s' if span > 1 else ''} so far; the figures will become more reliable"
    if matches.bit_count() > TOO_WIDE_SHARE * index.size and matches.bit_count() > span:
        share = 100 * matches.bit_count() // index.size
        yield f"This matches {share}% of all papers; add a word"
    for leaf in filter_tree.leaves(filter_.tree):
        if not index.matches_of_node(leaf):
            yield f"{leaf.canonical} matches no paper"
    if not matches:
        yield from _contradictions(filter_.tree, index)
        return


def _contradictions(node: Node, index: PaperIndex) -> Iterator[str]:
    """Yield a warning for each AND that matches nothing although each of its clauses matches some papers."""
    if isinstance(node, And):
        if not index.matches_of_node(node) and all(map(index.matches_of_node, node.children)):
            yield f"No paper matches all of this at once: {node.canonical}"
        for child in node.children:
            yield from _contradictions(child, index)
    elif isinstance(node, Or):
        for child in node.children:
            yield from _contradictions(child, index)
