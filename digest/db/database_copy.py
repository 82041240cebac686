"""Copy every table to another database and verify the counts: `digest db copy`, `backup` and `restore`."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

from sqlalchemy import Connection, Engine, LargeBinary, Table, delete, func, insert, select, update

from digest import db
from digest.db.tables.deliveries import Delivery
from digest.db.tables.subscribers import Subscriber
from digest.errors import DigestError, UsageError

BATCH_ROWS = 1_000  #: number of rows read and written at once
LARGE_BATCH_ROWS = 10  #: number of rows read and written at once if a row may contain megabytes

#: Tables about the machines that use a database. The first command on a new database fills these tables.
MACHINE_TABLES = frozenset({"fingerprint", "heartbeat", "observation"})


def copy(
    source: Engine,
    target: Engine,
    progress: Callable[[int], None],
    *,
    replaces: Collection[str] = (),
    finish: Callable[[Connection], None] = lambda _: None,
) -> dict[str, int]:
    """Copy every row in one transaction and return the number of rows of each table.

    The rows are a consistent snapshot, even if processes write to the source. The target must be empty,
    except for the tables in `replaces`, whose rows are deleted. `finish` runs in the same transaction.
    """
    db.upgrade(target)
    with source.connect() as reading, target.begin() as writing:
        if reading.dialect.name == "postgresql":
            reading.exec_driver_sql("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
        if writing.dialect.name == "sqlite":
            writing.exec_driver_sql(
                "PRAGMA defer_foreign_keys=ON"
            )  # on PostgreSQL, none is violated on the way
        for table in tables():
            if table.name in replaces:
                writing.execute(delete(table))
        require_empty(writing)
        counts = {table.name: copy_table(table, reading, writing, progress) for table in tables()}
        for table in tables():
            verify(table, counts[table.name], writing)
        forget_missing_readers(writing)
        db.advance_sequences(writing, tables())
        finish(writing)
    return counts


def count_rows(engine: Engine) -> int:
    """Return the number of rows in all tables."""
    with engine.connect() as connection:
        counts = [select(func.count()).select_from(table).scalar_subquery() for table in tables()]
        return sum(connection.execute(select(*counts)).one())


def tables() -> list[Table]:
    """Return the tables, each after the tables that its foreign keys refer to."""
    return Delivery.metadata.sorted_tables


def require_empty(writing: Connection) -> None:
    """Raise UsageError if the target has any rows."""
    for table in tables():
        if writing.execute(select(table).limit(1)).first() is not None:
            where = writing.engine.url.render_as_string(hide_password=True)
            raise UsageError(
                f"{where} is not empty: the table {table.name} has rows. Move this database away, or set the URL"
                " of an empty one."
            )


def copy_table(
    table: Table, reading: Connection, writing: Connection, progress: Callable[[int], None]
) -> int:
    """Copy the rows of one table and return their number.

    References to rows of the same table, which may not have been copied yet, are written at the end.
    """
    number, own = 0, [key.parent for key in table.foreign_keys if key.column.table is table]
    is_large = any(isinstance(column.type, LargeBinary) for column in table.c)
    batches = reading.execution_options(yield_per=LARGE_BATCH_ROWS if is_large else BATCH_ROWS)
    rows = batches.execute(select(table).order_by(*table.primary_key))
    unknown = dict.fromkeys(column.name for column in own)
    for part in rows.mappings().partitions():
        writing.execute(insert(table), [{**row, **unknown} for row in part])
        number += len(part)
        progress(len(part))
    for column in own:
        for row in reading.execute(select(table.c.id, column).where(column.is_not(None))):
            writing.execute(update(table).where(table.c.id == row.id).values({column.name: row[1]}))
    return number


def verify(table: Table, expected: int, writing: Connection) -> None:
    """Raise DigestError unless the target table has as many rows as were copied to it."""
    found = writing.scalar(select(func.count()).select_from(table))
    if found != expected:
        raise DigestError(
            f"{table.name}: {expected:,} rows were copied and {found:,} found. Nothing was kept."
        )


def forget_missing_readers(writing: Connection) -> None:
    """Clear the subscriber id of deliveries whose subscriber was deleted.

    Only the SQLite schema has a foreign key that clears this id.
    """
    delivery: Any = Delivery.__table__
    subscriber: Any = Subscriber.__table__
    missing = delivery.c.subscriber_id.not_in(select(subscriber.c.id))
    writing.execute(update(delivery).where(missing).values(subscriber_id=None))


def skip_keys(writing: Connection, count: int) -> None:
    """Skip the next `count` ids of every table that never reuses an id."""
    for table in tables():
        if table.dialect_options["sqlite"]["autoincrement"]:
            db.skip_keys(writing, table, count)
