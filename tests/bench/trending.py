"""Compare the trending score with other formulas on papers whose votes of the next day are known.

    make bench ARGS="trending --full"

Papers of an invented month and a half get log-normal interest that fades at different rates and is lower at
weekends; a few papers have a second wave, and under half have a repository. Every evening each formula orders
the papers by the observable data, and is judged by the votes of the next 24 hours (nDCG at 10). The figures
compare formulas; they do not predict real votes. Gate: Digest's score is at or above the best formula in
every row.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from statistics import mean

from digest.papers.paper_record import Paper
from digest.papers.trending import Appearance, Evidence, rank

START = datetime(2026, 9, 14, tzinfo=UTC)  # a Monday
DAYS, WARM_UP = 46, 9  # 36 evenings are judged; only the votes of the last day are used
PAPERS = 1_500
DUMP_SIZE = 49
FORGOTTEN = 25  #: days after which a source does not list a paper any more
LEVEL = 0.005  #: differences of nDCG below this count as equal


@dataclass(frozen=True, kw_only=True)
class PaperAttention:
    """One paper's true attention, day by day from its first."""

    number: int
    born: int
    votes: tuple[int, ...]
    comments: tuple[int, ...]
    stars: tuple[int, ...] | None  #: the total on each day, including stars from before the paper


@dataclass(frozen=True, kw_only=True)
class ObservedPaper:
    """The part of the truth that can be observed."""

    name: str
    is_daily: bool = True  #: snapshots of every day, or today's only
    missing: float = 0.0  #: the share of signals that a source does not print


SITUATIONS = (
    ObservedPaper(name="everything known, daily snapshots"),
    ObservedPaper(name="one snapshot only", is_daily=False),
    ObservedPaper(name="half of the signals missing, daily", missing=0.5),
    ObservedPaper(name="half missing, one snapshot", missing=0.5, is_daily=False),
    ObservedPaper(name="text only, in the source's order", missing=1.0),
)

Seen = dict[str, tuple[tuple[datetime, float], ...]]
Formula = Callable[[int, Evidence, datetime], float]


def main(full: bool) -> int:
    runs = 4 if full else 1
    names = ["this", *RIVALS]
    print(f"{runs} x {DAYS - WARM_UP - 1} evenings, {PAPERS:,} papers, mean nDCG@10")
    print(f"{'':36}" + "".join(f"{name:>14}" for name in names))
    holds = True
    worlds = [(random.Random(100 + run), invented_month(random.Random(run))) for run in range(runs)]
    for situation in SITUATIONS:
        judged = [mean_ndcg(situation, chance, world) for chance, world in worlds]
        figures = {name: mean(run[name] for run in judged) for name in names}
        best = max(figures[name] for name in RIVALS)
        holds &= figures["this"] >= best - LEVEL
        print(f"{situation.name:36}" + "".join(f"{figures[name]:14.3f}" for name in names))
    return 0 if holds else 1


# ── the truth ───────────────────────────────────────────────────────────────────────────────────


def invented_month(chance: random.Random) -> list[PaperAttention]:
    """Return the papers of one invented month and a half."""
    return [invented_paper(chance, number) for number in range(PAPERS)]


def invented_paper(chance: random.Random, number: int) -> PaperAttention:
    """Return one paper: its interest, how long the interest lasts, and perhaps a second wave."""
    born = chance.randrange(DAYS)
    interest = 4 * math.exp(chance.gauss(-0.6, 1.1))
    pace = 2.9 * math.exp(chance.gauss(0, 0.5))
    wave = chance.randrange(3, 20) if chance.random() < 0.04 else None
    votes = []
    for age in range(DAYS - born):
        rate = interest * math.exp(-age / pace)
        if wave is not None and age >= wave:
            rate += 2 * interest * math.exp(-(age - wave) / pace)
        votes.append(poisson(chance, rate * weekend(born + age)))
    talk = 0.06 * math.exp(chance.gauss(0, 0.7))
    comments = tuple(poisson(chance, talk * count) for count in votes)
    stars = None
    if chance.random() < 0.45:
        starriness, before = 1.5 * math.exp(chance.gauss(0, 0.8)), int(math.exp(chance.gauss(3, 2)))
        gained = [poisson(chance, starriness * count + 0.01 * before) for count in votes]
        stars = tuple(before + sum(gained[: day + 1]) for day in range(len(gained)))
    return PaperAttention(number=number, born=born, votes=tuple(votes), comments=comments, stars=stars)


def weekend(day: int) -> float:
    """Return the share of a usual day's attention."""
    return 0.5 if (START + timedelta(days=day)).weekday() >= 5 else 1.0


def poisson(chance: random.Random, rate: float) -> int:
    """Return a random count."""
    if rate > 50:
        return max(0, round(chance.gauss(rate, math.sqrt(rate))))
    limit, product, count = math.exp(-rate), chance.random(), 0
    while product > limit:
        product *= chance.random()
        count += 1
    return count


# ── what can be observed ────────────────────────────────────────────────────────────────────────


