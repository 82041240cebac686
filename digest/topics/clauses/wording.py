"""Words to look for: one, a compound, a phrase, words near one another, the beginning of a word."""

from __future__ import annotations

import re
import unicodedata

from digest import papers
from digest.topics import phrases, text
from digest.topics.clauses import fields
from digest.topics.clauses.mistake import Mistake
from digest.topics.tree import Text

SHORTEST_PREFIX = 3
WIDEST = 99  #: words that may stand between the words of "a b"~N
MOST_WORDS = 64  #: of a phrase
MOST_CHARACTERS = 1000  #: of a filter, as written and written out

_STAR = re.compile(r"\*+")
_PLAIN = re.compile(r"[a-z0-9]+(?: [a-z0-9]+)*|[a-z]{3,}\*")
_MARK_INSIDE = re.compile(r"\w(\?)\w")
_FUZZY = re.compile(r"\w(~)\d*$")
_PUBMED_TAG = re.compile(r"(?s)(.+)\[(ti|tiab|ab|au|1au|dp|mh|tw|title|abstract|author)\]", re.IGNORECASE)
_TEX = re.compile(r"[\\${}]")
_REGEX = re.compile(r"/.+/")
_WEIGHT = re.compile(r"[^\W\d_]{3}(\^)[\d.]+$")


def text_clause(field: str, value: str, *, quoted: bool, near: int | None) -> Text:
    """Return the clause of words in a field; without quotes they are one compound."""
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
    plain = without_tex(value)
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


def without_tex(value: str) -> str:
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
    canonical = f"{field}:{shown}" if field != "tiab" or shown in fields.NO_BARE_WORD else shown
    closed = () if near is not None or not gaps else tuple(phrases.closed(tokens, gaps))
    return Text(field, tokens, gaps, exact, near, shown, closed, canonical)


def _refuse_foreign(value: str) -> None:
    """Raise on what other languages allow and ours does not, with our way to say it."""
    tag = _PUBMED_TAG.fullmatch(value)
    if tag:
        field = fields.FIELDS.get(tag[2].lower(), "tiab")
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
