"""`digest inbox`: read, retry and delete incoming mail that could not be processed automatically."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from digest import mail_parsing, plurals
from digest.cli import command_context, terminal
from digest.cli.command_tree import group
from digest.cli.common_options import AsJson, Limit, Now, current_time, positive_number
from digest.cli.confirmation_prompt import DRY_RUN, DryRun, Yes, require_yes
from digest.errors import UsageError

if TYPE_CHECKING:
    from digest.db.tables import InboundMail

app = group("Handle mail that could not be processed automatically.")

HEAD_BYTES = 50_000  #: number of bytes at the start of a message that are searched for the subject

Number = Annotated[
    int, typer.Argument(metavar="ID", parser=positive_number, help="The id in `digest inbox list`.")
]


@app.command("list")
def show_list(limit: Limit = None, as_json: AsJson = False) -> None:
    """List incoming mail that was not recognised or is not processed yet.

    Examples:
        digest inbox list
        digest inbox list --limit 100 --json
    """
    from digest import inbound

    shown = limit if limit or as_json else terminal.LIMIT
    with command_context.open_context() as context, context.read_session() as session:
        reports = (as_report(row) for row in inbound.list_mails(session, limit=shown))
        if as_json:
            terminal.lines(reports)
            return
        found = list(reports)
        count = inbound.count_mails(session)
    terminal.print_table(
        ("id#", "received", "state", "from", "subject", "reason"),
        ((r["id"], r["received_at"], r["state"], r["from"], r["subject"], r["reason"]) for r in found),
        shrinkable=["subject", "reason", "from"],
        empty="The inbox is empty.",
    )
    terminal.print_rest(len(found), count)


@app.command()
def show(number: Number, as_json: AsJson = False) -> None:
    """Show one message as it arrived.

    Examples:
        digest inbox show 7
        digest inbox show 7 --json
    """
    from digest import inbound

    with command_context.open_context() as context, context.read_session() as session:
        row = inbound.get_mail(session, number)
    if as_json:
        terminal.print_json(as_report(row) | {"content": row.content.decode("utf-8", "replace")})
        return
    for name, value in as_report(row).items():
        terminal.print_line(f"{name}: {value}")
    terminal.print_line()
    for line in row.content.decode("utf-8", "replace").splitlines():
        terminal.print_line(line)


@app.command()
def retry(
    number: Annotated[
        int | None,
        typer.Argument(
            metavar="ID", parser=positive_number, help="One message. Default: all.", show_default=False
        ),
    ] = None,
    dry_run: DryRun = False,
    now: Now = None,
    as_json: AsJson = False,
) -> None:
    """Process mail again, for example after an upgrade.

    Examples:
        digest inbox retry
        digest inbox retry 7
    """
    from digest import inbound

    with command_context.open_context() as context:
        with context.read_session() as session:
            found = inbound.list_mails(session) if number is None else [inbound.get_mail(session, number)]
            numbers = [row.id for row in found]
        if dry_run:
            sentence = f"{DRY_RUN}{plurals.count(len(numbers), 'message')} would be processed again."
            terminal.print_result({"messages": numbers}, sentence, as_json=as_json)
            return
        with command_context.open_write_session(context) as session:
            outcomes = {
                each: inbound.process_mail(
                    session,
                    site=context.site,
                    number=each,
                    rules=inbound.rules_of(context),
                    now=current_time(now),
                )
                for each in numbers
            }
    if as_json:
        terminal.lines({"id": each, "outcome": outcome} for each, outcome in outcomes.items())
        return
    for each, outcome in outcomes.items():
        terminal.print_line(f"{each}: {outcome}")


@app.command()
def delete(
    number: Annotated[
        int | None,
        typer.Argument(
            metavar="[ID]", parser=positive_number, help="The id in `digest inbox list`.", show_default=False
        ),
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="Delete every message.")] = False,
    sender: Annotated[
        str | None,
        typer.Option(
            "--from",
            metavar="SENDER",
            help="Delete all messages from an address, a domain (`@spam.example`) or a network.",
            show_default=False,
        ),
    ] = None,
    yes: Yes = False,
    as_json: AsJson = False,
) -> None:
    """Delete messages.

    Examples:
        digest inbox delete 7
        digest inbox delete --from @spam.example --yes
        digest inbox delete --all
    """
    from digest import inbound

    if [number is not None, every, sender is not None].count(True) != 1:
        raise UsageError("Give one of ID, --all and --from.")
    with command_context.open_context() as context:
        with context.read_session() as session:
            numbers = (
                inbound.find_mails(session, sender=sender)
                if number is None
                else [inbound.get_mail(session, number).id]
            )
        count = plurals.count(len(numbers), "message")
        require_yes(f"{count} will be deleted.", yes=yes)
        with command_context.open_write_session(context) as session:
            inbound.delete_mails(session, numbers)
    terminal.print_result({"deleted": numbers}, f"{count} deleted.", as_json=as_json)


def as_report(row: InboundMail) -> dict[str, Any]:
    """Return a message's fields for JSON, without its content."""
    header = mail_parsing.parse_header(row.content[:HEAD_BYTES])
    subject = next(iter(mail_parsing.raw_headers(header, "Subject")), "")
    return {
        "id": row.id, "received_at": row.received_at, "state": row.state, "from": row.sender or "<>",
        "network": row.network, "to": row.recipient, "subject": " ".join(mail_parsing.decoded_words(subject).split()), "reason": row.reason, "bytes": len(row.content),
    }  # fmt: skip
