"""Lays out a plan's graph and draws it as SVG: one file, without scripts or anything loaded from elsewhere."""

from __future__ import annotations

import math
from bisect import bisect_right, insort
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from importlib import resources
from itertools import accumulate, pairwise
from operator import add
from typing import TypeAlias

from msgspec import Struct

from planner.plan.dag import Dag, mean, rising
from planner.plan.diagnostics import TooLargeToDrawError
from planner.plan.model import Dependency, Plan, Step, StepStatus
from planner.plan.status import MARKS, REUSED_MARK, readable_title
from planner.report.formatting import escaped_line
from vibe.core.modes import MODE_CATALOG

SWEEPS = 8
"""The number of passes over the rows that untangle edges, and again that place steps."""
SHORTEST_ROW = 6
"""The number of steps that any row may hold; in large plans rows grow with the square root of the number of steps."""
MOST_BENDS = 20_000
"""The most bends in a drawing. Beyond it edges are straight, as nobody could follow them between the boxes anyway."""

STEP_WIDTH = 1.0
BEND_WIDTH = 0.09

Node: TypeAlias = str | tuple[str, str, int]
"""A step's id, or a bend: the two steps of its edge, and its row."""


class GraphLayout(Struct, frozen=True, kw_only=True):
    """The places of all steps and bends. Distances are in widths of a step.

    ``centres`` holds the middle and the row of each step, ``routes`` those of the bends of each edge. ``rows`` is the
    number of rows.
    """

    centres: Mapping[str, tuple[float, int]]
    routes: Mapping[tuple[str, str], tuple[tuple[float, int], ...]]
    width: float
    rows: int


def lay_out(dag: Dag) -> GraphLayout:
    """Find a place for every step and every edge; equal graphs get equal layouts."""
    row_of = _rows(dag)
    graph = _linked(dag, row_of)
    rows = _ordered(graph)
    middles = _middles(graph, rows)
    left = min((middle - _width(node) / 2 for node, middle in middles.items()), default=0.0)
    right = max((middle + _width(node) / 2 for node, middle in middles.items()), default=0.0)
    return GraphLayout(
        centres={step_id: (middles[step_id] - left, row_of[step_id]) for step_id in dag.dependencies},
        routes={
            edge: tuple((middles[bend] - left, row) for bend, row in bends.items())
            for edge, bends in graph.bends.items()
        },
        width=right - left,
        rows=len(rows),
    )


def _rows(dag: Dag) -> dict[str, int]:
    """Put each step into the first row with room below its dependencies; those with the most behind them come first."""
    room = max(SHORTEST_ROW, math.ceil(1.3 * math.sqrt(len(dag.order))))
    count: list[int] = []
    skip: list[int] = []  # from a full row to the next that may have room
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


class _Graph(Struct, frozen=True, kw_only=True):
    """Steps and bends in ``rows``; every link in ``above`` and ``below`` leads to the adjacent row.

    ``bends`` holds the bends of each edge with their rows.
    """

    rows: list[list[Node]]
    above: Mapping[Node, list[Node]]
    below: Mapping[Node, list[Node]]
    bends: Mapping[tuple[str, str], Mapping[Node, int]]


def _linked(dag: Dag, row_of: Mapping[str, int]) -> _Graph:
    """Split edges that cross several rows into links between adjacent rows."""
    edges = [(above, step_id) for step_id, needed in dag.dependencies.items() for above in needed]
    is_bent = sum(row_of[low] - row_of[high] - 1 for high, low in edges) <= MOST_BENDS
    rows: list[list[Node]] = [[] for _ in range(max(row_of.values(), default=-1) + 1)]
    for step_id in dag.dependencies:
        rows[row_of[step_id]].append(step_id)
    above, below = defaultdict[Node, list[Node]](list), defaultdict[Node, list[Node]](list)
    bends: dict[tuple[str, str], dict[Node, int]] = {}
    for high, low in edges:
        passed = range(row_of[high] + 1, row_of[low])
        bends[high, low] = {(high, low, row): row for row in passed} if is_bent else {}
        for bend, row in bends[high, low].items():
            rows[row].append(bend)
        for one, other in pairwise((high, *bends[high, low], low)) if is_bent or not passed else ():
            below[one].append(other)
            above[other].append(one)
    return _Graph(rows=rows, above=above, below=below, bends=bends)


def _width(node: Node) -> float:
    return STEP_WIDTH if isinstance(node, str) else BEND_WIDTH


def _ordered(graph: _Graph) -> list[list[Node]]:
    """Return the rows, ordered so that few edges cross: the best of SWEEPS passes."""
    rows = graph.rows
    place: dict[Node, int] = {}
    for row in rows:
        _number(row, place)
    best, fewest = [list(row) for row in rows], _crossings(graph, rows, place)
    for sweep in range(SWEEPS):
        if fewest == 0:
            break
        down = sweep % 2 == 0
        neighbours = graph.above if down else graph.below
        for row in rows if down else reversed(rows):
            row.sort(key=lambda node: mean([place[each] for each in neighbours[node]], place[node]))
            _number(row, place)
        crossings = _crossings(graph, rows, place)
        if crossings < fewest:
            best, fewest = [list(row) for row in rows], crossings
    return best


