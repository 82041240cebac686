"""`digest sources`: dumps that are fetched. None is until it is turned on here."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, Any

import typer

from digest.cli import rooms, screen
from digest.cli.dumps import Order
from digest.cli.options import AsJson, Now, clock

if TYPE_CHECKING:
    from datetime import datetime

    from digest.house import House
    from digest.model import SourceRow
    from digest.sources import Polled

app = typer.Typer(help="Servers from which papers are fetched; none until you add one.", no_args_is_help=True)

Source = Annotated[
    str,
    typer.Argument(
        metavar="SOURCE",
        help="hf-daily, arxiv:cs.CL+cs.LG (any archives), biorxiv, medrxiv, or an https address.",
        show_default=False,
    ),
]


@app.command("list")
def show_list(as_json: AsJson = False) -> None:
    """List the sources that are on, when each is asked next, and what came of the last time."""
    from digest import sources

    with rooms.opened() as house, house.reading() as session:
        rows = [as_report(row) for row in sources.listing(session)]
    if as_json:
        screen.lines(rows)
        return
    screen.table(
        ("source", "every", "last", "next", "failures#", "result"),
        (
            (row["name"], hours(row["every"]), row["polled_at"], row["next_poll_at"], row["failures"], row["result"])
            for row in rows
        ),
        give=["result", "source"],
        empty="No sources. Turn one on: digest sources add hf-daily",
    )  # fmt: skip


@app.command()
def add(
    source: Source,
    back_fill: Annotated[
        int | None,
        typer.Option(
            "--back-fill",
            min=0,
            metavar="DAYS",
            show_default=False,
            help="So many days of the past, as history; 14 for hf-daily, 7 for arxiv, 3 for biorxiv.",
        ),
    ] = None,
    every: Annotated[
        float | None,
        typer.Option("--every", metavar="HOURS", help="How often to ask.", show_default=False),
    ] = None,
    order: Annotated[
        Order | None, typer.Option("--order", help="What a paper's place means.", show_default=False)
    ] = None,
    now: Now = None,
    as_json: AsJson = False,
) -> None:
    """Turn a source on, and fetch its last days as history: in the catalog, and nobody's news.

    The scheduler asks it from now on. Once more for the same source: changes how it is asked, fetches the past again.
    """  # fmt: skip
    from digest import sources
    from digest.sources import presets

    moment = clock(now)
    preset = presets.named(source)
    days = min(preset.back_fill if back_fill is None else back_fill, preset.most_back_fill)
    with rooms.opened() as house, rooms.writing(house) as session:
        row = sources.add(
            session, source, now=moment, order=order, every=timedelta(hours=every) if every else None
        )
        session.commit()
        with screen.progress(f"The past of {source}", total=days) as done:
            filled = sources.back_fill(house.line(session, moment), row.name, days=days, progress=done.to)
        report = as_report(row) | {"back_fill": {"days": days} | filled.to_json()}
    if back_fill and back_fill > days:
        screen.say(f"The past of {source} is fetched for {days} days at most.")
    if as_json:
        screen.document(report)
    else:
        screen.tell(f"{row.name} is on: asked every {hours(row.every)}, first at the scheduler's next look.")
        if days:
            screen.tell(
                f"Its last {screen.count(days, 'day')}, as history: {filled.result}.".replace("..", ".")
            )
    if filled.state == "failed":
        screen.say("The past could not be fetched to its end. The same command again goes on with it.")
        raise typer.Exit(1)


@app.command()
def remove(source: Source, as_json: AsJson = False) -> None:
    """Turn a source off for good. The papers it brought stay."""
    from digest import sources

    with rooms.opened() as house, rooms.writing(house) as session:
        report = as_report(sources.get(session, source))
        sources.remove(session, source)
        session.commit()
    if as_json:
        screen.document(report | {"is_on": False})
    else:
        screen.tell(f"{report['name']} is off.")


@app.command()
def poll(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[SOURCE]...",
            help="These, due or not; without any: all that are due.",
            show_default=False,
        ),
    ] = None,
    now: Now = None,
    as_json: AsJson = False,
) -> None:
    """Ask sources now, in this process: what the scheduler has done when they are due.

    Exits with 1 if one of them failed, or brought what could not be loaded.
    """  # fmt: skip
    with rooms.opened() as house:
        found = polled(house, clock(now), names)
    if as_json:
        screen.lines(one.to_json() for one in found)
    else:
        for one in found:
            screen.tell(f"{one.source}: {one.result}")
        if not found:
            screen.say("No source is due.")
    if not all(one.is_fine for one in found):
        raise typer.Exit(1)


def polled(house: House, now: datetime, names: list[str] | None = None) -> list[Polled]:
    """Poll, and return what came of each."""
    from digest import sources

    with rooms.writing(house) as session:
        total = len(names or sources.due(session, now))
        session.commit()
        with screen.progress("Asking", total=total) as done:
            return sources.poll(house.line(session, now), names=names or None, progress=done.to)


def hours(seconds: int) -> str:
    """Return `3 h`, `45 min`."""
    return f"{seconds // 60} min" if seconds % 3600 else f"{seconds // 3600} h"


def as_report(row: SourceRow) -> dict[str, Any]:
    """Return what there is to say about a source."""
    names = (
        "name",
        "kind",
        "url",
        "order",
        "every",
        "is_on",
        "since",
        "polled_at",
        "next_poll_at",
        "failures",
        "result",
    )
    return {name: getattr(row, name) for name in names}
