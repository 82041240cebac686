"""The modules for PostgreSQL and SQLite define the same names."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import pytest

from digest.db.dialects import DatabaseDialect, dialect_named

ROOT = Path(__file__).parents[2]
BRANCH = re.compile(r"dialect\.name|get_backend_name|drivername")
VERBS = [name for name in vars(DatabaseDialect) if not name.startswith("_")]


@pytest.mark.parametrize("name", VERBS)
def test_both_databases_take_the_same_parameters(name: str) -> None:
    dialects = (dialect_named(one) for one in ("postgresql", "sqlite"))
    first, second = (inspect.signature(getattr(dialect, name)).parameters for dialect in dialects)

    assert list(first) == list(second)


def test_no_other_package_branches_on_the_dialect() -> None:
    sources = [path for part in ("digest", "workers") for path in (ROOT / part).rglob("*.py")]
    found = [
        str(path.relative_to(ROOT))
        for path in sources
        if BRANCH.search(path.read_text()) and path.parent != ROOT / "digest" / "db"
    ]

    assert len(sources) > 100
    assert found == []
