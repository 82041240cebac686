"""Pages copied as plain text without blank lines: a title, its abstract, a title, ... ("pairs")."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from digest.dumps import page
from digest.dumps.blocks import Fault, Text, Unit, link, papers
from digest.dumps.marks import marks
from digest.dumps.reading import Header, Items, Source

NAME = "pairs"


def recognises(head: str) -> bool:
    """Return whether this is a page without blank lines, or lines short and long by turns."""
    return "\n\n" not in head.replace("\r", "").strip() and (page.is_page(head) or page.alternates(head))


def read(source: Source) -> tuple[Header, Items]:
    """Read the page: every line is one text."""
    found = page.survey(source)
    return found.header, papers(units(page.numbered(source)), found)


def units(lines: Iterable[tuple[int, str, str]]) -> Iterator[Unit]:
    """Yield every line as what it is."""
    for number, line, fault in lines:
        if fault:
            yield Fault(line=number, reason=fault)
        elif found := marks(line):
            yield from found
        elif address := link(line):
            yield address
        elif text := line.strip():
            yield Text(line=number, lines=(text,))
