"""What a filter is once it is read: a tree of clauses, each with its canonical spelling."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date
from typing import TypeAlias


@dataclass(frozen=True, slots=True)
class Text:
    """Words that stand beside one another in a field."""

    field: str  #: ti, abs, tiab (title or abstract), co, jr, org
    tokens: tuple[str, ...]  #: folded, but acronyms as typed; "flat*" is the beginning of a word
    gaps: str  #: between two tokens: "-" for a compound, " " for neighbours
    exact: bool  #: written in quotes: plurals are not folded
    near: int | None  #: so many further words may stand between; any order
    words: str  #: the clause without its field
    #: Its spellings with parts written as one: the one word, the tokens, the gaps.
    closed: tuple[tuple[str, tuple[str, ...], str], ...]
    canonical: str


@dataclass(frozen=True, slots=True)
class Person:
    """An author, or with `first` the first author."""

    first: bool
    given: tuple[str, ...]  #: initials or names, in order
    family: tuple[str, ...]
    is_sorted: bool  #: written "Family, Given", so that we know which is which
    starred: bool
    canonical: str


@dataclass(frozen=True, slots=True)
class Category:
    """A category or a whole archive; with `primary` only as the paper's first."""

    primary: bool
    codes: tuple[str, ...]  #: in small letters; the alternative names of one category are all here
    is_archive: bool
    canonical: str


@dataclass(frozen=True, slots=True)
class Identifier:
    """A paper by its id in the world."""

    value: str
    canonical: str


@dataclass(frozen=True, slots=True)
class State:
    """How a paper was announced: new, cross, replaced, withdrawn."""

    value: str
    canonical: str


@dataclass(frozen=True, slots=True)
class Source:
    """Where the dumps came from that tell of a paper."""

    value: str
    canonical: str


@dataclass(frozen=True, slots=True)
class Language:
    """The language that a paper is written in."""

    value: str  #: two letters
    canonical: str


@dataclass(frozen=True, slots=True)
class Published:
    """A paper published from one day to another, both included."""

    since: date
    until: date
    canonical: str


@dataclass(frozen=True, slots=True)
class Signal:
    """A figure of attention within bounds, both included; an unknown figure is within none."""

    name: str
    low: float
    high: float
    canonical: str


@dataclass(frozen=True, slots=True)
class Anywhere:
    """Any of several clauses, written as one: `all:graphene`."""

    parts: tuple[Text | Person, ...]
    canonical: str


@dataclass(frozen=True, slots=True)
class About:
    """A description in words of one's own."""

    words: tuple[str, ...]  #: folded
    roots: tuple[str, ...]  #: those that say something, without their endings
    canonical: str


@dataclass(frozen=True, slots=True)
class Use:
    """A filter of a pack by its name. Before papers are looked at, what it stands for takes its place."""

    pack: str
    name: str  #: of the filter in the pack; empty: any of its filters
    version: int | None  #: None: the newest
    canonical: str


@dataclass(frozen=True, slots=True)
class Not:
    """What must not be."""

    child: Node
    canonical: str
    depth: int


@dataclass(frozen=True, slots=True)
class And:
    """All of several; what must not be stands last."""

    children: tuple[Node, ...]
    canonical: str
    depth: int


@dataclass(frozen=True, slots=True)
class Or:
    """Any of several."""

    children: tuple[Node, ...]
    canonical: str
    depth: int


Leaf: TypeAlias = (
    Text
    | Person
    | Category
    | Identifier
    | State
    | Source
    | Language
    | Published
    | Signal
    | Anywhere
    | About
    | Use
)
Node: TypeAlias = Leaf | Not | And | Or


def negation(child: Node) -> Node:
    """Return what `child` excludes; two negations are none."""
    if type(child) is Not:
        return child.child
    return Not(child, f"NOT {_within(child, And, Or)}", depth_of(child))


def conjunction(children: list[Node]) -> Node:
    """Return the node that asks for all of `children`, nested ones opened, negations last."""
    if len(children) == 1:
        return children[0]
    flat = [inner for child in children for inner in (child.children if type(child) is And else (child,))]
    flat.sort(key=_is_negation)
    first, *others = flat
    words = [
        f"AND{child.canonical}" if type(child) is Not else f"AND {_within(child, Or)}" for child in others
    ]
    return And(tuple(flat), " ".join([_within(first, Or), *words]), 1 + max(map(depth_of, flat)))


def disjunction(children: list[Node]) -> Node:
    """Return the node that asks for any of `children`, nested ones opened."""
    if len(children) == 1:
        return children[0]
    flat = [inner for child in children for inner in (child.children if type(child) is Or else (child,))]
    return Or(tuple(flat), " OR ".join([_within(child, And) for child in flat]), 1 + max(map(depth_of, flat)))


def depth_of(node: Node) -> int:
    """Return how many levels of AND and OR stand in `node`."""
    return node.depth if type(node) in (And, Or, Not) else 0  # type: ignore[union-attr]


def _is_negation(node: Node) -> bool:
    return type(node) is Not


def _within(node: Node, *bracketed: type) -> str:
    return f"({node.canonical})" if type(node) in bracketed else node.canonical


def leaves(node: Node) -> Iterator[Leaf]:
    """Yield the clauses of `node` in the order they are written."""
    if isinstance(node, Not):
        yield from leaves(node.child)
    elif isinstance(node, And | Or):
        for child in node.children:
            yield from leaves(child)
    else:
        yield node


def wanted(node: Node) -> Iterator[Leaf]:
    """Yield the clauses that speak for a paper: those not under a NOT."""
    if isinstance(node, And | Or):
        for child in node.children:
            yield from wanted(child)
    elif not isinstance(node, Not):
        yield node


def is_bounded(node: Node) -> bool:
    """Return whether `node` asks for something, so that it cannot match everything but a few."""
    if isinstance(node, And):
        return any(map(is_bounded, node.children))
    if isinstance(node, Or):
        return all(map(is_bounded, node.children))
    return not isinstance(node, Not)
