"""The panels of what a person is asked: ApprovalPanel, QuestionPanel and DecisionPanel."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar, Final, Literal

from textual import on
from textual.content import Content

from ipc.commands import AnswerQuestion, Approve, Decide
from ipc.events import ApprovalRequestEvent, CommandDisplay, PlanDecisionEvent, QuestionEvent
from vibe.cli.textual_ui.panels.panel_frame import BAR, DIFF_STYLES, LATER_KEY, Line, LineView, PanelFrame, TypingGuard
from vibe.cli.textual_ui.panels.request_queue import PendingRequest
from vibe.front.request_text import (
    FULL,
    SHOWN_BY_DIFF,
    Choosing,
    choosing_of,
    choosing_of_question,
    covered,
    is_repeated,
    time_left,
    visible,
    why,
    without_gaps,
)

LONG: Final = 12
"""Lines of a call above which the reason for asking stands before it: it must not be far below."""
SHORT: Final = 200
SCOPES: Final[Mapping[str, Literal["once", "session", "always"]]] = {"1": "once", "2": "session", "3": "always"}
AT_A_LINE: Final = {"y": "1", "s": "2", "a": "3"}
"""The letters by which the same is answered at a terminal without a screen."""


class ApprovalPanel(PanelFrame):
    """Asks for a yes to a call. Enter alone says nothing; Esc puts a step's off, and stops an agent of the chat."""

    TITLE: ClassVar[str] = "Permission"
    DEFAULT_CSS = """
    ApprovalPanel { border-top: solid $warning; border-title-color: $text-warning; }
    """

    def __init__(self, pending: PendingRequest, event: ApprovalRequestEvent, guard: TypingGuard) -> None:
        super().__init__(guard)
        self._pending = pending
        self._event = event

    def lines(self) -> Sequence[Line]:
        """Return the call, the rule that asks, and what a lasting yes would let pass."""
        return approval_lines(self._event, self._pending.step_title)

    def keys(self) -> Sequence[tuple[str, str]]:
        """Return the answers."""
        short = self.is_narrow
        lasting = [("2", "session" if short else "this session"), ("3", "always")] if self._event.covers else []
        edits = [("e", "edits" if short else "all edits of this run")] if self._event.edits else []
        if short:
            return [("1", "once"), *lasting, ("n", "no"), *edits]
        escape = LATER_KEY if self._pending.step_title else ("Esc", "stop the agent")
        return [("1", "once"), *lasting, *edits, ("n", "no"), escape]

    def pressed(self, key: str) -> bool:
        """Answer, if the key is offered."""
        if key == "escape":
            if self._pending.step_title:
                self.post_message(self.PutOff())
            return bool(self._pending.step_title)
        key = AT_A_LINE.get(key, key)
        if key not in {name for name, _ in self.keys()}:
            return key in {"enter", "space"} | SCOPES.keys()
        if key == "n":
            self.ask_words("reason (optional)", self._refuse)
        else:
            answer = Approve(request_id=self._pending.id, allow=True, scope=SCOPES.get(key, "edits"))
            self.reply(self._pending, answer)
        return True

    def _refuse(self, reason: str) -> None:
        self.reply(self._pending, Approve(request_id=self._pending.id, allow=False, reason=reason))


def approval_lines(event: ApprovalRequestEvent, step_title: str = "") -> list[Line]:
    """Return all of a call that waits for a yes; nothing in it is cut or can act on the terminal."""
    whose = f"  for step: {visible(step_title)}" if step_title else ""
    heading = Line(
        text=Content.assemble((visible(event.tool), "bold"), " wants to run", (whose, "$text-secondary")), indent=2
    )
    call, about = _call(event), _about(event)
    return [heading, *about, *call] if len(call) > LONG else [heading, *call, *about]


