"""Lays out the page's drawing of a plan. If there are many steps, similar ones share a box."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from planner.plan.dag import Dag
from planner.plan.diagnostics import GraphError
from planner.report.graph_svg import GraphLayout, lay_out, route
from vibe.system.grouping import by_key
from vibe.view.plan_view import depths

BOX_WIDTH, BOX_HEIGHT, GAP_X, GAP_Y, MARGIN = 196, 62, 26, 44, 10
"""Sizes of boxes, the gaps between them, and the margin of the drawing, in pixels."""
MOST_BOXES = 80
"""Number of steps beyond which several share a box."""
CELL, CELL_TOP, CELL_SIDE = 9, 40, 12
"""In a box for several steps: the size of each step's cell, and the room above and beside the cells, in pixels."""
BAND_WIDTH, BAND_FROM, MOST_BANDS = 760, 60, 40
"""Width in pixels of the boxes in a drawing that has a box of more than ``BAND_FROM`` steps and at most ``MOST_BANDS``
boxes.
"""
Parents: TypeAlias = Mapping[str, Sequence[str]]


def layout_row(parents: Parents) -> dict[str, Any]:
    """Return the row ``layout`` for steps, given the steps that each depends on.

    ``boxes`` holds the place of each box by its first step, and its steps if there are several. ``edges`` holds the
    lines between boxes. A graph with a cycle, which no plan of ours has, gets an empty layout.
    """
    known = {step_id: tuple(parent for parent in above if parent in parents) for step_id, above in parents.items()}
    try:
        groups = boxes_of(known)
        dag = Dag.of(_box_dependencies(groups, known))
    except GraphError:
        return {"width": 0, "height": 0, "boxes": {}, "edges": []}
    return _Places(groups, dag).row()


def boxes_of(parents: Parents) -> dict[str, list[str]]:
    """Return the steps of each box, by its first step.

    Steps with the same predecessors and successors share a box. If that still makes too many boxes, whole layers do.
    """
    if len(parents) <= MOST_BOXES:
        return {step_id: [step_id] for step_id in parents}
    after = by_key((parent, step_id) for step_id, above in parents.items() for parent in above)
    alike = by_key(
        ((frozenset(above), frozenset(after.get(step_id, ()))), step_id) for step_id, above in parents.items()
    )
    if len(alike) > MOST_BOXES:
        return _layers(parents)
    return {members[0]: members for members in alike.values()}


def _layers(parents: Parents) -> dict[str, list[str]]:
    depth = depths(parents)
    depth_per_box = -(-(max(depth.values()) + 1) // MOST_BOXES)
    layers = by_key((depth[step_id] // depth_per_box, step_id) for step_id in parents)
    return {layers[number][0]: layers[number] for number in sorted(layers)}


def _box_dependencies(groups: Mapping[str, list[str]], parents: Parents) -> dict[str, tuple[str, ...]]:
    """Return the boxes that each box depends on."""
    box_of = {step_id: box for box, members in groups.items() for step_id in members}
    return {
        box: tuple(dict.fromkeys(box_of[one] for step_id in members for one in parents[step_id] if box_of[one] != box))
        for box, members in groups.items()
    }


class _Places:
    def __init__(self, groups: Mapping[str, list[str]], dag: Dag) -> None:
        largest = max(map(len, groups.values()), default=0)
        is_banded = largest > BAND_FROM and len(groups) <= MOST_BANDS
        self._groups = groups
        self._dag = dag
        self._layout: GraphLayout = lay_out(dag)
        self._width = BAND_WIDTH if is_banded else BOX_WIDTH
        self._tops = self._rows()

    def row(self) -> dict[str, Any]:
        boxes = {box: self._box(box) for box in self._groups}
        edges = [[above, box, self._edge(above, box)] for box in self._groups for above in self._dag.dependencies[box]]
        width = round(self._layout.width * (self._width + GAP_X) - GAP_X + 2 * MARGIN)
        height = max((box[1] + box[3] for box in boxes.values()), default=0) + MARGIN
        return {"width": max(width, 0), "height": height, "boxes": boxes, "edges": edges}

    def _height(self, box: str) -> int:
        count = len(self._groups[box])
        if count == 1:
            return BOX_HEIGHT
        columns = (self._width - 2 * CELL_SIDE) // CELL
        return CELL_TOP + -(-count // columns) * CELL

    def _rows(self) -> list[int]:
        """Return the upper edge of each row. A row is as high as its highest box."""
        heights = [BOX_HEIGHT] * self._layout.rows
        centres = self._layout.centres
        for box, (_, row) in centres.items():
            heights[row] = max(heights[row], self._height(box))
        tops = [MARGIN]
        for height in heights:
            tops.append(tops[-1] + height + GAP_Y)
        return tops

    def _x(self, middle: float) -> float:
        return round(middle * (self._width + GAP_X) - GAP_X / 2 + MARGIN, 1)

    def _box(self, box: str) -> list[Any]:
        middle, row = self._layout.centres[box]
        members = self._groups[box]
        place = [round(self._x(middle) - self._width / 2, 1), self._tops[row], self._width, self._height(box)]
        return [*place, members] if len(members) > 1 else place

    def _edge(self, above: str, box: str) -> str:
        middle, row = self._layout.centres[above]
        tops, (end, end_row) = self._tops, self._layout.centres[box]
        bends = ((self._x(at), tops[row], tops[row + 1] - GAP_Y) for at, row in self._layout.routes[above, box])
        return route(self._x(middle), tops[row] + self._height(above), bends, (self._x(end), tops[end_row] - 1))
