"""Parse the fields of records, treating a value of the wrong type as missing."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, date, datetime
from functools import lru_cache
from math import isfinite
from typing import Any

from digest.papers.identifiers import id_in, normalised_id
from digest.papers.paper_record import Organization

MAX_TEXT = 2_000_000  #: maximum number of characters read from one field
MAX_URL = 2_000  #: characters
MAX_INSTITUTIONS = 20
MAX_NAMES = 20_001  #: maximum number of names read from a field, one more than a valid record may have

MONTHS = r"(Jan(?:uary)?|Feb(?:ruary)?|Mar(?:ch)?|Apr(?:il)?|May|June?|July?|Aug(?:ust)?|Sept?(?:ember)?|Oct(?:ober)?|Nov(?:ember)?|Dec(?:ember)?)\b\.?"
#: `2026-11-20`, `2026/11/20/`, `2026 Nov 20`, `2026 Nov-Dec`, `20261120`, `2026-11` or `2026`, and what may follow.
YEAR_FIRST = re.compile(
    rf"\s*(\d{{4}})(?:(\d\d)(\d\d)|[-/. ]{{1,3}}(\d\d?|{MONTHS})(?:[-/]{MONTHS})?(?:[-/. ](\d\d?))?)?(?!\d)",
    re.IGNORECASE,
)
#: `20 Nov 2026`, `20 Nov 26`, `November 20, 2026` or `November 2026`.
YEAR_LAST = re.compile(
    rf"(\d{{1,2}}) {MONTHS},? (\d{{4}}|\d\d)(?!\d)|\b{MONTHS}(?: (\d{{1,2}})(?:st|nd|rd|th)?)?,? (\d{{4}})(?!\d)",
    re.IGNORECASE,
)
MONTH = {name: number for number, name in enumerate("Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec".split(), 1)}  # noqa: SIM905  # fmt: skip
NAME_SEPARATOR = re.compile(r"\s*(?:,?\s+and\s+|,)\s*")
MIDDLE_DOT = re.compile(r" ·(?: |$)")
INITIALS = re.compile(r"(?:[A-Z]\.[ -]?){1,4}")
WITHDRAWN = re.compile(
    r"(?:this|the) (?:\w+ ){0,2}(?:paper|article|submission|manuscript|work|preprint)\b.{0,40}\b"
    r"(?:is|was|has been|have been) (?:\w+ )?withdrawn",
    re.IGNORECASE,
)
PERSON_NAME = re.compile(r"[^\W\d_][\w.'’-]*,?(?: [^\W\d_][\w.'’-]*,?){1,5}")
PARTICLES = frozenset("van von der den de del della di da dos du la le el al bin ibn ter ten zu y e".split())  # noqa: SIM905
NAME_SIGNS = str.maketrans("", "", " _-/()\t\N{NO-BREAK SPACE}")
#: The range of plausible timestamps, in seconds since 1970; numbers outside it are not dates.
MIN_TIMESTAMP, MAX_TIMESTAMP = 5e8, 1e10
FIGURE_PATTERN = re.compile(r"(\d[\d,]*(?:\.\d+)?)([kKmM]?)", re.ASCII)
FIGURE_SCALES = {"": 1.0, "k": 1e3, "m": 1e6}
IN_PARENTHESES = re.compile(r"\s*\([^()]*\)")


def folded_name(name: str) -> str:
    """Return a field's name in lower case, without spaces and signs (`paperurl`, `authors` for `Author(s)`)."""
    if name.isalpha() and name.isascii() and name.islower():
        return name
    return name.casefold().translate(NAME_SIGNS)


def as_text(value: Any) -> str:
    """Return a string on one line, or "" for a value of another type.

    For a list, such as a title from Crossref, use its first element.
    """
    if isinstance(value, list) and value:
        value = value[0]
    return " ".join(value[:MAX_TEXT].split()) if value and isinstance(value, str) else ""


