"""Draws a plan's graph in characters: steps in columns, as rows beside rails, or one row per group of many steps.

It needs neither a clock nor a widget. A step's sign is ``◇`` if it reads, ``◆`` if it edits, ``◉`` if it checks, and
``?`` if it asks the person.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from graphlib import CycleError, TopologicalSorter
from itertools import accumulate, chain
from math import ceil, floor
from typing import Final, TypeAlias

from msgspec import Struct

from ipc.events import StepOutline, WorkOrder
from planner.plan.dag import mean, rising
from planner.plan.model import Plan
from planner.plan.status import MARKS
from planner.state.schedule import outline_of
from planner.state.state import StepState
from vibe.front.cells import Line, Piece, cells_of, cut, fit, spread
from vibe.front.event_text import step_title
from vibe.front.request_text import visible
from vibe.system.grouping import by_key
from vibe.system.plain_text import counted, one_line
from vibe.view.plan_view import depths

DEEPEST: Final = 12
"""The most levels drawn as columns."""
MOST_LANES: Final = 3
"""The most lanes drawn side by side between two columns."""
MANY: Final = 40
"""With more steps than this, there is one row per group of steps."""
MOST_RAILS: Final = 16
TEXT_WIDTH: Final = 100
"""Width in cells of a graph printed as text, wherever it is read."""
_ID: Final = 20
"""The most cells that an id takes."""
_WHAT: Final = (12, 26)
"""The fewest and the most cells that a column has for what its steps do."""
_FACTS_FROM: Final = 72
"""Width in cells from which a row beside rails says what its step does."""

_UP, _RIGHT, _DOWN, _LEFT, _HEAD = 8, 4, 2, 1, 16
_BOX: Final = " ─│╮──╭┬│╯│┤╰┴├┼" + "▸" * 16
"""The box-drawing character of a cell, indexed by the sides at which a line leaves it."""
_LONGEST: Final = 400
"""Characters of a command that are shown at most."""
_READING: Final = frozenset({"research", "design"})

_Node: TypeAlias = tuple[str, int]
"""A step's id and a level: the step's own, or a later one that its edges pass through."""
_Links: TypeAlias = Mapping[_Node, Sequence[_Node]]


class GraphLook(Struct, frozen=True, kw_only=True):
    """The variable parts of a drawing's look.

    ``chosen`` is the id of the marked step, or the marked group. ``questions`` holds the plan's decisions and ``marks``
    a character for some steps, such as ``+`` for a new one; both are keyed by id.
    """

    chosen: str = ""
    questions: Mapping[str, str] = {}
    marks: Mapping[str, str] = {}


class GraphPlace(Struct, frozen=True):
    """The first row and first cell of a step, and how many cells and rows it takes."""

    row: int
    first: int
    cells: int
    rows: int = 1


class Shape(Struct, frozen=True):
    """Lines of exactly the requested width, and the place of each step or group, in drawing order."""

    lines: list[Line]
    places: dict[str, GraphPlace]


PLAIN: Final = GraphLook()


def shape(steps: Sequence[StepOutline], width: int, rows: int, look: GraphLook = PLAIN) -> Shape:
    """Draw a plan in columns if they fit in ``rows`` rows, else beside rails; a plan of many steps as groups."""
    if len(steps) > MANY:
        return grouped(steps, width, look)
    found = columns(steps, width, look)
    return found if found is not None and len(found.lines) <= rows else rails(steps, width, look)


# --- a step -------------------------------------------------------------------------------------------------------


def sign(step: StepOutline) -> Piece:
    """Return the sign for a step's kind."""
    order = step.order or WorkOrder()
    if order.decision:
        return ("?", "bold warn")
    if order.command or step.mode == "test":
        return ("◉", "done")
    return ("◇", "muted") if _only_reads(step, order) else ("◆", "accent")


