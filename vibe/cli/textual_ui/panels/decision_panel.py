"""DecisionPanel: a decision of a plan, with the time that is left for it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar

from textual import on

from ipc.events import PlanDecisionEvent
from vibe.cli.terminal.approval_text import visible
from vibe.cli.terminal.choice_text import LATER, choosing_of, time_left
from vibe.cli.textual_ui.panels.line_view import Line, LineView
from vibe.cli.textual_ui.panels.option_chooser import OptionChooser
from vibe.cli.textual_ui.panels.panel_frame import LATER_KEY, PanelFrame, TypingGuard
from vibe.cli.textual_ui.panels.request_queue import OptionsReply, PendingRequest


class DecisionPanel(PanelFrame):
    """Asks for a decision. Esc puts it off: the plan goes on as far as it can. ``now`` tells unix seconds."""

    TITLE: ClassVar[str] = "Decision"

    def __init__(
        self, pending: PendingRequest, event: PlanDecisionEvent, guard: TypingGuard, now: Callable[[], float]
    ) -> None:
        super().__init__(guard)
        self._pending = pending
        self._event = event
        self._now = now
        self._chooser = OptionChooser(choosing_of(event))

    def on_mount(self) -> None:
        """Count down, if the time is limited."""
        super().on_mount()
        if self._event.timeout_seconds:
            self.set_interval(1.0, self.redraw)

    def lines(self) -> Sequence[Line]:
        """Return the question, the options, and what happens without an answer."""
        event, title = self._event, self._pending.step_title
        lines = [Line(text=f"for step: {visible(title)}", style="$text-secondary")] if title else []
        first, *others = map(visible, event.question.split("\n"))
        lines.append(Line(text=f"{visible(event.decision_id)}: {first}", style="bold", indent=2))
        lines += [Line(text=text, style="bold", lead="  ") for text in others]
        if event.timeout_seconds:
            lines.append(Line(text=time_left(event, self._now()).strip(), style="$text-warning", indent=2))
        return [*lines, *self._chooser.lines()]

    def keys(self) -> Sequence[tuple[str, str]]:
        """Return the ways to decide."""
        several = self._event.multi_select
        return [
            (f"1-{min(9, self._chooser.count)}", "pick" if several else "decide"),
            ("Enter", "done" if several else "take the marked one"),
            LATER_KEY,
        ]

    def pressed(self, key: str) -> bool:
        """Move, pick, decide or put it off."""
        chooser = self._chooser
        if key == "escape":
            self.post_message(self.PutOff())
        elif key in {"up", "down"} and chooser.move(1 if key == "down" else -1):
            self.redraw(reveal=chooser.key)
        elif key == "enter" or (not chooser.choosing.several and chooser.go_to(key)):
            self._decide()
        elif chooser.choosing.several and (key in {"space", " "} or chooser.go_to(key)):
            chooser.toggle()
            self.redraw(reveal=chooser.key)
        else:
            return False
        return True

    def _decide(self) -> None:
        chooser = self._chooser
        picked = sorted(chooser.picked) if chooser.choosing.several else [chooser.cursor]
        if picked:
            chosen = tuple(self._event.options[position] for position in picked)
            self.reply(self._pending, OptionsReply(selections=chosen))
        else:
            self.tell(f"Pick at least one, by its number or with Space; Esc: {LATER}.")

    @on(LineView.Pointed)
    def _point(self, event: LineView.Pointed) -> None:
        event.stop()
        if not self.asleep and self._chooser.point(event.key):
            self.redraw()
