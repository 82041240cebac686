"""OAI-PMH answers of arXiv and other repositories: `arXivRaw`, `arXiv` and `oai_dc` ("oai-pmh").

`datestamp` is when a record changed; a paper's date is that of its first version.
"""

from __future__ import annotations

import re

from digest.dumps import fields, markup
from digest.dumps.markup import Element
from digest.dumps.reading import Header, Items, Problem, Source, excerpt
from digest.errors import Unreadable
from digest.papers import Announcement, Record

NAME = "oai-pmh"

RECORD = re.compile(r"<(?:\w+:)?record[\s>]")
PAYLOAD = re.compile(r"<(?:\w+:)?(?:arXivRaw|arXiv|dc)[\s>]")
ERROR = re.compile(r"<(?:\w+:)?error\s+code=[\"'](?P<code>\w+)[\"']\s*/?>(?P<text>[^<]{0,300})")
RESPONSE = re.compile(r"<(?:\w+:)?responseDate[^<>]{0,300}>([^<]{10,40})<")


def recognises(head: str) -> bool:
    """Return whether this is an OAI-PMH answer, or records of such answers in a wrapping of somebody's own."""
    root = markup.root_of(head)
    return root in ("OAI-PMH", "ListRecords") or bool(root and RECORD.search(head) and PAYLOAD.search(head))


def read(source: Source) -> tuple[Header, Items]:
    """Read the records; deleted ones are none. Raises Unreadable for an answer that only complains."""
    complaint = ERROR.search(source.head)
    if complaint and complaint["code"] != "noRecordsMatch":
        said = " ".join(f"{complaint['code']}: {complaint['text']}".split())
        raise Unreadable(f"The server answered with an error and no records ({said[:200]}).")
    dated = RESPONSE.search(source.head)
    header = Header(date=fields.day(dated[1]) if dated else None, announced=0 if complaint else None)
    return header, Harvest().records(source)


class Harvest:
    """The pages of a list, the last of which says whether it is the last of all."""

    def __init__(self) -> None:
        self.token = ""  #: asks for the page behind the one that was read last
        self.whole = ""  #: how many records all pages hold
        self.line = 0

    def records(self, source: Source) -> Items:
        """Yield the records, and a remark where a further page was not brought along."""
        yield from markup.records(source, self.record_of, "record", "resumptionToken")
        if self.token:
            whole = f" The whole list has {self.whole} records." if self.whole.isdecimal() else ""
            reason = f"a further page belongs to it, asked for with {excerpt(self.token)!r}.{whole}".rstrip(
                "."
            )
            yield Problem(line=self.line, reason=reason, is_remark=True)

    def record_of(self, found: Element, position: int, line: int) -> Record | None:
        """Return a record; note what stands at the end of a page."""
        if found.tag.rpartition("}")[2] == "resumptionToken":
            self.token, self.whole, self.line = markup.line(found), found.get("completeListSize") or "", line
            return None
        return record_of(found, position, line)


def record_of(found: Element, position: int, line: int) -> Record | None:
    """Return one record, or None for a deleted one."""
    header, metadata = markup.child(found, "header"), markup.child(found, "metadata")
    if metadata is None or len(metadata) == 0 or (header is not None and header.get("status") == "deleted"):
        return None
    content = metadata[0]
    if "dc" in content.tag.rpartition("}")[2]:
        return dublin_core(content, position, line)
    authors = authors_of(content)
    abstract, comment = (
        fields.prose(markup.inner(markup.child(content, "abstract"))),
        markup.text(content, "comments"),
    )
    withdrawn = fields.is_withdrawn(comment, abstract)
    return Record(
        title=markup.text(content, "title"),
        abstract=abstract,
        ids=fields.ids(
            [("arxiv", markup.text(content, "id")), ("doi", markup.text(content, "doi").split(" ")[0])]
        ),
        authors=authors,
        n_authors=len(authors) or None,
        published=fields.spelled_day(markup.text(content, "version/date"))
        or fields.day(markup.text(content, "created")),
        categories=tuple(markup.text(content, "categories").split()),
        announcement=Announcement.WITHDRAWN if withdrawn else Announcement.NEW,
        comment=comment,
        journal=markup.text(content, "journal-ref"),
        position=position,
        line=line,
    )


def authors_of(content: Element) -> tuple[str, ...]:
    """Return the authors: parsed into names, or one line of them all."""
    parsed = markup.children(content, "authors/author")
    if not parsed:
        return fields.names(markup.text(content, "authors"))
    parts = ("forenames", "keyname", "suffix")
    return tuple(" ".join(filter(None, (markup.text(author, part) for part in parts))) for author in parsed)


def dublin_core(content: Element, position: int, line: int) -> Record:
    """Return a Dublin Core record; its later descriptions are comments, its first date the first version's."""
    names = [markup.line(one) for one in markup.children(content, "identifier")]
    texts = [fields.prose(markup.inner(one)) for one in markup.children(content, "description")]
    authors = tuple(inverted(markup.line(one)) for one in markup.children(content, "creator"))
    return Record(
        title=markup.text(content, "title"),
        abstract=texts[0] if texts else "",
        ids=fields.ids_from(*names)
        | fields.ids([("doi", name) for name in names if name.casefold().startswith(("doi:", "10."))]),
        authors=authors,
        n_authors=len(authors) or None,
        published=min(
            filter(None, (fields.day(markup.line(one)) for one in markup.children(content, "date"))),
            default=None,
        ),
        categories=fields.texts([markup.line(one) for one in markup.children(content, "subject")]),
        comment=" ".join(texts[1:]).removeprefix("Comment: "),
        position=position,
        line=line,
    )


def inverted(name: str) -> str:
    """Return "Lind, Per" as "Per Lind"."""
    family, comma, given = name.partition(", ")
    return f"{given} {family}" if comma else name