def as_prose(value: Any) -> str:
    """Return a string with one line per paragraph, or "" for a value of another type."""
    if not value or not isinstance(value, str):
        return ""
    whole: str = value[:MAX_TEXT].strip()
    if "\n" not in whole:
        return whole
    line = whole.replace("\n", " ")
    if "  " not in line and line.isascii() and "\t" not in line and "\r" not in line:
        return line  # without blank or indented lines; much faster than to split the text into words
    if "\n\n" not in whole and "\n  " not in whole:
        return " ".join(whole.split())
    return "\n".join(paragraphs(whole))


def paragraphs(text: str) -> Iterator[str]:
    """Yield the paragraphs of a stripped text, each on one line.

    A new paragraph begins after a blank line or with an indented line.
    """
    begun: list[str] = []
    for line in text.split("\n"):
        if begun and (not line.strip() or line.startswith("  ")):
            yield " ".join(begun)
            begun = []
        begun += line.split()
    yield " ".join(begun)


def parse_number(value: Any) -> float | None:
    """Parse a finite, non-negative number, including `1.2k` and `3,400`; return None for anything else."""
    if isinstance(value, str) and len(value) < 16 and (figure := FIGURE_PATTERN.fullmatch(value.strip())):
        value = float(figure[1].replace(",", "")) * FIGURE_SCALES[figure[2].casefold()]
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if 0 <= value < 1e15 and isfinite(value) else None


def known_signals(**values: Any) -> dict[str, float]:
    """Return the given signals as numbers, without the signals whose values are not numbers."""
    found = {name: parse_number(value) for name, value in values.items() if value is not None}
    return {name: value for name, value in found.items() if value is not None}


def parse_count(value: Any) -> int | None:
    """Parse a whole number below a million; return None for anything else."""
    found = parse_number(value)
    return int(found) if found is not None and found < 1e6 else None


def parse_day(value: Any) -> date | None:  # noqa: PLR0911  (one return for each kind of value)
    """Return the date that a value states in any known format; a missing month or day counts as the first.

    Accepts text in its own time zone, a year, seconds or milliseconds since 1970, and CSL's `date-parts`. Of a
    list, return the first date.
    """
    if value is None:
        return None
    if isinstance(value, list | tuple):
        return next(filter(None, map(parse_day, value)), None)
    if isinstance(value, dict):
        parts = as_list(value.get("date-parts"))
        if (
            parts and isinstance(parts[0], list) and parts[0]
        ):  # such as [2026, 11, 20]; month and day are optional
            return make_date(*(*parts[0], 1, 1)[:3])
        return parse_day(value.get("raw"))
    if isinstance(value, str) and (found := day_in(value[:60])):
        return found
    number = parse_number(value)
    if isinstance(value, date) or number is None:
        return value if isinstance(value, date) else None
    return make_date(number, 1, 1) if number < 10_000 else parse_timestamp(number)


@lru_cache(maxsize=2_000)  # the papers of a dump have few different days
def day_in(text: str) -> date | None:
    """Return the date that a text begins with, or the first date in it that is written out."""
    if found := YEAR_FIRST.match(text):
        month, day = found[2] or found[4], found[3] or found[7]
        return make_date(found[1], month_number(month or "1"), int(day or 1) or 1)
    if found := YEAR_LAST.search(text):
        year = int(found[3] or found[6])
        year += (1900 if year > 90 else 2000) if year < 100 else 0
        return make_date(year, month_number(found[2] or found[4]), found[1] or found[5] or 1)
    return None


def month_number(name: str) -> int:
    """Return the number of a month that is given as a number or a name; 0 means unknown, and counts as 1."""
    return int(name) or 1 if name.isdecimal() else MONTH[name[:3].capitalize()]


def make_date(year: Any, month: Any, day: Any) -> date | None:
    """Return the date, or None if it does not exist or is in the first millennium."""
    try:
        found = date(int(year), int(month), int(day))
    except (TypeError, ValueError, OverflowError):
        return None
    return found if found.year >= 1000 else None


def as_mapping(value: Any) -> Mapping[str, Any]:
    """Return `value` if it is a JSON object, otherwise an empty object."""
    return value if isinstance(value, dict) else {}


def as_list(value: Any) -> list[Any]:
    """Return `value` if it is a list, otherwise an empty list."""
    return value[:MAX_NAMES] if isinstance(value, list) else []


