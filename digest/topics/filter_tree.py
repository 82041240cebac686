"""Represent a parsed filter as a tree of clauses, each with its canonical spelling."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date
from typing import NamedTuple, TypeAlias


@dataclass(frozen=True, slots=True)
class TextClause:
    """A clause that searches a field for consecutive words, or for words near one another."""

    field: str  #: one of ti, abs, tiab (title or abstract), co, jr and org
    tokens: tuple[str, ...]  #: the folded words, with acronyms as typed; "flat*" is a prefix
    gaps: str  #: one character for each gap between two tokens: "-" in a compound, " " between separate words
    exact: bool  #: whether the words are in quotes; if so, a singular does not match its plural
    near: int | None  #: maximum number of other words between these words, in any order; None for a phrase
    words: str  #: the clause without its field
    #: The spellings in which some words are joined, each as (joined word, tokens, gaps).
    closed: tuple[tuple[str, tuple[str, ...], str], ...]
    canonical: str

    def __hash__(self) -> int:
        """Hash only the canonical spelling, because clauses are keys of caches."""
        return hash(self.canonical)


@dataclass(frozen=True, slots=True)
class AuthorClause:
    """A clause that matches papers by an author; with `first`, only papers with this first author."""

    first: bool
    given: tuple[str, ...]  #: initials or given names, in order
    family: tuple[str, ...]
    is_sorted: bool  #: whether the name is written "Family, Given"
    starred: bool
    canonical: str

    @property
    def names_one_person(self) -> bool:
        """Return whether the clause has a full given name; a family name or an initial fits many people."""
        return bool(self.given) and len(self.given[0]) > 1 and not self.starred


@dataclass(frozen=True, slots=True)
class LabelClause:
    """A clause that matches papers with one of the names of a label: `cat:cs.LG`, `is:new`."""

    #: "cat", "pcat" (a paper's first category), "id" (arXiv id, DOI or other public id), "is" (the kind of
    #: announcement), "source" (of the dumps that list a paper) or "lang" (the language code)
    field: str
    values: tuple[str, ...]  #: all names of the label, in lower case; "cs.*" is a whole archive
    canonical: str


@dataclass(frozen=True, slots=True)
class DateClause:
    """A clause that matches a range of publication dates, including both ends."""

    since: date
    until: date
    canonical: str


@dataclass(frozen=True, slots=True)
class SignalClause:
    """A clause that matches a range of a signal's values, including both bounds, but no unknown value."""

    name: str
    low: float
    high: float
    canonical: str


@dataclass(frozen=True, slots=True)
class AnywhereClause:
    """A clause that matches in any of several fields, such as `all:graphene`."""

    parts: tuple[TextClause | AuthorClause, ...]
    canonical: str


@dataclass(frozen=True, slots=True)
class DescriptionClause:
    """A clause that matches papers that a free-text description describes."""

    words: tuple[str, ...]  #: folded
    roots: tuple[str, ...]  #: the roots of all words except stop words
    canonical: str


class Example(NamedTuple):
    """The weighted words of an example paper."""

    title: str
    words: tuple[str, ...]  #: folded, those that weigh most first
    weights: tuple[tuple[str, float], ...]  #: (root, its share of the weights of all words)


@dataclass(frozen=True, slots=True)
class ExampleClause:
    """A clause that matches papers similar to its examples: `like:2401.01234,2402.00001`."""

    references: tuple[tuple[str, str], ...]  #: (reference, the words of its papers as stored)
    examples: tuple[Example, ...]
    likeness: float  #: the mean similarity of an example to its nearest other examples, 0.0 for one example
    known: frozenset[str]  #: hashes of the ids and titles of papers that are not matched
    canonical: str  #: without the words

    def __hash__(self) -> int:
        """Hash only the canonical spelling, because clauses are keys of caches."""
        return hash(self.canonical)


@dataclass(frozen=True, slots=True)
class PackClause:
    """A reference to a filter of a pack; it is resolved before papers are matched."""

    pack: str
    name: str  #: the filter's name; empty for any filter of the pack
    version: int | None  #: None for the newest version
    canonical: str


@dataclass(frozen=True, slots=True)
class Not:
    """The negation of a node."""

    child: Node
    canonical: str
    depth: int


@dataclass(frozen=True, slots=True)
class And:
    """The conjunction of several nodes; negations are last."""

    children: tuple[Node, ...]
    canonical: str
    depth: int


@dataclass(frozen=True, slots=True)
class Or:
    """The disjunction of several nodes."""

    children: tuple[Node, ...]
    canonical: str
    depth: int


Leaf: TypeAlias = (
    TextClause
    | AuthorClause
    | LabelClause
    | DateClause
    | SignalClause
    | AnywhereClause
    | DescriptionClause
    | ExampleClause
    | PackClause
)
Node: TypeAlias = Leaf | Not | And | Or


def negation(child: Node) -> Node:
    """Return the negation of `child`; two negations cancel out."""
    if type(child) is Not:
        return child.child
    return Not(child, f"NOT {bracketed(child, And, Or)}", depth_of(child))


def conjunction(children: list[Node]) -> Node:
    """Return the conjunction of `children`, with nested ANDs merged and negations last."""
    if len(children) == 1:
        return children[0]
    flat = [inner for child in children for inner in (child.children if type(child) is And else (child,))]
    flat.sort(key=lambda child: type(child) is Not)
    first, *others = flat
    words = [
        f"AND{child.canonical}" if type(child) is Not else f"AND {bracketed(child, Or)}" for child in others
    ]
    return And(tuple(flat), " ".join([bracketed(first, Or), *words]), 1 + max(map(depth_of, flat)))


def disjunction(children: list[Node]) -> Node:
    """Return the disjunction of `children`, with nested ORs merged."""
    if len(children) == 1:
        return children[0]
    flat = [inner for child in children for inner in (child.children if type(child) is Or else (child,))]
    return Or(
        tuple(flat), " OR ".join([bracketed(child, And) for child in flat]), 1 + max(map(depth_of, flat))
    )


def depth_of(node: Node) -> int:
    """Return the number of nested levels of AND and OR in `node`."""
    return node.depth if type(node) in (And, Or, Not) else 0  # type: ignore[union-attr]


def bracketed(node: Node, *kinds: type) -> str:
    """Return the canonical spelling of a node, in brackets if it is of one of these kinds."""
    return f"({node.canonical})" if type(node) in kinds else node.canonical


def leaves(node: Node) -> Iterator[Leaf]:
    """Yield the clauses of `node` in the order in which they are written."""
    if isinstance(node, Not):
        yield from leaves(node.child)
    elif isinstance(node, And | Or):
        for child in node.children:
            yield from leaves(child)
    else:
        yield node


def positive_leaves(node: Node) -> Iterator[Leaf]:
    """Yield the clauses that are not under a NOT; a clause that searches several fields is yielded as its parts."""
    if isinstance(node, And | Or):
        for child in node.children:
            yield from positive_leaves(child)
    elif isinstance(node, AnywhereClause):
        yield from node.parts
    elif not isinstance(node, Not):
        yield node


def is_bounded(node: Node) -> bool:
    """Return whether `node` has a positive requirement and so cannot match almost every paper."""
    if isinstance(node, And):
        return any(map(is_bounded, node.children))
    if isinstance(node, Or):
        return all(map(is_bounded, node.children))
    return not isinstance(node, Not)
