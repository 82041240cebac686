"""Pause the garbage collector while a process starts or ends, and during work that creates no cycles."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def gc_paused() -> Iterator[None]:
    """Pause garbage collection while the block creates many objects.

    Otherwise the tuples made for a chunk of digests would trigger collections, each of which traverses all
    the prepared content of the publication.
    """
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


def pause_during_imports() -> None:
    """Pause garbage collection until `resume_after_imports`: imports create many objects but little garbage."""
    gc.disable()


def resume_after_imports() -> None:
    """Resume garbage collection if it was paused, but never traverse the objects that the imports created."""
    if not gc.isenabled():
        gc.freeze()
        gc.enable()


def skip_final_collection() -> None:
    """Let the process end without the final garbage collection, which takes longer than most commands."""
    gc.disable()
    gc.freeze()