def mean_ndcg(
    situation: ObservedPaper, chance: random.Random, world: Sequence[PaperAttention]
) -> Mapping[str, float]:
    """Return the mean nDCG@10 of every formula over the evenings of one run."""
    prints = {
        one.number: {name: chance.random() >= situation.missing for name in ("upvotes", "comments", "stars")}
        for one in world
    }
    dumps = [dump_of(chance, world, day) for day in range(DAYS)]
    judged: dict[str, list[float]] = {name: [] for name in ("this", *RIVALS)}
    for day in range(WARM_UP, DAYS - 1):
        listed = [one for one in world if 0 <= day - one.born <= FORGOTTEN]
        evidence = {one.number: observed(situation, one, prints[one.number], dumps, day) for one in listed}
        truth = {one.number: one.votes[day + 1 - one.born] for one in listed}
        for name, order in orders_by_formula(evidence, snapshot_time(day)).items():
            judged[name].append(ndcg([truth[number] for number in order], list(truth.values())))
    return {name: mean(values) for name, values in judged.items()}


def dump_of(chance: random.Random, world: Sequence[PaperAttention], day: int) -> Mapping[int, int]:
    """Return {paper: position} of the papers that the source lists on a day, in its order."""
    heat = {
        one.number: (
            one.votes[day - one.born] + 0.5 * sum(one.votes[max(0, day - one.born - 2) : day - one.born])
        )
        * math.exp(chance.gauss(0, 0.5))
        for one in world
        if 0 <= day - one.born <= FORGOTTEN
    }
    shown = sorted(heat, key=lambda number: -heat[number])[:DUMP_SIZE]
    return {number: place for place, number in enumerate(shown, start=1)}


def observed(
    situation: ObservedPaper,
    one: PaperAttention,
    prints: Mapping[str, bool],
    dumps: Sequence[Mapping[int, int]],
    day: int,
) -> Evidence:
    """Return the observable data about a paper on the evening of a day."""
    ages = range(day - one.born + 1) if situation.is_daily else range(day - one.born, day - one.born + 1)
    seen: Seen = {}
    if prints["upvotes"]:
        seen["upvotes"] = tuple((snapshot_time(one.born + age), sum(one.votes[: age + 1])) for age in ages)
    if prints["comments"]:
        seen["comments"] = tuple(
            (snapshot_time(one.born + age), sum(one.comments[: age + 1])) for age in ages
        )
    if prints["stars"] and one.stars is not None:
        seen["stars"] = tuple((snapshot_time(one.born + age), one.stars[age]) for age in ages)
    first = one.born if situation.is_daily else day
    appearances = tuple(
        Appearance(
            observed_at=snapshot_time(at), position=dumps[at][one.number], size=DUMP_SIZE, order="ranked"
        )
        for at in range(first, day + 1)
        if one.number in dumps[at]
    )
    met = START + timedelta(days=one.born)
    return Evidence(
        first_seen_at=met,
        posted=met.date() if situation.missing < 1 else None,
        observations=seen,
        appearances=appearances,
        n_dumps=day - first + 1,
    )


def snapshot_time(day: int) -> datetime:
    """Return the time of a day's snapshot."""
    return START + timedelta(days=day, hours=23)


# ── the formulas ────────────────────────────────────────────────────────────────────────────────


def orders_by_formula(evidence: Mapping[int, Evidence], now: datetime) -> dict[str, list[int]]:
    """Return the order each formula gives."""
    papers = [Paper(id=number, title="", first_seen_at=one.first_seen_at) for number, one in evidence.items()]
    found = {"this": [one.paper.id for one in rank(papers, evidence, now)]}
    for name, formula in RIVALS.items():
        values = {number: formula(number, one, now) for number, one in evidence.items()}
        found[name] = sorted(values, key=lambda number: (-values[number], number))
    return found


def latest(one: Evidence, name: str) -> float:
    """Return the last figure; a missing one counts as 0 in these formulas."""
    return one.observations[name][-1][1] if name in one.observations else 0.0


def hours(one: Evidence, now: datetime) -> float:
    return (now - one.first_seen_at).total_seconds() / 3600


def hacker_news(_: int, one: Evidence, now: datetime) -> float:
    gravity: float = (hours(one, now) + 2) ** 1.8
    return math.pow(max(0.0, latest(one, "upvotes") - 1), 0.8) / gravity


def reddit(_: int, one: Evidence, now: datetime) -> float:
    return math.log10(max(1.0, latest(one, "upvotes"))) - hours(one, now) * 3600 / 45_000


def raw_votes(_: int, one: Evidence, now: datetime) -> float:
    return latest(one, "upvotes")


def last_day(_: int, one: Evidence, now: datetime) -> float:
    seen = one.observations.get("upvotes", ())
    return seen[-1][1] - seen[-2][1] if len(seen) > 1 else latest(one, "upvotes")


def weighted_sum(_: int, one: Evidence, now: datetime) -> float:
    logs = {name: math.log1p(latest(one, name)) for name in ("upvotes", "stars", "comments")}
    return logs["upvotes"] + 0.5 * logs["stars"] + 0.5 * logs["comments"] - 0.02 * hours(one, now)


def newest(_: int, one: Evidence, now: datetime) -> float:
    return -hours(one, now)


RIVALS: Mapping[str, Formula] = {
    "Hacker News": hacker_news,
    "Reddit": reddit,
    "raw votes": raw_votes,
    "last 24 h": last_day,
    "weighted sum": weighted_sum,
    "newest": newest,
}


def ndcg(gains: Sequence[float], ideal: Sequence[float], *, at: int = 10) -> float:
    """Return the normalised discounted gain of the first `at`."""
    best = discounted(sorted(ideal, reverse=True)[:at])
    return discounted(gains[:at]) / best if best else 1.0


def discounted(gains: Sequence[float]) -> float:
    return sum(gain / math.log2(place + 2) for place, gain in enumerate(gains))
