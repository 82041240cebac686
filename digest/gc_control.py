"""Pause the garbage collector around work that makes many values and no cycles."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def gc_paused() -> Iterator[None]:
    """Pause the collector: a chunk's tuples would start it, and it would walk the whole press."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def freeze_startup_objects() -> None:
    """Exclude all present objects from garbage collection, since a process keeps what it opened at the start.

    Otherwise each full collection walks every imported module, which takes a tenth of a second.
    """
    gc.collect()
    gc.freeze()
