"""Read arXiv's RSS and Atom feeds, the Atom responses of its API, and other feeds of papers ("feed").

An arXiv feed marks each paper as new, cross-listed or replaced. A date in a feed is the date of the
announcement; a date from the API is the date of the first version.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from digest.dumps.formats import clean_values, field_parsing, xml_stream
from digest.dumps.formats.reader_interface import DumpInput, Header, Items
from digest.dumps.formats.xml_stream import Element
from digest.errors import UnreadableDump
from digest.papers.paper_record import Announcement, Record

NAME = "feed"

ANNOUNCEMENT_PREFIX = re.compile(
    r"\s*arXiv:\S+\s+Announce Type:\s*(?P<type>[\w-]+)\s*(?:Abstract:)?\s*", re.IGNORECASE
)
#: What arXiv's RSS 1.0 adds to a title: `. (arXiv:2611.05001v1 [math.QA] UPDATED)`.
TITLE_ENDING = re.compile(r"\.? \(arXiv:\S+ \[(?P<category>[\w.-]+)\](?: (?P<type>UPDATED|CROSS LISTED))?\)$")
ANNOUNCEMENT_TYPES = {
    "new": Announcement.NEW, "cross": Announcement.CROSS, "replace": Announcement.REPLACED,
    "replace-cross": Announcement.REPLACED, "withdrawn": Announcement.WITHDRAWN,
    "UPDATED": Announcement.REPLACED, "CROSS LISTED": Announcement.CROSS,
}  # fmt: skip
FEED_DATE = re.compile(r"<(?:\w+:)?(?:pubDate|lastBuildDate|updated|date)\b[^<>]{0,300}>([^<]{8,60})<")
ERROR_LINKS = ("http://arxiv.org/api/errors", "https://arxiv.org/api/errors")
OAI_PREFIX = re.compile(r"oai:arXiv\.org:", re.IGNORECASE)
BLOCK_END = re.compile(r"</(?:p|div|h\d|li|td)>|<br\s*/?>", re.IGNORECASE)
#: A line of a publisher's description that names its content.
LABELLED = re.compile(
    r"(?P<label>abstract|authors?(?:\(s\))?|doi|source|publication date)(?:\s*:\s*|\s*$|\s(?=[A-Z]))(?P<text>.*)",
    re.IGNORECASE,
)
#: A line that cites a paper: `Volume 55, Issue 3, Page 1-9`, `J Kites. 2026 Nov 5. doi: ...`, `KITES, EarlyView.`
CITATION = re.compile(
    r"(?:volume|issue|page|vol\.?) \d|\bdoi:|\bEarlyView\b|, ahead of print|\b\d+: \d+-\d+", re.IGNORECASE
)
LONGEST_CITATION = 250  #: characters
ADDRESSES = ("guid", "id", "identifier", "link", "DOI", "doi")
TEXTS = ("description", "summary", "encoded", "content")
#: Elements that are read in another form, or that say nothing about a paper.
KNOWN = frozenset(
    (*ADDRESSES, *TEXTS, "pubDate", "published", "updated", "date", "rights", "license", "copyright")
)


def recognises(head: str) -> bool:
    """Return whether the dump is an RSS or Atom feed."""
    return xml_stream.root_element_name(head) in ("rss", "feed", "RDF")


def read(source: DumpInput) -> tuple[Header, Items]:
    """Read the entries; if the feed has none, the header announces 0 papers."""
    start = re.search(r"<(?:\w+:)?(?:item|entry)\b", source.head)
    before = source.head[: start.start()] if start else source.head
    dated = FEED_DATE.search(before)
    header = Header(date=field_parsing.parse_day(dated[1]) if dated else None, announced=None if start else 0)

    def convert(entry: Element, line: int) -> Record:
        texts = {
            one.tag.rpartition("}")[2]: xml_stream.one_line(one) for one in entry if isinstance(one.tag, str)
        }
        fields = {name: text for name, text in texts.items() if name not in KNOWN}
        return source.note_fields(fields, record_of(entry, line))

    return header, xml_stream.records(source, convert, "item", "entry")


def record_of(entry: Element, line: int) -> Record:
    """Return the record for one entry; raise UnreadableDump for an error message of arXiv's API."""
    summary = xml_stream.inner_text(first_child(entry, *TEXTS))
    prefix = ANNOUNCEMENT_PREFIX.match(summary)
    links = [link.get("href") or xml_stream.one_line(link) for link in xml_stream.children(entry, "link")]
    if any(link.startswith(ERROR_LINKS) for link in links):
        raise UnreadableDump(
            f"arXiv returned an error instead of papers ({field_parsing.as_text(summary)[:200]})."
        )
    names = identifiers_of(entry)
    is_arxiv = "arxiv.org" in " ".join((*links, *names)).casefold()
    title = xml_stream.text_at(entry, "title")
    ending = TITLE_ENDING.search(title) if is_arxiv else None
    kind = (
        xml_stream.text_at(entry, "announce_type")
        or (prefix["type"] if prefix else "")
        or (ending["type"] if ending else "")
    )
    described = {} if is_arxiv else labelled_texts(entry)
    stamp = xml_stream.one_line(first_child(entry, "published", "pubDate", "date", "updated"))
    printed = field_parsing.parse_day(stamp)
    announcement = ANNOUNCEMENT_TYPES.get(kind or "", Announcement.NEW)
    return clean_values.paper(
        title=title[: ending.start()] if ending else title,
        abstract=summary[prefix.end() :] if prefix else described.get("abstract", summary),
        ids=ids_of([*names, described.get("doi", "")], is_arxiv=is_arxiv),
        addresses=links,
        authors=authors_of(entry) or field_parsing.split_names(described.get("author", "")),
        published=None if announcement is Announcement.REPLACED else printed,
        posted=printed if kind and announcement is not Announcement.REPLACED else None,
        categories=(ending["category"],) if ending else categories_of(entry),
        urls=() if is_arxiv else links,
        announcement=announcement,
        comment=xml_stream.text_at(entry, "comment"),
        journal=xml_stream.one_line(
            first_child(entry, "journal_ref", "journal_reference", "publicationName", "source")
        )
        or described.get("source", ""),
        line=line,
    )


