"""What a reader is given and what it gives back; nothing here knows a format."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import date
from typing import BinaryIO, Literal, Protocol, TypeAlias

from digest.errors import Unreadable
from digest.papers import Record

HEAD = 64 * 1024  #: bytes looked at to recognise a format
MAX_LINE = 8 * 1024 * 1024  #: a longer line is no record
EXCERPT = 120
QUOTE = re.compile(r"^> ?", re.MULTILINE)
LEAST_QUOTED = 5  #: lines

Order: TypeAlias = Literal["ranked", "relevance", "none"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Problem:
    """A record that could not be read, and why."""

    line: int
    reason: str
    excerpt: str = ""
    is_truncation: bool = False  #: the dump ends before its own end: what follows is lost
    missing: int = 0  #: how many papers that is, where the dump told
    is_remark: bool = False  #: said of the dump; no record is bad


@dataclass(frozen=True, kw_only=True, slots=True)
class Header:
    """What a dump says of itself before its first paper."""

    date: date | None = None
    date_inferred: bool = False  #: month and day are printed, the year is ours
    order: Order = "none"
    announced: int | None = None  #: how many papers it says it holds


Items: TypeAlias = Iterator[Record | Problem]


@dataclass(frozen=True, kw_only=True, slots=True)
class Reading:
    """A dump being read: its format and header are known, its records come as a stream."""

    format: str
    header: Header
    records: Items


class Format(Protocol):
    """One format: a module that recognises it by content and reads it as a stream."""

    @property
    def NAME(self) -> str:  # noqa: N802
        """The name on the command line and in the catalog."""
        ...

    def recognises(self, head: str) -> bool:
        """Return whether a dump that begins so is in this format."""
        ...

    def read(self, source: Source) -> tuple[Header, Items]:
        """Return the header and the stream of records; raise Unreadable where there is no reading it."""
        ...


class Source:
    """A seekable stream of bytes, seen as the readers need it: its beginning, its lines, or whole."""

    def __init__(self, stream: BinaryIO, *, name: str, observed_on: date):
        self.stream = stream
        self.name = name
        self.observed_on = observed_on  #: the day it was fetched, as far as anybody knows
        self.beginning = self.rewound().read(HEAD)
        self.has_old_ends = b"\r" in self.beginning and b"\n" not in self.beginning  #: CR alone ends a line
        head = self.beginning.decode("utf-8-sig", errors="replace")
        head = head.replace("\r", "\n") if self.has_old_ends else head
        self.is_quoted = is_quoted(head)  #: a copy from an answer to a mail
        self.head = QUOTE.sub("", head) if self.is_quoted else head

    def rewound(self) -> BinaryIO:
        """Return the stream at its beginning."""
        self.stream.seek(0)
        return self.stream

    def lines(self) -> Iterator[tuple[int, str, str]]:
        """Yield (number, text, fault) of every line from the beginning; a faulty line has no text."""
        raw = split_at_cr(self.rewound()) if self.has_old_ends else split_at_lf(self.rewound())
        for number, line in enumerate(raw, start=1):
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
                text = QUOTE.sub("", text)
            yield number, text.rstrip("\r\n"), ""

    def whole(self, limit: int) -> bytes:
        """Return everything; raise Unreadable beyond `limit` bytes."""
        content = self.rewound().read(limit + 1)
        if len(content) > limit:
            raise Unreadable(f"It is larger than {limit // 2**20} MiB, too large for a document of its kind.")
        return content


def is_quoted(head: str) -> bool:
    """Return whether every line begins with the sign that a mail program puts before what it quotes."""
    lines = [line for line in head.splitlines() if line.strip()]
    return len(lines) >= LEAST_QUOTED and all(line.startswith(">") for line in lines)


def split_at_lf(stream: BinaryIO) -> Iterator[bytes | None]:
    """Yield lines; None for one that is too long, whose rest is passed over without being held."""
    while line := stream.readline(MAX_LINE + 1):
        if len(line) <= MAX_LINE:
            yield line
            continue
        while line and not line.endswith(b"\n"):
            line = stream.readline(MAX_LINE)
        yield None


def split_at_cr(stream: BinaryIO) -> Iterator[bytes | None]:
    """Yield the lines of a file that ends them with CR alone."""
    rest = b""
    while chunk := stream.read(HEAD):
        *lines, rest = (rest + chunk).split(b"\r")
        yield from lines
        if len(rest) > MAX_LINE:
            yield None
            rest = b""
    if rest:
        yield rest


def cut_at_the_end(items: Items) -> Items:
    """Yield the items; a record that breaks off is a truncation of the dump only where nothing follows it."""
    last: Problem | None = None
    for item in items:
        if last is not None:
            yield replace(last, is_truncation=False)
        last = item if isinstance(item, Problem) and item.is_truncation else None
        if last is None:
            yield item
    if last is not None:
        yield last


def excerpt(text: str) -> str:
    """Return the beginning of `text`, printable, for an error message."""
    return "".join(char if char.isprintable() else " " for char in text[:EXCERPT]).strip()