def _number(row: Sequence[Node], place: dict[Node, int]) -> None:
    place.update((node, position) for position, node in enumerate(row))


def _crossings(graph: _Graph, rows: Sequence[Sequence[Node]], place: Mapping[Node, int]) -> int:
    crossings = 0
    for row in rows:
        seen: list[int] = []
        for node in row:
            ends = sorted(place[low] for low in graph.below[node])
            crossings += sum(len(seen) - bisect_right(seen, end) for end in ends)
            for end in ends:
                insort(seen, end)
    return crossings


def _middles(graph: _Graph, rows: Sequence[Sequence[Node]]) -> dict[Node, float]:
    """Return the horizontal position of the middle of each node."""
    middles = {node: 0.0 for row in rows for node in row}
    linked = {node: [*graph.above[node], *graph.below[node]] for node in middles}
    for row in rows:
        _settle(row, [0.0] * len(row), middles)
    for sweep in range(SWEEPS):
        for row in rows if sweep % 2 == 0 else reversed(rows):
            _settle(row, [mean([middles[each] for each in linked[node]], middles[node]) for node in row], middles)
    return middles


def _settle(row: Sequence[Node], wanted: Sequence[float], middles: dict[Node, float]) -> None:
    """Place a row's nodes as close to the wanted positions as their order and widths allow."""
    starts = accumulate(map(_width, row), initial=0.0)
    offsets = [start + _width(node) / 2 for start, node in zip(starts, row, strict=False)]
    spaced = rising([want - offset for want, offset in zip(wanted, offsets, strict=True)])
    middles.update(zip(row, map(add, spaced, offsets), strict=True))


MAX_DRAWN = 2_000
"""The most steps in a drawing. A larger one is metres wide: unreadable, and few programs open it."""

BOX_WIDTH, BOX_HEIGHT = 188, 46
PITCH = BOX_WIDTH + 26
"""Pixels from the middle of a step to that of its neighbour; the unit of the layout's widths."""
ROW_HEIGHT = BOX_HEIGHT + 46
MARGIN = 18
LINE = 22
ID_CELLS, TITLE_CELLS = 19, 25
"""The most characters of an id and of a title in a box."""
CELL = 8.3
"""The approximate width of a character in the headline, in pixels."""


class Shown(Struct, frozen=True, kw_only=True):
    """The statuses of steps (pending if missing), and the ids of those reused from another plan."""

    statuses: Mapping[str, StepStatus]
    reused: Collection[str] = frozenset()


def style_sheet(name: str) -> str:
    """Return a style sheet for reports; reads a file of the program."""
    return resources.files("planner.report").joinpath(f"{name}.css").read_text(encoding="utf-8").strip()


def svg(plan: Plan, dag: Dag, shown: Shown | None = None) -> str:
    """Return an SVG document with the goal, the graph and, for a plan that ran, a legend.

    Raises:
        TooLargeToDrawError: the plan has more than ``MAX_DRAWN`` steps.
    """
    drawing = _Drawing(plan, dag, shown)
    top = MARGIN + LINE
    width = max(drawing.width, 480)
    legend = drawing.legend()
    height = top + drawing.height + (LINE if legend else 0)
    goal = escaped_line(plan.goal, int((width - 2 * MARGIN) / CELL))
    parts = [
        '<?xml version="1.0" encoding="UTF-8"?>',
        _opening(plan, width, height),
        f"<style>{style_sheet('graph')}</style>",
        f'<rect class="page" width="{width}" height="{height}"/>',
        f'<text class="goal" x="{MARGIN}" y="{MARGIN + 12}">{goal}</text>',
        f'<g transform="translate({(width - drawing.width) // 2},{top})">',
        *drawing.parts(),
        "</g>",
    ]
    if legend:
        parts.append(f'<text class="legend" x="{MARGIN}" y="{height - MARGIN}">{legend}</text>')
    return "\n".join([*parts, "</svg>"])


def inline_svg(plan: Plan, dag: Dag, shown: Shown | None = None) -> str:
    """Return only the graph, as an element for an HTML page that has the style sheet ``graph``.

    Raises:
        TooLargeToDrawError: the plan has more than ``MAX_DRAWN`` steps.
    """
    drawing = _Drawing(plan, dag, shown)
    return "\n".join([_opening(plan, drawing.width, drawing.height), *drawing.parts(), "</svg>"])


def _opening(plan: Plan, width: int, height: int) -> str:
    label = escaped_line(f"The plan's {len(plan.steps)} steps and what each comes after: {plan.goal}", 300)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="vibe-graph" role="img" aria-label="{label}" '
        f'width="{width}" height="{height}" viewBox="0 0 {width} {height}">'
    )


