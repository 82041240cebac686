"""Parse author clauses: by name, by initials, or as first author."""

from __future__ import annotations

from digest.topics import author_names
from digest.topics.clauses.clause_error import ClauseError
from digest.topics.clauses.text_words import SHORTEST_PREFIX, without_tex
from digest.topics.filter_tree import AuthorClause


def author(value: str) -> AuthorClause:
    """Return the clause for `au:`, which matches papers by any of their authors."""
    return parse_person(value, first=False)


def first_author(value: str) -> AuthorClause:
    """Return the clause for `1au:`, which matches papers by their first author."""
    return parse_person(value, first=True)


def parse_person(value: str, *, first: bool) -> AuthorClause:
    """Return the clause for a name; a ^ before the name limits the clause to first authors."""
    plain = without_tex(value).strip()
    if plain.startswith("^"):
        first, plain = True, plain[1:]
    starred = plain.endswith("*")
    plain = plain.rstrip("*")
    family, comma, given = plain.partition(",")
    if comma:
        names_given, names_family = author_names.parts_of(given), author_names.parts_of(family)
    else:
        names_given, names_family, comma = _unsorted(author_names.parts_of(plain), arxiv="_" in plain)
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
