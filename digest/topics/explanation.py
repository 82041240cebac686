"""Explain why a filter matches a paper or does not: list the clauses, and the words with their positions."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import cache, lru_cache
from typing import NamedTuple, TypeAlias

from digest.papers.paper_record import Paper
from digest.topics import (
    filter_tree,
    pack_resolution,
    tokenizer,
    word_rarity,
)
from digest.topics.clauses import author_names
from digest.topics.filter_parser import Filter
from digest.topics.filter_tree import (
    And,
    AuthorClause,
    DateClause,
    DescriptionClause,
    ExampleClause,
    LabelClause,
    Leaf,
    Node,
    Not,
    Or,
    SignalClause,
    TextClause,
)
from digest.topics.paper_index import FIELDS, PaperIndex, fields_of, texts_of

MAX_REASON_WORDS = 4  #: maximum number of a description's words that a reason lists
MAX_FAILED_WORDS = 8  #: maximum number of a description's words listed if a paper does not match
FILTERS_CACHED = 16384  #: maximum number of filters whose clauses are cached, about 1 kB each
MAX_SHARED_WORDS = 2  #: maximum number of words or phrases of an example that a reason lists
MAX_TOGETHER = 3  #: maximum number of neighbouring words of an example that are one phrase
#: The words of a reason before the label of a clause.
LABEL_REASONS = {"cat": "in", "pcat": "in", "is": "announced as", "source": "from"}
#: Matched words as (number of the field, start, negated end). Sorted spans are in reading order; of those with
#: the same start, the longest comes first.
WordSpan: TypeAlias = tuple[int, int, int]
MatchedClause: TypeAlias = tuple[Leaf, list[WordSpan]]


class MatchedWord(NamedTuple):
    """Words of a paper that match a filter; `text` is `display(field)[start:end]`."""

    field: str  #: the field's name: title, abstract, comment, journal or organization
    start: int
    end: int
    text: str


class MatchFinding(NamedTuple):
    """The clauses by which a filter matches a paper, strongest first, and where the matched words are."""

    words: tuple[str, ...]  #: the text clauses, as the reader wrote them: "score-based"
    authors: tuple[str, ...]  #: those that the reader follows by their full names
    others: tuple[str, ...]  #: the other clauses: "in cs.LG"
    places: tuple[tuple[str, int, int], ...]  #: (field, start, end) of the matched words


class Explanation(NamedTuple):
    """The reasons why a paper matches a filter or does not."""

    matched: bool
    why: tuple[str, ...]  #: a phrase per clause that matched, strongest first: "score-based in the title"
    words: tuple[MatchedWord, ...]  #: the matched words, in reading order and without overlaps
    failed: tuple[str, ...]  #: the reasons why the paper does not match


def explain(filter_: Filter, paper: Paper) -> Explanation:
    """Explain why `paper` matches a filter or does not."""
    return Explainer(PaperIndex((paper,))).explain(filter_, 0)


class Explainer:
    """Explains why filters match the papers of an index, and caches lookups of words for all of the papers.

    The explanation for a paper does not depend on the other papers.
    """

    def __init__(self, index: PaperIndex):
        """Prepare to explain matches with the papers of an index, reusing the index's lookups."""
        self.index = index
        self._page = cache(lambda number: _Page(index, number))
        self._evaluated = lru_cache(FILTERS_CACHED)(
            lambda canonical: self._evaluate(pack_resolution.parse_resolved(canonical).tree)
        )

    def explain(self, filter_: Filter, number: int) -> Explanation:
        """Explain why the paper with this number matches a filter or does not."""
        page, (matching, parts) = self._page(number), self._evaluate(filter_.tree)
        if not matching >> number & 1:
            return Explanation(matched=False, why=(), words=(), failed=tuple(page.failures(filter_.tree)))
        found = page.marked(leaf for leaf, papers in parts if papers >> number & 1)
        why = dict.fromkeys([page.reason(leaf, marks) for leaf, marks in found])
        words = [
            MatchedWord(field, start, end, page.texts[FIELDS.index(field)][start:end])
            for field, start, end in _places(found)
        ]
        return Explanation(matched=True, why=tuple(why), words=tuple(words), failed=())

    def matched_clauses(self, canonical: str, numbers: Sequence[int]) -> dict[int, tuple[Leaf, ...]]:
        """Return the clauses of a filter that match each of these papers, in the order of the filter.

        Clauses under a NOT and papers that the filter does not match are left out. The sets of papers that
        match a clause are looked up once for all papers and filters, and no text is searched.
        """
        matching, parts = self._evaluated(canonical)
        return {
            number: tuple([leaf for leaf, papers in parts if papers & bit])
            for number in numbers
            if matching & (bit := 1 << number)
        }

    def finding(self, clauses: Sequence[Leaf], number: int) -> MatchFinding:
        """Return the reasons why these clauses match a paper, and the positions of the matched words."""
        page = self._page(number)
        found = page.marked(clauses)
        words, authors, others = dict[str, None](), dict[str, None](), dict[str, None]()
        for leaf, marks in found:
            if isinstance(leaf, TextClause):
                words[_shown(leaf)] = None
            elif isinstance(leaf, AuthorClause) and leaf.names_one_person:
                authors[page.author(leaf)] = None
            else:
                others[page.reason(leaf, marks)] = None
        return MatchFinding(tuple(words), tuple(authors), tuple(others), _places(found))

    def _evaluate(self, tree: Node) -> tuple[int, Sequence[tuple[Leaf, int]]]:
        """Return the papers that a filter matches, and (clause, papers) for its clauses that are not under a NOT.

        A clause that searches several fields is listed as its parts.
        """
        return self.index.matches_of_node(tree), [
            (part, self.index.leaf(part)) for part in filter_tree.positive_leaves(tree)
        ]


