"""Layout of a plan's steps in a drawing: rows that go down with the dependencies, few crossings; pure.

After Sugiyama: rows by longest path, none much longer than the drawing is high; edges that span several rows get a bend
in each; bends and steps are ordered by the barycentre of their neighbours; then each comes to lie as near to its
neighbours' middle as the order allows.
"""

from __future__ import annotations

import math
from bisect import bisect_right, insort
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from planner.plan.dag import Dag

SWEEPS = 8
SHORTEST_ROW = 6
"""A row may always hold as many; beyond it grows with the root of the number of steps."""
MOST_BENDS = 20_000
"""With more, edges are drawn straight from step to step: the lines behind the boxes are no longer to be followed
anyway."""

STEP_WIDTH = 1.0
BEND_WIDTH = 0.09

Node: TypeAlias = int
"""A step (its place in the plan) or a bend (what comes after the last step)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphLayout:
    """``centres``: of each step, the middle (in widths of a step) and the row.

    ``routes``: the same for each bend of an edge. ``width`` is in widths of a step; ``rows`` counts them.
    """

    centres: Mapping[str, tuple[float, int]]
    routes: Mapping[tuple[str, str], tuple[tuple[float, int], ...]]
    width: float
    rows: int


def lay_out(dag: Dag) -> GraphLayout:
    """Find a place for every step and every edge; the same graph always looks the same."""
    ids = list(dag.dependencies)
    row_of = _rows(dag)
    number = {step_id: node for node, step_id in enumerate(ids)}
    graph = _Graph.of(dag, number, row_of)
    rows = _ordered(graph)
    middles = _middles(graph, rows)
    left = min((middles[node] - graph.widths[node] / 2 for row in rows for node in row), default=0.0)
    right = max((middles[node] + graph.widths[node] / 2 for row in rows for node in row), default=0.0)
    return GraphLayout(
        centres={step_id: (middles[node] - left, row_of[step_id]) for step_id, node in number.items()},
        routes={
            edge: tuple((middles[bend] - left, graph.rows[bend]) for bend in bends)
            for edge, bends in graph.bends.items()
        },
        width=right - left,
        rows=len(rows),
    )


def _rows(dag: Dag) -> dict[str, int]:
    """Each step below all it depends on, in the first row with room; those with most behind them come first."""
    room = max(SHORTEST_ROW, math.ceil(1.3 * math.sqrt(len(dag.order))))
    count: list[int] = []
    skip: list[int] = []  # from a full row to where room may be
    row_of: dict[str, int] = {}
    for step_id in sorted(dag.dependencies, key=lambda each: (dag.depth[each], -dag.remaining[each])):
        row = max((row_of[above] + 1 for above in dag.dependencies[step_id]), default=0)
        while row < len(skip) and skip[row] != row:
            skip[row] = skip[skip[row]] if skip[row] < len(skip) else skip[row]
            row = skip[row]
        if row == len(count):
            count.append(0)
            skip.append(row)
        count[row] += 1
        if count[row] == room:
            skip[row] = row + 1
        row_of[step_id] = row
    return row_of


@dataclass(frozen=True, slots=True, kw_only=True)
class _Graph:
    """Steps and bends; every edge of ``above`` and ``below`` leads to the next row."""

    rows: list[int]
    widths: list[float]
    above: list[list[Node]]
    below: list[list[Node]]
    bends: dict[tuple[str, str], tuple[Node, ...]]

    @classmethod
    def of(cls, dag: Dag, number: Mapping[str, Node], row_of: Mapping[str, int]) -> _Graph:
        edges = [(above, step_id) for step_id, needed in dag.dependencies.items() for above in needed]
        bent = sum(row_of[low] - row_of[high] - 1 for high, low in edges) <= MOST_BENDS
        graph = cls(
            rows=[row_of[step_id] for step_id in number],
            widths=[STEP_WIDTH] * len(number),
            above=[[] for _ in number],
            below=[[] for _ in number],
            bends={},
        )
        for high, low in edges:
            graph._connect(high, low, number, row_of, bent=bent)
        return graph

    def _connect(
        self, high: str, low: str, number: Mapping[str, Node], row_of: Mapping[str, int], *, bent: bool
    ) -> None:
        last, bends = number[high], list[Node]()
        span = range(row_of[high] + 1, row_of[low])
        if bent:
            for row in span:
                bend = len(self.rows)
                self.rows.append(row)
                self.widths.append(BEND_WIDTH)
                self.above.append([])
                self.below.append([])
                self._join(last, bend)
                bends.append(bend)
                last = bend
        if bent or not span:
            self._join(last, number[low])
        self.bends[high, low] = tuple(bends)

    def _join(self, high: Node, low: Node) -> None:
        self.below[high].append(low)
        self.above[low].append(high)


def _ordered(graph: _Graph) -> list[list[Node]]:
    """The rows, each in the order that made the fewest edges cross."""
    rows: list[list[Node]] = [[] for _ in range(max(graph.rows, default=-1) + 1)]
    for node, row in enumerate(graph.rows):
        rows[row].append(node)
    place = [0.0] * len(graph.rows)
    for row in rows:
        _number(row, place)
    best, fewest = [list(row) for row in rows], _crossings(graph, rows, place)
    for sweep in range(SWEEPS):
        if fewest == 0:
            break
        down = sweep % 2 == 0
        neighbours = graph.above if down else graph.below
        for row in rows if down else reversed(rows):
            row.sort(key=lambda node: _barycentre(node, neighbours[node], place))
            _number(row, place)
        crossings = _crossings(graph, rows, place)
        if crossings < fewest:
            best, fewest = [list(row) for row in rows], crossings
    return best


def _number(row: Sequence[Node], place: list[float]) -> None:
    for position, node in enumerate(row):
        place[node] = float(position)


def _barycentre(node: Node, neighbours: Sequence[Node], place: Sequence[float]) -> float:
    if not neighbours:
        return place[node]
    return sum(place[each] for each in neighbours) / len(neighbours)


def _crossings(graph: _Graph, rows: Sequence[Sequence[Node]], place: Sequence[float]) -> int:
    crossings = 0
    for row in rows:
        seen: list[float] = []
        for node in row:
            ends = sorted(place[low] for low in graph.below[node])
            crossings += sum(len(seen) - bisect_right(seen, end) for end in ends)
            for end in ends:
                insort(seen, end)
    return crossings


def _middles(graph: _Graph, rows: Sequence[Sequence[Node]]) -> list[float]:
    """Return how far to the right the middle of each node lies."""
    middles = [0.0] * len(graph.rows)
    for row in rows:
        _settle(row, [0.0] * len(row), graph, middles)
    for sweep in range(SWEEPS):
        for row in rows if sweep % 2 == 0 else reversed(rows):
            wanted = [_wanted(node, graph, middles) for node in row]
            _settle(row, wanted, graph, middles)
    return middles


def _wanted(node: Node, graph: _Graph, middles: Sequence[float]) -> float:
    around = [*graph.above[node], *graph.below[node]]
    return sum(middles[each] for each in around) / len(around) if around else middles[node]


def _settle(row: Sequence[Node], wanted: Sequence[float], graph: _Graph, middles: list[float]) -> None:
    """Put a row's nodes as near to where they want to be as their order and widths allow: least squares, in one pass.

    Nodes that would overlap form a block that goes where its members want to be on average.
    """
    offset, offsets = 0.0, list[float]()
    for node in row:
        offset += graph.widths[node] / 2
        offsets.append(offset)
        offset += graph.widths[node] / 2
    blocks: list[tuple[float, int]] = []  # the sum of what its members want, and their number
    for want, at in zip(wanted, offsets, strict=True):
        total, size = want - at, 1
        while blocks and blocks[-1][0] / blocks[-1][1] >= total / size:
            before, count = blocks.pop()
            total, size = total + before, size + count
        blocks.append((total, size))
    position = 0
    for total, size in blocks:
        for _ in range(size):
            middles[row[position]] = total / size + offsets[position]
            position += 1
