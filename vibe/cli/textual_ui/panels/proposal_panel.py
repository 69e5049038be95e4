"""ProposalPanel: a plan that was proposed, as lines to read, to have changed, and to run or drop."""

from __future__ import annotations

import difflib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from graphlib import TopologicalSorter
from typing import Any, ClassVar, Final, cast

from msgspec.structs import replace
from textual import on
from textual.content import Content
from textual.message import Message

from ipc.events import PlannedCommand, PlanProposedEvent, StepOutline
from vibe.cli.textual_ui.panels.panel_frame import BAR, DIFF_STYLES, LATER_KEY, Line, LineView, PanelFrame, TypingGuard
from vibe.front.plan_words import mode_icon
from vibe.front.request_text import visible
from vibe.system.plain_text import plain, plain_line

DEEPEST: Final = 8
"""Steps further down are drawn at this depth."""
FENCES: Final = ("```", "~~~")
NEW, CHANGED = "new", "changed"
MARK_STYLES: Final = {NEW: "$text-success", CHANGED: "$text-warning"}
PLAN_FIELDS: Final = ("goal", "context", "decisions", "max_parallel_steps", "budget", "defaults")
"""Fields of a plan besides its steps whose change a person is told of."""


def step_key(step_id: str) -> str:
    """Return the key of a step's lines."""
    return f"step {step_id}"


def proposal_lines(event: PlanProposedEvent, before: PlanProposedEvent | None, chosen: str) -> list[Line]:
    """Return all of a proposal; ``chosen`` is the step under the cursor, ``before`` the version it replaces."""
    goal = Content.assemble((f"version {event.draft}: ", "$foreground-muted"), (plain_line(event.goal), "bold"))
    lines = [Line(text=goal, indent=2), *_bounds(event)]
    if before is not None:
        lines += _changes(event, before)
    lines += [Line(), *_tree(event, chosen, {} if before is None else _marks(event, before))]
    if event.commands:
        lines += [Line(), *_commands(event.commands)]
    lines += _decisions(event.document)
    lines += [
        Line(text=f"corrected: {plain_line(text)}", style="$foreground-muted", indent=2) for text in event.repairs
    ]
    return lines


def step_lines(event: PlanProposedEvent, before: PlanProposedEvent | None, step_id: str) -> list[Line]:
    """Return all that is known of a step: its whole prompt, its checks, and what the version changed in it."""
    outline = next(step for step in event.steps if step.id == step_id)
    step = _steps(event.document).get(step_id, {})
    lines = [Line(text=f"{step_id}: {plain_line(outline.title)}", style="bold", indent=2)]
    lines += [Line(text=text, style="$foreground-muted", indent=2) for text in _about(outline)]
    task = step.get("command") or step.get("prompt") or (outline.order.prompt if outline.order else "")
    if step.get("command"):
        lines += [Line(), *(Line(text=visible(row), style="bold", lead=BAR, words=False) for row in task.split("\n"))]
    else:
        lines += [Line(), *text_lines(task)]
    checks = [str(one) for one in cast("list[object]", step.get("verify") or [])]
    if checks:
        lines += [Line(), Line(text="checked by:", style="$foreground-muted")]
        lines += [
            Line(text=visible(row), style="bold", lead=BAR, words=False) for one in checks for row in one.split("\n")
        ]
    old = _steps(before.document).get(step_id) if before is not None else None
    if before is not None and old is not None and old != step:
        lines += [Line(), Line(text=f"changed since version {before.draft}:", style="$text-warning")]
        for name in _differing(old, step):
            lines += _field_change(name, old.get(name), step.get(name))
    return lines


def text_lines(text: str) -> list[Line]:
    """Return text as a model reads it; code in fences is coloured by its language."""
    lines: list[Line] = []
    code: list[str] = []
    fence, language = "", ""
    for row in plain(text).expandtabs(4).split("\n"):
        mark = row.strip()[:3]
        if fence and row.strip() == fence:
            lines += _code(code, language)
            fence, code = "", []
        elif fence:
            code.append(row)
        elif mark in FENCES:
            fence, language = mark, row.strip().strip("`~ ").split(" ")[0]
        else:
            style = "bold $text-primary" if row.startswith("#") else ""
            lines.append(Line(text=row, style=style, indent=2 if row.lstrip().startswith(("-", "*")) else 0))
    return [*lines, *_code(code, language)]


