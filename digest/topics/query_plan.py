"""Compile filters into a plan with one step for each distinct clause or combination of clauses."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from digest.topics.filter_parser import Filter
from digest.topics.filter_tree import And, Leaf, Node, Not, Or


class QueryPlan:
    """A list of steps, each of which computes a set of papers from a clause or from earlier sets.

    A plan is independent of batches: compile it when topics change, and run it on every batch. Steps are
    only appended, so a batch that has run some of the steps can run new steps later.
    """

    def __init__(self, filters: Mapping[int, Filter] | None = None):
        #: {id of an initial filter: number of the step that computes its matches}
        self.slots: dict[int, int] = {}
        self._steps: list[tuple[int, int, int]] = []
        self._leaves: list[Leaf] = []
        self._known: dict[object, int] = {}
        if filters:
            self._add_clauses(filters.values())
            self.slots = {key: self.add(filter_.tree) for key, filter_ in filters.items()}

    def _add_clauses(self, filters: Iterable[Filter]) -> None:
        """Add the clauses of filters; those with the same words are adjacent, so that they share a result."""
        found: dict[str, Leaf] = {}
        nodes = [filter_.tree for filter_ in filters]
        for node in nodes:  # the loop appends to `nodes`
            if isinstance(node, And | Or):
                nodes += node.children
            elif isinstance(node, Not):
                nodes.append(node.child)
            else:
                found[node.canonical] = node
        for canonical in sorted(found, key=lambda canonical: canonical.rpartition(":")[2]):
            self.add(found[canonical])

    def add(self, node: Node) -> int:
        """Return the number of the step that computes `node`; add the step if it is missing."""
        slot = self._known.get(node.canonical)
        if slot is None:
            slot = self._known[node.canonical] = self._new(node)
        return slot

    def _new(self, node: Node) -> int:
        if isinstance(node, Not):
            return self._step((_NOT, self.add(node.child), 0))
        if isinstance(node, Or):
            return self._chain(_OR, sorted({self.add(child) for child in node.children}))
        if isinstance(node, And):
            required = sorted({self.add(child) for child in node.children if not isinstance(child, Not)})
            excluded = sorted({self.add(child.child) for child in node.children if isinstance(child, Not)})
            if not required:
                return self._step((_NOT, self._chain(_OR, excluded), 0))
            slot = self._chain(_AND, required)
            return self._step((_WITHOUT, slot, self._chain(_OR, excluded))) if excluded else slot
        self._leaves.append(node)
        self._steps.append((_LEAF, len(self._leaves) - 1, 0))
        return len(self._steps) - 1

    def _chain(self, operation: int, slots: list[int]) -> int:
        first, *others = slots
        for other in others:
            first = self._step((operation, first, other))
        return first

    def _step(self, step: tuple[int, int, int]) -> int:
        slot = self._known.get(step)
        if slot is None:
            self._steps.append(step)
            slot = self._known[step] = len(self._steps) - 1
        return slot

    def run(self, look_up: Callable[[Leaf], int], full: int, values: list[int]) -> list[int]:
        """Run the steps from number `len(values)` on, append their sets to `values`, and return `values`."""
        add, leaves = values.append, self._leaves
        for operation, left, right in self._steps[len(values) :]:
            if operation == _AND:
                add(values[left] & values[right])
            elif operation == _OR:
                add(values[left] | values[right])
            elif operation == _LEAF:
                add(look_up(leaves[left]))
            elif operation == _WITHOUT:
                add(values[left] & ~values[right])
            else:
                add(full & ~values[left])
        return values


_AND, _OR, _LEAF, _WITHOUT, _NOT = range(5)
