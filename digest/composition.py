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

from array import array
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from msgspec import MsgspecError, Struct, json

TRENDING = "Trending"
RELEVANCE_BITS = 3.0  #: perfect relevance weighs as much as 2 ** 3 times the votes
UNFIT = -1.0  #: the relevance of a paper that no filter chose
SHOWN = -1  #: in the place of a wish: no wish may choose it
SPREAD_BITS = 2.0  #: what a paper loses when one almost like it stands before it


class Section(NamedTuple):
    """The papers under one topic, best first. `filter_id` is None where no filter chose them."""

    topic: str
    filter_id: int | None
    papers: tuple[int, ...]  #: paper ids
    more: int = 0  #: further papers that matched, left out by the cap


class FollowUp(NamedTuple):
    """What became of a paper that the reader was sent before. No showing: they have had it."""

    paper: int
    kind: str  #: withdrawn, published or rewritten
    title: str
    says: str  #: where it was published, what it was called before, why it was taken back


class Offer(NamedTuple):
    """A clause that would narrow a topic whose matches had no room, digest after digest."""

    topic: str
    filter_id: int
    clause: str
    before: float  #: papers a day as it is
    after: float  #: papers a day with the clause


class Digest(Struct, frozen=True, kw_only=True, omit_defaults=True, rename={"is_catch_up": "catch_up"}):
    """The decision kept with a delivery: which papers, under which topic, in which order."""

    sections: tuple[Section, ...]
    checked: int  #: papers looked at for this edition
    is_catch_up: bool = False  #: the first one after a leave
    matched: int = 0  #: of a catch-up: papers that could have been in it, those that are among them
    news: tuple[FollowUp, ...] = ()  #: about papers of earlier digests
    offer: Offer | None = None

    @property
    def papers(self) -> tuple[int, ...]:
        """Return every paper id, in reading order."""
        return tuple([paper for section in self.sections for paper in section.papers])

    @property
    def size(self) -> int:
        """Return how many papers there are in it."""
        return sum([len(section.papers) for section in self.sections])

    def to_json(self) -> str:
        """Return the compact form that the outbox stores: what is as usual is left out."""
        return encoded(self).decode()

    @classmethod
    def from_json(cls, text: str) -> Digest:
        """Return the digest that `to_json` wrote; raise ValueError where there is none in it."""
        try:
            return decoded(text)
        except MsgspecError as error:
            raise ValueError(f"this is no decision: {error}") from error


encoded, decoded = json.Encoder().encode, json.Decoder(Digest).decode


