"""`digest topics`: check a filter, try it on the catalog, or suggest a filter."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from digest import plurals
from digest.cli import backtests, command_context, packs, terminal, topic_suggestions
from digest.cli.command_tree import group
from digest.cli.common_options import AsJson, Limit, Now, current_time, parse_choice, positive_number

if TYPE_CHECKING:
    from digest.topics import Filter

app = group("Check a filter, or try it on the catalog.")

app.add_typer(packs.app, name="pack")

FilterText = Annotated[
    str, typer.Argument(metavar="FILTER", help="For example: title:diffusion AND (video OR image)")
]


@app.command()
def check(text: FilterText, as_json: AsJson = False) -> None:
    """Print a filter's canonical form, or mark the mistake.

    Examples:
        digest topics check 'title:diffusion AND (video OR image)'
        digest topics check use:lab/nlp --json
    """
    parsed, resolved, packs_used = read(text)
    if as_json:
        report: dict[str, Any] = {"canonical": parsed.canonical, "warnings": list(parsed.warnings)}
        if packs_used:
            report |= {"resolved": resolved.canonical, "packs": packs_used}
        terminal.print_json(report)
        return
    terminal.print_line(parsed.canonical)
    for name, canonical in packs_used.items():
        terminal.print_line(f"  {name} resolves to {canonical}")
    for warning in parsed.warnings:
        terminal.print_note(f"note: {warning}")


@app.command("test")
def try_out(
    text: FilterText,
    explain: Annotated[
        bool, typer.Option("--explain", help="Show the arithmetic of each score, term by term.")
    ] = False,
    limit: Limit = None,
    now: Now = None,
    as_json: AsJson = False,
) -> None:
    """Try a filter on the catalog: show the matches, their reasons and the papers per day.

    Examples:
        digest topics test 'diffus* NOT survey'
        digest topics test 'diffusion OR video' --explain --limit 5
        digest topics test use:lab/nlp --limit 50 --json
    """
    from digest import subscribers, topics
    from digest.papers import catalog

    with command_context.open_context() as context, context.read_session() as session:
        registry = subscribers.FilterRegistry(session)
        parsed = registry.read(text)
        resolved, packs_used = registry.resolve(parsed), registry.resolved_packs(parsed)
        papers = catalog.papers(session, until=now)
    shown = limit if as_json else limit or terminal.LIMIT
    report = backtests.report_on(resolved, topics.PaperIndex(papers), shown, explain=explain)
    report = {**report, "canonical": parsed.canonical}
    if packs_used:
        report |= {"resolved": resolved.canonical, "packs": packs_used}
    if as_json:
        terminal.print_json(report)
    else:
        backtests.show(report)


app.command()(topic_suggestions.suggest)


@app.command()
def stats(
    days: Annotated[
        int,
        typer.Option(
            "--days",
            parser=positive_number,
            metavar="N",
            help="Count the matches among the papers of the last N days.",
        ),
    ] = 14,
    health: Annotated[
        str | None,
        typer.Option(
            "--health",
            metavar="HEALTH",
            help="The health of the filters: broken, silent, overflowing or fine.",
            show_default=False,
        ),
    ] = None,
    limit: Limit = None,
    now: Now = None,
    as_json: AsJson = False,
) -> None:
    """Measure the filters in use: find filters that match nothing, match too much or are broken.

    A filter overflows if it matches more than 10 papers on a typical day, which is more than a digest shows by default.

    Examples:
        digest topics stats
        digest topics stats --health silent
        digest topics stats --days 30 --json
    """
    from dataclasses import asdict

    from digest.subscribers.topic_stats import FilterHealth, topic_stats

    chosen = parse_choice("--health", health, FilterHealth)
    with command_context.open_context() as context, context.read_session() as session:
        found, papers = topic_stats(session, days=days, now=current_time(now))
    shown = [one for one in found if chosen in {None, one.health}]
    if as_json:
        terminal.lines(asdict(one) for one in shown[:limit])
        return
    counts = Counter(one.health for one in found)
    figures = ", ".join(f"{counts[one]:,} {one}" for one in FilterHealth if counts[one]) or "none in use"
    measured = f"{plurals.count(papers, 'paper')} of the last {plurals.count(days, 'day')}"
    terminal.print_line(f"Filters: {figures}. Measured on {measured}.")
    if not shown:
        return
    terminal.print_line()
    terminal.print_table(
        ("health", "subscribers#", "matches#", "per day#", "busiest#", "topic", "filter"),
        (
            (
                s.health,
                s.subscribers,
                s.matches,
                f"{s.per_day:g}",
                s.busiest,
                s.example,
                s.reason or s.canonical,
            )
            for s in shown[: limit or terminal.LIMIT]
        ),
        shrinkable=["filter", "topic"],
    )
    terminal.print_rest(
        min(len(shown), limit or terminal.LIMIT), len(shown), " One filter: digest topics test FILTER."
    )


def read(text: str) -> tuple[Filter, Filter, Mapping[str, str]]:
    """Return the parsed and the resolved filter, and the canonical form of each pack filter that `text` uses.

    The database is opened only if a paper or a pack must be looked up.
    """
    from digest import topics

    if "like:" not in text.lower():
        parsed = topics.parse(text)
        if not parsed.uses:
            return parsed, parsed, {}
    from digest import subscribers  # loads the database libraries, which other filters do not need

    with command_context.open_context() as context, context.read_session() as session:
        registry = subscribers.FilterRegistry(session)
        parsed = registry.read(text)
        return parsed, registry.resolve(parsed), registry.resolved_packs(parsed)
