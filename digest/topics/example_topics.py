"""Make topics from papers that a reader likes, from a library, and from one more or one less example."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date

from digest.papers.display_text import display
from digest.papers.paper_record import Paper
from digest.topics import example_words

LONGEST_TITLE = 40  #: maximum number of characters of a title in the name of a topic
_LEADING_LIKE = re.compile(rf"like:{example_words.REFERENCES}")


@dataclass(frozen=True, slots=True)
class ExampleTopic:
    """A topic by example: a name, which its reader may change, and a filter."""

    name: str
    filter: str


def topic_like(examples: Sequence[Paper]) -> ExampleTopic:
    """Return the topic of papers that are similar to `examples`; there must be at least one."""
    references = example_words.join_references([(reference_of(paper), "") for paper in examples])
    return ExampleTopic(name_of(examples), f"like:{references}")


def newest_of(library: Sequence[Paper]) -> Sequence[Paper]:
    """Return the newest papers of a library, as many as a topic may have examples."""
    dated = sorted(library, key=lambda paper: paper.published or date.min, reverse=True)
    return dated[: example_words.MAX_EXAMPLES]


def topic_like_library(examples: Sequence[Paper], library: Sequence[Paper]) -> ExampleTopic:
    """Return the topic of papers similar to the examples from a library; no paper of the library is matched.

    The filter contains the words of the examples, so that the library itself need not be stored.
    """
    reference, words = example_words.words_of_library(examples, library)
    return ExampleTopic(name_of(examples), f"like:{reference}{words}")


def name_of(examples: Sequence[Paper]) -> str:
    """Return the default name of a topic: `Like “Borrowed Light” and 2 more`."""
    title = example_words.shortened(display(examples[0].title), LONGEST_TITLE)
    more = f" and {len(examples) - 1} more" if len(examples) > 1 else ""
    return f"Like “{title}”{more}"


def reference_of(paper: Paper) -> str:
    """Return the reference by which `like:` names a paper: its arXiv id, its DOI or its number in the catalog."""
    return paper.ids.get("arxiv") or paper.ids.get("doi") or str(paper.id)


def with_example(written: str, paper: Paper) -> str | None:
    """Return a topic by example with one more example, or None if the filter does not begin with `like:`."""
    found = _LEADING_LIKE.match(written)
    if found is None:
        return None
    known = example_words.split_references(found[0].removeprefix("like:"))
    references = dict(known) | {reference_of(paper): ""}
    return f"like:{example_words.join_references(references.items())}{written[found.end() :]}"


def without_similar(written: str, paper: Paper, *, is_or: bool) -> str:
    """Return a filter that leaves out the papers similar to one paper; `is_or` states whether it is an OR."""
    bracketed = f"({written})" if is_or else written
    return f"{bracketed} ANDNOT like:{example_words.join_references([(reference_of(paper), '')])}"
