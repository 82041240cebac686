"""Every block of commands in the docs runs in a test, or says why it cannot.

`console` blocks run in tests/test_docs.py. An `sh` block stands below a comment, which holds until the next one:
`<!-- run by TEST -->` names the file that runs it, `<!-- not run: REASON -->` says why none can.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from tests.conftest import ROOT
from tests.test_docs import PAGES, name_of

MARK = re.compile(r"<!-- (run by|not run:) (.+) -->")
SHELLS = ("sh", "console")
COMMAND = re.compile(
    r"(\* |\d+\. )?(digest|make|sudo|apt-get|pip|docker|systemctl|adduser|honcho|xclip) [a-z-]"
)
MIN_REASON = 20  #: characters


def blocks(page: Path) -> Iterator[tuple[str, list[str], tuple[str, str]]]:
    """Yield the language, the lines and the mark of every fenced block, and of the text between them."""
    language, mark = "", ("", "")
    lines: list[str] = []
    for line in page.read_text(encoding="utf-8").splitlines():
        if found := MARK.fullmatch(line):
            mark = found[1], found[2]
        elif line.startswith("```"):
            yield language, lines, mark
            language, lines = ("" if language else line[3:] or "text"), []
        else:
            lines.append(line)
    yield language, lines, mark


def shell_blocks(page: Path, test: str = "") -> list[str]:
    """Return the `sh` blocks of a page, or those that a test must run."""
    found = [("\n".join(lines), mark) for language, lines, mark in blocks(page) if language == "sh"]
    return [text for text, mark in found if not test or mark == ("run by", test)]


def test_every_shell_block_names_its_test_or_the_reason_for_none() -> None:
    for page in PAGES:
        for language, lines, (how, what) in blocks(page):
            if language != "sh":
                continue
            assert how, f"{name_of(page)}: no comment above: {lines[0]}"
            if how == "run by":
                assert name_of(page).rpartition("/")[2] in (ROOT / what).read_text(encoding="utf-8")
            else:
                assert len(what) >= MIN_REASON


def test_commands_stand_in_shell_blocks_only() -> None:
    """Neither indented lines nor blocks of another language have commands, which nothing would check."""
    stray = [
        (name_of(page), line)
        for page in PAGES
        for language, lines, _ in blocks(page)
        if language not in SHELLS
        for line in lines
        if (language or line.startswith("    ")) and COMMAND.match(line.strip())
    ]

    assert stray == []
