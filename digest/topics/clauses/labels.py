"""Parse clauses whose value is a code or a name: category, id, announcement, source, language and pack."""

from __future__ import annotations

import re
from difflib import get_close_matches

from digest.papers import identifiers, paper_record
from digest.papers.paper_record import Announcement
from digest.topics import arxiv_categories, language_detection
from digest.topics.clauses.clause_error import ClauseError
from digest.topics.filter_tree import LabelClause, PackClause

#: The pattern for the names of packs and of their filters.
NAME = r"[a-z0-9]+(?:[._-][a-z0-9]+)*"
LONGEST_NAME = 40
_REFERENCE = re.compile(rf"({NAME})(?:/({NAME}))?(?:@(\d{{1,6}}))?")


def category(value: str, *, field: str) -> LabelClause:
    """Return the clause for `cat:` or `pcat:`, which matches papers in a category or an archive, or by their first one."""
    lowered = value.strip().lower()
    name = lowered.removesuffix("*").removesuffix(".") if lowered.endswith(".*") else lowered
    code = arxiv_categories.CODES.get(name)
    if code is None or (name != lowered and code not in arxiv_categories.ARCHIVES):
        raise ClauseError(
            f"arXiv has no category {value.strip()[:40]!r}.".replace("'", '"'),
            suggestion=_after(field, arxiv_categories.suggestion(name)),
        )
    if code in arxiv_categories.ARCHIVES:
        return LabelClause(field, (f"{code.lower()}.*",), f"{field}:{code}")
    return LabelClause(field, arxiv_categories.names_of(code), f"{field}:{code}")


def _after(field: str, value: str | None) -> str | None:
    return f"{field}:{value}" if value else None


_SCHEMES = re.compile(r"(?i)(arxiv|doi|pmid|pmcid|openalex|s2|corpusid):(.+)")


def identifier(value: str) -> LabelClause:
    """Return the clause for `id:`, which matches a paper by its public id."""
    plain = value.strip()
    named = _SCHEMES.fullmatch(plain)
    schemes = (
        [(named[1], named[2])]
        if named
        else [(scheme, plain) for scheme in ("arxiv", "doi", "pmid", "openalex")]
    )
    for scheme, bare in schemes:
        known = identifiers.normalised_id(scheme, bare)
        if known and '"' not in known[1] and known[1].isprintable():
            return LabelClause("id", (known[1].lower(),), f"id:{_quoted(known[1])}")
    raise ClauseError(
        "This is not an arXiv id, a DOI, a PubMed id or an OpenAlex id", suggestion="id:2401.01234"
    )


def _quoted(value: str) -> str:
    return value if re.fullmatch(r"[\w.:/+-]+", value) and value[-1] != ":" else f'"{value}"'


def state(value: str) -> LabelClause:
    """Return the clause for `is:`, which matches papers by their kind of announcement."""
    lowered = value.strip().lower()
    if lowered not in set(Announcement):
        close = get_close_matches(lowered[:40], list(Announcement), n=1, cutoff=0.5)
        raise ClauseError(
            "A paper is new, cross, replaced or withdrawn",
            suggestion=_after("is", close[0] if close else None),
        )
    return LabelClause("is", (lowered,), f"is:{lowered}")


def source(value: str) -> LabelClause:
    """Return the clause for `source:`, which matches papers by the source of the dumps that list them."""
    folded = " ".join(paper_record.fold(value).split())
    if not folded or '"' in folded or "*" in folded:
        raise ClauseError("Add the name of a source here", suggestion="source:arxiv")
    return LabelClause("source", (folded,), f"source:{_quoted(folded)}")


def language(value: str) -> LabelClause:
    """Return the clause for `lang:`, which matches papers in one language."""
    name = value.strip().lower().partition("-")[0]
    code = language_detection.NAMES.get(name)
    if code is None:
        close = get_close_matches(name[:40], language_detection.NAMES, n=1, cutoff=0.6)
        raise ClauseError(
            f"A language is one of {' '.join(dict.fromkeys(language_detection.NAMES.values()))}",
            suggestion=_after("lang", language_detection.NAMES[close[0]] if close else None),
        )
    return LabelClause("lang", (code,), f"lang:{code}")


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
