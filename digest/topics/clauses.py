"""One clause of a filter: what may stand before the colon, and how what stands after it is read."""

from __future__ import annotations

import math
import re
import unicodedata
from calendar import monthrange
from collections.abc import Callable
from datetime import date, timedelta
from difflib import get_close_matches
from functools import lru_cache

from digest import papers
from digest.papers import Announcement
from digest.topics import about, languages, names, phrases, taxonomy, text
from digest.topics.tree import (
    About,
    Anywhere,
    Category,
    Identifier,
    Language,
    Leaf,
    Person,
    Published,
    Signal,
    Source,
    State,
    Text,
    Use,
)

SHORTEST_PREFIX = 3
WIDEST = 99  #: words that may stand between the words of "a b"~N
MOST_WORDS = 64  #: of a phrase
MOST_CHARACTERS = 1000  #: of a filter, as written and written out

#: Every spelling of a field, and the one we print.
FIELDS = {
    "ti": "ti", "title": "ti", "intitle": "ti", "allintitle": "ti",
    "abs": "abs", "ab": "abs", "abstract": "abs",
    "tiab": "tiab",
    "all": "all", "any": "all",
    "au": "au", "author": "au", "authors": "au", "inauthor": "au",
    "1au": "1au", "firstauthor": "1au", "first_author": "1au",
    "co": "co", "comment": "co",
    "jr": "jr", "journal": "jr",
    "org": "org", "organization": "org", "organisation": "org",
    "cat": "cat", "category": "cat",
    "pcat": "pcat", "primary": "pcat",
    "id": "id", "arxiv": "id", "doi": "id", "pmid": "id",
    "is": "is",
    "about": "about",
    "like": "like",
    "use": "use",
    "lang": "lang", "language": "lang",
    "source": "source", "src": "source",
    "date": "date", "published": "date", "year": "date", "submitteddate": "date",
}  # fmt: skip
#: What others have as fields and we have not: why, and what to write.
NO_FIELDS = {
    "trend": (
        "How much a paper trends orders every digest and changes by the hour; ask for a figure",
        "upvotes:>=20",
    ),
    "near": ("Words near one another stand in quotes", '"two words"~5'),
    "kw": ("There are no keywords here; words are looked for in title and abstract", "tiab:"),
}
SIGNALS = ("upvotes", "comments", "stars", "citations", "downloads", "likes", "views", "models", "datasets")
TEXT_FIELDS = frozenset(("tiab", "ti", "abs", "co", "jr", "org"))
OPERATORS = frozenset(("AND", "OR", "NOT", "ANDNOT"))
#: What fingers make of an operator. NOR, XOR, ANN, AN, LAND and their like are words or names of their own.
MISTYPED = {
    "ANDN": "ANDNOT", "ANDNO": "ANDNOT", "ANDNT": "ANDNOT", "ANDOT": "ANDNOT", "ANNOT": "ANDNOT",
    "ANDNTO": "ANDNOT", "ADNNOT": "ANDNOT", "NADNOT": "ANDNOT", "ANDONT": "ANDNOT", "NDNOT": "ANDNOT",
    "AANDNOT": "ANDNOT", "ANNDNOT": "ANDNOT", "ANDDNOT": "ANDNOT", "ANDNNOT": "ANDNOT", "ANDNOOT": "ANDNOT",
    "ANDNOTT": "ANDNOT", "ANDD": "AND", "ANND": "AND", "AAND": "AND", "NOTT": "NOT", "NOOT": "NOT",
    "NNOT": "NOT", "OOR": "OR",
}  # fmt: skip
#: As words to look for, these stand behind a field or in quotes.
NO_BARE_WORD = OPERATORS.union(MISTYPED)


class Mistake(Exception):
    """What is wrong with a value; `offset` counts from its beginning."""

    def __init__(self, message: str, *, offset: int = 0, length: int = 0, suggestion: str | None = None):
        super().__init__(message)
        self.message = message
        self.offset = offset
        self.length = length
        self.suggestion = suggestion


