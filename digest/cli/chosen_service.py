"""Find the service that a command is for, and refuse a command that would silently make another one."""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from digest.errors import BadField, UsageError

if TYPE_CHECKING:
    from digest.settings import Settings

#: The settings of the service that docs/deploy.md sets up; systemd passes them to its roles.
DEPLOYED = Path("/etc/digest/environment")
DEPLOYED_DATA_DIR = "/var/lib/digest"  #: its data directory, if this user cannot read the settings


def name_data_dir(folder: Path) -> None:
    """Use this data directory; if it is the deployed service's, use all settings of that service.

    With other settings, a command would use another database or send digests into a folder.
    """
    os.environ["DIGEST_DATA_DIR"] = str(folder)
    try:
        settings = deployed_settings()
    except OSError as error:
        if is_same(folder, DEPLOYED_DATA_DIR):
            raise BadField("--data-dir", f"{DEPLOYED}: {error.strerror}. {deployed_command()}") from None
        return
    if is_same(folder, settings.get("DIGEST_DATA_DIR", "")):
        for name, value in settings.items():
            os.environ.setdefault(name, value)


def deployed_settings() -> dict[str, str]:
    """Return the settings of the deployed service; none if there is no such service."""
    if not DEPLOYED.exists():
        return {}
    lines = (shlex.split(line, comments=True) for line in DEPLOYED.read_text(encoding="utf-8").splitlines())
    return dict(line[0].split("=", 1) for line in lines if line and "=" in line[0])


def is_same(folder: Path, other: str) -> bool:
    """Return whether two paths name the same folder."""
    return bool(other) and folder.absolute() == Path(other).absolute()


def check(settings: Settings, *, makes_database: bool, makes_service: bool) -> None:
    """Raise UsageError if no service is found, unless the command may make what is missing.

    In a data directory that is named and empty, every command makes what it needs.
    """
    from digest import db
    from digest.settings import given_values

    file, folder = db.database_file(settings.database), settings.data_dir.absolute()
    if file is None or file.exists() or makes_service:
        return
    if "data_dir" not in given_values() and not any(folder.glob("*")):
        raise UsageError(
            f"There is no service in {Path.cwd()}. Name its data directory: digest --data-dir DIR."
            + f" {deployed_command()}" * DEPLOYED.exists()
        )
    if (folder / "secret_key").exists() and not makes_database:
        raise UsageError(
            f"{folder} has the keys of a service, but its database {file} does not exist. If the service has another"
            " database, name it in DIGEST_DATABASE_URL. Otherwise: digest restore BACKUP, or digest db upgrade for an"
            " empty database."
        )


def deployed_command() -> str:
    """Return the command line that does what was typed on the deployed service."""
    try:
        folder = deployed_settings().get("DIGEST_DATA_DIR", DEPLOYED_DATA_DIR)
    except OSError:
        folder = DEPLOYED_DATA_DIR
    typed = shlex.join(without_data_dir(sys.argv[1:]))
    return f"On this machine's service: sudo -u digest digest --data-dir {shlex.quote(folder)} {typed}"


def without_data_dir(arguments: list[str]) -> list[str]:
    """Return a command line without the option that names the data directory."""
    if arguments[:1] == ["--data-dir"]:
        return arguments[2:]
    return arguments
