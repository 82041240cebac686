"""arXiv's listings in plain text, as its daily mail brings them ("arxiv-listing").

Rules of different make part new papers, cross-lists and replacements; the subject line says how
many there should be, and a last rule that nothing is missing. The marker `(*cross-listing*)` also
stands on replaced papers, so the section decides.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import date
from email import message_from_bytes, policy
from io import BytesIO

from digest.dumps import fields
from digest.dumps.reading import Header, Items, Problem, Source
from digest.papers import Announcement, Record

NAME = "arxiv-listing"

ENTRY = re.compile(r"(?:arXiv:|Paper: )(\S+)(?:\s+\(\*cross-listing\*\))?\s*")
FIELD = re.compile(r"([A-Z][A-Za-z-]{2,20})(?: \(\w+\))?:\s*(.*)")
REPLACED = re.compile(r"replaced with revised version\b.*")
SUBJECT = re.compile(
    r"^Subject:.{0,200}?(\d{1,6})\s{1,3}new\s{0,3}\+\s{0,3}(\d{0,6})\s{0,3}cross", re.MULTILINE
)
MAILED = re.compile(r"^Date: (.*)$", re.MULTILINE)
RECEIVED = re.compile(r"received from {1,4}.{10,40}? {1,4}to {1,4}(.{10,40})$", re.MULTILINE)
ENCODED = re.compile(
    r"^Content-Transfer-Encoding: *(?:base64|quoted-printable)|^Content-Type: *multipart",
    re.IGNORECASE | re.MULTILINE,
)
LARGEST_MAIL = 32 * 1024 * 1024
END = re.compile(r"(?:%%%---){4,}")
RULES = (
    (END, "end"),
    (re.compile(r"(?:%%--){4,}"), "replaced"),
    (re.compile(r"(?:%-){8,}"), "cross"),
    (re.compile(r"-{60,}\s*"), "entry"),
)
LONGEST = 2_000  #: lines of one entry, and characters of one line


def recognises(head: str) -> bool:
    """Return whether entries stand between double backslashes, or a mail announces how many there are."""
    return re.search(r"^\\\\\r?\n(?:arXiv:|Paper: |/\* )", head, re.MULTILINE) is not None or is_mail(head)


def is_mail(head: str) -> bool:
    """Return whether a text begins with the headers of arXiv's mail."""
    headers = re.split(r"\r?\n\r?\n", head, maxsplit=1)[0]
    return bool(MAILED.search(headers) and SUBJECT.search(headers))


def read(source: Source) -> tuple[Header, Items]:
    """Read the listing, and check it against its own subject line and last rule."""
    head = source.head.replace("\r", "")
    if ENCODED.search(head.partition("\n\n")[0]):
        source = decoded(source)
        head = source.head.replace("\r", "")
    before = head.partition("\n\\\\\n")[0]
    subject, mailed, received = SUBJECT.search(before), MAILED.search(before), RECEIVED.search(before)
    day = fields.spelled_day(mailed[1]) if mailed else fields.spelled_day(received[1]) if received else None
    announced = int(subject[1]) + int(subject[2] or 0) if subject else None
    is_mail = mailed is not None and "Subject:" in before
    return Header(date=day, announced=announced), checked(source, announced, must_end=is_mail)


def decoded(source: Source) -> Source:
    """Return a mail that was encoded for its way (quoted-printable, base64) as it was written."""
    mail = message_from_bytes(source.whole(LARGEST_MAIL), policy=policy.default)
    body = mail.get_body(("plain",))
    text = f"Date: {mail['Date']}\nSubject: {mail['Subject']}\n\n{body.get_content() if body else ''}"
    return Source(BytesIO(text.encode(errors="replace")), name=source.name, observed_on=source.observed_on)


def checked(source: Source, announced: int | None, *, must_end: bool) -> Items:
    """Yield the records, and what is missing at the end of them."""
    fresh, line, ended = 0, 0, False
    for found in entries(source):
        if isinstance(found, Finished):
            line, ended = found.line, found.has_end
            continue
        fresh += isinstance(found, Record) and found.announcement is not Announcement.REPLACED
        yield found
    if announced is not None and fresh < announced:
        reason = f"its subject announces {announced} new papers and cross-lists, and {fresh} are here"
        yield Problem(line=line, reason=reason, is_truncation=True, missing=announced - fresh)
    elif must_end and not ended:
        yield Problem(line=line, reason="the rule that ends a listing is missing", is_truncation=True)


