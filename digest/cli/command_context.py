"""Find the service that a command is for, and open the app context; create what is missing, but no second service."""

from __future__ import annotations

import logging
import os
import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from digest.cli import error_sentences, terminal
from digest.errors import BadField, DigestError, UsageError

if TYPE_CHECKING:
    from digest.app_context import AppContext
    from digest.db import Engine, Session
    from digest.settings import Settings


@contextmanager
def open_context(*, makes_service: bool = False) -> Iterator[AppContext]:
    """Open the app context; create the schema if the database is empty."""
    from digest import db
    from digest.app_context import AppContext

    settings = read_settings(makes_service=makes_service)
    engine = db.make_engine(settings.database)
    with explain_database_errors(engine):
        db.ensure_schema(engine)
        yield AppContext(settings=settings, engine=engine, site=settings.site())


@contextmanager
def open_write_session(context: AppContext, *, renders: bool = False) -> Iterator[Session]:
    """Open a session for a use case that writes; raise SetupMismatch if the machines' keys differ.

    If the command `renders` letters, all machines must also have the same templates.
    """
    context.check_setup(renders=renders)
    with context.write_session() as session:
        yield session
    save_opt_outs(context)


def operator_name() -> str:
    """Return the account of the person who runs this command, also under `sudo`."""
    import getpass
    import os

    try:
        return os.environ.get("SUDO_USER") or getpass.getuser()
    except (KeyError, OSError):  # a container may have no account of this number
        return f"user {os.getuid()}"


def save_opt_outs(context: AppContext) -> None:
    """Append new opt-outs to the file that a restore reads, unless a running scheduler does this."""
    from digest.bounces import opt_outs
    from digest.process import heartbeats

    with context.read_session() as session:
        are_saved = not opt_outs.unsaved_opt_outs(session, limit=1)
        if are_saved or heartbeats.has_scheduler(session, context.clock()):
            return
    from digest.backups import opt_out_file

    with context.write_session() as session:
        path = context.settings.data_dir / opt_out_file.OPT_OUT_FILE
        opt_out_file.save_opt_outs_in_batches(session, context.site, path, now=context.clock())


@contextmanager
def explain_database_errors(engine: Engine) -> Iterator[None]:
    """Raise database errors as a DigestError that names the database; close all connections at the end."""
    from digest.db import DBAPIError, report_unreachable

    try:
        with report_unreachable(engine):
            yield
    except DBAPIError as error:
        where = engine.url.render_as_string(hide_password=True)
        raise DigestError(error_sentences.describe_database_error(error, where)) from error
    finally:
        engine.dispose()


def read_settings(*, makes_database: bool = False, makes_service: bool = False, **given: object) -> Settings:
    """Read the settings, overridden by `given` values, and create the data directory.

    Where nothing is named and no service is found, only a command that `makes_service` creates one.
    """
    from digest.process import gc_control, logs
    from digest.settings import given_values, load_settings

    gc_control.resume_after_imports()
    settings = load_settings(given)
    logs.set_up_logging(settings.log_format, level=logging.WARNING)
    if settings.mail.folder_format == "memory":
        raise UsageError(
            "DIGEST_MAIL_URL: memory: keeps mail in the memory of one process and is only for tests;"
            " use smtp://host:587?starttls=true, lmtp://host:24 or maildir:///path."
        )
    check_service(settings, makes_database=makes_database, makes_service=makes_service)
    is_new = not settings.data_dir.exists()
    try:
        settings.data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)  # the folder contains addresses
    except OSError as error:
        raise BadField(
            "DIGEST_DATA_DIR", f"{error.filename}: {error.strerror}; name a folder that can be written to."
        ) from None
    if is_new and "data_dir" not in given_values():
        terminal.print_note(f"Created the data directory {settings.data_dir.absolute()}.")
    return settings


# ── which service ──


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


def check_service(settings: Settings, *, makes_database: bool, makes_service: bool) -> None:
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
    typed = shlex.join(sys.argv[3:] if sys.argv[1:2] == ["--data-dir"] else sys.argv[1:])
    return f"On this machine's service: sudo -u digest digest --data-dir {shlex.quote(folder)} {typed}"
