"""Read the rows of a file: CSV, an export of listmonk, or JSON Lines, whose keys are the columns of a CSV file.

A whole CSV file is refused if a column is unknown or repeated, or if an unclosed quote makes one cell contain
the rows after it.
"""

from __future__ import annotations

import csv
import itertools
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from typing import Any

from digest.db.tables.subscribers import SubscriberState
from digest.errors import BadField
from digest.subscribers.reader_settings import SETTINGS

SUPPRESSED_STATE = "suppressed"  #: a state that exists only in files and suppresses the address
DELIMITERS = ",;\t"  #: possible delimiters, the most common first

#: The columns of a listmonk export besides address and name. A `status` of `enabled` does not prove
#: consent: subscribers who unsubscribed from a list or never confirmed also have this status.
STATUS = "status"
IGNORED_COLUMNS = ("id", "uuid", "attributes", "attribs", "created_at", "updated_at")
LISTMONK_STATES = {
    "enabled": SubscriberState.PENDING,
    "disabled": SubscriberState.UNSUBSCRIBED,
    "unsubscribed": SubscriberState.UNSUBSCRIBED,
    "blocklisted": SUPPRESSED_STATE,
    "blacklisted": SUPPRESSED_STATE,  # the name of `blocklisted` before listmonk 1.0
}

Row = Mapping[Any, Any]  #: a row's cells, keyed by column; surplus cells are under the key None


def file_columns() -> tuple[str, ...]:
    """Return the columns of a file, in the order of an export."""
    about = "state", "topics", "packs", "muted", "paused_until", "confirmed_at", "consent"
    return ("email", "owner", "name", *SETTINGS, *about)


class CsvRows:
    """An iterator over the rows of a file; `line` is the first line of the row that was read last.

    Iteration raises csv.Error for an unreadable row, and the caller may then continue. It raises BadField if
    the whole file is unreadable.
    """

    def __init__(self, file: Iterable[str]):
        lines = iter(file)
        header = next(lines, "")
        delimiter = max(DELIMITERS, key=header.count)
        self.reader = csv.reader(itertools.chain([header], lines), delimiter=delimiter, strict=True)
        self.line = 1
        self.names = header_columns(self.reader)
        self.is_listmonk = STATUS in self.names
        check_names(self.names, is_listmonk=self.is_listmonk)

    @property
    def ignored_columns(self) -> tuple[str, ...]:
        """Return the file's columns that are known but not imported."""
        return tuple(name for name in self.names if name in IGNORED_COLUMNS)

    def __iter__(self) -> Iterator[Row]:
        return self

    def __next__(self) -> Row:
        cells = self.next_cells()
        row: dict[str | None, str] = {None: ""}
        for name, cell in itertools.zip_longest(self.names, cells[: len(self.names)], fillvalue=""):
            row[name or None] = row[None] + cell if not name else cell
        row[None] += "".join(cells[len(self.names) :])
        return row_of_listmonk(row) if self.is_listmonk else row

    def next_cells(self) -> list[str]:
        """Return the cells of the next row that is not empty."""
        cells: list[str] = []
        while not cells:
            self.line = self.reader.line_num + 1
            try:
                cells = next(self.reader)
            except csv.Error as error:
                if self.reader.line_num > self.line or "end of data" in str(error):
                    raise unclosed_quote_error(self.line) from None
                raise
        if self.reader.line_num > self.line and any(has_swallowed_rows(cell) for cell in cells):
            raise unclosed_quote_error(self.line)
        return cells


def header_columns(reader: Iterator[Sequence[str]]) -> list[str]:
    """Return the column names of the header, in lower case."""
    try:
        header = next(reader, [])
    except csv.Error:
        raise unclosed_quote_error(1) from None
    return [name.strip().lstrip("\ufeff").strip().lower() for name in header]


def check_names(names: Sequence[str], *, is_listmonk: bool) -> None:
    """Raise BadField if a column is missing, unknown or repeated."""
    known = (*file_columns(), STATUS, *IGNORED_COLUMNS) if is_listmonk else file_columns()
    if "email" not in names:
        found = ", ".join(map(repr, filter(None, names))) or "none"
        raise BadField("line 1", f"no column is called email. Found: {found}; known: {', '.join(known)}.")
    for name, count in Counter(filter(None, names)).items():
        if name not in known:
            hint = hint_for(name, known)
            raise BadField("line 1", f"column {name!r} is unknown. {hint} Rename or delete it.")
        if count > 1:
            raise BadField("line 1", f"column {name!r} appears {count} times. Keep one of them.")


def hint_for(name: str, known: Sequence[str]) -> str:
    """Return the known column that was probably meant, or all known columns."""
    close = get_close_matches(name, known, n=1)
    return f"Did you mean {close[0]}?" if close else f"Known: {', '.join(known)}."


def unclosed_quote_error(line: int) -> BadField:
    """Return the error for a row that opens a quote and does not close it."""
    return BadField(
        f"line {line}", "a quote in this row is not closed. Nothing was imported; close the quote."
    )


def has_swallowed_rows(cell: str) -> bool:
    """Return whether a cell seems to contain the rows after it, because an `@` follows a line break."""
    first, broken, rest = cell.partition("\n")
    # A JSON cell may have line breaks.
    return bool(broken) and "@" in rest and not first.lstrip().startswith("{")


def row_of_listmonk(row: Row) -> Row:
    """Convert a listmonk row to our columns; the `state` column is used only if the status is `enabled`."""
    status = row.get(STATUS, "").strip().lower()
    state = LISTMONK_STATES.get(status)
    if state is None:
        raise csv.Error(f"status {status!r} is not one of {', '.join(LISTMONK_STATES)}")
    if state == SubscriberState.PENDING:
        state = row.get("state") or state
    return {name: cell for name, cell in row.items() if name != STATUS} | {"state": state}


# ── JSON Lines ──────────────────────────────────────────────────────────────────────────────────


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
        for name in found:
            if name not in file_columns():
                raise csv.Error(f"key {name!r} is unknown. {hint_for(name, file_columns())}")
        return {name: cell_of(value) for name, value in found.items()}


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
