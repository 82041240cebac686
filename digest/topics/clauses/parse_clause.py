"""Parse a clause with the parser for its field."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache, partial

from digest.topics import about_clauses, example_words, tokenizer, word_rarity
from digest.topics.clauses import author_names, field_names, labels, ranges, text_words
from digest.topics.clauses.clause_error import ClauseError
from digest.topics.filter_tree import (
    AnywhereClause,
    AuthorClause,
    DescriptionClause,
    Example,
    ExampleClause,
    Leaf,
    TextClause,
)

_WEIGHTED_WORD = re.compile(r"(?P<word>[^^]+)\^(?P<times>[1-9]\d?)")


@lru_cache(maxsize=65536)  # holds the clauses in the filters of a run, in 25 MB; many filters share clauses
def parse_clause(field: str, value: str, *, quoted: bool = False, near: int | None = None) -> Leaf:
    """Return the clause for `field:value` or `field:"value"~near`; raise `ClauseError` if it is invalid."""
    if near is not None and not (quoted and (field in field_names.TEXT_FIELDS or field == "all")):
        raise ClauseError(
            f"{field}: does not allow ~; only words in a paper's text can be near one another",
            suggestion='"two words"~5',
        )
    if field in field_names.TEXT_FIELDS:
        return text_words.parse_text(field, value, quoted=quoted, near=near)
    if field in field_names.SIGNALS:
        return ranges.signal(field, value)
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
        parts.append(author_names.parse_person(" ".join(words).lower(), first=False))
    shown = texts[0].words
    return AnywhereClause(tuple(parts), f"all:{shown}")


def _about(value: str) -> DescriptionClause:
    words = tuple(filter(None, tokenizer.read(text_words.without_tex(value)).folded))
    roots = about_clauses.roots_of(words)
    if not any(len(root) > 1 and word_rarity.bits(root) for root in roots):
        raise ClauseError("Add a description here", suggestion='about:"robots that learn from people"')
    shown = " ".join(words)
    return DescriptionClause(words, roots, f'about:"{shown}"' if len(words) > 1 else f"about:{shown}")


def read_examples(value: str) -> ExampleClause:
    """Return the clause for `like:` and references that have the words of their papers in braces."""
    references = example_words.split_references(value)
    if not all(words for _, words in references):
        raise ClauseError(
            "like: needs the catalog, which is not available here",
            suggestion='about:"robots that learn from people"',
        )
    groups = [group for _, words in references for group in words.strip("{}").split("}{")]
    written = [group for group in groups if not group.startswith("#")]
    if len(written) > example_words.MAX_EXAMPLES:
        raise ClauseError(
            f"A topic has at most {example_words.MAX_EXAMPLES} examples; this one has {len(written)}"
        )
    most = example_words.words_of_each(len(written))
    examples, counts = zip(*[_example(group, most) for group in written], strict=True)
    likeness = example_words.likeness([example.weights for example in examples], counts)
    known = frozenset(name for group in groups if group.startswith("#") for name in group[1:].split())
    shown = example_words.join_references([(reference, "") for reference, _ in references])
    return ExampleClause(tuple(references), examples, likeness, known, f"like:{shown}")


def _example(written: str, most: int) -> tuple[Example, list[tuple[str, int]]]:
    """Return an example with at most that many words, and (root, number of occurrences) of each."""
    title, _, listed = written.partition("|")
    words, counts = [], []
    for found in map(_WEIGHTED_WORD.fullmatch, listed.split()[:most]):
        if found is None:
            raise ClauseError("The words of an example are written as word^times, with times from 1 to 99")
        root = tokenizer.root(tokenizer.fold(found["word"]))
        words.append(found["word"])
        counts.append((root, int(found["times"])))
    weights = [(root, example_words.weight(root, times)) for root, times in counts]
    whole = sum(weight for _, weight in weights) or 1.0
    shares = tuple([(root, weight / whole) for root, weight in weights])
    return Example(title, tuple(words), shares), counts


_READERS: dict[str, Callable[[str], Leaf]] = {
    "au": partial(author_names.parse_person, first=False),
    "1au": partial(author_names.parse_person, first=True),
    "cat": partial(labels.category, field="cat"),
    "pcat": partial(labels.category, field="pcat"),
    "id": labels.identifier,
    "is": labels.state,
    "lang": labels.language,
    "source": labels.source,
    "date": ranges.published,
    "about": _about,
    "like": read_examples,
    "use": labels.parse_use,
}
