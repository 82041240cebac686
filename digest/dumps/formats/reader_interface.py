"""Define the input and the output of every format reader."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import date
from typing import Any, BinaryIO, Protocol, TypeAlias

from digest.dumps.formats.rewindable_stream import HEAD_BYTES, with_lf_line_ends
from digest.errors import UnreadableDump
from digest.papers.paper_record import DumpOrder, Record

MAX_LINE = 8 * 1024 * 1024  #: maximum number of bytes of a line
READ_BLOCK = 1024 * 1024
EXCERPT_LENGTH = 120  #: characters
QUOTE_MARK = re.compile(r"^> ?", re.MULTILINE)
MIN_QUOTED = 5  #: lines
MAX_SAMPLED = 1_000  #: entries


@dataclass(frozen=True, kw_only=True, slots=True)
class RecordProblem:
    """A record that could not be read, and the reason."""

    line: int
    reason: str
    excerpt: str = ""
    is_truncation: bool = False  #: whether the dump is truncated after this record
    missing_papers: int = 0  #: number of missing papers, if the dump announces its number of papers
    is_remark: bool = False  #: whether this is a note on the whole dump, not on a bad record
    is_doubt: bool = False  #: whether this is the reason why the whole dump may have been misread


def doubt(reason: str, line: int = 0) -> RecordProblem:
    """Return a reason to hold the whole dump."""
    return RecordProblem(line=line, reason=reason, is_remark=True, is_doubt=True)


@dataclass(frozen=True, kw_only=True, slots=True)
class Header:
    """The facts about a whole dump that are known before its first paper is read."""

    date: date | None = None
    date_inferred: bool = False  #: whether the year was inferred, because the dump prints only month and day
    order: DumpOrder = "none"
    announced: int | None = None  #: the number of papers that the dump announces


Items: TypeAlias = Iterator[Record | RecordProblem]


@dataclass(frozen=True, kw_only=True, slots=True)
class DumpReading:
    """A dump that is being read: its format, its header and a stream of its records."""

    format: str
    header: Header
    records: Items
    source: DumpInput


class Format(Protocol):
    """A module that recognises the dumps of one format by their content and reads them as streams."""

    @property
    def NAME(self) -> str:  # noqa: N802
        """The format's name on the command line and in the catalog."""
        ...

    def recognises(self, head: str) -> bool:
        """Return whether a dump that begins with `head` is in this format."""
        ...

    def read(self, source: DumpInput) -> tuple[Header, Items]:
        """Return the header and the stream of records; raise UnreadableDump if the dump cannot be read."""
        ...


class DumpInput:
    """A seekable stream of bytes that readers read as a head, line by line, or completely."""

    def __init__(self, stream: BinaryIO, *, name: str, observed_on: date):
        self.stream = with_lf_line_ends(stream)
        self.name = name
        self.observed_on = observed_on  #: the day that the operator gave, or on which the file was written
        self.first_bytes = self.rewind().read(HEAD_BYTES)
        head = self.first_bytes.decode("utf-8-sig", errors="replace")
        #: fields of the first entries and the records made of them, for the law on unused fields
        self.sampled: list[tuple[Mapping[str, Any], Record]] = []
        self.is_quoted = is_quoted(head)  #: whether the dump is quoted with `>`, as in a message
        self.head = QUOTE_MARK.sub("", head) if self.is_quoted else head

    def rewind(self) -> BinaryIO:
        """Seek to the beginning and return the stream."""
        self.stream.seek(0)
        return self.stream

    def note_fields(self, fields: Mapping[str, Any], record: Record) -> Record:
        """Keep the fields of an entry beside its record, for the first entries, and return the record."""
        if len(self.sampled) < MAX_SAMPLED:
            self.sampled.append((fields, record))
        return record

    def size_up_to(self, limit: int) -> int:
        """Return the size of the content in bytes, or `limit` + 1 if the content is larger than `limit`."""
        stream, size = self.rewind(), 0
        while size <= limit and (block := stream.read(min(limit + 1 - size, READ_BLOCK))):
            size += len(block)
        return size

    def lines(self) -> Iterator[tuple[int, str, str]]:
        """Yield (line number, text, fault) for every line; a faulty line has no text."""
        for number, line in enumerate(raw_lines(self.rewind()), start=1):
            if line == b"\n":
                yield number, "", ""
                continue
            if line is None:
                yield number, "", f"the line is longer than {MAX_LINE // 2**20} MiB"
                continue
            if number == 1:
                line = line.removeprefix(b"\xef\xbb\xbf")  # noqa: PLW2901
            try:
                text = line.decode()
            except UnicodeDecodeError as error:
                byte = line[error.start]
                yield number, "", f"not UTF-8 (byte 0x{byte:02X} at column {error.start + 1})"
                continue
            if "\0" in text:
                yield number, "", "a NUL character"
                continue
            if self.is_quoted:
                text = QUOTE_MARK.sub("", text)
            yield number, text.rstrip("\r\n"), ""

    def read_all(self, limit: int) -> bytes:
        """Return the whole content; raise UnreadableDump if it is longer than `limit` bytes."""
        content = self.rewind().read(limit + 1)
        if len(content) > limit:
            raise UnreadableDump(
                f"The content is larger than {limit // 2**20} MiB, which is too large for this format."
            )
        return content


def is_quoted(head: str) -> bool:
    """Return whether every line that is not blank begins with `>`, as in a message that quotes a dump."""
    lines = [line for line in head.splitlines() if line.strip()]
    return len(lines) >= MIN_QUOTED and all(line.startswith(">") for line in lines)


def raw_lines(stream: BinaryIO) -> Iterator[bytes | None]:
    """Yield the lines of a stream; yield None for a line that is too long, without storing the line."""
    while line := stream.readline(MAX_LINE + 1):
        if len(line) <= MAX_LINE:
            yield line
            continue
        while line and not line.endswith(b"\n"):
            line = stream.readline(MAX_LINE)
        yield None


def mark_truncation(items: Items) -> Items:
    """Yield the items, treating an incomplete record as truncation of the dump only if it is the last item."""
    last: RecordProblem | None = None
    for item in items:
        if last is not None:
            yield replace(last, is_truncation=False)
        last = item if isinstance(item, RecordProblem) and item.is_truncation else None
        if last is None:
            yield item
    if last is not None:
        yield last


def excerpt(text: str) -> str:
    """Return the beginning of `text` for an error message, replacing unprintable characters with spaces."""
    return "".join(char if char.isprintable() else " " for char in text[:EXCERPT_LENGTH]).strip()