def doing(step: StepOutline, questions: Mapping[str, str] = PLAIN.questions) -> Piece:
    """Return what a step will do: ``edits shop/cart.py``, ``read only``, ``asks: CSV or JSON?``."""
    order = step.order or WorkOrder()
    if order.side_effects:
        return ("acts outside this folder", "failed")
    if order.decision:
        return (f"asks: {one_line(questions.get(order.decision) or order.decision)}", "warn")
    if order.command:
        return (f"runs {visible(order.command[:_LONGEST])}", "muted")
    if order.writes:
        return (f"edits {one_line(', '.join(order.writes))}", "muted")
    if _only_reads(step, order):
        return ("read only", "muted")
    return ("runs commands" if step.mode == "run" else "edits any file", "muted")


def _only_reads(step: StepOutline, order: WorkOrder) -> bool:
    return order.writes == () or (order.writes is None and step.mode in _READING)


def group_name(step: StepOutline, level: int) -> str:
    """Return a step's group: its first tag, or else its level (0 if it depends on nothing)."""
    return one_line(step.order.tags[0]) if step.order is not None and step.order.tags else f"level {level + 1}"


def levels(steps: Sequence[StepOutline]) -> dict[str, int]:
    """Return the length of the longest path of dependencies to each step, by id."""
    return depths({step.id: step.depends_on for step in steps})


def _name(step: StepOutline, look: GraphLook) -> list[Piece]:
    style = "bold accent" if step.id == look.chosen else "bold"
    mark = look.marks.get(step.id, "")
    styles = {"+": "bold done", "~": "bold warn"}
    return [(cut(one_line(step.id), _ID), style), *([(f" {mark}", styles.get(mark, "bold"))] if mark else [])]


# --- lines ----------------------------------------------------------------------------------------------------------


def _across(row: bytearray, first: int, last: int) -> None:
    """Draw a line from one cell to another on its right."""
    for cell in range(first, last):
        row[cell] |= _RIGHT
        row[cell + 1] |= _LEFT


def _box(row: bytearray) -> str:
    return "".join(_BOX[sides] for sides in row)


class _Canvas:
    """Rows of cells that hold lines, with text drawn over them."""

    def __init__(self, rows: int, cells: int) -> None:
        self.rows = [bytearray(cells) for _ in range(rows)]
        self._texts: list[dict[int, Piece]] = [{} for _ in range(rows)]

    def down(self, cell: int, rows: Iterable[int]) -> None:
        """Draw a line from the first of these rows to the last."""
        for row in range(min(rows), max(rows)):
            self.rows[row][cell] |= _DOWN
            self.rows[row + 1][cell] |= _UP

    def write(self, row: int, cell: int, pieces: Iterable[Piece]) -> None:
        """Write pieces starting at a cell."""
        for piece in pieces:
            self._texts[row][cell] = piece
            cell += cells_of([piece])

    def lines(self, width: int) -> list[Line]:
        """Return all rows, each ``width`` cells wide."""
        return [fit(self._line(_box(row), texts), width) for row, texts in zip(self.rows, self._texts, strict=True)]

    @staticmethod
    def _line(drawn: str, texts: Mapping[int, Piece]) -> Line:
        line: Line = []
        at = 0
        for cell, piece in sorted(texts.items()):
            line += [(drawn[at:cell], "muted"), piece]
            at = cell + cells_of([piece])
        return [*line, (drawn[at:], "muted")]


# --- columns --------------------------------------------------------------------------------------------------------


class _Lane(Struct, frozen=True):
    """A lane shared by all edges with the same targets.

    ``left`` and ``right`` are the rows where lines enter and leave it.
    """

    sources: Sequence[_Node]
    targets: Sequence[_Node]
    left: frozenset[int]
    right: frozenset[int]

    @property
    def rows(self) -> frozenset[int]:
        """All rows it touches. With a single row it is just a straight line."""
        return self.left | self.right


class _Columns(Struct, frozen=True, kw_only=True):
    """Steps, and the edges passing between them, laid out from left to right and from top to bottom."""

    steps: Mapping[str, StepOutline]
    level: Mapping[str, int]
    links: _Links
    nodes: Sequence[Sequence[_Node]]
    rows: Mapping[_Node, int]

    def is_step(self, node: _Node) -> bool:
        """Return True if a step stands there, False if an edge passes through."""
        return self.level[node[0]] == node[1]