def identifiers_of(entry: Element) -> list[str]:
    """Return the texts of all elements that may identify the paper."""
    return [
        xml_stream.one_line(one)
        for name in ADDRESSES
        if name != "link"
        for one in xml_stream.children(entry, name)
    ]


def ids_of(names: Iterable[str], *, is_arxiv: bool) -> list[tuple[str, str]]:
    """Return the ids among identifiers such as `oai:arXiv.org:2611.00001v1`, `doi:10.5555/x` or `pmid:123`."""
    pairs = []
    for name in names:
        scheme, _, value = name.partition(":")
        bare = OAI_PREFIX.sub("", name)
        pairs += [("arxiv", bare)] if is_arxiv else []
        pairs += [("doi", name.split(" ")[0])] if "10." in name else []
        pairs += [("pmid", value)] if scheme.casefold() in {"pmid", "pubmed"} else []
    return pairs


def labelled_texts(entry: Element) -> dict[str, str]:
    """Return the abstract of an entry, and its authors, DOI and journal if a description names them.

    Publishers repeat the title's data in the description, and give the abstract under a heading or in
    another element.
    """
    texts = [xml_stream.inner_text(one) for name in TEXTS for one in xml_stream.children(entry, name)]
    found: dict[str, str] = {}
    plain: list[str] = []
    for text in texts:
        lines = [
            clean_values.without_tags(line)
            for line in BLOCK_END.sub("\n", text.strip()).split("\n\n" if "<" not in text else "\n")
        ]
        for place, line in enumerate(lines):
            if labelled := LABELLED.match(line):
                label = labelled["label"].casefold().partition("(")[0].rstrip("s")
                rest = lines[place + 1 :] if label == "abstract" and not labelled["text"] else []
                found.setdefault(label, " ".join([labelled["text"], *rest]).strip())
        is_citation = [len(line) <= LONGEST_CITATION and CITATION.search(line) for line in lines]
        plain.append(
            " ".join(
                line
                for line, cited in zip(lines, is_citation, strict=True)
                if not (cited or LABELLED.match(line))
            )
        )
    longest = max(plain, key=len, default="")
    return {"abstract": longest if any(map(str.isalpha, longest)) else ""} | {
        label: text for label, text in found.items() if text
    }


def first_child(entry: Element, *names: str) -> Element | None:
    """Return the child with the first of these names that the entry has, or None."""
    return next((found for name in names if (found := xml_stream.child(entry, name)) is not None), None)


def authors_of(entry: Element) -> tuple[str, ...]:
    """Return the authors, given as one element per author or as one line."""
    elements = xml_stream.children(entry, "author")
    named = tuple(filter(None, (xml_stream.text_at(author, "name") for author in elements)))
    creators = [*xml_stream.children(entry, "creator"), *(() if named else elements)]
    lines = [clean_values.without_tags(xml_stream.one_line(creator)) for creator in creators]
    return named or (field_parsing.split_names(lines[0]) if len(lines) == 1 else tuple(filter(None, lines)))


def categories_of(entry: Element) -> tuple[str, ...]:
    """Return the categories, the primary one first."""
    primary = xml_stream.child(entry, "primary_category")
    terms = [] if primary is None else [primary.get("term")]
    terms += [one.get("term") or xml_stream.one_line(one) for one in xml_stream.children(entry, "category")]
    return tuple(filter(None, terms))
