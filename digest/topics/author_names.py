"""Compare author names in filters with author names in dumps."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from digest.papers.paper_record import Paper
from digest.topics import tokenizer
from digest.topics.filter_tree import AuthorClause

_SUFFIXES = frozenset(("jr", "sr", "ii", "iii", "iv"))


@lru_cache(maxsize=65536)  # holds the authors of a month of papers, in 25 MB
def parts_of(author: str) -> tuple[str, ...]:
    """Return the parts of a name in natural order: jean, pierre, serre for "Serre, Jean-Pierre"."""
    family, comma, given = author.partition(",")
    written = f"{given} {family}" if comma and given.strip(" .").casefold() not in _SUFFIXES else author
    parts = tuple(filter(None, map(tokenizer.fold, tokenizer.split(written)[1::2])))
    return parts[:-1] if len(parts) > 1 and parts[-1] in _SUFFIXES else parts


def author_of(paper: Paper, clause: AuthorClause) -> str | None:
    """Return the first of a paper's authors who matches a clause, or None.

    An initial in the clause matches a full name ("Y" matches "Yi"). A full name in the clause never
    matches an initial, because the initial may abbreviate another name.
    """
    authors = paper.authors[:1] if clause.first else paper.authors
    return next((author for author in authors if _agrees(clause, parts_of(author))), None)


def _agrees(clause: AuthorClause, parts: Sequence[str]) -> bool:
    given, family, starred = clause.given, clause.family, clause.starred
    if clause.is_sorted:
        return _sorted_agree(given, family, parts)
    if not given and len(family) == 1:
        return any(_same(family[0], part, starred=starred) for part in parts)
    names = (*given, *family)
    return _natural_agree(names, parts, starred=starred) or _tail_agrees(names, parts, starred=starred)


def _sorted_agree(given: Sequence[str], family: Sequence[str], parts: Sequence[str]) -> bool:
    head = len(parts) - len(family)
    return head >= 0 and tuple(parts[head:]) == tuple(family) and _given_agree(given, parts[:head])


def _natural_agree(names: Sequence[str], parts: Sequence[str], *, starred: bool) -> bool:
    return (
        bool(parts) and _same(names[-1], parts[-1], starred=starred) and _given_agree(names[:-1], parts[:-1])
    )


def _tail_agrees(names: Sequence[str], parts: Sequence[str], *, starred: bool) -> bool:
    """Return whether all of `names` are the family name at the end of `parts`, such as "del Maestro"."""
    head = len(parts) - len(names)
    if head < 0 or not _same(names[-1], parts[-1], starred=starred):
        return False
    return tuple(parts[head:-1]) == tuple(names[:-1])


def _given_agree(given: Sequence[str], parts: Sequence[str]) -> bool:
    """Return whether the names in `given` occur in `parts` in order, beginning with the first part."""
    if not given:
        return True
    if not parts or not _initial_agrees(given[0], parts[0]):
        return False
    rest = iter(parts[1:])
    return all(any(_initial_agrees(name, part) for part in rest) for name in given[1:])


def _initial_agrees(name: str, part: str) -> bool:
    return part.startswith(name) if len(name) == 1 else part == name


def _same(name: str, part: str, *, starred: bool) -> bool:
    return part.startswith(name) if starred else part == name
