"""Why a filter matches a paper, or why not: the clauses and the words, with their places."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple, TypeAlias

from digest.papers import Paper
from digest.topics import about, names, phrases, text, tree
from digest.topics.index import FIELDS, Index, fields_of, texts_of
from digest.topics.language import Filter
from digest.topics.postings import Search
from digest.topics.rows import Memory
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

TOGETHER = 256  #: papers that are indexed for the first of them that is explained
MOST_TOLD = 4  #: words of a description that a reason names
#: Words found: the place of their field, where they begin, and where they end, negated. Sorted, marks
#: stand in reading order, and of those that begin together the longest is first.
Mark: TypeAlias = tuple[int, int, int]


class Word(NamedTuple):
    """Words of a paper that made it match: `text` is `display(field)[start:end]`."""

    field: str  #: title, abstract, comment, journal or organization
    start: int
    end: int
    text: str


class Finding(NamedTuple):
    """What a filter found in a paper that belongs to it."""

    why: tuple[str, ...]  #: the clauses that made it, strongest first: "score-based in the title"
    places: tuple[tuple[str, int, int], ...]  #: of words: the field, where they begin and where they end


class Explanation(NamedTuple):
    """Why a paper belongs to a topic, or does not."""

    matched: bool
    why: tuple[str, ...]  #: the clauses that made it, strongest first: "score-based in the title"
    words: tuple[Word, ...]  #: in reading order, none inside another
    failed: tuple[str, ...]  #: what kept it out


def explain(filter_: Filter, paper: Paper) -> Explanation:
    """Return why `paper` belongs to a filter, or what keeps it out."""
    return _alone(_Same(paper)).explain(filter_, 0)


class Pages:
    """Papers to be explained, each as it would be alone; what a word means is looked up once for all."""

    def __init__(self, papers: Sequence[Paper], index: Index | None = None):
        """`index` is theirs, if there is one: what matching has looked up is known then."""
        self._papers = papers
        self._together = len(papers) if index else TOGETHER
        self._batches: Mapping[int, _Batch] = Memory(self._batch)
        self._pages: Mapping[int, _Page] = Memory(self._page)
        self._index = index

    def explain(self, filter_: Filter, number: int) -> Explanation:
        """Return why the paper of that number belongs to a filter, or what keeps it out."""
        page, found = self._pages[number], self.find(filter_, number)
        if found is None:
            return Explanation(matched=False, why=(), words=(), failed=tuple(page.failures(filter_.tree)))
        words = tuple([page.word(*place) for place in found.places])
        return Explanation(matched=True, why=found.why, words=words, failed=())

    def find(self, filter_: Filter, number: int) -> Finding | None:
        """Return why the paper of that number belongs to a filter, and where; None if it does not."""
        page = self._pages[number]
        found: list[tuple[Leaf, list[Mark]]] = []
        if not page.finds(filter_.tree, found):
            return None
        found.sort(key=_strength)
        why = dict.fromkeys([page.reason(leaf, marks) for leaf, marks in found])
        return Finding(tuple(why), _apart([mark for _, marks in found for mark in marks]))

    def _batch(self, number: int) -> _Batch:
        start = number * self._together
        return _Batch(self._index or Index(self._papers[start : start + self._together]))

    def _page(self, number: int) -> _Page:
        return _Page(self._batches[number // self._together], number % self._together)


class _Batch:
    """Papers indexed together. Threads may ask at once: what is not there yet, each finds for itself."""

    def __init__(self, index: Index):
        self.index = index
        #: The papers that a clause matches which asks for no words.
        self.leaves: Mapping[Leaf, int] = Memory(index.leaf)
        self._ways: dict[str, Sequence[tuple[Search, int]]] = {}

    def ways(self, leaf: Text) -> Sequence[tuple[Search, int]]:
        """Return how to find each spelling of a clause, and how many words it has."""
        found = self._ways.get(leaf.words)
        if found is None:
            found = self._ways[leaf.words] = self._look_up_ways(leaf)
        return found

    def _look_up_ways(self, leaf: Text) -> Sequence[tuple[Search, int]]:
        known, postings = self.index.postings.known[leaf.exact], self.index.postings
        forms = [known[token].forms for token in leaf.tokens]
        spellings = [(leaf.gaps, forms), *self.index.spellings(leaf, forms)]
        return [(postings.search(words, gaps), len(words)) for gaps, words in spellings if all(words)]


def _strength(found: tuple[Leaf, list[Mark]]) -> int:
    """Return how early a reason is told: words in the title, in the abstract, and then all else."""
    marks = found[1]
    return marks[0][0] if marks else len(FIELDS)


def _apart(marks: list[Mark]) -> tuple[tuple[str, int, int], ...]:
    """Return the places of marks in reading order, without those that stand inside or across another."""
    places: list[tuple[str, int, int]] = []
    last, behind = -1, 0
    for place, start, end in sorted(marks):
        if place != last or start >= behind:
            last, behind = place, -end
            places.append((FIELDS[place], start, behind))
    return tuple(places)


def _parts(node: Node) -> Iterator[Leaf]:
    for leaf in tree.wanted(node):
        if isinstance(leaf, Anywhere):
            yield from leaf.parts
        else:
            yield leaf


class _Page:
    """One paper of a batch: the index that matches answers, so the answer is the same."""

    def __init__(self, batch: _Batch, number: int):
        self.index = index = batch.index
        self.postings = index.postings
        self.leaves, self.ways = batch.leaves, batch.ways
        self.number = number
        self.paper = index.papers[number]
        self.texts = texts_of(self.paper)
        #: What of the batch is a text of this paper, and where in the rows it stands, by the place of its field.
        self.documents = {
            place: place * index.size + number for place, written in enumerate(self.texts) if written
        }
        self.stretches = [
            self.postings.spans[self.documents[place]] if written else (0, 0)
            for place, written in enumerate(self.texts)
        ]
        self._bounds: Mapping[int, tuple[array[int], array[int]]] = Memory(self._look_up_bounds)

    def finds(self, node: Node, found: list[tuple[Leaf, list[Mark]]]) -> bool:
        """Return whether the paper is what `node` asks for; put what speaks for it into `found`."""
        if isinstance(node, Text):
            if marks := self.marks(node):
                found.append((node, marks))
            return bool(marks)
        if isinstance(node, And):
            return all([self.finds(child, found) for child in node.children])  # noqa: C419 - each has its say
        if isinstance(node, Or):
            return any([self.finds(child, found) for child in node.children])  # noqa: C419
        if isinstance(node, Anywhere):
            return any([self.finds(part, found) for part in node.parts])  # noqa: C419
        if isinstance(node, Not):
            return not self.holds(node.child)
        if not self.leaves[node] >> self.number & 1:
            return False
        found.append((node, self.marks(node)))
        return True

    def holds(self, node: Node) -> bool:
        """Return whether the paper is what `node` asks for."""
        return self.finds(node, [])

    def marks(self, leaf: Leaf) -> list[Mark]:
        """Return the words of the paper that a clause found."""
        if isinstance(leaf, Text):
            return self._near(leaf, leaf.near) if leaf.near is not None else self._in_a_row(leaf)
        return self._telling(leaf) if isinstance(leaf, About) else []

    def _telling(self, leaf: About) -> list[Mark]:
        """Return the words of title and abstract that share a root with a description and say something."""
        wanted = {root for root in leaf.roots if about.weight_of((root,)) == 1}
        return [
            self._mark(place, at, 1)
            for place in (0, 1)
            for at, word in enumerate(text.read(self.texts[place]).folded)
            if about.root(text.stem(word)) in wanted
        ]

    def _in_a_row(self, leaf: Text) -> list[Mark]:
        """Return every stretch of a text where the words of a clause stand in turn."""
        found: list[Mark] = []
        if ways := self.ways(leaf):
            for place in fields_of(leaf):
                start, end = self.stretches[place]
                for search, count in ways:
                    for at in search(start, end):
                        found.append(self._mark(place, at - start, count))  # noqa: PERF401 - most find nothing
        return found

    def _near(self, leaf: Text, near: int) -> list[Mark]:
        """Return the first stretch of each text with all words of a clause, where there is one."""
        forms, found = self.index.forms(leaf), []
        for place in fields_of(leaf):
            if place in self.documents:
                every = self.postings.all_places(self.documents[place], forms)
                window = phrases.near_window(every, len(forms) + near)
                if window:
                    found.append(self._mark(place, window[0], window[1] - window[0] + 1))
        return found

    def _mark(self, place: int, at: int, count: int) -> Mark:
        """Return `count` words of a text, from the one at `at`, as a mark."""
        starts, ends = self._bounds[place]
        return place, starts[at], -ends[at + count - 1]

    def _look_up_bounds(self, place: int) -> tuple[array[int], array[int]]:
        return text.bounds(self.texts[place])

    def word(self, field: str, start: int, end: int) -> Word:
        """Return the words in that place."""
        return Word(field, start, end, self.texts[FIELDS.index(field)][start:end])

    def reason(self, leaf: Leaf, marks: list[Mark]) -> str:
        """Return in a few words what a clause found in the paper."""
        if isinstance(leaf, About):
            found = dict.fromkeys([self.texts[place][start:-end].lower() for place, start, end in marks])
            return f"about {', '.join([*found][:MOST_TOLD]) or leaf.canonical}"
        if marks:
            places = {mark[0]: None for mark in marks}
            return f"{_shown(leaf)} in the {' and '.join([FIELDS[place] for place in places])}"
        if isinstance(leaf, Person):
            return f"by {self._author(leaf)}"
        if isinstance(leaf, Category):
            return f"in {leaf.canonical.partition(':')[2]}"
        if isinstance(leaf, Published):
            return f"published {self.paper.published}"
        if isinstance(leaf, Signal):
            return f"{self.paper.signals[leaf.name]:g} {leaf.name}"
        if isinstance(leaf, State):
            return f"announced as {leaf.value}"
        return f"from {leaf.value}" if isinstance(leaf, Source) else leaf.canonical

    def _author(self, leaf: Person) -> str:
        authors = self.paper.authors[:1] if leaf.first else self.paper.authors
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
            found = [self.reason(leaf, self.marks(leaf)) for leaf in _parts(node.child) if self.holds(leaf)]
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
def _alone(same: _Same) -> Pages:
    return Pages((same.paper,))
