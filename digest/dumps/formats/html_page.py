"""Read web pages that list papers or describe one paper, based on the structure of their HTML ("html")."""

from __future__ import annotations

import re
from collections.abc import Set
from io import BytesIO
from typing import Any

from lxml import etree

from digest.dumps.formats import clean_values, page_drafts, page_layout, xml_stream
from digest.dumps.formats.html_lines import SAVED_FROM, html_lines
from digest.dumps.formats.page_segments import is_abstract
from digest.dumps.formats.reader_interface import DumpInput, Header, Items
from digest.errors import UnreadableDump
from digest.papers.paper_record import Record, title_key

NAME = "html"

MAX_PAGE_BYTES = 32 * 1024 * 1024
#: Elements that may come first in a fragment of a page copied from a browser.
FRAGMENT_ROOTS = frozenset(
    ("meta", "body", "div", "article", "section", "main", "ul", "ol", "table", "dl", "p", "span", "a")
)
MIN_CLOSING_TAGS = 8
#: Markup of Textile and MediaWiki, which use tags, too.
OTHER_MARKUP = re.compile(
    r'^h[1-6](?:\([^()\n]*\))?\. |":(?:https?:/)?/|^=+ .{1,300} =+$|\[https?://', re.MULTILINE
)
CHARSET = re.compile(rb"<meta[^>]{0,200}charset=[\"']?\s*([\w-]{1,40})", re.IGNORECASE)
NO_PAPERS = (
    "The file is a web page without a list of papers. Ask the site for the same list as JSON or as a feed."
)
SINGLE_PAPER = "citation_title"
CITED_IDS = {"arxiv": "arxiv_id", "doi": "doi", "pmid": "pmid"}


def recognises(head: str) -> bool:
    """Return whether the dump is a web page or a part of one, and not XML such as a journal's article."""
    root = xml_stream.root_element_name(head).casefold()
    if root == "html" or root not in FRAGMENT_ROOTS or xml_stream.is_declared(head):
        return root == "html"
    return head.count("</") >= MIN_CLOSING_TAGS and "](" not in head and not OTHER_MARKUP.search(head)


def read(source: DumpInput) -> tuple[Header, Items]:
    """Read the papers of a page; raise UnreadableDump if it is too large, cannot be parsed or has none."""
    root = parse(source.read_all(MAX_PAGE_BYTES))
    lines = html_lines(root, base_of(root, source.head))
    text = "\n".join(line.text for line in lines)
    page = page_layout.read_page_header(
        DumpInput(BytesIO(text.encode(errors="replace")), name=source.name, observed_on=source.observed_on)
    )
    found = list(page_drafts.records_of(page_drafts.drafts_of(lines, page), page))
    if (single := paper_in_metadata(root)) is not None and len(found) < page_drafts.MIN_PAPERS:
        return page.header, iter([single])
    labels = {title_key(link.label) for line in lines for link in line.links if "#" not in link.url}
    if not is_list([one for one in found if isinstance(one, Record)], labels):
        raise UnreadableDump(NO_PAPERS)
    return page.header, iter(found)


def is_list(papers: list[Record], labels: Set[str]) -> bool:
    """Return whether the texts found on a page are papers.

    Papers have ids or metadata, or several of them have links and abstracts.

    If only one text is found, names do not suffice, because the words of a menu can look like names.
    """
    is_single = len(papers) == 1
    described = sum(bool(one.published or one.signals) if is_single else has_metadata(one) for one in papers)
    abstracts = sum(is_abstract(one.abstract) and title_key(one.title) in labels for one in papers)
    return (
        any(one.ids for one in papers)
        or 2 * described > len(papers)
        or (abstracts >= page_drafts.MIN_PAPERS and 4 * abstracts >= 3 * len(papers))
    )


def has_metadata(paper: Record) -> bool:
    """Return whether a paper has more than a title and an abstract."""
    return bool(paper.published or paper.signals or paper.ids or paper.n_authors or paper.organization)


def parse(content: bytes) -> Any:
    """Return the root element of a page; raise UnreadableDump if it cannot be parsed or has no elements."""
    declared = CHARSET.search(content[:4096])
    encoding = declared[1].decode() if declared and not is_utf8(content) else "utf-8"
    try:
        parser = etree.HTMLParser(encoding=encoding, no_network=True, remove_pis=True, remove_comments=True)
    except LookupError:
        parser = etree.HTMLParser(encoding="utf-8", no_network=True, remove_pis=True, remove_comments=True)
    try:
        root = etree.fromstring(content, parser)
    except (etree.XMLSyntaxError, ValueError) as error:
        raise UnreadableDump(f"The HTML cannot be parsed: {error}.") from error
    if root is None:
        raise UnreadableDump(NO_PAPERS)
    return root


def is_utf8(content: bytes) -> bool:
    """Return whether the content is valid UTF-8."""
    try:
        content.decode()
    except UnicodeDecodeError:
        return False
    return True


def base_of(root: Any, head: str) -> str:
    """Return the address of a page, as stored by the browser or stated on the page, or an empty string."""
    if saved := SAVED_FROM.search(head):
        return saved[1]
    named = [
        *(one.get("href") for one in root.iter("base")),
        *(one.get("href") for one in root.iter("link") if one.get("rel") == "canonical"),
        *(one.get("content") for one in root.iter("meta") if one.get("property") == "og:url"),
    ]
    return next((url for url in named if url and url.startswith("http")), "")


# ── the page of one paper ───────────────────────────────────────────────────────────────────────


def paper_in_metadata(root: Any) -> Record | None:
    """Return the paper that a page describes in its metadata for citation indexes, or None."""
    values: dict[str, list[str]] = {}
    for one in root.iter("meta"):
        name, content = one.get("name") or one.get("property") or "", one.get("content")
        if name and content:
            values.setdefault(name.casefold(), []).append(content)
    if SINGLE_PAPER not in values:
        return None
    return clean_values.paper(
        title=values[SINGLE_PAPER][0],
        abstract=first_of(values, "citation_abstract", "dc.description", "og:description", "description"),
        ids=[(scheme, first_of(values, f"citation_{name}")) for scheme, name in CITED_IDS.items()],
        addresses=[*values.get("citation_abstract_html_url", []), *values.get("og:url", [])],
        authors=values.get("citation_author", []),
        published=first_of(values, "citation_date", "citation_online_date", "citation_publication_date"),
        urls=values.get("citation_pdf_url", []),
        journal=first_of(values, "citation_journal_title", "citation_conference_title"),
        line=1,
    )


def first_of(values: dict[str, list[str]], *names: str) -> str:
    """Return the first value under these names, in the order of the names."""
    return next((value for name in names for value in values.get(name, [])), "")
