"""Score each paper by the votes per day that it is expected to receive now, and give the reasons.

The score is log2 of an empirical-Bayes estimate (Gamma-Poisson). The prior depends on the paper's age and
is updated by observations. An unknown signal leaves the prior unchanged, so a paper is not penalised for a
signal that its source does not print. Each term adds bits to the score and may give a reason.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time
from math import exp, log, log2
from types import MappingProxyType

from digest.papers.paper_record import Paper

HALF_LIFE = 2.0  #: number of days in which a paper's votes per day fall by half
DECAY_DAYS = HALF_LIFE / log(2)  #: the mean lifetime of this decay, in days
FIRST_DAY_VOTES = 4.0  #: m0: votes per day expected for a new paper without observed votes
FIRST_DAY_WEIGHT = 0.5  #: k0: the weight of FIRST_DAY_VOTES as a prior, in days of observation
#: k1: the weight, in days, of the prior for votes since the last snapshot (`make bench ARGS=trending` compares
#: 0.3 to 1).
WINDOW_WEIGHT = 0.5
#: minimum number of days between the latest snapshot and the one it is compared with, if any is that old
SNAPSHOT_AGE_DAYS = 0.75
MAX_AGE_DAYS = 100.0  #: greater ages are clamped to this value, so that 2 ** -age does not become zero
USUAL_OVERLAP = 0.2  #: p0: the usual share of papers that a source lists again
NEWCOMER_SCORE = log2(FIRST_DAY_VOTES)  #: the score of a new paper for which no signals were observed
MIN_REASON_BITS = 0.3  #: a term that adds fewer bits is not given as a reason

Observations = Sequence[tuple[datetime, float]]


@dataclass(frozen=True, kw_only=True, slots=True)
class SecondarySignal:
    """How to score a signal other than votes: its usual rate and how much it may change the prior."""

    usual: float  #: the usual increase of the signal per day
    weight: float  #: the factor by which log2 of (observed rate / usual rate) is multiplied
    prior_days: float  #: the weight of `usual`, in days of observation
    from_birth: bool  #: whether the signal is zero when the paper appears


SECONDARY_SIGNALS: Mapping[str, SecondarySignal] = MappingProxyType(
    {
        # A repository may be older than its paper, so its first count gives no rate.
        "stars": SecondarySignal(usual=3.0, weight=0.15, prior_days=1.0, from_birth=False),
        "comments": SecondarySignal(usual=0.2, weight=0.10, prior_days=3.0, from_birth=True),
    }
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Appearance:
    """The position of a paper in one dump."""

    observed_at: datetime
    position: int  #: 1-based
    size: int  #: number of papers in the dump
    order: str = "none"  #: ranked, relevance or none; only `ranked` is an order by popularity


@dataclass(frozen=True, kw_only=True, slots=True)
class Evidence:
    """All observations of one paper; a missing signal does not lower its score."""

    first_seen_at: datetime
    posted: date | None = None  #: the day on which voting opened
    published: date | None = None
    #: for each signal, its observations from old to new
    observations: Mapping[str, Observations] = field(default_factory=dict)
    appearances: tuple[Appearance, ...] = ()  #: oldest first
    n_dumps: int = 1  #: number of dumps read since the paper was first seen, including the first


@dataclass(frozen=True, kw_only=True, slots=True)
class TrendingScore:
    """The trending score of a paper and the reasons for it."""

    value: float  #: log2 of the votes per day expected now
    reasons: tuple[str, ...]  #: the reasons from observed signals, strongest first


@dataclass(frozen=True, kw_only=True, slots=True)
class Ranked:
    """A paper with its trending score and reasons."""

    paper: Paper
    score: float
    reasons: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class ScoreTerm:
    """A term of the score: the bits that it adds to the prior, and its reason in words."""

    bits: float
    reason: str = ""  #: empty if no signal was observed


def rank(papers: Iterable[Paper], evidence: Mapping[int, Evidence], as_of: datetime) -> list[Ranked]:
    """Return the papers by decreasing trending score; on a tie, newer papers come first, then lower ids."""
    overlap = usual_overlap(evidence.values())
    ranked = []
    for paper in papers:
        known = evidence.get(paper.id) or Evidence(first_seen_at=paper.first_seen_at)
        scored = score(known, as_of, overlap=overlap)
        ranked.append(Ranked(paper=paper, score=scored.value, reasons=scored.reasons))
    ranked.sort(key=lambda one: (-one.score, -one.paper.first_seen_at.timestamp(), one.paper.id))
    return ranked


def score(evidence: Evidence, as_of: datetime, *, overlap: float = USUAL_OVERLAP) -> TrendingScore:
    """Return the trending score at `as_of`, ignoring later observations."""
    votes = observed_by(evidence.observations.get("upvotes", ()), as_of)
    age = age_in_days(evidence, as_of, has_votes=bool(votes))
    terms = secondary_terms(evidence, age, as_of)
    if not votes:
        terms += [position_term(evidence, as_of), return_term(evidence, as_of, overlap)]
        bits = sum(term.bits for term in terms)
        return TrendingScore(value=NEWCOMER_SCORE - age / HALF_LIFE + bits, reasons=score_reasons(terms))
    tilt = sum(term.bits for term in terms)
    value, votes_term = score_of_votes(votes, age, as_of, tilt)
    return TrendingScore(value=value, reasons=score_reasons([votes_term, *terms]))


# ── votes ───────────────────────────────────────────────────────────────────────────────────────


def score_of_votes(votes: Observations, age: float, as_of: datetime, tilt: float) -> tuple[float, ScoreTerm]:
    """Return the score of a paper with known votes, and the term for its votes.

    A paper that is missing from the latest dumps is scored by its last known votes, and that score then
    decays with time.
    """
    at, latest = votes[-1]
    stale = days_between(at, as_of)
    age_then = max(0.0, age - stale)
    before = snapshot_before(votes)
    if before is None:
        rate = first_day_rate(latest, age_then) * 2 ** (tilt - age_then / HALF_LIFE)
    else:
        start, held = before
        span = days_between(start, at)
        prior = first_day_rate(held, max(0.0, age_then - span)) * 2 ** (tilt - age_then / HALF_LIFE)
        gained = max(0.0, latest - held)
        rate = (WINDOW_WEIGHT * prior + gained) / (WINDOW_WEIGHT + span)
    usual = FIRST_DAY_VOTES * 2 ** (-age_then / HALF_LIFE)
    bits = log2(rate / usual) - tilt
    return log2(rate) - stale / HALF_LIFE, ScoreTerm(bits=bits, reason=votes_reason(votes, before, as_of))


def first_day_rate(votes: float, age: float) -> float:
    """Return the votes per day on the first day, estimated from the votes received up to `age`."""
    lived = DECAY_DAYS * (1 - exp(-age / DECAY_DAYS))
    return (FIRST_DAY_WEIGHT * FIRST_DAY_VOTES + votes) / (FIRST_DAY_WEIGHT + lived)


def votes_reason(votes: Observations, before: tuple[datetime, float] | None, as_of: datetime) -> str:
    """Return the number of votes as a reason, or "" if the paper gained no votes."""
    latest = votes[-1][1]
    if before is None:
        return figure_with_noun(latest, "upvote") if latest > 0 else ""
    gained = latest - before[1]
    if gained <= 0:
        return ""
    return gain_in_words(latest, gained, "upvote", since=relative_day(before[0], as_of))


# ── other terms ─────────────────────────────────────────────────────────────────────────────────


def secondary_terms(evidence: Evidence, age: float, as_of: datetime) -> list[ScoreTerm]:
    """Return the terms of the score for the paper's stars and comments, if observed."""
    terms = []
    for name, side in SECONDARY_SIGNALS.items():
        seen = observed_by(evidence.observations.get(name, ()), as_of)
        if seen:
            terms.append(secondary_term(name, side, seen, age, as_of))
    return terms


