"""The database as everything above sees it.

engines      a URL, and connections that are kept alive          columns     column types, and what rows stand on
sessions     to read, or to write and commit                     conditions  "one of many", one parameter for all
many_rows    hundreds of rows in one go                          spelling    many values as one text
pipelines    PostgreSQL works while we go on                     schema      migrations
clocks       one for all who work on it
"""

from sqlalchemy.orm import Session

from digest.db.clocks import common_clock
from digest.db.columns import Base, BigKey, UtcDateTime, stored
from digest.db.conditions import LAST_KEY, Unindexed, among, looked_up, many, one_by_one
from digest.db.engines import connect, normalised
from digest.db.many_rows import NOTHING, change_many, numbers, put_many, upsert
from digest.db.pipelines import ahead, driver
from digest.db.schema import ensure, newest_revision, revision, upgrade
from digest.db.sessions import answering, commit_unhurried, in_order, reading, writing
from digest.db.spelling import NONE, UNIT, array, braced, spelled

__all__ = [
    "LAST_KEY",
    "NONE",
    "NOTHING",
    "UNIT",
    "Base",
    "BigKey",
    "Session",
    "Unindexed",
    "UtcDateTime",
    "ahead",
    "among",
    "answering",
    "array",
    "braced",
    "change_many",
    "commit_unhurried",
    "common_clock",
    "connect",
    "driver",
    "ensure",
    "in_order",
    "looked_up",
    "many",
    "newest_revision",
    "normalised",
    "numbers",
    "one_by_one",
    "put_many",
    "reading",
    "revision",
    "spelled",
    "stored",
    "upgrade",
    "upsert",
    "writing",
]
