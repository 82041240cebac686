"""Connect to the database, and define what all queries share.

engine        engines from a URL, connections kept alive      column_types    column types, the base of all tables
sessions      to read, or to write and commit                 conditions      "one of many" as one parameter
bulk_rows     hundreds of rows in one statement               array_literals  many values as one text
pipelining    PostgreSQL works while we continue              migrate         migrations
common_clock  one clock for all workers of a database
"""

from sqlalchemy.orm import Session

from digest.db.array_literals import NULL_MARK, UNIT, array_literal, join_values, split_to_array
from digest.db.bulk_rows import NO_VALUES, insert_many, reserve_keys, update_many, upsert
from digest.db.column_types import Base, BigKey, UtcDateTime, bind_values
from digest.db.common_clock import common_clock
from digest.db.conditions import LAST_KEY, Unindexed, hint_few_rows, one_of, one_of_few, values_param
from digest.db.engine import make_engine, parsed_url, with_driver
from digest.db.migrate import ensure_schema, newest_revision, revision, upgrade
from digest.db.pipelining import driver_connection, pipelined
from digest.db.sessions import (
    commit_asynchronously,
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
    "Session",
    "Unindexed",
    "UtcDateTime",
    "array_literal",
    "bind_values",
    "commit_asynchronously",
    "common_clock",
    "driver_connection",
    "ensure_schema",
    "hint_few_rows",
    "insert_many",
    "join_values",
    "make_engine",
    "newest_revision",
    "one_of",
    "one_of_few",
    "parsed_url",
    "pipelined",
    "prefer_index_order",
    "read_session",
    "report_unreachable",
    "reserve_keys",
    "revision",
    "split_to_array",
    "update_many",
    "upgrade",
    "upsert",
    "values_param",
    "with_driver",
    "write_session",
]
