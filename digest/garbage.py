"""The garbage collector, kept away from where there is nothing to collect."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def held_off() -> Iterator[None]:
    """Keep the collector away: a chunk's tuples would set it off, and it would walk the whole press."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def settle() -> None:
    """Let the collector pass over what is here now, for good: a process that has opened its house lives in it.

    Or each of its full rounds walks through every module that was ever imported, a tenth of a second long.
    """
    gc.collect()
    gc.freeze()