def _code(rows: Sequence[str], language: str) -> list[Line]:
    if not rows:
        return []
    from pygments.lexers import get_all_lexers  # noqa: PLC0415  after the first frame
    from textual.highlight import highlight  # noqa: PLC0415  after the first frame

    if not any(language.lower() in aliases for _, aliases, _, _ in get_all_lexers(plugins=False)):
        return [Line(text=row, lead=BAR, words=False) for row in rows]
    shown = highlight("\n".join(rows), language=language.lower()).split("\n", allow_blank=True)
    return [Line(text=row, lead=BAR, words=False) for row in shown[: len(rows)]]


# --- parts of a proposal


def _bounds(event: PlanProposedEvent) -> list[Line]:
    found = event.estimate
    if found is None:
        return []
    worst_price = found.max_price if found.worst_price is None else found.worst_price
    price = "no price limit" if worst_price is None else f"${worst_price:,.2f}"
    steps = f"{found.steps} step{'' if found.steps == 1 else 's'}, {found.model_steps} by a model"
    worst = f"at worst {found.max_turns:,} model calls, {found.max_tokens:,} tokens, {price}"
    lines = [Line(text=f"{steps}, up to {found.width} side by side; {worst}", style="$text-warning", indent=2)]
    if len(found.critical_path) > 1:
        chain = " → ".join(map(plain_line, found.critical_path))
        lines.append(Line(text=f"critical path: {chain}", style="$foreground-muted", indent=2))
    return [*lines, *(Line(text=f"note: {plain_line(note)}", style="$text-warning", indent=2) for note in found.notes)]


def _tree(event: PlanProposedEvent, chosen: str, marks: Mapping[str, str]) -> list[Line]:
    """Return each step once, below the deepest step that it comes after; ``marks`` say what became of some."""
    ids = {step.id for step in event.steps}
    known = {step.id: [each for each in step.depends_on if each in ids] for step in event.steps}
    depth: dict[str, int] = {}
    for step_id in TopologicalSorter(known).static_order():
        depth[step_id] = max((depth[each] + 1 for each in known[step_id]), default=0)
    parents = {step_id: max(above, key=depth.__getitem__, default="") for step_id, above in known.items()}
    children: dict[str, list[StepOutline]] = {}
    for step in event.steps:
        children.setdefault(parents[step.id], []).append(step)
    lines: list[Line] = []
    stack = [(step, "") for step in reversed(children.get("", []))]
    while stack:
        step, lead = stack.pop()
        below = children.get(step.id, [])
        drawn = _step(step, lead, is_chosen=step.id == chosen, parent=parents[step.id])
        if step.id in marks:
            text = Content.assemble(drawn[0].text, "  ", (marks[step.id], MARK_STYLES[marks[step.id]]))
            drawn[0] = replace(drawn[0], text=text)
        lines += drawn
        further = lead if not parents[step.id] or len(lead) >= 2 * DEEPEST else lead + "  "
        stack += [(child, further) for child in reversed(below)]
    return lines


def _step(step: StepOutline, lead: str, *, is_chosen: bool, parent: str) -> list[Line]:
    mark = f"{'▸' if is_chosen else ' '} {lead}{'└ ' if parent else ''}"
    style = "bold $text-accent" if is_chosen else "bold"
    text = Content.assemble(
        (mark[0], "$text-accent"),
        (mark[1:], "$foreground-muted"),
        f"{mode_icon(step.mode)} ",
        (plain_line(step.id), style),
        "  ",
        plain_line(step.title),
    )
    others = [each for each in step.depends_on if each != parent]
    about = _about(step, others)
    indent = len(mark) + 2
    said = [Line(text=one, style="$foreground-muted", lead=" " * indent, key=step_key(step.id)) for one in about]
    return [Line(text=text, indent=indent, key=step_key(step.id)), *said]


