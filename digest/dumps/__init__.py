"""Dumps: files of paper records, recognised by what they contain and read as a stream.

A reader is a module with a NAME, `recognises(head)` and `read(source)`. What it yields passes one
gate here, so that no format can let through what the catalog must not hold.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date
from itertools import chain
from typing import BinaryIO

from digest.dumps import (
    arxiv_listing,
    bibtex,
    biorxiv,
    blocks,
    csl,
    feed,
    hf_json,
    hf_page,
    kaggle,
    marked,
    markup,
    nbib,
    oai,
    openalex,
    own_csv,
    own_json,
    pairs,
    pubmed,
    respelling,
    ris,
    semantic_scholar,
    unpacking,
)
from digest.dumps.reading import Format, Header, Items, Problem, Reading, Source, excerpt
from digest.errors import BadField, Unreadable
from digest.papers import Record

__all__ = ["FORMATS", "Format", "Header", "Problem", "Reading", "Source", "read"]

#: Every format, in the order in which they are tried.
FORMATS: tuple[Format, ...] = (
    hf_json, kaggle, semantic_scholar, openalex, biorxiv, csl, own_json,  # JSON, the most telling names first
    feed, oai, pubmed, hf_page,  # XML, and a page of the web
    arxiv_listing, nbib, ris, bibtex,  # texts that begin in a way of their own
    marked, pairs, blocks,  # pages
    own_csv,
)  # fmt: skip

#: By how they begin, and where: files that are often taken for dumps.
FOREIGN = {
    b"PK\x03\x04": (0, "a zip archive (or a spreadsheet). Unpack it first, or save it as CSV"),
    b"ustar": (257, "a tar archive. Unpack it first"),
    b"BZh": (0, "packed with bzip2. Unpack it first; gzip and Zstandard are read as they are"),
    b"\xfd7zXZ": (0, "packed with xz. Unpack it first; gzip and Zstandard are read as they are"),
    b"7z\xbc\xaf": (0, "a 7z archive. Unpack it first"),
    b"%PDF-": (0, "a PDF, not a list of papers"),
    b"PAR1": (0, "a Parquet file. Save it as CSV or JSON Lines"),
    b"SQLite format 3": (0, "a SQLite database, not a list of papers"),
}

MAX_TITLE = 1_000
MAX_ABSTRACT = 50_000
MAX_NAMES = 20_000


def read(stream: BinaryIO, *, name: str, observed_on: date, format: str | None = None) -> Reading:
    """Return the dump in `stream` (seekable) as a reading.

    Raises Unreadable with the reason where no record of it could be read.
    """
    text = respelling.in_utf8(unpacking.unpacked(stream))
    source = Source(text, name=name, observed_on=observed_on)
    chosen = named(format) if format else recognised(source)
    header, records = chosen.read(source)
    return Reading(format=chosen.NAME, header=header, records=sound(records))


def named(format: str) -> Format:
    """Return the format of that name."""
    for known in FORMATS:
        if format == known.NAME:
            return known
    names = ", ".join(known.NAME for known in FORMATS)
    raise BadField("format", f"there is no format {format!r}; there are {names}.")


def recognised(source: Source) -> Format:
    """Return the first format that knows the beginning of the dump; raise Unreadable for none."""
    refuse_binary(source)
    is_web_page = markup.root_of(source.head).casefold() == "html"
    for known in (hf_page,) if is_web_page else FORMATS:
        if known.recognises(source.head):
            return known
    if is_web_page:
        raise Unreadable(
            "It is a web page. Save its text, or ask the site for the same list as JSON or as a feed."
        )
    shown = excerpt(source.head.strip())
    raise Unreadable(f"It is in no format known here; it begins with: {shown}")


def refuse_binary(source: Source) -> None:
    """Raise Unreadable for what is no text at all, saying what it looks like."""
    beginning = source.beginning
    if not beginning.strip():
        raise Unreadable("It is empty.")
    for sign, (place, kind) in FOREIGN.items():
        if beginning.startswith(sign, place):
            raise Unreadable(f"It is {kind}.")
    if b"\0" in beginning:
        raise Unreadable("It is binary, not text.")
    if source.head.count("\ufffd") > max(8, len(source.head) // 20):
        raise Unreadable("It is not UTF-8 text.")


def sound(records: Items) -> Items:
    """Yield what may enter the catalog; the rest becomes problems with a reason."""
    for record in records:
        if isinstance(record, Problem) or not (reason := fault_of(record)):
            yield record
        else:
            yield Problem(line=record.line, reason=reason, excerpt=excerpt(record.title))


def fault_of(record: Record) -> str:
    """Return why a record is not fit to be kept, or nothing."""
    if not record.title.strip():
        return "it has no title"
    if len(record.title) > MAX_TITLE:
        return f"its title has {len(record.title):,} characters"
    if len(record.abstract) > MAX_ABSTRACT:
        return f"its abstract has {len(record.abstract):,} characters"
    if len(record.authors) > MAX_NAMES:
        return f"it has {len(record.authors):,} authors"
    if not is_storable("".join(texts_of(record))):
        return "it holds characters that are no text (NUL or half of a pair)"
    return ""


def texts_of(record: Record) -> Iterator[str]:
    """Yield every text of a record that would be kept."""
    yield from (record.title, record.abstract, record.comment, record.journal)
    yield from chain(record.authors, record.categories, record.urls, record.ids.values())
    if record.organization is not None:
        yield from (record.organization.handle, record.organization.name)


def is_storable(text: str) -> bool:
    """Return whether a database can keep `text`: no NUL, no lone surrogates."""
    if text.isascii():
        return "\0" not in text
    return "\0" not in text and not any("\ud800" <= char <= "\udfff" for char in text)
