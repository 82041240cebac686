"""Read XML as a stream of elements in constant memory, without resolving entities or fetching anything.

A file may consist of several concatenated documents, such as the pages of a harvest.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from html.entities import html5
from typing import Any, BinaryIO

from lxml import etree

from digest.dumps.formats.reader_interface import DumpInput, Items, RecordProblem
from digest.errors import UnreadableDump
from digest.papers.paper_record import Record

Element = Any  #: lxml has no type annotations

ElementConverter = Callable[[Element, int], Record | None]
ROOT_ELEMENT = re.compile(
    r"(?:<\?xml[^>]*\?>\s*|<!--.*?-->\s*|<!DOCTYPE[^>\[]*(?:\[.*?\])?\s*>\s*)*<([\w:.-]+)",
    re.DOTALL | re.IGNORECASE,
)
DOCUMENT_START = re.compile(r"\s*(?:<\?xml\s|<!DOCTYPE\s+(?!html\b))", re.IGNORECASE)
CHUNK = 64 * 1024
BOM = b"\xef\xbb\xbf"
DECLARATION = re.compile(rb"(?=<\?xml\s)")  #: the pattern for the beginning of a document
LONGEST_CUT = 40  #: maximum number of bytes in an incomplete declaration or entity at the end of a chunk
#: An ampersand that begins none of the entities of XML.
ENTITY = re.compile(rb"&(?!#\d{1,7};|#[xX][0-9a-fA-F]{1,6};|(?:amp|lt|gt|quot|apos);)([A-Za-z]\w{0,31};)?")
FORBIDDEN = re.compile(rb"[\x00-\x08\x0b\x0c\x0e-\x1f]")


def is_declared(head: str) -> bool:
    """Return whether the dump begins with an XML declaration, or with a DOCTYPE other than HTML's."""
    return DOCUMENT_START.match(head) is not None


def root_element_name(head: str) -> str:
    """Return the name of the root element without its prefix, or an empty string if this is not XML."""
    found = ROOT_ELEMENT.match(head.lstrip())
    return found[1].rpartition(":")[2] if found else ""


def elements(source: DumpInput, *names: str) -> Iterator[tuple[int, Element]]:
    """Yield (line, element) for each complete element with one of these names.

    An element is cleared before the next one is yielded. A RecordProblem stands for an element that is not
    well-formed, and for the end of a truncated document. Raises UnreadableDump if no element can be read.
    """
    return XmlReading(source, names).elements()


class XmlReading:
    """A stream of documents that is read on, after a damaged element, from the next element."""

    def __init__(self, source: DumpInput, names: Sequence[str]):
        self.source, self.names = source, names
        self.start = re.compile(rb"<(?:\w+:)?(?:" + "|".join(names).encode() + rb")[\s>]")
        first = self.start.search(source.first_bytes)
        self.opening = source.first_bytes[: first.start()] if first else b""
        self.parser = parser_for(names)
        self.before = 0  #: the number of lines before the text that the parser has read
        self.lines = 0  #: the number of lines read
        self.rest = b""  #: what was not read yet of a piece
        self.fault: RecordProblem | None = None  #: the fault after which no element has begun yet

    def elements(self) -> Iterator[tuple[int, Element]]:
        """Yield (line, element or problem)."""
        read = 0
        for piece, is_first in document_pieces(self.source.rewind()):
            if is_first and self.lines:
                if fault := self.fault or unfinished(self.parser, self.before):
                    yield fault.line, fault
                self.parser, self.before, self.fault = parser_for(self.names), self.lines, None
            self.rest = piece
            while self.rest:
                if self.fault is not None:
                    yield from self.resume(self.fault)
                for element in self.closed_elements():
                    read += 1
                    yield self.before + (element.sourceline or 0), element
        fault = self.fault or unfinished(self.parser, self.before)
        if fault is not None and not read:
            raise UnreadableDump(f"The file is not well-formed XML: {fault.reason.partition(': ')[2]}.")
        if fault is not None:
            yield fault.line, fault

    def closed_elements(self) -> Iterator[Element]:
        """Yield the elements that end in the rest of the piece, up to a fault."""
        end = len(self.rest)
        try:
            yield from closed_elements(self.parser, self.rest)
        except etree.XMLSyntaxError as error:
            self.fault = syntax_problem(error, self.before)
            end = place_of(error, self.rest, self.fault.line - 1 - self.lines)
        self.skip(end)

    def resume(self, fault: RecordProblem) -> Iterator[tuple[int, Element]]:
        """Yield the fault and read on from the next element in the rest, below the same beginning of the document."""
        after = self.start.search(self.rest) if self.opening else None
        self.skip(after.start() if after else len(self.rest))
        if after:
            yield fault.line, fault
            self.parser, self.fault = parser_for(self.names), None
            self.before = self.lines - self.opening.count(b"\n")
            try:
                self.parser.feed(self.opening)
            except etree.XMLSyntaxError as error:  # the damage is in the beginning of the document
                self.opening, self.fault = b"", syntax_problem(error, self.before)

    def skip(self, end: int) -> None:
        """Pass over the first `end` bytes of the rest."""
        self.lines += self.rest.count(b"\n", 0, end)
        self.rest = self.rest[end:]


