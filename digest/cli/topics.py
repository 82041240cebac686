"""`digest topics`: check a filter, or try it on the catalog."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

from digest import plurals
from digest.cli import command_context, packs, terminal
from digest.cli.command_tree import group
from digest.cli.frame import Workspace, command, reading
from digest.cli.options import (
    CLOCK,
    AsJson,
    GivenNow,
    Limit,
    Now,
    argument,
    option,
    parse_choice,
    positive_number,
)
from digest.cli.results import CommandResult, Text, fields_of, listing, note, table

if TYPE_CHECKING:
    from digest.papers.paper_record import Paper
    from digest.topics.filter_parser import Filter
    from digest.topics.paper_index import PaperIndex

app = group("Check a filter, or try it on the catalog.")

app.add_typer(packs.app, name="pack")

DIGITS = 4  #: number of decimals of a score and its terms with `--explain`
MATCH_COLUMNS: dict[str, Any] = {
    "id#": lambda one: str(one["id"]), "fit#": "score", "title": "display_title",
    "why": lambda one: "; ".join(one["why"][:2]),
}  # fmt: skip

FilterText = Annotated[str, argument("FILTER", "For example: title:diffusion AND (video OR image)")]


@command(app=app)
def check(text: FilterText) -> CommandResult:
    """Print a filter's canonical form, or mark the mistake.

    Examples:
        digest topics check 'title:diffusion AND (video OR image)'
        digest topics check use:lab/nlp --json
    """
    parsed, resolved, packs_used = read(text)
    report: dict[str, Any] = {"canonical": parsed.canonical, "warnings": list(parsed.warnings)}
    if packs_used:
        report |= {"resolved": resolved.canonical, "packs": packs_used}
    return CommandResult(
        report,
        (
            parsed.canonical,
            [f"  {name} resolves to {canonical}" for name, canonical in packs_used.items()],
            [note(f"note: {warning}") for warning in parsed.warnings],
        ),
    )


@command(reading, app, "test")
def try_out(
    work: Workspace,
    text: FilterText,
    explain: bool = option("--explain", "Show the arithmetic of each score, term by term."),
    limit: Limit = None,
    now: GivenNow = None,
    as_json: AsJson = False,
) -> CommandResult:
    """Try a filter on the catalog: show the matches, their reasons and the papers per day.

    Examples:
        digest topics test 'diffus* NOT survey'
        digest topics test 'diffusion OR video' --explain --limit 5
        digest topics test use:lab/nlp --limit 50 --json
    """
    from digest.papers.catalog import queries
    from digest.subscribers.filter_registry import FilterRegistry
    from digest.topics.paper_index import PaperIndex

    registry = FilterRegistry(work.session)
    parsed = registry.read(text)
    resolved, packs_used = registry.resolve(parsed), registry.resolved_packs(parsed)
    index = PaperIndex(queries.papers(work.session, until=now))
    shown = limit if as_json else limit or terminal.LIMIT
    report = report_on(resolved, index, shown, explain=explain) | {"canonical": parsed.canonical}
    if packs_used:
        report |= {"resolved": resolved.canonical, "packs": packs_used}
    return CommandResult(report, backtest_text(report))


@command(reading, app)
def stats(
    work: Workspace,
    days: int = option(
        "--days N",
        "Count the matches among the papers of the last N days. Default: 14.",
        14,
        parser=positive_number,
    ),
    health: str | None = option(
        "--health HEALTH", "The health of the filters: broken, silent, overflowing or fine."
    ),
    limit: Limit = None,
    now: Now = CLOCK,
) -> CommandResult:
    """Measure the filters in use: find filters that match nothing, match too much or are broken.

    A filter overflows if it matches more than 10 papers on a typical day, which is more than a digest shows by default.

    Examples:
        digest topics stats
        digest topics stats --health silent
        digest topics stats --days 30 --json
    """
    from digest.subscribers.topic_stats import FilterHealth, topic_stats

    chosen = parse_choice("--health", health, FilterHealth)
    found, papers = topic_stats(work.session, days=days, now=now)
    counts = Counter(one.health for one in found)
    figures = ", ".join(f"{counts[one]:,} {one}" for one in FilterHealth if counts[one]) or "none in use"
    measured = f"{plurals.count(papers, 'paper')} of the last {plurals.count(days, 'day')}"
    return listing(
        [asdict(one) for one in found if chosen in {None, one.health}],
        {
            "health": "health", "subscribers#": "subscribers", "matches#": "matches",
            "per day#": lambda one: f"{one['per_day']:g}", "busiest#": "busiest", "topic": "example",
            "filter": lambda one: one["reason"] or one["canonical"],
        },
        shrinks="filter topic",
        limit=limit,
        before=(f"Filters: {figures}. Measured on {measured}.", ""),
        hint=" One filter: digest topics test FILTER.",
    )  # fmt: skip


def read(text: str) -> tuple[Filter, Filter, Mapping[str, str]]:
    """Return the parsed and the resolved filter, and the canonical form of each pack filter that `text` uses.

    The database is opened only if a paper or a pack must be looked up.
    """
    from digest.topics import filter_parser

    if "like:" not in text.lower():
        parsed = filter_parser.parse(text)
        if not parsed.uses:
            return parsed, parsed, {}
    from digest.subscribers.filter_registry import FilterRegistry

    with command_context.open_context() as context, context.read_session() as session:
        registry = FilterRegistry(session)
        parsed = registry.read(text)
        return parsed, registry.resolve(parsed), registry.resolved_packs(parsed)


# ── back-tests ──────────────────────────────────────────────────────────────────────────────────


def report_on(
    parsed: Filter, index: PaperIndex, limit: int | None, *, explain: bool = False
) -> dict[str, Any]:
    """Return the back-test of a filter; list at most `limit` matches, because explaining them takes time."""
    from digest.topics import filter_backtest

    days = packs.first_seen_days(index.papers)
    tested = filter_backtest.backtest(parsed, index, days)
    return {
        "canonical": parsed.canonical,
        "found": index.matches(parsed).bit_count(),
        "matches": matches_of(parsed, index, limit, explain=explain),
        "per_day": fields_of(tested.per_day, packs.PER_DAY),
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
            **(
                {"terms": [fields_of(term, "words value arithmetic") for term in terms[number]]}
                if explain
                else {}
            ),
        }
        for number in best
    ]


# ── for people ──────────────────────────────────────────────────────────────────────────────────


def backtest_text(report: Mapping[str, Any]) -> Iterator[Text]:
    """Yield a back-test: the figures, the effect of each clause, and the matches."""
    yield report["canonical"]
    yield from (f"  {name} resolves to {canonical}" for name, canonical in report.get("packs", {}).items())
    per_day = report["per_day"]
    found = f"{plurals.count(report['found'], 'match', 'matches')} in {plurals.count(per_day['days'], 'day')}"
    usual = f": {per_day['median']:g} on a typical day, {per_day['p90']:g} on a busy day, {per_day['max']:g} at most"
    yield f"{found}{usual if per_day['days'] > 1 else ''}."
    yield from (note(f"note: {warning}") for warning in report["warnings"])
    if len(report["clauses"]) > 1:
        yield ""
        yield from (f"{clause['effect']}." for clause in report["clauses"])
    if matches := report["matches"]:
        yield ""
        if "terms" in matches[0]:
            yield from (line for match in matches for line in terms_text(match))
        else:
            yield table(matches, MATCH_COLUMNS, shrinks="title why")
        if per_day["days"] > 1:
            latest: dict[str, Any] = {
                "day": "day",
                "id#": lambda one: str(one["id"]),
                "title": "display_title",
            }
            yield ("", "Latest matches:", table(report["last"], latest, shrinks="title"))
    if report["found"] > len(matches):
        more, every = report["found"] - len(matches), report["found"]
        yield note(f"{more:,} more; --limit {every} shows them all.")


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