def secondary_term(
    name: str, side: SecondarySignal, seen: Observations, age: float, as_of: datetime
) -> ScoreTerm:
    """Return the term for one secondary signal: log2 of its rate over the usual rate, shrunk towards zero."""
    at, latest = seen[-1]
    before = snapshot_before(seen)
    if before is not None:
        gained, span = max(0.0, latest - before[1]), days_between(before[0], at)
        reason = gain_in_words(latest, gained, name.removesuffix("s"), since=relative_day(before[0], as_of))
    elif side.from_birth:
        gained, span = latest, max(0.0, age - days_between(at, as_of))
        reason = figure_with_noun(gained, name.removesuffix("s"))
    else:
        return ScoreTerm(bits=0.0)
    rate = (gained + side.usual * side.prior_days) / (span + side.prior_days)
    bits = min(5.0, max(-2.0, log2(rate / side.usual)))
    return ScoreTerm(bits=side.weight * bits, reason=reason if gained else "")


def position_term(evidence: Evidence, as_of: datetime) -> ScoreTerm:
    """Return the term for the paper's position in the latest dump that is ordered by popularity."""
    ranked = [one for one in evidence.appearances if one.order == "ranked" and one.observed_at <= as_of]
    if not ranked:
        return ScoreTerm(bits=0.0)
    last = ranked[-1]
    surprise = -log2((last.position - 0.5) / max(last.size, last.position)) - 1 / log(2)  # mean 0
    whose = f"{relative_day(last.observed_at, as_of)}'s"
    return ScoreTerm(bits=0.5 * surprise, reason=f"#{last.position} of {last.size} on {whose} list")


