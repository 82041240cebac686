"""Read the papers of an uploaded library (BibTeX, RIS or CSL-JSON) without storing the library."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date, datetime
from io import BytesIO
from threading import Lock
from time import perf_counter
from typing import TYPE_CHECKING, BinaryIO

from starlette.datastructures import FormData, UploadFile

from digest import plurals
from digest.errors import BadField, UnreadableDump
from digest.papers.paper_record import Paper, Record, title_key
from digest.process.caches import Caches

if TYPE_CHECKING:
    from digest.dumps.formats.reader_interface import RecordProblem


FIELD = "library"
WAIT_SECONDS = 3.0  #: how long an upload waits for another, which keeps a processor busy for seconds


@contextmanager
def turn(caches: Caches) -> Iterator[None]:
    """Let one library be read at a time; raise BadField if others take too long."""
    lock = caches.get_or_make("library", "turn", Lock)
    if not lock.acquire(timeout=WAIT_SECONDS):
        raise BadField(FIELD, "Other libraries are being read. Try again in a minute.")
    try:
        yield
    finally:
        lock.release()


def uploaded_library(form: FormData, now: datetime) -> ReadLibrary:
    """Return the uploaded library; raise BadField if it is empty or too large, or if no papers were found in it."""
    upload = form[FIELD]
    assert isinstance(upload, UploadFile)  # noqa: S101  (`has_file` was asked)
    found = read_library(upload.file, name=FIELD, limits=UPLOAD_LIMITS, now=now, seconds=perf_counter)
    if not found.papers:
        raise BadField(FIELD, "We found no papers in this file. Export your library as BibTeX or RIS.")
    return found


def has_file(form: FormData) -> bool:
    """Return whether the visitor chose a file."""
    upload = form.get(FIELD)
    return isinstance(upload, UploadFile) and bool(upload.filename)


def sentence(library: ReadLibrary) -> str:
    """Return how many references were read, such as `We read 12 references. 1 could not be read.`"""
    read, failed = len(library.papers), len(library.problems)
    parts = [
        f"We read {plurals.count(read, 'reference')}.",
        f"{failed} could not be read." if failed else "",
        "" if library.is_complete else "The rest of the file was left out.",
    ]
    return " ".join(filter(None, parts))


# ── the file ─────────────────────────────────────────────────────────────────────────────────────────


MEGABYTE = 1024 * 1024
#: Maximum size of a BibTeX entry, whose parsing time grows with the square of its length.
MAX_ENTRY_BYTES = 32 * 1024
MAX_TITLE = 500  #: characters
MAX_ABSTRACT = 3000
MAX_AUTHORS = 100
HEAD_BYTES = 64 * 1024  #: size of the beginning of a file, from which its format is recognised
ENTRY_START = re.compile(rb"^(?=[ \t]*@[A-Za-z]{3,30}\s*[{(])", re.MULTILINE)
UTF16_MARKS = (b"\xff\xfe", b"\xfe\xff")


@dataclass(frozen=True, kw_only=True, slots=True)
class LibraryLimits:
    """The limits that apply when a library is read."""

    max_megabytes: int  #: larger files are refused
    max_seconds: float  #: entries that are not read within this time are left out
    max_entries: int = 2_000  #: entries beyond this number are left out


#: The limits for a file that anybody may upload.
UPLOAD_LIMITS = LibraryLimits(max_megabytes=1, max_seconds=3.0)


@dataclass(frozen=True, kw_only=True, slots=True)
class ReadLibrary:
    """The papers in a library, each once, and the entries that could not be read."""

    papers: tuple[Paper, ...]
    problems: tuple[RecordProblem, ...]
    is_complete: bool  #: False if a limit was reached before the last entry


def read_library(
    stream: BinaryIO, *, name: str, limits: LibraryLimits, now: datetime, seconds: Callable[[], float]
) -> ReadLibrary:
    """Read the papers of a BibTeX, RIS or CSL-JSON file in any common encoding.

    `name` is the file or form field that errors mention. `seconds` is a clock that measures the reading time.
    Raises BadField if the file is empty or too large; a file in another format yields no papers.
    """
    content = stream.read(limits.max_megabytes * MEGABYTE + 1)
    if len(content) > limits.max_megabytes * MEGABYTE:
        size = limits.max_megabytes
        raise BadField(name, f"This file is larger than {size} MB. Export fewer papers.")
    if not content.strip():
        raise BadField(name, "This file is empty. Choose another one.")
    found: dict[str, Paper] = {}
    problems: list[RecordProblem] = []
    end, is_complete = seconds() + limits.max_seconds, True
    for count, entry in enumerate(entries_of(content, now.date()), start=1):
        if count > limits.max_entries or (count > 1 and seconds() > end):
            is_complete = False
            break
        if isinstance(entry, Record):
            found.setdefault(title_key(entry.title), paper_of(entry, len(found) + 1, now))
        else:
            problems.append(entry)
    return ReadLibrary(papers=tuple(found.values()), problems=tuple(problems), is_complete=is_complete)


def entries_of(content: bytes, day: date) -> Iterator[Record | RecordProblem]:
    """Yield the entries of a library; an error that ends the reading is yielded as the last problem."""
    from digest.dumps.formats import recognition
    from digest.dumps.formats.reader_interface import RecordProblem

    text = as_utf8(content)
    format_name = format_of(text)
    if format_name == "bibtex":
        text, lines = without_long_entries(text)
        reason = f"the entry is longer than {MAX_ENTRY_BYTES // 1024} KB"
        yield from (RecordProblem(line=line, reason=reason) for line in lines)
    try:
        reading = recognition.read(BytesIO(text), name="library", observed_on=day, format=format_name)
        yield from reading.records
    except UnreadableDump as error:
        yield RecordProblem(line=1, reason=str(error))


def as_utf8(content: bytes) -> bytes:
    """Convert a file's content to UTF-8; if it is neither UTF-8 nor UTF-16, decode it as Windows-1252."""
    if content.startswith(UTF16_MARKS):
        return content.decode("utf-16", errors="replace").encode()
    try:
        content.decode()
    except UnicodeDecodeError:
        return content.decode("cp1252", errors="replace").encode()
    return content


def format_of(text: bytes) -> str:
    """Return the name of a library's format, recognised by the beginning of the text."""
    from digest.dumps.formats import recognition

    head = text[:HEAD_BYTES].decode("utf-8-sig", errors="replace")
    if head.lstrip().startswith(("[", "{")):
        return "csl-json"
    return "ris" if recognition.format_named("ris").recognises(head) else "bibtex"


def without_long_entries(text: bytes) -> tuple[bytes, list[int]]:
    """Replace long entries with empty lines; return the BibTeX text and the entries' line numbers."""
    kept, long, line = list[bytes](), list[int](), 1
    for part in ENTRY_START.split(text):
        breaks = part.count(b"\n")
        if len(part) > MAX_ENTRY_BYTES:
            long.append(line)
        kept.append(part if len(part) <= MAX_ENTRY_BYTES else b"\n" * breaks)
        line += breaks
    return b"".join(kept), long


def paper_of(record: Record, number: int, now: datetime) -> Paper:
    """Convert a record to a paper that is not in the catalog; `number` is its id."""
    return Paper(
        id=number,
        title=record.title[:MAX_TITLE],
        abstract=record.abstract[:MAX_ABSTRACT],
        ids=record.ids,
        authors=record.authors[:MAX_AUTHORS],
        published=record.published,
        first_seen_at=now,
    )