def _call(event: ApprovalRequestEvent) -> list[Line]:
    lines: list[Line] = []
    if event.summary and not is_repeated(event):
        lines.append(Line(text=visible(event.summary), style="bold", indent=2))
    shown = {name: value for name, value in event.arguments.items() if not event.diff or name not in SHOWN_BY_DIFF}
    for name in sorted(shown, key=lambda name: name not in FULL):
        value = shown[name]
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        lines += _argument(name, text, alone=len(shown) == 1 and name == "command")
    if not shown and isinstance(event.preview, CommandDisplay):
        lines += _argument("command", event.preview.command, alone=True)
    if event.diff:
        lines += map(_diff_line, event.diff.removesuffix("\n").split("\n"))
    return lines


def _argument(name: str, text: str, *, alone: bool) -> list[Line]:
    is_full = name in FULL
    style = "bold" if is_full else ""
    rows = without_gaps(text if is_full else text.removesuffix("\n"))
    if len(rows) == 1 and len(text) <= SHORT and not alone:
        said = Content.assemble((f"{visible(name)}: ", "$foreground-muted"), (visible(rows[0]), style))
        return [Line(text=said, words=False, indent=2)]
    count = f" ({len(rows)} lines)" if len(rows) > LONG else ""
    head = [] if alone and not count else [Line(text=f"{visible(name)}{count}:", style="$foreground-muted")]
    return [*head, *(Line(text=visible(row), style=style, lead=BAR, words=False) for row in rows)]


def _diff_line(text: str) -> Line:
    is_name = text.startswith(("+++", "---"))
    style = "bold" if is_name else DIFF_STYLES.get(text[:1], "")
    return Line(text=visible(text.expandtabs(4)), style=style, lead=BAR, words=False)


def _about(event: ApprovalRequestEvent) -> list[Line]:
    lines = [Line(text=visible(why(event)), style="$text-warning", indent=2)]
    where = [f"in {visible(event.cwd)}"] if event.cwd else []
    if event.confined is not None:
        where.append("confined in a sandbox" if event.confined else "not sandboxed: it can do anything you can")
    if where:
        lines.append(Line(text=", ".join(where), style="$foreground-muted", indent=2))
    if event.covers:
        lines.append(Line(text=f"2 allows in this session, 3 in this folder always: {covered(event)}", indent=2))
    else:
        lines.append(Line(text="this can only be allowed once", style="$foreground-muted", indent=2))
    return lines


OTHER: Final = "other: in your own words"
TYPED: Final = "type an answer"


class OptionChooser:
    """The options of one question while a person chooses."""

    def __init__(self, choosing: Choosing) -> None:
        self.choosing = choosing
        self.cursor = len(choosing.options) if choosing.typed else choosing.default[0] if choosing.default else 0
        self.picked = set(choosing.default) if choosing.several else set[int]()

    @property
    def count(self) -> int:
        """The number of rows to choose from; the last may stand for the person's own words."""
        return len(self.choosing.options) + self.choosing.own_words

    @property
    def is_on_other(self) -> bool:
        """The cursor is on the person's own words."""
        return self.cursor == len(self.choosing.options)

    @property
    def key(self) -> str:
        """The key of the lines under the cursor."""
        return f"option {self.cursor}"

    def point(self, key: str) -> bool:
        """Put the cursor on the option of a line; False: the line is none."""
        name, _, number = key.partition(" ")
        if name != "option":
            return False
        self.cursor = int(number)
        return True

    def move(self, step: int) -> bool:
        """Move the cursor; False: it is at the end."""
        moved = min(max(self.cursor + step, 0), self.count - 1)
        has_moved, self.cursor = moved != self.cursor, moved
        return has_moved

    def go_to(self, digit: str) -> bool:
        """Put the cursor on the option of a number; False: there is none."""
        number = int(digit) if digit.isascii() and digit.isdecimal() else 0
        if self.choosing.typed or not 1 <= number <= self.count:
            return False
        self.cursor = number - 1
        return True

    def lines(self) -> list[Line]:
        """Return a line for each option."""
        lines: list[Line] = []
        for position, option in enumerate(self.choosing.options):
            about = f": {visible(option.description)}" if option.description else ""
            mark = "*" if position in self.choosing.default and not self.choosing.several else ""
            lines.append(self._line(position, f"{visible(option.label)}{mark}", about))
        if self.choosing.own_words:
            lines.append(self._line(len(self.choosing.options), TYPED if self.choosing.typed else OTHER, ""))
        return lines

    def _line(self, position: int, label: str, about: str) -> Line:
        is_here = position == self.cursor
        is_option = position < len(self.choosing.options)
        box = ("[x] " if position in self.picked else "[ ] ") if self.choosing.several and is_option else ""
        text = Content.assemble(
            (f"{'▸' if is_here else ' '} {' ' if self.choosing.typed else position + 1} ", "bold $text-accent"),
            box,
            (label, "bold $text-accent" if is_here else "bold"),
            (about, "$foreground-muted"),
        )
        return Line(text=text, indent=4, key=f"option {position}")


