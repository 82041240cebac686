"""Insert many catalog rows at once, in the fastest way of each database."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from json.encoder import encode_basestring_ascii
from typing import Any

from sqlalchemy import JSON, Column, Connection, Table, text

from digest import db
from digest.papers.catalog.enrichment import Row


def insert_rows(connection: Connection, table: Table, rows: Sequence[Row]) -> None:
    """Insert rows, if there are any."""
    if rows and connection.dialect.name == "postgresql":
        copy_rows(connection, table, rows)
    elif rows:
        insert_positional(connection, table, rows)


def reserve_ids(connection: Connection, count: int) -> list[int]:
    """Return `count` paper ids that were never used."""
    if not count:
        return []
    if connection.dialect.name == "postgresql":
        query = text("SELECT nextval(pg_get_serial_sequence('paper', 'id')) FROM generate_series(1, :count)")
        return sorted(connection.scalars(query, {"count": count}))
    last = connection.scalar(text("SELECT seq FROM sqlite_sequence WHERE name = 'paper'")) or 0
    return list(range(last + 1, last + 1 + count))


def copy_rows(connection: Connection, table: Table, rows: Sequence[Row]) -> None:
    """Insert rows into PostgreSQL with COPY, which takes half as long as INSERT here."""
    names = ", ".join(f'"{name}"' for name in rows[0])
    lists = [
        list(map(json_list, values)) if isinstance(column.type, JSON) else values
        for column, values in values_by_column(table, rows)
    ]
    cursor: Any = connection.connection.cursor()
    with cursor, cursor.copy(f'COPY "{table.name}" ({names}) FROM STDIN') as stream:
        for values in zip(*lists, strict=True):
            stream.write_row(values)


def insert_positional(connection: Connection, table: Table, rows: Sequence[Row]) -> None:
    """Insert rows into SQLite with positional parameters; named ones take twice as long."""
    names = ", ".join(f'"{name}"' for name in rows[0])
    places = ", ".join("?" * len(rows[0]))
    lists = [
        list(map(json_list, values))
        if isinstance(column.type, JSON)
        else db.bind_values(connection.dialect, column, values)
        for column, values in values_by_column(table, rows)
    ]
    values = list(zip(*lists, strict=True))
    connection.exec_driver_sql(f'INSERT INTO "{table.name}" ({names}) VALUES ({places})', values)  # noqa: S608


def values_by_column(table: Table, rows: Sequence[Row]) -> Iterator[tuple[Column[Any], list[Any]]]:
    """Yield each column with its values; all rows have the same columns."""
    return ((table.c[name], [row[name] for row in rows]) for name in rows[0])


def json_list(texts: Sequence[str]) -> str:
    """Return a list of texts as `json.dumps` writes it, in a quarter of the time."""
    return f"[{', '.join(map(encode_basestring_ascii, texts))}]"
