"""Trending: the votes a day that a paper is expected to be drawing now, and the figures that say so.

The score is log2 of an empirical-Bayes estimate (Gamma-Poisson): age gives the prior, what was
observed overrules it, and what is unknown leaves the prior in place, so that no paper is punished
for a figure its source does not print. Every term adds bits, and so every term is a sentence.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time
from math import exp, log, log2
from types import MappingProxyType

from digest.papers import Paper

HALF_LIFE = 2.0  #: days after which a paper draws half the votes
TAU = HALF_LIFE / log(2)  #: the same as the mean life of an exponential
FIRST_DAY_VOTES = 4.0  #: m0: what a paper nobody has voted on yet is expected to draw a day
FIRST_DAY_WEIGHT = 0.5  #: k0: how many days of observation that expectation is worth
WINDOW_WEIGHT = (
    0.5  #: k1: the same, for the votes since the last snapshot (0.3 to 1: `make bench ARGS=trending`)
)
WINDOW = 0.75  #: days: the last snapshot at least so much older is the one "about a day ago"
OLDEST = 100.0  #: days: beyond so many, age says nothing more (and 2 ** -age must not become zero)
USUAL_OVERLAP = 0.2  #: p0: how often a source shows a paper again
NEWCOMER = log2(FIRST_DAY_VOTES)  #: the score of a new paper about which nothing is known
TELLING = 0.3  #: bits below which a figure is no reason

Observations = Sequence[tuple[datetime, float]]


@dataclass(frozen=True, kw_only=True, slots=True)
class Side:
    """A secondary signal: what is usual for it, and how much it may tilt the prior."""

    usual: float  #: a day
    weight: float  #: of its surprise, in bits
    prior_days: float  #: how many days of observation `usual` is worth
    from_birth: bool  #: whether a first figure was gathered over the paper's own age


SIDES: Mapping[str, Side] = MappingProxyType(
    {
        # A repository may be older than its paper: its first figure says nothing about a day.
        "stars": Side(usual=3.0, weight=0.15, prior_days=1.0, from_birth=False),
        "comments": Side(usual=0.2, weight=0.10, prior_days=3.0, from_birth=True),
    }
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Appearance:
    """A paper stood in a dump, at this place."""

    observed_at: datetime
    position: int  #: 1-based
    size: int  #: papers in that dump
    order: str = "none"  #: ranked, relevance or none; only `ranked` tells of popularity


@dataclass(frozen=True, kw_only=True, slots=True)
class Evidence:
    """All that was observed about one paper. What is missing was not observed, and costs nothing."""

    first_seen_at: datetime
    posted: date | None = None  #: put up for votes on this day
    published: date | None = None
    observations: Mapping[str, Observations] = field(default_factory=dict)  #: per signal, oldest first
    appearances: tuple[Appearance, ...] = ()  #: oldest first
    n_dumps: int = 1  #: dumps read since it was first seen, that one included


@dataclass(frozen=True, kw_only=True, slots=True)
class Score:
    """How much a paper trends, and why."""

    value: float  #: log2 of the votes a day expected now
    reasons: tuple[str, ...]  #: observed figures only, strongest first


@dataclass(frozen=True, kw_only=True, slots=True)
class Ranked:
    """A paper in its place among the trending ones."""

    paper: Paper
    score: float
    reasons: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Term:
    """One piece of evidence: the bits it adds to the prior, and the sentence that says so."""

    bits: float
    reason: str = ""  #: empty if no observed figure stands behind it


def rank(papers: Iterable[Paper], evidence: Mapping[int, Evidence], as_of: datetime) -> list[Ranked]:
    """Return the papers, the most trending first; of equal ones the newer, then the lower id."""
    overlap = usual_overlap(evidence.values())
    ranked = []
    for paper in papers:
        known = evidence.get(paper.id) or Evidence(first_seen_at=paper.first_seen_at)
        scored = score(known, as_of, overlap=overlap)
        ranked.append(Ranked(paper=paper, score=scored.value, reasons=scored.reasons))
    ranked.sort(key=lambda one: (-one.score, -one.paper.first_seen_at.timestamp(), one.paper.id))
    return ranked


def score(evidence: Evidence, as_of: datetime, *, overlap: float = USUAL_OVERLAP) -> Score:
    """Return the trending score at `as_of`; whatever was observed later is not looked at."""
    votes = upto(evidence.observations.get("upvotes", ()), as_of)
    age = age_in_days(evidence, as_of, has_votes=bool(votes))
    terms = side_terms(evidence, age, as_of)
    if not votes:
        terms += [position_term(evidence, as_of), return_term(evidence, as_of, overlap)]
        bits = sum(term.bits for term in terms)
        return Score(value=NEWCOMER - age / HALF_LIFE + bits, reasons=reasons(terms, evidence, as_of))
    tilt = sum(term.bits for term in terms)
    value, votes_term = voted(votes, age, as_of, tilt)
    return Score(value=value, reasons=reasons([votes_term, *terms], evidence, as_of))


# ── votes ───────────────────────────────────────────────────────────────────────────────────────


def voted(votes: Observations, age: float, as_of: datetime, tilt: float) -> tuple[float, Term]:
    """Return the score of a paper whose votes are known, and what they contributed.

    A paper missing from the latest dumps is estimated at its own last figure and aged from there.
    """
    at, latest = votes[-1]
    stale = days(at, as_of)
    age_then = max(0.0, age - stale)
    before = snapshot_before(votes)
    if before is None:
        rate = first_day_rate(latest, age_then) * 2 ** (tilt - age_then / HALF_LIFE)
    else:
        start, held = before
        span = days(start, at)
        prior = first_day_rate(held, max(0.0, age_then - span)) * 2 ** (tilt - age_then / HALF_LIFE)
        gained = max(0.0, latest - held)
        rate = (WINDOW_WEIGHT * prior + gained) / (WINDOW_WEIGHT + span)
    usual = FIRST_DAY_VOTES * 2 ** (-age_then / HALF_LIFE)
    bits = log2(rate / usual) - tilt
    return log2(rate) - stale / HALF_LIFE, Term(
        bits=bits, reason=votes_reason(votes, before, age_then, as_of)
    )


def first_day_rate(votes: float, age: float) -> float:
    """Return the votes a day at birth, given those gathered over the share of life that is past."""
    lived = TAU * (1 - exp(-age / TAU))
    return (FIRST_DAY_WEIGHT * FIRST_DAY_VOTES + votes) / (FIRST_DAY_WEIGHT + lived)


def votes_reason(
    votes: Observations, before: tuple[datetime, float] | None, age: float, as_of: datetime
) -> str:
    """Return the sentence about votes, or nothing if none were gained."""
    at, latest = votes[-1]
    if before is None:
        usual = FIRST_DAY_VOTES * TAU * (1 - exp(-max(age, 0.5) / TAU))
        return f"{counted(latest, 'upvote')}{times_usual(latest / usual)}" if latest > 0 else ""
    gained = latest - before[1]
    usual = FIRST_DAY_VOTES * 2 ** (-age / HALF_LIFE) * days(before[0], at)
    if gained <= 0:
        return ""
    return f"+{counted(gained, 'upvote')} since {spoken(before[0], as_of)}{times_usual(gained / usual)}"


# ── what tilts the prior ────────────────────────────────────────────────────────────────────────


def side_terms(evidence: Evidence, age: float, as_of: datetime) -> list[Term]:
    """Return what stars and comments add."""
    terms = []
    for name, side in SIDES.items():
        seen = upto(evidence.observations.get(name, ()), as_of)
        if seen:
            terms.append(side_term(name, side, seen, age, as_of))
    return terms


def side_term(name: str, side: Side, seen: Observations, age: float, as_of: datetime) -> Term:
    """Return the surprise of one secondary signal's rate, shrunk towards the usual one."""
    at, latest = seen[-1]
    before = snapshot_before(seen)
    if before is not None:
        gained, span = max(0.0, latest - before[1]), days(before[0], at)
        reason = f"+{counted(gained, name.removesuffix('s'))} since {spoken(before[0], as_of)}"
    elif side.from_birth:
        gained, span = latest, max(0.0, age - days(at, as_of))
        reason = counted(gained, name.removesuffix("s"))
    else:
        return Term(bits=0.0)
    rate = (gained + side.usual * side.prior_days) / (span + side.prior_days)
    bits = min(5.0, max(-2.0, log2(rate / side.usual)))
    return Term(bits=side.weight * bits, reason=reason if gained else "")