def columns(steps: Sequence[StepOutline], width: int, look: GraphLook = PLAIN) -> Shape | None:
    """Draw the steps in one column per level, two rows each, or return None if they don't fit or lines would overlap.

    A step's level is the longest path to it. Within a column, steps are sorted by the mean position of their
    dependencies.
    """
    level = levels(steps)
    if not level or max(level.values()) >= DEEPEST or not _is_rising(steps, level):
        return None
    laid = _laid_out(steps, level)
    gaps = [_lanes(column, laid) for column in laid.nodes[:-1]]
    known = [gap for gap in gaps if gap is not None]
    if len(known) < len(gaps) or any(at >= MOST_LANES for gap in known for _, at in gap):
        return None
    between = [4 + max((at for _, at in gap), default=-1) for gap in known]
    widths = _widths(laid, look, width - sum(between))
    if widths is None:
        return None
    ends = accumulate((cells + gap for cells, gap in zip(widths, between, strict=False)), initial=0)
    painter = _Painter(laid, look, list(ends), widths)
    for lane, at in chain.from_iterable(known):
        painter.lane(lane, at)
    for node in filter(laid.is_step, chain.from_iterable(laid.nodes)):
        painter.step(node)
    return Shape(painter.canvas.lines(width), painter.places)


def _is_rising(steps: Sequence[StepOutline], level: Mapping[str, int]) -> bool:
    """Each edge leads to a later level, or place; in a circle one does not."""
    return all(level.get(above, -1) < level[step.id] for step in steps for above in step.depends_on)


def _laid_out(steps: Sequence[StepOutline], level: Mapping[str, int]) -> _Columns:
    links = _links(steps, level)
    above = by_key((target, node) for node, targets in links.items() for target in targets)
    nodes: list[list[_Node]] = [[] for _ in range(max(level.values()) + 1)]
    own = [(step.id, level[step.id]) for step in steps]
    for node in dict.fromkeys([*own, *links]):
        nodes[node[1]].append(node)
    _order(nodes, above, links)
    by_id = {step.id: step for step in steps}
    return _Columns(steps=by_id, level=level, links=links, nodes=nodes, rows=_rows(nodes, above, level))


def _links(steps: Sequence[StepOutline], level: Mapping[str, int]) -> dict[_Node, list[_Node]]:
    """Return the edges between neighbouring levels; edges from one step share their path through the levels between."""
    links: dict[_Node, dict[_Node, None]] = {}
    for step in steps:
        last = level[step.id] - 1
        for above in (each for each in step.depends_on if each in level):
            for passed in range(level[above], last):
                links.setdefault((above, passed), {})[above, passed + 1] = None
            links.setdefault((above, last), {})[step.id, last + 1] = None
    return {node: list(targets) for node, targets in links.items()}


def _order(nodes: Sequence[list[_Node]], above: _Links, below: _Links) -> None:
    """Sort each column by the mean place of its neighbours, in three passes: left to right, back, and again."""
    places: dict[_Node, float] = {}
    for column in nodes:
        _number(column, places)
    for near, there in ((above, 1), (below, -1), (above, 1)):
        for column in nodes[::there]:
            means = {node: mean([places[each] for each in near.get(node, ())], places[node]) for node in column}
            column.sort(key=means.__getitem__)
            _number(column, places)


def _number(column: Sequence[_Node], places: dict[_Node, float]) -> None:
    places.update({node: number - (len(column) - 1) / 2 for number, node in enumerate(column)})


