"""Insert or update many rows in one statement, on either database."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib import import_module
from json.encoder import encode_basestring_ascii
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, cast

from sqlalchemy import JSON, Column, Connection, Dialect, Row, Table, func, literal_column, select, text
from sqlalchemy.orm import Session

from digest.db.column_types import Base
from digest.db.conditions import quote_text, unique_where
from digest.db.sessions import dialect_name, driver_connection

if TYPE_CHECKING:
    from sqlalchemy.dialects import sqlite

NO_VALUES: Mapping[str, Any] = MappingProxyType({})
COPY_ESCAPES = str.maketrans({"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r"})


def upsert(session: Session, mapped: type[Base]) -> sqlite.Insert:
    """Return an INSERT that supports ON CONFLICT, whose syntax is the same on both databases."""
    dialect = import_module(f"sqlalchemy.dialects.{dialect_name(session)}")  # so that only one is imported
    return cast("sqlite.Insert", dialect.insert(mapped))


def insert_many(
    session: Session,
    mapped: type[Base],
    rows: Sequence[Mapping[str, Any]],
    *,
    shared: Mapping[str, Any] = NO_VALUES,
    key: Sequence[str] = (),
    returning: Sequence[str] = (),
) -> Sequence[Row[Any]]:
    """Insert many rows except those whose `key` exists; return the new rows' `returning` columns.

    Every row has the same columns; `shared` contains the columns with the same value in all rows.
    """
    if not rows:
        return []
    table = cast(Table, mapped.__table__)
    adding = upsert(session, mapped)
    if key:
        adding = adding.on_conflict_do_nothing(index_elements=key, index_where=unique_where(table, key))
    written = [{**shared, **row} for row in rows]
    if not returning:
        session.connection().execute(adding, written)
        return []
    return (
        session.connection().execute(adding.returning(*(table.c[name] for name in returning)), written).all()
    )


def load_rows(session: Session, mapped: type[Base], rows: Sequence[Mapping[str, Any]]) -> None:
    """Insert thousands of new rows by the fastest method: COPY on PostgreSQL, `executemany` on SQLite.

    Every row has all columns without a default in the database. Raises IntegrityError if a key exists.
    """
    if not rows:
        return
    table, connection = cast(Table, mapped.__table__), session.connection()
    names = ", ".join(f'"{name}"' for name in rows[0])
    if connection.dialect.name == "sqlite":
        places = ", ".join("?" * len(rows[0]))
        statement = f'INSERT INTO "{table.name}" ({names}) VALUES ({places})'  # noqa: S608 - our own names
        columns = [bound(connection.dialect, table.c[name], rows) for name in rows[0]]
        connection.exec_driver_sql(statement, list(zip(*columns, strict=True)))
        return
    columns = [bound(connection.dialect, table.c[name], rows, copy_text) for name in rows[0]]
    copying = f'COPY "{table.name}" ({names}) FROM STDIN'
    with driver_connection(session) as raw, raw.cursor() as cursor, cursor.copy(copying) as stream:
        stream.write("\n".join(map("\t".join, zip(*columns, strict=True))))


def update_many(session: Session, mapped: type[Base], rows: Sequence[Mapping[str, Any]]) -> None:
    """Update many rows by `id` in one statement, each with its own values; every row has the same columns."""
    if not rows:
        return
    table, connection = cast(Table, mapped.__table__), session.connection()
    names = [*(name for name in rows[0] if name != "id"), "id"]
    if connection.dialect.name == "sqlite":
        assignments = ", ".join(f'"{name}" = ?' for name in names[:-1])
        statement = f'UPDATE "{table.name}" SET {assignments} WHERE id = ?'  # noqa: S608 - our own names
        columns = [bound(connection.dialect, table.c[name], rows) for name in names]
        connection.exec_driver_sql(statement, list(zip(*columns, strict=True)))
        return
    assignments = ", ".join(f'"{name}" = new."{name}"' for name in names[:-1])
    arrays = ", ".join(f"CAST(%s AS {table.c[name].type.compile(connection.dialect)}[])" for name in names)
    new = ", ".join(f'"{name}"' for name in names)
    columns = [bound(connection.dialect, table.c[name], rows, array_text) for name in names]
    connection.exec_driver_sql(
        f'UPDATE "{table.name}" SET {assignments} FROM unnest({arrays}) AS new ({new})'  # noqa: S608
        f' WHERE "{table.name}".id = new.id',
        tuple([f"{{{','.join(texts)}}}" for texts in columns]),
    )


def bound(
    dialect: Dialect,
    column: Column[Any],
    rows: Sequence[Mapping[str, Any]],
    write: Callable[[Any], Any] = lambda value: value,
) -> list[Any]:
    """Return a column's values converted for the database and then by `write`; equal values only once."""
    values = [row[column.name] for row in rows]
    if isinstance(column.type, JSON):  # lists of strings, four times as fast as with `json.dumps`
        return [write(f"[{', '.join(map(encode_basestring_ascii, texts))}]") for texts in values]
    process = column.type.dialect_impl(dialect).bind_processor(dialect)
    known = {value: write(process(value) if process else value) for value in dict.fromkeys(values)}
    return [known[value] for value in values]


def copy_text(value: object) -> str:
    """Return a value in the text format of COPY."""
    return "\\N" if value is None else str(value).translate(COPY_ESCAPES)


def array_text(value: object) -> str:
    """Return a value as an element of an array literal of PostgreSQL."""
    return "NULL" if value is None else quote_text(str(value))


# ── ids ─────────────────────────────────────────────────────────────────────────────────────────

NEXT_IDS = text(
    "SELECT nextval(counter) FROM generate_series(1, :many),"
    " (SELECT CAST(pg_get_serial_sequence(:table, 'id') AS regclass) AS counter OFFSET 0) AS sequence"
)


def reserve_keys(session: Session, mapped: type[Base], count: int) -> Sequence[int]:
    """Reserve `count` ascending keys for new rows of a table that never reuses a key.

    On SQLite, which has only one writer, the keys must be used in the same transaction.
    """
    if dialect_name(session) == "sqlite":
        given = {"table": mapped.__tablename__}
        last = session.scalar(text("SELECT seq FROM sqlite_sequence WHERE name = :table"), given) or 0
        return range(last + 1, last + 1 + count)
    return session.scalars(NEXT_IDS, {"table": mapped.__tablename__, "many": count}).all()


def advance_sequences(connection: Connection, tables: Iterable[Table]) -> None:
    """Make the database assign new ids that are higher than those of the rows copied into it."""
    if connection.dialect.name == "sqlite":
        return  # it always continues after the highest id
    for table in tables:
        for column in table.primary_key:
            sequence = connection.scalar(select(func.pg_get_serial_sequence(table.name, column.name)))
            if sequence:
                highest = select(func.coalesce(func.max(column), 0) + 1).scalar_subquery()
                connection.execute(select(func.setval(sequence, highest, literal_column("false"))))


def skip_keys(connection: Connection, table: Table, count: int) -> None:
    """Skip the next `count` ids of a table that never reuses an id."""
    if connection.dialect.name == "postgresql":
        sequence = connection.scalar(select(func.pg_get_serial_sequence(table.name, "id")))
        connection.execute(select(func.setval(sequence, func.nextval(sequence) + count)))
        return
    names = {"name": table.name, "count": count}
    skipping = text("UPDATE sqlite_sequence SET seq = seq + :count WHERE name = :name")
    if not connection.execute(skipping, names).rowcount:
        connection.execute(text("INSERT INTO sqlite_sequence (name, seq) VALUES (:name, :count)"), names)
