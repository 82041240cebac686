"""Read arXiv's plain-text listings, such as its daily mail ("arxiv-listing").

Different horizontal rules separate new papers, cross-lists and replacements. The subject line announces
the number of papers, and a final rule marks the end. The kind of announcement is taken from the section,
since the marker `(*cross-listing*)` also appears on replaced papers.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from io import BytesIO

from digest.dumps.formats import clean_values, field_parsing
from digest.dumps.formats.reader_interface import DumpInput, Header, Items, RecordProblem
from digest.mail import mail_parsing
from digest.papers.paper_record import Announcement, Record

NAME = "arxiv-listing"

ENTRY_LINE = re.compile(r"(?:arXiv:|Paper(?: \(\*cross-listing\*\))?: )(\S+)(?:\s+\(\*cross-listing\*\))?\s*")
FIELD_LINE = re.compile(r"([A-Z][A-Za-z-]{2,20})(?: \(\w+\))?:\s*(.*)")
REPLACED_LINE = re.compile(r"replaced with revised version\b.*")
SUBJECT_COUNTS = re.compile(
    r"^Subject:.{0,200}?(\d{1,6})\s{1,3}new\s{0,3}\+\s{0,3}(\d{0,6})\s{0,3}cross", re.MULTILINE
)
MAIL_DATE = re.compile(r"^Date: (.*)$", re.MULTILINE)
RECEIVED_PERIOD = re.compile(r"received from {1,4}.{10,40}? {1,4}to {1,4}(.{10,40})$", re.MULTILINE)
TRANSFER_ENCODING = re.compile(
    r"^Content-Transfer-Encoding: *(?:base64|quoted-printable)|^Content-Type: *multipart",
    re.IGNORECASE | re.MULTILINE,
)
LARGEST_MAIL = 32 * 1024 * 1024
END_RULE = re.compile(r"(?:%%%---){4,}")
RULES = (
    (END_RULE, "end"),
    (re.compile(r"(?:%%--){4,}"), "replaced"),
    (re.compile(r"(?:%-){8,}"), "cross"),
    (re.compile(r"-{60,}\s*"), "entry"),
)
#: maximum number of characters stored from a line, and of lines stored in each part of an entry
MAX_LINE_LENGTH = 2_000


def recognises(head: str) -> bool:
    """Return whether the dump is a message from arXiv or has entries separated by double backslashes."""
    has_entries = "\\\\" in head and re.search(
        r"^\\\\\r?\n(?:arXiv:|Paper: |Paper \(|/\* )", head, re.MULTILINE
    )
    return bool(has_entries) or is_mail(head)


def is_mail(head: str) -> bool:
    """Return whether `head` begins with the headers of a message from arXiv."""
    if "\nDate: " not in head and not head.startswith("Date: "):
        return False
    headers = re.split(r"\r?\n\r?\n", head, maxsplit=1)[0]
    return bool(MAIL_DATE.search(headers) and SUBJECT_COUNTS.search(headers))


def read(source: DumpInput) -> tuple[Header, Items]:
    """Read the listing; check it against its subject line and, in a message, check for the closing line."""
    head = source.head.replace("\r", "")
    if TRANSFER_ENCODING.search(head.partition("\n\n")[0]):
        source = decode_mail(source)
        head = source.head.replace("\r", "")
    before = head.partition("\n\\\\\n")[0]
    subject, mailed, received = (
        SUBJECT_COUNTS.search(before),
        MAIL_DATE.search(before),
        RECEIVED_PERIOD.search(before),
    )
    dated = mailed or received
    day = field_parsing.parse_day(dated[1]) if dated else None
    announced = int(subject[1]) + int(subject[2] or 0) if subject else None
    is_mail = mailed is not None and "Subject:" in before
    return Header(date=day, announced=announced), check_complete(source, announced, must_end=is_mail)


def decode_mail(source: DumpInput) -> DumpInput:
    """Return the message with its transfer encoding (quoted-printable or base64) decoded."""
    mail = mail_parsing.parse_message(source.read_all(LARGEST_MAIL), is_whole=True)
    body = next(mail_parsing.parts_of_type(mail, frozenset({"text/plain"})), None)
    headers = "".join(f"{name}: {mail_parsing.header_text(mail, name)}\n" for name in ("Date", "Subject"))
    text = f"{headers}\n{mail_parsing.text_of(body) if body else ''}"
    return DumpInput(BytesIO(text.encode(errors="replace")), name=source.name, observed_on=source.observed_on)


def check_complete(source: DumpInput, announced: int | None, *, must_end: bool) -> Items:
    """Yield the records, then a problem if announced papers or the closing line are missing."""
    fresh, line, ended = 0, 0, False
    for found in entries(source):
        if isinstance(found, ListingEnd):
            line, ended = found.line, found.has_end
            continue
        fresh += isinstance(found, Record) and found.announcement is not Announcement.REPLACED
        yield found
    if announced is not None and fresh < announced:
        reason = f"its subject announces {announced} new papers and cross-lists, but the file has {fresh}"
        yield RecordProblem(line=line, reason=reason, is_truncation=True, missing_papers=announced - fresh)
    elif must_end and not ended:
        yield RecordProblem(
            line=line,
            reason="the closing line (%%%---) is missing, so the listing is probably incomplete",
            is_truncation=True,
        )


@dataclass(frozen=True, slots=True)
class ListingEnd:
    """The last item of `entries`: the number of the last line, and whether a closing line was found."""

    line: int
    has_end: bool


@dataclass(kw_only=True, slots=True)
class ListingEntry:
    """A listing entry that is being read."""

    line: int
    section: str
    header: list[str] = field(default_factory=list)
    abstract: list[str] = field(default_factory=list)
    parts: int = 0  #: number of lines read so far that begin with a double backslash
    fault: str = ""


def entries(source: DumpInput) -> Iterator[Record | RecordProblem | ListingEnd]:
    """Yield the record or problem of each entry, and finally a ListingEnd."""
    section, block, number, ended = "new", None, 0, False
    for number, text, fault in source.lines():
        rule = None if fault else next((name for rule, name in RULES if rule.fullmatch(text.rstrip())), None)
        if rule is None and text.startswith("%") and not fault:
            rule = next((name for rule, name in RULES if rule.match(text)), None)
        if rule is not None or (block is not None and block.parts == 3 and text == "\\\\"):
            if block is not None and (record := record_of(block)) is not None:
                yield record
            section = rule if rule in ("cross", "replaced") else section
            block = ListingEntry(line=number, section=section) if rule != "end" else None
            ended = ended or rule == "end"
            if rule is not None:
                continue
        if (
            ended or block is None
        ) and text == "\\\\":  # the first entry of the file or of a further message in the same file
            section, ended, block = "new", False, ListingEntry(line=number, section="new")
        if block is None or ended:
            continue
        add_line(block, number, text, fault)
    if block is not None and (record := record_of(block)) is not None:
        yield record
    yield ListingEnd(number, ended)


def add_line(block: ListingEntry, number: int, text: str, fault: str) -> None:
    """Add a line to the header or the abstract of an entry, or record the line's fault."""
    if fault:
        block.fault = f"line {number}: {fault}"
    elif text.startswith("\\\\"):
        block.parts += 1
        if block.parts == 1:
            block.line = number + 1
    elif block.parts == 1 and len(block.header) < MAX_LINE_LENGTH:
        block.header.append(text[:MAX_LINE_LENGTH])
    elif block.parts == 2 and len(block.abstract) < MAX_LINE_LENGTH:
        block.abstract.append(text[:MAX_LINE_LENGTH])


