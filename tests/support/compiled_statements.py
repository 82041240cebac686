"""Compile each SQL statement once per test process: otherwise the engine of each test compiles all of them again."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Engine
from sqlalchemy.dialects.postgresql.psycopg import PGDialect_psycopg
from sqlalchemy.dialects.sqlite.pysqlite import SQLiteDialect_pysqlite
from sqlalchemy.util import LRUCache

STATEMENTS: LRUCache[Any, Any] = LRUCache(5000)
make_engine = Engine.__init__


def compile_each_once() -> None:
    """Make all engines share one cache, whose keys take two dialects of one class for the same."""
    for dialect in (PGDialect_psycopg, SQLiteDialect_pysqlite):
        dialect.__eq__ = is_same_class  # type: ignore[method-assign]
        dialect.__hash__ = hash_of_class  # type: ignore[method-assign, assignment]
    Engine.__init__ = share_statements  # type: ignore[method-assign, assignment]


def share_statements(engine: Engine, *arguments: Any, **options: Any) -> None:
    make_engine(engine, *arguments, **options)
    engine._compiled_cache = STATEMENTS


def is_same_class(dialect: object, other: object) -> bool:
    return type(dialect) is type(other)


def hash_of_class(dialect: object) -> int:
    return hash(type(dialect))
