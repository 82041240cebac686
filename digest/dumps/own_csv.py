"""CSV or TSV with our own columns, named in its first line ("csv")."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator

from digest.dumps import columns
from digest.dumps.reading import Header, Items, Problem, Source, excerpt

NAME = "csv"

SEPARATOR = re.compile(r"sep=.?", re.IGNORECASE)  #: a spreadsheet's hint to itself
LONGEST_FIELD = 128 * 1024


def recognises(head: str) -> bool:
    """Return whether the first line, remarks aside, names columns of ours."""
    first = next((line for line in head.splitlines() if not is_remark(line)), "")
    names = names_in(first) if len(first) < 2000 else []
    return len(names) > 1 and columns.is_ours(set(names))


def is_remark(line: str) -> bool:
    """Return whether a line stands above the names of the columns: a blank one, a comment, or `sep=;`."""
    return not line.strip() or line.startswith("#") or SEPARATOR.fullmatch(line.strip()) is not None


def names_in(line: str) -> list[str]:
    """Return the columns that a header line names; none where it is no such line."""
    try:
        return next(csv.reader([line.strip()], delimiter=delimiter_of(line)), [])
    except csv.Error:
        return []


def delimiter_of(line: str) -> str:
    """Return the sign that parts columns in the header line."""
    return max("\t;,|", key=line.count)


def read(source: Source) -> tuple[Header, Items]:
    """Read the rows under the header line."""
    filled = [line for line in source.head.splitlines() if not is_remark(line)]
    return Header(announced=0 if len(filled) == 1 else None), rows(source)


def rows(source: Source) -> Items:
    """Yield a record for every row; a row that does not fit its header is a problem."""
    lines = Lines(source)
    header = next((line for line in lines if not is_remark(line)), "")
    delimiter = delimiter_of(header)
    names = names_in(header)
    csv.field_size_limit(LONGEST_FIELD)
    reader = csv.reader(lines, delimiter=delimiter)
    position = 0
    while True:
        begun = lines.number + 1
        try:
            row = next(reader)
        except StopIteration:
            break
        except csv.Error as error:
            yield Problem(line=begun, reason=f"not CSV: {error}")
            reader = csv.reader(lines, delimiter=delimiter)
            continue
        finally:
            yield from lines.faults()
        if lines.are_over:  # the last row is asked for before they are, unless a quote is open
            reason = "the file ends in the middle of a row, within a quote that is never closed"
            yield Problem(line=begun, reason=reason, excerpt=excerpt("".join(row)), is_truncation=True)
            break
        if not row:
            continue
        if len(row) != len(names):
            yield Problem(line=begun, reason=f"{len(row)} columns where the header names {len(names)}")
        elif any(row):
            position += 1
            yield columns.record_of(dict(zip(names, row, strict=True)), position, begun)


class Lines:
    """The lines of a CSV file for the csv module; faulty ones are set aside."""

    def __init__(self, source: Source):
        self.lines = source.lines()
        self.number = 0
        self.set_aside: list[Problem] = []
        self.are_over = False

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        for number, text, fault in self.lines:
            self.number = number
            if not fault:
                return text + "\n"
            self.set_aside.append(Problem(line=number, reason=fault))
        self.are_over = True
        raise StopIteration

    def faults(self) -> list[Problem]:
        """Return the faulty lines met since the last call."""
        found, self.set_aside = self.set_aside, []
        return found
