"""XML as a stream of elements: entities stay unresolved, nothing is fetched, memory stays flat."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

from lxml import etree

from digest.dumps.reading import Items, Problem, Source
from digest.errors import Unreadable
from digest.papers import Record

Element = Any  #: lxml has no types

Convert = Callable[[Element, int, int], Record | None]
ROOT = re.compile(
    r"(?:<\?xml[^>]*\?>\s*|<!--.*?-->\s*|<!DOCTYPE[^>\[]*(?:\[.*?\])?\s*>\s*)*<([\w:.-]+)", re.DOTALL
)


def root_of(head: str) -> str:
    """Return the name of the document's first element, without prefix; empty if this is no XML."""
    found = ROOT.match(head.lstrip())
    return found[1].rpartition(":")[2] if found else ""


def elements(source: Source, *names: str) -> Iterator[Element]:
    """Yield the elements of these names as they close; each is gone once the next is asked for.

    Raises Unreadable where nothing could be read; a document that breaks off later ends in a Problem.
    """
    tags = [f"{{*}}{name}" for name in names]
    stream = etree.iterparse(
        source.rewound(), tag=tags, resolve_entities=False, no_network=True, load_dtd=False, huge_tree=False
    )
    read = 0
    try:
        for _, element in stream:
            read += 1
            yield element
            element.clear()
            while element.getprevious() is not None:
                del element.getparent()[0]
    except etree.XMLSyntaxError as error:
        reason = " ".join(str(error.msg).split())
        if not read:
            raise Unreadable(f"It is not well-formed XML: {reason}.") from error
        yield Problem(line=error.lineno or 0, reason=f"the XML breaks off: {reason}", is_truncation=True)


def records(source: Source, convert: Convert, *names: str) -> Items:
    """Yield every element of these names as a record; those that are none are passed over."""
    position = 0
    for element in elements(source, *names):
        if isinstance(element, Problem):
            yield element
            continue
        try:
            record = convert(element, position + 1, element.sourceline or 0)
        except (TypeError, ValueError, LookupError, AttributeError) as error:
            yield Problem(line=element.sourceline or 0, reason=f"a field does not fit: {error}")
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
