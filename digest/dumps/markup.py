"""XML as a stream of elements: entities stay unresolved, nothing is fetched, memory stays flat.

A file may hold several documents, one behind the other, as when the pages of a harvest are put together.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, BinaryIO

from lxml import etree

from digest.dumps.reading import Items, Problem, Source
from digest.errors import Unreadable
from digest.papers import Record

Element = Any  #: lxml has no types

Convert = Callable[[Element, int, int], Record | None]
ROOT = re.compile(
    r"(?:<\?xml[^>]*\?>\s*|<!--.*?-->\s*|<!DOCTYPE[^>\[]*(?:\[.*?\])?\s*>\s*)*<([\w:.-]+)",
    re.DOTALL | re.IGNORECASE,
)
CHUNK = 64 * 1024
BOM = b"\xef\xbb\xbf"
DECLARATION = re.compile(rb"(?=<\?xml\s)")  #: stands at the beginning of a document and nowhere else
LONGEST_CUT = 5  #: bytes of a declaration that may stand at the end of a chunk


def root_of(head: str) -> str:
    """Return the name of the document's first element, without prefix; empty if this is no XML."""
    found = ROOT.match(head.lstrip())
    return found[1].rpartition(":")[2] if found else ""


def elements(source: Source, *names: str) -> Iterator[tuple[int, Element]]:
    """Yield (line, element) of these names as they close; each is gone once the next is asked for.

    Raises Unreadable where nothing could be read; a document that breaks off later ends in a Problem.
    """
    read, before, lines = 0, 0, 0
    parser = parser_for(names)
    try:
        for piece, is_first in pieces(source.rewound()):
            if is_first and lines:
                parser.close()
                parser, before = parser_for(names), lines
            for element in closed(parser, piece):
                read += 1
                yield before + (element.sourceline or 0), element
            lines += piece.count(b"\n")
        parser.close()
    except etree.XMLSyntaxError as error:
        reason = " ".join(str(error.msg).split())
        if not read:
            raise Unreadable(f"It is not well-formed XML: {reason}.") from error
        line = before + (error.lineno or 0)
        yield line, Problem(line=line, reason=f"the XML breaks off: {reason}", is_truncation=True)


def parser_for(names: Sequence[str]) -> Any:
    """Return a parser of one document that tells of the elements of these names."""
    tags = [f"{{*}}{name}" for name in names]
    return etree.XMLPullParser(
        ["end"], tag=tags, resolve_entities=False, no_network=True, load_dtd=False, huge_tree=False
    )


def closed(parser: Any, piece: bytes) -> Iterator[Element]:
    """Yield the elements that close in a piece; raise what is wrong with it after those that were whole."""
    fault = None
    try:
        parser.feed(piece)
    except etree.XMLSyntaxError as error:
        fault = error
    for _, element in parser.read_events():
        yield element
        element.clear()
        while element.getprevious() is not None:
            del element.getparent()[0]
    if fault is not None:
        raise fault


def pieces(stream: BinaryIO) -> Iterator[tuple[bytes, bool]]:
    """Yield (content, whether a document begins with it), piece by piece."""
    pending, begins = b"", True
    while chunk := stream.read(CHUNK):
        *whole, pending = DECLARATION.split(pending + chunk)
        for document_end in whole:
            yield from piece(document_end, begins=begins)
            begins = True
        ready, pending = pending[:-LONGEST_CUT], pending[-LONGEST_CUT:]
        yield from piece(ready, begins=begins)
        begins = begins and not ready.strip()
    yield from piece(pending, begins=begins)


def piece(content: bytes, *, begins: bool) -> Iterator[tuple[bytes, bool]]:
    """Yield a piece, without what nothing may stand in front of a document."""
    content = content.removeprefix(BOM).lstrip() if begins else content
    if content:
        yield content, begins


def records(source: Source, convert: Convert, *names: str) -> Items:
    """Yield every element of these names as a record; those that are none are passed over."""
    position = 0
    for line, element in elements(source, *names):
        if isinstance(element, Problem):
            yield element
            continue
        try:
            record = convert(element, position + 1, line)
        except (TypeError, ValueError, LookupError, AttributeError) as error:
            yield Problem(line=line, reason=f"a field does not fit: {error}")
            continue
        if record is not None:
            position += 1
            yield record


def child(element: Element, path: str) -> Element | None:
    """Return the first element at a path of names, whatever their namespaces."""
    return element.find("/".join(f"{{*}}{name}" for name in path.split("/")))


def children(element: Element, path: str) -> list[Element]:
    """Return all elements at a path of names."""
    found: list[Element] = element.findall("/".join(f"{{*}}{name}" for name in path.split("/")))
    return found


def inner(element: Element | None) -> str:
    """Return all text within an element, its line breaks as they are."""
    return "" if element is None else "".join(element.itertext()).strip()


def line(element: Element | None) -> str:
    """Return all text within an element on one line."""
    return " ".join(inner(element).split())


def text(element: Element, path: str) -> str:
    """Return the text of the first element at a path, on one line."""
    return line(child(element, path))
