"""JSON and JSON Lines with our own columns ("json")."""

from __future__ import annotations

from digest.dumps import columns, objects
from digest.dumps.reading import Header, Items, Source

NAME = "json"


def recognises(head: str) -> bool:
    """Return whether these are objects with a title and some other column of ours."""
    return columns.is_ours(objects.keys_in(head)) or "".join(head.split()) == "[]"


def read(source: Source) -> tuple[Header, Items]:
    """Read the objects."""
    nothing = 0 if "".join(source.head.split()) == "[]" else None  # a quiet day
    return Header(announced=nothing), objects.records(
        source, columns.record_of, at=("papers", "results", "data", "items")
    )
