"""Fields of records as the world writes them, taken over carefully: a wrong type is nothing, never a crash."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, date, datetime
from math import isfinite
from typing import Any

from digest.papers import id_in, normalised_id

MOST_TEXT = 2_000_000  #: characters of one field looked at
MOST_NAMES = 20_001  #: one more than a record may have

TAG = re.compile(r"<(/?)([A-Za-z][\w:.-]{0,30})(?:\s[^<>]{0,300})?/?>")
INLINE = frozenset(
    ["i", "b", "em", "strong", "sub", "sup", "u", "sc", "scp", "tt", "mml", "math", "italic", "bold"]
)
DAY = re.compile(r"\s*(\d{4})[-/.](\d\d?)(?:[-/.](\d\d?))?(?!\d)")
MONTHS = r"(Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)[a-z]*\.?"
SPELLED = re.compile(rf"(\d{{1,2}}) {MONTHS} (\d{{4}}|\d\d)(?!\d)")
MONTH_FIRST = re.compile(rf"{MONTHS} (\d{{1,2}})(?:st|nd|rd|th)?,? (\d{{4}})(?!\d)")
MONTH = {name: number for number, name in enumerate("Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec".split(), 1)}  # noqa: SIM905  # fmt: skip
NAMES = re.compile(r"\s*(?:,?\s+and\s+|,)\s*")
INITIALS = re.compile(r"(?:[A-Z]\.[ -]?){1,4}")
WITHDRAWN = re.compile(
    r"(?:this|the) (?:\w+ ){0,2}(?:paper|article|submission|manuscript|work|preprint)\b.{0,40}\b"
    r"(?:is|was|has been|have been) (?:\w+ )?withdrawn",
    re.IGNORECASE,
)
NAME = re.compile(r"[^\W\d_][\w.'’-]*,?(?: [^\W\d_][\w.'’-]*,?){1,5}")
PARTICLES = frozenset("van von der den de del della di da dos du la le el al bin ibn ter ten zu y e".split())  # noqa: SIM905
EARLIEST, LATEST = 5e8, 1e10  #: seconds since 1970 that are taken for a moment
FIGURE = re.compile(r"(\d[\d,]*(?:\.\d+)?)([kKmM]?)", re.ASCII)
SCALES = {"": 1.0, "k": 1e3, "m": 1e6}
IN_PARENTHESES = re.compile(r"\s*\([^()]*\)")


def text(value: Any) -> str:
    """Return a text on one line; anything else is none. A list of texts is its first (Crossref titles)."""
    if isinstance(value, list) and value:
        value = value[0]
    if not isinstance(value, str):
        return ""
    return " ".join(str(value)[:MOST_TEXT].split())


def prose(value: Any) -> str:
    """Return a longer text without its line breaks, its paragraphs one a line."""
    if not isinstance(value, str):
        return ""
    whole: str = value[:MOST_TEXT].strip()
    if "\n" not in whole:
        return whole
    if "\n\n" not in whole and "\n  " not in whole:
        return " ".join(whole.split())
    return "\n".join(paragraphs(whole))


def paragraphs(text: str) -> Iterator[str]:
    """Yield the paragraphs of a text, each on one line: a blank line parts them, or an indented one begins one."""
    begun: list[str] = []
    for line in text.split("\n"):
        if begun and (not line.strip() or line.startswith("  ")):
            yield " ".join(begun)
            begun = []
        begun += line.split()
    if begun:
        yield " ".join(begun)


def unmarked(value: Any) -> str:
    """Return the text of a fragment of HTML or JATS: inline tags vanish, the others part words."""
    if not isinstance(value, str):
        return ""
    bare = TAG.sub(
        lambda tag: "" if tag[2].rpartition(":")[2].casefold() in INLINE else " ", value[:MOST_TEXT]
    )
    return " ".join(html.unescape(bare).split())


def number(value: Any) -> float | None:
    """Return a figure of attention: finite, not negative, not a truth value; else nothing."""
    if isinstance(value, str) and len(value) < 16 and (told := FIGURE.fullmatch(value.strip())):
        value = float(told[1].replace(",", "")) * SCALES[told[2].casefold()]
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if 0 <= value < 1e15 and isfinite(value) else None


def signals(**values: Any) -> dict[str, float]:
    """Return the figures that are known."""
    found = {name: number(value) for name, value in values.items()}
    return {name: value for name, value in found.items() if value is not None}


def count(value: Any) -> int | None:
    """Return a number of people, or nothing."""
    found = number(value)
    return int(found) if found is not None and found < 1e6 else None


def day(value: Any) -> date | None:
    """Return the day in an ISO date or moment, as printed; a month alone is its first day."""
    found = DAY.match(value[:40]) if isinstance(value, str) else None
    return day_of(found[1], found[2], found[3] or "1") if found else None


def spelled_day(value: Any) -> date | None:
    """Return the day in `Mon, 2 Apr 2007 19:18:42 GMT`, two-digit years included, or in `April 2, 2007`."""
    found = SPELLED.search(value[:60]) if isinstance(value, str) else None
    if found is None:
        found = MONTH_FIRST.search(value[:60]) if isinstance(value, str) else None
        return day_of(found[3], MONTH[found[1]], found[2]) if found else None
    year = int(found[3])
    if year < 100:
        year += 1900 if year > 90 else 2000
    return day_of(year, MONTH[found[2]], found[1])


def day_parts(value: Any) -> date | None:
    """Return the day in CSL's `{"date-parts": [[2020, 5, 1]]}`, of which month and day may be missing, or in its text."""
    if isinstance(value, dict) and isinstance(value.get("raw"), str):
        return day(value["raw"]) or spelled_day(value["raw"])
    parts = value.get("date-parts") if isinstance(value, dict) else None
    if not (isinstance(parts, list) and parts and isinstance(parts[0], list) and parts[0]):
        return None
    year, month, number = (*parts[0][:3], 1, 1)[:3]
    return day_of(year, month, number)


