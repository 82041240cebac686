"""Insert or update hundreds of rows in one statement, on either database."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from sqlalchemy import Connection, Row, Table
from sqlalchemy.orm import Session

from digest.db.column_types import NO_VALUES, Base
from digest.db.dialects import dialect_named, dialect_of

if TYPE_CHECKING:
    from sqlalchemy.dialects import sqlite


def upsert(session: Session, mapped: type[Base]) -> sqlite.Insert:
    """Return an INSERT that supports ON CONFLICT, in the dialect of the session's database."""
    return dialect_of(session).insert(cast(Table, mapped.__table__))


def insert_many(
    session: Session,
    mapped: type[Base],
    rows: Sequence[Mapping[str, Any]],
    *,
    shared: Mapping[str, Any] = NO_VALUES,
    key: Sequence[str] = (),
    returning: Sequence[str] = (),
) -> Sequence[Row[Any]]:
    """Insert hundreds of rows except those whose `key` exists; return the new rows' `returning` columns.

    Every row has the same columns; `shared` contains the columns with the same value in all rows. The
    first column of `returning` is the table's id.
    """
    if not rows:
        return []
    table = cast(Table, mapped.__table__)
    return dialect_of(session).insert_many(
        session.connection(), table, rows, shared, key=key, returning=returning
    )


def insert_lists(
    session: Session,
    mapped: type[Base],
    names: tuple[str, str, str],
    rows: Sequence[tuple[int, int, Sequence[int]]],
    *,
    shared: Mapping[str, Any] = NO_VALUES,
) -> None:
    """For each tuple (a, b, numbers) in `rows`, insert a row (a, b, number) for every number.

    Sending lists, which the database expands to rows, costs half as much as sending the rows.
    """
    if rows:
        dialect_of(session).insert_lists(
            session.connection(), cast(Table, mapped.__table__), names, rows, shared
        )


def load_rows(session: Session, mapped: type[Base], rows: Sequence[Mapping[str, Any]]) -> None:
    """Insert thousands of new rows by the fastest method; every row has the same columns."""
    if rows:
        dialect_of(session).load_rows(session.connection(), cast(Table, mapped.__table__), rows)


def update_many(session: Session, mapped: type[Base], rows: Sequence[Mapping[str, Any]]) -> None:
    """Update hundreds of rows by `id` in one statement, each with its own values.

    Every row has the same columns.
    """
    if rows:
        dialect_of(session).update_many(session.connection(), cast(Table, mapped.__table__), rows)


def reserve_keys(session: Session, mapped: type[Base], count: int) -> Sequence[int]:
    """Reserve `count` ascending keys for new rows of a table that never reuses a key."""
    if not count:
        return []
    return dialect_of(session).reserve_keys(session.connection(), cast(Table, mapped.__table__), count)


def advance_sequences(connection: Connection, tables: Iterable[Table]) -> None:
    """Make the database assign new ids that are higher than those of the rows copied into it."""
    dialect_named(connection.dialect.name).advance_sequences(connection, tables)
