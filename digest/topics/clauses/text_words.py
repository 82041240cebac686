"""Parse text clauses: a word, a compound, a phrase, words near one another, or a prefix."""

from __future__ import annotations

import re
import unicodedata

from digest.papers import display_text
from digest.topics import phrase_spellings, tokenizer
from digest.topics.clauses import field_names
from digest.topics.clauses.clause_error import ClauseError
from digest.topics.filter_tree import TextClause

SHORTEST_PREFIX = 3
WIDEST = 99  #: maximum N of "a b"~N
MAX_WORDS = 64  #: maximum number of words of a phrase
MAX_CHARACTERS = 1000  #: maximum length of a filter, both as written and in canonical form

_STAR = re.compile(r"\*+")
_MARK_INSIDE = re.compile(r"\w(\?)\w")
_FUZZY = re.compile(r"\w(~)\d*$")
_PUBMED_TAG = re.compile(r"(?s)(.+)\[(ti|tiab|ab|au|1au|dp|mh|tw|title|abstract|author)\]", re.IGNORECASE)
_TEX = re.compile(r"[\\${}]")
_REGEX = re.compile(r"/.+/")
_WEIGHT = re.compile(r"[^\W\d_]{3}(\^)[\d.]+$")


def parse_text(field: str, value: str, *, quoted: bool, near: int | None) -> TextClause:
    """Return the clause that searches a field for words; without quotes, the words form one compound."""
    if not quoted and not value.isalpha():
        _refuse_foreign(value)
    tokens, gaps = _phrase(value)
    if not tokens:
        raise ClauseError("Add a letter or a digit here")
    if not quoted:
        gaps = "-" * len(gaps)
    if near is not None:
        gaps = " " * len(gaps)
    return _spelled(field, tokens, gaps, exact=quoted, near=near)


def _phrase(value: str) -> tuple[tuple[str, ...], str]:
    """Return the words of a value and the gaps between them; a prefix is returned with its star ("flat*")."""
    plain = without_tex(value)
    stars = {found.start(): found.end() for found in _STAR.finditer(plain)}
    row = tokenizer.read(plain)
    # A part that is empty after folding, such as a single accent, is not a word.
    kept = [i for i, folded in enumerate(row.folded) if folded]
    if len(kept) > MAX_WORDS:
        raise ClauseError(f"A phrase has at most {MAX_WORDS} words; this one has {len(kept)}")
    # In a phrase written in capitals ("SHARPNESS AWARE"), no word counts as an acronym.
    is_shouted = any(len(surface) > 5 and surface.isupper() for surface in row.surfaces)
    tokens = []
    for i in kept:
        is_acronym = not is_shouted and tokenizer.ACRONYM.fullmatch(row.surfaces[i])
        token = row.surfaces[i] if is_acronym else row.folded[i]
        if row.ends[i] in stars and stars[row.ends[i]] not in row.starts:
            del stars[row.ends[i]]
            if sum(map(str.isalpha, token)) < SHORTEST_PREFIX:
                raise ClauseError(
                    f"At least {SHORTEST_PREFIX} letters are needed before a *", suggestion=token
                )
            token += "*"
        tokens.append(token)
    if stars:
        raise ClauseError(
            "A * is allowed only at the end of a word", offset=min(stars) if plain == value else 0, length=1
        )
    return tuple(tokens), "".join("-" if row.glue[i] == "-" else " " for i in kept[:-1])


def without_tex(value: str) -> str:
    """Return a value in plain characters: TeX is converted as in papers, and the text is NFKC-normalized."""
    plain = display_text.display(value) if _TEX.search(value) else value
    if not plain.isascii():
        plain = unicodedata.normalize("NFKC", plain)
    if len(plain) > MAX_CHARACTERS:  # NFKC may expand one character to eighteen
        raise ClauseError(
            f"Written out, this has {len(plain):,} characters; a filter has at most {MAX_CHARACTERS:,}"
        )
    return plain


def _spelled(field: str, tokens: tuple[str, ...], gaps: str, *, exact: bool, near: int | None) -> TextClause:
    if len(tokens) == 1:
        near = None
        exact = exact and tokens[0][-1] != "*"
    shown = tokens[0] + "".join(f"{gap}{token}" for gap, token in zip(gaps, tokens[1:], strict=True))
    if exact:
        shown = f'"{shown}"'
    if near is not None:
        shown += f"~{near}"
    canonical = f"{field}:{shown}" if field != "tiab" or shown in field_names.NO_BARE_WORD else shown
    closed = () if near is not None or not gaps else tuple(phrase_spellings.closed_spellings(tokens, gaps))
    return TextClause(field, tokens, gaps, exact, near, shown, closed, canonical)


def _refuse_foreign(value: str) -> None:
    """Reject the syntax of other search languages, suggesting the equivalent syntax."""
    tag = _PUBMED_TAG.fullmatch(value)
    if tag:
        field = field_names.FIELDS.get(tag[2].lower(), "tiab")
        raise ClauseError("Write the field before its word", suggestion=f"{field}:{tag[1]}")
    found = _MARK_INSIDE.search(value)
    if found:
        raise ClauseError("? is not a wildcard; use * at the end of a word", offset=found.start(1), length=1)
    found = _FUZZY.search(value)
    if found:
        raise ClauseError(
            "Put ~ and a number after words in quotes; up to that many other words may be between them",
            offset=found.start(1),
            length=1,
            suggestion='"two words"~5',
        )
    found = _WEIGHT.search(value)
    if found:
        raise ClauseError(
            "Weights are not supported; in an OR, the first alternative counts most",
            offset=found.start(1),
            length=len(value) - found.start(1),
            suggestion=value[: found.start(1)],
        )
    if _REGEX.fullmatch(value):
        raise ClauseError("Regular expressions are not supported; use * at the end of a word")
