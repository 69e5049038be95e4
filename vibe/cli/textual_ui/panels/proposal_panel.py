"""ProposalPanel: a plan that was proposed, to read, to have changed, and to run or drop."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Final

from textual import on
from textual.message import Message

from ipc.events import PlanProposedEvent
from vibe.cli.textual_ui.panels.line_view import Line, LineView
from vibe.cli.textual_ui.panels.panel_frame import LATER_KEY, PanelFrame, TypingGuard
from vibe.cli.textual_ui.panels.proposal_text import proposal_lines, step_key, step_lines

DROPS: Final = "d again drops the plan; any other key keeps it"
DEFAULT_PATH: Final = "plan.json"
BACK_KEYS: Final = frozenset({"escape", "enter", "left", "q"})


class ProposalPanel(PanelFrame):
    """Shows a proposal; nothing of it runs before the person says so.

    Once another version is asked for, the plan can only be dropped until that is shown, or ``tell`` says why there is
    none.
    """

    TITLE: ClassVar[str] = "Proposed plan"

    class Accepted(Message):
        """The plan is to be run."""

    class EditWanted(Message):
        """The plan is to be opened in the person's editor."""

    class Revised(Message):
        """The plan is to be changed as a sentence says."""

        def __init__(self, sentence: str) -> None:
            super().__init__()
            self.sentence = sentence

    class SaveWanted(Message):
        """The plan is to be written to a file; it stays proposed."""

        def __init__(self, path: str) -> None:
            super().__init__()
            self.path = path

    class Dropped(Message):
        """The plan is not wanted."""

    def __init__(self, event: PlanProposedEvent, guard: TypingGuard, before: PlanProposedEvent | None = None) -> None:
        super().__init__(guard)
        self.event = event
        self._before = before
        self._ids = [step.id for step in event.steps]
        self._chosen = self._ids[0] if self._ids else ""
        self._is_open = False
        self._wished = ""
        self._is_dropping = False

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
            self.post_message(self.Dropped())
        elif key not in {"a", "e", "r", "s", "enter"}:
            return False
        elif not self._wished:
            self._act(key)
        return True

    def _act(self, key: str) -> None:
        match key:
            case "a":
                self.post_message(self.Accepted())
            case "e":
                self.post_message(self.EditWanted())
            case "r":
                self.ask_words("what should change?", self._revise)
            case "s":
                self.ask_words(f"file to write; Enter: {DEFAULT_PATH}", self._save)
            case _:
                self._open()

    def _revise(self, sentence: str) -> None:
        self.end_words()
        if sentence:
            self._wished = sentence
            self.post_message(self.Revised(sentence))
            self.redraw(from_top=True)

    def _save(self, path: str) -> None:
        self.end_words()
        self.post_message(self.SaveWanted(path or DEFAULT_PATH))

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
