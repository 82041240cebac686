"""Compare what stands in a raw file with the records that were read from it.

The file is searched for addresses of papers and for beginnings of entries without the rules of any reader.
"""

from __future__ import annotations

import re
from bisect import bisect
from collections.abc import Iterator
from dataclasses import dataclass, field

from digest import plurals
from digest.dumps.formats.reader_interface import DumpReading, Items, RecordProblem, doubt
from digest.papers.paper_record import Record

Address = tuple[str, str]  #: (scheme, id)

ARXIV_ID = rb"(?P<arxiv>\d{4}\.\d{4,5}|[a-z-]{2,16}(?:\.[A-Z]{2})?/\d{7})"
#: Addresses of papers. Each pattern begins with fixed and rare letters, for which the search is fast.
ADDRESSES = tuple(
    re.compile(pattern)
    for pattern in (
        rb"xiv\.org/(?<=r.{8})(?:abs|pdf|html|format)/" + ARXIV_ID,
        rb"Xiv:\s?" + ARXIV_ID,
        rb"/papers/" + ARXIV_ID,
        rb"(?P<doi>10\.\d{4,9}/[^\s\"'<>&;,|\\\]}*`?#]+)",
        rb"pubmed(?:\.ncbi\.nlm\.nih\.gov)?/(?P<pmid>\d{4,9})",
        rb"PMID[-: ]{1,3}(?P<pmid>\d{4,9})",
        rb"gy\.org/(?<=aclantholo.{7})(?P<acl>[A-Z]\d\d-\d{4}|\d{4}\.[a-z0-9_]+-[a-z0-9_]+\.[1-9]\d{0,4})",
        rb"view\.net/(?<=openre.{9})(?:forum|pdf)\?id=(?P<openreview>[\w-]{8,12})",
    )
)
#: What a publisher adds to the DOI in an address.
DOI_ENDING = re.compile(r"(?:v\d{1,2})?(?:[./](?:full|abstract|pdf|html|meta|epub|short)(?:-text)?)*[.:/]*$")
DOI_STOP = re.compile(r"[<>&;,|\"'\s\\\]}*`?#]")
ARXIV_DOI = "10.48550/arxiv."
ESCAPED_SLASH = re.compile(rb"\\/")
#: Lists of the works to which a paper refers: `"references": [`, `<ReferenceList>`, a tag of Web of Science.
REFERENCES = re.compile(
    rb'"[\w-]{0,12}(?:[Rr]efer|citing|cited|citations|[Rr]elat)[\w-]{0,16}"\s{0,9}:\s{0,9}(?=[\[{])'
    rb"|<(?P<element>ReferenceList|CommentsCorrectionsList|citation_list|ref-list|relatedIdentifiers)\b"
    rb"|[Cc]ited-[Rr]eferences\s*=\s*(?=\{)|^CR  (?=- |\S)",
    re.MULTILINE,
)
BRACKET = re.compile(rb"[\[\]{}]")
NEXT_TAG = re.compile(rb"\n(?=[A-Z][A-Z0-9]  )")
#: Formats of texts in which nothing but its place shows to which paper an address belongs.
TEXT_FORMATS = ("list", "page", "html")
#: How an entry begins, keyed by format.
ENTRIES = {
    "bibtex": rb"^[ \t]*@(?!(?i:comment|string|preamble|proceedings)\b)[A-Za-z]{3,30}\s*[{(]",
    "ris": rb"^[ \t]{0,8}TY {1,4}-",
    "nbib": rb"^PMID-",
    "feed": rb"<(?:item|entry)[\s>]",
    "pubmed": rb"<Pubmed(?:Book)?Article[\s>]",
}
MAX_BYTES = 8 * 1024 * 1024  #: only the beginning of a file is compared
MAX_LOSS = 0.05  #: maximum share of lost papers in a dump that is loaded
MIN_SIZE = 4_000  #: a page with more bytes than this is checked against `MIN_SHARE`
MIN_SHARE = 0.04  #: minimum share of a page that its titles and abstracts must make up
MIN_MISCOUNT = 3
MIN_SMALL = 10  #: of so many entries in a structured file, the address of one may belong to another work, such as its book


@dataclass(kw_only=True, slots=True)
class Tally:
    """What was read from a dump so far."""

    papers: int = 0
    rejected: int = 0
    characters: int = 0  #: in titles and abstracts
    has_faulty_lines: bool = False
    first_line: int = 0  #: the line of the first paper
    without_ids: int = 0  #: number of papers without an id
    has_last_id: bool = False  #: whether the last paper has an id
    ids: set[Address] = field(default_factory=set)  #: as they were read
    texts: list[str] = field(default_factory=list)  #: in which other addresses may stand

    def count(self, record: Record) -> None:
        """Count a record, and keep its ids and texts."""
        self.papers += 1
        self.first_line = self.first_line or record.line
        self.without_ids += not record.ids
        self.has_last_id = bool(record.ids)
        self.characters += len(record.title) + len(record.abstract)
        if self.characters < MAX_BYTES:
            self.ids.update(record.ids.items())
            self.texts += (record.abstract, record.title, record.comment, record.journal, *record.urls)


def addresses_in(content: bytes) -> dict[Address, int]:
    """Return {address: offset} for each address of a paper in `content`, which escapes no slashes."""
    found: dict[Address, int] = {}
    for pattern in ADDRESSES:
        for match in pattern.finditer(content):
            scheme = match.lastgroup or ""
            found.setdefault(normalised(scheme, match[scheme].decode(errors="replace")), match.start())
    return found