class _Drawing:
    """One drawing of a plan's graph: the layout scaled to pixels, and its SVG elements."""

    def __init__(self, plan: Plan, dag: Dag, shown: Shown | None) -> None:
        if len(plan.steps) > MAX_DRAWN:
            raise TooLargeToDrawError(len(plan.steps), MAX_DRAWN)
        self._plan = plan
        self._shown = shown
        self._layout: GraphLayout = lay_out(dag)
        self.width = round(self._layout.width * PITCH) - (PITCH - BOX_WIDTH) + 2 * MARGIN
        self.height = self._layout.rows * ROW_HEIGHT - (ROW_HEIGHT - BOX_HEIGHT) + 2 * MARGIN

    def parts(self) -> Iterator[str]:
        """Yield the arrowhead, the edges, and the boxes above them."""
        yield (
            '<defs><marker id="vibe-arrow" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" '
            'orient="auto"><path class="head" d="M0 0 8 4 0 8z"/></marker></defs>'
        )
        for step in self._plan.steps:
            for edge in step.dependencies:
                yield self._edge(step.id, edge)
        for step in self._plan.steps:
            yield self._box(step)

    def legend(self) -> str:
        """Return each status in the plan, with its mark and its number of steps."""
        if self._shown is None:
            return ""
        counts = Counter(self._status(step).value for step in self._plan.steps)
        entries = [
            f"{MARKS[status.value]} {counts[status.value]} {_words(status)}" for status in StepStatus if counts[status]
        ]
        reused = len(self._shown.reused)
        return "   ".join([*entries, *([f"{REUSED_MARK} {reused} of them reused"] if reused else [])])

    def _status(self, step: Step) -> StepStatus:
        return StepStatus.PENDING if self._shown is None else self._shown.statuses.get(step.id, StepStatus.PENDING)

    def _point(self, middle: float, row: int) -> tuple[float, int]:
        """Return, in pixels, the middle of the upper edge of the box or bend there."""
        return round(middle * PITCH - (PITCH - BOX_WIDTH) / 2 + MARGIN, 1), MARGIN + row * ROW_HEIGHT

    def _edge(self, step_id: str, edge: Dependency) -> str:
        x, y = self._point(*self._layout.centres[edge.step])
        points = (self._point(*bend) for bend in self._layout.routes[edge.step, step_id])
        to_x, to_y = self._point(*self._layout.centres[step_id])
        path = route(x, y + BOX_HEIGHT, ((x, top, top + BOX_HEIGHT) for x, top in points), (to_x, to_y - 1))
        return f'<path class="edge on-{edge.on}" marker-end="url(#vibe-arrow)" d="{path}"/>'

    def _box(self, step: Step) -> str:
        status = self._status(step)
        reused = self._shown is not None and step.id in self._shown.reused
        middle, top = self._point(*self._layout.centres[step.id])
        words = f"{step.id}: {readable_title(step.title)} [{step.mode.value}]"
        if self._shown is not None:
            words += f" {_words(status)}{', reused' if reused else ''}"
        mark = "" if self._shown is None else REUSED_MARK if reused else MARKS[status.value]
        return (
            f'<svg class="is-{status.value}{" is-reused" if reused else ""}" x="{middle - BOX_WIDTH / 2:g}" y="{top}" '
            f'width="{BOX_WIDTH}" height="{BOX_HEIGHT}"><title>{escaped_line(words, 400)}</title>'
            f'<rect class="box" x="1" y="1" width="{BOX_WIDTH - 2}" height="{BOX_HEIGHT - 2}" rx="7"/>'
            f'<text class="icon" x="10" y="19">{MODE_CATALOG[step.mode].icon}</text>'
            f'<text class="id" x="26" y="19">{escaped_line(step.id, ID_CELLS)}</text>'
            f'<text class="title" x="10" y="36">{escaped_line(readable_title(step.title), TITLE_CELLS)}</text>'
            f'<text class="mark" x="{BOX_WIDTH - 10}" y="19">{mark}</text></svg>'
        )


def route(x: float, y: float, bends: Iterable[tuple[float, int, int]], end: tuple[float, int]) -> str:
    """Return the path of an edge from a point to its ``end``. Each bend has a place, an upper and a lower end."""
    path = [f"M{x:g} {y:g}"]
    for to_x, top, bottom in bends:
        path.append(f"{_curve(x, y, to_x, top)}V{bottom}")
        x, y = to_x, bottom
    return "".join([*path, _curve(x, y, *end)])


def _curve(x: float, y: float, to_x: float, to_y: float) -> str:
    """Return the path of a curve that starts and ends vertically."""
    if x == to_x:
        return f"V{to_y:g}"
    half = (y + to_y) / 2
    return f"C{x:g} {half:g} {to_x:g} {half:g} {to_x:g} {to_y:g}"


def _words(status: StepStatus) -> str:
    return status.value.replace("_", " ")
