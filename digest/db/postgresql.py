"""Implement the database dialect for PostgreSQL, with the same names as in `sqlite`."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from time import monotonic
from typing import Any, cast

from sqlalchemy import (
    JSON,
    URL,
    BigInteger,
    BindParameter,
    Column,
    ColumnElement,
    Connection,
    Dialect,
    Engine,
    Row,
    Subquery,
    Table,
    Update,
    bindparam,
    create_engine,
    event,
    func,
    literal_column,
    select,
    text,
    true,
    update,
)  # fmt: skip
from sqlalchemy import cast as sql_cast
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.exc import DBAPIError, DisconnectionError
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.orm import Session
from sqlalchemy.pool import ConnectionPoolEntry
from sqlalchemy.sql.compiler import SQLCompiler

from digest.db.array_literals import array_literal, join_values, split_to_array
from digest.db.column_types import bind_values, json_list, values_by_column
from digest.db.conditions import OneOf, hint_few_rows, unique_where

logging.getLogger("psycopg").setLevel(logging.ERROR)  # psycopg logs warnings for errors that it also raises

#: If the server disappears, as in a power failure, its connections are closed within a minute. With the
#: defaults, they would stay open for hours, during which no outcome of a sent letter could be recorded.
CONNECT_OPTIONS = {
    "connect_timeout": 5,
    "keepalives_idle": 30,
    "keepalives_interval": 10,
    "keepalives_count": 3,
    "tcp_user_timeout": 60_000,
}
PING_AFTER_SECONDS = 1.0  #: a connection that was idle for longer is tested before its next use


# ── connections ─────────────────────────────────────────────────────────────────────────────────


def make_engine(url: URL) -> Engine:
    """Return an engine whose connections use UTC and TCP keepalives, and are tested after idle time."""
    engine = create_engine(url, connect_args={"application_name": "digest", **CONNECT_OPTIONS})
    event.listen(engine, "connect", set_utc)
    event.listen(engine, "checkin", note_last_use)
    event.listen(engine, "checkout", ping_if_idle(engine.dialect))
    return engine


def set_utc(connection: Any, _record: Any) -> None:
    """Set the session's time zone to UTC.

    With any other name of the zone, even `Etc/UTC`, the driver parses times half as fast.

    A connection option could also set the time zone, but some poolers refuse options.
    """
    connection.autocommit = True
    connection.execute("SET TIME ZONE 'UTC'")
    connection.autocommit = False


def note_last_use(_connection: Any, record: ConnectionPoolEntry) -> None:
    """Record when a connection was returned to the pool."""
    record.info["used_at"] = monotonic()


def ping_if_idle(dialect: Dialect) -> Callable[[Any, ConnectionPoolEntry, Any], None]:
    """Return a hook that tests idle connections; the pool replaces dead connections.

    Recently used connections are not tested, because sending a batch of letters takes two transactions, and
    testing the connection would increase the number of round trips by a quarter.
    """

    def ping(connection: Any, record: ConnectionPoolEntry, _proxy: Any) -> None:
        if monotonic() - record.info.get("used_at", monotonic()) < PING_AFTER_SECONDS:
            return
        try:
            dialect.do_ping(connection)
        except dialect.loaded_dbapi.Error as error:
            raise DisconnectionError from error

    return ping


def common_clock(session: Session, local_clock: Callable[[], datetime]) -> Callable[[], datetime]:
    """Return the server's clock, read once and advanced by a monotonic timer.

    Changes of the local clock therefore have no effect.
    """
    del local_clock
    server_time: datetime = session.connection().exec_driver_sql("SELECT clock_timestamp()").scalar_one()
    read_at = monotonic()
    return lambda: server_time.astimezone(UTC) + timedelta(seconds=monotonic() - read_at)


# ── transactions ────────────────────────────────────────────────────────────────────────────────


def commit_asynchronously(session: Session) -> None:
    """Let the commit of this transaction return before its changes are on disk."""
    session.connection().exec_driver_sql("SET LOCAL synchronous_commit = off")


@contextmanager
def prefer_index_order(session: Session) -> Iterator[None]:
    """Read rows in the requested order from an index until the limit is reached.

    Without statistics the planner expects few rows, and would find and sort all matching rows to return a
    few.
    """
    session.connection().exec_driver_sql("SET LOCAL enable_sort = off")
    yield
    session.connection().exec_driver_sql("SET LOCAL enable_sort = on")


def lock(session: Session, number: int) -> None:
    """Wait until no other transaction holds this lock, and hold it until this transaction ends."""
    session.connection().execute(text("SELECT pg_advisory_xact_lock(:number)"), {"number": number})


def lock_shared(session: Session, number: int) -> None:
    """Wait until no transaction holds this lock exclusively, and share it until this transaction ends."""
    session.connection().execute(text("SELECT pg_advisory_xact_lock_shared(:number)"), {"number": number})


@contextmanager
def driver_connection(session: Session) -> Iterator[Any]:
    """Yield the driver's connection; its errors are raised as SQLAlchemy errors.

    A connection that is lost or cannot leave its pipeline is invalidated.
    """
    connection = session.connection()
    dialect, raw = connection.dialect, cast(Any, connection.connection.driver_connection)
    try:
        yield raw
    except dialect.loaded_dbapi.Error as error:
        is_gone = bool(dialect.is_disconnect(error, raw, None) or raw.pgconn.pipeline_status)
        if is_gone:
            connection.invalidate(error)
        raise DBAPIError.instance(
            None, None, error, dialect.loaded_dbapi.Error, connection_invalidated=is_gone, dialect=dialect
        ) from error


@contextmanager
def pipelined(session: Session) -> Iterator[None]:
    """Send the writes of this block without waiting for each reply; wait for all replies at the end."""
    with driver_connection(session) as raw, raw.pipeline():
        yield


# ── many rows ───────────────────────────────────────────────────────────────────────────────────


def insert(table: Table) -> sqlite.Insert:
    """Return an INSERT that supports ON CONFLICT, whose syntax is the same in SQLite."""
    return cast("sqlite.Insert", postgresql.insert(table))


def insert_many(
    connection: Connection,
    table: Table,
    rows: Sequence[Mapping[str, Any]],
    shared: Mapping[str, Any],
    *,
    key: Sequence[str],
    returning: Sequence[str],
) -> Sequence[Row[Any]]:
    """Insert the rows whose `key` does not exist; send a column's values as one array, shared values once.

    Separate parameters would take 115 µs of client time per row; arrays sent as text take 10 µs.
    """
    differing, common = split_columns(rows, next(iter(rows[0])))
    common |= shared
    statement = insert_statement(table, tuple(differing), tuple(common), tuple(key), tuple(returning))
    done = connection.execute(statement, statement_params(connection.dialect, table, differing, common))
    return done.all() if returning else []


def update_many(connection: Connection, table: Table, rows: Sequence[Mapping[str, Any]]) -> None:
    """Update the rows with these ids; send the values of each column as one array."""
    differing, common = split_columns(rows, "id")
    given = statement_params(connection.dialect, table, differing, common)
    connection.execute(update_statement(table, tuple(differing), tuple(common)), given)


def split_columns(rows: Sequence[Mapping[str, Any]], key: str) -> tuple[dict[str, list[Any]], dict[str, Any]]:
    """Return lists of values for `key` and the columns that differ, and one value for each other column."""
    columns = {name: [row[name] for row in rows] for name in rows[0]}
    differing = {
        name: values
        for name, values in columns.items()
        if name == key or values.count(values[0]) < len(values)
    }
    return differing, {name: values[0] for name, values in columns.items() if name not in differing}


def statement_params(
    dialect: Dialect, table: Table, differing: Mapping[str, Sequence[Any]], shared: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the parameters for these columns, named `new_` followed by the column's name."""
    lists = {
        name: join_values(bind_values(dialect, table.c[name], values)) for name, values in differing.items()
    }
    return {f"new_{name}": value for name, value in {**shared, **lists}.items()}


