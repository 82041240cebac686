"""`digest db copy`: everything moves to another database, table by table, and is counted there."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from sqlalchemy import Connection, Engine, Table, func, insert, select, update

from digest import db, model
from digest.errors import DigestError, UsageError

AT_ONCE = 1_000  #: rows read and written together


def copy(source: Engine, target: Engine, progress: Callable[[int], None]) -> dict[str, int]:
    """Copy every row and return how many there are of each table; all of it arrives, or nothing.

    The target must be empty. What changes in the source meanwhile is not waited for: stop the roles first.
    """
    db.upgrade(target)
    with source.connect() as reading, target.begin() as writing:
        refuse_full(writing)
        counts = {table.name: copy_table(table, reading, writing, progress) for table in tables()}
        for table in tables():
            verify(table, counts[table.name], writing)
        if target.dialect.name == "postgresql":
            advance_sequences(writing)
    return counts


def tables() -> list[Table]:
    """Return our tables, each after those it refers to."""
    return model.Delivery.metadata.sorted_tables


def refuse_full(writing: Connection) -> None:
    """Raise UsageError where the target holds anything already."""
    for table in tables():
        if writing.execute(select(table).limit(1)).first() is not None:
            where = writing.engine.url.render_as_string(hide_password=True)
            raise UsageError(f"{where} is not empty: there are rows in {table.name}. Name an empty database.")


def copy_table(
    table: Table, reading: Connection, writing: Connection, progress: Callable[[int], None]
) -> int:
    """Copy the rows of one table and return how many there were."""
    number = 0
    rows = reading.execution_options(yield_per=AT_ONCE).execute(select(table).order_by(*table.primary_key))
    for part in rows.mappings().partitions():
        writing.execute(insert(table), [without_kin(table, row) for row in part])
        number += len(part)
        progress(len(part))
    join_kin(table, reading, writing)
    return number


def kin(table: Table) -> list[str]:
    """Return the columns that refer to rows of the same table, which may not be there yet."""
    return [key.parent.name for key in table.foreign_keys if key.column.table is table]


def without_kin(table: Table, row: Mapping[Any, Any]) -> dict[str, Any]:
    """Return a row with no reference to rows of its own table."""
    return {**row, **dict.fromkeys(kin(table))}


def join_kin(table: Table, reading: Connection, writing: Connection) -> None:
    """Put the references between rows of the same table in, now that all of them are there."""
    for name in kin(table):
        column = table.c[name]
        for row in reading.execute(select(table.c.id, column).where(column.is_not(None))):
            writing.execute(update(table).where(table.c.id == row.id).values({name: row[1]}))


def verify(table: Table, wanted: int, writing: Connection) -> None:
    """Raise DigestError where fewer or more rows arrived than were sent."""
    found = writing.scalar(select(func.count()).select_from(table))
    if found != wanted:
        raise DigestError(f"{table.name}: {wanted:,} rows were sent and {found:,} arrived. Nothing was kept.")


def advance_sequences(writing: Connection) -> None:
    """Let PostgreSQL count on from the ids that came in."""
    for table in tables():
        for column in table.primary_key:
            sequence = writing.scalar(select(func.pg_get_serial_sequence(table.name, column.name)))
            if sequence:
                highest = select(func.coalesce(func.max(column), 0) + 1).scalar_subquery()
                writing.execute(select(func.setval(sequence, highest, False)))
