"""Read OAI-PMH responses of arXiv and other repositories: `arXivRaw`, `arXiv` and `oai_dc` ("oai-pmh").

A paper's date is the date of its first version; `datestamp` is the date of the record's last change.
"""

from __future__ import annotations

import re

from digest.dumps.formats import clean_values, field_parsing, xml_stream
from digest.dumps.formats.reader_interface import DumpInput, Header, Items, RecordProblem, excerpt
from digest.dumps.formats.xml_stream import Element
from digest.errors import UnreadableDump
from digest.papers.paper_record import Record

NAME = "oai-pmh"

RECORD = re.compile(r"<(?:\w+:)?record[\s>]")
PAYLOAD = re.compile(r"<(?:\w+:)?(?:arXivRaw|arXiv|dc)[\s>]")
ERROR = re.compile(r"<(?:\w+:)?error\s+code=[\"'](?P<code>\w+)[\"']\s*/?>(?P<text>[^<]{0,300})")
RESPONSE = re.compile(r"<(?:\w+:)?responseDate[^<>]{0,300}>([^<]{10,40})<")


def recognises(head: str) -> bool:
    """Return whether the dump is an OAI-PMH response or contains OAI-PMH records in another root element."""
    root = xml_stream.root_element_name(head)
    return root in ("OAI-PMH", "ListRecords") or bool(root and RECORD.search(head) and PAYLOAD.search(head))


def read(source: DumpInput) -> tuple[Header, Items]:
    """Read the records, except deleted ones; raise UnreadableDump for an error response."""
    error = ERROR.search(source.head)
    if error and error["code"] != "noRecordsMatch":
        message = " ".join(f"{error['code']}: {error['text']}".split())
        raise UnreadableDump(f"The server returned an error instead of records ({message[:200]}).")
    dated = RESPONSE.search(source.head)
    header = Header(date=field_parsing.parse_day(dated[1]) if dated else None, announced=0 if error else None)
    return header, OaiHarvest().records(source)


class OaiHarvest:
    """The pages of a harvested list; the last page in the file may refer to a missing page."""

    def __init__(self) -> None:
        self.token = ""  #: the resumption token for the page after the last page read
        self.whole = ""  #: the number of records on all pages
        self.line = 0

    def records(self, source: DumpInput) -> Items:
        """Yield the records, and a remark if a further page is missing from the file."""
        yield from xml_stream.records(source, self.record_of, "record", "resumptionToken")
        if self.token:
            whole = f" Number of records in the whole list: {self.whole}." if self.whole.isdecimal() else ""
            reason = f"a further page exists, with resumption token {excerpt(self.token)!r}.{whole}".rstrip(
                "."
            )
            yield RecordProblem(line=self.line, reason=reason, is_remark=True)

    def record_of(self, found: Element, line: int) -> Record | None:
        """Return the record of an element, or store a resumption token and return None."""
        if found.tag.rpartition("}")[2] == "resumptionToken":
            self.token, self.whole, self.line = (
                xml_stream.one_line(found),
                found.get("completeListSize") or "",
                line,
            )
            return None
        return record_of(found, line)


def record_of(found: Element, line: int) -> Record | None:
    """Return the record of one element, or None for a deleted or empty record."""
    header, metadata = xml_stream.child(found, "header"), xml_stream.child(found, "metadata")
    content = xml_stream.child(metadata, "*")
    if content is None or (header is not None and header.get("status") == "deleted"):
        return None
    if "dc" in content.tag.rpartition("}")[2]:
        return dublin_core(content, line)
    return clean_values.paper(
        title=xml_stream.text_at(content, "title"),
        abstract=xml_stream.inner_text(xml_stream.child(content, "abstract")),
        ids=[
            ("arxiv", xml_stream.text_at(content, "id")),
            ("doi", xml_stream.text_at(content, "doi").split(" ")[0]),
        ],
        authors=authors_of(content),
        published=[xml_stream.text_at(content, "version/date"), xml_stream.text_at(content, "created")],
        categories=xml_stream.text_at(content, "categories").split(),
        comment=xml_stream.text_at(content, "comments"),
        journal=xml_stream.text_at(content, "journal-ref"),
        line=line,
    )


def authors_of(content: Element) -> tuple[str, ...]:
    """Return the authors, given as elements with parsed names or as one line."""
    parsed = xml_stream.children(content, "authors/author")
    if not parsed:
        return field_parsing.split_names(xml_stream.text_at(content, "authors"))
    parts = ("forenames", "keyname", "suffix")
    return tuple(
        " ".join(filter(None, (xml_stream.text_at(author, part) for part in parts))) for author in parsed
    )


def dublin_core(content: Element, line: int) -> Record:
    """Return the record for a Dublin Core element.

    The first description is the abstract and the others are comments. The earliest date is the date of the
    first version.
    """
    names, dates, subjects = (
        [xml_stream.one_line(one) for one in xml_stream.children(content, name)]
        for name in ("identifier", "date", "subject")
    )
    texts = [xml_stream.inner_text(one) for one in xml_stream.children(content, "description")]
    return clean_values.paper(
        title=xml_stream.text_at(content, "title"),
        abstract=texts[0] if texts else "",
        ids=[("doi", name) for name in names if name.casefold().startswith(("doi:", "10."))],
        addresses=names,
        authors=[
            given_name_first(xml_stream.text_at(one, "name") or xml_stream.one_line(one))
            for one in xml_stream.children(content, "creator")
        ],
        published=min(filter(None, map(field_parsing.parse_day, dates)), default=None),
        categories=subjects,
        comment=" ".join(texts[1:]).removeprefix("Comment: "),
        line=line,
    )


def given_name_first(name: str) -> str:
    """Return a name such as "Lind, Per" as "Per Lind"."""
    family, comma, given = name.partition(", ")
    return f"{given} {family}" if comma else name
