"""Build topics from papers: weighted words from one paper, or a suggested filter from several.

When a filter is stored, `like:PAPER` is replaced with `about:"word^times ..."`, the paper's own words and how
often each counts, so that the stored filter does not depend on the paper.
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
from digest.topics import described_topics, tokenizer, word_rarity, word_roots
from digest.topics.filter_parser import MAX_CHARACTERS, Filter, parse
from digest.topics.paper_index import PaperIndex

MAX_WEIGHTED_WORDS = 40  #: maximum number of words of a paper that `like:` keeps
MAX_WORDS = 6  #: maximum number of words that describe a paper in a suggested filter
MAX_TIMES = 99  #: maximum number of times that a word counts
LONGEST_WORD = 40  #: characters; a longer string is not a word
TITLE_WEIGHT = 3  #: a word in the title counts as this many in the abstract
MAX_CLAUSES = 5  #: maximum number of clauses of a suggested filter
PHRASE_WEIGHT = 1.5  #: weight of a pair of words relative to a single word
WIDE = 0.1  #: a word in more than this share of all papers is too common to describe a topic

_LIKE = re.compile(r'"[^"]*"|(?i:\blike):(?:"(?P<quoted>[^"]*)"|(?P<bare>[^\s()"]+))')


def expand_like(written: str, paper_of: Callable[[str], Paper]) -> str:
    """Replace each `like:PAPER` with a description; raise BadFilter if the paper does not exist."""
    if "like:" not in written.lower() or len(written) > MAX_CHARACTERS:
        return written  # a filter that is too long is rejected when it is parsed
    paper_of = cache(paper_of)
    papers_named = sum(1 for found in _LIKE.finditer(written) if found["quoted"] or found["bare"])
    characters = (MAX_CHARACTERS - len(written)) // max(1, papers_named) - len('about:""')

    def described(found: re.Match[str]) -> str:
        reference = found["quoted"] or found["bare"]
        if not reference:
            return found[0]
        try:
            return f'about:"{weighted_words(paper_of(reference), characters)}"'
        except errors.NotFound as error:
            raise errors.BadFilter(
                str(error), text=written, column=found.start() + 1, length=len(found[0])
            ) from error

    return _LIKE.sub(described, written)


def weighted_words(paper: Paper, max_characters: int) -> str:
    """Return the words of a paper as `word^times`, the words with the most bits first."""
    words, counts = _counted_words(paper, _is_descriptive)
    kept = sorted(counts, key=lambda root: -counts[root] * word_rarity.bits(root))[:MAX_WEIGHTED_WORDS]
    written = " ".join(f"{words[root]}^{min(counts[root], MAX_TIMES)}" for root in kept) or "untitled^1"
    if len(written) <= max_characters:
        return written
    return written[: max_characters + 1].rpartition(" ")[0] or written.partition(" ")[0]


def description(paper: Paper) -> str:
    """Return a short description of a paper: the most frequent significant words of its title and abstract."""
    words, counts = _counted_words(paper, _is_significant)
    kept = dict(counts.most_common(MAX_WORDS))
    return " ".join(word for root, word in words.items() if root in kept) or "untitled"


def _counted_words(paper: Paper, is_kept: Callable[[str], bool]) -> tuple[dict[str, str], Counter[str]]:
    """Return the first word of each root in title and abstract, and how often the root occurs."""
    words: dict[str, str] = {}
    counts: Counter[str] = Counter()
    for written, weight in ((paper.title, TITLE_WEIGHT), (paper.abstract, 1)):
        for word in filter(is_kept, tokenizer.read(papers.display(written)).folded):
            root = word_roots.root(word)
            words.setdefault(root, word)
            counts[root] += weight
    return words, counts


def significant_words(written: str) -> list[str]:
    """Return the words of a text that describe its subject."""
    return [word for word in tokenizer.read(papers.display(written)).folded if _is_significant(word)]


def _is_significant(word: str) -> bool:
    return _is_descriptive(word) and word_rarity.is_significant(word_roots.root(word))


def _is_descriptive(word: str) -> bool:
    return (
        2 < len(word) < LONGEST_WORD
        and word not in described_topics.SILENT_WORDS
        and word.isalnum()
        and not word.isdigit()
    )


# ── a filter for several papers ─────────────────────────────────────────────────────────────────


def suggest(examples: Sequence[Paper], index: PaperIndex) -> Filter:
    """Return a filter that matches all of `examples` and few other papers in `index`.

    The filter consists of words that most examples share and few other papers contain. For an example that
    shares no words, it includes a description of that paper. The result is deterministic.
    """
    examples = sorted(examples, key=lambda paper: paper.id)
    own = PaperIndex(examples)
    chosen: list[str] = []
    found = 0
    for name in _best_names(examples, own, index):
        added = own.matches(parse(name)) & ~found
        if added and len(chosen) < max(MAX_CLAUSES, len(examples)):
            chosen.append(name)
            found |= added
    missed = [paper for number, paper in enumerate(examples) if not found >> number & 1]
    return parse(" OR ".join([*chosen, *(f'about:"{description(paper)}"' for paper in missed)]))


def _best_names(examples: Sequence[Paper], own: PaperIndex, index: PaperIndex) -> list[str]:
    """Return the words and phrases that describe the examples, the most significant first."""
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
    """Yield the pairs of significant words in a paper, and the significant words of its title."""
    for written in (paper.title, paper.abstract):
        yield from pairs(tokenizer.read(papers.display(written)))
    yield from (
        tokenizer.stem(word) for word in significant_words(paper.title) if tokenizer.stem(word).isalnum()
    )


def pairs(row: tokenizer.WordParts) -> Iterable[str]:
    """Return the pairs of significant neighbouring words as phrases."""
    for (left, right), glue in zip(pairwise(row.folded), row.glue, strict=False):
        if (
            glue != ","
            and _is_significant_in_pair(left)
            and _is_significant_in_pair(right)
            and (_is_significant(left) or _is_significant(right))
        ):
            stem = tokenizer.stem(right)
            is_open = right.startswith(stem) and len(stem) > 3
            yield f'"{left} {stem}*"' if is_open else f'"{left} {right}"'


def _is_significant_in_pair(word: str) -> bool:
    return 2 < len(word) < LONGEST_WORD and word not in described_topics.SILENT_WORDS and word.isalpha()
