"""Why a filter matches a paper, or why not: the clauses and the words, with their places."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from operator import itemgetter
from typing import NamedTuple

from digest.papers import Paper
from digest.topics import about, names, phrases, rows, text, tree
from digest.topics.index import FIELDS, Index, fields_of, texts_of
from digest.topics.language import Filter
from digest.topics.postings import Forms, Postings
from digest.topics.tree import (
    About,
    And,
    Anywhere,
    Category,
    Leaf,
    Node,
    Not,
    Or,
    Person,
    Published,
    Signal,
    Source,
    State,
    Text,
)

MOST_TOLD = 4  #: words of a description that a reason names
_ORDER = {field: place for place, field in enumerate(FIELDS)}


class Word(NamedTuple):
    """Words of a paper that made it match: `text` is `display(field)[start:end]`."""

    field: str  #: title, abstract, comment, journal or organization
    start: int
    end: int
    text: str


class Explanation(NamedTuple):
    """Why a paper belongs to a topic, or does not."""

    matched: bool
    why: tuple[str, ...]  #: the clauses that made it, strongest first: "score-based in the title"
    words: tuple[Word, ...]  #: in reading order, none inside another
    failed: tuple[str, ...]  #: what kept it out


def explain(filter_: Filter, paper: Paper) -> Explanation:
    """Return why `paper` belongs to a filter, or what keeps it out."""
    reading = _Reading(_page(_Same(paper)))
    if not reading.holds(filter_.tree):
        failed = tuple(reading.failures(filter_.tree))
        return Explanation(matched=False, why=(), words=(), failed=failed)
    lines: list[tuple[int, str]] = []
    marked: list[Word] = []
    for leaf in _parts(filter_.tree):
        if reading.holds(leaf):
            words = reading.words(leaf)
            lines.append((_strength(words), reading.reason(leaf, words)))
            marked += words
    lines.sort(key=itemgetter(0))
    why = tuple(dict.fromkeys([line for _, line in lines]))
    return Explanation(matched=True, why=why, words=_outermost(marked), failed=())


def _parts(node: Node) -> Iterator[Leaf]:
    for leaf in tree.wanted(node):
        if isinstance(leaf, Anywhere):
            yield from leaf.parts
        else:
            yield leaf


def _strength(words: list[Word]) -> int:
    """Return how early a reason is told: words in the title, in the abstract, and then all else."""
    return min([_ORDER[word.field] for word in words], default=len(FIELDS))


def _outermost(words: list[Word]) -> tuple[Word, ...]:
    """Return `words` in reading order, without those that stand inside or across another."""
    if len(words) < 2:
        return tuple(words)
    kept: list[Word] = []
    for word in sorted(words, key=lambda word: (_ORDER[word.field], word.start, -word.end)):
        if not kept or kept[-1].field != word.field or word.start >= kept[-1].end:
            kept.append(word)
    return tuple(kept)


class _Page:
    """One paper, as a batch of its own: the same code answers, so the answer is the same."""

    def __init__(self, paper: Paper):
        self.paper = paper
        self.texts = texts_of(paper)
        self.rows = {place: text.read(written) for place, written in enumerate(self.texts) if written}
        self.postings = Postings(rows.of_read(self.rows.items()))
        self.index = Index((paper,), self.postings)


class _Reading:
    """A page as one filter reads it: what a clause found there is found once."""

    def __init__(self, page: _Page):
        self.page = page
        self._found: dict[str, list[Word]] = {}

    def holds(self, node: Node) -> bool:
        """Return whether the paper is what `node` asks for."""
        if isinstance(node, Text):
            return bool(self.words(node))
        if isinstance(node, Not):
            return not self.holds(node.child)
        if isinstance(node, And):
            return all(map(self.holds, node.children))
        if isinstance(node, Or):
            return any(map(self.holds, node.children))
        return bool(self.page.index.leaf(node))

    def words(self, leaf: Leaf) -> list[Word]:
        """Return the words of the paper that a clause found."""
        if isinstance(leaf, About):
            return [self._word(place, at, at) for place in (0, 1) for at in self._telling(leaf, place)]
        if not isinstance(leaf, Text):
            return []
        found = self._found.get(leaf.canonical)
        if found is None:
            found = self._found[leaf.canonical] = self._look_up(leaf)
        return found

    def _telling(self, leaf: About, place: int) -> list[int]:
        """Return the parts of a text that share a root with a description and say something."""
        if place not in self.page.rows:
            return []
        wanted = {root for root in leaf.roots if about.weight_of((root,)) == 1}
        folded = self.page.rows[place].folded
        return [at for at, word in enumerate(folded) if about.root(text.stem(word)) in wanted]

    def _look_up(self, leaf: Text) -> list[Word]:
        """Return every stretch of a text where a clause holds."""
        postings, there = self.page.postings, self.page.rows
        known = [postings.known[leaf.exact][token] for token in leaf.tokens]
        forms = [one.forms for one in known]
        if leaf.near is not None:
            places = [place for place in fields_of(leaf) if place in there]
            return [word for place in places for word in self._near(place, forms, leaf.near)]
        ways = [(leaf.gaps, forms)] if all(forms) else []
        if leaf.closed or any(one.halves for one in known):
            ways += self.page.index.spellings(leaf, forms)
        return [
            self._word(place, at, at + len(words) - 1)
            for place in fields_of(leaf)
            if place in there
            for gaps, words in ways
            for at in postings.places(place, words, gaps)
        ]

    def _near(self, place: int, forms: list[Forms], near: int) -> Iterator[Word]:
        """Yield the first stretch of a text with all of `forms`, where there is one."""
        window = phrases.near_window(self.page.postings.all_places(place, forms), len(forms) + near)
        if window:
            yield self._word(place, *window)

    def _word(self, place: int, first: int, last: int) -> Word:
        row = self.page.rows[place]
        start, end = row.starts[first], row.ends[last]
        return Word(FIELDS[place], start, end, self.page.texts[place][start:end])

    def reason(self, leaf: Leaf, words: list[Word]) -> str:
        """Return in a few words what a clause found in the paper."""
        if isinstance(leaf, About):
            found = dict.fromkeys(word.text.lower() for word in words)
            return f"about {', '.join([*found][:MOST_TOLD]) or leaf.canonical}"
        if words:
            fields = dict.fromkeys(word.field for word in words)
            return f"{_shown(leaf)} in the {' and '.join(fields)}"
        if isinstance(leaf, Person):
            return f"by {self._author(leaf)}"
        if isinstance(leaf, Category):
            return f"in {leaf.canonical.partition(':')[2]}"
        if isinstance(leaf, Published):
            return f"published {self.page.paper.published}"
        if isinstance(leaf, Signal):
            return f"{self.page.paper.signals[leaf.name]:g} {leaf.name}"
        if isinstance(leaf, State):
            return f"announced as {leaf.value}"
        return f"from {leaf.value}" if isinstance(leaf, Source) else leaf.canonical

    def _author(self, leaf: Person) -> str:
        authors = self.page.paper.authors[:1] if leaf.first else self.page.paper.authors
        return next(
            author
            for author in authors
            if names.agree(
                leaf.given,
                leaf.family,
                is_sorted=leaf.is_sorted,
                starred=leaf.starred,
                parts=names.parts_of(author),
            )
        )

    def failures(self, node: Node) -> Iterator[str]:
        """Yield what keeps the paper out, clause by clause."""
        if isinstance(node, And):
            for child in node.children:
                if not self.holds(child):
                    yield from self.failures(child)
        elif isinstance(node, Or):
            yield f"none of {', '.join(_shown(child) for child in node.children)}"
        elif isinstance(node, Not):
            found = [self.reason(leaf, self.words(leaf)) for leaf in _parts(node.child) if self.holds(leaf)]
            yield f"excluded: {', '.join(found) or node.child.canonical}"
        elif isinstance(node, About):
            yield f"too little about {' '.join(node.words)}"
        else:
            yield f"no {_shown(node)}{_where(node)}"


def _shown(node: Node) -> str:
    """Return a clause as it is told: without its field where the sentence names it, without quotes."""
    if isinstance(node, Text):
        return node.words.replace('"', "")
    return f"({node.canonical})" if isinstance(node, And) else node.canonical


def _where(node: Node) -> str:
    if not isinstance(node, Text):
        return ""
    return f" in the {' or '.join(FIELDS[place] for place in fields_of(node))}"


class _Same:
    """A paper as a key: two are the same only if they are one and the same value in memory."""

    __slots__ = ("paper",)

    def __init__(self, paper: Paper):
        self.paper = paper

    def __hash__(self) -> int:
        return id(self.paper)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and other.paper is self.paper


@lru_cache(maxsize=512)
def _page(same: _Same) -> _Page:
    return _Page(same.paper)