def field_named(written: str) -> str | None:
    """Return the canonical name of a field or signal, or None where there is no such field."""
    lowered = written.lower()
    return FIELDS.get(lowered) or (lowered if lowered in SIGNALS else None)


def field_suggestion(written: str) -> str | None:
    """Return the field that was probably meant, or None."""
    close = get_close_matches(written.lower()[:40], (*FIELDS, *SIGNALS), n=1, cutoff=0.66)
    return f"{field_named(close[0])}:" if close else None


@lru_cache(maxsize=65536)
def clause(field: str, value: str) -> Leaf:
    """Return the clause that `field:value` means; raises `Mistake`."""
    return _clause(field, value, quoted=False, near=None)


@lru_cache(maxsize=65536)
def quoted(field: str, value: str, near: int | None) -> Leaf:
    """Return the clause that `field:"value"~near` means; raises `Mistake`."""
    return _clause(field, value, quoted=True, near=near)


def _clause(field: str, value: str, *, quoted: bool, near: int | None) -> Leaf:
    if near is not None and not (quoted and (field in TEXT_FIELDS or field == "all")):
        raise Mistake("Only words in quotes can be near one another", suggestion='"two words"~5')
    if field in TEXT_FIELDS:
        return _text(field, value, quoted=quoted, near=near)
    if field in SIGNALS:
        return _signal(field, value)
    if field == "all":
        return _anywhere(value, quoted=quoted, near=near)
    return _READERS[field](value)


# ── words ───────────────────────────────────────────────────────────────────────────────────────

_STAR = re.compile(r"\*+")
_PLAIN = re.compile(r"[a-z0-9]+(?: [a-z0-9]+)*|[a-z]{3,}\*")
_MARK_INSIDE = re.compile(r"\w(\?)\w")
_FUZZY = re.compile(r"\w(~)\d*$")
_PUBMED_TAG = re.compile(r"(?s)(.+)\[(ti|tiab|ab|au|1au|dp|mh|tw|title|abstract|author)\]", re.IGNORECASE)
_TEX = re.compile(r"[\\${}]")
_REGEX = re.compile(r"/.+/")
_WEIGHT = re.compile(r"[^\W\d_]{3}(\^)[\d.]+$")


def _text(field: str, value: str, *, quoted: bool, near: int | None) -> Text:
    if not quoted and not value.isalpha():
        _refuse_foreign(value)
    tokens, gaps = _plain_words(value) or _phrase(value)
    if not tokens:
        raise Mistake("There is no letter or digit to look for here")
    if not quoted:
        gaps = "-" * len(gaps)
    if near is not None:
        gaps = " " * len(gaps)
    return _spelled(field, tokens, gaps, exact=quoted, near=near)


def _plain_words(value: str) -> tuple[tuple[str, ...], str] | None:
    """Return what `_phrase` would, at once, where there is nothing to fold: such are most values."""
    if not _PLAIN.fullmatch(value) or value.count(" ") >= MOST_WORDS:
        return None
    tokens = tuple(value.split(" "))
    return tokens, " " * (len(tokens) - 1)


def _phrase(value: str) -> tuple[tuple[str, ...], str]:
    """Return the words of a value, "flat*" where a star follows, and the gaps between them."""
    plain = _plain(value)
    stars = {found.start(): found.end() for found in _STAR.finditer(plain)}
    row = text.read(plain)
    # A part that is nothing once folded (a lone accent) is no word.
    kept = [i for i, folded in enumerate(row.folded) if folded]
    if len(kept) > MOST_WORDS:
        raise Mistake(f"A phrase has at most {MOST_WORDS} words; this one has {len(kept)}")
    # Whoever shouts a whole phrase ("SHARPNESS AWARE") means no acronym.
    is_shouted = any(len(surface) > 5 and surface.isupper() for surface in row.surfaces)
    tokens = []
    for i in kept:
        token = row.folded[i] if is_shouted else _token(row, i)
        if row.ends[i] in stars and stars[row.ends[i]] not in row.starts:
            del stars[row.ends[i]]
            if sum(map(str.isalpha, token)) < SHORTEST_PREFIX:
                raise Mistake(f"At least {SHORTEST_PREFIX} letters must stand before a *", suggestion=token)
            token += "*"
        tokens.append(token)
    if stars:
        raise Mistake("A * may only end a word", offset=min(stars) if plain == value else 0, length=1)
    return tuple(tokens), "".join("-" if row.glue[i] == "-" else " " for i in kept[:-1])


