"""The panels of a plan that runs or ran: one for a step that failed for good, one for leaving while it runs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar, Final

from textual.content import Content
from textual.message import Message

from vibe.cli.textual_ui.log.entry import clean, last_with_words
from vibe.cli.textual_ui.panels.panel_frame import BAR, Line, PanelFrame
from vibe.system.plain_text import counted, one_line
from vibe.view.agent_view import HOST_TOOL, CallView, EntryView
from vibe.view.plan_view import FINAL, CheckView, PlanView, StepView, step_name

LONGEST: Final = 400
"""The most characters shown of a title, a command or an agent's last words."""
MUTED: Final = "$foreground-muted"


class PlanPanel(PanelFrame):
    """A panel about a plan, whose keys post messages."""

    @dataclass
    class Acted(Message):
        """Posted for what the person wants done; without any field set, they only want to go back.

        ``line`` is a slash command to carry out. ``agent`` is the tile to open on the agents' screen, or blank for all
        of them. If ``leaves``, the conversation and the app are to end, and a plan that ``goes_on`` continues in a
        process of its own.
        """

        panel: PlanPanel
        line: str = ""
        agent: str | None = None
        leaves: bool = False
        goes_on: bool = False

    def __init__(self, plan: PlanView) -> None:
        super().__init__()
        self.plan = plan
        self.acts: dict[str, PlanPanel.Acted] = {}
        """The message that each key posts."""

    def pressed(self, key: str) -> bool:
        """Post the key's message, if it has one."""
        return key in self.acts and self.post_message(self.acts[key])


