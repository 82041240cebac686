"""Read records of tagged lines, as in RIS and PubMed's nbib.

A line consists of a tag, a dash and a value; indented lines continue the value.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from digest.dumps.formats.reader_interface import DumpInput, Items, RecordProblem
from digest.papers.paper_record import Record

TAG = re.compile(r"([A-Z][A-Z0-9]{1,3}) *- ?(.*)")
MAX_LINES = 50_000  #: maximum number of lines of one record


@dataclass(kw_only=True, slots=True)
class TaggedRecord:
    """The tags of one record and their values."""

    line: int
    #: the lines of each value, keyed by tag
    values: dict[str, list[list[str]]] = field(default_factory=dict)

    def values_of(self, *tags: str) -> list[str]:
        """Return the values under these tags, in the order of the tags."""
        return [" ".join(" ".join(lines).split()) for tag in tags for lines in self.values.get(tag, ())]

    def first_value(self, *tags: str) -> str:
        """Return the first value found under these tags, in the order of the tags."""
        return next(filter(None, self.values_of(*tags)), "")


RecordConverter = Callable[[TaggedRecord], Record]


def records(
    source: DumpInput, convert: RecordConverter, *, begins: str, ends: str = "", tags: re.Pattern[str] = TAG
) -> Items:
    """Convert each tagged record to a paper record."""
    for entry in tagged_records(source, begins=begins, ends=ends, tags=tags):
        if isinstance(entry, RecordProblem):
            yield entry
            continue
        fields = {tag: entry.values_of(tag) for tag in entry.values}
        yield source.note_fields(fields, convert(entry))


def tagged_records(  # noqa: PLR0912  (a state machine over lines)
    source: DumpInput, *, begins: str, ends: str, tags: re.Pattern[str]
) -> Iterator[TaggedRecord | RecordProblem]:
    """Yield the records of a file; a record ends at its closing tag or where the next record begins."""
    entry: TaggedRecord | None = None
    tag, size = "", 0
    for number, text, fault in source.lines():
        if fault:
            yield RecordProblem(line=number, reason=fault)
            continue
        found = tags.match(text)
        if found and (found[1] == begins or found[1] == ends):
            if entry is not None:
                yield entry
            entry = TaggedRecord(line=number) if found[1] == begins else None
            size = 0
        if entry is None or size > MAX_LINES:
            continue
        size += 1
        if found:
            tag = found[1]
            entry.values.setdefault(tag, []).append([found[2].strip()])
        elif text.strip():
            entry.values[tag][-1].append(text.strip())
    if entry is not None:
        yield entry
        if ends:
            yield RecordProblem(
                line=entry.line, reason="the file ends in the middle of a record", is_truncation=True
            )
