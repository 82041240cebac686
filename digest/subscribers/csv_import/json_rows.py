"""Read the rows of a file with one JSON object per line, whose keys are the columns of a CSV file."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Iterator
from difflib import get_close_matches
from typing import Any

from digest.subscribers.csv_import.csv_rows import Row, file_columns


class JsonRows:
    """An iterator over the objects of a file; `line` is the number of the last line read.

    Iteration raises csv.Error for an unreadable line, and the caller may then continue.
    """

    is_listmonk = False
    ignored_columns: tuple[str, ...] = ()

    def __init__(self, file: Iterable[str]):
        self.lines = iter(file)
        self.line = 0

    def __iter__(self) -> Iterator[Row]:
        return self

    def __next__(self) -> Row:
        text = ""
        while not text.strip():
            text = next(self.lines)
            self.line += 1
        try:
            found = json.loads(text)
        except (ValueError, RecursionError):
            raise csv.Error("it is not JSON") from None
        if not isinstance(found, dict):
            raise csv.Error("it is not a JSON object")
        check_keys(found)
        return {name: cell_of(value) for name, value in found.items()}


def check_keys(found: dict[str, Any]) -> None:
    """Raise csv.Error if the object has an unknown key."""
    known = file_columns()
    for name in found:
        if name not in known:
            close = get_close_matches(name, known, n=1)
            hint = f"Did you mean {close[0]}?" if close else f"Known: {', '.join(known)}"
            raise csv.Error(f"key {name!r} is unknown. {hint}")


def cell_of(value: Any) -> str:
    """Return a JSON value as the text that a CSV cell would contain."""
    match value:
        case None:
            return ""
        case bool():
            return "yes" if value else "no"
        case list():
            return "; ".join(map(str, value))
        case dict():
            return json.dumps(value, ensure_ascii=False) if value else ""
    return str(value)
