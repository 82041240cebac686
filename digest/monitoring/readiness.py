"""Check whether the service can do its work: for `/readyz`, `digest status` and alarm letters.

Nothing here raises: what cannot be checked is itself a problem. A warning leaves the service ready.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime
from pathlib import Path

from sqlalchemy import Engine, make_url
from sqlalchemy.exc import SQLAlchemyError

from digest import db
from digest.errors import DigestError
from digest.monitoring import probes, problems
from digest.monitoring.probes import Disk
from digest.monitoring.problems import Problem
from digest.settings import Settings


def check_readiness(settings: Settings, engine: Engine, now: datetime) -> list[Problem]:
    """Return the problems that stop the service from working, and those that soon will."""
    return [*check_database(engine, now), *check_servers(settings), *check_disks(settings)]


def check_database(engine: Engine, now: datetime) -> list[Problem]:
    """Return the problems found in the database, or that it cannot be used."""
    try:
        found, needed = db.revision(engine), db.newest_revision(engine)
        if found != needed:
            return [schema_problem(f"it is at {found} and this code needs {needed}")]
        with db.read_session(engine) as session:
            return problems.find_blocking_problems(session, now)
    except (DigestError, SQLAlchemyError, OSError) as error:
        return [database_problem(error)]


def schema_problem(fact: str) -> Problem:
    """Return the problem of a database whose schema belongs to another version of this code."""
    message = "The database has another schema: digest db upgrade"
    return Problem(cause="schema", message=message, fix="Run: digest db upgrade", facts=(fact,))


def database_problem(error: Exception) -> Problem:
    """Return the problem of a database that cannot be used, with its error message."""
    cause = error.__cause__ or error
    reason = getattr(cause, "orig", None) or cause
    return Problem(
        cause="database",
        message="The database cannot be used",
        fix="Nothing is stored or sent until it works. Check that it runs and that its disk is not full.",
        facts=(str(reason).strip().splitlines()[0],),
    )


def check_servers(settings: Settings) -> Iterator[Problem]:
    """Yield the problems of the broker and the mail server; the embedded broker is checked only if its socket exists."""
    is_expected = settings.broker_url is not None or settings.broker_socket.exists()
    if is_expected and (reason := probes.broker_problem(settings.broker)):
        fix = f"No mail is lost, but none is sent until it is back: {reason}."
        yield Problem(cause="broker", message="The broker does not answer", fix=fix)
    if reason := probes.mail_problem(settings.mail):
        fix = f"All letters wait until it is back: {reason}. To diagnose: digest doctor."
        yield Problem(cause="mail", message="The mail server does not answer", fix=fix)


def check_disks(settings: Settings) -> Iterator[Problem]:
    """Yield a problem for each full disk, and a warning for each that is nearly full."""
    return disk_problems(writable_disks(settings))


def disk_problems(found: Iterable[Disk]) -> Iterator[Problem]:
    """Yield a problem or a warning for each disk with little space."""
    for disk in found:
        if disk.is_low:
            yield Problem(
                cause="disk",
                message=f"{'The disk is full' if disk.is_full else 'The disk is nearly full'}: {disk}",
                fix="Free some space. A full disk stops the database, and with it all mail.",
                is_warning=not disk.is_full,
            )


def writable_disks(settings: Settings) -> list[Disk]:
    """Return the disks that the service writes to."""
    folders = [settings.data_dir.absolute(), settings.dumps.absolute()]
    database = make_url(db.with_driver(settings.database))
    if database.get_backend_name() == "sqlite" and database.database:
        folders.append(Path(database.database).absolute().parent)
    try:
        return probes.disks(folders)
    except OSError:
        return []  # a folder that cannot be accessed: the check of the database or the settings reports it