def _rows(nodes: Sequence[Sequence[_Node]], above: _Links, level: Mapping[str, int]) -> dict[_Node, int]:
    """Return the row of each node, as close as possible to its dependencies.

    A step takes two rows, with a free one below it.
    """
    rows: dict[_Node, int] = {}
    for column in nodes:
        offsets = list(accumulate((3 if level[node[0]] == node[1] else 2 for node in column[:-1]), initial=0))
        wanted = [
            mean([rows[each] for each in above.get(node, ())], 0) - offset
            for node, offset in zip(column, offsets, strict=True)
        ]
        for node, offset, row in zip(column, offsets, rising(wanted), strict=True):
            rows[node] = offset + _rounded(row)
    first = min(rows.values())
    return {node: row - first for node, row in rows.items()}


def _rounded(number: float) -> int:
    """Return the nearest whole number; halves round towards zero."""
    return ceil(number - 0.5) if number > 0 else floor(number + 0.5)


def _lanes(column: Sequence[_Node], laid: _Columns) -> list[tuple[_Lane, int]] | None:
    """Return the lanes behind a column with their places, -1 for a straight one; None if lines would overlap."""
    sharing = by_key((frozenset(laid.links[node]), node) for node in column if node in laid.links)
    rows = laid.rows
    lanes = [
        _Lane(nodes, list(targets), frozenset(rows[node] for node in nodes), frozenset(rows[node] for node in targets))
        for targets, nodes in sharing.items()
    ]
    return _placed(lanes)


def _placed(lanes: Sequence[_Lane]) -> list[tuple[_Lane, int]] | None:
    """Return the lanes with their places, or None if lines would overlap.

    Where a line enters one lane at the row at which a line leaves another, the first lane is left of the second.
    """
    bent = [lane for lane in lanes if len(lane.rows) > 1]
    before = {
        number: [other for other, each in enumerate(bent) if other != number and each.left & lane.right]
        for number, lane in enumerate(bent)
    }
    at: dict[int, int] = {}
    try:
        for number in TopologicalSorter(before).static_order():
            place = max((at[other] + 1 for other in before[number]), default=0)
            while any(at[other] == place and _meet(bent[other], bent[number]) for other in at):
                place += 1
            at[number] = place
    except CycleError:
        return None
    straight = [(lane, -1) for lane in lanes if len(lane.rows) == 1]
    return [*straight, *((lane, at[number]) for number, lane in enumerate(bent))]


def _meet(one: _Lane, other: _Lane) -> bool:
    return min(one.rows) <= max(other.rows) and min(other.rows) <= max(one.rows)


def _widths(laid: _Columns, look: GraphLook, room: int) -> list[int] | None:
    """Return the width of each column in cells, or None if there is too little room."""
    least: list[int] = []
    wanted: list[int] = []
    for column in laid.nodes:
        own = [laid.steps[node[0]] for node in column if laid.is_step(node)]
        name = max(cells_of(_name(step, look)) for step in own)
        what = max(cells_of([doing(step, look.questions)]) for step in own)
        least.append(2 + max(name + 1, min(what, _WHAT[0])))
        wanted.append(2 + max(name + 1, min(what, _WHAT[1])))
    room -= sum(least)
    if room < 0:
        return None
    while room > 0 and (narrow := [number for number, cells in enumerate(least) if cells < wanted[number]]):
        for number in narrow[:room]:
            least[number] += 1
        room -= len(narrow[:room])
    return least


