"""Choose between the two dialects, `postgresql` and `sqlite`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import datetime
from typing import TYPE_CHECKING, Any, Protocol

from sqlalchemy import URL, BindParameter, Column, ColumnElement, Connection, Engine, Row, Subquery, Table
from sqlalchemy.orm import Session

if TYPE_CHECKING:
    from sqlalchemy.dialects.sqlite import Insert


class DatabaseDialect(Protocol):
    """The functions that both databases implement differently, in the modules `postgresql` and `sqlite`."""

    def __hash__(self) -> int: ...
    def make_engine(self, url: URL) -> Engine: ...
    def common_clock(
        self, session: Session, local_clock: Callable[[], datetime]
    ) -> Callable[[], datetime]: ...
    def commit_asynchronously(self, session: Session) -> None: ...
    def prefer_index_order(self, session: Session) -> AbstractContextManager[None]: ...
    def lock(self, session: Session, number: int) -> None: ...
    def lock_shared(self, session: Session, number: int) -> None: ...
    def pipelined(self, session: Session) -> AbstractContextManager[None]: ...
    def insert(self, table: Table) -> Insert: ...
    def insert_many(
        self,
        connection: Connection,
        table: Table,
        rows: Sequence[Mapping[str, Any]],
        shared: Mapping[str, Any],
        *,
        key: Sequence[str],
        returning: Sequence[str],
    ) -> Sequence[Row[Any]]: ...
    def insert_lists(
        self,
        connection: Connection,
        table: Table,
        names: tuple[str, str, str],
        rows: Sequence[tuple[int, int, Sequence[int]]],
        shared: Mapping[str, Any],
    ) -> None: ...
    def load_rows(self, connection: Connection, table: Table, rows: Sequence[Mapping[str, Any]]) -> None: ...
    def update_many(
        self, connection: Connection, table: Table, rows: Sequence[Mapping[str, Any]]
    ) -> None: ...
    def reserve_keys(self, connection: Connection, table: Table, count: int) -> Sequence[int]: ...
    def advance_sequences(self, connection: Connection, tables: Iterable[Table]) -> None: ...
    def skip_keys(self, connection: Connection, table: Table, count: int) -> None: ...
    def truncate_log(self, engine: Engine) -> bool: ...
    def begin_snapshot(self, connection: Connection) -> None: ...
    def defer_foreign_keys(self, connection: Connection) -> None: ...
    def row_version_sql(self, table: str, columns: Sequence[str]) -> str: ...
    def rows_by_key(
        self, table: Table, key: Column[int], keys: BindParameter[Any], condition: ColumnElement[bool]
    ) -> Subquery: ...


def dialect_named(name: str) -> DatabaseDialect:
    """Return the dialect of this name; the other dialect is not imported, so that commands start faster."""
    if name == "postgresql":
        from digest.db import postgresql

        return postgresql
    from digest.db import sqlite

    return sqlite


def dialect_name(session: Session) -> str:
    """Return "postgresql" or "sqlite" without beginning a transaction."""
    return session.get_bind().dialect.name


def dialect_of(session: Session) -> DatabaseDialect:
    """Return the dialect of the session's database without beginning a transaction."""
    return dialect_named(dialect_name(session))
