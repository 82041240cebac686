"""`digest topics`: try a filter before anybody lives with it."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, date
from typing import TYPE_CHECKING, Annotated, Any

import typer

from digest.cli import packs, rooms, screen
from digest.cli.options import AsJson, Limit, Now

if TYPE_CHECKING:
    from digest.papers import Paper
    from digest.topics import Filter, Index

app = typer.Typer(help="Check a filter, or try it on the catalog.", no_args_is_help=True)

app.add_typer(packs.app, name="pack")

FilterText = Annotated[
    str, typer.Argument(metavar="FILTER", help="For example: title:diffusion AND (video OR image)")
]


@app.command()
def check(text: FilterText, as_json: AsJson = False) -> None:
    """Print a filter's canonical form, or point at the mistake."""
    parsed, whole, meanings = read(text)
    if as_json:
        report: dict[str, Any] = {"canonical": parsed.canonical, "warnings": list(parsed.warnings)}
        if meanings:
            report |= {"stands_for": whole.canonical, "packs": meanings}
        screen.document(report)
        return
    screen.tell(parsed.canonical)
    for name, canonical in meanings.items():
        screen.tell(f"  {name} stands for {canonical}")
    for warning in parsed.warnings:
        screen.say(f"note: {warning}")


@app.command("test")
def try_out(text: FilterText, limit: Limit = None, now: Now = None, as_json: AsJson = False) -> None:
    """Try a filter on everything: matches, reasons, how many a day."""
    from digest import catalog, subscriptions

    with rooms.opened() as house, house.reading() as session:
        books = subscriptions.Books(session)
        parsed = books.read(text)
        whole, meanings = books.resolved(parsed), books.meanings(parsed)
        papers = catalog.papers(session, until=now)
    report = tried(whole, papers, limit if as_json else limit or screen.LIMIT)
    report = {**report, "canonical": parsed.canonical}
    if meanings:
        report |= {"stands_for": whole.canonical, "packs": meanings}
    if as_json:
        screen.document(report)
    else:
        show(report)


@app.command()
def suggest(
    references: Annotated[
        list[str], typer.Argument(metavar="PAPER...", help="Our id, an arXiv id, a DOI, or the exact title.")
    ],
    now: Now = None,
    as_json: AsJson = False,
) -> None:
    """Propose a filter that finds these papers and their like; three papers are a good start."""
    from digest import catalog, topics

    with rooms.opened() as house, house.reading() as session:
        examples = [catalog.find(session, reference) for reference in references]
        papers = catalog.papers(session, until=now)
    parsed = topics.suggest(examples, topics.Index(papers))
    report = tried(parsed, papers, None if as_json else screen.LIMIT)
    if as_json:
        screen.document(report)
    else:
        show(report)


def read(text: str) -> tuple[Filter, Filter, Mapping[str, str]]:
    """Return a filter as it is written and written out, and what its packs stand for.

    The house is opened only where a paper or a pack must be looked up.
    """
    from digest import subscriptions, topics

    if "like:" not in text.lower():
        parsed = topics.parse(text)
        if not parsed.uses:
            return parsed, parsed, {}
    with rooms.opened() as house, house.reading() as session:
        books = subscriptions.Books(session)
        parsed = books.read(text)
        return parsed, books.resolved(parsed), books.meanings(parsed)


def tried(parsed: Filter, papers: list[Paper], limit: int | None) -> dict[str, Any]:
    """Return what a filter would have brought; only the first matches are explained, for that takes time."""
    from digest import papers as words
    from digest import topics

    index, days = topics.Index(papers), days_of(papers)
    tested = topics.backtest(parsed, index, days)
    return {
        "canonical": parsed.canonical,
        "found": index.matches(parsed).bit_count(),
        "matches": matches_of(parsed, index, papers, limit),
        "per_day": {name: getattr(tested.per_day, name) for name in ("median", "p90", "max", "days")},
        "clauses": [
            {"clause": clause, "a_day": effect, "says": says}
            for (clause, effect), says in zip(tested.clauses, tested.told, strict=True)
        ],
        "last": [
            {"id": papers[number].id, "day": f"{days[number]}", "title": words.display(papers[number].title)}
            for number in tested.last
        ],
        "warnings": list(dict.fromkeys((*parsed.warnings, *tested.warnings))),
    }


def matches_of(parsed: Filter, index: Index, papers: list[Paper], limit: int | None) -> list[dict[str, Any]]:
    """Return what the filter finds in the catalog, most relevant first."""
    from digest import papers as words
    from digest import topics

    fitting = index.relevance(parsed, index.matches(parsed))
    best = sorted(fitting, key=lambda number: (-fitting[number], number))
    return [
        {
            "id": papers[number].id,
            "title": words.display(papers[number].title),
            "score": fitting[number],
            "why": list(topics.explain(parsed, papers[number]).why),
        }
        for number in best[:limit]
    ]


def days_of(papers: list[Paper]) -> list[date]:
    """Return the day each paper was first seen, in UTC."""
    return [paper.first_seen_at.astimezone(UTC).date() for paper in papers]


def show(report: dict[str, Any]) -> None:
    """Show a tried filter to a person: what it finds, and what each of its clauses adds or takes away."""
    matches, per_day = report["matches"], report["per_day"]
    screen.tell(report["canonical"])
    for name, canonical in report.get("packs", {}).items():
        screen.tell(f"  {name} stands for {canonical}")
    found = f"{screen.count(report['found'], 'match', 'matches')} in {screen.count(per_day['days'], 'day')}"
    usual = (
        f": {per_day['median']:g} on most days, {per_day['p90']:g} on busy ones, {per_day['max']:g} at most"
    )
    screen.tell(f"{found}{usual if per_day['days'] > 1 else ''}.")
    for warning in report["warnings"]:
        screen.say(f"note: {warning}")
    if len(report["clauses"]) > 1:
        screen.tell()
        for clause in report["clauses"]:
            screen.tell(f"{clause['says']}.")
    if matches:
        screen.tell()
        screen.table(
            ("id#", "fit#", "title", "why"),
            ((str(one["id"]), one["score"], one["title"], "; ".join(one["why"][:2])) for one in matches),
            give=["title", "why"],
        )
        if per_day["days"] > 1:
            screen.tell("\nIt would have sent these last:")
            screen.table(
                ("day", "id#", "title"),
                ((one["day"], str(one["id"]), one["title"]) for one in report["last"]),
                give=["title"],
            )
    if report["found"] > len(matches):
        screen.say(f"{report['found'] - len(matches):,} more; --limit {report['found']} shows them all.")
