"""`digest suppressions`: show and change the suppression list."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

from digest.cli import terminal
from digest.cli.command_tree import group
from digest.cli.confirmation_prompt import Yes, require_yes
from digest.cli.frame import Opened, Workspace, command, opened, reading, writing
from digest.cli.options import CLOCK, Now, argument, option
from digest.cli.results import CommandResult, listing
from digest.errors import NotFound

if TYPE_CHECKING:
    from digest.bounces.suppressions import SuppressionEntry

app = group("Manage the suppression list.")

Email = Annotated[str, argument("EMAIL", "The address.")]


@app.command("list")
@command(reading)
def show_list(work: Workspace) -> CommandResult:
    """List the suppressions. Suppressed addresses are stored as hashes, so no address is shown.

    Examples:
        digest suppressions list
        digest suppressions list --json
    """
    from digest.bounces import suppressions

    return listing(
        [asdict(entry) for entry in suppressions.list_suppressions(work.session)],
        {"since": "since", "reason": "reason", "hash": lambda row: row["hmac"][:12], "note": "note"},
        shrinks="note",
        empty="No address is suppressed.",
    )


@app.command()
@command(writing)
def add(
    work: Workspace,
    email: Email,
    note: Annotated[str, option("--note TEXT", "The reason, in your words.")] = "",
    now: Now = CLOCK,
) -> CommandResult:
    """Suppress an address: it gets no mail and cannot subscribe until you remove the suppression.

    Examples:
        digest suppressions add ada@example.org
        digest suppressions add ada@example.org --note 'asked by phone'
    """
    from digest.bounces import suppressions
    from digest.mail import addresses

    address = addresses.parse_address(email).email
    is_new = suppressions.suppress_by_operator(work.session, work.site, address, note, now)
    report = {"email": address, "suppressed": True, "new": is_new}
    return CommandResult(report, f"{address} is {'' if is_new else 'already '}suppressed.")


@app.command()
@command(opened)
def remove(work: Opened, email: Email, yes: Yes = False, now: Now = CLOCK) -> CommandResult:
    """Allow mail to this address again.

    Examples:
        digest suppressions remove ada@example.org
        digest suppressions remove ada@example.org --yes
    """
    from digest.bounces import suppressions

    with work.reading() as session:
        plan = removal_plan(suppressions.find_suppression(session, work.site, email), email)
    require_yes(plan, yes=yes)
    with work.writing() as session:
        suppressions.unsuppress_by_operator(session, work.site, email, now=now)
    return CommandResult({"email": email, "suppressed": False}, f"{email} is no longer suppressed.")


def removal_plan(entry: SuppressionEntry | None, email: str) -> str:
    """Return sentences about the suppression that will be removed; raise NotFound if there is none."""
    if entry is None:
        raise NotFound(f"{email} is not suppressed.")
    why = f"{entry.reason}: {entry.note}" if entry.note else entry.reason
    return f"{email} has been suppressed since {terminal.format_cell(entry.since)} ({why}). Mail to it will be allowed again."
