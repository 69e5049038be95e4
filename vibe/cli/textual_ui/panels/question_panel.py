"""QuestionPanel: an agent's questions to the person, one after the other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from textual import on
from textual.content import Content

from ipc.events import QuestionEvent
from vibe.cli.terminal.approval_text import visible
from vibe.cli.terminal.choice_text import Choosing, MenuItem
from vibe.cli.textual_ui.panels.line_view import Line, LineView
from vibe.cli.textual_ui.panels.option_chooser import OptionChooser
from vibe.cli.textual_ui.panels.panel_frame import PanelFrame, TypingGuard
from vibe.cli.textual_ui.panels.request_queue import PendingRequest, QuestionReply


class QuestionPanel(PanelFrame):
    """Asks one to four questions. Esc declines them all; ← goes back to the one before."""

    TITLE: ClassVar[str] = "Question"

    def __init__(self, pending: PendingRequest, event: QuestionEvent, guard: TypingGuard) -> None:
        super().__init__(guard)
        self._pending = pending
        self._questions = event.questions
        self._choosers = [OptionChooser(_choosing(question)) for question in event.questions]
        self._answers: list[tuple[str, ...]] = [()] * len(self._choosers)
        self._at = 0

    def lines(self) -> Sequence[Line]:
        """Return the question that is open, and its options."""
        question, title = self._questions[self._at], self._pending.step_title
        lines = [Line(text=f"for step: {visible(title)}", style="$text-secondary")] if title else []
        count = f"{self._at + 1} of {len(self._questions)}: " if len(self._questions) > 1 else ""
        header = f"[{visible(question['header'])}] " if question.get("header") else ""
        first, *others = map(visible, question["question"].split("\n"))
        lines.append(Line(text=Content.assemble((f"{count}{header}", "$foreground-muted"), (first, "bold")), indent=2))
        lines += [Line(text=text, style="bold", indent=2, lead="  ") for text in others]
        said = self._answers[self._at]
        if said:
            lines.append(Line(text=f"answered: {', '.join(map(visible, said))}", style="$text-success", indent=2))
        return [*lines, *self._chooser.lines()]

    def keys(self) -> Sequence[tuple[str, str]]:
        """Return the ways to answer."""
        chooser = self._chooser
        several = chooser.choosing.several
        back = [("←", "back")] if self._at else []
        numbers = (f"1-{chooser.count}", "pick" if several else "answer")
        return [
            *([] if chooser.choosing.typed else [numbers]),
            ("Enter", "done" if several else "take the marked one"),
            *back,
            ("Esc", "rather not say"),
        ]

    def pressed(self, key: str) -> bool:
        """Move, pick, answer or decline."""
        chooser = self._chooser
        if key == "escape":
            self.reply(self._pending, QuestionReply())
        elif key in {"up", "down"} and chooser.move(1 if key == "down" else -1):
            self.redraw(reveal=chooser.key)
        elif key in {"left", "backspace"} and self._at:
            self._go_to(self._at - 1)
        elif key == "enter":
            self._enter()
        elif (key in {"space", " "} and chooser.choosing.several) or chooser.go_to(key):
            self._pick()
        else:
            return False
        return True

    @property
    def _chooser(self) -> OptionChooser:
        return self._choosers[self._at]

    def _pick(self) -> None:
        chooser = self._chooser
        if chooser.is_on_other or not chooser.choosing.several:
            self._enter()
            return
        chooser.toggle()
        self.redraw(reveal=chooser.key)

    def _enter(self) -> None:
        chooser = self._chooser
        if chooser.is_on_other:
            self.redraw(reveal=chooser.key)
            self.ask_words("in your own words", self._take_words)
            return
        picked = sorted(chooser.picked) if chooser.choosing.several else [chooser.cursor]
        if picked:
            self._accept(tuple(chooser.choosing.options[position].label for position in picked))
        else:
            self.tell("Pick at least one, by its number or with Space; Esc: rather not say.")

    def _take_words(self, words: str) -> None:
        self.end_words()
        if words:
            self._accept((words,))

    def _accept(self, answer: tuple[str, ...]) -> None:
        self._answers[self._at] = answer
        if self._at + 1 < len(self._choosers):
            self._go_to(self._at + 1)
        else:
            self.reply(self._pending, QuestionReply(answers=tuple(self._answers)))

    def _go_to(self, number: int) -> None:
        self._at = number
        self.redraw(from_top=True)

    @on(LineView.Pointed)
    def _point(self, event: LineView.Pointed) -> None:
        event.stop()
        if not self.asleep and self._chooser.point(event.key):
            self.redraw()


def _choosing(question: dict[str, Any]) -> Choosing:
    """Return a question as it was announced, with its answers."""
    options = tuple(MenuItem(label=one["label"], description=one.get("description", "")) for one in question["options"])
    return Choosing(
        options=options,
        several=bool(question.get("multi_select")),
        own_words=True,
        typed=bool(question.get("typed")),
    )
