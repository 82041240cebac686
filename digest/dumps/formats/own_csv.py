"""Read CSV or TSV with the columns of `own_columns`, named in the first line ("csv")."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator

from digest import plurals
from digest.dumps.formats import json_stream, own_columns
from digest.dumps.formats.reader_interface import DumpInput, Header, Items, RecordProblem, excerpt

NAME = "csv"

#: a line that sets the separator for spreadsheet programs
SEPARATOR_LINE = re.compile(r"sep=.?", re.IGNORECASE)
LONGEST_FIELD = 128 * 1024  #: characters


def recognises(head: str) -> bool:
    """Return whether the first line after the preamble contains known column names."""
    first = next((line for line in head.splitlines() if not is_preamble(line)), "")
    names = header_columns(first) if len(first) < 2000 else []
    return len(names) > 1 and own_columns.has_paper_columns(set(names))


def is_preamble(line: str) -> bool:
    """Return whether a line may precede the header: a blank line, a comment, or `sep=;`."""
    return not line.strip() or line.startswith("#") or SEPARATOR_LINE.fullmatch(line.strip()) is not None


def header_columns(line: str) -> list[str]:
    """Return the column names in a header line, or none if it is not CSV."""
    try:
        return next(csv.reader([line.strip()], delimiter=delimiter_of(line)), [])
    except csv.Error:
        return []


def delimiter_of(line: str) -> str:
    """Return the most frequent delimiter in the header line."""
    return max("\t;,|", key=line.count)


def read(source: DumpInput) -> tuple[Header, Items]:
    """Read the rows under the header line."""
    filled = [line for line in source.head.splitlines() if not is_preamble(line)]
    return Header(announced=0 if len(filled) == 1 else None), rows(source)


def rows(source: DumpInput) -> Items:  # noqa: PLR0912, PLR0915  (one pass over a file)
    """Yield a record for each row, or a problem if the row does not match the header."""
    lines = CsvLines(source)
    header = next((line for line in lines if not is_preamble(line)), "")
    delimiter = delimiter_of(header)
    names = header_columns(header)
    csv.field_size_limit(LONGEST_FIELD)
    reader = csv.reader(lines, delimiter=delimiter)
    while True:
        begun = lines.number + 1
        try:
            row = next(reader)
        except StopIteration:
            break
        except csv.Error as error:
            yield RecordProblem(line=begun, reason=f"not CSV: {error}")
            reader = csv.reader(lines, delimiter=delimiter)
            continue
        finally:
            yield from lines.faults()
        if lines.are_over:  # a quote is open; otherwise, the csv module would have returned the row earlier
            reason = "the file ends in the middle of a row, within a quote that is never closed"
            yield RecordProblem(line=begun, reason=reason, excerpt=excerpt("".join(row)), is_truncation=True)
            break
        if not row:
            continue
        if len(row) != len(names):
            yield RecordProblem(
                line=begun, reason=f"{plurals.count(len(row), 'column')} instead of {len(names)}"
            )
        elif any(row):
            try:
                fields = dict(zip(names, row, strict=True))
                record = source.note_fields(fields, own_columns.record_of(fields, begun))
            except json_stream.NotAPaper as error:
                yield RecordProblem(line=begun, reason=str(error), excerpt=excerpt("".join(row)))
                continue
            yield record


class CsvLines:
    """An iterator over a CSV file's lines for the csv module; faulty lines are collected as problems."""

    def __init__(self, source: DumpInput):
        self.lines = source.lines()
        self.number = 0
        self.set_aside: list[RecordProblem] = []
        self.are_over = False

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        for number, text, fault in self.lines:
            self.number = number
            if not fault:
                return text + "\n"
            self.set_aside.append(RecordProblem(line=number, reason=fault))
        self.are_over = True
        raise StopIteration

    def faults(self) -> list[RecordProblem]:
        """Return the problems of the faulty lines since the last call."""
        found, self.set_aside = self.set_aside, []
        return found