class _Painter:
    """Draws a layout. ``firsts`` are the columns' first cells, ``widths`` their widths."""

    def __init__(self, laid: _Columns, look: GraphLook, firsts: Sequence[int], widths: Sequence[int]) -> None:
        self._laid = laid
        self._look = look
        self._firsts = firsts
        self._widths = widths
        height = max(row + 1 + laid.is_step(node) for node, row in laid.rows.items())
        self.canvas = _Canvas(height, firsts[-1] + widths[-1])
        self.places: dict[str, GraphPlace] = {}

    def step(self, node: _Node) -> None:
        """Draw a step's two rows."""
        step, row = self._laid.steps[node[0]], self._laid.rows[node]
        first, cells = self._firsts[node[1]], self._widths[node[1]]
        self.canvas.write(row, first, [sign(step), (" ", ""), *_name(step, self._look)])
        what, style = doing(step, self._look.questions)
        self.canvas.write(row + 1, first + 2, [(cut(what, cells - 2), style)])
        self.places[step.id] = GraphPlace(row, first, cells, rows=2)

    def lane(self, lane: _Lane, at: int) -> None:
        """Draw a lane with all lines into and out of it."""
        level = lane.sources[0][1]
        cell = self._firsts[level] + self._widths[level] + 1 + at
        for node in lane.sources:
            _across(self.canvas.rows[self._laid.rows[node]], self._start(node), cell)
        for node in lane.targets:
            row = self.canvas.rows[self._laid.rows[node]]
            head = self._firsts[level + 1] - 2
            _across(row, cell, head if self._laid.is_step(node) else head + 2)
            row[head] |= _HEAD * self._laid.is_step(node)
        self.canvas.down(cell, lane.rows)

    def _start(self, node: _Node) -> int:
        """Return the first cell of the line that leaves a node."""
        first = self._firsts[node[1]]
        if not self._laid.is_step(node):
            return first
        return first + 3 + cells_of(_name(self._laid.steps[node[0]], self._look))


# --- rails ----------------------------------------------------------------------------------------------------------


class _Rails:
    """Draws steps one after the other; each open rail leads to a step that is still to come.

    With ``joins``, an edge to a step joins the rail that already leads there; otherwise it has a rail of its own.
    """

    def __init__(self, below: Mapping[str, Sequence[str]], *, joins: bool) -> None:
        self._below = below
        self._joins = joins
        self._rails: list[str] = []
        self.rows: list[tuple[bytearray, StepOutline | None, int]] = []
        """Each row, with its step if it has one, and that step's rail."""
        self.most = 1
        self._ended = -1

    def take(self, step: StepOutline) -> None:
        """Draw a step, the lines that meet at it, and those that part from it."""
        into = [number for number, leads_to in enumerate(self._rails) if leads_to == step.id]
        at = into[0] if into else self._free(but=self._ended)
        if len(into) > 1:
            self._gather(into)
        self._rails[at] = ""
        self.rows.append((self._upright(), step, at))
        self._part(at, self._below.get(step.id, ()))
        self._ended = -1 if self._rails[at] else at
        while self._rails and not self._rails[-1]:
            self._rails.pop()

    def _gather(self, into: Sequence[int]) -> None:
        row = self._upright()
        for number in into[1:]:
            row[2 * number] &= ~_DOWN
            self._rails[number] = ""
        _across(row, 2 * into[0], 2 * into[-1])
        self.rows.append((row, None, 0))

    def _part(self, at: int, targets: Sequence[str]) -> None:
        joined: list[int] = []
        new: list[int] = []
        for target in targets:
            if self._joins and target in self._rails:
                joined.append(self._rails.index(target))
            elif self._rails[at]:
                new.append(self._free(but=at, leads_to=target))
            else:
                self._rails[at] = target
        if not joined and not new:
            return
        row = self._upright()
        for number in new:
            row[2 * number] = _DOWN
        _across(row, 2 * min(at, *joined, *new), 2 * max(at, *joined, *new))
        row[2 * at] |= _UP
        self.rows.append((row, None, 0))

    def _free(self, *, but: int, leads_to: str = "") -> int:
        """Take the first free rail, or a new one; rail ``but`` is never used, because it belongs to the step above."""
        free = (number for number, leads in enumerate([*self._rails, "", ""]) if not leads and number != but)
        number = next(free)
        self._rails += [""] * (number + 1 - len(self._rails))
        self._rails[number] = leads_to
        self.most = max(self.most, len(self._rails))
        return number

    def _upright(self) -> bytearray:
        row = bytearray(2 * len(self._rails))
        for number, leads_to in enumerate(self._rails):
            row[2 * number] = (_UP | _DOWN) * bool(leads_to)
        return row


