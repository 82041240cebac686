"""The project's own checks find what they are for, and nothing else."""

from __future__ import annotations

from tests.lint import clock_calls, size


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
