"""`digest inbox`: read and delete incoming mail that could not be processed automatically."""

from __future__ import annotations

from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Annotated, Any

from digest import plurals
from digest.cli import terminal
from digest.cli.command_tree import group
from digest.cli.frame import Opened, Workspace, command, opened, reading
from digest.cli.options import Limit, Yes, argument, option, positive_number
from digest.cli.results import CommandResult, listing
from digest.errors import UsageError
from digest.mail import mail_parsing

if TYPE_CHECKING:
    from digest.db.tables.inbound_mail import InboundMail

app = group("Handle mail that could not be processed automatically.")

MAX_SUBJECT = 200  #: maximum number of characters of a subject, which a stranger may have written, in a table
HEAD_BYTES = 50_000  #: number of bytes at the start of a message that are searched for the subject

Number = Annotated[int, argument("ID", "The id in `digest inbox list`.", parser=positive_number)]


@command(reading, app, "list")
def show_list(work: Workspace, limit: Limit = None) -> CommandResult:
    """List incoming mail that was not recognised or is not processed yet.

    Examples:
        digest inbox list
        digest inbox list --limit 100 --json
    """
    from digest.inbound import stored_mail

    return listing(
        lambda limit: map(as_report, stored_mail.list_mails(work.session, limit=limit)),
        "id# received=received_at state from subject reason",
        shrinks="subject reason from",
        empty="The inbox is empty.",
        limit=limit,
        total=partial(stored_mail.count_mails, work.session),
    )


@command(reading, app)
def show(work: Workspace, number: Number) -> CommandResult:
    """Show one message as it arrived.

    Examples:
        digest inbox show 7
        digest inbox show 7 --json
    """
    from digest.inbound import stored_mail

    row = stored_mail.get_mail(work.session, number)
    report, content = as_report(row), row.content.decode("utf-8", "replace")
    fields = (f"{name}: {value}" for name, value in report.items())
    return CommandResult(report | {"content": content}, chain(fields, [""], content.splitlines()))


@command(opened, app)
def delete(
    work: Opened,
    number: int | None = argument("[ID]", "The id in `digest inbox list`.", None, parser=positive_number),
    every: bool = option("--all", "Delete every message."),
    sender: str | None = option(
        "--from SENDER", "Delete all messages from an address, a domain (`@spam.example`) or a network."
    ),
    yes: Yes = False,
) -> CommandResult:
    """Delete messages.

    Examples:
        digest inbox delete 7
        digest inbox delete --from @spam.example --yes
        digest inbox delete --all
    """
    from digest.inbound import stored_mail

    if [number is not None, every, sender is not None].count(True) != 1:
        raise UsageError("Give one of ID, --all and --from.")
    with work.reading() as session:
        if number is None:
            numbers = stored_mail.find_mails(session, sender=sender)
        else:
            numbers = [stored_mail.get_mail(session, number).id]
    count = plurals.count(len(numbers), "message")
    terminal.require_yes(f"{count} will be deleted.", yes=yes)
    with work.writing() as session:
        stored_mail.delete_mails(session, numbers)
    return CommandResult({"deleted": numbers}, f"{count} deleted.")


def as_report(row: InboundMail) -> dict[str, Any]:
    """Return a message's fields for JSON, without its content."""
    header = mail_parsing.parse_header(row.content[:HEAD_BYTES])
    subject = " ".join(mail_parsing.header_text(header, "Subject").split())[:MAX_SUBJECT]
    return {
        "id": row.id, "received_at": row.received_at, "state": row.state, "from": row.sender or "<>",
        "network": row.network, "to": row.recipient, "subject": subject, "reason": row.reason, "bytes": len(row.content),
    }  # fmt: skip
