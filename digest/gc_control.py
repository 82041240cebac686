"""Pause the garbage collector during work that creates many values but no cycles."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def gc_paused() -> Iterator[None]:
    """Pause garbage collection: a chunk's tuples would trigger collections that traverse the whole press."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def freeze_startup_objects() -> None:
    """Exclude all existing objects from garbage collection, since objects made at startup are never freed.

    Otherwise each full collection traverses every imported module, which takes 0.1 s.
    """
    gc.collect()
    gc.freeze()
