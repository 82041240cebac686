"""Authors: by name, by initials, or as the first of a paper."""

from __future__ import annotations

from digest.topics import names
from digest.topics.clauses.mistake import Mistake
from digest.topics.clauses.wording import SHORTEST_PREFIX, without_tex
from digest.topics.tree import Person


def author(value: str) -> Person:
    """Return the clause of `au:`: one of the authors."""
    return person(value, first=False)


def first_author(value: str) -> Person:
    """Return the clause of `1au:`: the author who stands first."""
    return person(value, first=True)


def person(value: str, *, first: bool) -> Person:
    """Return the clause of a name; a ^ before it asks for the first author, whatever the field."""
    plain = without_tex(value).strip()
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
