"""Lines of a page that are no prose: figures, dates, numbers of authors, and the site's own words.

The same facts are spelled in many ways: `Nov 3, 2026`, `3 Nov 2026`, `2026-11-03`; `3.29k` under a
button, behind a star, or before the word. A line may hold one of them, or several parted by dots.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from enum import Enum, auto

from digest.dumps import fields

MONTHS = {
    name: number
    for number, names in enumerate(
        [
            "Jan January",
            "Feb February",
            "Mar March",
            "Apr April",
            "May May",
            "Jun June",
            "Jul July",
            "Aug August",
            "Sep September Sept",
            "Oct October",
            "Nov November",
            "Dec December",
        ],
        start=1,
    )
    for name in names.split()
}

NAVIGATION = frozenset(
    "new|Get trending papers in your email inbox once a day!|Get trending papers in your email inbox!|"
    "Subscribe|Daily Papers|Trending Papers|Daily|Weekly|Monthly|Log In|Sign Up|"
    "Previous|Next|Company|TOS|Privacy|About|Careers|Website|Models|Datasets|Spaces|Pricing|Docs|"
    "System theme|Back to top|arXiv Page|PDF|View all|Hugging Face|Community|Enterprise|Buckets|Collections|"
    "Abstract|References|Visible links|Hidden links|Organizations|Inference Endpoints|Project Page|...|…".casefold().split(
        "|"
    )
)
BYLINE = re.compile(r"by.{0,200}\band the research community")
SITE = re.compile(r"©.{0,60}|.{0,12}hugging face.{0,3} logo.{0,20}|submitted by .{1,60}")
#: Between papers, under a title, or under the names of a table's columns.
RULE = re.compile(r"[-=*_~#—–]{3,}|(?:`{3,}|~{3,})\w*|(?:[-*_] ){2,}[-*_]|\|(?:\s*:?-+:?\s*\|)+")
NUMBER = r"\d[\d,]*(?:\.\d+)?[kKmM]?"
BULLET = r"(?:[-•*·▪►‣◦–]|\N{BUSTS IN SILHOUETTE}|\N{BUST IN SILHOUETTE}|\N{SPIRAL CALENDAR PAD}|\N{CALENDAR}|\N{TEAR-OFF CALENDAR})"
AUTHORS = re.compile(
    rf"(?:[\[\s\\]*{BULLET})*[\[\s\\]*(?:authors: )?(?P<number>[\d,]{{1,9}}) authors?"
    r"(?:\](?:\(\S*\)|\[\d+\]))?[\\\s]*",
    re.IGNORECASE,
)
LABEL = rf"(?P<label>(?:{BULLET}\s*)?(?:(?:published|submitted|posted|date)(?: on)?:? )?)"
YEAR = r"(?P<year>(?:19|20)\d\d)"
DAY = r"(?P<day>\d{1,2})(?:st|nd|rd|th)?"
MONTH = r"(?P<month>[A-Za-z]{3,9})\.?"
DATE = re.compile(
    rf"{LABEL}{MONTH} {DAY}(?:,? {YEAR})?"
    r"(?:\s*\[\s*(?P<linked>[\d.,]+k?)\s*\](?:\(\S*\)|\[\d+\])|\s+(?P<comments>[\d.,]+k?))?",
    re.IGNORECASE,
)
DAY_FIRST = re.compile(rf"{LABEL}{DAY} {MONTH},? {YEAR}", re.IGNORECASE)
ISO = re.compile(rf"{LABEL}{YEAR}[-/.](?P<month>\d\d)[-/.](?P<day>\d\d)", re.IGNORECASE)
COUNT = re.compile(r"(?:\[-\]\s*)?(?P<number>\d[\d,]*(?:\.\d+)?[kKmM]?|-)")
EMPHASIS = re.compile(r"\*\*|__|`|(?<!\w)[*_](?=\w)|(?<=[\w.])[*_](?!\w)")
SIGNS = {"upvotes": "▲△⬆🔼↑👍❤🔥👏", "comments": "💬🗨", "stars": "⭐★☆🌟"}
BETWEEN = re.compile(rf"\s*[·|•]\s*|\s+(?=[{''.join(SIGNS.values())}])")
NOTE = re.compile(r"\[\d{1,4}\](?=\w)")  #: a text browser's number of a link
ADDRESSED = re.compile(
    r"(?:[-*•]\s+)?(?:\*\*|__)?(?P<kind>arxiv|doi|links?|urls?|pdf|paper|code|github|project(?: page)?)"
    r"(?: (?:id|page|link))?(?:\*\*|__)?\s*:(?:\*\*|__)?\s+(?P<address>\[[^\[\]]*\]\(\S+\)|<?\S+>?)",
    re.IGNORECASE,
)
LONGEST_NAMES = 4_000
LONGEST = 200  #: a longer line is prose
LABELLED = re.compile(
    r"(?:[-*•]\s+)?(?:\*\*|__)?(?:by|(?:authors?|by)(?:\*\*|__)?\s*:)(?:\*\*|__)?\s+(?P<names>\S.*)"
    r"|(?:[-*•]\s+)?(?:\*\*|__)?title(?:\*\*|__)?\s*:(?:\*\*|__)?\s+(?P<title>\S.*)"
    r"|(?:[-*•]\s+)?(?:\*\*|__)?abstract(?:\*\*|__)?\s*:(?:\*\*|__)?\s+(?P<abstract>\S.*)",
    re.IGNORECASE,
)


def counted(signs: str, words: str) -> re.Pattern[str]:
    """Return the pattern of a figure behind or before its sign or its word."""
    named = rf"(?:[{signs}]|{words})"
    return re.compile(
        rf"(?:- )?\(?(?:{named}:? ?({NUMBER}|-)(?: arxiv page)?|({NUMBER}) ?{named})\)?", re.IGNORECASE
    )


class Kind(Enum):
    """What a line says when it is no prose."""

    DOT = auto()
    AUTHORS = auto()
    DATE = auto()
    COUNT = auto()  #: a figure that does not say of what
    UPVOTE = auto()  #: the caption of a figure
    SUBMITTER = auto()  #: the caption of a name
    UPVOTES = auto()
    COMMENTS = auto()
    STARS = auto()
    NAVIGATION = auto()


CAPTIONS = {"upvote": Kind.UPVOTE, "upvotes": Kind.UPVOTE, "submitted by": Kind.SUBMITTER}
FIGURES = {
    Kind.UPVOTES: counted(SIGNS["upvotes"], "(?:up)?votes?|likes?"),
    Kind.COMMENTS: counted(SIGNS["comments"], "comments?"),
    Kind.STARS: counted(SIGNS["stars"], "github(?: stars?)?|(?:github )?stars?"),
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Mark:
    """A line that is no prose: what it says, and its figures."""

    kind: Kind
    number: float | None = None  #: authors; or the comments behind a date; or a lone count
    month: int = 0
    day: int = 0
    year: int | None = None
    is_labelled: bool = False  #: it says whose date it is: `Published on ...`, or a dot before it


def marks(line: str) -> tuple[Mark, ...]:
    """Return what a line says if it is no prose: one mark, or several that a dot or a bar parts."""
    if len(line) > LONGEST:
        return ()
    if RULE.fullmatch(line.strip()):
        return (Mark(kind=Kind.NAVIGATION),)
    text = plain(line)
    if found := mark(text):
        return (found,)
    parts = [part for part in BETWEEN.split(text) if part]
    several = [mark(part) for part in parts] if len(parts) > 1 else []
    return tuple(one for one in several if one) if several and all(several) else ()


def signed(line: str) -> tuple[str, tuple[Mark, ...]]:
    """Return the name at the beginning of a line and the marks behind it; nothing if it is no such line."""
    parts = [part for part in BETWEEN.split(plain(line)) if part] if len(line) <= LONGEST else []
    name, *rest = parts or [""]
    behind = [mark(part) for part in rest]
    found = tuple(one for one in behind if one)
    is_whole = len(found) == len(rest) and any(one.kind is Kind.DATE for one in found)
    return (name, found) if is_whole else ("", ())


def authors(line: str) -> tuple[str, ...]:
    """Return the authors that a line names after the word for them."""
    told = LABELLED.fullmatch(line.strip()) if len(line) <= LONGEST_NAMES else None
    found = fields.people(told["names"]) if told and told["names"] else ()
    return found if len(found) > 1 or ":" in line else ()  # `by Gradient Descent` is nobody


def labelled(line: str) -> tuple[str, str]:
    """Return (`title` or `abstract`, the text) where a line says which of them it is; else nothing."""
    told = LABELLED.fullmatch(line) if ":" in line[:20] else None
    if told is None or told["names"]:
        return "", ""
    return ("title", told["title"]) if told["title"] else ("abstract", told["abstract"])


def addressed(line: str) -> tuple[str, str]:
    """Return (what it leads to, an address or id) where a line is an address after the word for it; else nothing."""
    told = ADDRESSED.fullmatch(line.strip()) if len(line) < LONGEST_NAMES else None
    return (told["kind"].casefold(), told["address"]) if told else ("", "")


def plain(line: str) -> str:
    """Return a line without emphasis, quotation marks of mail, and what cannot be seen."""
    if not line.isascii():
        line = "".join(char for char in line if unicodedata.category(char) not in ("Cf", "Mn"))
    return NOTE.sub("", EMPHASIS.sub("", " ".join(line.split())).removeprefix("> "))


def mark(text: str) -> Mark | None:
    """Return what a plain line says if it is one thing and no prose."""
    if text == "·":
        return Mark(kind=Kind.DOT)
    if is_navigation(text):
        return Mark(kind=Kind.NAVIGATION)
    if caption := CAPTIONS.get(text.casefold()):
        return Mark(kind=caption)
    if found := AUTHORS.fullmatch(text):
        return Mark(kind=Kind.AUTHORS, number=float(found["number"].replace(",", "")))
    for kind, pattern in FIGURES.items():
        if found := pattern.fullmatch(text):
            return Mark(kind=kind, number=figure(found[1] or found[2]))
    if found := COUNT.fullmatch(text):
        return Mark(kind=Kind.COUNT, number=figure(found["number"]))
    return dated(text)


def dated(text: str) -> Mark | None:
    """Return the day that is all a line says."""
    for pattern in (DATE, DAY_FIRST, ISO):
        found = pattern.fullmatch(text)
        if found is None:
            continue
        told = found.groupdict()
        month = int(told["month"]) if told["month"].isdigit() else MONTHS.get(told["month"].capitalize(), 0)
        if 1 <= month <= 12 and 1 <= int(told["day"]) <= 31:
            return Mark(
                kind=Kind.DATE,
                number=figure(told.get("linked") or told.get("comments")),
                month=month,
                day=int(told["day"]),
                year=int(told["year"]) if told["year"] else None,
                is_labelled=bool(told["label"]),
            )
    return None


def is_navigation(text: str) -> bool:
    """Return whether a line is the site's own and no paper's."""
    words = text.lstrip("# ").casefold()
    return words in NAVIGATION or bool(BYLINE.fullmatch(text) or SITE.fullmatch(words))


def figure(text: str | None) -> float | None:
    """Return the number in `3.29k`, `110k`, `1,204`; `-` is none at all, which is 0."""
    if not text:
        return None
    if text == "-":
        return 0.0
    text = text.replace(",", "")
    scale = {"k": 1e3, "m": 1e6}.get(text[-1].casefold(), 1.0)
    try:
        return round(float(text.rstrip("kKmM")) * scale)
    except ValueError:
        return None
