"""`digest suppressions`: show and change the suppression list."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from digest.cli import command_context, terminal
from digest.cli.command_tree import group
from digest.cli.common_options import AsJson, Now, current_time
from digest.cli.confirmation_prompt import Yes, require_yes
from digest.errors import NotFound

if TYPE_CHECKING:
    from digest.bounces import SuppressionEntry

app = group("Manage the suppression list.")

Email = Annotated[str, typer.Argument(metavar="EMAIL", help="The address.")]


@app.command("list")
def show_list(as_json: AsJson = False) -> None:
    """List the suppressions. Suppressed addresses are stored as hashes, so no address is shown.

    Examples:
        digest suppressions list
        digest suppressions list --json
    """
    from digest import bounces

    with command_context.open_context() as context, context.read_session() as session:
        listed = bounces.list_suppressions(session)
    if as_json:
        terminal.lines(asdict(one) for one in listed)
        return
    terminal.print_table(
        ("since", "reason", "hash", "note"),
        ((one.since, one.reason, one.hmac[:12], one.note) for one in listed),
        shrinkable=["note"],
        empty="No address is suppressed.",
    )


@app.command()
def add(
    email: Email,
    note: Annotated[str, typer.Option("--note", metavar="TEXT", help="The reason, in your words.")] = "",
    now: Now = None,
    as_json: AsJson = False,
) -> None:
    """Suppress an address: it gets no mail and cannot subscribe until you remove the suppression.

    Examples:
        digest suppressions add ada@example.org
        digest suppressions add ada@example.org --note 'asked by phone'
    """
    from digest import addresses, bounces

    address = addresses.parse_address(email)
    with command_context.open_context() as context, command_context.open_write_session(context) as session:
        is_new = bounces.suppress_by_operator(session, context.site, address.email, note, current_time(now))
    report = {"email": address.email, "suppressed": True, "new": is_new}
    sentence = f"{address.email} is {'' if is_new else 'already '}suppressed."
    terminal.print_result(report, sentence, as_json=as_json)


@app.command()
def remove(email: Email, yes: Yes = False, now: Now = None, as_json: AsJson = False) -> None:
    """Allow mail to this address again.

    Examples:
        digest suppressions remove ada@example.org
        digest suppressions remove ada@example.org --yes
    """
    from digest import bounces

    with command_context.open_context() as context:
        with context.read_session() as session:
            plan = removal_plan(bounces.find_suppression(session, context.site, email), email)
        require_yes(plan, yes=yes)
        with command_context.open_write_session(context) as session:
            bounces.unsuppress_by_operator(session, context.site, email, now=current_time(now))
    sentence = f"{email} is no longer suppressed."
    terminal.print_result({"email": email, "suppressed": False}, sentence, as_json=as_json)


def removal_plan(entry: SuppressionEntry | None, email: str) -> str:
    """Return sentences about the suppression that will be removed; raise NotFound if there is none."""
    if entry is None:
        raise NotFound(f"{email} is not suppressed.")
    why = f"{entry.reason}: {entry.note}" if entry.note else entry.reason
    return f"{email} has been suppressed since {terminal.format_cell(entry.since)} ({why}). Mail to it will be allowed again."
