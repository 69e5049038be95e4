"""The pages of a proposed plan as lines of a panel: its graph, one step, and all the commands it would run."""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, cast

from msgspec import Struct

from ipc.events import PlanBounds, PlannedCommand, PlanProposedEvent, StepOutline, WorkOrder
from vibe.cli.textual_ui.log.rows import drawn
from vibe.cli.textual_ui.panels.panel_frame import BAR, DIFF_STYLES, Line, Spot
from vibe.core.schemas import tables_of
from vibe.front.cells import Piece, cells_of, fit, spread
from vibe.front.event_text import bounds, forecast, price_limit, price_of, step_title, tokens_of
from vibe.front.plan_graph import MANY, GraphLook, GraphPlace, Shape, doing, groups, rails, shape
from vibe.front.request_text import visible
from vibe.system.plain_text import counted, one_line, plain, plain_line
from vibe.view.figures import clock

FENCES: Final = ("```", "~~~")
FEWEST: Final = 8
"""The rows that the graph may take in any case, however small the window is."""
PLAN_FIELDS: Final = ("goal", "context", "decisions", "max_parallel_steps", "budget", "defaults")
"""The fields of a plan besides its steps that are listed if a new version changed them."""
FAILING: Final = {
    "stop": "stops the plan if it fails",
    "continue": "the plan goes on if it fails",
    "replan": "the plan is revised if it fails",
    "ask": "asks you if it fails",
}
VERSION_FROM: Final = 40
"""The width in cells from which the first row shows the version."""
_NAMES: Final = 10
"""The width in cells of the column of labels for the chosen step."""


class ShownProposal(Struct, frozen=True, kw_only=True):
    """A proposal, the version it replaces (``before``), and what of it is being looked at.

    ``chosen`` is a step, or a group of steps if there are many. ``group`` is the open group.
    """

    event: PlanProposedEvent
    before: PlanProposedEvent | None = None
    chosen: str = ""
    group: str = ""

    @property
    def steps(self) -> Sequence[StepOutline]:
        """The steps of the open group, or all steps."""
        return groups(self.event.steps).get(self.group, ()) if self.group else self.event.steps

    @property
    def questions(self) -> dict[str, str]:
        """The questions of the plan's decisions, by decision id."""
        return {str(one.get("id")): str(one.get("question")) for one in tables_of(self.event.document.get("decisions"))}


def first_choice(event: PlanProposedEvent, group: str) -> str:
    """Return the first step of a group; for a blank group, the first of all steps, or the first group of many."""
    found = groups(event.steps) if group or len(event.steps) > MANY else {}
    names = [step.id for step in found[group]] if group else list(found)
    return next(iter(names or [step.id for step in event.steps]), "")


def plan_page(
    shown: ShownProposal, cols: int, rows: int, revising: str = ""
) -> tuple[list[Line], dict[str, GraphPlace]]:
    """Lay out a proposal in ``cols`` cells, and in ``rows`` rows if they suffice; return it with the steps' places."""
    event = shown.event
    head = [_row(_head(event, cols)), *map(_row, _bounds(event, cols)), Line()]
    if revising:
        head.insert(0, Line(text=f"revising: {plain_line(revising)}", style="$text-accent", indent=2))
    block, asked = [Line(), *_block(shown, cols)], [_row(row) for row in _summary(shown, cols)]
    if shown.before is not None:
        block = [Line(), *_changes(event, shown.before), *block]
    room = rows - len(head) - len(block) - 1 - len(asked)
    drawing = _shape(shown, cols - 2, max(FEWEST, room))
    graph = _shape_rows(drawing)
    if len(graph) > room:  # what matters least is at the end, out of sight at first
        return [*head[:-1], *asked, Line(), *graph, *block], drawing.places
    return [*head, *graph, *block, Line(), *asked], drawing.places


def step_page(shown: ShownProposal) -> Iterator[Line]:
    """Yield all there is to know of the chosen step: its prompt in full, its checks, and what this version changed."""
    event, before = shown.event, shown.before
    outline = next(step for step in event.steps if step.id == shown.chosen)
    step = _steps(event.document).get(outline.id, {})
    yield Line(text=f"{plain_line(outline.id)}  {step_title(outline.title)}", style="bold", indent=2)
    yield Line(text=plain_line(" · ".join(_about(outline, shown))), style="$foreground-muted", indent=2)
    task = step.get("command") or step.get("prompt") or (outline.order.prompt if outline.order else "")
    yield Line()
    yield from _command_rows(task) if step.get("command") else text_lines(task)
    checks = (
        outline.order.verify if outline.order else [str(one) for one in cast("list[object]", step.get("verify", []))]
    )
    if checks:
        yield from (Line(), Line(text="checked by:", style="$foreground-muted"))
        yield from (row for one in checks for row in _command_rows(one))
    old = _steps(before.document).get(outline.id) if before is not None else None
    if before is not None and old is not None and old != step:
        yield from (Line(), Line(text=f"changed since version {before.draft}:", style="$text-warning"))
        for name in _differing(old, step):
            yield from _field_change(name, old.get(name), step.get(name))


