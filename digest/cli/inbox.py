"""`digest inbox`: mail that arrived for us and was not understood."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Annotated, Any

import typer

from digest.cli import rooms, screen
from digest.cli.options import HIGHEST, AsJson, Limit, Now, clock

if TYPE_CHECKING:
    from digest.model import MailIn

app = typer.Typer(help="Mail that arrived for us and was not understood.", no_args_is_help=True)

HEAD = 50_000  #: bytes of a mail in which its subject stands

Number = Annotated[
    int, typer.Argument(metavar="ID", max=HIGHEST, help="Of the mail, as `digest inbox list` shows it.")
]


@app.command("list")
def show_list(limit: Limit = None, as_json: AsJson = False) -> None:
    """List what is kept: what was not understood, and what is not yet looked at."""
    from digest import inbox

    shown = limit if limit or as_json else screen.LIMIT
    with rooms.opened() as house, house.reading() as session:
        reports = (as_report(row) for row in inbox.listing(session, limit=shown))
        if as_json:
            screen.lines(reports)
            return
        found = list(reports)
        left = 0 if shown is None else inbox.count(session) - len(found)
    screen.table(
        ("id#", "received", "state", "from", "subject", "reason"),
        ((r["id"], r["received_at"], r["state"], r["from"], r["subject"], r["reason"]) for r in found),
        give=["subject", "reason", "from"],
        empty="Every mail that arrived was understood.",
    )
    if left > 0:
        screen.say(f"{left:,} more; --limit {left + len(found)} shows them all.")


@app.command()
def show(number: Number) -> None:
    """Show one mail as it arrived."""
    from digest import inbox

    with rooms.opened() as house, house.reading() as session:
        row = inbox.get(session, number)
    for name, value in as_report(row).items():
        screen.tell(f"{name}: {value}")
    screen.tell()
    for line in row.content.decode("utf-8", "replace").splitlines():
        screen.tell(line)


@app.command()
def retry(
    number: Annotated[
        int | None,
        typer.Argument(metavar="[ID]", max=HIGHEST, help="One mail; without it, all.", show_default=False),
    ] = None,
    now: Now = None,
    as_json: AsJson = False,
) -> None:
    """Look at mail once more, after an upgrade that understands more."""
    from digest import inbox

    with rooms.opened() as house, rooms.writing(house) as session:
        numbers = (
            [row.id for row in inbox.listing(session)] if number is None else [inbox.get(session, number).id]
        )
        session.commit()
        outcomes = {
            each: inbox.look(
                session,
                site=house.site,
                number=each,
                may_sign_up=house.settings.may_sign_up,
                now=clock(now),
            )
            for each in numbers
        }
    if as_json:
        screen.lines({"id": each, "outcome": outcome} for each, outcome in outcomes.items())
        return
    for each, outcome in outcomes.items():
        screen.tell(f"{each}: {outcome}")


@app.command()
def drop(number: Number) -> None:
    """Let go of one mail that nobody needs."""
    from digest import inbox

    with rooms.opened() as house, rooms.writing(house) as session:
        session.delete(inbox.get(session, number))
        session.commit()
    screen.tell(f"Mail {number} is gone.")


def as_report(row: MailIn) -> dict[str, Any]:
    """Return what there is to say about a mail without showing it whole."""
    from email.errors import MessageError
    from email.header import decode_header, make_header
    from email.parser import BytesHeaderParser

    subject = str(BytesHeaderParser().parsebytes(row.content[:HEAD]).get("Subject", ""))
    with suppress(LookupError, ValueError, MessageError):  # an encoding that nobody knows: shown as it came
        subject = str(make_header(decode_header(subject)))
    subject = subject.encode("utf-8", "replace").decode()  # half a surrogate could not be printed
    return {
        "id": row.id, "received_at": row.received_at, "state": row.state, "from": row.sender or "<>",
        "to": row.recipient, "subject": " ".join(subject.split()), "reason": row.reason, "bytes": len(row.content),
    }  # fmt: skip
