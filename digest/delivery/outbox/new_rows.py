"""Send the values of many rows as one parameter, because the driver takes microseconds for each parameter."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

import msgspec

from digest import db


def json_rows(rows: Sequence[Any]) -> str:
    """Return rows as the value of the parameter `new`."""
    return msgspec.json.encode(rows).decode()


@lru_cache(maxsize=64)  # the attempts of a window begin at the same time
def moment_text(moment: datetime) -> str:
    """Return a datetime in the form that both databases read and SQLite stores."""
    return f"{moment.astimezone(UTC):%Y-%m-%d %H:%M:%S.%f}"


def new_rows(dialect: str, columns: Mapping[str, str]) -> str:
    """Return the SQL that reads the JSON list `:new` as a table; each column has its PostgreSQL type.

    The condition on the range of ids makes PostgreSQL expect few rows, as `db.hint_few_rows` does.
    """
    if dialect == "postgresql":
        typed = ", ".join(f"{name} {kind}" for name, kind in columns.items())
        rows = f"json_to_recordset(CAST(:new AS json)) AS each ({typed})"
        return f"(SELECT * FROM {rows} WHERE id BETWEEN -{db.LAST_KEY} AND {db.LAST_KEY}) AS new"  # noqa: S608 - constants only
    values = ", ".join(f"value ->> '{name}' AS {name}" for name in columns)
    return f"(SELECT {values} FROM json_each(:new)) AS new"  # noqa: S608 - constants only
