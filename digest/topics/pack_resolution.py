"""Resolve packs in filters by replacing `use:lab/nlp` with the filter to which it refers.

The parser treats `use:` like any other clause, so filters are stored with their references. This module
replaces the references with the filters of the given packs. Papers are matched only against resolved filters.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches

from digest.errors import BadFilter
from digest.topics import filter_tree
from digest.topics.clauses import labels
from digest.topics.clauses.text_words import MAX_CHARACTERS
from digest.topics.filter_parser import MAX_CLAUSES, MAX_LEVELS, Filter, on_one_line, parse
from digest.topics.filter_tree import And, Node, Not, Or, PackClause
from digest.topics.pack_files import Pack

PackVersions = Mapping[str, Mapping[int, Pack]]  #: the published packs, keyed by name and version

MAX_NESTED = 8  #: maximum number of nested references from pack to pack


def resolve_filter(filter_: Filter, packs: PackVersions) -> Filter:
    """Return the filter with its packs resolved.

    Raises BadFilter, with the position of a `use:`, if a pack cannot be resolved or the resolved filter exceeds a
    limit.
    """
    if not filter_.uses:
        return filter_
    resolver = PackResolver(packs)
    for used in filter_.uses:
        try:
            resolver.filter_in(used.leaf)
        except _ResolutionFailed as mistake:
            raise resolution_error(
                filter_, used.start, used.end, str(mistake), mistake.suggestion
            ) from mistake
    node = resolver.resolve_node(filter_.tree)
    if wrong := _exceeded_limit(node):
        last = filter_.uses[-1]
        raise resolution_error(filter_, last.start, last.end, f"Written out, this has {wrong}")
    return Filter(node, node.canonical, filter_.text, filter_.warnings)


def parse_resolved(canonical: str) -> Filter:
    """Parse a stored filter that is already resolved; raise BadFilter if it is invalid or uses a pack."""
    return resolve_filter(parse(canonical), {})


def resolution_error(
    filter_: Filter, start: int, end: int, message: str, suggestion: str | None = None
) -> BadFilter:
    """Return a BadFilter error with the position of the failed reference in the filter."""
    return BadFilter(
        f"{message}.",
        text=on_one_line(filter_.text),
        column=start + 1,
        length=max(1, end - start),
        suggestion=suggestion,
    )


def resolved_uses(filter_: Filter, packs: PackVersions) -> dict[str, str]:
    """Return {pack reference with version: resolved filter} for each `use:` in a resolvable filter."""
    resolver = PackResolver(packs)
    found = {}
    for used in filter_.uses:
        pack = resolver.pack_of(used.leaf)
        spelled = labels.make_use(used.leaf.pack, used.leaf.name, pack.version).canonical
        found[spelled] = resolver.filter_in(used.leaf).canonical
    return found


def pack_dependencies(pack: Pack, packs: PackVersions) -> dict[str, int]:
    """Return the versions of all packs that a new pack uses, directly or indirectly.

    Raises BadFilter if a reference cannot be resolved.
    """
    resolver = PackResolver({**packs, pack.name: {**packs.get(pack.name, {}), pack.version: pack}})
    for name, canonical in pack.filters.items():
        try:
            resolver.filter_in(labels.make_use(pack.name, name, None))
        except _ResolutionFailed as mistake:
            filter_ = parse(canonical)
            message = f"{pack.name}/{name}: {mistake}"
            raise resolution_error(filter_, 0, len(filter_.text), message, mistake.suggestion) from mistake
    return {name: version for name, version in resolver.versions_used.items() if name != pack.name}


class _ResolutionFailed(Exception):
    """A `use:` clause cannot be resolved."""

    def __init__(self, message: str, suggestion: str | None = None):
        super().__init__(message)
        self.suggestion = suggestion


@dataclass(frozen=True, slots=True)
class _ResolutionPath:
    """A position in nested packs: the references leading to it, the current pack and the pinned versions."""

    path: tuple[str, ...] = ()
    pack: Pack | None = None
    pinned: Mapping[str, int] | None = None


_TOP = _ResolutionPath()


class PackResolver:
    """Resolves references to packs; each filter is resolved only once."""

    def __init__(self, shelf: PackVersions):
        self.shelf = shelf
        self.resolved_filters: dict[tuple[object, ...], Node] = {}
        self.versions_used: dict[str, int] = {}  #: {pack referenced without a version: its newest version}

    def resolve_node(self, node: Node, within: _ResolutionPath = _TOP) -> Node:
        """Return a tree with its packs resolved."""
        if isinstance(node, PackClause):
            return self.filter_in(node, within)
        if isinstance(node, Not):
            return filter_tree.negation(self.resolve_node(node.child, within))
        if isinstance(node, And | Or):
            join = filter_tree.conjunction if isinstance(node, And) else filter_tree.disjunction
            return join([self.resolve_node(child, within) for child in node.children])
        return node

    def filter_in(self, use: PackClause, within: _ResolutionPath = _TOP) -> Node:
        """Return the resolved filter that a `use:` clause names, or all filters of its pack joined by OR."""
        pack = self.pack_of(use, within)
        if use.version is None and within.pinned is None:
            self.versions_used[pack.name] = pack.version
        if not use.name:
            return self.any_within_limits(
                pack.name, [self.resolve_one(pack, name, use, within) for name in pack.filters]
            )
        if use.name not in pack.filters:
            close = get_close_matches(use.name, pack.filters, n=1, cutoff=0.5)
            raise _ResolutionFailed(
                f"The pack {pack.name} has no filter {use.name}; it has {', '.join(list(pack.filters)[:8])}",
                labels.make_use(pack.name, close[0], use.version).canonical if close else None,
            )
        return self.resolve_one(pack, use.name, use, within)

    def resolve_one(self, pack: Pack, name: str, use: PackClause, within: _ResolutionPath) -> Node:
        """Return the filter `name` of a pack, with its own references resolved."""
        path = (*within.path, f"{pack.name}/{name}")
        if path[-1] in within.path:
            raise _ResolutionFailed(f"This is a circular reference: {' uses '.join(path)}")
        if len(path) > MAX_NESTED:
            raise _ResolutionFailed(f"Packs may be nested at most {MAX_NESTED} deep: {' uses '.join(path)}")
        pinned = self.pinned_in(pack, use, within)
        key = (path[-1], pack.version, None if pinned is None else tuple(sorted(pinned.items())))
        if key not in self.resolved_filters:
            node = self.resolve_node(parse(pack.filters[name]).tree, _ResolutionPath(path, pack, pinned))
            self.resolved_filters[key] = self.any_within_limits(path[-1], [node])
        return self.resolved_filters[key]

    def any_within_limits(self, name: str, nodes: list[Node]) -> Node:
        """Return the disjunction of `nodes`; raise _ResolutionFailed if the result exceeds a filter limit."""
        node = filter_tree.disjunction(nodes)
        if wrong := _exceeded_limit(node):
            raise _ResolutionFailed(f"Written out, {name} has {wrong}")
        return node

    def pinned_in(self, pack: Pack, use: PackClause, within: _ResolutionPath) -> Mapping[str, int] | None:
        """Return {pack: version} for the references inside a pack, or None if they use the newest versions.

        A reference with a version pins the versions that the pack used when it was published.
        """
        if pack is within.pack:
            return within.pinned
        return pack.dependency_versions if use.version is not None else within.pinned

    def pack_of(self, use: PackClause, within: _ResolutionPath = _TOP) -> Pack:
        """Return the pack that a `use:` clause names, in the named, pinned or newest version.

        A pack that refers to itself gets its own version. Raises _ResolutionFailed if there is no such pack.
        """
        own = within.pack
        if own is not None and use.pack == own.name and use.version in {None, own.version}:
            return own
        versions = self.shelf.get(use.pack)
        if not versions:
            raise _ResolutionFailed(f"There is no pack {use.pack}", self.close_to(use))
        version = use.version or (within.pinned or {}).get(use.pack) or max(versions)
        if version not in versions:
            newest = max(versions)
            raise _ResolutionFailed(
                f"The pack {use.pack} has no version {version}; its newest is {newest}",
                labels.make_use(use.pack, use.name, newest).canonical,
            )
        return versions[version]

    def close_to(self, use: PackClause) -> str | None:
        """Return a `use:` clause with the most similar pack name, or with a filter of that name, or None."""
        close = get_close_matches(use.pack, self.shelf, n=1, cutoff=0.5)
        if close:
            return labels.make_use(close[0], use.name, use.version).canonical
        for name, versions in self.shelf.items():
            if use.pack in versions[max(versions)].filters:
                return labels.make_use(name, use.pack, use.version).canonical
        return None


def _exceeded_limit(node: Node) -> str | None:
    """Return a phrase that states which limit a resolved filter exceeds, or None if it exceeds none."""
    if (clauses_in := sum(1 for _ in filter_tree.leaves(node))) > MAX_CLAUSES:
        return f"{clauses_in} clauses; a filter has at most {MAX_CLAUSES}"
    if (levels := filter_tree.depth_of(node)) > MAX_LEVELS:
        return f"{levels} levels; a filter has at most {MAX_LEVELS}"
    if (length := len(node.canonical)) > MAX_CHARACTERS:
        return f"{length:,} characters; a filter has at most {MAX_CHARACTERS:,}"
    return None
