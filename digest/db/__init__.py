"""Connect to the database, and define sessions, bulk statements and conditions for both databases.

engine       engines from a URL             conditions      conditions that differ between the databases
sessions     sessions and transactions      column_types    column types, the base of all tables
bulk_rows    hundreds of rows at once       database_copy   all rows into another database
migrate      the schema
"""

from sqlalchemy import Engine
from sqlalchemy.exc import DBAPIError, SQLAlchemyError
from sqlalchemy.orm import Session

from digest.db.bulk_rows import (
    NO_VALUES,
    advance_sequences,
    insert_many,
    load_rows,
    reserve_keys,
    skip_keys,
    update_many,
    upsert,
)
from digest.db.column_types import Base, BigKey, UtcDateTime, partial_index
from digest.db.conditions import (
    LAST_KEY,
    one_of,
    row_version_sql,
    rows_by_key,
    unique_where,
    values_param,
)
from digest.db.engine import database_file, make_engine, open_read_only, parsed_url, truncate_log
from digest.db.migrate import ensure_schema, newest_revision, revision, upgrade
from digest.db.sessions import (
    commit_asynchronously,
    common_clock,
    dialect_name,
    lock,
    lock_shared,
    prefer_index_order,
    read_session,
    report_unreachable,
    write_session,
)

__all__ = [
    "LAST_KEY",
    "NO_VALUES",
    "Base",
    "BigKey",
    "DBAPIError",
    "Engine",
    "SQLAlchemyError",
    "Session",
    "UtcDateTime",
    "advance_sequences",
    "commit_asynchronously",
    "common_clock",
    "database_file",
    "dialect_name",
    "ensure_schema",
    "insert_many",
    "load_rows",
    "lock",
    "lock_shared",
    "make_engine",
    "newest_revision",
    "one_of",
    "open_read_only",
    "parsed_url",
    "partial_index",
    "prefer_index_order",
    "read_session",
    "report_unreachable",
    "reserve_keys",
    "revision",
    "row_version_sql",
    "rows_by_key",
    "skip_keys",
    "truncate_log",
    "unique_where",
    "update_many",
    "upgrade",
    "upsert",
    "values_param",
    "write_session",
]
