"""OAI-PMH answers of arXiv and other repositories: `arXivRaw`, `arXiv` and `oai_dc` ("oai-pmh").

`datestamp` is when a record changed; a paper's date is that of its first version.
"""

from __future__ import annotations

import re

from digest.dumps import fields, markup
from digest.dumps.markup import Element
from digest.dumps.reading import Header, Items, Source
from digest.papers import Announcement, Record

NAME = "oai-pmh"

RESPONSE = re.compile(r"<(?:\w+:)?responseDate[^<>]{0,300}>([^<]{10,40})<")


def recognises(head: str) -> bool:
    """Return whether this is an OAI-PMH answer."""
    return markup.root_of(head) in ("OAI-PMH", "ListRecords")


def read(source: Source) -> tuple[Header, Items]:
    """Read the records; deleted ones are none."""
    dated = RESPONSE.search(source.head)
    nothing = 0 if 'code="noRecordsMatch"' in source.head else None
    header = Header(date=fields.day(dated[1]) if dated else None, announced=nothing)
    return header, markup.records(source, record_of, "record")


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
