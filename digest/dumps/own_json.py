"""JSON and JSON Lines with our own columns ("json")."""

from __future__ import annotations

from digest.dumps import columns, objects
from digest.dumps.reading import Header, Items, Source

NAME = "json"

LISTS = ("papers", "results", "data", "items")
OTHERS = ("collection", "dailyPapers", "recommendedPapers")  #: an empty list tells no more of its origin


def recognises(head: str) -> bool:
    """Return whether these are objects with a title and some other column of ours, or a list of nothing."""
    return columns.is_ours(objects.keys_in(head)) or objects.is_empty(head, (*LISTS, *OTHERS))


def read(source: Source) -> tuple[Header, Items]:
    """Read the objects."""
    is_quiet = objects.is_empty(source.head, (*LISTS, *OTHERS))
    return objects.read(source, columns.record_of, at=(*LISTS, *OTHERS) if is_quiet else LISTS)
