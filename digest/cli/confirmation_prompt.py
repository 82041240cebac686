"""Ask for confirmation before a destructive command runs."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from digest.cli import terminal
from digest.cli.options import option
from digest.errors import DigestError, UsageError

Yes = Annotated[bool, option("--yes -y", "Do not ask.")]
DRY_RUN = "Dry run: "  #: the beginning of the sentence that a dry run prints
DryRun = Annotated[bool, option("--dry-run", "Show what would change; change nothing.")]


def require_yes(plan: str, *, yes: bool) -> None:
    """Print the plan and ask for confirmation, unless `--yes` was given.

    Raises UsageError if there is no terminal, and DigestError if the operator declines.
    """
    if yes:
        return
    if not sys.stdin.isatty():
        raise UsageError(f"{plan} To do this without being asked, add --yes.")
    print(terminal.wrap_lines(terminal.visible_text(plan), sys.stderr), file=sys.stderr)
    if not typer.confirm("Continue?", err=True):
        raise DigestError("Nothing was changed.")
