"""Measure how the cost of an action grows with its input: by the ratio of two sizes, on any machine."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from time import process_time

TIMES = 4  #: the larger size, in smaller ones
#: A cost in proportion grows to about four times, one with the square of the size to sixteen.
MAX_GROWTH = 9.0
RUNS = 3  #: of the larger size at most; the quickest counts, because only the machine makes the others slower
NOISE_SECONDS = 0.02  #: a cost that is too small to be compared


def assert_proportional(act: Callable[[int], object], size: int) -> None:
    """Check that an action on four times the size costs about four times as much."""
    short = min(processor_time(partial(act, size)) for _ in range(2))
    limit = MAX_GROWTH * short + NOISE_SECONDS
    longer = (processor_time(partial(act, TIMES * size)) for _ in range(RUNS))
    assert any(long < limit for long in longer), (
        f"{TIMES} times the size costs over {MAX_GROWTH:g} times as much"
    )


def processor_time(act: Callable[[], object]) -> float:
    """Return the seconds of processor time that an action takes."""
    began = process_time()
    act()
    return process_time() - began