def _about(step: StepOutline, others: Sequence[str] | None = None) -> list[str]:
    """Return a step's mode, bounds, conditions and checks; ``others`` are the steps it comes after that are said."""
    order = step.order
    after = step.depends_on if others is None else others
    said = [step.mode]
    if after:
        also = "also after" if others is not None and len(others) < len(step.depends_on) else "after"
        said.append(f"{also} {', '.join(after)}")
    if step.workspace != "shared":
        said.append(f"in a {step.workspace}")
    checks: list[str] = []
    if order is not None:
        said += [f"{name} {value}" for name, value in (("agent", order.agent), ("model", order.model)) if value]
        said += _limits(order.max_tokens, order.max_turns, order.max_price, order.timeout_seconds)
        if order.retries:
            said.append(f"{order.retries} more attempt{'' if order.retries == 1 else 's'}")
        if order.on_failure != "stop":
            said.append(f"if it fails: {order.on_failure}")
        if order.decision:
            said.append(f"asks decision {order.decision}")
        said += [f"only if {name} is {' or '.join(values)}" for name, values in order.when.items()]
        said += [f"{name} {how}" for name, how in order.on.items()]
        if order.writes is not None:
            said.append(f"writes {', '.join(order.writes) or 'nothing'}")
        if order.side_effects:
            said.append("has effects outside the workspace")
        checks = [f"check: {line}" for line in order.verify]
    return [plain_line(" · ".join(said)), *map(visible, checks)]


def _limits(tokens: int | None, turns: int | None, price: float | None, seconds: float | None) -> list[str]:
    known = (
        None if tokens is None else f"{tokens:,} tokens",
        None if turns is None else f"{turns} model calls",
        None if price is None else f"${price:,.2f}",
        None if seconds is None else f"{seconds:g} s",
    )
    return [f"at most {', '.join(one for one in known if one)}"] if any(known) else []


def _commands(commands: Sequence[PlannedCommand]) -> list[Line]:
    lines = [Line(text=f"would run without asking ({len(commands)}):", style="bold $text-warning")]
    for one in commands:
        what = " (check)" if one.purpose == "verify" else ""
        lines.append(Line(text=f"{plain_line(one.step_id)}{what}:", style="$foreground-muted"))
        lines += [Line(text=visible(row), style="bold", lead=BAR, words=False) for row in one.command.split("\n")]
    return lines


def _decisions(document: Mapping[str, Any]) -> list[Line]:
    lines: list[Line] = []
    for one in _dicts(document.get("decisions")):
        options = " / ".join(
            plain_line(str(each.get("label") or each.get("id"))) for each in _dicts(one.get("options"))
        )
        text = f"decision {plain_line(str(one.get('id')))}: {plain_line(str(one.get('question')))} ({options})"
        lines.append(Line(text=text, style="$text-secondary", indent=2))
    return [Line(), *lines] if lines else []


# --- what a version changed


def _changes(event: PlanProposedEvent, before: PlanProposedEvent) -> list[Line]:
    """Return a line for each step that was added, removed or changed, and one for the rest of the plan."""
    old, new = _steps(before.document), _steps(event.document)
    titles = {step.id: plain_line(step.title) for step in (*before.steps, *event.steps)}
    lines = [
        Line(text=f"~ {plain_line(step_id)}: {_words(_differing(old[step_id], step))}", style="$text-warning", indent=2)
        for step_id, step in new.items()
        if step_id in old and step != old[step_id]
    ]
    added = [step_id for step_id in new if step_id not in old]
    removed = [step_id for step_id in old if step_id not in new]
    lines += [Line(text=f"+ {one}  {titles.get(one, '')}", style="$text-success", indent=2) for one in added]
    lines += [Line(text=f"- {one}  {titles.get(one, '')}", style="$text-error", indent=2) for one in removed]
    other = [name for name in PLAN_FIELDS if before.document.get(name) != event.document.get(name)]
    if other:
        lines.append(Line(text=f"~ the plan's {', '.join(other)}", style="$text-warning", indent=2))
    nothing = [] if lines else [Line(text="nothing", indent=2)]
    return [Line(text=f"changed since version {before.draft}:", style="bold"), *lines, *nothing]