class FailedPanel(PlanPanel):
    """Shows why a step failed, and what can be done about it: nothing, if the run ``is_over`` for good."""

    TITLE: ClassVar[str] = "Failed"
    COLOUR: ClassVar[str] = "$text-error"
    DEFAULT_CSS = """
    FailedPanel { border-left: outer $error; }
    """

    def __init__(self, plan: PlanView, step: StepView, *, is_over: bool) -> None:
        super().__init__(plan)
        self._step = step
        self._is_whole = False
        is_command = step.order is not None and step.order.command is not None
        self._has_agent = not is_command and step.id not in plan.state.unfolded
        self._hears = self._has_agent and not is_over
        if not is_over:
            self.acts |= {"r": self.Acted(self, f"/retry {step.id}"), "k": self.Acted(self, f"/skip {step.id}")}
        self.acts["o"] = self.Acted(self, agent=f"{plan.id}/{step.id}")

    def lines(self) -> Sequence[Line]:
        """Return the failed checks with exit code and tries, the end of the output, and the agent's last words."""
        step, words = self._step, last_words(self._step) if self._has_agent else ""
        name = step_name(step, self.plan)
        title = "" if name == step.title else f"  {one_line(step.title, LONGEST)}"
        lines = self._head((one_line(name), "bold"), (title, ""))
        for check in [check for check in step.checks.values() if check.status == "failed"] or [None]:
            what, facts = (step.reason, "") if check is None else (check.command, _tries(check))
            text = Content.assemble(("✗ ", self.COLOUR), one_line(what, LONGEST))
            lines.append(Line(text=text, lead="  ", indent=2, facts=facts))
        rows = [row for row in clean(failed_output(step).expandtabs(4)).split("\n") if row.strip()]
        shown = rows if self._is_whole else last_with_words(rows)
        more = f"{counted(len(rows) - len(shown), 'more line')} · Enter" if len(rows) > len(shown) else ""
        for place, row in enumerate(shown, start=1):
            lines.append(Line(text=row, lead=f"  {BAR}", facts=more if place == len(shown) else "", words=False))
        if words:
            lines.append(Line(text=f'"{words}"', style="italic", lead="  ", facts="the agent's last words"))
        return [*lines, *self._gap()]

    def keys(self) -> Sequence[tuple[str, str]]:
        """Return what can be done."""
        tell = "tell" if self.is_narrow else "tell it something first"
        keys = [("r", "retry"), ("t", tell), ("k", "skip"), ("o", "open"), ("Esc", "later")]
        return [each for each in keys if each[0] in {*self.acts, "t" * self._hears, "Esc"}]

    def _hint(self) -> str:
        held = blocked_by(self.plan, self._step.id)
        return "" if self.is_narrow or not held else one_line(f"blocks {', '.join(held)}", self.size.width // 2)

    def pressed(self, key: str) -> bool:
        """Handle Esc, Enter and ``t``, and the keys that post a message."""
        if key == "escape":
            self.post_message(self.PutOff())
        elif key == "enter":
            self._is_whole = not self._is_whole
            self.redraw()
        elif key == "t" and self._hears:
            self.ask_words("what should it know? then it tries again", self._retry)
        return key in {"escape", "enter", "t"} or super().pressed(key)

    def _retry(self, words: str) -> None:
        """Have the step tried again, with words for its agent."""
        self.end_words()
        self.post_message(self.Acted(self, f"/retry {self._step.id} {words}".rstrip()))


def _tries(check: CheckView) -> str:
    code = f"exit {check.exit_code} · " if check.exit_code is not None else ""
    return code + ("1 try" if check.failures == 1 else f"{check.failures} tries")


def failed_output(step: StepView) -> str:
    """Return the output of the step's command or check that failed last; it must be cleaned before it is shown."""
    calls = (entry for entry in _newest(step) if isinstance(entry, CallView) and entry.tool == HOST_TOOL)
    return next((call.text for call in calls if call.outcome in {"failed", "error"}), "")


def last_words(step: StepView) -> str:
    """Return the last paragraph an agent of the step said, as one line; blank if none said anything."""
    words = next((entry.text.strip() for entry in _newest(step) if entry.kind == "answer"), step.summary.strip())
    return one_line(words.rpartition("\n\n")[2], LONGEST)


def _newest(step: StepView) -> Iterator[EntryView]:
    return (entry for agent in reversed(step.agents.values()) for entry in reversed(agent.entries.values()))


def blocked_by(plan: PlanView, step_id: str) -> list[str]:
    """Return the ids of the steps that depend on a step, directly or not, in plan order."""
    held = {step_id}
    for step in plan.steps.values():  # a step's dependencies come before it
        if step.status not in FINAL and held.intersection(step.depends_on):
            held.add(step.id)
    return [each for each in plan.steps if each in held and each != step_id]


def failed_steps(plan: PlanView) -> list[StepView]:
    """Return the steps of a plan that failed for good, that is, without a revision of the plan to come."""
    goes_on = plan.ended_at is None
    orders = ((step, step.state.outline.order) for step in plan.failed.values() if not step.replanning)
    return [step for step, order in orders if not goes_on or order is None or order.on_failure != "replan"]


class LeavePanel(PlanPanel):
    """Asks what is to become of a running plan when the person leaves; ``goes_on`` says how to come back to it.

    ``can_outlive`` if the plan can go on without the app.
    """

    TITLE: ClassVar[str] = "Leave?"
    COLOUR: ClassVar[str] = "$text-warning"

    def __init__(self, plan: PlanView, goes_on: str, *, can_outlive: bool) -> None:
        super().__init__(plan)
        self._ways = {
            "p": ("pause it and leave", f"agents stop at a safe point, commands when they are done; {goes_on}"),
            "b": ("leave it running  ", f"vibe --attach {plan.id} looks on; open requests wait"),
            "c": ("cancel the plan   ", "changes so far stay"),
        }
        self.acts["p"] = self.Acted(self, leaves=True)
        self.acts["b"] = self.Acted(self, leaves=True, goes_on=True)
        self.acts["c"] = self.Acted(self, "/cancel", leaves=True)
        self.acts["escape"] = self.Acted(self)
        if not can_outlive:
            del self._ways["b"], self.acts["b"]

    def lines(self) -> Sequence[Line]:
        """Return the ways to leave."""
        rows = [
            Line(text=Content.assemble((key, f"bold {self.COLOUR}"), f" {says}  ", (about, MUTED)), indent=2)
            for key, (says, about) in self._ways.items()
        ]
        return [*self._head(("a plan is running", "")), *(() if self.is_low else rows), *self._gap()]

    def keys(self) -> Sequence[tuple[str, str]]:
        """Return the key to stay, and the keys to leave if there is no room for their lines."""
        ways = [(key, says.split(" ")[0]) for key, (says, _) in self._ways.items()] if self.is_low else []
        return [*ways, ("Esc", "stay")]

    def _facts(self) -> str:
        return f"{self.plan.done}/{self.plan.total} · {counted(len(self.plan.running), 'agent')} at work"
