"""The panels of a plan that runs or ran: FailedPanel, for a step that failed for good, and LeavePanel."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar, Final

from textual.content import Content
from textual.message import Message

from vibe.cli.textual_ui.log.entry import clean
from vibe.cli.textual_ui.panels.panel_frame import BAR, Line, PanelFrame, TypingGuard
from vibe.front.event_text import counted, one_line
from vibe.view.agent_view import HOST_TOOL, CallView, EntryView
from vibe.view.plan_view import FINAL, PlanView, StepView

LAST: Final = 3
"""Lines of what a check or command printed that show at first."""
LONGEST: Final = 400
MUTED: Final = "$foreground-muted"


class PlanPanel(PanelFrame):
    """The panel of a plan."""

    @dataclass
    class Acted(Message):
        """The person wants something done, as the panel's ``ACTIONS`` name it; ``words`` go with it."""

        panel: PlanPanel
        action: str
        words: str = ""

    ACTIONS: ClassVar[dict[str, str]] = {}
    """By key."""

    def __init__(self, plan: PlanView, guard: TypingGuard) -> None:
        super().__init__(guard)
        self.plan = plan

    def act(self, action: str, words: str = "") -> None:
        """Tell what the person wants."""
        self.post_message(self.Acted(self, action, words))

    def pressed(self, key: str) -> bool:
        """Do what the key says."""
        if key not in self.ACTIONS:
            return False
        self.act(self.ACTIONS[key])
        return True


class FailedPanel(PlanPanel):
    """Tells why a step failed, and what can be done about it; ``step`` is the view's, which goes on."""

    TITLE: ClassVar[str] = "Failed"
    COLOUR: ClassVar[str] = "$text-error"
    ACTIONS: ClassVar[dict[str, str]] = {"r": "retry", "k": "skip", "o": "open"}
    DEFAULT_CSS = """
    FailedPanel { border-left: outer $error; }
    """

    def __init__(self, plan: PlanView, step: StepView, guard: TypingGuard) -> None:
        super().__init__(plan, guard)
        self.step = step
        self._is_whole = False

    def lines(self) -> Sequence[Line]:
        """Return the check with its exit code and tries, what it printed last, and the agent's last words."""
        step, said = self.step, last_words(self.step)
        lines = self._head((one_line(step.id), "bold"), (f"  {one_line(step.title, LONGEST)}", ""))
        lines += [*_causes(step), *self._printed()]
        if said:
            lines.append(Line(text=f'"{said}"', style="italic", lead="  ", facts="the agent's last words"))
        return [*lines, *self._gap()]

    def keys(self) -> Sequence[tuple[str, str]]:
        """Return what can be done."""
        return [("r", "retry"), ("k", "skip"), ("o", "open"), ("Esc", "later")]

    def _hint(self) -> str:
        held = blocked_by(self.plan, self.step.id)
        return "" if self.is_narrow or not held else one_line(f"blocks {', '.join(held)}", self.size.width // 2)

    def pressed(self, key: str) -> bool:
        """Do what the key says."""
        if key == "escape":
            self.post_message(self.PutOff())
        elif key == "enter":
            self._is_whole = not self._is_whole
            self.redraw()
        else:
            return super().pressed(key)
        return True

    def _printed(self) -> Iterator[Line]:
        rows = [row for row in clean(failed_output(self.step).expandtabs(4)).split("\n") if row.strip()]
        shown = rows if self._is_whole else rows[-LAST:]
        more = f"{counted(len(rows) - len(shown), 'more line')} · Enter" if len(rows) > len(shown) else ""
        for number, row in enumerate(shown, start=1):
            yield Line(text=row, lead=f"  {BAR}", facts=more if number == len(shown) else "", words=False)


def _causes(step: StepView) -> Iterator[Line]:
    """Yield the checks that fail, or else the reason."""
    failing = [check for check in step.checks.values() if check.status == "failed"]
    for check in failing:
        code = f"exit {check.exit_code} · " if check.exit_code is not None else ""
        tries = "1 try" if check.failures == 1 else f"{check.failures} tries"
        yield _failure(check.command, code + tries)
    if not failing:
        yield _failure(step.reason or step.status)


def _failure(what: str, facts: str = "") -> Line:
    text = Content.assemble(("✗ ", FailedPanel.COLOUR), one_line(what, LONGEST))
    return Line(text=text, lead="  ", indent=2, facts=facts)


def failed_output(step: StepView) -> str:
    """Return what the step's command or check printed when it failed last; not safe to show as it is."""
    calls = (entry for entry in _newest(step) if isinstance(entry, CallView) and entry.tool == HOST_TOOL)
    return next((call.text for call in calls if call.outcome in {"failed", "error"}), "")


def last_words(step: StepView) -> str:
    """Return the last paragraph that an agent of the step said, in a line; blank: none said anything."""
    said = next((entry.text.strip() for entry in _newest(step) if entry.kind == "answer"), step.summary.strip())
    return one_line(said.rpartition("\n\n")[2], LONGEST)


def _newest(step: StepView) -> Iterator[EntryView]:
    return (entry for agent in reversed(step.agents.values()) for entry in reversed(agent.entries.values()))


def blocked_by(plan: PlanView, step_id: str) -> list[str]:
    """Return the ids of the steps that can't begin without one, directly or not, in plan order."""
    held = {step_id}
    for step in plan.steps.values():  # those it comes after stand before it
        if step.status not in FINAL and held.intersection(step.depends_on):
            held.add(step.id)
    return [each for each in plan.steps if each in held and each != step_id]


def failed_steps(plan: PlanView) -> list[StepView]:
    """Return the steps of a plan that failed for good: no better plan is looked for, or will be."""
    goes_on = plan.started_at is not None and plan.ended_at is None
    return [step for step in plan.failed.values() if not (step.replanning or (goes_on and _is_replanned(step)))]


def _is_replanned(step: StepView) -> bool:
    order = step.state.outline.order
    return order is not None and order.on_failure == "replan"


class LeavePanel(PlanPanel):
    """Asks what becomes of a plan that runs when the person leaves; ``goes_on`` says how to come back to it."""

    TITLE: ClassVar[str] = "Leave?"
    COLOUR: ClassVar[str] = "$text-warning"
    ACTIONS: ClassVar[dict[str, str]] = {"p": "pause", "c": "cancel", "escape": "stay"}

    def __init__(self, plan: PlanView, goes_on: str, guard: TypingGuard) -> None:
        super().__init__(plan, guard)
        self._goes_on = goes_on

    def lines(self) -> Sequence[Line]:
        """Return the ways to leave."""
        rows = [
            Line(text=Content.assemble((key, f"bold {self.COLOUR}"), f" {says}   ", (about, MUTED)), indent=2)
            for key, says, about in (
                ("p", "pause it and leave", f"agents stop at a safe point, about 5 s; {self._goes_on}"),
                ("c", "cancel the plan   ", "changes so far stay"),
            )
        ]
        return [*self._head(("a plan is running", "")), *rows, *self._gap()]

    def keys(self) -> Sequence[tuple[str, str]]:
        """Return the way back."""
        return [("Esc", "stay")]

    def _facts(self) -> str:
        plan = self.plan
        return f"{plan.done}/{plan.total} · {counted(len(plan.running), 'agent')} at work"
