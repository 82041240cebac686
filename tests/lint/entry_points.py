"""Check that entry points neither query nor commit: `python -m tests.lint.entry_points`.

An entry point opens a session, which is committed when its block ends, and passes it to the functions of a
package, which query and write. The import contract keeps SQLAlchemy out of entry points; this check finds their calls on a
session.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

from tests.lint.sentences import named, tracked

ENTRY_POINTS = ("digest/cli/", "digest/web/", "workers/", "digest/inbound/server.py", "digest/__main__.py")
FORBIDDEN = frozenset(
    {
        "add", "add_all", "begin", "commit", "connection", "delete", "exec_driver_sql", "execute", "flush", "get",
        "get_one", "merge", "query", "refresh", "rollback", "scalar", "scalars",
    }
)  # fmt: skip
SESSIONS = ("session", "connection")  #: names that end so are sessions and connections


def main() -> int:
    """Print every query and commit; return 1 if there is any."""
    found = [line for path in tracked(*ENTRY_POINTS) for line in calls_on_sessions(path)]
    for line in found:
        print(line)
    print(f"Entry points: {len(found) or 'no'} quer{'y' if len(found) == 1 else 'ies'} or commits.")
    return 1 if found else 0


def calls_on_sessions(path: Path) -> Iterator[str]:
    """Yield the calls of a session's methods in a file."""
    if path.suffix != ".py":
        return
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Attribute) and node.attr in FORBIDDEN and is_session(node.value):
            yield f"{named(path)}:{node.lineno}: .{node.attr} on a session; call the package that owns the rows"


def is_session(value: ast.expr) -> bool:
    """Return whether an expression is a session or a database connection, by its name."""
    name = value.id if isinstance(value, ast.Name) else value.attr if isinstance(value, ast.Attribute) else ""
    return name.endswith(SESSIONS)


if __name__ == "__main__":
    sys.exit(main())
