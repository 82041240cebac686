"""Connect to the database, and define sessions, bulk statements and conditions for both databases.

engine       engines from a URL             conditions      conditions that differ between the databases
sessions     read and write sessions        array_literals  many values as one string
bulk_rows    hundreds of rows at once       column_types    column types, the base of all tables
migrate      the schema                     dialects        the differences: `postgresql` and `sqlite`
"""

from sqlalchemy import Engine
from sqlalchemy.exc import DBAPIError, SQLAlchemyError
from sqlalchemy.orm import Session

from digest.db.array_literals import NULL_MARK, UNIT, array_literal, join_values, split_to_array
from digest.db.bulk_rows import (
    advance_sequences,
    insert_lists,
    insert_many,
    load_rows,
    reserve_keys,
    update_many,
    upsert,
)
from digest.db.column_types import NO_VALUES, Base, BigKey, UtcDateTime, bind_values, partial_index
from digest.db.conditions import (
    LAST_KEY,
    Unindexed,
    hint_few_rows,
    one_of,
    one_of_few,
    unique_where,
    values_param,
)
from digest.db.dialects import DatabaseDialect, dialect_name, dialect_named, dialect_of
from digest.db.engine import database_file, make_engine, open_read_only, parsed_url, truncate_log, with_driver
from digest.db.migrate import ensure_schema, newest_revision, revision, upgrade
from digest.db.sessions import (
    commit_asynchronously,
    common_clock,
    lock,
    lock_shared,
    pipelined,
    prefer_index_order,
    read_session,
    report_unreachable,
    write_session,
)

__all__ = [
    "LAST_KEY",
    "NO_VALUES",
    "NULL_MARK",
    "UNIT",
    "Base",
    "BigKey",
    "DBAPIError",
    "DatabaseDialect",
    "Engine",
    "SQLAlchemyError",
    "Session",
    "Unindexed",
    "UtcDateTime",
    "advance_sequences",
    "array_literal",
    "bind_values",
    "commit_asynchronously",
    "common_clock",
    "database_file",
    "dialect_name",
    "dialect_named",
    "dialect_of",
    "ensure_schema",
    "hint_few_rows",
    "insert_lists",
    "insert_many",
    "join_values",
    "load_rows",
    "lock",
    "lock_shared",
    "make_engine",
    "newest_revision",
    "one_of",
    "one_of_few",
    "open_read_only",
    "parsed_url",
    "partial_index",
    "pipelined",
    "prefer_index_order",
    "read_session",
    "report_unreachable",
    "reserve_keys",
    "revision",
    "split_to_array",
    "truncate_log",
    "unique_where",
    "update_many",
    "upgrade",
    "upsert",
    "values_param",
    "with_driver",
    "write_session",
]
