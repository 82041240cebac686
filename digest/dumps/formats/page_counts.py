"""Find the number of papers that a page says it lists."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

NOUN = r"(?:papers?|results?|entries|articles?|publications?|preprints?)"
NUMBER = r"\d[\d,]{0,8}"
DIGIT = re.compile(r"\d", re.ASCII)
MENTION = re.compile(rf"{NOUN}|showing|displaying", re.IGNORECASE)
#: Lines such as `Showing 1-25 of 120 results`, `Papers 26 to 50 of 120`.
RANGE = re.compile(
    rf"(?:(?:showing|displaying|viewing|{NOUN}):?\s)?(?P<first>{NUMBER})\s?(?:-|–|—|to)\s?(?P<last>{NUMBER})\s(?:of|out of)"
    rf"\s(?:about\s|over\s)?{NUMBER}(?:\s(?:total\s)?{NOUN})?[.:]?",
    re.IGNORECASE,
)
#: Lines such as `49 papers`, `Showing 49 results`, `Total of 49 entries`, `Results: 49`.
TOTAL = re.compile(
    rf"(?:(?:showing|displaying|found|all|total(?:\sof)?):?\s)?(?P<before>{NUMBER})\s{NOUN}(?:\sfound)?[.:]?"
    rf"|(?:total\s)?(?:number\sof\s)?{NOUN}(?:\sfound)?:\s(?P<after>{NUMBER})",
    re.IGNORECASE,
)
#: Words that show that a page is continued on another page.
CONTINUED = re.compile(r"\b(?:next|more|older)\b|[»›]", re.IGNORECASE)
LONGEST_LINE = 80
LEADING_SIGNS = "#*-_>| "


@dataclass(frozen=True, kw_only=True, slots=True)
class StatedCount:
    """The number of papers that a page says it lists."""

    number: int
    is_total: bool  #: whether `number` may include papers that are not on this page


def stated_count(line: str) -> StatedCount | None:
    """Return the number of papers that a line states, or None if the line contains anything else."""
    if len(line) > LONGEST_LINE or not DIGIT.search(line) or not MENTION.search(line):
        return None
    text = line.strip(LEADING_SIGNS)
    if found := RANGE.fullmatch(text):
        first, last = whole_number(found["first"]), whole_number(found["last"])
        return StatedCount(number=last - first + 1, is_total=False) if 0 < first <= last else None
    if found := TOTAL.fullmatch(text):
        return StatedCount(number=whole_number(found["before"] or found["after"]), is_total=True)
    return None


def count_of_page(stated: Iterable[StatedCount], lines: Iterable[str]) -> int | None:
    """Return the number of papers that a page states, or None if that is unclear or the list continues."""
    known = set(stated)
    ranges = {one for one in known if not one.is_total}
    chosen = ranges or known
    if len(chosen) != 1:
        return None
    (only,) = chosen
    is_part = only.is_total and any(len(line) <= LONGEST_LINE and CONTINUED.search(line) for line in lines)
    return None if is_part else only.number


def whole_number(digits: str) -> int:
    """Return the value of a number that is written as `1,204`."""
    return int(digits.replace(",", ""))
