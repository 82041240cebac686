"""One clause of a filter: who reads what stands after the colon."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

from digest.topics import about, text
from digest.topics.clauses import dates, fields, figures, labels, people, references, wording
from digest.topics.clauses.mistake import Mistake
from digest.topics.tree import About, Anywhere, Leaf, Person, Text


@lru_cache(maxsize=65536)
def clause(field: str, value: str) -> Leaf:
    """Return the clause that `field:value` means; raises `Mistake`."""
    return _clause(field, value, quoted=False, near=None)


@lru_cache(maxsize=65536)
def quoted(field: str, value: str, near: int | None) -> Leaf:
    """Return the clause that `field:"value"~near` means; raises `Mistake`."""
    return _clause(field, value, quoted=True, near=near)


def _clause(field: str, value: str, *, quoted: bool, near: int | None) -> Leaf:
    if near is not None and not (quoted and (field in fields.TEXT_FIELDS or field == "all")):
        raise Mistake("Only words in quotes can be near one another", suggestion='"two words"~5')
    if field in fields.TEXT_FIELDS:
        return wording.text_clause(field, value, quoted=quoted, near=near)
    if field in fields.SIGNALS:
        return figures.signal(field, value)
    if field == "all":
        return _anywhere(value, quoted=quoted, near=near)
    return _READERS[field](value)


def _anywhere(value: str, *, quoted: bool, near: int | None) -> Anywhere:
    texts = [
        wording.text_clause(field, value, quoted=quoted, near=near) for field in ("tiab", "co", "jr", "org")
    ]
    parts: list[Text | Person] = [*texts]
    words = texts[0].tokens
    if texts[0].near is None and "*" not in "".join(words)[:-1]:  # no star but at the end: a name, perhaps
        parts.append(people.person(" ".join(words).lower(), first=False))
    shown = texts[0].words
    return Anywhere(tuple(parts), f"all:{shown}")


def _about(value: str) -> About:
    words = tuple(filter(None, text.read(wording.without_tex(value)).folded))
    roots = about.roots_of(words)
    if not roots:
        raise Mistake("A description belongs here", suggestion='about:"robots that learn from people"')
    shown = " ".join(words)
    return About(words, roots, f'about:"{shown}"' if len(words) > 1 else f"about:{shown}")


def _like(_: str) -> Leaf:
    raise Mistake(
        "like: is read where the papers are, and they are not at hand here",
        suggestion='about:"robots that learn from people"',
    )


_READERS: dict[str, Callable[[str], Leaf]] = {
    "au": people.author,
    "1au": people.first_author,
    "cat": labels.category,
    "pcat": labels.primary,
    "id": labels.identifier,
    "is": labels.state,
    "lang": labels.language,
    "source": labels.source,
    "date": dates.published,
    "about": _about,
    "like": _like,
    "use": references.use,
}