@lru_cache(maxsize=64)  # the code uses about twenty sets of columns
def insert_statement(
    table: Table,
    differing: tuple[str, ...],
    shared: tuple[str, ...],
    key: tuple[str, ...],
    returning: tuple[str, ...],
) -> Any:
    """Build the INSERT of `insert_many`; cached by its columns, because building takes as long as sending."""
    new = array_columns(table, differing, shared)
    insert = postgresql.insert(table).from_select(list(new), select(*new.values()), include_defaults=False)
    if key:
        insert = insert.on_conflict_do_nothing(index_elements=key, index_where=unique_where(table, key))
    return insert.returning(*(table.c[name] for name in returning)) if returning else insert


@lru_cache(maxsize=64)  # the code uses about twenty sets of columns
def update_statement(table: Table, differing: tuple[str, ...], shared: tuple[str, ...]) -> Update:
    """Build the UPDATE of `update_many`, cached by its columns."""
    new = array_columns(table, differing, shared)
    number = new.pop("id")
    return update(table).where(table.c.id == number, hint_few_rows(number)).values(new)


def array_columns(
    table: Table, differing: Iterable[str], shared: Iterable[str]
) -> dict[str, ColumnElement[Any]]:
    """Return {column name: SQL}: an unnested array for a column whose values differ, else a parameter."""
    unnested = func.unnest(*(split_to_array(table.c[name]) for name in differing)).table_valued(
        *differing, name="new"
    )
    new = unnested.render_derived(name="new")
    common = {name: bindparam(f"new_{name}", type_=table.c[name].type) for name in shared}
    return {**common, **{name: new.c[name] for name in differing}}


def load_rows(connection: Connection, table: Table, rows: Sequence[Mapping[str, Any]]) -> None:
    """Insert new rows with COPY, which takes half as long as INSERT."""
    names = ", ".join(f'"{name}"' for name in rows[0])
    lists = [
        list(map(json_list, values)) if isinstance(column.type, JSON) else values
        for column, values in values_by_column(table, rows)
    ]
    cursor: Any = connection.connection.cursor()
    with cursor, cursor.copy(f'COPY "{table.name}" ({names}) FROM STDIN') as stream:
        for values in zip(*lists, strict=True):
            stream.write_row(values)


