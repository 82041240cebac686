"""Measure how the cost of an action grows with its input: by the ratio of two sizes, on any machine."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from time import process_time

TIMES = 4  #: the larger size, in smaller ones
#: A cost in proportion grows to about four times, one with the square of the size to sixteen.
MAX_GROWTH = 9.0
RUNS = 3  #: of each size, in turn; the quickest counts, because only the machine makes the others slower
NOISE_SECONDS = 0.02  #: a cost that is too small to be compared


def assert_proportional(act: Callable[[int], object], size: int) -> None:
    """Check that an action on four times the size costs about four times as much."""
    runs = [[processor_time(partial(act, each)) for each in (size, TIMES * size)] for _ in range(RUNS)]
    short, long = map(min, zip(*runs, strict=True))
    assert long < MAX_GROWTH * short + NOISE_SECONDS, (
        f"{TIMES} times the size cost {long / short:.0f} times as much"
    )


def processor_time(act: Callable[[], object]) -> float:
    """Return the seconds of processor time that an action takes."""
    began = process_time()
    act()
    return process_time() - began