def rails(steps: Sequence[StepOutline], width: int, look: GraphLook = PLAIN) -> Shape:
    """Draw one row per step, in the plan's order, beside rails like those of ``git log --graph``.

    If there would be too many rails, each row names the steps it depends on instead.
    """
    level = levels(steps)
    places = {step.id: place for place, step in enumerate(steps)}
    order = list(steps) if _is_rising(steps, places) else sorted(steps, key=lambda step: level[step.id])
    below: dict[str, list[str]] = {step.id: [] for step in order}
    for step in order:
        for above in dict.fromkeys(step.depends_on):
            below.get(above, []).append(step.id)
    most = min(MOST_RAILS, max(1, (width - 24) // 2))
    for joins in (False, True):
        drawn = _Rails(below, joins=joins)
        for step in order:
            drawn.take(step)
            if drawn.most > most:
                break
        else:
            return _beside(drawn.rows, 2 * drawn.most, width, look)
    return _beside([(bytearray(1), step, 0) for step in order], 1, width, look, says_after=True)


def plan_text(plan: Plan, states: Mapping[str, StepState] | None = None) -> str:
    """Return a plan beside rails as text, one row per step with its status; safe to print."""
    of = states or {}
    marks = {step_id: MARKS[state.status] for step_id, state in of.items()}
    questions = {decision.id: decision.question for decision in plan.decisions}
    steps = [outline_of(step, of.get(step.id)) for step in plan.steps]
    drawn = rails(steps, TEXT_WIDTH, GraphLook(marks=marks, questions=questions))
    return "\n".join("".join(text for text, _ in line).rstrip() for line in drawn.lines)


def _beside(
    rows: Sequence[tuple[bytearray, StepOutline | None, int]],
    cells: int,
    width: int,
    look: GraphLook,
    *,
    says_after: bool = False,
) -> Shape:
    named = [step for _, step, _ in rows if step is not None]
    ids = max((cells_of(_name(step, look)) for step in named), default=0) + 2
    lines: list[Line] = []
    places: dict[str, GraphPlace] = {}
    for row, step, at in rows:
        drawn = _box(row)
        if step is None:
            lines.append(fit([(drawn, "muted")], width))
            continue
        lead = fit([(drawn[: 2 * at], "muted"), sign(step), (drawn[2 * at + 1 :], "muted")], cells)
        places[step.id] = GraphPlace(len(lines), 0, width)
        after = f"after {one_line(', '.join(step.depends_on))}" if step.depends_on else ""
        fact = (after, "muted") if says_after else doing(step, look.questions)
        left = [*lead, (" ", ""), *fit(_name(step, look), ids), (step_title(step.title), "")]
        lines.append(_row(left, fact, width, is_needed=says_after))
    return Shape(lines, places)


def _row(left: Line, fact: Piece, width: int, *, is_needed: bool) -> Line:
    text, style = fact
    if width < _FACTS_FROM and not is_needed:
        return fit(left, width)
    return spread(left, [(cut(text, width // 3), style)] if text else [], width)


# --- more than can be told apart --------------------------------------------------------------------------------------


def groups(steps: Sequence[StepOutline]) -> dict[str, list[StepOutline]]:
    """Return the steps of each group by its name, in the plan's order."""
    level = levels(steps)
    return by_key((group_name(step, level[step.id]), step) for step in steps)


def grouped(steps: Sequence[StepOutline], width: int, look: GraphLook = PLAIN) -> Shape:
    """Draw one row per group, with a cell for one or several of its steps; places are those of the groups."""
    found = groups(steps)
    names = min(_ID, max((cells_of([(name, "")]) for name in found), default=0)) + 2
    room = max(1, width - names - len("  10,000 steps"))
    each = max(1, -(-max(map(len, found.values()), default=1) // room))
    lines: list[Line] = []
    for name, own in found.items():
        style = "bold accent" if name == look.chosen else "bold"
        cells = fit([(cut(name, names - 2), style)], names)
        lines.append(spread([*cells, ("■" * -(-len(own) // each), "muted")], [(counted(len(own), "step"), "")], width))
    return Shape(lines, {name: GraphPlace(row, 0, width) for row, name in enumerate(found)})
