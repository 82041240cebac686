"""Write a backup: one SQLite file with every row of the database, and with the keys if requested."""

from __future__ import annotations

import errno
import os
import shutil
import sqlite3
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from pathlib import Path

from sqlalchemy import Column, Connection, Engine, MetaData, Table, Text, event, insert, inspect, select
from sqlalchemy.engine import ExceptionContext
from sqlalchemy.exc import DatabaseError

from digest import db
from digest.db import database_copy
from digest.db.tables.service_state import Observation
from digest.errors import SetupMismatch, UsageError

MADE = "backup"  #: the name under which the time of the backup is recorded
LITTLE_SPACE = 1_000_000  #: bytes; SQLite reports some failures on a full disk without the cause
KEYS = Table("backup_key", MetaData(), Column("name", Text, primary_key=True), Column("value", Text))


@dataclass(frozen=True, kw_only=True, slots=True)
class BackupFile:
    """An open backup."""

    path: Path
    engine: Engine
    made_at: datetime
    rows: int
    keys: Mapping[str, str]  #: the secrets, keyed by name; empty if the backup was made without keys


# ── writing ─────────────────────────────────────────────────────────────────────────────────────


def write_backup(
    source: Engine,
    path: Path,
    *,
    keys: Mapping[str, str],
    replaces: bool = False,
    now: datetime,
    progress: Callable[[int], None],
) -> dict[str, int]:
    """Write a backup to the file `path`, readable only by its owner; return the number of rows by table.

    The file gets its final name only when all its content is on disk. Raises UsageError if `path` exists and
    is not a file, or may not be replaced, and OSError with this path if it cannot be written.
    """
    if path.exists() and not path.is_file():
        raise UsageError(f"{path} is not a file. Choose the name of a new file.")
    if path.exists() and not replaces:
        raise UsageError(f"{path} exists. Choose another name, or replace it with --overwrite.")
    part = path.with_name(f".{path.name}.part")
    discard(part)
    engine = db.make_engine(f"sqlite:///{part.absolute()}")
    event.listen(engine, "handle_error", partial(raise_os_error, path))
    try:
        counts = database_copy.copy(source, engine, progress, finish=partial(complete, keys=keys, now=now))
        fold_log(engine, path)
        engine.dispose()
        sync(part)
        part.replace(path)
        sync(path.absolute().parent)
    finally:
        engine.dispose()
        discard(part)
    return counts


def complete(writing: Connection, *, keys: Mapping[str, str], now: datetime) -> None:
    """Record when the backup was made, and add the keys."""
    writing.execute(insert(Observation), [{"name": MADE, "at": now}])
    KEYS.create(writing)
    if keys:
        writing.execute(insert(KEYS), [{"name": name, "value": value} for name, value in keys.items()])


def raise_os_error(path: Path, failed: ExceptionContext) -> None:
    """Raise an error of the unfinished backup with the path of the backup, because the database itself works."""
    raise os_error(path, failed.original_exception)


def os_error(path: Path, error: BaseException) -> OSError:
    """Return SQLite's error about a file as an OSError with its path."""
    is_full = "full" in str(error) or shutil.disk_usage(path.absolute().parent).free < LITTLE_SPACE
    reason = os.strerror(errno.ENOSPC) if is_full else str(error)
    return OSError(errno.ENOSPC if is_full else errno.EIO, reason, str(path))


def fold_log(engine: Engine, path: Path) -> None:
    """Move the write-ahead log into the database file, so that the backup is a single file."""
    connection = engine.raw_connection()
    try:
        connection.cursor().execute("PRAGMA journal_mode=DELETE")
    except sqlite3.Error as error:
        raise os_error(path, error) from error
    finally:
        connection.close()


def sync(path: Path) -> None:
    """Wait until a file or folder is on disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def discard(part: Path) -> None:
    """Delete an unfinished backup."""
    for suffix in ("", "-wal", "-shm", "-journal"):
        part.with_name(part.name + suffix).unlink(missing_ok=True)


# ── reading ─────────────────────────────────────────────────────────────────────────────────────


@contextmanager
def open_backup(path: Path) -> Iterator[BackupFile]:
    """Open a backup without changing it.

    Raises UsageError if the file is not a backup, and SetupMismatch if its schema is of another version.
    """
    if not path.is_file():
        raise UsageError(f"{path} does not exist. Name a file made by: digest backup FILE")
    engine = db.open_read_only(path.absolute())
    try:
        yield read_backup(path, engine)
    finally:
        engine.dispose()


def read_backup(path: Path, engine: Engine) -> BackupFile:
    """Read the time, the keys and the number of rows of a backup.

    Raises UsageError if the file is not a backup, and SetupMismatch if its schema is of another version.
    """
    try:
        found, needed = db.revision(engine), db.newest_revision()
        is_backup = inspect(engine).has_table(KEYS.name)
    except DatabaseError:
        is_backup, found, needed = False, None, None
    if not is_backup:
        raise UsageError(f"{path} is not a backup. Name a file made by: digest backup FILE")
    if found != needed:
        raise SetupMismatch(
            f"{path} was made by another version (its schema is at {found}, this version needs {needed})."
            " Restore it with that version, then install this version and run: digest db upgrade"
        )
    with engine.connect() as connection:
        made_at = connection.execute(select(Observation.at).where(Observation.name == MADE)).scalar_one()
        keys = {row.name: row.value for row in connection.execute(select(KEYS))}
    return BackupFile(
        path=path, engine=engine, made_at=made_at, rows=database_copy.count_rows(engine), keys=keys
    )
