"""Implement the database dialect for SQLite, with the same names as in `postgresql`."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from datetime import datetime
from itertools import repeat
from pathlib import Path
from typing import Any

from sqlalchemy import (
    JSON,
    URL,
    BindParameter,
    Column,
    ColumnElement,
    Connection,
    Dialect,
    Engine,
    Row,
    Subquery,
    Table,
    create_engine,
    event,
    func,
    select,
    text,
)  # fmt: skip
from sqlalchemy.dialects import sqlite
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.orm import Session
from sqlalchemy.sql.compiler import SQLCompiler

from digest.db.column_types import NO_VALUES, bind_values, json_list, values_by_column
from digest.db.conditions import OneOf, Unindexed, one_of, unique_where

BUSY_WAIT = 30_000  #: milliseconds that a statement waits for a lock
LOG_WAIT = 1_000  #: milliseconds that `truncate_log` waits for readers, during which all writers wait

# ── connections ─────────────────────────────────────────────────────────────────────────────────


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


def common_clock(session: Session, local_clock: Callable[[], datetime]) -> Callable[[], datetime]:
    """Return the local clock: with SQLite, all workers run on this machine."""
    del session
    return local_clock


# ── transactions ────────────────────────────────────────────────────────────────────────────────


def commit_asynchronously(session: Session) -> None:
    """Do nothing, because on SQLite every commit waits for the disk."""


def prefer_index_order(session: Session) -> AbstractContextManager[None]:
    """Do nothing, because SQLite already reads the index in order."""
    del session
    return nullcontext()


def lock(session: Session, number: int) -> None:
    """Do nothing: there is one writer at a time."""


def lock_shared(session: Session, number: int) -> None:
    """Do nothing: there is one writer at a time."""


def pipelined(session: Session) -> AbstractContextManager[None]:
    """Do nothing, because SQLite executes each statement at once."""
    del session
    return nullcontext()


# ── many rows ───────────────────────────────────────────────────────────────────────────────────


def insert(table: Table) -> sqlite.Insert:
    """Return an INSERT that supports ON CONFLICT."""
    return sqlite.insert(table)


def insert_many(
    connection: Connection,
    table: Table,
    rows: Sequence[Mapping[str, Any]],
    shared: Mapping[str, Any],
    *,
    key: Sequence[str],
    returning: Sequence[str],
) -> Sequence[Row[Any]]:
    """Insert the rows whose `key` does not exist, with `executemany`, which is the fastest method.

    The new rows are those with ids above the previous highest id, since there is only one writer.
    """
    columns = [table.c[name] for name in returning]
    last = connection.execute(select(func.max(columns[0]))).scalar() if columns else None
    names = [*rows[0], *shared]
    where = f" WHERE {condition}" if (condition := unique_where(table, key)) is not None else ""
    on_conflict = f" ON CONFLICT ({', '.join(key)}){where} DO NOTHING" if key else ""
    values = row_tuples(connection.dialect, table, rows[0], rows, shared)
    connection.exec_driver_sql(insert_statement(table, names) + on_conflict, values)
    return connection.execute(select(*columns).where(columns[0] > (last or 0))).all() if columns else []


def insert_statement(table: Table, names: Sequence[str]) -> str:
    """Return an INSERT with positional parameters; named parameters take twice as long."""
    columns, places = ", ".join(f'"{name}"' for name in names), ", ".join("?" * len(names))
    return f'INSERT INTO "{table.name}" ({columns}) VALUES ({places})'  # noqa: S608 - our own names


def update_many(connection: Connection, table: Table, rows: Sequence[Mapping[str, Any]]) -> None:
    """Update the rows with these ids, each with its own values."""
    names = [*(name for name in rows[0] if name != "id"), "id"]
    assignments = ", ".join(f"{name} = ?" for name in names[:-1])
    statement = f"UPDATE {table.name} SET {assignments} WHERE id = ?"  # noqa: S608 - our own names
    connection.exec_driver_sql(statement, row_tuples(connection.dialect, table, names, rows))


def row_tuples(
    dialect: Dialect,
    table: Table,
    names: Iterable[str],
    rows: Sequence[Mapping[str, Any]],
    shared: Mapping[str, Any] = NO_VALUES,
) -> list[tuple[Any, ...]]:
    """Return the rows as tuples: the named columns, then the shared values."""
    own = [bind_values(dialect, table.c[name], [row[name] for row in rows]) for name in names]
    common = [repeat(bind_values(dialect, table.c[name], [value])[0]) for name, value in shared.items()]
    return list(zip(*own, *common, strict=False))


def load_rows(connection: Connection, table: Table, rows: Sequence[Mapping[str, Any]]) -> None:
    """Insert new rows with `executemany`."""
    lists = [
        list(map(json_list, values))
        if isinstance(column.type, JSON)
        else bind_values(connection.dialect, column, values)
        for column, values in values_by_column(table, rows)
    ]
    connection.exec_driver_sql(insert_statement(table, [*rows[0]]), list(zip(*lists, strict=True)))


def insert_lists(
    connection: Connection,
    table: Table,
    names: tuple[str, str, str],
    rows: Sequence[tuple[int, int, Sequence[int]]],
    shared: Mapping[str, Any],
) -> None:
    """Insert a row (a, b, number) for every number of each tuple (a, b, numbers), one statement per tuple."""
    columns = ", ".join([*names, *shared])
    places = "".join(", ?" for _ in shared)
    common = [bind_values(connection.dialect, table.c[name], [value])[0] for name, value in shared.items()]
    statement = f"INSERT INTO {table.name} ({columns}) SELECT ?, ?, value{places} FROM json_each(?)"  # noqa: S608
    values = [(key, other, *common, json.dumps([*numbers])) for key, other, numbers in rows]
    connection.exec_driver_sql(statement, values)


def reserve_keys(connection: Connection, table: Table, count: int) -> Sequence[int]:
    """Return the next keys of a table that never reuses keys; there is only one writer."""
    last = connection.execute(LAST_ID, {"table": table.name}).scalar() or 0
    return range(last + 1, last + 1 + count)


LAST_ID = text("SELECT seq FROM sqlite_sequence WHERE name = :table")


def advance_sequences(connection: Connection, tables: Iterable[Table]) -> None:
    """Do nothing, because SQLite always continues after the highest id."""


def skip_keys(connection: Connection, table: Table, count: int) -> None:
    """Skip the next `count` ids of a table that never reuses an id."""
    names = {"name": table.name, "count": count}
    skipping = text("UPDATE sqlite_sequence SET seq = seq + :count WHERE name = :name")
    if not connection.execute(skipping, names).rowcount:
        connection.execute(text("INSERT INTO sqlite_sequence (name, seq) VALUES (:name, :count)"), names)


# ── copies of a whole database ──────────────────────────────────────────────────────────────────


def begin_snapshot(connection: Connection) -> None:
    """Do nothing, because on SQLite all reads of a transaction see the state at its first read."""


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


def defer_foreign_keys(connection: Connection) -> None:
    """Check foreign keys when this transaction commits, not after each statement."""
    connection.exec_driver_sql("PRAGMA defer_foreign_keys=ON")


# ── conditions ──────────────────────────────────────────────────────────────────────────────────


def rows_by_key(
    table: Table, key: Column[int], keys: BindParameter[Any], condition: ColumnElement[bool]
) -> Subquery:
    """Return the rows with one of these keys that meet the condition."""
    return select(table).where(one_of(key, keys), condition).subquery("found")


def row_version_sql(table: str, columns: Sequence[str]) -> str:
    """Return the SQL that joins the values of these columns into one string, used to detect changes."""
    return " || ' ' || ".join(f"coalesce({table}.{column}, '')" for column in columns)


@compiles(OneOf, "sqlite")
def one_of_in_json(element: OneOf, compiler: SQLCompiler, **details: Any) -> str:
    """Compile the condition as a comparison with the values of a JSON list."""
    column, values = (compiler.process(part, **details) for part in (element.column, element.values))
    return f"{column} IN (SELECT value FROM json_each({values}))"  # noqa: S608


@compiles(Unindexed, "sqlite")
def unindexed_in_sqlite(element: Unindexed, compiler: SQLCompiler, **details: Any) -> str:
    """Compile the column with a unary plus, which prevents index use.

    See "Disqualifying WHERE-Clause Terms" in sqlite.org/optoverview.html.
    """
    return f"+{compiler.process(element.column, **details)}"
