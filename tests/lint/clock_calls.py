"""Check that no test looks at the clock: `python -m tests.lint.clock_calls`.

A test that fails when a machine is slow is wrong. `tests.support.waiting` waits, `tests.support.growth` compares two
sizes; benchmarks, chaos and the judge measure or use time by their nature.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

from tests.lint.sentences import named, tracked

ALLOWED = ("tests/bench/", "tests/chaos/", "tests/judge/", "tests/support/")
CLOCKS = frozenset(
    {
        "time.time", "time.time_ns", "time.monotonic", "time.monotonic_ns", "time.perf_counter", "time.perf_counter_ns",
        "time.process_time", "time.process_time_ns", "time.thread_time", "time.sleep", "asyncio.sleep", "asyncio.timeout",
        "asyncio.wait_for", "datetime.datetime.now", "datetime.datetime.utcnow", "datetime.datetime.today", "datetime.date.today",
    }
)  # fmt: skip


def main() -> int:
    """Print every call of a clock; return 1 if there is any."""
    found = [line for path in tracked("tests") for line in clock_calls_of(path)]
    print(*found, f"Tests: {len(found) or 'no'} calls of a clock.", sep="\n")
    return 1 if found else 0


def clock_calls_of(path: Path) -> Iterator[str]:
    """Yield the clocks that a test file names."""
    if path.suffix == ".py" and not named(path).startswith(ALLOWED):
        for line, clock in clocks_in(path.read_text()):
            yield f"{named(path)}:{line}: {clock}; use tests.support.waiting or tests.support.growth"


def clocks_in(source: str) -> Iterator[tuple[int, str]]:
    """Yield (line, name) of every clock that a module names, however it is imported."""
    tree = ast.parse(source)
    imported = {
        alias.asname or alias.name: f"{node.module}.{alias.name}"
        if isinstance(node, ast.ImportFrom)
        else alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for alias in node.names
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute | ast.Name):
            first, dot, rest = ast.unparse(node).partition(".")
            clock = imported.get(first, "") + dot + rest
            if clock in CLOCKS:
                yield node.lineno, clock


if __name__ == "__main__":
    sys.exit(main())
