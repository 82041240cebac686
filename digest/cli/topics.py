"""`digest topics`: check a filter, try it on the catalog, or suggest a filter."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, date
from typing import TYPE_CHECKING, Annotated, Any

import typer

from digest import plurals
from digest.cli import command_context, packs, terminal
from digest.cli.common_options import AsJson, Limit, Now

if TYPE_CHECKING:
    from digest.papers import Paper
    from digest.topics import Filter, PaperIndex

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
def try_out(text: FilterText, limit: Limit = None, now: Now = None, as_json: AsJson = False) -> None:
    """Try a filter on the catalog: matches, reasons, papers per day."""
    from digest import subscribers
    from digest.papers import catalog

    with command_context.open_context() as context, context.read_session() as session:
        registry = subscribers.FilterRegistry(session)
        parsed = registry.read(text)
        resolved, packs_used = registry.resolve(parsed), registry.resolved_packs(parsed)
        papers = catalog.papers(session, until=now)
    report = backtest_report(resolved, papers, limit if as_json else limit or terminal.LIMIT)
    report = {**report, "canonical": parsed.canonical}
    if packs_used:
        report |= {"resolved": resolved.canonical, "packs": packs_used}
    if as_json:
        terminal.print_json(report)
    else:
        show(report)


@app.command()
def suggest(
    references: Annotated[
        list[str], typer.Argument(metavar="PAPER...", help="Catalog ids, arXiv ids, DOIs, or exact titles.")
    ],
    now: Now = None,
    as_json: AsJson = False,
) -> None:
    """Suggest a filter that finds these papers and similar papers; give about three papers."""
    from digest import topics
    from digest.papers import catalog

    with command_context.open_context() as context, context.read_session() as session:
        examples = [catalog.find(session, reference) for reference in references]
        papers = catalog.papers(session, until=now)
    parsed = topics.suggest(examples, topics.PaperIndex(papers))
    report = backtest_report(parsed, papers, None if as_json else terminal.LIMIT)
    if as_json:
        terminal.print_json(report)
    else:
        show(report)


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


def backtest_report(parsed: Filter, papers: list[Paper], limit: int | None) -> dict[str, Any]:
    """Return the back-test of a filter; only `limit` matches are explained, because this takes time."""
    from digest import papers as words
    from digest import topics

    index, days = topics.PaperIndex(papers), first_seen_days(papers)
    tested = topics.backtest(parsed, index, days)
    return {
        "canonical": parsed.canonical,
        "found": index.matches(parsed).bit_count(),
        "matches": matches_of(parsed, index, papers, limit),
        "per_day": packs.per_day_report(tested.per_day),
        "clauses": [
            {"clause": clause, "per_day": per_day, "effect": effect}
            for (clause, per_day), effect in zip(tested.clauses, tested.clause_effects, strict=True)
        ],
        "last": [
            {"id": papers[number].id, "day": f"{days[number]}", "title": words.display(papers[number].title)}
            for number in tested.last
        ],
        "warnings": list(dict.fromkeys((*parsed.warnings, *tested.warnings))),
    }


def matches_of(
    parsed: Filter, index: PaperIndex, papers: list[Paper], limit: int | None
) -> list[dict[str, Any]]:
    """Return the matches in the catalog, most relevant first."""
    from digest import papers as words
    from digest import topics

    fitting = index.relevance(parsed, index.matches(parsed))
    best = sorted(fitting, key=lambda number: (-fitting[number], number))
    explainer = topics.Explainer(index)
    return [
        {
            "id": papers[number].id,
            "title": words.display(papers[number].title),
            "score": fitting[number],
            "why": list(explainer.explain(parsed, number).why),
        }
        for number in best[:limit]
    ]


def first_seen_days(papers: list[Paper]) -> list[date]:
    """Return the day each paper was first seen, in UTC."""
    return [paper.first_seen_at.astimezone(UTC).date() for paper in papers]


def show(report: dict[str, Any]) -> None:
    """Print a back-test: the matches, and the effect of each clause."""
    matches, per_day = report["matches"], report["per_day"]
    terminal.print_line(report["canonical"])
    for name, canonical in report.get("packs", {}).items():
        terminal.print_line(f"  {name} resolves to {canonical}")
    found = f"{plurals.count(report['found'], 'match', 'matches')} in {plurals.count(per_day['days'], 'day')}"
    usual = f": {per_day['median']:g} on a typical day, {per_day['p90']:g} on a busy day, {per_day['max']:g} at most"
    terminal.print_line(f"{found}{usual if per_day['days'] > 1 else ''}.")
    for warning in report["warnings"]:
        terminal.print_note(f"note: {warning}")
    if len(report["clauses"]) > 1:
        terminal.print_line()
        for clause in report["clauses"]:
            terminal.print_line(f"{clause['effect']}.")
    if matches:
        terminal.print_line()
        terminal.print_table(
            ("id#", "fit#", "title", "why"),
            ((str(one["id"]), one["score"], one["title"], "; ".join(one["why"][:2])) for one in matches),
            shrinkable=["title", "why"],
        )
        if per_day["days"] > 1:
            terminal.print_line("\nLatest matches:")
            terminal.print_table(
                ("day", "id#", "title"),
                ((one["day"], str(one["id"]), one["title"]) for one in report["last"]),
                shrinkable=["title"],
            )
    terminal.print_rest(len(matches), report["found"])