class ChoicePanel(PanelFrame):
    """Has the person choose among the options of ``chooser``."""

    VERB: ClassVar[str] = ""
    """The word for pressing the number of an option, where only one is picked."""

    def __init__(self, pending: PendingRequest, guard: TypingGuard, chooser: OptionChooser) -> None:
        super().__init__(guard)
        self.pending = pending
        self.chooser = chooser

    def asked(self) -> Sequence[Line]:
        """Return the question."""
        raise NotImplementedError

    def accept(self, positions: Sequence[int], words: str = "") -> None:
        """Take the options picked, at least one, or words of the person's own."""
        raise NotImplementedError

    def decline(self) -> None:
        """The person would rather not."""
        raise NotImplementedError

    def lines(self) -> Sequence[Line]:
        """Return who asks, the question and its options."""
        title = self.pending.step_title
        whose = [Line(text=f"for step: {visible(title)}", style="$text-secondary")] if title else []
        return [*whose, *self.asked(), *self.chooser.lines()]

    def keys(self) -> Sequence[tuple[str, str]]:
        """Return the ways to choose."""
        choosing = self.chooser.choosing
        numbers = (f"1-{min(9, self.chooser.count)}", "pick" if choosing.several else self.VERB)
        enter = ("Enter", "done" if choosing.several else "take the marked one")
        return [*([] if choosing.typed else [numbers]), enter, ("Esc", choosing.declines)]

    def pressed(self, key: str) -> bool:
        """Move, pick, confirm or decline."""
        chooser = self.chooser
        if key == "escape":
            self.decline()
        elif key in {"up", "down"} and chooser.move(1 if key == "down" else -1):
            self.redraw(reveal=chooser.key)
        elif key == "enter":
            self._enter()
        elif (key in {"space", " "} and chooser.choosing.several) or chooser.go_to(key):
            self._pick()
        else:
            return False
        return True

    def _pick(self) -> None:
        chooser = self.chooser
        if chooser.is_on_other or not chooser.choosing.several:
            self._enter()
            return
        chooser.picked ^= {chooser.cursor}
        self.redraw(reveal=chooser.key)

    def _enter(self) -> None:
        chooser = self.chooser
        picked = sorted(chooser.picked) if chooser.choosing.several else [chooser.cursor]
        if chooser.is_on_other:
            self.redraw(reveal=chooser.key)
            self.ask_words("in your own words", self._take_words)
        elif picked:
            self.accept(picked)
        else:
            self.tell(f"Pick at least one, by its number or with Space; Esc: {chooser.choosing.declines}.")

    def _take_words(self, words: str) -> None:
        self.end_words()
        if words:
            self.accept((), words)

    @on(LineView.Pointed)
    def _point(self, event: LineView.Pointed) -> None:
        event.stop()
        if not self.asleep and self.chooser.point(event.key):
            self.redraw()


