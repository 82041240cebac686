"""Filters of packs resolved: what `use:lab/nlp` stands for takes its place.

The language knows `use:` as a clause like any other, so what people write is kept as they wrote it. What
it stands for is worked out here, from the packs at hand, and is a filter without `use:`: the only kind
that papers are matched against.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches

from digest.errors import BadFilter
from digest.topics import clauses, tree
from digest.topics.language import MOST_CHARACTERS, MOST_CLAUSES, MOST_LEVELS, Filter, on_one_line, parse
from digest.topics.packs import Pack
from digest.topics.tree import And, Node, Not, Or, Use

Shelf = Mapping[str, Mapping[int, Pack]]  #: published packs by name and version

MOST_NESTED = 8  #: packs that use packs that use packs


def resolved(filter_: Filter, shelf: Shelf) -> Filter:
    """Return the filter with what its packs stand for; raises BadFilter, pointing at the `use:` to blame."""
    if not filter_.uses:
        return filter_
    resolver = Resolver(shelf)
    for used in filter_.uses:
        try:
            resolver.meaning(used.leaf)
        except _Unresolved as mistake:
            raise refused(filter_, used.start, used.end, str(mistake), mistake.suggestion) from mistake
    node = resolver.put_in(filter_.tree, _TOP)
    if wrong := _too_much(node):
        last = filter_.uses[-1]
        raise refused(filter_, last.start, last.end, f"Written out, this has {wrong}")
    return Filter(node, node.canonical, filter_.text, filter_.warnings)


def refused(filter_: Filter, start: int, end: int, message: str, suggestion: str | None = None) -> BadFilter:
    """Return the error about a place in a filter."""
    return BadFilter(
        f"{message}.",
        text=on_one_line(filter_.text),
        column=start + 1,
        length=max(1, end - start),
        suggestion=suggestion,
    )


def meanings(filter_: Filter, shelf: Shelf) -> dict[str, str]:
    """Return what each `use:` in a filter that can be resolved stands for, with the version it has now."""
    resolver = Resolver(shelf)
    found = {}
    for used in filter_.uses:
        pack = resolver.pack_of(used.leaf, _TOP)
        spelled = clauses.used(used.leaf.pack, used.leaf.name, pack.version).canonical
        found[spelled] = resolver.meaning(used.leaf).canonical
    return found


def written_out(canonical: str, shelf: Shelf) -> str:
    """Return what a canonical filter stands for."""
    return resolved(parse(canonical), shelf).canonical


def stands_on(pack: Pack, shelf: Shelf) -> dict[str, int]:
    """Return the versions of all the packs that a new one uses, however far down; raises BadFilter."""
    resolver = Resolver({**shelf, pack.name: {**shelf.get(pack.name, {}), pack.version: pack}})
    for name, canonical in pack.filters.items():
        try:
            resolver.meaning(clauses.used(pack.name, name, None))
        except _Unresolved as mistake:
            filter_ = parse(canonical)
            message = f"{pack.name}/{name}: {mistake}"
            raise refused(filter_, 0, len(filter_.text), message, mistake.suggestion) from mistake
    return {name: version for name, version in resolver.met.items() if name != pack.name}


class _Unresolved(Exception):
    """What is wrong with a `use:`."""

    def __init__(self, message: str, suggestion: str | None = None):
        super().__init__(message)
        self.suggestion = suggestion


@dataclass(frozen=True, slots=True)
class _Within:
    """Where in packs we stand: which filters led here, in which pack, and with which versions pinned."""

    path: tuple[str, ...] = ()
    pack: Pack | None = None
    pinned: Mapping[str, int] | None = None


_TOP = _Within()


class Resolver:
    """Puts in what packs stand for; the same filter is worked out once."""

    def __init__(self, shelf: Shelf):
        self.shelf = shelf
        self.known: dict[tuple[object, ...], Node] = {}
        self.met: dict[
            str, int
        ] = {}  #: the packs that were used without a version, and the one they have now

    def meaning(self, use: Use) -> Node:
        """Return what a `use:` stands for."""
        return self.filter_in(use, _TOP)

    def put_in(self, node: Node, within: _Within) -> Node:
        """Return a tree with what its packs stand for."""
        if isinstance(node, Use):
            return self.filter_in(node, within)
        if isinstance(node, Not):
            return tree.negation(self.put_in(node.child, within))
        if isinstance(node, And | Or):
            join = tree.conjunction if isinstance(node, And) else tree.disjunction
            return join([self.put_in(child, within) for child in node.children])
        return node

    def filter_in(self, use: Use, within: _Within) -> Node:
        """Return the filter of a pack, resolved; all of them in an OR where none is named."""
        pack = self.pack_of(use, within)
        if use.version is None and within.pinned is None:
            self.met[pack.name] = pack.version
        if not use.name:
            return self.fitting(pack.name, [self.one(pack, name, use, within) for name in pack.filters])
        if use.name not in pack.filters:
            close = get_close_matches(use.name, pack.filters, n=1, cutoff=0.5)
            raise _Unresolved(
                f"The pack {pack.name} has no filter {use.name}; it has {', '.join(list(pack.filters)[:8])}",
                clauses.used(pack.name, close[0], use.version).canonical if close else None,
            )
        return self.one(pack, use.name, use, within)

    def one(self, pack: Pack, name: str, use: Use, within: _Within) -> Node:
        """Return one filter of a pack, resolved."""
        path = (*within.path, f"{pack.name}/{name}")
        if path[-1] in within.path:
            raise _Unresolved(f"This would go round in a circle: {' uses '.join(path)}")
        if len(path) > MOST_NESTED:
            raise _Unresolved(f"Packs may use packs {MOST_NESTED} deep: {' uses '.join(path)}")
        pinned = self.pinned_in(pack, use, within)
        key = (path[-1], pack.version, None if pinned is None else tuple(sorted(pinned.items())))
        if key not in self.known:
            node = self.put_in(parse(pack.filters[name]).tree, _Within(path, pack, pinned))
            self.known[key] = self.fitting(path[-1], [node])
        return self.known[key]

    def fitting(self, name: str, nodes: list[Node]) -> Node:
        """Return any of `nodes`, as one filter that is within the limits."""
        node = tree.disjunction(nodes)
        if wrong := _too_much(node):
            raise _Unresolved(f"Written out, {name} has {wrong}")
        return node

    def pinned_in(self, pack: Pack, use: Use, within: _Within) -> Mapping[str, int] | None:
        """Return the versions that hold inside a pack: those of a pinned one are the ones it stood on."""
        if pack is within.pack:
            return within.pinned
        return pack.stood_on if use.version is not None else within.pinned

    def pack_of(self, use: Use, within: _Within) -> Pack:
        """Return the pack, in the version meant: its own, the one named, the one pinned, or the newest."""
        own = within.pack
        if own is not None and use.pack == own.name and use.version in {None, own.version}:
            return own
        versions = self.shelf.get(use.pack)
        if not versions:
            raise _Unresolved(f"There is no pack {use.pack}", self.close_to(use))
        version = use.version or (within.pinned or {}).get(use.pack) or max(versions)
        if version not in versions:
            newest = max(versions)
            raise _Unresolved(
                f"The pack {use.pack} has no version {version}; its newest is {newest}",
                clauses.used(use.pack, use.name, newest).canonical,
            )
        return versions[version]

    def close_to(self, use: Use) -> str | None:
        """Return a pack, or a filter of one, that was probably meant."""
        close = get_close_matches(use.pack, self.shelf, n=1, cutoff=0.5)
        if close:
            return clauses.used(close[0], use.name, use.version).canonical
        for name, versions in self.shelf.items():
            if use.pack in versions[max(versions)].filters:
                return clauses.used(name, use.pack, use.version).canonical
        return None


def _too_much(node: Node) -> str | None:
    """Return which limit a filter is beyond once it is written out."""
    if (clauses_in := sum(1 for _ in tree.leaves(node))) > MOST_CLAUSES:
        return f"{clauses_in} clauses; a filter has at most {MOST_CLAUSES}"
    if (levels := tree.depth_of(node)) > MOST_LEVELS:
        return f"{levels} levels; a filter has at most {MOST_LEVELS}"
    if (length := len(node.canonical)) > MOST_CHARACTERS:
        return f"{length:,} characters; a filter has at most {MOST_CHARACTERS:,}"
    return None
