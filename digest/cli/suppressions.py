"""`digest suppressions`: addresses we must not write to."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from digest.cli import rooms, screen
from digest.cli.options import AsJson, Now, clock

app = typer.Typer(help="Addresses we must not write to.", no_args_is_help=True)

Email = Annotated[str, typer.Argument(metavar="EMAIL", help="The address.")]


@app.command("list")
def show_list(as_json: AsJson = False) -> None:
    """List the suppressions. Only hashes of the addresses are kept, so none can be read here."""
    from digest import bounces

    with rooms.opened() as house, house.reading() as session:
        listed = bounces.listing(session)
    if as_json:
        screen.lines(asdict(one) for one in listed)
        return
    screen.table(
        ("since", "reason", "hash", "note"),
        ((one.since, one.reason, one.hmac[:12], one.note) for one in listed),
        give=["note"],
        empty="No address is suppressed.",
    )


@app.command()
def add(
    email: Email,
    note: Annotated[str, typer.Option("--note", metavar="TEXT", help="Why, in your words.")] = "",
    now: Now = None,
    as_json: AsJson = False,
) -> None:
    """Write to this address no more, whatever an import or a form says."""
    from digest import addresses, bounces

    address = addresses.checked(email)
    with rooms.opened() as house, rooms.writing(house) as session:
        is_new = bounces.suppress(
            session, house.site, address.email, bounces.Reason.OPERATOR, note, clock(now)
        )
        session.commit()
    if as_json:
        screen.document({"email": address.email, "suppressed": True, "new": is_new})
    else:
        screen.tell(f"{address.email} is {'' if is_new else 'already '}suppressed.")


@app.command()
def remove(email: Email, as_json: AsJson = False) -> None:
    """Allow mail to this address again."""
    from digest import bounces
    from digest.errors import NotFound

    with rooms.opened() as house, rooms.writing(house) as session:
        lifted = bounces.lift(session, house.site, email)
        session.commit()
    if not lifted:
        raise NotFound(f"{email} is not suppressed.")
    if as_json:
        screen.document({"email": email, "suppressed": False})
    else:
        screen.tell(f"{email} may be written to again.")
