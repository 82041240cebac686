"""`digest papers` and `digest trending`: the catalog."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from digest.cli import rooms, screen
from digest.cli.options import HIGHEST, AsJson, Limit, Now, clock

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

    from digest.papers import Paper

ALWAYS = datetime.max.replace(tzinfo=UTC)
NOWHERE = (1, 0)  #: sorts behind every place in a dump
NONE_YET = "No papers. Read a dump: digest intake PATH"
NONE_MATCH = "No paper matches this filter. What it asks for: digest topics check FILTER"


class Order(StrEnum):
    """In which order papers are listed."""

    TRENDING = "trending"  #: what draws the most attention now
    RELEVANCE = "relevance"  #: what fits the filter best
    NEWEST = "newest"  #: what we saw last
    POSITION = "position"  #: as they stand in the dump


@dataclass(frozen=True, kw_only=True, slots=True)
class Listed:
    """A paper with the score it is listed by, and why it has it."""

    paper: Paper
    score: float
    reasons: tuple[str, ...] = ()


def papers(
    filter_text: Annotated[
        str, typer.Argument(metavar="[FILTER]", help="Only papers that match.", show_default=False)
    ] = "",
    dump_id: Annotated[
        int | None,
        typer.Option(
            "--dump", max=HIGHEST, metavar="ID", help="Only papers of this dump.", show_default=False
        ),
    ] = None,
    order: Annotated[
        Order | None,
        typer.Option("--order", help="Default: trending; position with --dump.", show_default=False),
    ] = None,
    limit: Limit = None,
    now: Now = None,
    as_json: AsJson = False,
) -> None:
    """List the papers of the catalog.

    The score says how much a paper trends; with --order relevance, how well it fits the filter.
    """
    order = order or (Order.TRENDING if dump_id is None else Order.POSITION)
    if order is Order.RELEVANCE and not filter_text:
        raise typer.BadParameter("--order relevance needs a FILTER to be relevant to.")
    with rooms.opened() as house, house.reading() as session:
        found = listed(session, filter_text, dump_id, order, now)
    if as_json:
        screen.lines(as_json_line(one) for one in found[:limit])
    else:
        show(found, limit or screen.LIMIT, empty=NONE_MATCH if filter_text else NONE_YET)


def trending(limit: Limit = None, now: Now = None, as_json: AsJson = False) -> None:
    """List what trends now, and why."""
    with rooms.opened() as house, house.reading() as session:
        found = ranked(session, None, now)
    if as_json:
        screen.lines(as_json_line(one) | {"reasons": one.reasons} for one in found[:limit])
        return
    from digest import papers as words

    screen.table(
        ("rank#", "score#", "title", "because"),
        (
            (place, one.score, words.display(one.paper.title), "; ".join(one.reasons[:2]))
            for place, one in enumerate(found[: limit or screen.LIMIT], start=1)
        ),
        give=["title", "because"],
        empty=NONE_YET,
    )


def listed(
    session: Session, filter_text: str, dump_id: int | None, order: Order, now: datetime | None
) -> list[Listed]:
    """Return the papers asked for, in the order asked for."""
    from digest import subscriptions, topics

    wanted = subscriptions.Books(session).whole(filter_text) if filter_text else None
    places = places_in(session, dump_id) if dump_id is not None or order is Order.POSITION else {}
    found = ranked(session, None if dump_id is None else places.keys(), now)
    if wanted is not None:
        index = topics.Index([one.paper for one in found])
        matches = index.matches(wanted)
        if order is Order.RELEVANCE:
            fitting = index.relevance(wanted, matches)
            best = sorted(fitting, key=lambda number: (-fitting[number], number))
            return [Listed(paper=found[number].paper, score=fitting[number]) for number in best]
        found = [one for number, one in enumerate(found) if matches >> number & 1]
    if order is Order.NEWEST:
        found.sort(key=lambda one: (one.paper.first_seen_at, one.paper.id), reverse=True)
    if order is Order.POSITION:
        found.sort(key=lambda one: places.get(one.paper.id, NOWHERE))
    return found


def ranked(session: Session, ids: Collection[int] | None, now: datetime | None) -> list[Listed]:
    """Return papers by how much they trend: those with `ids`, or all; with `now`, those seen by then."""
    from digest import catalog, ranking

    chosen = catalog.papers(session, ids=ids, until=now)
    as_of = catalog.observed_at(session, until=now or ALWAYS) or clock(now)
    evidence = catalog.evidence(session, chosen, as_of=as_of)
    return [
        Listed(paper=one.paper, score=one.score, reasons=one.reasons)
        for one in ranking.rank(chosen, evidence, as_of)
    ]


def places_in(session: Session, dump_id: int | None) -> dict[int, tuple[int, int]]:
    """Return where papers stood: in that dump, else in the newest dump each was in, newest dumps first.

    A paper that turned out to be another goes by the other's id.
    """
    from sqlalchemy import select

    from digest import catalog
    from digest.errors import NotFound
    from digest.model import Appearance, DumpRow

    query = select(Appearance.paper_id, Appearance.dump_id, Appearance.position).order_by(Appearance.dump_id)
    if dump_id is not None:
        if session.get(DumpRow, dump_id) is None:
            raise NotFound(f"There is no dump {dump_id}; see digest dumps list.")
        query = query.where(Appearance.dump_id == dump_id)
    stood = {row.paper_id: (-row.dump_id, row.position) for row in session.execute(query)}
    renamed = catalog.resolve(session, stood.keys())
    return {renamed.get(paper_id, paper_id): place for paper_id, place in stood.items()}


def show(found: Sequence[Listed], limit: int, *, empty: str) -> None:
    """Show papers to a person."""
    from digest import papers as words

    screen.table(
        ("id#", "title", "authors", "published", "score#"),
        (
            (str(p.id), words.display(p.title), words.byline(p), p.published, one.score)
            for one in found[:limit]
            for p in [one.paper]
        ),
        give=["title", "authors"],
        empty=empty,
    )
    if len(found) > limit:
        screen.say(f"{len(found) - limit:,} more; --limit {len(found)} shows them all.")


def as_json_line(one: Listed) -> dict[str, Any]:
    """Return a paper as scripts get it; raw text and readable text side by side."""
    from digest import papers as words

    paper = one.paper
    organization = paper.organization
    return {
        "id": paper.id,
        "ids": dict(paper.ids),
        "title": paper.title,
        "abstract": paper.abstract,
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
        "signals": {name: whole(value) for name, value in paper.signals.items()},
        "first_seen_at": paper.first_seen_at,
        "score": one.score,
    }


def whole(value: float) -> float | int:
    """Return a count as the whole number it is."""
    return int(value) if value == int(value) else value