def insert_lists(
    connection: Connection,
    table: Table,
    names: tuple[str, str, str],
    rows: Sequence[tuple[int, int, Sequence[int]]],
    shared: Mapping[str, Any],
) -> None:
    """Insert a row (a, b, number) for every number of each tuple (a, b, numbers), in one statement."""
    keys, others, lists = zip(*rows, strict=True)
    given = {
        "keys": array_literal(keys),
        "others": array_literal(others),
        "lists": ";".join(map(array_literal, lists)),
    }
    connection.execute(insert_lists_statement(table, names, tuple(shared)), {**given, **shared})


@lru_cache(maxsize=8)  # one entry for each calling function
def insert_lists_statement(table: Table, names: tuple[str, str, str], shared: tuple[str, ...]) -> Any:
    """Build the statement of `insert_lists`."""
    common = [bindparam(name, type_=table.c[name].type) for name in shared]
    listed = (
        text(
            "SELECT new.key, new.other, unnest(CAST(new.list AS bigint[])) AS each FROM unnest("
            "CAST(:keys AS bigint[]), CAST(:others AS bigint[]), string_to_array(:lists, ';')"
            ") AS new (key, other, list)"
        )
        .columns(key=BigInteger, other=BigInteger, each=BigInteger)
        .subquery("listed")
    )
    values = select(listed.c.key, listed.c.other, listed.c.each, *common)
    return postgresql.insert(table).from_select([*names, *shared], values, include_defaults=False)


def reserve_keys(connection: Connection, table: Table, count: int) -> Sequence[int]:
    """Return new keys from the table's sequence, in ascending order."""
    return connection.execute(NEXT_IDS, {"table": table.name, "many": count}).scalars().all()


NEXT_IDS = text(
    "SELECT nextval(counter) FROM generate_series(1, :many),"
    " (SELECT CAST(pg_get_serial_sequence(:table, 'id') AS regclass) AS counter OFFSET 0) AS sequence"
)


def advance_sequences(connection: Connection, tables: Iterable[Table]) -> None:
    """Set the sequences to continue after the highest ids."""
    for table in tables:
        for column in table.primary_key:
            sequence = connection.scalar(select(func.pg_get_serial_sequence(table.name, column.name)))
            if sequence:
                highest = select(func.coalesce(func.max(column), 0) + 1).scalar_subquery()
                connection.execute(select(func.setval(sequence, highest, literal_column("false"))))


def skip_keys(connection: Connection, table: Table, count: int) -> None:
    """Skip the next `count` ids of a table that never reuses an id."""
    sequence = connection.scalar(select(func.pg_get_serial_sequence(table.name, "id")))
    connection.execute(select(func.setval(sequence, func.nextval(sequence) + count)))


# ── copies of a whole database ──────────────────────────────────────────────────────────────────


def begin_snapshot(connection: Connection) -> None:
    """Make all reads of this transaction see the state at its first read; call this before the first read."""
    connection.exec_driver_sql("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")


def truncate_log(engine: Engine) -> bool:
    """Do nothing, because the server reuses its log and autovacuum frees the space of deleted rows."""
    del engine
    return True


def defer_foreign_keys(connection: Connection) -> None:
    """Do nothing: each table is copied after the tables it refers to, so no foreign key is violated."""


# ── conditions ──────────────────────────────────────────────────────────────────────────────────


def rows_by_key(
    table: Table, key: Column[int], keys: BindParameter[Any], condition: ColumnElement[bool]
) -> Subquery:
    """Return a subquery for the rows with these keys that meet the condition, looked up key by key.

    With one condition for all keys, PostgreSQL scans the whole table as long as its statistics describe the
    table as empty. A lateral join uses the index on the key regardless of statistics.
    """
    one = (
        func.unnest(sql_cast(keys, postgresql.ARRAY(BigInteger)))
        .table_valued("key", name="one")
        .render_derived()
    )
    own_rows = select(table).where(key == one.c.key, condition)
    each = own_rows.offset(literal_column("0")).lateral("each")
    return select(each).select_from(one.join(each, true())).subquery("found")


def row_version_sql(table: str, columns: Sequence[str]) -> str:
    """Return the SQL for the number of the transaction that last wrote a row."""
    del columns
    return f"CAST({table}.xmin AS text)"


@compiles(OneOf, "postgresql")
def one_of_in_array(element: OneOf, compiler: SQLCompiler, **details: Any) -> str:
    """Compile the condition as a comparison with an array, or with a subquery of its values."""
    column, values = (compiler.process(part, **details) for part in (element.column, element.values))
    array = f"CAST({values} AS {'BIGINT' if element.holds_numbers else 'TEXT'}[])"
    return f"{column} IN (SELECT unnest({array}))" if element.are_rows else f"{column} = ANY ({array})"
