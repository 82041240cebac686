"""What is said of a paper in one code or name: its category, id, state, source and language."""

from __future__ import annotations

import re
from difflib import get_close_matches

from digest import papers
from digest.papers import Announcement
from digest.topics import languages, taxonomy
from digest.topics.clauses.mistake import Mistake
from digest.topics.tree import Category, Identifier, Language, Source, State


def category(value: str) -> Category:
    """Return the clause of `cat:`: a category or an archive."""
    return _category_of(value, primary=False)


def primary(value: str) -> Category:
    """Return the clause of `pcat:`: the category that stands first."""
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


def identifier(value: str) -> Identifier:
    """Return the clause of `id:`: a paper by its id in the world."""
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


def state(value: str) -> State:
    """Return the clause of `is:`: how a paper was announced."""
    lowered = value.strip().lower()
    if lowered not in set(Announcement):
        close = get_close_matches(lowered[:40], list(Announcement), n=1, cutoff=0.5)
        raise Mistake(
            "A paper is new, cross, replaced or withdrawn",
            suggestion=_after("is", close[0] if close else None),
        )
    return State(lowered, f"is:{lowered}")


def source(value: str) -> Source:
    """Return the clause of `source:`: where a paper was told of."""
    folded = " ".join(papers.fold(value).split())
    if not folded or '"' in folded or "*" in folded:
        raise Mistake("The name of a source belongs here", suggestion="source:arxiv")
    return Source(folded, f"source:{_quoted(folded)}")


def language(value: str) -> Language:
    """Return the clause of `lang:`: the language of a paper."""
    wanted = value.strip().lower().partition("-")[0]
    code = languages.NAMES.get(wanted)
    if code is None:
        close = get_close_matches(wanted[:40], languages.NAMES, n=1, cutoff=0.6)
        raise Mistake(
            f"A language is one of {' '.join(dict.fromkeys(languages.NAMES.values()))}",
            suggestion=_after("lang", languages.NAMES[close[0]] if close else None),
        )
    return Language(code, f"lang:{code}")
