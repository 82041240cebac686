"""Read JSON and JSON Lines with the columns of `own_columns` ("json")."""

from __future__ import annotations

from typing import Any

from digest.dumps.formats import json_stream, own_columns
from digest.dumps.formats.reader_interface import DumpInput, Header, Items
from digest.papers.paper_record import Record

NAME = "json"

LIST_NAMES = ("papers", "results", "data", "items")
#: The keys of lists of other formats, since an empty list does not reveal its format.
EMPTY_LIST_NAMES = (*LIST_NAMES, "collection", "dailyPapers", "recommendedPapers")


def recognises(head: str) -> bool:
    """Return whether the dump is an empty list or contains objects with a title and another known column."""
    return own_columns.has_paper_columns(json_stream.keys_in(head)) or json_stream.is_empty_list(
        head, EMPTY_LIST_NAMES
    )


def read(source: DumpInput) -> tuple[Header, Items]:
    """Read the objects of the dump, one per line or in a list."""
    is_empty = json_stream.is_empty_list(source.head, EMPTY_LIST_NAMES)

    def convert(found: dict[str, Any], line: int) -> Record:
        return source.note_fields(found, own_columns.record_of(found, line))

    return json_stream.read(source, convert, list_names=EMPTY_LIST_NAMES if is_empty else LIST_NAMES)
