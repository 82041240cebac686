"""`digest bounces`: mail of ours that came back, was refused or was reported."""

from __future__ import annotations

import re
from datetime import UTC, datetime, time, timedelta
from typing import TYPE_CHECKING, Annotated

import typer

from digest.cli import rooms, screen
from digest.cli.options import AsJson, Limit, Now, clock, day, moment
from digest.errors import BadField

if TYPE_CHECKING:
    from digest.model import BounceRow

app = typer.Typer(help="Mail of ours that came back, was refused or was reported.", no_args_is_help=True)

A_DAY = timedelta(days=1)


def since(text: str) -> datetime:
    """Return the moment that `text` names: a day, which begins in UTC, or a moment with an offset."""
    return (
        datetime.combine(day(text), time.min, UTC) if len(text.strip()) == len("2026-11-20") else moment(text)
    )


Domain = Annotated[str, typer.Option("--domain", metavar="DOMAIN", help="Of the addresses.")]
Since = Annotated[
    datetime | None,
    typer.Option(
        "--since",
        parser=since,
        metavar="TIME",
        help="Those since then: a day, or a moment; else of the last 24 hours.",
        show_default=False,
    ),
]


@app.command("list")
def show_list(
    domain: Annotated[
        str | None, typer.Option("--domain", metavar="DOMAIN", help="Only there.", show_default=False)
    ] = None,
    kind: Annotated[
        str | None,
        typer.Option(
            "--kind", metavar="KIND", help="Only those: hard, soft, policy or complaint.", show_default=False
        ),
    ] = None,
    limit: Limit = None,
    as_json: AsJson = False,
) -> None:
    """List failures and complaints, newest first, with the server's own words."""
    from digest import bounces

    if kind is not None and kind not in set(bounces.Kind):
        raise BadField("--kind", f"{kind!r} is none of {', '.join(bounces.Kind)}.")
    with rooms.opened() as house, house.reading() as session:
        wanted = bounces.Kind(kind) if kind else None
        shown = limit if limit or as_json else screen.LIMIT
        found = bounces.history(session, domain=domain, kind=wanted, limit=shown)
        if as_json:
            screen.lines(bounces.as_report(row) | {"email": email} for row, email in found)
            return
        screen.table(
            ("when", "kind", "status", "to", "letter#", "said"),
            (
                (r.at, kind_of(r), r.status, email or f"…@{r.domain}", str(r.delivery_id or ""), words(r))
                for r, email in found
            ),
            give=["said", "to"],
            empty="Nothing came back.",
        )
        left = bounces.count(session, domain=domain, kind=wanted) - len(found)
        if left > 0:
            screen.say(
                f"{left:,} more; --limit {left + len(found)} shows them all, --domain and --kind fewer."
            )


def kind_of(row: BounceRow) -> str:
    """Return the kind of a failure, and whether it counts against its address."""
    if row.forgiven_at:
        return f"{row.kind}, forgiven"
    return f"{row.kind}, frozen" if row.frozen_at else row.kind


def words(row: BounceRow) -> str:
    """Return the server's words without the codes that it began with: the status has a column of its own."""
    said = re.sub(r"^[245]\d\d[ -]?", "", row.said)
    return said.removeprefix(row.status).strip() if row.status else said


@app.command()
def forgive(domain: Domain, start: Since = None, now: Now = None, as_json: AsJson = False) -> None:
    """Forget what failed at a domain that was broken, and write to its readers again."""
    from digest import bounces

    at = clock(now)
    with rooms.opened() as house, rooms.writing(house) as session:
        failures, freed = bounces.forgive(session, domain=domain, since=start or at - A_DAY, now=at)
        session.commit()
    if as_json:
        screen.document({"domain": domain, "forgiven": failures, "lifted": freed})
    else:
        told = screen.count(freed, "address may", "addresses may")
        screen.tell(f"{screen.count(failures, 'failure')} forgiven; {told} be written to again.")


@app.command()
def accept(domain: Domain, start: Since = None, now: Now = None, as_json: AsJson = False) -> None:
    """Believe that a domain's frozen failures are true, and write to those addresses no more."""
    from digest import bounces

    at = clock(now)
    with rooms.opened() as house, rooms.writing(house) as session:
        number = bounces.accept(session, domain=domain, since=start or at - A_DAY, now=at)
        session.commit()
    if as_json:
        screen.document({"domain": domain, "suppressed": number})
    else:
        screen.tell(f"{screen.count(number, 'address', 'addresses')} of {domain} suppressed.")