def commands_page(shown: ShownProposal) -> Iterator[Line]:
    """Yield every command of the plan in full, its decisions and bounds, and what was repaired in it."""
    event = shown.event
    yield from (Line(text=plain_line(event.goal), style="bold", indent=2), Line())
    if event.commands:
        yield Line(text=f"{_unasked(event.commands)}:", style="bold")
    for one in event.commands:
        what = ", check" if one.purpose == "verify" else ""
        yield Line(text=f"{plain_line(one.step_id)}{what}", style="$foreground-muted")
        yield from _command_rows(one.command)
    yield from (Line(), *_decisions(event.document), *_limits_of(event.estimate))
    for text in event.repairs:
        yield Line(text=f"fixed in the model's plan: {plain_line(text)}", style="$foreground-muted", indent=2)


def text_lines(text: str) -> Iterator[Line]:
    """Yield text as a model reads it, with the code in fences highlighted by its language."""
    code: list[str] = []
    fence, language = "", ""
    for row in plain(text).expandtabs(4).split("\n"):
        mark = row.strip()[:3]
        if fence and row.strip() == fence:
            yield from _code(code, language)
            fence, code = "", []
        elif fence:
            code.append(row)
        elif mark in FENCES:
            fence, language = mark, row.strip().strip("`~ ").split(" ")[0]
        else:
            style = "bold $text-primary" if row.startswith("#") else ""
            yield Line(text=row, style=style, indent=2 if row.lstrip().startswith(("-", "*")) else 0)
    yield from _code(code, language)


def _code(rows: Sequence[str], language: str) -> list[Line]:
    if not rows:
        return []
    from pygments.lexers import get_all_lexers  # noqa: PLC0415  after the first frame

    from vibe.cli.textual_ui.log.markdown_blocks import highlighted  # noqa: PLC0415  after the first frame

    if not any(language.lower() in aliases for _, aliases, _, _ in get_all_lexers(plugins=False)):
        return [Line(text=row, lead=BAR, words=False) for row in rows]
    shown = highlighted("\n".join(rows), language.lower()).split("\n", allow_blank=True)
    return [Line(text=row, lead=BAR, words=False) for row in shown[: len(rows)]]


def _command_rows(command: str) -> list[Line]:
    return [Line(text=visible(row), style="bold", lead=BAR, words=False) for row in command.split("\n")]


# --- the first rows


def _row(pieces: Iterable[Piece]) -> Line:
    return Line(text=drawn(list(pieces)))


def _head(event: PlanProposedEvent, cols: int) -> list[Piece]:
    facts: list[Piece] = [(f"version {event.draft}", "muted")] if cols >= VERSION_FROM else []
    return spread([("Proposed plan", "bold accent"), ("  ", ""), (one_line(event.goal, 400), "bold")], facts, cols)


def _bounds(event: PlanProposedEvent, cols: int) -> list[list[Piece]]:
    """Return the expected effort, if it is known, and its upper bound, in one row or in two if there is no room."""
    found = event.estimate
    side = "" if found is None or found.width < 2 else f", {found.width} side by side"
    steps: list[Piece] = [(f"{counted(len(event.steps), 'step')}{side}", "muted")]
    bound: list[Piece] = [] if found is None else [(bounds(found), "")]
    if event.expected is None:
        none = "no estimate yet"
        return _beside([(f"{none} (first plan here)   ", ""), *steps], [(f"{none}   ", ""), *steps], bound, cols)
    text = forecast(event.expected)
    return _beside([(f"{text}   ", ""), *steps], [(text, "")], bound, cols)


def _beside(left: list[Piece], least: list[Piece], right: list[Piece], cols: int) -> list[list[Piece]]:
    """Return the left and the right part in one row, with ``least`` if ``left`` is too wide; otherwise in two rows."""
    if cells_of([*left, *right]) + 2 <= cols:
        return [spread(left, right, cols)]
    if cells_of([*least, *right]) + 2 <= cols:
        return [spread(least, right, cols)]
    return [row for row in (least, right) if row]


# --- the shape


def _shape(shown: ShownProposal, cols: int, rows: int) -> Shape:
    marks = {} if shown.before is None else _marks(shown.event, shown.before)
    look = GraphLook(chosen=shown.chosen, questions=shown.questions, marks=marks)
    return rails(shown.steps, cols, look) if shown.group else shape(shown.steps, cols, rows, look)