def split_names(value: Any) -> tuple[str, ...]:
    """Split a line of authors, as in `A, B and C (Some Institute)` or `Ito, K.; Lind, P.`"""
    line = MIDDLE_DOT.sub(", ", as_text(value))
    for _ in range(3 * ("(" in line)):  # an affiliation in parentheses may itself contain parentheses
        line = IN_PARENTHESES.sub("", line)
    groups = line.split(";") if ";" in line else line.split(" and ")
    if ";" in line or (len(groups) > 1 and all(group.count(",") == 1 for group in groups)):
        parts = [group.strip(" ,") for group in groups]
    else:
        parts = NAME_SEPARATOR.split(line)[:MAX_NAMES]
        if all(map(INITIALS.fullmatch, parts[1::2])) and not len(parts) % 2:
            parts = [", ".join(pair) for pair in zip(parts[::2], parts[1::2], strict=True)]
    return tuple(name for name in parts[:MAX_NAMES] if name and name != ":")


def person_names(value: Any) -> tuple[str, ...]:
    """Return the names in a string if all its parts are names of people, otherwise none."""
    found = split_names(value)
    return found if all(map(is_person_name, found)) else ()


def is_person_name(name: str) -> bool:
    """Return whether `name` has at least two words and looks like a person's name."""
    return PERSON_NAME.fullmatch(name) is not None and all(
        not word[0].islower() or word in PARTICLES for word in name.replace(",", "").split()
    )


def institutions(names: Iterable[Any]) -> Organization | None:
    """Return the first institution as the paper's organisation; its handle lists all, for filters."""
    known = list(dict.fromkeys(filter(None, map(as_text, names))))[:MAX_INSTITUTIONS]
    return Organization(handle="; ".join(known), name=known[0]) if known else None


def parse_timestamp(seconds: float) -> date | None:
    """Return the UTC date of a timestamp in seconds or milliseconds since 1970."""
    seconds = seconds / 1000 if seconds > MAX_TIMESTAMP else seconds
    return datetime.fromtimestamp(seconds, UTC).date() if MIN_TIMESTAMP < seconds < MAX_TIMESTAMP else None


def values_at(found: Any, path: str) -> list[Any]:
    """Return the values under a path of keys such as `authors.name`, in every element of the lists on it."""
    values = [found]
    for key in path.split("."):
        below = [one.get(key) for one in values if isinstance(one, dict)]
        values = [inner for one in below for inner in (as_list(one) if isinstance(one, list) else [one])]
    return [one for one in values if one is not None]


def texts_at(found: Any, *paths: str) -> list[str]:
    """Return the texts under these paths, each on one line."""
    return list(filter(None, (as_text(one) for path in paths for one in values_at(found, path))))


def first_at(found: Any, *paths: str) -> Any:
    """Return the first value under these paths that is neither missing nor empty, or None."""
    return next((one for path in paths for one in values_at(found, path) if one not in ("", [])), None)


def normalised_ids(pairs: Iterable[tuple[str, Any]]) -> dict[str, str]:
    """Return the first valid id of each scheme among (scheme, value) pairs, normalised."""
    found: dict[str, str] = {}
    for scheme, value in pairs:
        if isinstance(value, int) and not isinstance(value, bool):
            value = str(value)  # noqa: PLW2901
        if isinstance(value, str) and (key := normalised_id(scheme, value)):
            found.setdefault(*key)
    return found


def ids_in_urls(*values: Any) -> dict[str, str]:
    """Return {scheme: id} with the first id of each scheme in the URLs."""
    found: dict[str, str] = {}
    for value in values:
        if isinstance(value, str) and (key := id_in(value.strip())):
            found.setdefault(*key)
    return found


def is_withdrawn(comment: str, abstract: str) -> bool:
    """Return whether the comment or the abstract states that the paper is withdrawn."""
    return bool(WITHDRAWN.search(comment) or WITHDRAWN.match(abstract[:200].lstrip("[(*- ")))


def web_urls(*values: Any) -> tuple[str, ...]:
    """Return the values that are http or https URLs, without duplicates."""
    kept = (value.strip() for value in values if isinstance(value, str) and len(value) < MAX_URL)
    return tuple(dict.fromkeys(url for url in kept if url.startswith(("https://", "http://"))))