def position_term(evidence: Evidence, as_of: datetime) -> Term:
    """Return the surprise of standing this high in a dump that is ordered by popularity."""
    ranked = [one for one in evidence.appearances if one.order == "ranked" and one.observed_at <= as_of]
    if not ranked:
        return Term(bits=0.0)
    last = ranked[-1]
    surprise = -log2((last.position - 0.5) / max(last.size, last.position)) - 1 / log(2)  # mean 0
    whose = f"{spoken(last.observed_at, as_of)}'s"
    return Term(bits=0.5 * surprise, reason=f"#{last.position} of {last.size} in {whose} dump")


def return_term(evidence: Evidence, as_of: datetime, overlap: float) -> Term:
    """Return how often the paper came back, against how often papers of its source do."""
    seen = sum(one.observed_at <= as_of for one in evidence.appearances)
    chances = max(evidence.n_dumps, seen) - 1  # its first dump was no coming back
    if seen == 0 or chances <= 0:
        return Term(bits=0.0)
    bits = 0.40 * log2((seen - 1 + 2 * overlap) / (chances + 2) / overlap)
    return Term(bits=bits, reason=f"in {seen} of the last {chances + 1} dumps" if seen > 1 else "")


def usual_overlap(evidence: Iterable[Evidence]) -> float:
    """Return how often papers come back in these dumps, shrunk towards the usual overlap."""
    returned, chances = 0, 0
    for one in evidence:
        if one.appearances:
            returned += len(one.appearances) - 1
            chances += max(one.n_dumps, len(one.appearances)) - 1
    weight = 50.0  # so few chances would decide nothing by themselves
    return (returned + weight * USUAL_OVERLAP) / (chances + weight)


