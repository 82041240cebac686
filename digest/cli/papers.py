"""`digest papers` and `digest trending`: list the catalog."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from digest import plurals
from digest.cli import command_context, terminal
from digest.cli.common_options import AsJson, Limit, Now, current_time, number_option

if TYPE_CHECKING:
    from digest.db import Session
    from digest.papers import Paper

LAST_MOMENT = datetime.max.replace(tzinfo=UTC)
NO_POSITION = (1, 0)  #: a sort key that is greater than every position in a dump
NONE_YET = "No papers. Read a dump: digest intake PATH"
NONE_MATCH = "No paper matches this filter. To check it: digest topics check FILTER"


class SortOrder(StrEnum):
    """The order of a list of papers."""

    TRENDING = "trending"  #: papers with the most attention now come first
    RELEVANCE = "relevance"  #: the best matches for the filter come first
    NEWEST = "newest"  #: the papers that were first seen most recently come first
    POSITION = "position"  #: the order of the dump


@dataclass(frozen=True, kw_only=True, slots=True)
class ListedPaper:
    """A paper with the score by which it is listed, and the reasons for the score."""

    paper: Paper
    score: float
    reasons: tuple[str, ...] = ()


def papers(
    filter_text: Annotated[
        str, typer.Argument(metavar="FILTER", help="Only papers that match.", show_default=False)
    ] = "",
    dump_id: Annotated[
        int | None,
        number_option("--dump", "ID", "Only papers of this dump."),
    ] = None,
    order: Annotated[
        SortOrder | None,
        typer.Option("--order", help="Default: trending; position with --dump.", show_default=False),
    ] = None,
    limit: Limit = None,
    now: Now = None,
    as_json: AsJson = False,
) -> None:
    """List the papers of the catalog.

    The score is the trending score or, with --order relevance, the relevance to the filter.

    Examples:
        digest papers
        digest papers 'title:diffusion AND video' --order relevance
        digest papers --dump 12 --json
    """
    order = order or (SortOrder.TRENDING if dump_id is None else SortOrder.POSITION)
    if order is SortOrder.RELEVANCE and not filter_text:
        raise typer.BadParameter("--order relevance needs a FILTER.")
    with command_context.open_context() as context, context.read_session() as session:
        found = list_papers(session, filter_text, dump_id, order, now)
    if as_json:
        terminal.lines(as_json_line(one) for one in found[:limit])
    else:
        show(found, limit or terminal.LIMIT, empty=NONE_MATCH if filter_text else NONE_YET)


Reference = Annotated[
    str,
    typer.Argument(
        metavar="PAPER", help="Catalog number, arXiv id, DOI, URL or exact title.", show_default=False
    ),
]
OnlyOfDump = Annotated[
    int | None,
    number_option("--dump", "ID", "Every paper that only this dump lists."),
]


def hide(
    reference: Reference = "", dump_id: OnlyOfDump = None, now: Now = None, as_json: AsJson = False
) -> None:
    """Hide papers from all pages, feeds and new digests. The page of a hidden paper returns 410 (Gone).

    Examples:
        digest hide 2411.00001
        digest hide 'Tidal Sorting' --json
        digest hide --dump 12
    """
    from digest.papers import catalog, display

    check_choice(reference, dump_id)
    with command_context.open_context() as context, command_context.open_write_session(context) as session:
        if dump_id is not None:
            changed = catalog.hide_dump(session, dump_id, now=current_time(now))
            show_changed(dump_id, changed, hidden=True, as_json=as_json)
            return
        paper, is_new = catalog.hide(session, reference, now=current_time(now))
    sentence = f"{display(paper.title)} is {'' if is_new else 'already '}hidden. To show it: digest unhide {paper.id}"
    terminal.print_result({"id": paper.id, "hidden": True, "changed": is_new}, sentence, as_json=as_json)


def unhide(reference: Reference = "", dump_id: OnlyOfDump = None, as_json: AsJson = False) -> None:
    """Show hidden papers again.

    Examples:
        digest unhide 2411.00001
        digest unhide 12 --json
        digest unhide --dump 12
    """
    from digest.papers import catalog, display

    check_choice(reference, dump_id)
    with command_context.open_context() as context, command_context.open_write_session(context) as session:
        if dump_id is not None:
            show_changed(dump_id, catalog.unhide_dump(session, dump_id), hidden=False, as_json=as_json)
            return
        paper, is_changed = catalog.unhide(session, reference)
    sentence = f"{display(paper.title)} {'is shown again' if is_changed else 'was not hidden'}."
    terminal.print_result({"id": paper.id, "hidden": False, "changed": is_changed}, sentence, as_json=as_json)


def check_choice(reference: str, dump_id: int | None) -> None:
    """Raise BadParameter unless either a paper or a dump is named."""
    if bool(reference) == (dump_id is not None):
        raise typer.BadParameter("Name either a PAPER or a dump with --dump ID.")


def show_changed(dump_id: int, changed: int, *, hidden: bool, as_json: bool) -> None:
    """Print the number of papers in a dump that were hidden or are shown again."""
    papers = plurals.count(changed, "paper is", "papers are")
    sentence = (
        f"{papers} hidden. To show them: digest unhide --dump {dump_id}"
        if hidden
        else f"{papers} shown again."
    )
    terminal.print_result({"dump": dump_id, "hidden": hidden, "changed": changed}, sentence, as_json=as_json)


def trending(limit: Limit = None, now: Now = None, as_json: AsJson = False) -> None:
    """List the trending papers and the reasons for their scores.

    Examples:
        digest trending
        digest trending --limit 50
        digest trending --now 2026-11-20T08:00Z --json
    """
    with command_context.open_context() as context, context.read_session() as session:
        found = rank_papers(session, None, now)
    if as_json:
        terminal.lines(as_json_line(one) | {"reasons": one.reasons} for one in found[:limit])
        return
    from digest import papers as words

    terminal.print_table(
        ("rank#", "score#", "title", "why"),
        (
            (place, one.score, words.display(one.paper.title), "; ".join(one.reasons[:2]))
            for place, one in enumerate(found[: limit or terminal.LIMIT], start=1)
        ),
        shrinkable=["title", "why"],
        empty=NONE_YET,
    )


def list_papers(
    session: Session, filter_text: str, dump_id: int | None, order: SortOrder, now: datetime | None
) -> list[ListedPaper]:
    """Return the matching papers in the given order."""
    from digest import subscribers, topics
    from digest.papers import catalog

    parsed = subscribers.FilterRegistry(session).resolve_text(filter_text) if filter_text else None
    has_positions = dump_id is not None or order is SortOrder.POSITION
    positions = catalog.positions(session, dump_id) if has_positions else {}
    found = rank_papers(session, None if dump_id is None else positions.keys(), now)
    if parsed is not None:
        index = topics.PaperIndex([one.paper for one in found])
        matches = index.matches(parsed)
        if order is SortOrder.RELEVANCE:
            relevance = index.relevance(parsed, matches)
            best = sorted(relevance, key=lambda number: (-relevance[number], number))
            return [ListedPaper(paper=found[number].paper, score=relevance[number]) for number in best]
        found = [one for number, one in enumerate(found) if matches >> number & 1]
    if order is SortOrder.NEWEST:
        found.sort(key=lambda one: (one.paper.first_seen_at, one.paper.id), reverse=True)
    if order is SortOrder.POSITION:
        found.sort(key=lambda one: positions.get(one.paper.id, NO_POSITION))
    return found


def rank_papers(session: Session, ids: Collection[int] | None, now: datetime | None) -> list[ListedPaper]:
    """Return the papers first seen up to `now`, ordered by trending score.

    If `ids` is given, only the papers with these ids are returned.
    """
    from digest.papers import catalog, trending

    chosen = catalog.papers(session, ids=ids, until=now)
    as_of = catalog.observed_at(session, until=now or LAST_MOMENT) or current_time(now)
    evidence = catalog.evidence(session, chosen, as_of=as_of)
    return [
        ListedPaper(paper=one.paper, score=one.score, reasons=one.reasons)
        for one in trending.rank(chosen, evidence, as_of)
    ]


def show(found: Sequence[ListedPaper], limit: int, *, empty: str) -> None:
    """Print a table of papers."""
    from digest import papers as words

    terminal.print_table(
        ("id#", "title", "authors", "published", "score#"),
        (
            (str(p.id), words.display(p.title), words.byline(p), p.published, one.score)
            for one in found[:limit]
            for p in [one.paper]
        ),
        shrinkable=["title", "authors"],
        empty=empty,
    )
    if len(found) > limit:
        terminal.print_note(f"{len(found) - limit:,} more; --limit {len(found)} shows them all.")


def as_json_line(one: ListedPaper) -> dict[str, Any]:
    """Return a paper's fields for JSON, with raw and readable text."""
    from digest import papers as words

    paper = one.paper
    organization = paper.organization
    return {
        "id": paper.id,
        "ids": dict(paper.ids),
        "title": paper.title,
        "abstract": paper.abstract,
        "summary_by": paper.summary_by,
        "display_title": words.display(paper.title),
        "display_abstract": words.display(paper.abstract),
        "authors": list(paper.authors),
        "n_authors": paper.n_authors,
        "organization": organization and {"handle": organization.handle, "name": organization.name},
        "published": paper.published,
        "published_inferred": paper.published_inferred,
        "categories": list(paper.categories),
        "journal": paper.journal,
        "comment": paper.comment,
        "announcement": paper.announcement,
        "urls": list(paper.urls),
        "signals": {name: as_whole_number(value) for name, value in paper.signals.items()},
        "first_seen_at": paper.first_seen_at,
        "score": one.score,
    }


def as_whole_number(value: float) -> float | int:
    """Return a number as an int if it is whole."""
    return int(value) if value == int(value) else value