class QuestionPanel(ChoicePanel):
    """Asks one to four questions of an agent. Esc declines them all; ← goes back to the one before."""

    TITLE: ClassVar[str] = "Question"
    VERB: ClassVar[str] = "answer"

    def __init__(self, pending: PendingRequest, event: QuestionEvent, guard: TypingGuard) -> None:
        self._questions = event.questions
        self._choosers = [OptionChooser(choosing_of_question(question)) for question in event.questions]
        self._answers: list[tuple[str, ...]] = [()] * len(self._choosers)
        self._at = 0
        super().__init__(pending, guard, self._choosers[0])

    def asked(self) -> Sequence[Line]:
        """Return the question that is open, and what was answered to it before."""
        question = self._questions[self._at]
        count = f"{self._at + 1} of {len(self._questions)}: " if len(self._questions) > 1 else ""
        header = f"[{visible(question['header'])}] " if question.get("header") else ""
        first, *others = map(visible, question["question"].split("\n"))
        head = Content.assemble((f"{count}{header}", "$foreground-muted"), (first, "bold"))
        lines = [Line(text=head, indent=2), *(Line(text=text, style="bold", indent=2, lead="  ") for text in others)]
        said = ", ".join(map(visible, self._answers[self._at]))
        return [*lines, *([Line(text=f"answered: {said}", style="$text-success", indent=2)] if said else [])]

    def keys(self) -> Sequence[tuple[str, str]]:
        """Return the ways to answer."""
        *keys, escape = super().keys()
        return [*keys, *([("←", "back")] if self._at else []), escape]

    def pressed(self, key: str) -> bool:
        """Go back, too."""
        if key in {"left", "backspace"} and self._at:
            self._go_to(self._at - 1)
            return True
        return super().pressed(key)

    def accept(self, positions: Sequence[int], words: str = "") -> None:
        """Take the labels, or the words, as the answer to the question that is open."""
        labels = tuple(self.chooser.choosing.options[position].label for position in positions)
        self._answers[self._at] = (words,) if words else labels
        if self._at + 1 < len(self._choosers):
            self._go_to(self._at + 1)
        else:
            self._send(tuple(self._answers))

    def decline(self) -> None:
        """Answer none of them."""
        self._send(())

    def _send(self, answers: tuple[tuple[str, ...], ...]) -> None:
        self.reply(self.pending, AnswerQuestion(request_id=self.pending.id, answers=answers))

    def _go_to(self, number: int) -> None:
        self._at, self.chooser = number, self._choosers[number]
        self.redraw(from_top=True)


class DecisionPanel(ChoicePanel):
    """Asks for a decision of a plan, and tells how much time is left for it; ``now`` tells unix seconds.

    Esc puts it off: the plan goes on as far as it can.
    """

    TITLE: ClassVar[str] = "Decision"
    VERB: ClassVar[str] = "decide"

    def __init__(
        self, pending: PendingRequest, event: PlanDecisionEvent, guard: TypingGuard, now: Callable[[], float]
    ) -> None:
        super().__init__(pending, guard, OptionChooser(choosing_of(event)))
        self._event = event
        self._now = now

    def on_mount(self) -> None:
        """Count down, if the time is limited."""
        super().on_mount()
        if self._event.timeout_seconds:
            self.set_interval(1.0, self.redraw)

    def asked(self) -> Sequence[Line]:
        """Return the question, and what happens without an answer."""
        event = self._event
        first, *others = map(visible, event.question.split("\n"))
        lines = [Line(text=f"{visible(event.decision_id)}: {first}", style="bold", indent=2)]
        lines += [Line(text=text, style="bold", lead="  ") for text in others]
        if event.timeout_seconds:
            lines.append(Line(text=time_left(event, self._now()).strip(), style="$text-warning", indent=2))
        return lines

    def accept(self, positions: Sequence[int], words: str = "") -> None:  # noqa: ARG002  only options are asked for
        """Decide for these options."""
        chosen = tuple(self._event.options[position] for position in positions)
        self.reply(self.pending, Decide(decision_id=self._event.decision_id, selections=chosen))

    def decline(self) -> None:
        """Put it off."""
        self.post_message(self.PutOff())


def panel_for(pending: PendingRequest, guard: TypingGuard, now: Callable[[], float]) -> PanelFrame:
    """Return the panel of a request; ``now`` tells unix seconds."""
    event = pending.event
    if isinstance(event, ApprovalRequestEvent):
        return ApprovalPanel(pending, event, guard)
    if isinstance(event, QuestionEvent):
        return QuestionPanel(pending, event, guard)
    return DecisionPanel(pending, event, guard, now)
