"""A plan's graph as an SVG drawing: one file, no script, nothing loaded from elsewhere."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from importlib import resources

from planner.plan.dag import Dag
from planner.plan.diagnostics import TooLargeToDrawError
from planner.plan.model import Dependency, Plan, Step, StepStatus
from planner.plan.status import MARKS, REUSED_MARK
from planner.report.formatting import escaped_line
from planner.report.graph_layout import GraphLayout, lay_out
from vibe.core.modes import MODE_CATALOG

MAX_DRAWN = 2_000
"""Steps. A larger drawing is metres wide: nobody could read it, and few programs open it."""

BOX_WIDTH, BOX_HEIGHT = 188, 46
PITCH = BOX_WIDTH + 26
"""From the middle of a step to that of its neighbour, in pixels; the unit of the layout's widths."""
ROW_HEIGHT = BOX_HEIGHT + 46
MARGIN = 18
LINE = 22
ID_CELLS, TITLE_CELLS = 19, 25
CELL = 8.3
"""Pixels of a character of the headline, about."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """Statuses of the steps (missing: pending), and which of them were reused from another plan."""

    statuses: Mapping[str, StepStatus]
    reused: Collection[str] = frozenset()


def style_sheet(name: str) -> str:
    """Return a style sheet of reports; reads a file of the program."""
    return resources.files("planner.report").joinpath(f"{name}.css").read_text(encoding="utf-8").strip()


def svg(plan: Plan, dag: Dag, shown: Shown | None = None) -> str:
    """A whole SVG document: the goal, the graph and, for a plan that ran, what the colours mean.

    Raises:
        TooLargeToDrawError: it has more than ``MAX_DRAWN`` steps.
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
    """The graph alone as an element for an HTML page that has the style sheet ``graph``.

    Raises:
        TooLargeToDrawError: it has more than ``MAX_DRAWN`` steps.
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
    def __init__(self, plan: Plan, dag: Dag, shown: Shown | None) -> None:
        if len(plan.steps) > MAX_DRAWN:
            raise TooLargeToDrawError(len(plan.steps), MAX_DRAWN)
        self._plan = plan
        self._shown = shown
        self._layout: GraphLayout = lay_out(dag)
        self.width = round(self._layout.width * PITCH) - (PITCH - BOX_WIDTH) + 2 * MARGIN
        self.height = self._layout.rows * ROW_HEIGHT - (ROW_HEIGHT - BOX_HEIGHT) + 2 * MARGIN

    def parts(self) -> Iterator[str]:
        """Arrowhead, edges, and the boxes over them."""
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
        """Each status there is, with its mark and how many steps have it."""
        if self._shown is None:
            return ""
        counts = Counter(self._status(step).value for step in self._plan.steps)
        said = [
            f"{MARKS[status.value]} {counts[status.value]} {_words(status)}" for status in StepStatus if counts[status]
        ]
        reused = len(self._shown.reused)
        return "   ".join([*said, *([f"{REUSED_MARK} {reused} of them reused"] if reused else [])])

    def _status(self, step: Step) -> StepStatus:
        return StepStatus.PENDING if self._shown is None else self._shown.statuses.get(step.id, StepStatus.PENDING)

    def _point(self, middle: float, row: int) -> tuple[float, int]:
        """The middle of the upper edge of what lies there."""
        return round(middle * PITCH - (PITCH - BOX_WIDTH) / 2 + MARGIN, 1), MARGIN + row * ROW_HEIGHT

    def _edge(self, step_id: str, edge: Dependency) -> str:
        x, y = self._point(*self._layout.centres[edge.step])
        path = [f"M{x:g} {y + BOX_HEIGHT}"]
        y += BOX_HEIGHT
        for bend in self._layout.routes[edge.step, step_id]:
            to_x, to_y = self._point(*bend)
            path.append(f"{_curve(x, y, to_x, to_y)}V{to_y + BOX_HEIGHT}")
            x, y = to_x, to_y + BOX_HEIGHT
        to_x, to_y = self._point(*self._layout.centres[step_id])
        path.append(_curve(x, y, to_x, to_y - 1))
        return f'<path class="edge on-{edge.on}" marker-end="url(#vibe-arrow)" d="{"".join(path)}"/>'

    def _box(self, step: Step) -> str:
        status = self._status(step)
        reused = self._shown is not None and step.id in self._shown.reused
        middle, top = self._point(*self._layout.centres[step.id])
        words = f"{step.id}: {step.title} [{step.mode.value}]"
        if self._shown is not None:
            words += f" {_words(status)}{', reused' if reused else ''}"
        mark = "" if self._shown is None else REUSED_MARK if reused else MARKS[status.value]
        return (
            f'<svg class="is-{status.value}{" is-reused" if reused else ""}" x="{middle - BOX_WIDTH / 2:g}" y="{top}" '
            f'width="{BOX_WIDTH}" height="{BOX_HEIGHT}"><title>{escaped_line(words, 400)}</title>'
            f'<rect class="box" x="1" y="1" width="{BOX_WIDTH - 2}" height="{BOX_HEIGHT - 2}" rx="7"/>'
            f'<text class="icon" x="10" y="19">{MODE_CATALOG[step.mode].icon}</text>'
            f'<text class="id" x="26" y="19">{escaped_line(step.id, ID_CELLS)}</text>'
            f'<text class="title" x="10" y="36">{escaped_line(step.title, TITLE_CELLS)}</text>'
            f'<text class="mark" x="{BOX_WIDTH - 10}" y="19">{mark}</text></svg>'
        )


def _curve(x: float, y: float, to_x: float, to_y: float) -> str:
    """A line that leaves and arrives upright."""
    if x == to_x:
        return f"V{to_y:g}"
    half = (y + to_y) / 2
    return f"C{x:g} {half:g} {to_x:g} {half:g} {to_x:g} {to_y:g}"


def _words(status: StepStatus) -> str:
    return status.value.replace("_", " ")
