"""What a reader is given and what it gives back; nothing here knows a format."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date
from typing import BinaryIO, Literal, Protocol, TypeAlias

from digest.errors import Unreadable
from digest.papers import Record

HEAD = 64 * 1024  #: bytes looked at to recognise a format
MAX_LINE = 8 * 1024 * 1024  #: a longer line is no record
EXCERPT = 120

Order: TypeAlias = Literal["ranked", "relevance", "none"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Problem:
    """A record that could not be read, and why."""

    line: int
    reason: str
    excerpt: str = ""
    is_truncation: bool = False  #: the dump ends before its own end: what follows is lost
    missing: int = 0  #: how many papers that is, where the dump told


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
        self.head = self.beginning.decode("utf-8-sig", errors="replace")

    def rewound(self) -> BinaryIO:
        """Return the stream at its beginning."""
        self.stream.seek(0)
        return self.stream

    def lines(self) -> Iterator[tuple[int, str, str]]:
        """Yield (number, text, fault) of every line from the beginning; a faulty line has no text."""
        old_mac = b"\r" in self.beginning and b"\n" not in self.beginning
        raw = split_at_cr(self.rewound()) if old_mac else split_at_lf(self.rewound())
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
            yield number, text.rstrip("\r\n"), ""

    def whole(self, limit: int) -> bytes:
        """Return everything; raise Unreadable beyond `limit` bytes."""
        content = self.rewound().read(limit + 1)
        if len(content) > limit:
            raise Unreadable(f"It is larger than {limit // 2**20} MiB, too large for a document of its kind.")
        return content


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


def excerpt(text: str) -> str:
    """Return the beginning of `text`, printable, for an error message."""
    return "".join(char if char.isprintable() else " " for char in text[:EXCERPT]).strip()