@dataclass(frozen=True, slots=True)
class Choice:
    """What one filter chooses, sorted once for everybody who holds it."""

    matches: int  #: the set of matching numbers
    order: tuple[int, ...]  #: the same, worthiest first
    fits: array[float]  #: the relevance of each of these, 0 to 1; empty where no filter chose
    scores: Sequence[float]  #: the trending scores, by number
    lower: int = 0  #: the set of near-duplicates that stand further down
    kept: dict[int, tuple[int, ...]] = field(default_factory=dict, repr=False, compare=False)

    def fit(self, number: int) -> float:
        """Return the relevance of a paper, 0 to 1; `UNFIT` where no filter chose it."""
        if not (self.fits and self.matches >> number & 1):
            return UNFIT
        return self.fits[self.order.index(number)]

    def worth(self, number: int) -> float:
        """Return what a paper that matches is worth here, in bits."""
        worth = self.scores[number]
        if self.fits:
            worth += RELEVANCE_BITS * self.fits[self.order.index(number)]
        return worth - SPREAD_BITS if self.lower >> number & 1 else worth

    def among(self, eligible: int) -> tuple[int, ...]:
        """Return `order` without what is not eligible: few sets of eligible papers, many readers."""
        wanted = self.matches & eligible
        if wanted == self.matches:
            return self.order
        found = self.kept.get(wanted)
        if found is None:
            found = tuple(number for number in self.order if wanted >> number & 1)
            if len(self.kept) >= 64:
                self.kept.clear()
            self.kept[wanted] = found
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

    `scores` are the trending scores by number, `relevance` is of matches only. `twins` holds sets of
    near-duplicates by number: of those that match, all but the worthiest lose `SPREAD_BITS`, and so stand
    further down.
    """
    fit = relevance
    if len(relevance) != matches.bit_count():
        fit = {number: relevance.get(number, 0.0) for number in numbers(matches)}
    worth = {number: scores[number] + RELEVANCE_BITS * fits for number, fits in fit.items()}
    order, lower = by_worth(worth, twins or {})
    fits = array("d", map(fit.__getitem__, order))
    return Choice(matches, tuple(order), fits, scores, lower)


def trending(scores: Sequence[float], twins: Mapping[int, int] | None = None) -> Choice:
    """Return every paper in the order of trending: the choice of who named no topic."""
    order, lower = by_worth(dict(enumerate(scores)), twins or {})
    return Choice((1 << len(scores)) - 1, tuple(order), array("d"), scores, lower)


def by_worth(worth: dict[int, float], twins: Mapping[int, int]) -> tuple[list[int], int]:
    """Return numbers, worthiest first, and the set of near-duplicates among them that lost by it.

    Of equal worth the better ranked goes first.
    """
    order = sorted(sorted(worth), key=worth.__getitem__, reverse=True)
    stands = lower = 0
    if not twins.keys().isdisjoint(worth):
        for number in order:
            if twins.get(number, 0) & stands:
                lower |= 1 << number
                worth[number] -= SPREAD_BITS
            stands |= 1 << number
        order = sorted(sorted(worth), key=worth.__getitem__, reverse=True)
    return order, lower


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
    found = bits(picked)
    homes = settle(wishes, picked, found, caps.per_topic)
    left = eligible & ~(found | bits(shown)) if shown else eligible & ~found
    return tuple(
        [
            Section(topic, filter_id, tuple(map(ids.__getitem__, home)), (choice.matches & left).bit_count())
            for (topic, filter_id, choice), home in zip(wishes, homes, strict=True)
            if home
        ]
    )


def pick(wishes: Sequence[Wish], eligible: int, shown: Collection[int], caps: Caps) -> dict[int, int]:
    """Return the numbers to show, each with the place of the wish that chose it.

    In each round every topic takes its best paper that is left. Of the last one the worthiest stay.
    """
    picked = dict.fromkeys(shown, SHOWN)
    full, stood = len(picked) + caps.papers, 0
    lines = [iter(wish[2].among(eligible)) for wish in wishes]
    for _round in range(caps.per_topic):
        stood = len(picked)
        for at, line in enumerate(lines):
            for number in line:
                if number not in picked:
                    picked[number] = at
                    break
        if len(picked) >= full or len(picked) == stood:
            break
    if len(picked) > full:
        last = list(picked)[stood:]
        last.sort(key=lambda number: -wishes[picked[number]].choice.worth(number))
        for number in last[full - stood :]:
            del picked[number]
    for number in shown:
        del picked[number]
    return picked


def settle(wishes: Sequence[Wish], picked: Mapping[int, int], found: int, per_topic: int) -> list[list[int]]:
    """Return the numbers under each wish, worthiest first: where they fit best, as long as there is room.

    `found` is the set of the numbers. Most of them match one wish alone, and are at home there; each
    wish's own were picked in their order.
    """
    homes: list[list[int]] = [[] for _ in wishes]
    for number, at in picked.items():
        homes[at].append(number)
    torn, joined = found & common(wishes), set()
    for number in numbers(torn):
        chosen_by = picked[number]
        home = best_home(number, chosen_by, wishes, homes, per_topic)
        if home != chosen_by:
            homes[chosen_by].remove(number)
            homes[home].append(number)
            joined.add(home)
    for home in joined:
        homes[home].sort(key=wishes[home].choice.order.index)
    return homes


def matching(wishes: Sequence[Wish], eligible: int, shown: Collection[int]) -> int:
    """Return how many eligible papers a digest of these wishes could show, however many it has room for."""
    wanted = 0
    for wish in wishes:
        wanted |= wish.choice.matches
    return (wanted & eligible & ~bits(shown)).bit_count()


def common(wishes: Sequence[Wish]) -> int:
    """Return the set of numbers that more than one wish matches."""
    seen = twice = 0
    for wish in wishes:
        twice |= seen & wish.choice.matches
        seen |= wish.choice.matches
    return twice


def best_home(
    number: int, chosen_by: int, wishes: Sequence[Wish], homes: Sequence[Sequence[int]], per_topic: int
) -> int:
    """Return the place of the wish that a number fits best and that has room; of equal ones the first."""
    home, best = chosen_by, wishes[chosen_by].choice.fit(number)
    for at, wish in enumerate(wishes):
        fitting = wish.choice.fit(number)
        if (fitting > best or (fitting == best > UNFIT and at < home)) and len(homes[at]) < per_topic:
            home, best = at, fitting
    return home


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
