"""`digest config`: show the settings in use, and where each comes from."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from digest.cli import command_context
from digest.cli.frame import command
from digest.cli.results import CommandResult, listing

if TYPE_CHECKING:
    from digest.settings import Settings


@command()
def config() -> CommandResult:
    """Show the settings in use, and where each comes from: the environment, a file, or the default.

    Passwords and keys are not shown.

    Examples:
        digest config
        digest config --json
    """
    from digest.settings import PREFIX, given_values

    shown, given = settings_report(command_context.read_settings()), given_values()
    rows = [
        {"setting": f"{PREFIX}{name.upper()}", "value": value, "from": given.get(name, ("", "default"))[1]}
        for name, value in shown.items()
    ]
    return listing(rows, "setting value from", shrinks="value from")


def settings_report(settings: Settings) -> dict[str, Any]:
    """Return all settings, with secrets masked."""
    from digest.monitoring.probes import mask_url

    secrets = {
        name: "set" if getattr(settings, name) else "kept in the data directory"
        for name in ("secret_key", "pepper")
    }
    return (
        settings.model_dump(mode="json", exclude={*secrets})
        | secrets
        | {
            "data_dir": str(settings.data_dir.absolute()),
            "dumps_dir": str(settings.dumps.absolute()),
            "database_url": mask_url(settings.database),
            "broker_url": mask_url(settings.broker),
            "mail_url": str(settings.mail),
        }
    )
