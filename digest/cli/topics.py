"""`digest topics`: check a filter, try it on the catalog, or suggest a filter."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from digest.cli import backtests, command_context, packs, terminal, topic_suggestions
from digest.cli.common_options import AsJson, Limit, Now

if TYPE_CHECKING:
    from digest.topics import Filter

app = typer.Typer(help="Check a filter, or try it on the catalog.", no_args_is_help=True)

app.add_typer(packs.app, name="pack")

FilterText = Annotated[
    str, typer.Argument(metavar="FILTER", help="For example: title:diffusion AND (video OR image)")
]


@app.command()
def check(text: FilterText, as_json: AsJson = False) -> None:
    """Print a filter's canonical form, or mark the mistake."""
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
    """Try a filter on the catalog: matches, reasons, papers per day."""
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


def read(text: str) -> tuple[Filter, Filter, Mapping[str, str]]:
    """Return the parsed filter, the resolved filter, and the canonical form of each pack filter it uses.

    The database is opened only if a paper or a pack must be looked up.
    """
    from digest import subscribers, topics

    if "like:" not in text.lower():
        parsed = topics.parse(text)
        if not parsed.uses:
            return parsed, parsed, {}
    with command_context.open_context() as context, context.read_session() as session:
        registry = subscribers.FilterRegistry(session)
        parsed = registry.read(text)
        return parsed, registry.resolve(parsed), registry.resolved_packs(parsed)
