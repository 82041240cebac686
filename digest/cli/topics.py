"""`digest topics`: check a filter, or try it on the catalog."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

from digest import plurals
from digest.cli import backtests, command_context, packs, terminal
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
from digest.cli.results import CommandResult, Note, listing

if TYPE_CHECKING:
    from digest.topics.filter_parser import Filter

app = group("Check a filter, or try it on the catalog.")

app.add_typer(packs.app, name="pack")

FilterText = Annotated[str, argument("FILTER", "For example: title:diffusion AND (video OR image)")]


@app.command()
@command()
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
            [Note(f"note: {warning}") for warning in parsed.warnings],
        ),
    )


@app.command("test")
@command(reading)
def try_out(
    work: Workspace,
    text: FilterText,
    explain: Annotated[bool, option("--explain", "Show the arithmetic of each score, term by term.")] = False,
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
    from digest.topics.filter_registry import FilterRegistry
    from digest.topics.paper_index import PaperIndex

    registry = FilterRegistry(work.session)
    parsed = registry.read(text)
    resolved, packs_used = registry.resolve(parsed), registry.resolved_packs(parsed)
    index = PaperIndex(queries.papers(work.session, until=now))
    shown = limit if as_json else limit or terminal.LIMIT
    report = backtests.report_on(resolved, index, shown, explain=explain) | {"canonical": parsed.canonical}
    if packs_used:
        report |= {"resolved": resolved.canonical, "packs": packs_used}
    return CommandResult(report, backtests.backtest_text(report))


@app.command()
@command(reading)
def stats(
    work: Workspace,
    days: Annotated[
        int,
        option(
            "--days N",
            "Count the matches among the papers of the last N days. Default: 14.",
            parser=positive_number,
        ),
    ] = 14,
    health: Annotated[
        str | None,
        option("--health HEALTH", "The health of the filters: broken, silent, overflowing or fine."),
    ] = None,
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
    from digest.topics.filter_registry import FilterRegistry

    with command_context.open_context() as context, context.read_session() as session:
        registry = FilterRegistry(session)
        parsed = registry.read(text)
        return parsed, registry.resolve(parsed), registry.resolved_packs(parsed)
