"""A digest as a value: what one subscriber is shown for one edition, and why.

Papers are numbered by trending rank (0 is the most trending), so a set of papers is an integer,
bit by bit, and the matches of a filter are sorted once for everybody who holds it.

* A paper belongs to the digest if a topic matches it; trending and relevance only order it.
* Within a topic, papers stand by their **worth**: the trending score in bits, plus `RELEVANCE_BITS`
  times the relevance (0 to 1). So a paper that is all about the topic goes before one that merely
  touches it, unless that one draws eight times the votes.
* The budget goes round by round: in each round every topic offers its best paper that is left. A
  noisy topic gets what the others leave, never more; where a round is too big for the rest of the
  budget, the worthiest offers win.
* A paper stands once, under the topic it fits best.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

TRENDING = "Trending"
RELEVANCE_BITS = 3.0  #: perfect relevance weighs as much as 2 ** 3 times the votes
UNFIT = -1.0  #: the relevance of a paper that no filter chose
SPREAD_BITS = 2.0  #: what a paper loses when one almost like it stands before it


@dataclass(frozen=True, kw_only=True, slots=True)
class Section:
    """The papers under one topic, best first. `filter_id` is None where no filter chose them."""

    topic: str
    filter_id: int | None
    papers: tuple[int, ...]  #: paper ids
    more: int = 0  #: further papers that matched, left out by the cap


@dataclass(frozen=True, kw_only=True, slots=True)
class Digest:
    """The decision kept with a delivery: which papers, under which topic, in which order."""

    sections: tuple[Section, ...]
    checked: int  #: papers looked at for this edition

    @property
    def papers(self) -> tuple[int, ...]:
        """Return every paper id, in reading order."""
        return tuple(paper for section in self.sections for paper in section.papers)

    def to_json(self) -> str:
        """Return the compact form that the outbox stores."""
        sections = [[s.topic, s.filter_id, s.papers, s.more] for s in self.sections]
        return json.dumps({"sections": sections, "checked": self.checked}, separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str) -> Digest:
        """Return the digest that `to_json` wrote."""
        stored = json.loads(text)
        sections = tuple(
            Section(topic=topic, filter_id=filter_id, papers=tuple(papers), more=more)
            for topic, filter_id, papers, more in stored["sections"]
        )
        return cls(sections=sections, checked=stored["checked"])


@dataclass(frozen=True, kw_only=True, slots=True)
class Choice:
    """What one filter chooses, sorted once for everybody who holds it."""

    matches: int  #: the set of matching numbers
    order: tuple[int, ...]  #: the same, worthiest first
    place: Mapping[int, int]  #: number to its place in `order`
    worth: Mapping[int, float]  #: number to what it is worth here, in bits
    fit: Mapping[int, float]  #: number to its relevance, 0 to 1; empty where no filter chose
    kept: dict[int, tuple[int, ...]] = field(default_factory=dict, repr=False, compare=False)

    def among(self, eligible: int) -> tuple[int, ...]:
        """Return `order` without what is not eligible: few sets of eligible papers, many readers."""
        found = self.kept.get(eligible)
        if found is None:
            wanted = self.matches & eligible
            found = tuple(number for number in self.order if wanted >> number & 1)
            if len(self.kept) >= 64:
                self.kept.clear()
            self.kept[eligible] = found
        return found


class Wish(NamedTuple):
    """One topic of one subscriber. (A tuple: a million mornings make three million of these.)"""

    topic: str
    filter_id: int | None
    choice: Choice


@dataclass(frozen=True, kw_only=True, slots=True)
class Caps:
    """How much one subscriber wants to read."""

    papers: int = 10  #: in one digest
    per_topic: int = 10
    at_least: int = 1  #: fewer than so many: no digest at all


def choice(
    matches: int,
    scores: Sequence[float],
    relevance: Mapping[int, float],
    twins: Mapping[int, int] | None = None,
) -> Choice:
    """Return the matches of a filter in the order of their worth.

    `scores` are the trending scores by number. `twins` holds sets of near-duplicates by number: of
    those that match, all but the worthiest lose `SPREAD_BITS`, and so stand further down.
    """
    fit = {number: relevance.get(number, 0.0) for number in numbers(matches)}
    worth = {number: scores[number] + RELEVANCE_BITS * fit[number] for number in fit}
    return sorted_choice(matches, worth, fit, twins or {})


def trending(scores: Sequence[float], twins: Mapping[int, int] | None = None) -> Choice:
    """Return every paper in the order of trending: the choice of who named no topic."""
    return sorted_choice((1 << len(scores)) - 1, dict(enumerate(scores)), {}, twins or {})


def sorted_choice(
    matches: int, worth: dict[int, float], fit: Mapping[int, float], twins: Mapping[int, int]
) -> Choice:
    """Return the choice sorted by worth, near-duplicates spread; of equal worth the better ranked first."""
    order = sorted(worth, key=lambda number: (-worth[number], number))
    if twins:
        order = spread(order, worth, twins)
    place = {number: at for at, number in enumerate(order)}
    return Choice(matches=matches, order=tuple(order), place=place, worth=worth, fit=fit)


def spread(order: Sequence[int], worth: dict[int, float], twins: Mapping[int, int]) -> list[int]:
    """Return `order` with near-duplicates of what stands before them moved down, and worth less."""
    stands = 0
    for n in order:
        if twins.get(n, 0) & stands:
            worth[n] -= SPREAD_BITS
        stands |= 1 << n
    return sorted(order, key=lambda n: (-worth[n], n))


def compose(
    wishes: Sequence[Wish],
    *,
    eligible: int,
    ids: Sequence[int],
    shown: Collection[int] = frozenset(),
    caps: Caps = Caps(),
) -> tuple[Section, ...]:
    """Return the sections of one subscriber's digest, in the order of their topics.

    `eligible` is the set of numbers that may be shown, `shown` those among them that were, and
    `ids` the paper ids by number. Fewer papers than `caps.at_least`: no section at all.
    """
    picked = pick(wishes, eligible, shown, caps)
    if len(picked) < max(1, caps.at_least):
        return ()
    homes = settle(wishes, picked, caps.per_topic)
    left = eligible & ~bits(picked) & ~bits(shown)
    return tuple(
        Section(
            topic=wish.topic,
            filter_id=wish.filter_id,
            papers=tuple([ids[n] for n in sorted(home, key=wish.choice.place.__getitem__)]),
            more=(wish.choice.matches & left).bit_count(),
        )
        for wish, home in zip(wishes, homes, strict=True)
        if home
    )


def pick(wishes: Sequence[Wish], eligible: int, shown: Collection[int], caps: Caps) -> dict[int, int]:
    """Return the numbers to show, each with the place of the wish that chose it."""
    picked: dict[int, int] = {}
    offering = [(at, iter(wish.choice.among(eligible)), wish.choice.worth) for at, wish in enumerate(wishes)]
    for _round in range(caps.per_topic):
        budget = caps.papers - len(picked)
        offers, offering = offers_of(offering, picked, shown)
        if len(offers) >= budget:
            offers.sort()
            picked.update([(number, at) for _, at, number in offers[:budget]])
            break
        picked.update([(number, at) for _, at, number in offers])
        if not offering:
            break
    return picked


Offering = list[tuple[int, Iterator[int], Mapping[int, float]]]


def offers_of(
    offering: Offering, picked: Mapping[int, int], shown: Collection[int]
) -> tuple[list[tuple[float, int, int]], Offering]:
    """Return each topic's best paper that is left, and the topics that had one."""
    offers: list[tuple[float, int, int]] = []
    offered: set[int] = set()
    still: Offering = []
    for topic in offering:
        at, left, worth = topic
        for number in left:
            if number not in picked and number not in shown and number not in offered:
                offers.append((-worth[number], at, number))
                offered.add(number)
                still.append(topic)
                break
    return offers, still


def settle(wishes: Sequence[Wish], picked: Mapping[int, int], per_topic: int) -> list[list[int]]:
    """Return the numbers under each wish: where they fit best, as long as there is room."""
    homes: list[list[int]] = [[] for _ in wishes]
    if len(wishes) == 1:
        homes[0].extend(picked)
        return homes
    sizes = Counter(picked.values())
    fits = [wish.choice.fit for wish in wishes]
    for number, chosen_by in picked.items():
        home, best = chosen_by, fits[chosen_by].get(number, UNFIT)
        for at, fit in enumerate(fits):
            fitting = fit.get(number, UNFIT)
            if (fitting > best or (fitting == best > UNFIT and at < home)) and sizes[at] < per_topic:
                home, best = at, fitting
        sizes[chosen_by] -= 1
        sizes[home] += 1
        homes[home].append(number)
    return homes


def bits(numbers: Iterable[int]) -> int:
    """Return the set of `numbers` as an integer."""
    found = 0
    for number in numbers:
        found |= 1 << number
    return found


def numbers(found: int) -> list[int]:
    """Return the members of the set `found`, lowest first."""
    members = []
    while found:
        lowest = found & -found
        members.append(lowest.bit_length() - 1)
        found ^= lowest
    return members
