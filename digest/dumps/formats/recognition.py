"""Recognise the format of a dump from its content and read the dump as a stream.

A reader is a module with a NAME, `recognises(head)` and `read(source)`. This module validates all records,
so that every record it yields can be stored in the catalog.
"""

from __future__ import annotations

from datetime import date
from typing import BinaryIO

from digest.dumps.formats import (
    acl_anthology,
    arxiv_listing,
    bibtex,
    decompression,
    html_page,
    huggingface_page,
    mail_page,
    oai_pmh,
    own_csv,
    own_json,
    page_copy,
    paper_list,
    pubmed_nbib,
    pubmed_xml,
    refused_formats,
    ris,
    rss_atom,
    service_json,
    utf16,
    xml_stream,
)
from digest.dumps.formats.reader_interface import (
    DumpInput,
    DumpReading,
    Format,
    Items,
    RecordProblem,
    excerpt,
    mark_truncation,
)
from digest.errors import BadField, UnreadableDump
from digest.papers.paper_record import Record

#: Every format, in the order in which the formats are tried.
FORMATS: tuple[Format, ...] = (
    *service_json.FORMATS, own_json,  # JSON, the most specific first
    rss_atom, oai_pmh, pubmed_xml, acl_anthology, huggingface_page, html_page,  # XML and HTML
    paper_list,  # lists in Markdown, which may contain BibTeX
    arxiv_listing, pubmed_nbib, ris, bibtex,  # plain text with a distinctive beginning
    own_csv,
    page_copy,  # copies of pages
)  # fmt: skip

#: Formats of files with an XML declaration.
XML_FORMATS: tuple[Format, ...] = (rss_atom, oai_pmh, pubmed_xml, acl_anthology)

#: Other names of formats, which `--format` accepts.
OTHER_NAMES = dict.fromkeys(("pairs", "blocks", "markdown"), page_copy.NAME)

#: Files that are mistaken for dumps: magic bytes -> (offset, file type and advice).
KNOWN_BINARY_TYPES = {
    b"PK\x03\x04": (
        0,
        "a zip archive or a document (docx, odt, xlsx, epub). Unpack it, or save the list as CSV",
    ),
    b"ustar": (257, "a tar archive. Unpack it first"),
    b"BZh": (0, "compressed with bzip2. Decompress it first; gzip and Zstandard files can be read directly"),
    b"\xfd7zXZ": (
        0,
        "compressed with xz. Decompress it first; gzip and Zstandard files can be read directly",
    ),
    b"7z\xbc\xaf": (0, "a 7z archive. Unpack it first"),
    b"%PDF-": (0, "a PDF, not a list of papers"),
    b"PAR1": (0, "a Parquet file. Save it as CSV or JSON Lines"),
    b"SQLite format 3": (0, "a SQLite database, not a list of papers"),
}

MAX_TITLE = 1_000
MAX_ABSTRACT = 50_000
MAX_NAMES = 20_000


def read(stream: BinaryIO, *, name: str, observed_on: date, format: str | None = None) -> DumpReading:
    """Start reading the dump in `stream`, which must be seekable.

    Raises UnreadableDump with the reason if the dump cannot be read, and BadField for an unknown `format`.
    """
    unpacked = decompression.decompress(stream)
    text = mail_page.with_page(utf16.utf16_as_utf8(unpacked))
    source = DumpInput(text, name=name, observed_on=observed_on)
    chosen = format_named(format) if format else recognise_format(source)
    header, records = chosen.read(source)
    records = mark_truncation(valid_records(records))
    if unpacked is not stream:
        records = decompression.with_damage(records, unpacked)
    return DumpReading(format=chosen.NAME, header=header, records=records, source=source)


def format_named(format: str) -> Format:
    """Return the format with this name; raise BadField if it does not exist."""
    for known in FORMATS:
        if OTHER_NAMES.get(format, format) == known.NAME:
            return known
    names = ", ".join(known.NAME for known in FORMATS)
    raise BadField("format", f"there is no format {format!r}; the formats are {names}.")


def recognise_format(source: DumpInput) -> Format:
    """Return the first format that recognises the dump; raise UnreadableDump if there is none."""
    refuse_binary(source)
    refused_formats.refuse(source.head)
    if html_page.recognises(source.head):
        return huggingface_page if huggingface_page.has_papers(source) else html_page
    is_xml = xml_stream.is_declared(source.head)
    for known in XML_FORMATS if is_xml else FORMATS:
        if known.recognises(source.head):
            return known
    shown = excerpt(source.head.strip())
    raise UnreadableDump(
        f"The format is not recognised; {refused_formats.INSTEAD}. The file begins with: {shown}"
    )


def refuse_binary(source: DumpInput) -> None:
    """Raise UnreadableDump, with the likely file type, if the dump is empty or not text."""
    beginning = source.first_bytes
    if not beginning.strip():
        raise UnreadableDump("The file is empty.")
    for sign, (place, kind) in KNOWN_BINARY_TYPES.items():
        if beginning.startswith(sign, place):
            raise UnreadableDump(f"The file is {kind}.")
    if b"\0" in beginning:
        raise UnreadableDump("The file is binary, not text.")
    if source.head.count("\ufffd") > max(8, len(source.head) // 20):
        raise UnreadableDump("The file is not UTF-8 text.")


def valid_records(records: Items) -> Items:
    """Yield the records that the catalog can store; replace other records with problems."""
    for record in records:
        if isinstance(record, RecordProblem) or not (reason := record_fault(record)):
            yield record
        else:
            yield RecordProblem(line=record.line, reason=reason, excerpt=excerpt(record.title))


def record_fault(record: Record) -> str:  # noqa: PLR0911  (one return for each fault)
    """Return the reason why a record cannot be stored, or an empty string."""
    if not record.title.strip():
        return "the record has no title"
    if len(record.title) > MAX_TITLE:
        return f"its title has {len(record.title):,} characters"
    if len(record.abstract) > MAX_ABSTRACT:
        return f"its abstract has {len(record.abstract):,} characters"
    if len(record.authors) > MAX_NAMES:
        return f"it has {len(record.authors):,} authors"
    if not is_storable("".join(record_texts(record))):
        return "the record contains characters that are not text (NUL or half of a surrogate pair)"
    return ""


def record_texts(record: Record) -> list[str]:
    """Return the strings that the catalog stores for a record."""
    texts = [record.title, record.abstract, record.comment, record.journal]
    texts += [*record.authors, *record.categories, *record.urls, *record.ids.values()]
    if record.organization is not None:
        texts += [record.organization.handle, record.organization.name]
    return texts


def is_storable(text: str) -> bool:
    """Return whether a database can store `text`, which must not contain NUL or lone surrogates."""
    if text.isascii():
        return "\0" not in text
    return "\0" not in text and not any("\ud800" <= char <= "\udfff" for char in text)
