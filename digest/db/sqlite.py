"""Open databases of SQLite, and empty their logs."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from sqlalchemy import URL, Dialect, Engine, create_engine, event

BUSY_WAIT = 30_000  #: milliseconds that a statement waits for a lock
LOG_WAIT = 1_000  #: milliseconds that `truncate_log` waits for readers, during which all writers wait


def make_engine(url: URL) -> Engine:
    """Return an engine for a database file that only its owner can read and that is in WAL mode.

    Connections use `synchronous=FULL`, since with NORMAL a power cut can roll back the committed record of
    a sent letter, which is then sent again (sqlite.org/pragma.html#pragma_synchronous).
    """
    if url.database and url.database != ":memory:":
        Path(url.database).parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    engine = create_engine(url, connect_args={"timeout": 30, "check_same_thread": False})
    event.listen(engine, "do_connect", make_private)
    event.listen(engine, "connect", set_up_connection)
    event.listen(engine, "begin", begin_transaction)
    return engine


def make_private(_dialect: Dialect, _record: Any, arguments: Sequence[Any], _options: Any) -> None:
    """Create a missing database file with mode 600; SQLite would make it readable by everyone.

    SQLite gives its other files the same mode. Errors are ignored here, because SQLite reports them when it
    opens the file.

    An existing file is never opened here: closing any descriptor of the file would release the POSIX locks
    that SQLite holds for this process, and another process would then delete the log that this process
    writes.
    """
    path = str(arguments[0])
    if path and not path.startswith((":", "file:")):
        with suppress(OSError):
            os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))


def set_up_connection(connection: Any, _record: Any) -> None:
    """Configure a new SQLite connection; transactions are begun by `begin_transaction`, not by the driver."""
    connection.isolation_level = None
    cursor = connection.cursor()
    for pragma in (
        "journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON", f"busy_timeout={BUSY_WAIT}", "secure_delete=ON",
        "cache_size=-16384",  # KiB; with the default of 2,000, loading a large dump writes the same pages again
    ):  # fmt: skip
        cursor.execute(f"PRAGMA {pragma}")
    cursor.close()


def begin_transaction(connection: Any) -> None:
    """Begin a transaction; a writer locks at once, since two transactions that read first would deadlock."""
    writing = connection.get_execution_options().get("writing", False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writing else "BEGIN")


def truncate_log(engine: Engine) -> bool:
    """Empty the write-ahead log, which contains deleted rows; return False if a reader prevents this."""
    connection = engine.raw_connection()
    cursor = connection.cursor()
    try:
        cursor.execute(f"PRAGMA busy_timeout={LOG_WAIT}")
        return not cursor.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]
    finally:
        cursor.execute(f"PRAGMA busy_timeout={BUSY_WAIT}")
        connection.close()