def day_of(year: Any, month: Any, day: Any) -> date | None:
    """Return the date, or nothing where there is no such day."""
    try:
        return date(int(year), int(month), int(day))
    except (TypeError, ValueError, OverflowError):
        return None


def mapping(value: Any) -> Mapping[str, Any]:
    """Return an object, or an empty one."""
    return value if isinstance(value, dict) else {}


def listed(value: Any) -> list[Any]:
    """Return a list, or an empty one."""
    return value[:MOST_NAMES] if isinstance(value, list) else []


def texts(value: Any) -> tuple[str, ...]:
    """Return the texts of a list, each once, without the empty ones."""
    return tuple(dict.fromkeys(filter(None, map(text, listed(value)))))


def names(value: Any) -> tuple[str, ...]:
    """Return the names in a line of authors: `A, B and C (Some Institute)`, or families first: `Ito, K.; Lind, P.`"""
    line = text(value)
    for _ in range(3):  # affiliations hold parentheses of their own
        line = IN_PARENTHESES.sub("", line)
    groups = line.split(";") if ";" in line else line.split(" and ")
    if ";" in line or (len(groups) > 1 and all(group.count(",") == 1 for group in groups)):
        parts = [group.strip(" ,") for group in groups]
    else:
        parts = NAMES.split(line)[:MOST_NAMES]
        if all(map(INITIALS.fullmatch, parts[1::2])) and not len(parts) % 2:
            parts = [", ".join(pair) for pair in zip(parts[::2], parts[1::2], strict=True)]
    return tuple(name for name in parts[:MOST_NAMES] if name)


def people(value: Any) -> tuple[str, ...]:
    """Return the names in a text that is nothing but names of people, else nothing."""
    found = names(value)
    return found if all(map(is_name, found)) else ()


def is_name(name: str) -> bool:
    """Return whether a text of two words or more is written like a person's name."""
    return NAME.fullmatch(name) is not None and all(
        not word[0].islower() or word in PARTICLES for word in name.replace(",", "").split()
    )


def moment(value: Any) -> date | None:
    """Return the day of a moment in seconds or milliseconds since 1970."""
    seconds = number(value) or 0
    seconds = seconds / 1000 if seconds > LATEST else seconds
    return datetime.fromtimestamp(seconds, UTC).date() if EARLIEST < seconds < LATEST else None


def ids(pairs: Iterable[tuple[str, Any]]) -> dict[str, str]:
    """Return the ids among (scheme, value); the first of each scheme, in its one spelling."""
    found: dict[str, str] = {}
    for scheme, value in pairs:
        if isinstance(value, int) and not isinstance(value, bool):
            value = str(value)  # noqa: PLW2901
        if isinstance(value, str) and (key := normalised_id(scheme, value)):
            found.setdefault(*key)
    return found


def ids_from(*values: Any) -> dict[str, str]:
    """Return the ids that addresses lead to."""
    found: dict[str, str] = {}
    for value in values:
        if isinstance(value, str) and (key := id_in(value.strip())):
            found.setdefault(*key)
    return found


def is_withdrawn(comment: str, abstract: str) -> bool:
    """Return whether the authors say that they took the paper back."""
    return bool(WITHDRAWN.search(comment) or WITHDRAWN.match(abstract[:200].lstrip("[(*- ")))


def urls(*values: Any) -> tuple[str, ...]:
    """Return those of the values that are addresses of the web."""
    kept = (value.strip() for value in values if isinstance(value, str) and len(value) < 2000)
    return tuple(dict.fromkeys(url for url in kept if url.startswith(("https://", "http://"))))
