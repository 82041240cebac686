"""The migrations create the tables that the models define, and every promised unique key works.

Unique keys ensure that nothing happens twice. `PROMISES` lists each key with its promise. A missing key fails
two tests: one for its name, and one that inserts a second row.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, time, timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import (
    Column,
    Connection,
    Engine,
    Table,
    UniqueConstraint,
    event,
    func,
    insert,
    inspect,
    select,
)
from sqlalchemy.exc import IntegrityError

from digest import db
from digest.db.tables.deliveries import Delivery
from tests.conftest import NOW, connected

pytestmark = pytest.mark.postgresql

TABLES = Delivery.metadata.tables


@dataclass(frozen=True, kw_only=True)
class Promise:
    """A promise that something never happens twice, and the key that ensures it."""

    table: str
    columns: tuple[str, ...]
    says: str

    def __str__(self) -> str:
        return f"{self.table}({', '.join(self.columns)})"


def promise(table: str, *columns: str, says: str) -> Promise:
    return Promise(table=table, columns=columns, says=says)


PROMISES = [
    promise("alias", "scheme", "value", says="an id of the world belongs to one paper"),
    promise("appearance", "dump_id", "paper_id", says="a paper stands in a dump once"),
    promise("change", "paper_id", "kind", says="what becomes of a paper is noted once"),
    promise("delivery", "dedupe_key", says="a letter that is not a digest is written once"),
    promise("delivery", "subscriber_id", "edition", says="an edition reaches a subscriber once"),
    promise("dump", "sha256", says="the same dump is loaded once"),
    promise("example", "reference", says="the words of an example are stored once"),
    promise("filter", "fingerprint", says="two spellings of a filter are one filter"),
    promise("fingerprint", "name", says="a database knows one set of keys"),
    promise("unread_dump", "machine", "folder", "name", says="an unread file is reported once"),
    promise("heartbeat", "role", "host", "pid", says="a process has one last sign of life"),
    promise("host", "name", says="a server has one moment from which it may be asked"),
    promise("resolved_filter", "filter_id", says="a filter stands for one thing at a time"),
    promise("observation", "name", says="what was noticed is noted once"),
    promise("canary", "edition", says="the rest of an edition waits for its canary once"),
    promise("conversation", "domain", "number", says="a conversation with a domain has one worker"),
    promise("domain_pause", "scope", says="a domain or server has one pause"),
    promise("emergency_stop", "scope", says="digests, or all mail, are stopped once at a time"),
    promise("rate_counter", "scope", "seconds", "part", says="a part of a rate is counted in one place"),
    promise(
        "daily_count",
        "what",
        "who",
        "day",
        says="the letters that one stranger causes are counted in one place",
    ),
    promise("warm_up_day", "since", "day", says="a day of a warm-up is counted in one place"),
    promise("pack", "name", "version", says="a version of a pack is published once"),
    promise("press", "name", says="a press is named by its content"),
    promise("shown", "subscriber_id", "paper_id", says="a paper is shown to a subscriber once"),
    promise("sign_up", "email_key", "network", says="a network asks for an address once at a time"),
    promise("signal", "paper_id", "source", "name", "observed_at", says="a figure is observed once a moment"),
    promise("source", "name", says="a source is polled under one name"),
    promise("subscriber", "email_key", says="one person is one subscriber"),
    promise("subscription", "subscriber_id", "name", says="a subscriber has one topic of a name"),
    promise("suppression", "hmac", says="an address is suppressed once"),
    promise("saved_paper", "subscriber_id", "paper_id", says="a paper is in a reader's list once"),
    promise("abstract_shingle", "hash", "paper_id", says="a part of an abstract is noted once"),
    promise("earlier_version", "paper_id", "earlier_id", says="two papers are linked as versions once"),
    promise("followup_sent", "subscriber_id", "paper_id", "kind", says="what became of a paper is told once"),
]


# ── migrations and models ───────────────────────────────────────────────────────────────────────


def test_migrations_build_exactly_what_the_models_say_on_sqlite(
    migrated_sqlite: Path, tmp_path: Path
) -> None:
    with (
        connected(f"sqlite:///{migrated_sqlite}") as migrated,
        connected(f"sqlite:///{tmp_path}/m") as modelled,
    ):
        Delivery.metadata.create_all(modelled)

        assert described(migrated) == described(modelled)
        assert sqlite_options(migrated) == sqlite_options(modelled)


def test_migrations_build_exactly_what_the_models_say_on_postgresql(
    postgres_engine: Engine, empty_postgres_url: str
) -> None:
    with connected(empty_postgres_url) as modelled:
        Delivery.metadata.create_all(modelled)

        assert described(postgres_engine) == described(modelled)


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_an_upgrade_that_breaks_off_leaves_nothing_half_way(
    kind: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    postgres = kind == "postgresql"
    url = (
        request.getfixturevalue("empty_postgres_url") if postgres else f"sqlite:///{tmp_path / 'new.sqlite3'}"
    )
    with connected(url) as engine:

        def break_off(_connection: Any, _cursor: Any, statement: str, *_details: Any) -> None:
            if "CREATE INDEX ix_delivery_open" in statement:
                raise OSError("the plug was pulled")

        event.listen(engine, "before_cursor_execute", break_off)
        with pytest.raises(OSError, match="plug"):
            db.upgrade(engine)
        event.remove(engine, "before_cursor_execute", break_off)

        assert db.revision(engine) is None
        assert inspect(engine).get_table_names() == []
        db.upgrade(engine)
        assert db.revision(engine) == db.newest_revision()


def test_upgrading_twice_changes_nothing(engine: Engine) -> None:
    before = described(engine)

    db.upgrade(engine)

    assert described(engine) == before
    assert db.revision(engine) == db.newest_revision()


def described(engine: Engine) -> dict[str, Any]:
    """Return everything that the database reports about our tables."""
    inspector = inspect(engine)
    return {
        name: {
            "columns": {
                column["name"]: (str(column["type"]), column["nullable"], column["default"])
                for column in inspector.get_columns(name)
            },
            "primary key": inspector.get_pk_constraint(name),
            "unique": in_order(inspector.get_unique_constraints(name)),
            "checks": in_order(inspector.get_check_constraints(name)),
            "foreign keys": in_order(inspector.get_foreign_keys(name)),
            "indexes": in_order(inspector.get_indexes(name)),
        }
        for name in sorted(inspector.get_table_names())
        if name != "alembic_version"
    }


def in_order(found: list[Any]) -> list[str]:
    return sorted(repr(plain(one)) for one in found)


def plain(value: Any) -> Any:
    """Return a value that compares by content, since a reflected SQL fragment is a new object every time."""
    if isinstance(value, dict):
        return sorted((key, plain(inner)) for key, inner in value.items())
    return value if isinstance(value, list | tuple) else str(value)


def sqlite_options(engine: Engine) -> dict[str, tuple[bool, bool]]:
    """Return for each table whether its ids are never reused, and whether it has no rowids."""
    with engine.connect() as connection:
        rows = connection.exec_driver_sql("SELECT name, sql FROM sqlite_master WHERE type = 'table'").all()
    return {
        name: ("AUTOINCREMENT" in sql.upper(), "WITHOUT ROWID" in sql.upper())
        for name, sql in rows
        if name in TABLES
    }


# ── promises ────────────────────────────────────────────────────────────────────────────────────


def test_every_key_of_the_schema_keeps_a_promise_we_can_name() -> None:
    keys = {(table.name, columns) for table in TABLES.values() for columns in natural_keys(table)}

    assert keys == {(promise.table, promise.columns) for promise in PROMISES}


def natural_keys(table: Table) -> Iterator[tuple[str, ...]]:
    """Yield the columns of every key except generated ids."""
    names = tuple(column.name for column in table.primary_key)
    if names != ("id",):
        yield names
    for constraint in table.constraints:
        if isinstance(constraint, UniqueConstraint):
            yield tuple(column.name for column in constraint.columns)
    for index in table.indexes:
        if index.unique:
            yield tuple(column.name for column in index.columns)


@pytest.mark.parametrize("promise", PROMISES, ids=str)
def test_the_database_refuses_duplicates(engine: Engine, promise: Promise) -> None:
    with engine.begin() as connection:
        first, second = twice(connection, promise)
        connection.execute(insert(TABLES[promise.table]).values(first))

        with pytest.raises(IntegrityError):
            connection.execute(insert(TABLES[promise.table]).values(second))


@pytest.mark.parametrize("promise", PROMISES, ids=str)
def test_without_the_key_the_second_row_is_accepted(postgres_engine: Engine, promise: Promise) -> None:
    """Without this the test above could pass for another reason, such as a missing parent row."""
    with postgres_engine.connect() as connection:  # rolls back
        connection.exec_driver_sql(dropping(promise))
        first, second = twice(connection, promise)
        connection.execute(insert(TABLES[promise.table]).values(first))
        connection.execute(insert(TABLES[promise.table]).values(second))

        assert connection.scalar(select(func.count()).select_from(TABLES[promise.table])) == 2


def dropping(promise: Promise) -> str:
    """Return the statement that drops a promise's key."""
    table = TABLES[promise.table]
    for index in table.indexes:
        if index.unique and tuple(index.columns.keys()) == promise.columns:
            return f"DROP INDEX {index.name}"
    is_primary = tuple(column.name for column in table.primary_key) == promise.columns
    name = f"pk_{table.name}" if is_primary else f"uq_{table.name}_{'_'.join(promise.columns)}"
    return f'ALTER TABLE "{table.name}" DROP CONSTRAINT {name} CASCADE'