def unfinished(parser: Any, before: int) -> RecordProblem | None:
    """Return the problem of a document that ends too early, or None for a complete document."""
    try:
        parser.close()
    except etree.XMLSyntaxError as error:
        return syntax_problem(error, before)
    return None


def syntax_problem(error: Any, before: int) -> RecordProblem:
    """Return the problem for a place that is not well-formed, in a document after `before` lines."""
    reason = " ".join(str(error.msg).split())
    is_cut = "tag mismatch" not in reason
    return RecordProblem(
        line=before + (error.lineno or 0),
        reason=f"the XML is {'truncated' if is_cut else 'not well-formed'}: {reason}",
        is_truncation=is_cut,
    )


def place_of(error: Any, piece: bytes, lines: int) -> int:
    """Return the offset of a syntax error that is `lines` lines below the beginning of a piece."""
    begun = 0
    for _ in range(lines):
        begun = piece.find(b"\n", begun) + 1
    return max(1, min(len(piece), begun + (error.position[1] or 1) - 1))


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
        cut = max(0, len(pending) - LONGEST_CUT)
        cut = (
            pending.rfind(b"&", max(0, cut - LONGEST_CUT), cut)
            if b"&" in pending[cut - LONGEST_CUT : cut]
            else cut
        )
        ready, pending = pending[:cut], pending[cut:]
        yield from split_piece(ready, begins=begins)
        begins = begins and not ready.strip()
    yield from split_piece(pending, begins=begins)


def repaired(content: bytes) -> bytes:
    """Return content with the characters that XML forbids as spaces, and HTML's entities as characters."""
    if b"&" in content:
        content = ENTITY.sub(lambda found: entity(found[1] or b""), content)
    return FORBIDDEN.sub(b" ", content)


def entity(name: bytes) -> bytes:
    """Return the character with this name in HTML (`nbsp;`) as a reference, or an escaped ampersand."""
    character = html5.get(name.decode(errors="replace"), "")
    return "".join(f"&#{ord(char)};" for char in character).encode() or b"&amp;" + name


def split_piece(content: bytes, *, begins: bool) -> Iterator[tuple[bytes, bool]]:
    """Yield a piece unless it is empty, without the BOM and spaces that precede a document."""
    content = content.removeprefix(BOM).lstrip() if begins else content
    if content:
        yield repaired(content), begins


def records(source: DumpInput, convert: ElementConverter, *names: str) -> Items:
    """Convert each element with one of these names to a record; skip it if `convert` returns None."""
    for line, element in elements(source, *names):
        if isinstance(element, RecordProblem):
            yield element
            continue
        if (record := convert(element, line)) is not None:
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
