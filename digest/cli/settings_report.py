"""`digest config`: show the settings in use, and where each comes from."""

from __future__ import annotations

from digest.cli import command_context
from digest.cli.frame import command
from digest.cli.results import CommandResult, listing


@command()
def config() -> CommandResult:
    """Show the settings in use, and where each comes from: the environment, a file, or the default.

    Passwords and keys are not shown.

    Examples:
        digest config
        digest config --json
    """
    from digest.settings import PREFIX, given_values

    given = given_values()
    rows = [
        {"setting": f"{PREFIX}{name.upper()}", "value": value, "from": given.get(name, ("", "default"))[1]}
        for name, value in command_context.read_settings().shown().items()
    ]
    return listing(rows, "setting value from", shrinks="value from")
