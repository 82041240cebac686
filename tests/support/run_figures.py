"""Print at the end of a run how long it took, its processor time, and its slowest tests.

The processor time is that of all processes, PostgreSQL and Redis included: each was started, and waited for, by a
process of this run.
"""

from __future__ import annotations

import resource
import time
from collections import defaultdict

import pytest

STARTED = time.perf_counter()
SLOWEST = 10  #: tests that are listed


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    seconds: dict[str, float] = defaultdict(float)
    for report in (report for reports in terminalreporter.stats.values() for report in reports):
        if isinstance(report, pytest.TestReport):
            seconds[report.nodeid] += report.duration
    used = [resource.getrusage(which) for which in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    processor = sum(each.ru_utime + each.ru_stime for each in used)
    terminalreporter.section(f"{len(seconds)} tests", sep="─")
    terminalreporter.line(
        f"{time.perf_counter() - STARTED:.0f} s, and {processor:.0f} s of processor time of all processes"
    )
    slowest = sorted(seconds, key=seconds.__getitem__, reverse=True)[:SLOWEST]
    for test in slowest if len(seconds) > 2 * SLOWEST else ():
        terminalreporter.line(f"{seconds[test]:6.1f} s  {test}")