# ── sentences ───────────────────────────────────────────────────────────────────────────────────


def reasons(terms: Iterable[Term], evidence: Evidence, as_of: datetime) -> tuple[str, ...]:
    """Return the sentences of the terms that matter, strongest first; else that the paper is new."""
    telling = sorted((term for term in terms if term.reason and term.bits > TELLING), key=lambda t: -t.bits)
    if telling:
        return tuple(term.reason for term in telling)
    is_new = evidence.first_seen_at.astimezone(UTC).date() == as_of.astimezone(UTC).date()
    return ("first seen today",) if is_new else ()


def counted(figure: float, noun: str) -> str:
    """Return "1 upvote", "42 upvotes", "1,310 stars"."""
    return f"{figure:,.0f} {noun}{'' if round(figure) == 1 else 's'}"


def times_usual(ratio: float) -> str:
    """Return ", 7x usual for its age" where that is remarkable."""
    return f", {ratio:,.0f}x usual for its age" if ratio >= 2 else ""


def spoken(moment: datetime, as_of: datetime) -> str:
    """Return the day of `moment` as one says it at `as_of`: today, yesterday, Monday, 3 November."""
    day, today = moment.astimezone(UTC).date(), as_of.astimezone(UTC).date()
    match (today - day).days:
        case 0:
            return "today"
        case 1:
            return "yesterday"
        case ago if ago < 7:
            return f"{day:%A}"
        case _:
            return f"{day.day} {day:%B}"


# ── time ────────────────────────────────────────────────────────────────────────────────────────


def age_in_days(evidence: Evidence, as_of: datetime, *, has_votes: bool) -> float:
    """Return how old the paper's attention is.

    Votes gather from the posting day, or from publication where that is all we know. Without
    votes a paper counts from the day we met it: dumps bring old papers back for good reasons.
    """
    born = evidence.posted or (evidence.published if has_votes else None)
    start = datetime.combine(born, time(), UTC) if born else evidence.first_seen_at
    return min(max(0.0, days(start, as_of)), OLDEST)


def days(start: datetime, end: datetime) -> float:
    """Return the days from `start` to `end`."""
    return (end - start).total_seconds() / 86400


def upto(observations: Observations, as_of: datetime) -> Observations:
    """Return what had been observed by `as_of`."""
    if not observations or observations[-1][0] <= as_of:
        return observations
    return [one for one in observations if one[0] <= as_of]


def snapshot_before(observations: Observations) -> tuple[datetime, float] | None:
    """Return the snapshot about a day before the latest: the last one old enough, else the oldest."""
    at = observations[-1][0]
    older = [one for one in observations[:-1] if days(one[0], at) >= WINDOW]
    if older:
        return older[-1]
    return observations[0] if len(observations) > 1 and observations[0][0] < at else None
