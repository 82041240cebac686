"""Wrap the lines of the plain-text part of letters, and keep figures whole on the lines of the HTML part."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator
from functools import lru_cache, partial

LINE_WIDTH = 72  #: maximum width of a line of the plain-text part, in columns
#: Characters that are two columns wide, such as Chinese; a line may break between any two of them.
WIDE_SIGNS = (
    "\u1100-\u115f\u2e80-\u9fff\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe4f\uff00-\uff60\U00020000-\U0003fffd"
)
WIDE_SIGN = re.compile(f"[{WIDE_SIGNS}]")
LONG_WORD = re.compile(rf"[^\s{WIDE_SIGNS}]{{41,}}")
UNBREAKABLE = re.compile(rf"[{WIDE_SIGNS}]|\s*[^\s{WIDE_SIGNS}]+|\s+")
fill = partial(textwrap.fill, break_long_words=False, break_on_hyphens=False)

NO_BREAK = "\N{NO-BREAK SPACE}"
#: Matches the spaces in `42 upvotes`, `6 January 2027` and `Monday 08:00`.
BETWEEN_FIGURE_AND_UNIT = re.compile(
    r"(?<=\d) (?=[^\W\d_])|(?<=[^\W_]) (?=\d\d:\d\d\b)|(?<=[^\W\d_]) (?=(?:19|20)\d\d\b)"
)


def keep_figures(text: str) -> str:
    """Return `text` with no-break spaces between its last figures and their units, and after a plus sign.

    Thus no line ends with the 42 of `42 upvotes`, the Monday of `Monday 08:00`, the January of `6 January 2027`
    or the plus of `Lind + 4`. The last figures are those after the last dot: the rest of a line may quote the reader's words.
    """
    before, dot, last = text.rpartition(" · ")
    return f"{before}{dot}{keep_units(last)}".replace("+ ", f"+{NO_BREAK}")


@lru_cache(maxsize=4096)  # many lines end with the same figure
def keep_units(text: str) -> str:
    """Return `text` with no-break spaces between figures and their units, and before years and times of day."""
    return BETWEEN_FIGURE_AND_UNIT.sub(NO_BREAK, text)


def wrap(text: str, *, measure: int = LINE_WIDTH) -> str:
    """Return `text` on lines of at most `measure` columns; a longer URL gets its own line."""
    if not text.isascii() and WIDE_SIGN.search(text):
        return "\n".join(wide_lines(break_long_words(text, measure), measure))
    if len(text) <= measure:
        return text
    return fill(break_long_words(text, measure), measure)


def break_long_words(text: str, measure: int) -> str:
    """Return `text` with spaces inside words longer than `measure`, because RFC 5322 limits lines; keep URLs."""

    def parts(found: re.Match[str]) -> str:
        word = found[0]
        return word if "://" in word else " ".join(textwrap.wrap(word, measure, break_on_hyphens=False))

    return LONG_WORD.sub(parts, text)


def wrap_with_bar(text: str) -> str:
    """Return `text` on several lines, each of which begins with a vertical bar."""
    return "| " + wrap(text, measure=LINE_WIDTH - 2).replace("\n", "\n| ")


def columns(text: str) -> int:
    """Return the width of `text` in columns."""
    return len(text) + len(WIDE_SIGN.findall(text))


def wide_lines(text: str, measure: int) -> Iterator[str]:
    """Yield the lines of `text`, which contains characters two columns wide, such as Chinese."""
    line, taken = "", 0
    for word in UNBREAKABLE.findall(text):
        columns = len(word) + bool(WIDE_SIGN.match(word))
        if taken + columns > measure and line.strip():
            yield line.rstrip()
            line, taken = "", 0
        line, taken = line + (word if line else word.lstrip()), taken + columns
    yield line.rstrip()