def record_of(block: ListingEntry) -> Record | RecordProblem | None:
    """Return the record of an entry, or None if the block contains no entry."""
    found = ENTRY_LINE.fullmatch(block.header[0]) if block.header else None
    if found is None:
        return None
    if block.fault:
        return RecordProblem(line=block.line, reason=block.fault)
    entry_fields = fields_of(block.header[1:])
    ids = field_parsing.normalised_ids(
        [("arxiv", found[1]), ("doi", entry_fields.get("DOI", "").split(" ")[0])]
    )
    if "arxiv" not in ids:
        return RecordProblem(line=block.line, reason=f"{found[1][:60]!r} is not an arXiv id")
    announcement = announcement_of(block, entry_fields)
    return clean_values.paper(
        title=entry_fields.get("Title"),
        abstract="\n".join(block.abstract),
        ids=ids.items(),
        authors=field_parsing.split_names(entry_fields.get("Authors", entry_fields.get("Author", ""))),
        published=entry_fields.get("Date") if announcement is not Announcement.REPLACED else None,
        categories=entry_fields.get("Categories", entry_fields.get("Subj-class", "")).split(),
        announcement=announcement,
        comment=entry_fields.get("Comments"),
        journal=entry_fields.get("Journal-ref"),
        line=block.line,
    )


def fields_of(lines: list[str]) -> dict[str, str]:
    """Return the fields of an entry; a line that begins with two spaces continues the previous field."""
    entry_fields: dict[str, str] = {}
    name = ""
    for line in lines:
        if name and line.startswith("  "):
            entry_fields[name] += " " + line.strip()
        elif REPLACED_LINE.match(line):
            entry_fields["replaced"] = line
        elif found := FIELD_LINE.match(line):
            name = found[1]
            entry_fields.setdefault(name, found[2].strip())
    return entry_fields


def announcement_of(block: ListingEntry, entry_fields: dict[str, str]) -> Announcement:
    """Return the kind of announcement, based on the section of the listing; a replacement states no first date."""
    if block.section == "replaced" or "replaced" in entry_fields:
        return Announcement.REPLACED
    is_cross = block.section == "cross" or "(*cross-listing*)" in block.header[0]
    return Announcement.CROSS if is_cross else Announcement.NEW
