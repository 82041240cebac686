"""`digest papers` and `digest hide`: list the catalog, and hide papers."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from datetime import UTC, datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from digest import plurals
from digest.cli.frame import Workspace, command, reading, writing
from digest.cli.options import CLOCK, GivenNow, Limit, Now, argument, current_time, number_option, option
from digest.cli.results import CommandResult, fields_of, listing

if TYPE_CHECKING:
    from digest.db import Session
    from digest.papers.trending import Ranked

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


@command(reading)
def papers(
    work: Workspace,
    filter_text: str = argument("FILTER", "Only papers that match.", ""),
    dump_id: int | None = number_option("--dump ID", "Only papers of this dump."),
    order: Annotated[
        SortOrder | None, option("--order", "Default: trending; position with --dump.", ...)
    ] = None,
    limit: Limit = None,
    now: GivenNow = None,
) -> CommandResult:
    """List the papers of the catalog.

    The score is the trending score, with its reasons, or with --order relevance the relevance to the filter.

    Examples:
        digest papers
        digest papers 'title:diffusion AND video' --order relevance
        digest papers --dump 12 --json
    """
    from digest.papers.bylines import byline
    from digest.papers.display_text import display

    order = order or (SortOrder.TRENDING if dump_id is None else SortOrder.POSITION)
    if order is SortOrder.RELEVANCE and not filter_text:
        raise typer.BadParameter("--order relevance needs a FILTER.")
    found = list_papers(work.session, filter_text, dump_id, order, now)
    columns: dict[str, Any] = {
        "id#": lambda one: str(one.paper.id), "title": lambda one: display(one.paper.title),
        "authors": lambda one: byline(one.paper), "published": lambda one: one.paper.published, "score#": "score",
    }  # fmt: skip
    if with_reasons := order is SortOrder.TRENDING:
        columns["why"] = lambda one: "; ".join(one.reasons[:2])
    empty = NONE_MATCH if filter_text else NONE_YET
    shown = listing(found, columns, shrinks="title authors why", empty=empty, limit=limit)
    return replace(shown, value=(as_json_line(one, with_reasons=with_reasons) for one in found[:limit]))


@command(writing)
def hide(
    work: Workspace,
    reference: str = argument("PAPER", "Catalog number, arXiv id, DOI, URL or exact title.", ""),
    dump_id: int | None = number_option("--dump ID", "Every paper that only this dump lists."),
    undo: bool = option("--undo", "Show hidden papers again."),
    now: Now = CLOCK,
) -> CommandResult:
    """Hide papers from all pages, feeds and new digests. The page of a hidden paper returns 410 (Gone).

    Examples:
        digest hide 2411.00001
        digest hide --dump 12
        digest hide 'Tidal Sorting' --undo
    """
    from digest.papers.catalog import hidden_papers
    from digest.papers.display_text import display

    if bool(reference) == (dump_id is not None):
        raise typer.BadParameter("Name either a PAPER or a dump with --dump ID.")
    again = "" if undo else " To show it again: digest hide --undo"
    if dump_id is not None:
        number = hidden_papers.hide_dump(work.session, dump_id, now=now, undo=undo)
        what, report = plurals.count(number, "paper is", "papers are"), {"dump": dump_id, "changed": number}
        sentence = f"{what} shown again." if undo else f"{what} hidden.{again} --dump {dump_id}"
    else:
        paper, is_new = hidden_papers.hide(work.session, reference, now=now, undo=undo)
        state = (
            ("shown again." if is_new else "not hidden.")
            if undo
            else f"{'' if is_new else 'already '}hidden."
        )
        sentence, report = f"{display(paper.title)} is {state}", {"id": paper.id, "changed": is_new}
        sentence += again and f"{again} {paper.id}"
    return CommandResult(report | {"hidden": not undo}, sentence)


def list_papers(
    session: Session, filter_text: str, dump_id: int | None, order: SortOrder, now: datetime | None
) -> list[Ranked]:
    """Return the matching papers in the given order."""
    from digest.papers.catalog import queries
    from digest.subscribers.filter_registry import FilterRegistry
    from digest.topics.paper_index import PaperIndex

    parsed = FilterRegistry(session).resolve_text(filter_text) if filter_text else None
    has_positions = dump_id is not None or order is SortOrder.POSITION
    positions = queries.positions(session, dump_id) if has_positions else {}
    found = rank_papers(session, None if dump_id is None else positions.keys(), now)
    if parsed is not None:
        index = PaperIndex([one.paper for one in found])
        matches = index.matches(parsed)
        if order is SortOrder.RELEVANCE:
            from digest.papers.trending import Ranked

            relevance = index.relevance(parsed, matches)
            best = sorted(relevance, key=lambda number: (-relevance[number], number))
            return [Ranked(paper=found[number].paper, score=relevance[number], reasons=()) for number in best]
        found = [one for number, one in enumerate(found) if matches >> number & 1]
    if order is SortOrder.NEWEST:
        found.sort(key=lambda one: (one.paper.first_seen_at, one.paper.id), reverse=True)
    if order is SortOrder.POSITION:
        found.sort(key=lambda one: positions.get(one.paper.id, NO_POSITION))
    return found


def rank_papers(session: Session, ids: Collection[int] | None, now: datetime | None) -> list[Ranked]:
    """Return the papers first seen up to `now`, ordered by trending score.

    If `ids` is given, only the papers with these ids are returned.
    """
    from digest.papers import trending
    from digest.papers.catalog import queries

    chosen = queries.papers(session, ids=ids, until=now)
    as_of = queries.observed_at(session, until=now or LAST_MOMENT) or current_time(now)
    evidence = queries.evidence(session, chosen, as_of=as_of)
    return trending.rank(chosen, evidence, as_of)


def as_json_line(one: Ranked, *, with_reasons: bool) -> dict[str, Any]:
    """Return a paper's fields for JSON, with raw and readable text."""
    from digest.papers.display_text import display

    paper = one.paper
    organization = paper.organization
    return {
        "id": paper.id,
        "ids": dict(paper.ids),
        **fields_of(paper, "title abstract summary_by"),
        "display_title": display(paper.title),
        "display_abstract": display(paper.abstract),
        "authors": paper.authors,
        "n_authors": paper.n_authors,
        "organization": organization and fields_of(organization, "handle name"),
        **fields_of(paper, "published published_inferred categories journal comment announcement urls"),
        "signals": {
            name: int(value) if value == int(value) else value for name, value in paper.signals.items()
        },
        "first_seen_at": paper.first_seen_at,
        "score": one.score,
        **({"reasons": one.reasons} if with_reasons else {}),
    }
