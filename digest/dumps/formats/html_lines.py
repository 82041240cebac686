"""Convert a web page to lines of plain text with links, based on the structure of its HTML."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urljoin

from lxml import etree

from digest.dumps.formats.page_lines import PageLine, PageLink
from digest.dumps.formats.page_metadata import parse_metadata_line

BLOCKS = frozenset(
    (
        "address", "article", "aside", "blockquote", "body", "br", "center", "dd", "details", "dialog", "div", "dl", "dt",
        "fieldset", "figcaption", "figure", "footer", "form", "h1", "h2", "h3", "h4", "h5", "h6", "header", "hr", "html",
        "legend", "li", "main", "menu", "ol", "p", "pre", "section", "summary", "table", "tbody", "td", "tfoot", "th",
        "thead", "tr", "ul",
    )
)  # fmt: skip
#: Elements whose text does not belong to a list of papers.
SKIPPED = frozenset(
    (
        "title", "script", "style", "noscript", "template", "svg", "nav", "select", "textarea", "iframe", "object", "canvas",
        "audio", "video", "annotation",
    )
)  # fmt: skip
#: Elements that separate the words before and after them, even without a space.
SEPARATE = frozenset(("a", "button", "label", "span", "time"))
HIGHLIGHT = re.compile(r"\b(?:hit|highlight|hl|match)\b", re.IGNORECASE)
HIDDEN = re.compile(r"display\s*:\s*none|visibility\s*:\s*hidden", re.IGNORECASE)
HIDDEN_CLASSES = frozenset(("sr-only", "visually-hidden", "screen-reader-text"))
SAVED_FROM = re.compile(r"<!--\s*saved from url=\(\d{4}\)(https?://[^\s<>]{1,2000})\s*-->")
ISO_DAY = re.compile(r"\d{4}-\d\d-\d\d")
#: A header or footer inside these elements belongs to a paper.
CONTENT = frozenset(("article", "main", "section", "li"))
LONGEST_LABEL = 60_000
MAX_OPEN = 4  #: maximum depth of nested links


@dataclass(kw_only=True, slots=True)
class OpenLink:
    """A link whose end has not been read yet."""

    element: Any
    url: str
    first: int  #: the index of the line on which the link begins
    parts: list[str] = field(default_factory=list)
    image: str = ""


def html_lines(root: Any, base: str) -> list[PageLine]:
    """Return the lines of a page; `base` is the address to which its links are relative."""
    writer = LineWriter(base)
    walk = etree.iterwalk(root, events=("start", "end"))
    for event, element in walk:
        if event == "end":
            writer.end(element)
        elif is_skipped(element):
            walk.skip_subtree()
        else:
            writer.start(element)
            if element.tag == "time" and (day := day_of(element)):
                walk.skip_subtree()
                writer.write(day)
            else:
                writer.write(element.text)
    writer.break_line(0)
    return writer.lines


def is_skipped(element: Any) -> bool:
    """Return whether an element, such as a script, a menu or a hidden part, has no text about papers."""
    if (
        element.tag in SKIPPED
        or element.get("hidden") is not None
        or HIDDEN.search(element.get("style") or "")
    ):
        return True
    if element.tag in ("header", "footer"):
        return not any(above.tag in CONTENT for above in element.iterancestors())
    return not HIDDEN_CLASSES.isdisjoint((element.get("class") or "").split())


def day_of(element: Any) -> str:
    """Return the date of a `time` element if its text lacks a year, such as `3 days ago`, else ""."""
    known = ISO_DAY.match(element.get("datetime") or "")
    printed = parse_metadata_line(" ".join("".join(element.itertext()).split()))
    return known[0] if known and not any(one.year for one in printed) else ""


class LineWriter:
    """Collects the lines of text in a page's elements, with the links and images of each line."""

    def __init__(self, base: str):
        self.base = base
        self.lines: list[PageLine] = []
        self.parts: list[str] = []
        self.number = 1
        self.images: list[str] = []
        self.ended: list[PageLink] = []  #: links that end on the current line
        self.open: list[OpenLink] = []
        self.heading = 0

    def start(self, element: Any) -> None:
        """Begin an element."""
        tag = element.tag
        if tag in BLOCKS:
            self.break_line(element.sourceline or 0)
            if tag[0] == "h" and tag[1:].isdigit():
                self.heading = int(tag[1:])
        elif tag in SEPARATE and not HIGHLIGHT.search(element.get("class") or ""):
            self.separate()
        if tag == "a" and (address := element.get("href")) and len(self.open) < MAX_OPEN:
            self.open.append(OpenLink(element=element, url=self.absolute(address), first=len(self.lines)))
        elif tag == "img":
            self.add_image(" ".join((element.get("alt") or "").split()))

    def end(self, element: Any) -> None:
        """Process the end of an element, and write the text that follows it."""
        tag = element.tag
        if self.open and self.open[-1].element is element:
            self.close(self.open.pop())
        if tag in BLOCKS:
            self.break_line(element.sourceline or 0)
            self.heading = 0 if tag[0] == "h" and tag[1:].isdigit() else self.heading
        self.write(element.tail)
        if tag in SEPARATE and not HIGHLIGHT.search(element.get("class") or ""):
            self.separate(before=element.tail)

    def separate(self, before: str | None = None) -> None:
        """Write a space at the boundary of an element, unless text directly follows the boundary."""
        if not before and self.parts and self.parts[-1][-1:].isalnum():
            self.parts.append(" ")

    def write(self, text: str | None) -> None:
        """Add text to the current line and to the open links."""
        if not text:
            return
        self.parts.append(text)
        for link in self.open:
            link.parts.append(text)

    def add_image(self, alt: str) -> None:
        """Record an image's alternative text."""
        self.images.append(alt)
        for link in self.open:
            link.image = link.image or alt

    def close(self, link: OpenLink) -> None:
        """End a link."""
        label = " ".join(" ".join(link.parts)[:LONGEST_LABEL].split())
        has_text = bool("".join(self.parts).strip())
        first = next((i for i in range(link.first, len(self.lines)) if self.lines[i].text), len(self.lines))
        last = len(self.lines) if has_text else max(first, len(self.lines) - 2)
        self.ended.append(PageLink(label=label, url=link.url, first=first, last=last, image=link.image))

    def absolute(self, address: str) -> str:
        """Return an absolute address, or the address itself if it is invalid."""
        try:
            return urljoin(self.base, address.strip())
        except ValueError:
            return address

    def break_line(self, number: int) -> None:
        """End the current line and add an empty line, so that no later line is joined to the ended line."""
        text = " ".join("".join(self.parts).split())
        if text or self.images:
            mark = "#" * self.heading + " " if self.heading and text else ""
            self.add_line(mark + text)
            self.add_line("")
        elif self.ended:
            self.add_line("")
        self.parts, self.images = [], []
        self.number = number or self.number

    def add_line(self, text: str) -> None:
        """Add a line, and add each link that ends on this line to all lines that the link covers."""
        word = next(iter(text.split(maxsplit=1)), "")
        self.lines.append(
            PageLine(
                number=self.number, text=text, length=len(text), first_word=len(word), images=self.images
            )
        )
        for link in self.ended:
            first = min(link.first, len(self.lines) - 1)
            self.lines[first].links.append(link)
            for index in range(first, min(link.last, len(self.lines) - 1) + 1):
                self.lines[index].inside.append(link)
        self.ended = []