def _strength(found: MatchedClause) -> int:
    """Return the sort key of a matched clause: matches in the title are first, then those in the abstract."""
    marks = found[1]
    return marks[0][0] if marks else len(FIELDS)


def _places(found: list[MatchedClause]) -> tuple[tuple[str, int, int], ...]:
    """Return the positions of the matched words in reading order, without overlaps."""
    places: list[tuple[str, int, int]] = []
    last, behind = -1, 0
    for place, start, end in sorted(mark for _, marks in found for mark in marks):
        if place != last or start >= behind:
            last, behind = place, -end
            places.append((FIELDS[place], start, behind))
    return tuple(places)


class _Page:
    """One paper of an index, whose words are marked."""

    def __init__(self, index: PaperIndex, number: int):
        self.index, self.number, self.paper = index, number, index.papers[number]
        self.texts = texts_of(self.paper)
        self._words = cache(lambda place: tokenizer.read(self.texts[place]))

    def matches(self, node: Node) -> bool:
        """Return whether `node` matches the paper."""
        return bool(self.index.matches_of_node(node) >> self.number & 1)

    def marked(self, clauses: Iterable[Leaf]) -> list[MatchedClause]:
        """Return clauses that match the paper with the words that match them, strongest first."""
        return sorted([(leaf, self.marks(leaf)) for leaf in clauses], key=_strength)

    def marks(self, leaf: Leaf) -> list[WordSpan]:
        """Return the positions of the paper's words that match a clause."""
        if isinstance(leaf, TextClause):
            return [
                self._mark(place, at, count)
                for place in fields_of(leaf)
                if self.texts[place]
                for at, count in self.index.texts.marks(leaf, place * self.index.size + self.number)
            ]
        if isinstance(leaf, DescriptionClause):
            return self._marks_of_roots({*filter(word_rarity.is_significant, leaf.roots)})
        if isinstance(leaf, ExampleClause):
            _, roots = self.index.descriptions.nearest_example(leaf, self.number)
            return self._marks_of_roots({*filter(word_rarity.is_significant, roots)}, MAX_TOGETHER)
        return []

    def _marks_of_roots(self, roots: Collection[str], together: int = 1) -> list[WordSpan]:
        """Return the positions of the words in title and abstract with these roots, up to `together` as one."""
        marks = []
        for place in (0, 1):
            words = self._words(place)
            count = 0
            for at, word in enumerate(words.folded):
                count = count + 1 if tokenizer.root(word) in roots else 0
                is_last = count == together or words.glue[at : at + 1] in {",", ""}
                if count and (is_last or tokenizer.root(words.folded[at + 1]) not in roots):
                    marks.append(self._mark(place, at - count + 1, count))
                    count = 0
        return marks

    def _mark(self, place: int, at: int, count: int) -> WordSpan:
        """Return `count` words of a text, starting at word `at`, as a span to highlight."""
        words = self._words(place)
        return place, words.starts[at], -words.ends[at + count - 1]

    def reason(self, leaf: Leaf, marks: list[WordSpan]) -> str:  # noqa: PLR0911  (one return for each kind of clause)
        """Return a short phrase that states why a clause matches."""
        if isinstance(leaf, DescriptionClause):
            found = dict.fromkeys([self.texts[place][start:-end].lower() for place, start, end in marks])
            return f"about {', '.join([*found][:MAX_REASON_WORDS]) or leaf.canonical}"
        if isinstance(leaf, ExampleClause):
            example, _ = self.index.descriptions.nearest_example(leaf, self.number)
            shared = dict.fromkeys([self.texts[place][start:-end].lower() for place, start, end in marks])
            words = ", ".join([*shared][:MAX_SHARED_WORDS])
            return f"Like “{example.title}”{f': {words}' if words else ''}"
        if marks:
            places = {mark[0]: None for mark in marks}
            return f"{_shown(leaf)} in the {' and '.join([FIELDS[place] for place in places])}"
        if isinstance(leaf, AuthorClause):
            return f"by {self.author(leaf)}"
        if isinstance(leaf, LabelClause) and leaf.field in LABEL_REASONS:
            label = leaf.canonical.partition(":")[2].strip('"')
            return f"{LABEL_REASONS[leaf.field]} {label}"
        if isinstance(leaf, DateClause):
            return f"published {self.paper.published}"
        if isinstance(leaf, SignalClause):
            return f"{self.paper.signals[leaf.name]:g} {leaf.name}"
        return leaf.canonical

    def author(self, leaf: AuthorClause) -> str:
        """Return the first of the paper's authors who matches a clause."""
        return author_names.author_of(self.paper, leaf) or ""

    def failures(self, node: Node) -> Iterator[str]:
        """Yield the reasons why the paper does not match `node`."""
        if isinstance(node, And):
            for child in node.children:
                if not self.matches(child):
                    yield from self.failures(child)
        elif isinstance(node, Or):
            yield f"none of {', '.join(_shown(child) + _where(child, 'tiab') for child in node.children)}"
        elif isinstance(node, Not):
            found = [
                self.reason(leaf, self.marks(leaf))
                for leaf in filter_tree.positive_leaves(node.child)
                if self.matches(leaf)
            ]
            yield f"excluded: {', '.join(found) or node.child.canonical}"
        elif isinstance(node, ExampleClause):
            yield f"not similar enough to {node.canonical.removeprefix('like:')}"
        elif isinstance(node, DescriptionClause):
            yield f"too little about {' '.join(node.words[:MAX_FAILED_WORDS])}"
        else:
            yield f"no {_shown(node)}{_where(node)}"


def _shown(node: Node) -> str:
    """Return a clause as an explanation prints it: words without their field and quotation marks."""
    if isinstance(node, TextClause):
        return node.words.replace('"', "")
    return f"({node.canonical})" if isinstance(node, And) else node.canonical


def _where(node: Node, unless: str = "") -> str:
    """Return the fields that a clause searches, such as ` in the title`; "" if its field is `unless`."""
    if not isinstance(node, TextClause) or node.field == unless:
        return ""
    return f" in the {' or '.join(FIELDS[place] for place in fields_of(node))}"