def _plain(value: str) -> str:
    """Return a value without its TeX, read as the papers' own is, and without compatibility forms."""
    plain = papers.display(value) if _TEX.search(value) else value
    if not plain.isascii():
        plain = unicodedata.normalize("NFKC", plain)
    if len(plain) > MOST_CHARACTERS:  # one sign may stand for eighteen letters
        raise Mistake(
            f"Written out, this has {len(plain):,} characters; a filter has at most {MOST_CHARACTERS:,}"
        )
    return plain


def _token(row: text.Words, i: int) -> str:
    """Return part `i` to look for: folded, but a short acronym as typed."""
    return row.surfaces[i] if text.is_acronym(row.surfaces[i]) else row.folded[i]


def _spelled(field: str, tokens: tuple[str, ...], gaps: str, *, exact: bool, near: int | None) -> Text:
    if len(tokens) == 1:
        near = None
        exact = exact and tokens[0][-1] != "*"
    shown = tokens[0] + "".join(f"{gap}{token}" for gap, token in zip(gaps, tokens[1:], strict=True))
    if exact:
        shown = f'"{shown}"'
    if near is not None:
        shown += f"~{near}"
    canonical = f"{field}:{shown}" if field != "tiab" or shown in NO_BARE_WORD else shown
    closed = () if near is not None or not gaps else tuple(phrases.closed(tokens, gaps))
    return Text(field, tokens, gaps, exact, near, shown, closed, canonical)


def _refuse_foreign(value: str) -> None:
    """Raise on what other languages allow and ours does not, with our way to say it."""
    tag = _PUBMED_TAG.fullmatch(value)
    if tag:
        field = FIELDS.get(tag[2].lower(), "tiab")
        raise Mistake("A field stands before its word", suggestion=f"{field}:{tag[1]}")
    found = _MARK_INSIDE.search(value)
    if found:
        raise Mistake("? is no wildcard here; * may end a word", offset=found.start(1), length=1)
    found = _FUZZY.search(value)
    if found:
        raise Mistake(
            "~ follows words in quotes: so many other words may stand between them",
            offset=found.start(1),
            length=1,
            suggestion='"two words"~5',
        )
    found = _WEIGHT.search(value)
    if found:
        raise Mistake(
            "There are no weights here; what is named first in an OR counts most",
            offset=found.start(1),
            length=len(value) - found.start(1),
            suggestion=value[: found.start(1)],
        )
    if _REGEX.fullmatch(value):
        raise Mistake("There are no regular expressions here; * may end a word")


# ── people ──────────────────────────────────────────────────────────────────────────────────────


def _author(value: str) -> Person:
    return _person(value, first=False)


def _first_author(value: str) -> Person:
    return _person(value, first=True)