def _shape_rows(drawing: Shape) -> list[Line]:
    spots: dict[int, list[Spot]] = {}
    for name, place in drawing.places.items():
        for row in range(place.row, place.row + place.rows):
            spots.setdefault(row, []).append(Spot(2 + place.first, 2 + place.first + place.cells, name))
    return [
        Line(text=drawn([("  ", ""), *line]), words=False, spots=tuple(spots.get(number, ())))
        for number, line in enumerate(drawing.lines)
    ]


# --- the chosen step


def _block(shown: ShownProposal, cols: int) -> list[Line]:
    """Return the lines of the chosen step, filled up to the most any step needs, so that choosing moves nothing."""
    if len(shown.steps) > MANY and not shown.group:
        own = groups(shown.event.steps).get(shown.chosen, ())
        left: list[Piece] = [("▸ ", "accent"), (shown.chosen, "bold")]
        return [_row(spread(left, [(f"{counted(len(own), 'step')} · Enter shows them", "muted")], cols))]
    blocks = {step.id: [*_step_rows(step, shown, cols)] for step in shown.steps}
    lines = [_row(row) for row in blocks.get(shown.chosen, [])]
    return [*lines, *[Line()] * (max(map(len, blocks.values()), default=0) - len(lines))]


def _step_rows(step: StepOutline, shown: ShownProposal, cols: int) -> Iterator[list[Piece]]:
    order = step.order or WorkOrder()
    facts = [step.mode, *filter(None, (order.agent, _models(order))), *_limits(order.max_tokens, price=order.max_price)]
    name: list[Piece] = [("▸ ", "accent"), (one_line(step.id), "bold accent"), ("  ", "")]
    yield spread([*name, (step_title(step.title), "")], [(one_line(" · ".join(facts)), "muted")], cols)
    tries = f"{order.retries} more tr{'y' if order.retries == 1 else 'ies'} if it fails" if order.retries else ""
    texts = [("edits", one_line(", ".join(order.writes), 400))] if order.writes else []
    texts += [("runs", visible(order.command))] if order.command else []
    texts += [("check", visible(one)) for one in order.verify]
    also = " · ".join(_conditions(step, shown))
    texts += [("also", one_line(also, 400))] if also else []
    for number, (word, text) in enumerate(texts):
        fact: list[Piece] = [(tries, "muted")] if tries and number == len(texts) - bool(also) - 1 else []
        risky = "failed" if word == "also" and order.side_effects else "muted" if word == "also" else ""
        yield spread([*fit([("  " + word, "muted")], _NAMES), (text, risky)], fact, cols)


def _models(order: WorkOrder) -> str | None:
    return ", then ".join(order.models) or order.model


def _conditions(step: StepOutline, shown: ShownProposal) -> list[str]:
    """Return when and where a step runs and what its failure causes, as far as these differ from the defaults."""
    order = step.order or WorkOrder()
    texts = ["acts outside this folder"] if order.side_effects else []
    texts += [f"asks: {shown.questions.get(order.decision, order.decision)}"] if order.decision else []
    texts += [f"only if {name} is {' or '.join(values)}" for name, values in order.when.items()]
    texts += [f"{name} {how}" for name, how in order.on.items()]
    texts += [f"in a {step.workspace}"] if step.workspace != "shared" else []
    return texts + ([FAILING.get(order.on_failure, order.on_failure)] if order.on_failure != "stop" else [])


def _about(step: StepOutline, shown: ShownProposal) -> list[str]:
    """Return all of a step's facts: mode, dependencies, limits and conditions."""
    order = step.order or WorkOrder()
    texts = [step.mode, *([f"after {', '.join(step.depends_on)}"] if step.depends_on else [])]
    texts += [f"{name} {value}" for name, value in (("agent", order.agent), ("model", _models(order))) if value]
    texts += _limits(order.max_tokens, order.max_turns, order.max_price, order.timeout_seconds)
    texts += [f"{order.retries} more tr{'y' if order.retries == 1 else 'ies'} if it fails"] if order.retries else []
    texts += [doing(step, shown.questions)[0]] if not order.command and not order.decision else []
    texts += [f"edits {', '.join(order.writes)}"] if order.writes and (order.decision or order.side_effects) else []
    conditions = [one for one in _conditions(step, shown) if one not in texts]
    return [*texts, *conditions, *([FAILING["stop"]] if order.on_failure == "stop" else [])]


def _limits(
    tokens: int | None, turns: int | None = None, price: float | None = None, seconds: float | None = None
) -> list[str]:
    known = (
        None if tokens is None else f"{tokens_of(tokens)} tok",
        None if turns is None else counted(turns, "model call"),
        None if price is None else price_of(price),
        None if seconds is None else clock(seconds),
    )
    return [f"at most {', '.join(one for one in known if one)}"] if any(known) else []


