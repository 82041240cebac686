"""What RIS and PubMed's nbib share: a tag, a dash, a value; further lines of it are indented."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from digest.dumps.reading import Items, Problem, Source
from digest.papers import Record

TAG = re.compile(r"([A-Z][A-Z0-9]{1,3}) *- ?(.*)")
MOST_LINES = 50_000  #: of one record


@dataclass(kw_only=True, slots=True)
class Entry:
    """One record as tags and values."""

    line: int
    values: dict[str, list[list[str]]] = field(default_factory=dict)  #: the lines of each value

    def all(self, *tags: str) -> list[str]:
        """Return the values under these tags, in the order of the tags."""
        return [" ".join(lines) for tag in tags for lines in self.values.get(tag, ())]

    def one(self, *tags: str) -> str:
        """Return the first value under the first of these tags that has one."""
        return next(filter(None, self.all(*tags)), "")


Convert = Callable[[Entry, int], Record]


def records(
    source: Source, convert: Convert, *, begins: str, ends: str = "", tags: re.Pattern[str] = TAG
) -> Items:
    """Yield every entry as a record."""
    position = 0
    for entry in entries(source, begins=begins, ends=ends, tags=tags):
        if isinstance(entry, Problem):
            yield entry
            continue
        position += 1
        yield convert(entry, position)


def entries(source: Source, *, begins: str, ends: str, tags: re.Pattern[str]) -> Iterator[Entry | Problem]:
    """Yield the records of a file: from the tag that begins one to the tag that ends it, or the next."""
    entry: Entry | None = None
    tag, size = "", 0
    for number, text, fault in source.lines():
        if fault:
            yield Problem(line=number, reason=fault)
            continue
        found = tags.match(text)
        if found and (found[1] == begins or found[1] == ends):
            if entry is not None:
                yield entry
            entry = Entry(line=number) if found[1] == begins else None
            size = 0
        if entry is None or size > MOST_LINES:
            continue
        size += 1
        if found:
            tag = found[1]
            entry.values.setdefault(tag, []).append([found[2].strip()])
        elif tag in entry.values and text.strip():
            entry.values[tag][-1].append(text.strip())
    if entry is not None:
        yield entry
        if ends:
            yield Problem(
                line=entry.line, reason="the file ends in the middle of a record", is_truncation=True
            )
