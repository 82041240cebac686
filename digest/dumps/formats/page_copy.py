"""Read copies of pages that list papers, made by any tool ("page")."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from datetime import date
from io import BytesIO

from digest.dumps.formats import page_layout
from digest.dumps.formats.page_drafts import MIN_PAPERS, drafts_of, records_of
from digest.dumps.formats.page_lines import page_lines
from digest.dumps.formats.reader_interface import DumpInput, Header, Items
from digest.dumps.formats.rewindable_stream import HEAD_BYTES
from digest.errors import UnreadableDump
from digest.papers.paper_record import Record

NAME = "page"

MAX_PAGE_BYTES = 8 * 1024 * 1024
#: A heading that links to a paper.
HEADING_OF_PAPER = re.compile(r"^ {0,3}#{2,6} [^\n]{1,400}\]\((?:\S{0,30}(?:huggingface\.co/papers|arxiv\.org/abs)|/papers)/", re.MULTILINE)  # fmt: skip


def recognises(head: str) -> bool:
    """Return whether the dump begins like a page of papers, or with a list of papers that have abstracts."""
    if is_known_layout(head):
        return True
    if head.lstrip()[:1] in ("{", "<"):
        return False
    is_cut = len(head) > HEAD_BYTES // 2
    whole = head[: head.rfind("\n") + 1] if is_cut else head
    source = DumpInput(BytesIO(whole.encode(errors="replace")), name="", observed_on=date.min)
    found = list(read(source)[1])
    found = found[:-1] if is_cut else found
    titles = {one.title for one in found if isinstance(one, Record) and one.abstract}
    return len(titles) >= MIN_PAPERS and 5 * len(titles) >= 4 * len(found)


def is_known_layout(head: str) -> bool:
    """Return whether the dump begins like a page of papers, or with titles and abstracts by turns."""
    return (
        page_layout.is_page(head)
        or HEADING_OF_PAPER.search(head) is not None
        or page_layout.alternates_title_and_abstract(head)
    )


def read(source: DumpInput) -> tuple[Header, Items]:
    """Read the whole page and split it into papers; raise UnreadableDump if the page is too large."""
    if source.size_up_to(MAX_PAGE_BYTES) > MAX_PAGE_BYTES:
        raise UnreadableDump(
            f"The page is larger than {MAX_PAGE_BYTES // 2**20} MiB. Split it between two papers into smaller files,"
            " or export the list as CSV or JSON Lines, which can have any size."
        )
    page = page_layout.read_page_header(source)
    lines = page_lines(list(without_blank_runs(page_layout.lines_below_menus(source))))
    return page.header, records_of(drafts_of(lines, page), page)


def without_blank_runs(lines: Iterable[tuple[int, str, str]]) -> Iterator[tuple[int, str, str]]:
    """Yield the lines without repeated blank lines."""
    was_blank = False
    for line in lines:
        is_blank = not (line[1] or line[2]) or line[1].isspace()
        if not (is_blank and was_blank):
            yield line
        was_blank = is_blank
