"""`digest topics suggest`: suggest a topic for a few papers, or topics for a library."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Annotated, Any

import typer

from digest import plurals
from digest.cli import backtests, command_context, terminal
from digest.cli.common_options import AsJson, Now, current_time
from digest.errors import UsageError

if TYPE_CHECKING:
    from digest.subscribers import ReadLibrary
    from digest.topics import FrequentAuthor, LibraryTopic, PaperIndex, SuggestedTopic

References = Annotated[
    list[str] | None,
    typer.Argument(metavar="PAPER", help="Catalog ids, arXiv ids, DOIs, or exact titles; about three."),
]
LibraryFile = Annotated[
    Path | None,
    typer.Option(
        "--from",
        metavar="FILE",
        help="A library of 1 to 2,000 papers as BibTeX, RIS or CSL-JSON. The library is read but not stored.",
        show_default=False,
    ),
]


def suggest(
    references: References = None, library: LibraryFile = None, now: Now = None, as_json: AsJson = False
) -> None:
    """Suggest a topic for a few papers, or one to five topics for a library, and test them on the catalog.

    Examples:
        digest topics suggest 12 40 10.1234/tides
        digest topics suggest 2411.00001 --json
        digest topics suggest --from library.bib
    """
    if bool(references) == (library is not None):
        raise UsageError("Name some papers of the catalog, or a library with --from FILE, but not both.")
    if library is None:
        suggest_for_papers(references or [], now, as_json=as_json)
    else:
        suggest_for_library(library, now, as_json=as_json)


# ── a topic for papers ──────────────────────────────────────────────────────────────────────────


def suggest_for_papers(references: Sequence[str], now: datetime | None, *, as_json: bool) -> None:
    """Suggest a topic for papers of the catalog."""
    from digest import topics
    from digest.papers import catalog

    with command_context.open_context() as context, context.read_session() as session:
        examples = [catalog.find(session, reference) for reference in references]
        index = topics.PaperIndex(catalog.papers(session, until=now))
    examples = list({paper.id: paper for paper in examples}.values())
    topic = topics.suggest_topic(examples, index)
    report = topic_report(topic, index, None if as_json else terminal.LIMIT)
    if as_json:
        terminal.print_json(report)
        return
    terminal.print_line(topic.name)
    show_clauses(report, len(examples))
    terminal.print_line()
    backtests.show(report)


def topic_report(topic: SuggestedTopic, index: PaperIndex, limit: int | None) -> dict[str, Any]:
    """Return a suggested topic: its name, the papers that each clause finds, and its back-test."""
    return {
        "name": topic.name,
        **backtests.report_on(topic.filter, index, limit),
        "finds": [
            {"clause": one.clause, "examples": one.examples, "found": one.found, "added": one.added}
            for one in topic.clauses
        ],
        "missed": [backtests.paper_report(paper) for paper in topic.missed],
    }


def show_clauses(report: Mapping[str, Any], examples: int) -> None:
    """Print the number of papers that each clause finds, and the examples that no clause finds."""
    for place, one in enumerate(report["finds"]):
        more = f", {one['added']} more than before it" if place else ""
        terminal.print_line(
            f"  {'OR ' if place else ''}{one['clause']} finds {one['examples']} of your"
            f" {plurals.count(examples, 'paper')} and {one['found']} in the catalog{more}."
        )
    for paper in report["missed"]:
        terminal.print_note(f"note: no clause finds {paper['display_title']}")


# ── topics for a library ────────────────────────────────────────────────────────────────────────


def suggest_for_library(path: Path, now: datetime | None, *, as_json: bool) -> None:
    """Suggest topics for a file of papers without storing the papers."""
    from digest import topics
    from digest.papers import catalog

    library = read(path, current_time(now))
    with command_context.open_context() as context, context.read_session() as session:
        index = topics.PaperIndex(catalog.papers(session, until=now))
    found = topics.suggest_from_library(library.papers, index)
    report = {
        "papers": len(library.papers),
        "is_complete": library.is_complete,
        "problems": [{"line": one.line, "reason": one.reason} for one in library.problems],
        "topics": [library_topic_report(one, index) for one in found.topics],
        "authors": [author_report(one, index) for one in found.authors],
    }
    if as_json:
        terminal.print_json(report)
    else:
        show_library(path.name, report)


def read(path: Path, now: datetime) -> ReadLibrary:
    """Read the file of a library.

    Raises UsageError if the file cannot be opened, is too large or has no papers.
    """
    from digest import subscribers

    try:
        with path.open("rb") as file:
            library = subscribers.read_library(
                file, name=path.name, limits=subscribers.FILE_LIMITS, now=now, seconds=monotonic
            )
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}.") from None
    if not library.papers:
        reason = "".join(f" Line {one.line}: {one.reason}." for one in library.problems[:1])
        raise UsageError(f"{path.name} has no papers that can be read as BibTeX, RIS or CSL-JSON.{reason}")
    return library


def library_topic_report(one: LibraryTopic, index: PaperIndex) -> dict[str, Any]:
    """Return a topic of a library with the size of its cluster and its back-test."""
    return {"papers": one.papers, **topic_report(one.topic, index, backtests.FEW_MATCHES)}


def author_report(one: FrequentAuthor, index: PaperIndex) -> dict[str, Any]:
    """Return a suggested author with the number of their papers and the back-test."""
    tested = backtests.report_on(one.filter, index, backtests.FEW_MATCHES)
    return {"name": one.name, "papers": one.papers, **tested}


def show_library(name: str, report: Mapping[str, Any]) -> None:
    """Print the topics and authors that are suggested for a library."""
    terminal.print_line(
        f"{plurals.count(report['papers'], 'paper')} of {name}: {plurals.count(len(report['topics']), 'topic')}."
    )
    for one in report["topics"]:
        terminal.print_line()
        terminal.print_line(f"{one['name']}: {plurals.count(one['papers'], 'paper')} of the library")
        terminal.print_line(f"  {one['canonical']}")
        terminal.print_line(f"  {backtests.figures_text(one)}")
    if report["authors"]:
        terminal.print_line()
        terminal.print_line("Authors to follow:")
        terminal.print_table(
            ("author", "papers#", "filter", "found#"),
            ((one["name"], one["papers"], one["canonical"], one["found"]) for one in report["authors"]),
            shrinkable=["author", "filter"],
        )
    if not report["is_complete"]:
        terminal.print_note("note: the library is too long, so only its first entries were used.")
    if problems := report["problems"]:
        terminal.print_note(
            f"note: {plurals.count(len(problems), 'entry', 'entries')} could not be read;"
            f" line {problems[0]['line']}: {problems[0]['reason']}"
        )
