"""The steps of a plan as a directed acyclic graph: order, dependants, paths, levels and cycles.

The standard library's ``graphlib`` proves that a plan has no cycle and puts it in order. networkx is imported only if
there is a cycle to find and print: its import takes 0.4 s, more than everything else at the start.
"""

from __future__ import annotations

import graphlib
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress

from msgspec import Struct

from planner.plan.diagnostics import GraphError
from planner.plan.model import Child, Step

_SHOWN_IN_CYCLE = 12
"""The most steps of a cycle that a message names."""


class Dag(Struct, frozen=True, kw_only=True):
    """The graph of one plan; every mapping has every step id as a key. Building it takes O(steps + edges).

    ``order`` is topological. ``remaining`` counts the steps on the longest path from a step to a sink, including the
    step; ``depth`` counts those on the longest path from a source to the step, without it. Of the steps for a list's
    items, ``remaining`` counts as many as must run one after another.
    """

    order: tuple[str, ...]
    dependencies: Mapping[str, tuple[str, ...]]
    dependants: Mapping[str, tuple[str, ...]]
    remaining: Mapping[str, int]
    depth: Mapping[str, int]

    @classmethod
    def build(cls, steps: Sequence[Step]) -> Dag:
        """Return the graph of these steps.

        Raises:
            GraphError: two steps share an id, a dependency is unknown, or there is a cycle.
        """
        dependencies = {step.id: tuple(dict.fromkeys(d.step for d in step.dependencies)) for step in steps}
        if len(dependencies) != len(steps):
            raise GraphError("two steps have the same id: give each step a unique id")
        children = [step for step in steps if isinstance(step, Child)]
        lengths = {child.pattern: 0 for child in children} | {child.id: child.waves for child in children}
        return cls.of(dependencies, lengths)

    @classmethod
    def of(cls, dependencies: Mapping[str, tuple[str, ...]], lengths: Mapping[str, int] | None = None) -> Dag:
        """Return the graph of steps, given what each depends on; ``lengths`` are those that are not 1 in ``remaining``.

        Raises:
            GraphError: a dependency is unknown, or there is a cycle.
        """
        dependants: dict[str, list[str]] = {step_id: [] for step_id in dependencies}
        for step_id, needed in dependencies.items():
            for dependency in needed:
                if dependency not in dependants:
                    raise GraphError(f"step {step_id!r} depends on {dependency!r}, which is not a step of the plan")
                dependants[dependency].append(step_id)
        order = topological_order(dependencies)
        depth: dict[str, int] = {}
        for step_id in order:
            depth[step_id] = max((depth[d] + 1 for d in dependencies[step_id]), default=0)
        remaining: dict[str, int] = {}
        for step_id in reversed(order):
            own = lengths.get(step_id, 1) if lengths else 1
            remaining[step_id] = max((remaining[d] for d in dependants[step_id]), default=0) + own
        return cls(
            order=order,
            dependencies=dependencies,
            dependants={step_id: tuple(ids) for step_id, ids in dependants.items()},
            remaining=remaining,
            depth=depth,
        )

    def critical_path(self) -> tuple[str, ...]:
        """Return a longest chain of steps, source to sink; in a tie the plan's earlier step wins."""
        path: list[str] = []
        choice: Iterable[str] = self.dependencies
        while step_id := max(choice, key=self.remaining.__getitem__, default=None):
            path.append(step_id)
            choice = self.dependants[step_id]
        return tuple(path)

    def levels(self) -> tuple[tuple[str, ...], ...]:
        """Return the steps by depth, each level in the plan's order."""
        levels: list[list[str]] = [[] for _ in range(max(self.depth.values(), default=-1) + 1)]
        for step_id in self.dependencies:
            levels[self.depth[step_id]].append(step_id)
        return tuple(tuple(level) for level in levels)


def topological_order(dependencies: Mapping[str, Sequence[str]]) -> tuple[str, ...]:
    """Return the steps in an order in which each comes after its dependencies; equal plans give equal orders.

    Raises:
        GraphError: there is a cycle.
    """
    try:
        return tuple(graphlib.TopologicalSorter(dependencies).static_order())
    except graphlib.CycleError:
        cycle = find_cycles(dependencies)[0]
        raise GraphError(f"the steps form a cycle: {shown_cycle(cycle)}") from None


def find_cycles(dependencies: Mapping[str, Sequence[str]]) -> list[tuple[str, ...]]:
    """Return one cycle for each group of steps that depend on one another; each step in it depends on the next.

    The list is empty without a cycle. A step that depends only on itself is not reported: that is a separate problem.
    """
    with suppress(graphlib.CycleError):
        graphlib.TopologicalSorter(dependencies).prepare()
        return []
    import networkx as nx

    graph: nx.DiGraph[str] = nx.DiGraph()
    graph.add_nodes_from(dependencies)
    graph.add_edges_from(
        (step_id, needed) for step_id, ids in dependencies.items() for needed in ids if needed != step_id
    )
    position = {step_id: number for number, step_id in enumerate(dependencies)}
    knots = [knot for knot in nx.strongly_connected_components(graph) if len(knot) > 1]
    first_of = [(min(knot, key=position.__getitem__), knot) for knot in knots]
    first_of.sort(key=lambda found: position[found[0]])
    cycles: list[tuple[str, ...]] = []
    for first, knot in first_of:
        inside = graph.subgraph(knot)
        following = min(inside.successors(first), key=position.__getitem__)
        way_back = nx.bidirectional_shortest_path(inside, following, first)
        cycles.append((first, *way_back[:-1]))
    return cycles


def shown_cycle(cycle: Sequence[str]) -> str:
    """Return a cycle as ``a -> b -> c -> a``, without the middle if it is long."""
    if len(cycle) > _SHOWN_IN_CYCLE:
        half = _SHOWN_IN_CYCLE // 2
        cycle = [*cycle[:half], f"... {len(cycle) - _SHOWN_IN_CYCLE} more ...", *cycle[-half:]]
    return " -> ".join([*cycle, cycle[0]])


def mean(numbers: Sequence[float], default: float) -> float:
    """Return the mean of numbers, or ``default`` if there are none."""
    return sum(numbers) / len(numbers) if numbers else default


def rising(wanted: Sequence[float]) -> list[float]:
    """Return the non-decreasing numbers closest to those wanted, by least squares; drawings use it to place things."""
    blocks: list[tuple[float, int]] = []  # per block: the sum of its members, and their count
    for number in wanted:
        total, count = number, 1
        while blocks and blocks[-1][0] / blocks[-1][1] >= total / count:
            before, so_many = blocks.pop()
            total, count = total + before, count + so_many
        blocks.append((total, count))
    return [total / count for total, count in blocks for _ in range(count)]
