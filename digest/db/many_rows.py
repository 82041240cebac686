"""Many rows: hundreds of them are inserted or changed in one go, on either database."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import repeat
from types import MappingProxyType
from typing import Any, cast

from sqlalchemy import (
    ColumnElement,
    Connection,
    Dialect,
    Row,
    Table,
    Update,
    bindparam,
    func,
    select,
    text,
    update,
)
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.orm import Session

from digest.db.columns import Base, stored
from digest.db.conditions import looked_up
from digest.db.spelling import array, spelled

NOTHING: Mapping[str, Any] = MappingProxyType({})


def upsert(session: Session, table: type[Base]) -> sqlite.Insert:
    """Return an INSERT that knows ON CONFLICT, in the dialect of the session's database.

    Both dialects spell the clause alike, so the one type stands for the two.
    """
    insert = postgresql.insert if session.get_bind().dialect.name == "postgresql" else sqlite.insert
    return cast("sqlite.Insert", insert(table))


def put_many(
    session: Session,
    mapped: type[Base],
    rows: Sequence[Mapping[str, Any]],
    *,
    same: Mapping[str, Any] = NOTHING,
    key: Sequence[str] = (),
    returning: Sequence[str] = (),
) -> Sequence[Row[Any]]:
    """Insert hundreds of rows whose `key` is not taken, and return these columns of the new ones.

    Without a key, none can be taken. Every row names the same columns, `same` those in which they are alike;
    the first of `returning` is the one that numbers the table. On PostgreSQL parameters of their own for every
    row take 115 µs of our time a row, arrays as text 10. On SQLite the driver's own loop is fastest, and the
    new rows are those above the highest number before: nobody else is writing.
    """
    if not rows:
        return []
    connection, table = session.connection(), cast(Table, mapped.__table__)
    wanted = [table.c[name] for name in returning]
    if connection.dialect.name == "postgresql":
        return insert_arrays(connection, table, rows, same, key=key, returning=returning)
    last = connection.execute(select(func.max(wanted[0]))).scalar() if wanted else None
    names = [*rows[0], *same]
    places = ", ".join("?" * len(names))
    adding = f"INSERT INTO {table.name} ({', '.join(names)}) VALUES ({places})"  # noqa: S608 - our own names
    unless = f" ON CONFLICT ({', '.join(key)}) DO NOTHING" if key else ""
    connection.exec_driver_sql(adding + unless, tuples(connection.dialect, table, rows[0], rows, same))
    return connection.execute(select(*wanted).where(wanted[0] > (last or 0))).all() if wanted else []


def change_many(session: Session, mapped: type[Base], rows: Sequence[Mapping[str, Any]]) -> None:
    """Write to hundreds of rows, each by its `id` and with values of its own, in one go.

    Every row names the same columns. On PostgreSQL the values travel as arrays, as in `put_many`.
    """
    if not rows:
        return
    connection, table = session.connection(), cast(Table, mapped.__table__)
    if connection.dialect.name == "postgresql":
        update_arrays(connection, table, rows)
        return
    names = [*(name for name in rows[0] if name != "id"), "id"]
    changing = ", ".join(f"{name} = ?" for name in names[:-1])
    statement = f"UPDATE {table.name} SET {changing} WHERE id = ?"  # noqa: S608 - our own names
    connection.exec_driver_sql(statement, tuples(connection.dialect, table, names, rows))


def numbers(session: Session, mapped: type[Base], many: int) -> Sequence[int]:
    """Return keys for so many new rows of a table that uses none again.

    On PostgreSQL nobody else gets them; on SQLite they are the next ones, and nobody else is writing.
    """
    connection, table = session.connection(), cast(Table, mapped.__table__)
    if connection.dialect.name == "postgresql":
        return connection.execute(NUMBERS, {"table": table.name, "many": many}).scalars().all()
    last = connection.execute(LAST_NUMBER, {"table": table.name}).scalar() or 0
    return range(last + 1, last + 1 + many)


NUMBERS = text(
    "SELECT nextval(counter) FROM generate_series(1, :many),"
    " (SELECT CAST(pg_get_serial_sequence(:table, 'id') AS regclass) AS counter OFFSET 0) AS asked_once"
)
LAST_NUMBER = text("SELECT seq FROM sqlite_sequence WHERE name = :table")


def tuples(
    dialect: Dialect,
    table: Table,
    names: Iterable[str],
    rows: Sequence[Mapping[str, Any]],
    same: Mapping[str, Any] = NOTHING,
) -> list[tuple[Any, ...]]:
    """Return the rows as SQLite's driver takes them: these columns of each, and then what all share."""
    own = [stored(dialect, table.c[name], [row[name] for row in rows]) for name in names]
    shared = [repeat(stored(dialect, table.c[name], [value])[0]) for name, value in same.items()]
    return list(zip(*own, *shared, strict=False))


