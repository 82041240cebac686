"""Read XML as a stream of elements in constant memory, without resolving entities or fetching anything.

A file may consist of several concatenated documents, such as the pages of a harvest.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, BinaryIO

from lxml import etree

from digest.dumps.formats.reader_interface import DumpInput, Items, RecordProblem
from digest.errors import UnreadableDump
from digest.papers import Record

Element = Any  #: lxml has no type annotations

ElementConverter = Callable[[Element, int, int], Record | None]
ROOT_ELEMENT = re.compile(
    r"(?:<\?xml[^>]*\?>\s*|<!--.*?-->\s*|<!DOCTYPE[^>\[]*(?:\[.*?\])?\s*>\s*)*<([\w:.-]+)",
    re.DOTALL | re.IGNORECASE,
)
DOCUMENT_START = re.compile(r"\s*(?:<\?xml\s|<!DOCTYPE\s+(?!html\b))", re.IGNORECASE)
CHUNK = 64 * 1024
BOM = b"\xef\xbb\xbf"
DECLARATION = re.compile(rb"(?=<\?xml\s)")  #: the pattern for the beginning of a document
LONGEST_CUT = 5  #: maximum number of bytes in an incomplete declaration at the end of a chunk


def is_declared(head: str) -> bool:
    """Return whether the dump begins with an XML declaration, or with a DOCTYPE other than HTML's."""
    return DOCUMENT_START.match(head) is not None


def root_element_name(head: str) -> str:
    """Return the name of the root element without its prefix, or an empty string if this is not XML."""
    found = ROOT_ELEMENT.match(head.lstrip())
    return found[1].rpartition(":")[2] if found else ""


def elements(source: DumpInput, *names: str) -> Iterator[tuple[int, Element]]:
    """Yield (line, element) for each complete element with one of these names.

    An element is cleared before the next one is yielded. Raises UnreadableDump if no element can be read. If
    the document is truncated later, the last item is a RecordProblem.
    """
    read, before, lines = 0, 0, 0
    parser = parser_for(names)
    try:
        for piece, is_first in document_pieces(source.rewind()):
            if is_first and lines:
                parser.close()
                parser, before = parser_for(names), lines
            for element in closed_elements(parser, piece):
                read += 1
                yield before + (element.sourceline or 0), element
            lines += piece.count(b"\n")
        parser.close()
    except etree.XMLSyntaxError as error:
        reason = " ".join(str(error.msg).split())
        if not read:
            raise UnreadableDump(f"The file is not well-formed XML: {reason}.") from error
        line = before + (error.lineno or 0)
        yield line, RecordProblem(line=line, reason=f"the XML is truncated: {reason}", is_truncation=True)


def parser_for(names: Sequence[str]) -> Any:
    """Return a parser for one document that reports the elements with these names."""
    tags = [f"{{*}}{name}" for name in names]
    return etree.XMLPullParser(
        ["end"], tag=tags, resolve_entities=False, no_network=True, load_dtd=False, huge_tree=False
    )


def closed_elements(parser: Any, piece: bytes) -> Iterator[Element]:
    """Yield the elements that end in a piece, then raise the syntax error if there is one."""
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


def document_pieces(stream: BinaryIO) -> Iterator[tuple[bytes, bool]]:
    """Split the content at document boundaries; yield (piece, whether the piece begins a document)."""
    pending, begins = b"", True
    while chunk := stream.read(CHUNK):
        *whole, pending = DECLARATION.split(pending + chunk)
        for document_end in whole:
            yield from split_piece(document_end, begins=begins)
            begins = True
        ready, pending = pending[:-LONGEST_CUT], pending[-LONGEST_CUT:]
        yield from split_piece(ready, begins=begins)
        begins = begins and not ready.strip()
    yield from split_piece(pending, begins=begins)


def split_piece(content: bytes, *, begins: bool) -> Iterator[tuple[bytes, bool]]:
    """Yield a piece unless it is empty, without the BOM and spaces that precede a document."""
    content = content.removeprefix(BOM).lstrip() if begins else content
    if content:
        yield content, begins


def records(source: DumpInput, convert: ElementConverter, *names: str) -> Items:
    """Convert each element with one of these names to a record; skip it if `convert` returns None."""
    position = 0
    for line, element in elements(source, *names):
        if isinstance(element, RecordProblem):
            yield element
            continue
        record = convert(element, position + 1, line)
        if record is not None:
            position += 1
            yield record


def child(element: Element | None, path: str) -> Element | None:
    """Return the first element at a path of names in any namespace; return None if `element` is None."""
    return None if element is None else element.find(in_any_namespace(path))


def children(element: Element | None, path: str) -> list[Element]:
    """Return all elements at a path of names in any namespace, or an empty list if `element` is None."""
    return [] if element is None else list(element.findall(in_any_namespace(path)))


def in_any_namespace(path: str) -> str:
    """Return an lxml path that matches these element names in any namespace."""
    return "/".join(f"{{*}}{name}" for name in path.split("/"))


def inner_text(element: Element | None) -> str:
    """Return all text in an element, including its line breaks."""
    return "" if element is None else "".join(element.itertext()).strip()


def one_line(element: Element | None) -> str:
    """Return all text in an element on one line."""
    return " ".join(inner_text(element).split())


def text_at(element: Element | None, path: str) -> str:
    """Return the text of the first element at a path, on one line."""
    return one_line(child(element, path))
