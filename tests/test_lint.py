"""The project's own checks find what they are for, and nothing else."""

from __future__ import annotations

import ast
import re

from tests.conftest import ROOT
from tests.lint import clock_calls, size, units_of_work
from tests.mutants import faults


def test_size_counts_neither_blanks_nor_comments_nor_docstrings() -> None:
    source = '"""A module."""\n\n# why\nx = 1  # one\n\n\nclass A:\n    """A class.\n\n    Two.\n    """\n\n    y = """\n\n    # kept\n    """\n'
    assert size.size_of(source) == size.CodeSize(code_lines=4, statements=5, modules=1)


def test_a_test_that_looks_at_the_clock_is_found_however_it_imports_it() -> None:
    source = (
        "import time, asyncio\nfrom time import monotonic as tick\nfrom datetime import datetime\n"
        "time.sleep(1)\ntick()\ndatetime.now()\nawait_ = asyncio.sleep\nclock.sleep(1)\ndatetime(2026, 1, 1)\n"
    )

    assert sorted(clock_calls.clocks_in(source)) == [
        (4, "time.sleep"), (5, "time.monotonic"), (6, "datetime.datetime.now"), (7, "asyncio.sleep"),
    ]  # fmt: skip


def test_a_use_case_that_commits_is_found_unless_its_name_says_that_it_works_in_batches() -> None:
    source = "def leave(session):\n    session.commit()\n\n\ndef leave_in_batches(state):\n    state.session.commit()\n"

    assert list(units_of_work.commits_in(source)) == [2]


def test_every_promise_of_the_readme_is_in_the_table_with_tests_that_exist() -> None:
    table = (ROOT / "tests" / "README.md").read_text()
    promised = re.findall(
        r"(?m)^\* (\*\*.+?\.\*\*)", (ROOT / "README.md").read_text().partition("## What it promises")[2]
    )
    named = re.findall(r"`([\w/]+\.py)::(\w+)`", table)

    assert len(promised) == 5
    assert [promise for promise in promised if promise not in table] == []
    assert [
        (file, test)
        for file, test in named
        if not re.search(rf"\b{test}\b", (ROOT / "tests" / file).read_text())
    ] == []


def test_a_fault_changes_one_line_which_still_compiles() -> None:
    source = (
        "def is_due(now, until):\n    log.info(now)\n    if until is None or not now:\n        return False\n"
        "    send(now)\n    return now < until + 1\n"
    )

    found = {(fault.function, fault.before): fault.after for fault in faults.faults_in(source, "schedule")}
    written = {fault.after for fault in faults.faults_in(source, "schedule")}

    assert {function for function, _ in found} == {"is_due"}
    assert written == {
        "if until is not None or not now:", "if until is None and not now:", "if until is None or now:", "return True", "pass",
        "return now <= until + 1", "return now < until - 1", "return now < until + 2",
    }  # fmt: skip
    for before, after in ((before, after) for (_, before), after in found.items()):
        ast.parse(source.replace(before, after))