def return_term(evidence: Evidence, as_of: datetime, overlap: float) -> ScoreTerm:
    """Return the term for the share of dumps that listed the paper again, compared with the usual share."""
    seen = sum(one.observed_at <= as_of for one in evidence.appearances)
    chances = max(evidence.n_dumps, seen) - 1  # the first dump of a paper does not count as a return
    if seen == 0 or chances <= 0:
        return ScoreTerm(bits=0.0)
    bits = 0.40 * log2((seen - 1 + 2 * overlap) / (chances + 2) / overlap)
    days = {
        one.observed_at.astimezone(UTC).date() for one in evidence.appearances if one.observed_at <= as_of
    }
    return ScoreTerm(bits=bits, reason=days_on_list(len(days)) if len(days) > 1 else "")


def usual_overlap(evidence: Iterable[Evidence]) -> float:
    """Return the observed share of papers that are listed again, shrunk towards `USUAL_OVERLAP`."""
    returned, chances = 0, 0
    for one in evidence:
        if one.appearances:
            returned += len(one.appearances) - 1
            chances += max(one.n_dumps, len(one.appearances)) - 1
    weight = 50.0  # `USUAL_OVERLAP` has the weight of this many observations
    return (returned + weight * USUAL_OVERLAP) / (chances + weight)


# ── reasons ─────────────────────────────────────────────────────────────────────────────────────


def score_reasons(terms: Iterable[ScoreTerm]) -> tuple[str, ...]:
    """Return the reasons of the terms that add more than MIN_REASON_BITS, the strongest first."""
    strong = (term for term in terms if term.reason and term.bits > MIN_REASON_BITS)
    return tuple(term.reason for term in sorted(strong, key=lambda term: -term.bits))


def gain_in_words(latest: float, gained: float, noun: str, *, since: str) -> str:
    """Return the total and the gain in words, such as "214 upvotes, 40 of them since yesterday"."""
    if gained >= latest:
        return f"{figure_with_noun(gained, noun)} since {since}"
    return f"{figure_with_noun(latest, noun)}, {gained:,.0f} of them since {since}"


def figure_with_noun(figure: float, noun: str) -> str:
    """Return a count with its noun, such as "1 upvote", "42 upvotes" or "1,310 stars"."""
    return f"{figure:,.0f} {noun}{'' if round(figure) == 1 else 's'}"


NUMBERS = ("two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")


def days_on_list(days: int) -> str:
    """Return the number of days, such as "listed two days running"."""
    number = NUMBERS[days - 2] if days <= len(NUMBERS) + 1 else str(days)
    return f"listed {number} days running"


def relative_day(moment: datetime, as_of: datetime) -> str:
    """Return the UTC day of `moment` relative to `as_of`: today, yesterday, Monday, 3 November."""
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
    """Return the paper's age in days, from which the expected number of votes per day is computed.

    The age counts from the day the paper was posted. If that day is unknown, it counts from publication for
    a paper with votes, and otherwise from the first sighting, since dumps may list old papers.
    """
    born = evidence.posted or (evidence.published if has_votes else None)
    start = datetime.combine(born, time(), UTC) if born else evidence.first_seen_at
    return min(max(0.0, days_between(start, as_of)), MAX_AGE_DAYS)


def days_between(start: datetime, end: datetime) -> float:
    """Return the number of days from `start` to `end`."""
    return (end - start).total_seconds() / 86400


def observed_by(observations: Observations, as_of: datetime) -> Observations:
    """Return the observations made up to `as_of`."""
    if not observations or observations[-1][0] <= as_of:
        return observations
    return [one for one in observations if one[0] <= as_of]


def snapshot_before(observations: Observations) -> tuple[datetime, float] | None:
    """Return the newest snapshot at least SNAPSHOT_AGE_DAYS before the latest, else the oldest, or None."""
    at = observations[-1][0]
    older = [one for one in observations[:-1] if days_between(one[0], at) >= SNAPSHOT_AGE_DAYS]
    if older:
        return older[-1]
    return observations[0] if len(observations) > 1 and observations[0][0] < at else None