@dataclass(frozen=True, slots=True)
class Finished:
    """The end of the file."""

    line: int
    has_end: bool


@dataclass(kw_only=True, slots=True)
class Block:
    """One entry being read."""

    line: int
    section: str
    header: list[str] = field(default_factory=list)
    abstract: list[str] = field(default_factory=list)
    parts: int = 0  #: double backslashes met
    fault: str = ""


def entries(source: Source) -> Iterator[Record | Problem | Finished]:
    """Yield the entries, and at last how the file ended."""
    section, block, position, number, ended = "new", None, 0, 0, False
    for number, text, fault in source.lines():
        rule = None if fault else next((name for rule, name in RULES if rule.fullmatch(text.rstrip())), None)
        if rule is None and text.startswith("%") and not fault:
            rule = next((name for rule, name in RULES if rule.match(text)), None)
        if rule is not None or (block is not None and block.parts == 3 and text == "\\\\"):
            if block is not None and (record := record_of(block, position + 1)) is not None:
                position += isinstance(record, Record)
                yield record
            section = rule if rule in ("cross", "replaced") else section
            block = Block(line=number, section=section) if rule != "end" else None
            ended = ended or rule == "end"
            if rule is not None:
                continue
        if ended and text == "\\\\":  # the first entry of another mail in the same file
            section, ended, block = "new", False, Block(line=number, section="new")
        if block is None or ended:
            continue
        take(block, number, text, fault)
    if block is not None and (record := record_of(block, position + 1)) is not None:
        yield record
    yield Finished(number, ended)


def take(block: Block, number: int, text: str, fault: str) -> None:
    """Add a line to the entry at hand."""
    if fault:
        block.fault = f"line {number}: {fault}"
    elif text.startswith("\\\\"):
        block.parts += 1
        if block.parts == 1:
            block.line = number + 1
    elif block.parts == 1 and len(block.header) < LONGEST:
        block.header.append(text[:LONGEST])
    elif block.parts == 2 and len(block.abstract) < LONGEST:
        block.abstract.append(text[:LONGEST])


def record_of(block: Block, position: int) -> Record | Problem | None:
    """Return the entry as a record; None for a block that holds none."""
    found = ENTRY.fullmatch(block.header[0]) if block.header else None
    if found is None:
        return None
    if block.fault:
        return Problem(line=block.line, reason=block.fault)
    told = fields_of(block.header[1:])
    ids = fields.ids([("arxiv", found[1]), ("doi", told.get("DOI", "").split(" ")[0])])
    if "arxiv" not in ids:
        return Problem(line=block.line, reason=f"{found[1][:60]!r} is no arXiv id")
    authors = fields.names(told.get("Authors", told.get("Author", "")))
    abstract = fields.prose("\n".join(block.abstract))
    announcement = announcement_of(block, told, abstract)
    return Record(
        title=fields.text(told.get("Title", "")),
        abstract=abstract,
        ids=ids,
        authors=authors,
        n_authors=len(authors) or None,
        published=published(told, announcement),
        categories=tuple(told.get("Categories", told.get("Subj-class", "")).split()),
        announcement=announcement,
        comment=fields.text(told.get("Comments", "")),
        journal=fields.text(told.get("Journal-ref", "")),
        position=position,
        line=block.line,
    )


def fields_of(lines: list[str]) -> dict[str, str]:
    """Return the fields of an entry; lines that begin with two spaces go on with the one before."""
    told: dict[str, str] = {}
    name = ""
    for line in lines:
        if name and line.startswith("  "):
            told[name] += " " + line.strip()
        elif REPLACED.match(line):
            told["replaced"] = line
        elif found := FIELD.match(line):
            name = found[1]
            told.setdefault(name, found[2].strip())
    return told


def announcement_of(block: Block, told: dict[str, str], abstract: str) -> Announcement:
    """Return how the paper is presented: by its section, and by what its authors say."""
    if fields.is_withdrawn(told.get("Comments", ""), abstract):
        return Announcement.WITHDRAWN
    if block.section == "replaced" or "replaced" in told:
        return Announcement.REPLACED
    is_cross = block.section == "cross" or "(*cross-listing*)" in block.header[0]
    return Announcement.CROSS if is_cross else Announcement.NEW


def published(told: dict[str, str], announcement: Announcement) -> date | None:
    """Return the day of the first version, which a replacement does not tell."""
    return None if announcement is Announcement.REPLACED else fields.spelled_day(told.get("Date", ""))