# --- what is asked, and what is not


def _summary(shown: ShownProposal, cols: int) -> list[list[Piece]]:
    commands, asks = shown.event.commands, " · ".join(map(one_line, shown.questions.values()))
    runs: list[Piece] = [(_unasked(commands), "muted")] if commands else []
    key: list[Piece] = [("c", "bold accent"), (" commands" if commands else " details", "muted")]
    if not asks:
        return _beside(runs, runs, key, cols)
    text = f"asks you first: {asks}"
    room = cols - 2 - cells_of([*runs, *key])
    between = "   " * bool(runs)
    question = between + (text if cells_of([(between + text, "")]) <= room else "asks you first")
    return _beside([*runs, (question, "warn")], runs, key, cols)


def _unasked(commands: Sequence[PlannedCommand]) -> str:
    checks = sum(one.purpose == "verify" for one in commands)
    counts = [counted(len(commands) - checks, "command")] if checks < len(commands) else []
    counts += [counted(checks, "check")] if checks else []
    return f"{' and '.join(counts)} run{'s' if len(commands) == 1 else ''} without asking"


def _decisions(document: Mapping[str, Any]) -> list[Line]:
    lines: list[Line] = []
    for one in tables_of(document.get("decisions")):
        options = " / ".join(
            plain_line(str(each.get("label") or each.get("id"))) for each in tables_of(one.get("options"))
        )
        text = f"decision {plain_line(str(one.get('id')))}: {plain_line(str(one.get('question')))} ({options})"
        lines.append(Line(text=text, style="$text-warning", indent=2))
    return [*lines, Line()] if lines else []


def _limits_of(found: PlanBounds | None) -> list[Line]:
    if found is None:
        return []
    texts = [
        f"never more than {counted(found.max_turns, 'model call')}, {found.max_tokens:,} tokens, {price_limit(found)}"
    ]
    if len(found.critical_path) > 1:
        texts.append(f"longest chain: {' → '.join(map(plain_line, found.critical_path))}")
    return [Line(text=text, style="$foreground-muted", indent=2) for text in (*texts, *map(plain_line, found.notes))]


# --- what a version changed


def _changes(event: PlanProposedEvent, before: PlanProposedEvent) -> list[Line]:
    """Return a line for each step that was added, removed or changed, and one for changes in the rest of the plan."""
    old, new = _steps(before.document), _steps(event.document)
    titles = {step.id: step_title(step.title) for step in (*before.steps, *event.steps)}
    lines = [
        Line(text=f"~ {plain_line(step_id)}: {_words(_differing(old[step_id], step))}", style="$text-warning", indent=2)
        for step_id, step in new.items()
        if step_id in old and step != old[step_id]
    ]
    added = [step_id for step_id in new if step_id not in old]
    removed = [step_id for step_id in old if step_id not in new]
    for sign, style, ids in (("+", "$text-success", added), ("−", "$text-error", removed)):  # noqa: RUF001  a minus
        lines += [Line(text=f"{sign} {plain_line(one)}  {titles.get(one, '')}", style=style, indent=2) for one in ids]
    other = [name for name in PLAN_FIELDS if before.document.get(name) != event.document.get(name)]
    if other:
        lines.append(Line(text=f"~ the plan's {', '.join(other)}", style="$text-warning", indent=2))
    nothing = [] if lines else [Line(text="nothing", indent=2)]
    return [Line(text=f"changed since version {before.draft}:", style="bold"), *lines, *nothing]


def _marks(event: PlanProposedEvent, before: PlanProposedEvent) -> dict[str, str]:
    """Return a sign for each step that is new or changed."""
    old = _steps(before.document)
    return {
        step_id: "~" if step_id in old else "+"
        for step_id, step in _steps(event.document).items()
        if step != old.get(step_id)
    }


def _field_change(name: str, old: object, new: object) -> list[Line]:
    was, now = _as_text(old).split("\n"), _as_text(new).split("\n")
    rows = [row for row in difflib.unified_diff(was, now, lineterm="", n=2) if not row.startswith(("---", "+++"))]
    return [
        Line(text=f"{plain_line(name)}:", style="$foreground-muted"),
        *(Line(text=visible(row), style=DIFF_STYLES.get(row[:1], ""), lead=BAR, words=False) for row in rows),
    ]


def _as_text(value: object) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=1)


def _differing(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    return [name for name in dict.fromkeys((*new, *old)) if old.get(name) != new.get(name)]


def _words(names: Sequence[str]) -> str:
    return f"{', '.join(map(plain_line, names))} {'differs' if len(names) == 1 else 'differ'}"


def _steps(document: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    return {str(step.get("id")): step for step in tables_of(document.get("steps"))}
