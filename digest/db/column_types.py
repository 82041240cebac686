"""Define the base class of all tables and their column types."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

from sqlalchemy import BigInteger, Connection, Dialect, Index, Integer, MetaData, Table, event, text
from sqlalchemy.orm import DeclarativeBase
from sqlalchemy.types import DateTime, TypeDecorator

#: The type of an integer key, which has 64 bits on PostgreSQL and is the rowid on SQLite.
BigKey = BigInteger().with_variant(Integer, "sqlite")


class Base(DeclarativeBase):
    """The base class of all tables; constraint names are fixed, so that migrations can refer to them."""

    metadata = MetaData(
        naming_convention={
            "ix": "ix_%(table_name)s_%(column_0_N_name)s",
            "uq": "uq_%(table_name)s_%(column_0_N_name)s",
            "ck": "ck_%(table_name)s_%(constraint_name)s",
            "fk": "fk_%(table_name)s_%(column_0_name)s_%(referred_table_name)s",
            "pk": "pk_%(table_name)s",
        }
    )


def partial_index(name: str, *columns: str, where: str, unique: bool = False) -> Index:
    """Return an index of only the rows that fulfil the condition `where`."""
    condition = text(where)
    options = {"where": condition}
    return Index(
        name, *columns, unique=unique, info={"where": condition, "postgresql": options, "sqlite": options}
    )


@event.listens_for(Base.metadata, "before_create")
def add_dialect_options(metadata: MetaData, connection: Connection, **_arguments: object) -> None:
    """Apply the options that each table and index stores in its `info` for this database.

    If a table's definition named the option of a dialect, SQLAlchemy would import that dialect. The import
    takes 10% of the time of a short command, which uses one dialect and creates no tables.
    """
    dialect = connection.dialect.name
    tables = metadata.tables.values()
    parts: list[Table | Index] = [*tables, *(index for table in tables for index in table.indexes)]
    for part in parts:
        if options := part.info.get(dialect):
            part.dialect_options[dialect].update(options)


class UtcDateTime(TypeDecorator[datetime]):
    """A timezone-aware datetime, stored in UTC on both databases; naive values are rejected."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        """Return the datetime in UTC; raise ValueError for a naive datetime."""
        if value is None:
            return None
        if value.tzinfo is None:
            raise ValueError(f"a stored datetime needs an offset; {value!r} has none")
        return value.astimezone(UTC)

    def result_processor(self, dialect: Dialect, coltype: object) -> Any:
        """Return the function that converts a value read from the database."""
        del dialect, coltype
        return read_moment


def read_moment(value: datetime | str | None) -> datetime | None:
    """Return a datetime in UTC, from PostgreSQL's aware datetime or SQLite's text."""
    if isinstance(value, str):
        return parse_moment(value)
    return None if value is None else value.astimezone(UTC)


@lru_cache(maxsize=8192)  # several times the number of timestamps in a chunk of 1,000 readers
def parse_moment(text: str) -> datetime:
    """Return the datetime that SQLite stores as `text`; cached, since many rows share a value."""
    return datetime.fromisoformat(text).replace(tzinfo=UTC)
