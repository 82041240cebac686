"""Parse references to packs in filters."""

from __future__ import annotations

import re

from digest.topics.clauses.clause_error import ClauseError
from digest.topics.filter_tree import PackClause

#: The pattern for the names of packs and of their filters.
NAME = r"[a-z0-9]+(?:[._-][a-z0-9]+)*"
LONGEST_NAME = 40
_REFERENCE = re.compile(rf"({NAME})(?:/({NAME}))?(?:@(\d{{1,6}}))?")


def parse_use(value: str) -> PackClause:
    """Return the clause for `use:`, which refers to one filter of a pack or to any of its filters."""
    found = _REFERENCE.fullmatch(value.strip().lower())
    if found is None or max(len(found[1]), len(found[2] or "")) > LONGEST_NAME:
        raise ClauseError(
            "A filter of a pack is written PACK/FILTER, or PACK/FILTER@VERSION", suggestion="use:lab/nlp"
        )
    if found[3] and not int(found[3]):
        raise ClauseError(
            "Versions are numbered from 1",
            offset=found.start(3),
            suggestion=f"use:{found[0][: found.start(3)]}1",
        )
    return make_use(found[1], found[2] or "", int(found[3]) if found[3] else None)


def make_use(pack: str, name: str, version: int | None) -> PackClause:
    """Return the clause that refers to a filter of a pack."""
    filter_ = f"/{name}" if name else ""
    return PackClause(pack, name, version, f"use:{pack}{filter_}{f'@{version}' if version else ''}")
