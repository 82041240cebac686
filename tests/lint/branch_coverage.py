"""Check that the tests take every branch of the pure modules.

It reads coverage's JSON report. `--fail-under` is not enough, because it counts lines and branches together:
a hundred lines that every test runs would hide a branch that no test takes.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from typing import Any

LEAST_PERCENT = 100.0


def branch_percent(report: dict[str, Any]) -> float:
    """Return the share of branches that were taken, in percent."""
    totals = report["totals"]
    return float(100 * totals["covered_branches"] / totals["num_branches"])


def untaken_branches(report: dict[str, Any]) -> Iterator[str]:
    """Yield every branch that was never taken, as `file:line -> line`."""
    for path, file in report["files"].items():
        for start, end in file["missing_branches"]:
            yield f"{path}:{start} -> {end if end > 0 else 'exit'}"


if __name__ == "__main__":
    report = json.load(sys.stdin)
    print(*untaken_branches(report), sep="\n")
    percent = branch_percent(report)
    print(f"Branches of the pure modules taken: {percent:.2f} % (at least {LEAST_PERCENT:g} %)")
    sys.exit(percent < LEAST_PERCENT)