def insert_arrays(
    connection: Connection,
    table: Table,
    rows: Sequence[Mapping[str, Any]],
    same: Mapping[str, Any] = NOTHING,
    *,
    key: Sequence[str],
    returning: Sequence[str],
) -> Sequence[Row[Any]]:
    """Insert the rows whose `key` is not taken, each column as one array; what all share is sent once."""
    many, alike = parted(rows, next(iter(rows[0])))
    alike |= same
    statement = inserting(table, tuple(many), tuple(alike), tuple(key), tuple(returning))
    done = connection.execute(statement, sent(connection.dialect, table, many, alike))
    return done.all() if returning else []


def update_arrays(connection: Connection, table: Table, rows: Sequence[Mapping[str, Any]]) -> None:
    """Write to the rows that these name by their `id`, in the same way."""
    differing, alike = parted(rows, "id")
    given = sent(connection.dialect, table, differing, alike)
    connection.execute(updating(table, tuple(differing), tuple(alike)), given)


def parted(rows: Sequence[Mapping[str, Any]], key: str) -> tuple[dict[str, list[Any]], dict[str, Any]]:
    """Return the key and the columns in which rows differ, each with its values, and what rows share."""
    columns = {name: [row[name] for row in rows] for name in rows[0]}
    many = {
        name: values
        for name, values in columns.items()
        if name == key or values.count(values[0]) < len(values)
    }
    return many, {name: values[0] for name, values in columns.items() if name not in many}


def sent(
    dialect: Dialect, table: Table, many: Mapping[str, Sequence[Any]], alike: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the parameters of a statement for those columns."""
    lists = {name: spelled(stored(dialect, table.c[name], values)) for name, values in many.items()}
    return {f"new_{name}": value for name, value in {**alike, **lists}.items()}


@lru_cache(maxsize=64)
def inserting(
    table: Table,
    many: tuple[str, ...],
    alike: tuple[str, ...],
    key: tuple[str, ...],
    returning: tuple[str, ...],
) -> Any:
    """Return the statement of `insert_arrays`, put together once: that takes as long as sending it."""
    new = arrays(table, many, alike)
    adding = postgresql.insert(table).from_select(list(new), select(*new.values()), include_defaults=False)
    if key:
        adding = adding.on_conflict_do_nothing(index_elements=key)
    return adding.returning(*(table.c[name] for name in returning)) if returning else adding


@lru_cache(maxsize=64)
def updating(table: Table, differing: tuple[str, ...], alike: tuple[str, ...]) -> Update:
    """Return the statement of `update_arrays`."""
    new = arrays(table, differing, alike)
    number = new.pop("id")
    return update(table).where(table.c.id == number, looked_up(number)).values(new)


def arrays(table: Table, many: Iterable[str], alike: Iterable[str]) -> dict[str, ColumnElement[Any]]:
    """Return each column's values, by name: those in which rows differ as columns of arrays laid side by side."""
    laid = func.unnest(*(array(table.c[name]) for name in many)).table_valued(*many, name="new")
    new = laid.render_derived(name="new")
    shared = {name: bindparam(f"new_{name}", type_=table.c[name].type) for name in alike}
    return {**shared, **{name: new.c[name] for name in many}}
