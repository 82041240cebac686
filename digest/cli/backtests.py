"""Report back-tests of filters on the catalog for `digest topics`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, date
from typing import TYPE_CHECKING, Any

from digest import plurals
from digest.cli import packs
from digest.cli.results import Note, Table, Text

if TYPE_CHECKING:
    from digest.papers.paper_record import Paper
    from digest.topics.filter_parser import Filter
    from digest.topics.paper_index import PaperIndex
    from digest.topics.relevance_terms import RelevanceTerm

DIGITS = 4  #: number of decimals of a score and its terms with `--explain`


def report_on(
    parsed: Filter, index: PaperIndex, limit: int | None, *, explain: bool = False
) -> dict[str, Any]:
    """Return the back-test of a filter; list at most `limit` matches, because explaining them takes time."""
    from digest.topics import filter_backtest

    days = first_seen_days(index.papers)
    tested = filter_backtest.backtest(parsed, index, days)
    return {
        "canonical": parsed.canonical,
        "found": index.matches(parsed).bit_count(),
        "matches": matches_of(parsed, index, limit, explain=explain),
        "per_day": packs.per_day_report(tested.per_day),
        "clauses": [
            {"clause": clause, "per_day": per_day, "effect": effect}
            for (clause, per_day), effect in zip(tested.clauses, tested.clause_effects, strict=True)
        ],
        "last": [{"day": f"{days[number]}", **paper_report(index.papers[number])} for number in tested.last],
        "warnings": list(dict.fromkeys((*parsed.warnings, *tested.warnings))),
    }


def paper_report(paper: Paper) -> dict[str, Any]:
    """Return a paper's id, its raw title and its displayed title."""
    from digest.papers import display_text

    return {"id": paper.id, "title": paper.title, "display_title": display_text.display(paper.title)}


def first_seen_days(papers: Iterable[Paper]) -> list[date]:
    """Return the day each paper was first seen, in UTC."""
    return [paper.first_seen_at.astimezone(UTC).date() for paper in papers]


def matches_of(
    parsed: Filter, index: PaperIndex, limit: int | None, *, explain: bool
) -> list[dict[str, Any]]:
    """Return the matches in the catalog, most relevant first; with `explain`, also the terms of each score."""
    from digest.topics import relevance_terms
    from digest.topics.explanation import Explainer

    fitting = index.relevance(parsed, index.matches(parsed))
    best = sorted(fitting, key=lambda number: (-fitting[number], number))[:limit]
    explainer = Explainer(index)
    terms = relevance_terms.score_terms(index, parsed, best) if explain else {}
    return [
        {
            **paper_report(index.papers[number]),
            "score": fitting[number],
            "why": list(explainer.explain(parsed, number).why),
            **({"terms": [term_report(term) for term in terms[number]]} if explain else {}),
        }
        for number in best
    ]


def term_report(term: RelevanceTerm) -> dict[str, Any]:
    """Return one term of a score for JSON."""
    return {"words": term.words, "value": term.value, "arithmetic": term.arithmetic}


# ── for people ──────────────────────────────────────────────────────────────────────────────────


def backtest_text(report: Mapping[str, Any]) -> Iterator[Text]:
    """Yield a back-test: the figures, the effect of each clause, and the matches."""
    yield report["canonical"]
    yield from (f"  {name} resolves to {canonical}" for name, canonical in report.get("packs", {}).items())
    yield f"{figures_text(report)}."
    yield from (Note(f"note: {warning}") for warning in report["warnings"])
    if len(report["clauses"]) > 1:
        yield ""
        yield from (f"{clause['effect']}." for clause in report["clauses"])
    if matches := report["matches"]:
        yield ""
        if "terms" in matches[0]:
            yield from (line for match in matches for line in terms_text(match))
        else:
            yield Table(rows=matches, columns=MATCH_COLUMNS, shrinks="title why")
        if report["per_day"]["days"] > 1:
            latest: dict[str, Any] = {
                "day": "day",
                "id#": lambda one: str(one["id"]),
                "title": "display_title",
            }
            yield ("", "Latest matches:", Table(rows=report["last"], columns=latest, shrinks="title"))
    if report["found"] > len(matches):
        more, every = report["found"] - len(matches), report["found"]
        yield Note(f"{more:,} more; --limit {every} shows them all.")


MATCH_COLUMNS: dict[str, Any] = {
    "id#": lambda one: str(one["id"]),
    "fit#": "score",
    "title": "display_title",
    "why": lambda one: "; ".join(one["why"][:2]),
}


def figures_text(report: Mapping[str, Any]) -> str:
    """Return the number of matches and the papers per day in words."""
    per_day = report["per_day"]
    found = f"{plurals.count(report['found'], 'match', 'matches')} in {plurals.count(per_day['days'], 'day')}"
    usual = f": {per_day['median']:g} on a typical day, {per_day['p90']:g} on a busy day, {per_day['max']:g} at most"
    return f"{found}{usual if per_day['days'] > 1 else ''}"


def terms_text(match: Mapping[str, Any]) -> Iterator[str]:
    """Yield a match with the terms of its score, rounded so that they add up to the printed score."""
    score = round(match["score"], DIGITS)
    yield f"{match['id']}  {score:.{DIGITS}f}  {match['display_title']}"
    values = rounded_to_sum([term["value"] for term in match["terms"]], score)
    for value, term in zip(values, match["terms"], strict=True):
        yield f"    {value:.{DIGITS}f}  {term['words']}".rstrip() + f" = {term['arithmetic']}"


def rounded_to_sum(values: Sequence[float], total: float) -> list[float]:
    """Round values so that they add up to `total`: the values with the largest remainders are rounded up."""
    unit = 10**-DIGITS
    steps = [int(value / unit) for value in values]
    missing = round(total / unit) - sum(steps)
    most_cut = sorted(range(len(values)), key=lambda place: steps[place] - values[place] / unit)
    for place in most_cut[: max(0, missing)]:
        steps[place] += 1
    return [step * unit for step in steps]
