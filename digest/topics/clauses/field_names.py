"""List the field names and the operators of the filter language, and reject unknown fields."""

from __future__ import annotations

from difflib import get_close_matches

from digest.topics.clauses.clause_error import ClauseError

#: Every spelling of a field's name, with the canonical name.
FIELDS = {
    "ti": "ti", "title": "ti", "intitle": "ti", "allintitle": "ti",
    "abs": "abs", "ab": "abs", "abstract": "abs",
    "tiab": "tiab",
    "all": "all", "any": "all",
    "au": "au", "author": "au", "authors": "au", "inauthor": "au",
    "1au": "1au", "firstauthor": "1au", "first_author": "1au",
    "co": "co", "comment": "co",
    "jr": "jr", "journal": "jr",
    "org": "org", "organization": "org", "organisation": "org",
    "cat": "cat", "category": "cat",
    "pcat": "pcat", "primary": "pcat",
    "id": "id", "arxiv": "id", "doi": "id", "pmid": "id",
    "is": "is",
    "about": "about",
    "like": "like",
    "use": "use",
    "lang": "lang", "language": "lang",
    "source": "source", "src": "source",
    "date": "date", "published": "date", "year": "date", "submitteddate": "date",
}  # fmt: skip
#: Fields of other search languages that this language lacks, each with the reason and an alternative.
NO_FIELDS = {
    "trend": (
        "The trending score orders every digest and changes by the hour; filter by a signal instead",
        "upvotes:>=20",
    ),
    "near": ("Put words that are near one another in quotes", '"two words"~5'),
    "kw": ("Papers have no keyword field here; words are searched for in title and abstract", "tiab:"),
}
SIGNALS = ("upvotes", "comments", "stars", "citations", "downloads", "likes", "views", "models", "datasets")
TEXT_FIELDS = frozenset(("tiab", "ti", "abs", "co", "jr", "org"))
OPERATORS = frozenset(("AND", "OR", "NOT", "ANDNOT"))
#: Misspelled operators; NOR, XOR, ANN, AN, LAND and similar are excluded, since they are words or names.
MISTYPED = {
    "ANDN": "ANDNOT", "ANDNO": "ANDNOT", "ANDNT": "ANDNOT", "ANDOT": "ANDNOT", "ANNOT": "ANDNOT",
    "ANDNTO": "ANDNOT", "ADNNOT": "ANDNOT", "NADNOT": "ANDNOT", "ANDONT": "ANDNOT", "NDNOT": "ANDNOT",
    "AANDNOT": "ANDNOT", "ANNDNOT": "ANDNOT", "ANDDNOT": "ANDNOT", "ANDNNOT": "ANDNOT", "ANDNOOT": "ANDNOT",
    "ANDNOTT": "ANDNOT", "ANDD": "AND", "ANND": "AND", "AAND": "AND", "NOTT": "NOT", "NOOT": "NOT",
    "NNOT": "NOT", "OOR": "OR",
}  # fmt: skip
#: The operators and their misspellings; a filter searches for them as words only after a field or in quotes.
NO_BARE_WORD = OPERATORS.union(MISTYPED)


def field_named(written: str) -> str:
    """Return the canonical name of the field or signal that `written` names.

    Raises ClauseError if there is none, with a suggestion if the name is close to a field's.
    """
    lowered = written.lower()
    if lowered in SIGNALS:
        return lowered
    if lowered in FIELDS:
        return FIELDS[lowered]
    if lowered in NO_FIELDS:
        message, instead = NO_FIELDS[lowered]
        raise ClauseError(message, suggestion=instead)
    close = get_close_matches(lowered[:40], (*FIELDS, *SIGNALS), n=1, cutoff=0.66)
    raise ClauseError(
        f"There is no field {written[:40]}; put the word in quotes to search for it as it is",
        suggestion=f"{FIELDS.get(close[0], close[0])}:" if close else None,
    )