# ── rows that fit ───────────────────────────────────────────────────────────────────────────────

numbers = itertools.count(1)


def twice(connection: Connection, promise: Promise) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return two rows with the same key of the promise and different other values."""
    table = TABLES[promise.table]
    first = fitting_row(connection, table, *promise.columns)
    second = fitting_row(connection, table)
    return first, second | {name: first[name] for name in promise.columns}


def fitting_row(connection: Connection, table: Table, *also: str) -> dict[str, Any]:
    """Return values that the table accepts: for the required columns and the named columns."""
    if table.name == "delivery":
        also = (*also, "edition")
    return {
        column.name: fitting_value(connection, column)
        for column in table.columns
        if column.name in also or not (column.nullable or is_counted(column))
    }


def is_counted(column: Column[Any]) -> bool:
    return column.primary_key and column.name == "id"


def fitting_value(connection: Connection, column: Column[Any]) -> Any:  # noqa: PLR0911, PLR0912  (one return for each type)
    """Return a unique value of the column's type; create the parent row to which it refers."""
    for key in column.foreign_keys:
        parent = key.column.table
        added = connection.execute(insert(parent).values(fitting_row(connection, parent)))
        assert added.inserted_primary_key
        return added.inserted_primary_key[0]
    number = next(numbers)
    if isinstance(column.type, db.UtcDateTime):
        return NOW + timedelta(seconds=number)
    match column.type.python_type:
        case kind if kind is str:
            return f"{number}{column.name}"[: getattr(column.type, "length", None)]
        case kind if kind is date:
            return date(2026, 1, 1) + timedelta(days=number)
        case kind if kind is time:
            return time(8, number % 60)
        case kind if kind is bytes:
            return str(number).encode()
        case kind if kind is bool:
            return False
        case kind if kind in (int, float):
            return number
        case _:
            return []
