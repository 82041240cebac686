"""Parse a clause with the parser for its field."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache

from digest.topics import about_clauses, tokenizer, word_rarity, word_roots
from digest.topics.clauses import authors, dates, field_names, labels, pack_references, signals, text_words
from digest.topics.clauses.clause_error import ClauseError
from digest.topics.filter_tree import AnywhereClause, AuthorClause, DescriptionClause, Leaf, TextClause

_WEIGHTED_WORD = re.compile(r"(?P<word>[^^]+)\^(?P<times>[1-9]\d?)")


@lru_cache(maxsize=65536)  # holds the words in the filters of a run, in 19 MB; many filters share words
def clause(field: str, value: str) -> Leaf:
    """Return the clause for `field:value`; raise `ClauseError` if it is invalid."""
    return _clause(field, value, quoted=False, near=None)


@lru_cache(maxsize=16384)  # smaller, because fewer filters share a phrase than a word; 13 MB
def read_quoted_clause(field: str, value: str, near: int | None) -> Leaf:
    """Return the clause for `field:"value"~near`; raise `ClauseError` if it is invalid."""
    return _clause(field, value, quoted=True, near=near)


def text_clause(field: str, value: str, *, quoted: bool) -> TextClause:
    """Return the clause for words in a text field, without caching it."""
    return text_words.parse_text(field, value, quoted=quoted, near=None)


def _clause(field: str, value: str, *, quoted: bool, near: int | None) -> Leaf:
    if near is not None and not (quoted and (field in field_names.TEXT_FIELDS or field == "all")):
        raise ClauseError(
            f"{field}: does not allow ~; only words in a paper's text can be near one another",
            suggestion='"two words"~5',
        )
    if field in field_names.TEXT_FIELDS:
        return text_words.parse_text(field, value, quoted=quoted, near=near)
    if field in field_names.SIGNALS:
        return signals.signal(field, value)
    if field == "all":
        return _anywhere(value, quoted=quoted, near=near)
    return _READERS[field](value)


def _anywhere(value: str, *, quoted: bool, near: int | None) -> AnywhereClause:
    texts = [
        text_words.parse_text(field, value, quoted=quoted, near=near) for field in ("tiab", "co", "jr", "org")
    ]
    parts: list[TextClause | AuthorClause] = [*texts]
    words = texts[0].tokens
    # A value with a star before its end cannot be a name.
    if texts[0].near is None and "*" not in "".join(words)[:-1]:
        parts.append(authors.parse_person(" ".join(words).lower(), first=False))
    shown = texts[0].words
    return AnywhereClause(tuple(parts), f"all:{shown}")


def _about(value: str) -> DescriptionClause:
    if "^" in value:
        return _weighted_words(value)
    words = tuple(filter(None, tokenizer.read(text_words.without_tex(value)).folded))
    roots = about_clauses.roots_of(words)
    _require_bits(roots)
    shown = " ".join(words)
    return DescriptionClause(words, roots, (), f'about:"{shown}"' if len(words) > 1 else f"about:{shown}")


def _weighted_words(value: str) -> DescriptionClause:
    """Return the clause for `word^times word^times`; the order of the words has no effect."""
    counted: dict[str, int] = {}
    for written in value.split():
        found = _WEIGHTED_WORD.fullmatch(written)
        parts = tokenizer.read(found["word"]).folded if found else ()
        if found is None or len(parts) != 1 or not parts[0]:
            raise ClauseError(
                "Write each weighted word as word^times, with times from 1 to 99",
                suggestion='about:"robots^3 kitchens^1"',
            )
        counted[parts[0]] = int(found["times"])
    shown = " ".join(f"{word}^{times}" for word, times in counted.items())
    roots = tuple(map(word_roots.root, counted))[: about_clauses.MAX_ROOTS]
    _require_bits(roots)
    return DescriptionClause(tuple(counted), roots, tuple(counted.values()), f'about:"{shown}"')


def _require_bits(roots: tuple[str, ...]) -> None:
    """Reject a description whose words are all too common to affect the score."""
    if not any(map(word_rarity.bits, roots)):
        raise ClauseError("Add a description here", suggestion='about:"robots that learn from people"')


def _like(_: str) -> Leaf:
    raise ClauseError(
        "like: needs the catalog, which is not available here",
        suggestion='about:"robots that learn from people"',
    )


_READERS: dict[str, Callable[[str], Leaf]] = {
    "au": authors.author,
    "1au": authors.first_author,
    "cat": labels.category,
    "pcat": labels.primary,
    "id": labels.identifier,
    "is": labels.state,
    "lang": labels.language,
    "source": labels.source,
    "date": dates.published,
    "about": _about,
    "like": _like,
    "use": pack_references.parse_use,
}