def _person(value: str, *, first: bool) -> Person:
    plain = _plain(value).strip()
    if plain.startswith("^"):
        first, plain = True, plain[1:]
    starred = plain.endswith("*")
    plain = plain.rstrip("*")
    family, comma, given = plain.partition(",")
    if comma:
        names_given, names_family = names.parts_of(given), names.parts_of(family)
    else:
        names_given, names_family, comma = _unsorted(names.parts_of(plain), arxiv="_" in plain)
    if not names_family or (starred and len(names_family[-1]) < SHORTEST_PREFIX):
        raise Mistake("A family name belongs here", suggestion='au:"Wang, Yi"')
    if starred and comma:
        raise Mistake("A * may only follow a family name", suggestion=f"{plain[0] if plain else 'a'}*")
    star = "*" if starred else ""
    field = "1au" if first else "au"
    if comma and names_given:
        shown = f'"{" ".join(names_family)}, {" ".join(names_given)}"'
    else:
        words = (*names_given, *names_family)
        shown = f"{words[0]}{star}" if len(words) == 1 and not comma else f'"{" ".join(words)}{star}{comma}"'
    return Person(first, names_given, names_family, bool(comma), starred, f"{field}:{shown}")


def _unsorted(parts: tuple[str, ...], *, arxiv: bool) -> tuple[tuple[str, ...], tuple[str, ...], str]:
    """Return given and family names of a name without comma; arXiv writes `wang_y` for Wang, Y."""
    if arxiv and len(parts) > 1 and len(parts[-1]) == 1:
        initials = len(parts) - next(
            i for i, part in enumerate(reversed(parts)) if len(part) > 1 or i + 1 == len(parts)
        )
        return parts[initials:], parts[:initials], ","
    return parts[:-1], parts[-1:], ""


# ── categories, ids, states, sources ────────────────────────────────────────────────────────────


def _category(value: str) -> Category:
    return _category_of(value, primary=False)


def _primary(value: str) -> Category:
    return _category_of(value, primary=True)


def _category_of(value: str, *, primary: bool) -> Category:
    field = "pcat" if primary else "cat"
    lowered = value.strip().lower()
    wanted = lowered.removesuffix("*").removesuffix(".") if lowered.endswith(".*") else lowered
    code = taxonomy.CODES.get(wanted)
    if code is None or (wanted != lowered and code not in taxonomy.ARCHIVES):
        raise Mistake(
            f"arXiv has no category {value.strip()[:40]!r}.".replace("'", '"'),
            suggestion=_after(field, taxonomy.suggestion(wanted)),
        )
    if code in taxonomy.ARCHIVES:
        return Category(primary, (code.lower(),), is_archive=True, canonical=f"{field}:{code}")
    return Category(primary, taxonomy.names_of(code), is_archive=False, canonical=f"{field}:{code}")


def _after(field: str, value: str | None) -> str | None:
    return f"{field}:{value}" if value else None


_SCHEMES = re.compile(r"(?i)(arxiv|doi|pmid|pmcid|openalex|s2|corpusid):(.+)")


def _identifier(value: str) -> Identifier:
    plain = value.strip()
    named = _SCHEMES.fullmatch(plain)
    schemes = (
        [(named[1], named[2])]
        if named
        else [(scheme, plain) for scheme in ("arxiv", "doi", "pmid", "openalex")]
    )
    for scheme, bare in schemes:
        known = papers.normalised_id(scheme, bare)
        if known and '"' not in known[1] and known[1].isprintable():
            return Identifier(known[1], f"id:{_quoted(known[1])}")
    raise Mistake("This is no arXiv id, DOI, PubMed or OpenAlex id", suggestion="id:2401.01234")


def _quoted(value: str) -> str:
    return value if re.fullmatch(r"[\w.:/+-]+", value) and value[-1] != ":" else f'"{value}"'


def _state(value: str) -> State:
    lowered = value.strip().lower()
    if lowered not in set(Announcement):
        close = get_close_matches(lowered[:40], list(Announcement), n=1, cutoff=0.5)
        raise Mistake(
            "A paper is new, cross, replaced or withdrawn",
            suggestion=_after("is", close[0] if close else None),
        )
    return State(lowered, f"is:{lowered}")


def _source(value: str) -> Source:
    folded = " ".join(papers.fold(value).split())
    if not folded or '"' in folded or "*" in folded:
        raise Mistake("The name of a source belongs here", suggestion="source:arxiv")
    return Source(folded, f"source:{_quoted(folded)}")


