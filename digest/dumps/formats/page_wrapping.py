"""Find out how a tool wrapped the texts of a page, and join their lines."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from digest.dumps.formats import field_parsing
from digest.dumps.formats.page_lines import PageLine
from digest.dumps.formats.page_metadata import (
    MetadataKind,
    is_navigation,
    labelled_authors,
    labelled_text,
    parse_metadata_line,
    split_name_and_metadata,
)

HEADING = re.compile(r"^(#{1,6})\s+")
UNDERLINE = re.compile(r"(={3,}|-{3,})")
LIST_MARK = re.compile(r"^(?:[*+•▪►‣◦:]\s+|-\s+(?=\D))")
BARE_MARKS = frozenset(["", "Abstract", "*", "+", "-", "•", "▪", "◦"])
DAY_WITHOUT_YEAR = re.compile(r"\b[A-Z][a-z]{2} \d{1,2},$")
URL_LINE = re.compile(r"<?(https?://[^\s<>]+)>?")
SPLIT_ADDRESS = re.compile(r"\(?https?:/\S*[/_=&?%-]$")
SPLIT_WORD = re.compile(r"\S*[_^\\]$")
SUFFIX = re.compile(r"-[a-z]{2}|\{\w")
SUSPENDED = frozenset("and or to und oder & nor versus vs".split())  # noqa: SIM905
SHORTEST_PROSE = 16  #: a shorter line may be a number, a date or a menu word
LONG_LINE = 200  #: if many lines of a page have more characters, the text of the page is not wrapped
MAX_BLOCK = 40  #: so many lines of a block are compared with the line above them
HANGING = frozenset("·▲△⬆🔼↑👍❤🔥👏💬🗨⭐★☆🌟")  #: symbols that precede a number or a date
NAME_SEPARATORS = (",", "·", ";")
LONGEST_WORD = 2_000  #: a word with more characters is not an address


@dataclass(frozen=True, kw_only=True, slots=True)
class Wrapping:
    """How the copying tool wrapped the texts of a page."""

    width: int  #: the number of characters of a full line; 0 if the text is not wrapped
    ends: Sequence[
        int
    ]  #: for each line, the index after the last line of its block; blank lines separate blocks
    is_spaced: bool  #: whether the blocks are the texts: titles do not stand directly above their abstracts


def wrapping_of(lines: Sequence[PageLine]) -> Wrapping:
    """Return how a page is wrapped."""
    ends = [0] * len(lines)
    begin = alone = several = 0
    for index in range(len(lines) + 1):
        if index < len(lines) and (lines[index].text or lines[index].fault):
            continue
        ends[begin:index] = [index] * (index - begin)
        block = [one for one in lines[begin:index] if len(one.text) > SHORTEST_PROSE]
        alone += (
            index - begin == 1 == len(block)
            and len(block[0].text) <= LONG_LINE
            and not parse_metadata_line(block[0].text)
        )
        several += len(block) > 2
        begin = index + 1
    lengths = sorted(line.length for line in lines if line.length and not URL_LINE.fullmatch(line.text))
    unwrapped = sum(length for length in lengths if length > LONG_LINE)
    prose = [line.text for line in lines if line.length > SHORTEST_PROSE]
    goes_on = sum(text[:1].islower() for text in prose) > 0.05 * len(prose)
    is_wrapped = goes_on and unwrapped <= 0.3 * sum(lengths)
    return Wrapping(
        width=lengths[int(len(lengths) * 0.95)] if is_wrapped else 0,
        ends=ends,
        is_spaced=alone >= several > 0,
    )


def spans(above: PageLine, line: PageLine) -> bool:
    """Return whether a link with a text covers both lines."""
    return any(link.is_bounded and link.label and link in above.inside for link in line.inside)


def continues(lines: Sequence[PageLine], text: Sequence[int], index: int, wrapping: Wrapping) -> bool:  # noqa: PLR0911, PLR0912  (one return for each sign)
    """Return whether a line continues the text of the lines above it."""
    above, line, first = lines[text[-1]], lines[index], lines[text[0]]
    is_new = not (line.text[:1].islower() or line.inside or above.is_continued or first.text[:1] == "#")
    if is_new and not (wrapping.width or wrapping.is_spaced):
        return False
    is_apart = line.text in BARE_MARKS or HEADING.match(line.text)
    if text[-1] != index - 1 or line.fault or is_apart:
        return False
    if names_go_on([lines[place] for place in text], line, wrapping):
        return True
    if above.is_continued or (not LIST_MARK.match(line.text) and spans(above, line)):
        return True
    if (
        LIST_MARK.match(line.text)
        or UNDERLINE.fullmatch(line.text)
        or begins_anew(first, line, is_second=len(text) == 1)
    ):
        return False
    block = [one.length for one in lines[text[0] : min(wrapping.ends[index], index + MAX_BLOCK)]]
    rest = block[len(text) :]
    is_address = URL_LINE.fullmatch(line.text) is not None
    if HEADING.match(first.text):
        is_title = sum(block) <= LONG_LINE and lines[wrapping.ends[index] - 1].text[-1] != "."
        return is_title and not is_address and not names_people(line)
    if (
        line.text[0].islower()
        and above.text[-1] not in ".!?:"
        and above.length > SHORTEST_PROSE
        and not is_address
    ):
        return True
    is_longer = (
        len(text) == 1 < len(rest) and above.length > 1.15 * max(rest) and not above.text[-1].islower()
    )
    width = width_of(block, wrapping)
    is_full = not is_longer and 0 < width <= above.length + line.first_word + 2
    if above.text[-1:] in HANGING or (line.text[:2] == "20" and DAY_WITHOUT_YEAR.search(above.text[-8:])):
        return is_full
    found = parse_metadata_line(line.text) if len(line.text) < 40 else ()
    if any(one.kind not in (MetadataKind.COUNT, MetadataKind.NAVIGATION) for one in found):
        return False
    is_paragraph = wrapping.is_spaced and not found and len(block) > 2
    return (is_full or is_paragraph) and not (is_address and above.text[-1] in ".!?")


def names_go_on(above: Sequence[PageLine], line: PageLine, wrapping: Wrapping) -> bool:
    """Return whether a list of names that a tool wrapped continues on this line."""
    last = above[-1]
    if len(above) > MAX_BLOCK or not any(sign in last.text for sign in NAME_SEPARATORS):
        return False
    whole = " ".join(one.text for one in above)
    names = field_parsing.person_names(whole)
    if not names or whole[-1] in NAME_SEPARATORS:
        return bool(names)
    is_full = 0 < wrapping.width <= last.length + line.first_word + 2
    return (
        is_full
        and not is_navigation(line.text)
        and len(field_parsing.person_names(f"{whole} {line.text}")) > 1
    )


def width_of(block: Sequence[int], wrapping: Wrapping) -> int:
    """Return the width to which a block of lines is wrapped, which may be less than that of the page."""
    widest = max(block[1:], default=0)
    return min(widest, wrapping.width) if len(block) > 4 and widest > 0.7 * wrapping.width else wrapping.width


def begins_anew(first: PageLine, line: PageLine, *, is_second: bool) -> bool:
    """Return whether a line begins another text than the one that begins with `first`."""
    if line.is_strong or (first.is_strong and is_second):
        return True
    if "·" in line.text and len(line.text) < LONG_LINE and split_name_and_metadata(line.text)[1]:
        return True
    if any(link.label and link.has_start and line.text.startswith(link.label[:20]) for link in line.links):
        return True
    return labelled_text(first.text)[0] == "title" and names_people(line)


def names_people(line: PageLine) -> bool:
    """Return whether a line contains several names."""
    return len(field_parsing.person_names(line.text)) > 1 or len(labelled_authors(line.text)) > 1


def join(lines: Sequence[str]) -> str:
    """Join the lines of a wrapped text, including words broken after a hyphen and broken addresses."""
    if len(lines) == 1:
        return lines[0]
    parts: list[str] = []
    last = ""  #: the last word so far
    for line in lines:
        word = next(iter(line.split(maxsplit=1)), "")
        hyphenated = len(last) > 1 and last[-1] == "-" and last[-2].isalnum() and word[:1].isalnum()
        is_address = SPLIT_ADDRESS.match(last) or ("https:" in last and word[:1] == "/") or last == "https:"
        is_glued = (
            not last
            or (hyphenated and word not in SUSPENDED)
            or is_address
            or SPLIT_WORD.match(last)
            or SUFFIX.match(word)
        )
        parts.append(line if is_glued else f" {line}")
        last = (last + line if is_glued else line).rsplit(" ", 1)[-1]
        last = last if len(last) < LONGEST_WORD else last[-1]
    return "".join(parts)
