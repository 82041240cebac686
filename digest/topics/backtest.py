"""What a filter would have brought on past days, and what each of its clauses has to do with it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date
from itertools import islice

from digest.topics import sets, tree
from digest.topics.index import Index
from digest.topics.language import Filter
from digest.topics.tree import And, Node, Not, Or

#: More than this share of everything is hardly a topic; fewer days than these tell little.
TOO_WIDE = 0.25
FEW_DAYS = 7
#: So many of the papers it would have sent last are named.
LAST = 10


@dataclass(frozen=True, slots=True)
class PerDay:
    """Papers a day, and from how many days we know it."""

    median: float
    p90: float
    max: int
    days: int


@dataclass(frozen=True, slots=True)
class Backtest:
    """What a filter would have brought."""

    per_day: PerDay
    clauses: tuple[tuple[str, float], ...]  #: ("OR LLM", 31.0) adds, ("ANDNOT survey", -6.0) removes, a day
    warnings: tuple[str, ...]
    last: tuple[int, ...] = ()  #: what it would have sent last, by number in the batch: latest day first

    @property
    def told(self) -> tuple[str, ...]:
        """What each clause has to do with it, in words: `OR LLM adds 31 a day`."""
        return tuple(in_words(clause, effect) for clause, effect in self.clauses)


def in_words(clause: str, effect: float) -> str:
    """Return what a clause does to a filter."""
    if not effect:
        return f"{clause} changes nothing"
    return f"{clause} {'adds' if effect > 0 else 'removes'} {abs(effect):g} a day"


def backtest(filter_: Filter, index: Index, days: Sequence[date]) -> Backtest:
    """Return what a filter would have brought of the papers of `index`; `days` says when each came."""
    matches, calendar = index.matches(filter_), _calendar(days)
    span = max(1, len(calendar))
    trials = [_tried(index, matches, *edit) for edit in _edits(filter_.tree)]
    return Backtest(
        per_day=_per_day(matches, calendar),
        clauses=tuple((trial.clause, round(trial.effect / span, 2)) for trial in trials),
        warnings=tuple(dict.fromkeys(_warnings(filter_, index, matches, trials, span))),
        last=tuple(islice(_latest(matches, calendar), LAST)),
    )


@dataclass(frozen=True, slots=True)
class Compared:
    """What one filter in place of another would have brought."""

    before: PerDay
    after: PerDay
    gained: tuple[int, ...]  #: by number in the batch, latest day first
    lost: tuple[int, ...]


def compared(before: Filter | None, after: Filter | None, index: Index, days: Sequence[date]) -> Compared:
    """Return what `after` would have brought of the papers of `index` where `before` stood; None brings nothing."""
    old = index.matches(before) if before else 0
    new = index.matches(after) if after else 0

    calendar = _calendar(days)
    return Compared(
        _per_day(old, calendar),
        _per_day(new, calendar),
        tuple(_latest(new & ~old, calendar)),
        tuple(_latest(old & ~new, calendar)),
    )


def _calendar(days: Sequence[date]) -> list[int]:
    """Return the set of papers that came on each day, the latest day first."""
    papers: defaultdict[date, list[int]] = defaultdict(list)
    for number, day in enumerate(days):
        papers[day].append(number)
    return [sets.of(papers[day]) for day in sorted(papers, reverse=True)]


def _latest(matches: int, calendar: Sequence[int]) -> Iterator[int]:
    """Yield the papers of a set, those of the latest day first."""
    for papers in calendar:
        yield from sets.members(matches & papers)


def _per_day(matches: int, calendar: Sequence[int]) -> PerDay:
    counts = sorted((matches & papers).bit_count() for papers in calendar) or [0]
    return PerDay(
        median=(counts[(len(counts) - 1) // 2] + counts[len(counts) // 2]) / 2,
        p90=float(counts[min(len(counts) - 1, len(counts) * 9 // 10)]),
        max=counts[-1],
        days=len(calendar),
    )


@dataclass(frozen=True, slots=True)
class _Trial:
    """A filter tried without one of its clauses."""

    clause: str  #: with its operator: "OR LLM"
    effect: int  #: papers the clause adds, or below 0 takes away
    alone: int  #: papers the clause finds by itself


def _tried(index: Index, matches: int, clause: str, node: Node, without: Node) -> _Trial:
    effect = matches.bit_count() - index.value(without).bit_count()
    return _Trial(clause, effect, index.value(node).bit_count())


def _edits(node: Node) -> Iterator[tuple[str, Node, Node]]:
    """Yield every clause of every AND and OR in `node`: with its operator, by itself, and the tree without it."""
    if isinstance(node, Not):
        for clause, child, rest in _edits(node.child):
            yield clause, child, tree.negation(rest)
    elif isinstance(node, And | Or):
        join = tree.conjunction if isinstance(node, And) else tree.disjunction
        for i, child in enumerate(node.children):
            before, behind = node.children[:i], node.children[i + 1 :]
            yield f"{_operator(node, child)}{_bracketed(child)}", child, join([*before, *behind])
            for clause, inner, rest in _edits(child):
                yield clause, inner, join([*before, rest, *behind])


def _operator(parent: And | Or, child: Node) -> str:
    if isinstance(parent, Or):
        return "OR "
    return "AND" if isinstance(child, Not) else "AND "


def _bracketed(node: Node) -> str:
    return f"({node.canonical})" if isinstance(node, And | Or) else node.canonical


def _warnings(
    filter_: Filter, index: Index, matches: int, trials: Sequence[_Trial], span: int
) -> Iterator[str]:
    """Yield what whoever wrote the filter should know before living with it."""
    if not index.size:
        return
    if span < FEW_DAYS:
        yield f"Known from {span} day{'s' if span > 1 else ''} only; the figures will become better"
    if matches.bit_count() > TOO_WIDE * index.size and matches.bit_count() > span:
        share = 100 * matches.bit_count() // index.size
        yield f"This matches {share} % of all papers; it is hardly a topic"
    for leaf in tree.leaves(filter_.tree):
        if not index.value(leaf):
            yield f"{leaf.canonical} was found in no paper"
    if not matches:
        yield from _contradictions(filter_.tree, index)
        return
    for trial in trials:
        if not trial.effect and trial.alone:
            yield f"{trial.clause} changes nothing"


def _contradictions(node: Node, index: Index) -> Iterator[str]:
    """Yield the ANDs that match nothing although each of their clauses matches something."""
    if isinstance(node, And):
        if not index.value(node) and all(map(index.value, node.children)):
            yield f"No paper is all of this at once: {node.canonical}"
        for child in node.children:
            yield from _contradictions(child, index)
    elif isinstance(node, Or):
        for child in node.children:
            yield from _contradictions(child, index)
