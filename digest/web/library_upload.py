"""Read the papers of an uploaded library (BibTeX, RIS or CSL-JSON) without storing the library."""

from __future__ import annotations

import re
from datetime import datetime
from io import BytesIO
from time import perf_counter

from starlette.datastructures import FormData, UploadFile

from digest.dumps import formats
from digest.errors import BadField, UnreadableDump
from digest.letters.figures_in_words import TRANSLATIONS
from digest.papers import Paper, Record

_ = TRANSLATIONS.gettext

FIELD = "library"
MAX_BYTES = 1024 * 1024
MAX_ENTRIES = 2000
MAX_SECONDS = 3.0  #: time limit; the entries read before it ends are used
MAX_ENTRY_BYTES = 32 * 1024  #: characters of a BibTeX entry; parsing time grows with the square of the length
ENTRY_START = re.compile(rb"^(?=[ \t]*@[A-Za-z]{3,30}\s*[{(])", re.MULTILINE)
MAX_TITLE = 500  #: characters
MAX_ABSTRACT = 3000
UTF16_MARKS = (b"\xff\xfe", b"\xfe\xff")


def uploaded_papers(form: FormData, now: datetime) -> list[Paper]:
    """Return the papers of the uploaded library, none without an upload; raise BadField if it cannot be read."""
    upload = form.get(FIELD)
    if not isinstance(upload, UploadFile) or not has_file(form):
        return []
    content = upload.file.read(MAX_BYTES + 1)
    if len(content) > MAX_BYTES:
        raise BadField(FIELD, _("This file is larger than 1 MB. Export fewer papers and choose it again."))
    if not content.strip():
        raise BadField(FIELD, _("This file is empty. Choose another one."))
    try:
        records = read_records(content, now)
    except UnreadableDump:
        records = []
    if not records:
        raise BadField(FIELD, _("We found no papers in this file. Export your library as BibTeX or RIS."))
    return [paper_of(number, record, now) for number, record in enumerate(records, start=1)]


def has_file(form: FormData) -> bool:
    """Return whether a file was chosen."""
    upload = form.get(FIELD)
    return isinstance(upload, UploadFile) and bool(upload.filename)


def read_records(content: bytes, now: datetime) -> list[Record]:
    """Return the records of a library, up to a number and a time."""
    text = as_utf8(content)
    format_name = format_of(text)
    if format_name == "bibtex":
        text = b"".join(part for part in ENTRY_START.split(text) if len(part) <= MAX_ENTRY_BYTES)
    reading = formats.read(BytesIO(text), name="library", observed_on=now.date(), format=format_name)
    deadline, found = perf_counter() + MAX_SECONDS, list[Record]()
    for item in reading.records:
        if isinstance(item, Record):
            found.append(item)
        if len(found) == MAX_ENTRIES or perf_counter() > deadline:
            break
    return found


def as_utf8(content: bytes) -> bytes:
    """Return a text in UTF-8; a text in neither UTF-8 nor UTF-16 is read in Windows' Western encoding."""
    if content.startswith(UTF16_MARKS):
        return content.decode("utf-16", errors="replace").encode()
    try:
        content.decode()
    except UnicodeDecodeError:
        return content.decode("cp1252", errors="replace").encode()
    return content


def format_of(text: bytes) -> str:
    """Return the name of a library's format by its first characters."""
    start = text.removeprefix(b"\xef\xbb\xbf").lstrip()
    if start.startswith((b"[", b"{")):
        return "csl-json"
    return "ris" if start.startswith(b"TY ") else "bibtex"


def paper_of(number: int, record: Record, now: datetime) -> Paper:
    """Return a record as a paper that is not in the catalog."""
    return Paper(
        id=number,
        title=record.title[:MAX_TITLE],
        abstract=record.abstract[:MAX_ABSTRACT],
        ids=record.ids,
        authors=record.authors[:100],
        published=record.published,
        first_seen_at=now,
    )