def _language(value: str) -> Language:
    wanted = value.strip().lower().partition("-")[0]
    code = languages.NAMES.get(wanted)
    if code is None:
        close = get_close_matches(wanted[:40], languages.NAMES, n=1, cutoff=0.6)
        raise Mistake(
            f"A language is one of {' '.join(dict.fromkeys(languages.NAMES.values()))}",
            suggestion=_after("lang", languages.NAMES[close[0]] if close else None),
        )
    return Language(code, f"lang:{code}")


# ── dates ───────────────────────────────────────────────────────────────────────────────────────

_DAY = r"(?:\d{4}(?:-\d{2}(?:-\d{2})?)?|\d{6}(?:\d{2}(?:\d{4})?)?)"
_ONE = re.compile(rf"(>=|<=|>|<|=)?({_DAY})")
_RANGE = re.compile(rf"({_DAY})?(?:\.\.|-(?=\d{{4}}$))({_DAY})?")
_ARXIV_RANGE = re.compile(rf"\[({_DAY})\s+TO\s+({_DAY})\]")
_EXAMPLE = "date:2024-01..2024-06"


def _published(value: str) -> Published:
    plain = value.strip()
    one, several = _ONE.fullmatch(plain), _ARXIV_RANGE.fullmatch(plain) or _RANGE.fullmatch(plain)
    if one:
        since, until = _bounds(one[1] or "=", *_days(one[2]))
    elif several and (several[1] or several[2]):
        since = _days(several[1])[0] if several[1] else date.min
        until = _days(several[2])[1] if several[2] else date.max
    else:
        raise Mistake("A date is written 2024, 2024-05 or 2024-05-31", suggestion=_EXAMPLE)
    if since > until:
        raise Mistake("This span of days ends before it begins", suggestion=f"date:{until}..{since}")
    return Published(since, until, f"date:{_span(since, until)}")


def _days(written: str) -> tuple[date, date]:
    """Return the first and the last day of a year, a month or a day."""
    digits = written.replace("-", "")[:8]
    year, month, day = int(digits[:4]), int(digits[4:6] or 0), int(digits[6:8] or 0)
    try:
        first = date(year, month or 1, day or 1)
    except ValueError as error:
        raise Mistake(f"There is no such day as {written}", suggestion=_EXAMPLE) from error
    if day:
        return first, first
    return first, date(year, month or 12, monthrange(year, month or 12)[1])


def _bounds(operator: str, first: date, last: date) -> tuple[date, date]:
    if operator in ("<", ">") and (first == date.min or last == date.max):
        raise Mistake("No day lies beyond this one", suggestion=_EXAMPLE)
    return {
        "=": lambda: (first, last),
        ">=": lambda: (first, date.max),
        ">": lambda: (last + timedelta(days=1), date.max),
        "<=": lambda: (date.min, last),
        "<": lambda: (date.min, first - timedelta(days=1)),
    }[operator]()


def _span(since: date, until: date) -> str:
    if since == date.min and until == date.max:
        return f"{since}..{until}"
    if until == date.max:
        return f">={since}"
    if since == date.min:
        return f"<={until}"
    if since == until:
        return f"{since}"
    for short in (f"{since:%Y}".zfill(4), f"{since:%Y-%m}".zfill(7)):
        if _days(short) == (since, until):
            return short
    return f"{since}..{until}"


# ── signals ─────────────────────────────────────────────────────────────────────────────────────

_FIGURE = r"\d{1,9}(?:\.\d{1,3})?k?"
_BOUND = re.compile(rf"(>=|<=|>|<|=)?({_FIGURE})", re.IGNORECASE)
_BETWEEN = re.compile(rf"({_FIGURE})\.\.({_FIGURE})", re.IGNORECASE)


