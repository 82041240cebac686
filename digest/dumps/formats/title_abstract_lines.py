"""Read pages copied as plain text with alternating titles and abstracts and no blank lines ("pairs")."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from digest.dumps.formats import page_layout
from digest.dumps.formats.page_metadata import parse_metadata_line
from digest.dumps.formats.page_text import (
    PageUnit,
    TextBlock,
    UnreadableLine,
    drafts_of_units,
    parse_link,
    records_of,
)
from digest.dumps.formats.reader_interface import DumpInput, Header, Items

NAME = "pairs"


def recognises(head: str) -> bool:
    """Return whether the dump is a page without blank lines or has alternating short and long lines."""
    return "\n\n" not in head.replace("\r", "").strip() and (
        page_layout.is_page(head) or page_layout.alternates_title_and_abstract(head)
    )


def read(source: DumpInput) -> tuple[Header, Items]:
    """Read the page, treating each line as one text."""
    found = page_layout.read_page_header(source)
    drafts = drafts_of_units(units(page_layout.page_lines(source)), found)
    return found.header, records_of(drafts, found)


def units(lines: Iterable[tuple[int, str, str]]) -> Iterator[PageUnit]:
    """Yield the items of metadata, the links and the texts on each line."""
    for number, line, fault in lines:
        if fault:
            yield UnreadableLine(line=number, reason=fault)
        elif found := parse_metadata_line(line):
            yield from found
        elif address := parse_link(line):
            yield address
        elif text := line.strip():
            yield TextBlock(line=number, lines=(text,))