def _marks(event: PlanProposedEvent, before: PlanProposedEvent) -> dict[str, str]:
    """Return a word on each step that is new or another one than before."""
    old = _steps(before.document)
    return {
        step_id: CHANGED if step_id in old else NEW
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
    return {str(step.get("id")): step for step in _dicts(document.get("steps"))}


def _dicts(value: object) -> list[dict[str, Any]]:
    if not isinstance(value, list):
        return []
    return [cast("dict[str, Any]", each) for each in cast("list[object]", value) if isinstance(each, dict)]


DROPS: Final = "d again drops the plan; any other key keeps it"
DEFAULT_PATH: Final = "plan.json"
BACK_KEYS: Final = frozenset({"escape", "enter", "left", "q"})


class ProposalPanel(PanelFrame):
    """Shows a proposal; nothing of it runs before the person says so.

    Once another version is asked for, the plan can only be dropped until that is shown, or ``tell`` says why there is
    none.
    """

    TITLE: ClassVar[str] = "Proposed plan"

    @dataclass
    class Answered(Message):
        """The person said what is to become of the plan: ``word`` is one of ``VerdictKind``, ``text`` goes with it.

        To ``edit``, it is to be opened in their editor; once saved, it stays proposed.
        """

        word: str
        text: str = ""

    def __init__(self, event: PlanProposedEvent, guard: TypingGuard, before: PlanProposedEvent | None = None) -> None:
        super().__init__(guard)
        self.event = event
        self._before = before
        self._ids = [step.id for step in event.steps]
        self._chosen = self._ids[0] if self._ids else ""
        self._is_open = False
        self._wished = ""
        self._is_dropping = False
        self._acts: dict[str, Callable[[], object]] = {
            "a": lambda: self.post_message(self.Answered("run")),
            "e": lambda: self.post_message(self.Answered("edit")),
            "r": partial(self.ask_words, "what should change?", self._revise),
            "s": partial(self.ask_words, f"file to write; Enter: {DEFAULT_PATH}", self._save),
            "enter": self._open,
        }

    def lines(self) -> Sequence[Line]:
        """Return the proposal, or all of the step that is open."""
        if self._is_open:
            return step_lines(self.event, self._before, self._chosen)
        lines = proposal_lines(self.event, self._before, self._chosen)
        if not self._wished:
            return lines
        return [Line(text=f"asked for another version: {self._wished}", style="$text-accent", indent=2), *lines]

    def keys(self) -> Sequence[tuple[str, str]]:
        """Return what can be done with it."""
        if self._is_open:
            return [("Esc", "back to the plan")]
        if self._wished:
            return [("d", "drop")]
        short = self.is_narrow
        return [
            ("a", "run" if short else "accept and run"),
            ("e", "edit"),
            ("r", "revise" if short else "revise by a sentence"),
            ("s", "save"),
            ("d", "drop"),
            ("Enter", "open" if short else "open the step"),
            LATER_KEY,
        ]

    def tell(self, notice: str) -> None:
        """Say something above the lines, such as why there is no other version; the keys count again."""
        self._wished = ""
        super().tell(notice)

    def pressed(self, key: str) -> bool:
        """Do what the key says; what took tokens and time is only dropped by a second ``d``."""
        self._is_dropping &= key == "d"
        if self._is_open:
            return self._pressed_in_step(key)
        if key in {"up", "down"}:
            return self._move(1 if key == "down" else -1)
        if key == "escape":
            self.post_message(self.PutOff())
        elif key == "d" and not self._is_dropping:
            self.tell(DROPS)
            self._is_dropping = True
        elif key == "d":
            self.post_message(self.Answered("drop"))
        elif key not in self._acts:
            return False
        elif not self._wished:
            self._acts[key]()
        return True

    def _revise(self, sentence: str) -> None:
        self.end_words()
        if sentence:
            self._wished = sentence
            self.post_message(self.Answered("revise", sentence))
            self.redraw(from_top=True)

    def _save(self, path: str) -> None:
        self.end_words()
        self.post_message(self.Answered("save", path or DEFAULT_PATH))

    def _open(self) -> None:
        if self._chosen:
            self._is_open = True
            self.redraw(from_top=True)

    def _pressed_in_step(self, key: str) -> bool:
        if key not in BACK_KEYS:
            return False
        self._is_open = False
        self.redraw(reveal=step_key(self._chosen))
        return True

    def _move(self, step: int) -> bool:
        """Choose the next step of the plan, as it is drawn; False: there is none further on."""
        keys = list(dict.fromkeys(line.key for line in self.lines() if line.key))
        at = keys.index(step_key(self._chosen)) + step if self._chosen else -1
        if not 0 <= at < len(keys):
            return False
        self._choose(keys[at])
        return True

    def _choose(self, key: str) -> None:
        self._chosen = key.removeprefix("step ")
        self.redraw(reveal=key)

    @on(LineView.Pointed)
    def _point(self, event: LineView.Pointed) -> None:
        event.stop()
        if not self.asleep and not self._is_open:
            self._choose(event.key)