def _signal(name: str, value: str) -> Signal:
    plain = value.strip()
    bound, between = _BOUND.fullmatch(plain), _BETWEEN.fullmatch(plain)
    if between:
        low, high = _figure(between[1]), _figure(between[2])
    elif bound:
        low, high = _interval(bound[1] or "=", _figure(bound[2]))
    else:
        raise Mistake("A figure belongs here, or a bound", suggestion=f"{name}:>=20")
    if low > high:
        raise Mistake("No figure lies within these bounds", suggestion=f"{name}:>=20")
    return Signal(name, low, high, f"{name}:{_bounds_shown(low, high)}")


def _figure(written: str) -> float:
    thousands = written[-1] in "kK"
    return round(float(written.rstrip("kK")) * (1000 if thousands else 1), 3)


def _interval(operator: str, figure: float) -> tuple[float, float]:
    """Return the figures meant, both ends included; signals are counted, so > 19 is >= 20."""
    above = math.floor(figure) + 1
    below = math.ceil(figure) - 1
    return {
        "=": (figure, figure),
        ">=": (figure, math.inf),
        ">": (above, math.inf),
        "<=": (0, figure),
        "<": (0, below),
    }[operator]


def _bounds_shown(low: float, high: float) -> str:
    if low == high:
        return _shown(low)
    if high == math.inf:
        return f">={_shown(low)}"
    return f"<={_shown(high)}" if low == 0 else f"{_shown(low)}..{_shown(high)}"


def _shown(figure: float) -> str:
    return f"{figure:.3f}".rstrip("0").rstrip(".")


def _anywhere(value: str, *, quoted: bool, near: int | None) -> Anywhere:
    texts = [_text(field, value, quoted=quoted, near=near) for field in ("tiab", "co", "jr", "org")]
    parts: list[Text | Person] = [*texts]
    words = texts[0].tokens
    if texts[0].near is None and "*" not in "".join(words)[:-1]:  # no star but at the end: a name, perhaps
        parts.append(_person(" ".join(words).lower(), first=False))
    shown = texts[0].words
    return Anywhere(tuple(parts), f"all:{shown}")


def _about(value: str) -> About:
    words = tuple(filter(None, text.read(_plain(value)).folded))
    roots = about.roots_of(words)
    if not roots:
        raise Mistake("A description belongs here", suggestion='about:"robots that learn from people"')
    shown = " ".join(words)
    return About(words, roots, f'about:"{shown}"' if len(words) > 1 else f"about:{shown}")


#: The name of a pack, and of a filter in it.
NAME = r"[a-z0-9]+(?:[._-][a-z0-9]+)*"
LONGEST_NAME = 40
_REFERENCE = re.compile(rf"({NAME})(?:/({NAME}))?(?:@(\d{{1,6}}))?")


def _use(value: str) -> Use:
    found = _REFERENCE.fullmatch(value.strip().lower())
    if found is None or max(len(found[1]), len(found[2] or "")) > LONGEST_NAME:
        raise Mistake(
            "A filter of a pack is written PACK/FILTER, or PACK/FILTER@VERSION", suggestion="use:lab/nlp"
        )
    if found[3] and not int(found[3]):
        raise Mistake(
            "Versions count from 1", offset=found.start(3), suggestion=f"use:{found[0][: found.start(3)]}1"
        )
    return used(found[1], found[2] or "", int(found[3]) if found[3] else None)


def used(pack: str, name: str, version: int | None) -> Use:
    """Return the clause that asks for a filter of a pack."""
    filter_ = f"/{name}" if name else ""
    return Use(pack, name, version, f"use:{pack}{filter_}{f'@{version}' if version else ''}")


def _like(_: str) -> Leaf:
    raise Mistake(
        "like: is read where the papers are, and they are not at hand here",
        suggestion='about:"robots that learn from people"',
    )


_READERS: dict[str, Callable[[str], Leaf]] = {
    "au": _author,
    "1au": _first_author,
    "cat": _category,
    "pcat": _primary,
    "id": _identifier,
    "is": _state,
    "lang": _language,
    "source": _source,
    "date": _published,
    "about": _about,
    "like": _like,
    "use": _use,
}
