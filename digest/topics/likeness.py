"""A topic made of papers: what is like one of them, and a filter proposed for several.

`like:PAPER` is read where the papers are: it becomes the description `about:"..."` in the paper's own
words, so what is kept says by itself what it looks for, whether or not the paper is still at hand.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from itertools import pairwise

from digest import errors, papers
from digest.papers import Paper
from digest.topics import about, text
from digest.topics.index import Index
from digest.topics.language import MOST_CHARACTERS, Filter, parse

MOST_WORDS = 6  #: of a description made of a paper
LONGEST_WORD = 40  #: longer ones are no words
MOST_CLAUSES = 5  #: of a proposed filter
PHRASE_WEIGHT = 1.5  #: what two words together say more than one
WIDE = 0.1  #: what more than this share of all papers have says nothing of a topic

_LIKE = re.compile(r'"[^"]*"|(?i:\blike):(?:"(?P<quoted>[^"]*)"|(?P<bare>[^\s()"]+))')


def likened(written: str, paper_of: Callable[[str], Paper]) -> str:
    """Return a filter with every `like:PAPER` as a description; raises BadFilter where there is no such paper."""
    if "like:" not in written.lower() or len(written) > MOST_CHARACTERS:
        return written  # too long a filter is refused when it is read
    paper_of = cache(paper_of)

    def described(found: re.Match[str]) -> str:
        reference = found["quoted"] or found["bare"]
        if not reference:
            return found[0]
        try:
            return f'about:"{description(paper_of(reference))}"'
        except errors.NotFound as error:
            raise errors.BadFilter(
                str(error), text=written, column=found.start() + 1, length=len(found[0])
            ) from error

    return _LIKE.sub(described, written)


def description(paper: Paper) -> str:
    """Return a paper in a few words of its own: those of its title and abstract that it says most often."""
    words: dict[str, str] = {}
    said: Counter[str] = Counter()
    for written, weight in ((paper.title, about.TITLE_WEIGHT), (paper.abstract, 1)):
        for word in telling(written):
            root = about.root(text.stem(word))
            words.setdefault(root, word)
            said[root] += int(weight)
    kept = dict(said.most_common(MOST_WORDS))
    return " ".join(word for root, word in words.items() if root in kept) or "untitled"


def telling(written: str) -> list[str]:
    """Return the words of a text that say what it is about."""
    return [word for word in text.read(papers.display(written)).folded if _tells(word)]


def _tells(word: str) -> bool:
    return (
        2 < len(word) < LONGEST_WORD
        and word not in about.SILENT
        and word.isalnum()
        and not word.isdigit()
        and about.weight_of((about.root(text.stem(word)),)) == 1.0
    )


# ── a filter for several papers ─────────────────────────────────────────────────────────────────


def suggest(examples: Sequence[Paper], index: Index) -> Filter:
    """Return a filter that finds all of `examples` and little else of `index`.

    It names what most of them share and few other papers have; for a paper that shares nothing, what
    its title has of its own. The same papers give the same filter.
    """
    examples = sorted(examples, key=lambda paper: paper.id)
    own = Index(examples)
    chosen: list[str] = []
    found = 0
    for name in _best_names(examples, own, index):
        added = own.matches(parse(name)) & ~found
        if added and len(chosen) < max(MOST_CLAUSES, len(examples)):
            chosen.append(name)
            found |= added
    missed = [paper for number, paper in enumerate(examples) if not found >> number & 1]
    return parse(" OR ".join([*chosen, *(f'about:"{description(paper)}"' for paper in missed)]))


def _best_names(examples: Sequence[Paper], own: Index, index: Index) -> list[str]:
    """Return the names of what the examples are about, the most telling first."""
    worth: dict[str, float] = {}
    for name in dict.fromkeys(name for paper in examples for name in _names(paper)):
        shared = own.matches(parse(name)).bit_count()
        usual = index.matches(parse(name)).bit_count()
        if usual <= max(len(examples), WIDE * index.size):
            rare = math.log((index.size + 1) / (usual + 0.5))
            in_title = own.matches(parse(f"ti:{name}")).bit_count()
            worth[name] = (shared**1.5 + in_title) * rare * (PHRASE_WEIGHT if name[0] == '"' else 1.0)
    return sorted(worth, key=lambda name: (-worth[name], name))


def _names(paper: Paper) -> Iterator[str]:
    """Yield the pairs of telling words in a paper, and the words of its title."""
    for written in (paper.title, paper.abstract):
        yield from pairs(text.read(papers.display(written)))
    yield from (text.stem(word) for word in telling(paper.title) if text.stem(word).isalnum())


def pairs(row: text.Words) -> Iterable[str]:
    """Yield the pairs of words that stand side by side and say something, as phrases."""
    for (left, right), glue in zip(pairwise(row.folded), row.glue, strict=False):
        if glue != "," and _tells_in_pair(left) and _tells_in_pair(right) and (_tells(left) or _tells(right)):
            stem = text.stem(right)
            is_open = right.startswith(stem) and len(stem) > 3
            yield f'"{left} {stem}*"' if is_open else f'"{left} {right}"'


def _tells_in_pair(word: str) -> bool:
    return 2 < len(word) < LONGEST_WORD and word not in about.SILENT and word.isalpha()