def normalised(scheme: str, value: str) -> Address:
    """Return an address in one spelling; for a DOI assigned by arXiv, return the arXiv id."""
    if scheme == "doi":
        name = DOI_STOP.split(value.casefold().replace("%2f", "/"))[0]
        while name.endswith(")") and name.count("(") < name.count(")"):
            name = name[:-1]
        name = DOI_ENDING.sub("", name)
        if not name.startswith(ARXIV_DOI):
            return scheme, name
        scheme, value = "arxiv", name.removeprefix(ARXIV_DOI).partition("v")[0]
    if scheme == "arxiv" and "/" in value:
        archive, _, number = value.casefold().partition("/")
        value = f"{archive.partition('.')[0]}/{number}"
    return scheme, value


def losses(reading: DumpReading, tally: Tally) -> Items:
    """Yield a remark on lost papers, and on a page most of whose text was not used."""
    content = reading.source.rewind().read(MAX_BYTES)
    is_text = reading.format in TEXT_FORMATS
    yield from lost_addresses(content, tally, is_text=is_text)
    if len(content) < MAX_BYTES:
        yield from lost_entries(content, reading.format, tally)
        if is_text and reading.format != "html" and not tally.has_faulty_lines:
            yield from unused_text(len(content), tally)
    yield from miscount(reading.header.announced, tally, is_text=is_text)


def lost_addresses(content: bytes, tally: Tally, *, is_text: bool) -> Items:
    """Yield a remark if addresses of papers stand in the file that no record has.

    In a structured file, a paper may have several addresses: only papers without any address can be lost.
    """
    content = ESCAPED_SLASH.sub(b"/", content)
    there = addresses_in(content)
    lost = {address: offset for address, offset in there.items() if address not in tally.ids}
    if lost:
        named = set(addresses_in(" ".join(tally.texts).encode(errors="replace")))
        named |= {normalised(scheme, name) for scheme, name in tally.ids}
        lost = {address: offset for address, offset in lost.items() if address not in named}
    if lost and not is_text:
        skipped = list(reference_lists(content))
        begins = [begin for begin, _ in skipped]
        lost = {
            address: offset
            for address, offset in lost.items()
            if not (place := bisect(begins, offset)) or skipped[place - 1][1] <= offset
        }
    known = len(there) - len(lost)
    papers = tally.papers + tally.rejected
    missing = len(lost) if is_text or not papers else min(len(lost), max(0, papers - known))
    if not missing:
        return
    total = len(there) if is_text else max(papers, missing)
    address, offset = min(lost.items(), key=lambda one: one[1])
    line = content.count(b"\n", 0, offset) + 1
    #: whether each paper may have the id of the next: the first id was not read, and the last paper has none
    is_shifted = is_text and line < tally.first_line and tally.without_ids == 1 and not tally.has_last_id
    yield RecordProblem(
        line=line,
        reason=f"{plurals.count(missing + known, 'address', 'addresses')} of papers stand in the file, but only {known:,} "
        f"{'was' if known == 1 else 'were'} read; the first that was not is on line {line}: {address[0]} {address[1]}",
        is_remark=True,
        is_doubt=(missing > MAX_LOSS * total and (is_text or missing > 1 or total < MIN_SMALL)) or is_shifted,
    )


def reference_lists(content: bytes) -> Iterator[tuple[int, int]]:
    """Yield the beginning and the end of each list of works to which a paper refers."""
    end = 0
    for found in REFERENCES.finditer(content):
        if found.start() < end:
            continue
        if found["element"]:
            end = content.find(b"</" + found["element"], found.end())
        elif found[0].startswith(b"CR"):
            after = NEXT_TAG.search(content, found.end())
            end = after.start() if after else -1
        else:
            end = end_of_brackets(content, found.end())
        end = len(content) if end < 0 else end
        yield found.start(), end


def end_of_brackets(content: bytes, start: int) -> int:
    """Return where the bracket that opens at `start` closes, or -1."""
    depth = 0
    for bracket in BRACKET.finditer(content, start):
        depth += 1 if bracket[0] in b"[{" else -1
        if not depth:
            return bracket.end()
    return -1


def lost_entries(content: bytes, format: str, tally: Tally) -> Items:
    """Yield a doubt if more entries begin in the file than were read or rejected."""
    pattern = ENTRIES.get(format)
    there = sum(1 for _ in re.finditer(pattern, content, re.MULTILINE)) if pattern else 0
    read = tally.papers + tally.rejected
    if there > read + MAX_LOSS * there:
        yield doubt(f"{plurals.count(there, 'entry', 'entries')} begin in the file, but {read:,} were read")


def unused_text(size: int, tally: Tally) -> Items:
    """Yield a doubt if titles and abstracts make up only a small part of a page."""
    if tally.papers and size > MIN_SIZE and tally.characters < MIN_SHARE * size:
        yield doubt(
            f"the titles and abstracts that were read make up only {tally.characters:,} of the {size:,} characters"
        )


def miscount(announced: int | None, tally: Tally, *, is_text: bool) -> Items:
    """Yield a doubt if far more or fewer papers were read than a page says it lists."""
    if not is_text or announced is None:
        return
    if abs(tally.papers - announced) >= max(MIN_MISCOUNT, 0.1 * announced):
        yield doubt(f"the page says that it lists {announced:,} papers, but {tally.papers:,} were read")
