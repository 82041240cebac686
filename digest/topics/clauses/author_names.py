"""Parse author clauses, and compare the names in filters with those in dumps."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from digest.papers.paper_record import Paper
from digest.topics import tokenizer
from digest.topics.clauses.clause_error import ClauseError
from digest.topics.clauses.text_words import SHORTEST_PREFIX, without_tex
from digest.topics.filter_tree import AuthorClause

_SUFFIXES = frozenset(("jr", "sr", "ii", "iii", "iv"))


@lru_cache(maxsize=65536)  # holds the authors of a month of papers, in 25 MB
def parts_of(author: str) -> tuple[str, ...]:
    """Return the parts of a name in natural order: jean, pierre, serre for "Serre, Jean-Pierre"."""
    family, comma, given = author.partition(",")
    written = f"{given} {family}" if comma and given.strip(" .").casefold() not in _SUFFIXES else author
    parts = tuple(filter(None, map(tokenizer.fold, tokenizer.split(written)[1::2])))
    return parts[:-1] if len(parts) > 1 and parts[-1] in _SUFFIXES else parts


def parse_person(value: str, *, first: bool) -> AuthorClause:
    """Return the clause for a name; a ^ before the name limits the clause to first authors."""
    plain = without_tex(value).strip()
    if plain.startswith("^"):
        first, plain = True, plain[1:]
    starred = plain.endswith("*")
    plain = plain.rstrip("*")
    family, comma, given = plain.partition(",")
    if comma:
        names_given, names_family = parts_of(given), parts_of(family)
    else:
        names_given, names_family, comma = _unsorted(parts_of(plain), arxiv="_" in plain)
    if not names_family:
        raise ClauseError("Add a family name here", suggestion='au:"Wang, Yi"')
    if starred and len(names_family[-1]) < SHORTEST_PREFIX:
        raise ClauseError(f"At least {SHORTEST_PREFIX} letters are needed before a *", suggestion="au:wang*")
    star = "*" if starred else ""
    field = "1au" if first else "au"
    if starred and comma:
        raise ClauseError(
            "A * is allowed only after a family name", suggestion=f'{field}:"{" ".join(names_family)}*"'
        )
    if comma and names_given:
        shown = f'"{" ".join(names_family)}, {" ".join(names_given)}"'
    else:
        words = (*names_given, *names_family)
        shown = f"{words[0]}{star}" if len(words) == 1 and not comma else f'"{" ".join(words)}{star}{comma}"'
    return AuthorClause(first, names_given, names_family, bool(comma), starred, f"{field}:{shown}")


def _unsorted(parts: tuple[str, ...], *, arxiv: bool) -> tuple[tuple[str, ...], tuple[str, ...], str]:
    """Return the given and family names in a name without a comma; arXiv writes `wang_y` for Wang, Y."""
    if arxiv and len(parts) > 1 and len(parts[-1]) == 1:
        initials = len(parts) - next(
            i for i, part in enumerate(reversed(parts)) if len(part) > 1 or i + 1 == len(parts)
        )
        return parts[initials:], parts[:initials], ","
    return parts[:-1], parts[-1:], ""


def author_of(paper: Paper, clause: AuthorClause) -> str | None:
    """Return the first of a paper's authors who matches a clause, or None.

    An initial in the clause matches a full name ("Y" matches "Yi"). A full name in the clause never
    matches an initial, because the initial may abbreviate another name.
    """
    authors = paper.authors[:1] if clause.first else paper.authors
    return next((author for author in authors if _agrees(clause, parts_of(author))), None)


def _agrees(clause: AuthorClause, parts: tuple[str, ...]) -> bool:
    given, family, starred = clause.given, clause.family, clause.starred
    head = len(parts) - len(family)
    if clause.is_sorted:
        return head >= 0 and parts[head:] == family and _given_agree(given, parts[:head])
    if not given and len(family) == 1:
        return any(_same(family[0], part, starred=starred) for part in parts)
    *first, last = (*given, *family)
    if not parts or not _same(last, parts[-1], starred=starred):
        return False
    # All of the names may be the family name, such as "del Maestro".
    is_family = len(first) < len(parts) and [*parts[-1 - len(first) : -1]] == first
    return is_family or _given_agree(first, parts[:-1])


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
