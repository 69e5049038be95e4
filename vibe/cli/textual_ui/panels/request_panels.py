"""The panels of requests to the person: approvals, questions and decisions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import ClassVar, Final

from rich.cells import cell_len
from textual import on
from textual.content import Content

from ipc.commands import AnswerQuestion, Approve, Decide
from ipc.events import ApprovalRequestEvent, CommandDisplay, PlanDecisionEvent, QuestionEvent
from vibe.cli.textual_ui.log.painter import diff_blocks
from vibe.cli.textual_ui.panels.panel_frame import BAR, Line, LineView, PanelFrame
from vibe.cli.textual_ui.panels.request_queue import PendingRequest, RequestReply
from vibe.front import request_text as texts

MOST_UNCOUNTED: Final = 12
"""The most lines of an argument that are shown without saying how many there are."""
LONGEST_INLINE: Final = 200
"""The most characters of a one-line argument that is shown on the line of its name."""
BESIDE: Final = 40
"""The most cells to say beside a key what a lasting approval covers; anything longer goes above the keys."""
COMMAND: Final = "command"
PROMPT: Final = "  $ "
WARN: Final = "$text-warning"
MUTED: Final = "$foreground-muted"


class RequestPanel(PanelFrame):
    """The panel of one request."""

    COLOUR: ClassVar[str] = WARN

    def __init__(self, pending: PendingRequest) -> None:
        super().__init__()
        self.pending = pending
        self._has_replied = False

    def reply(self, reply: RequestReply) -> None:
        """Give the person's answer; only the first one counts, unless it is refused."""
        if not self._has_replied:
            self._has_replied = True
            self.screen.run_worker(self._answer(reply), group="answers")  # must go on even if the panel is removed

    async def _answer(self, reply: RequestReply) -> None:
        problem = await self.pending.queue.answer(self.pending, reply)
        if problem and self.is_attached:
            self._has_replied = False
            self.tell(problem)

    @property
    def asking_step(self) -> tuple[str, str]:
        """Words for the step that asks, blank if none does, and their style."""
        name = self.pending.queue.step_of(self.pending.id)
        return (f"  for step {texts.visible(name)}" if name else "", MUTED)


class ApprovalPanel(RequestPanel):
    """Asks for approval of a tool call; Enter alone answers nothing, and Esc puts the request off."""

    TITLE: ClassVar[str] = "Permission"

    def __init__(self, pending: PendingRequest, event: ApprovalRequestEvent) -> None:
        super().__init__(pending)
        self._event = event
        covers = texts.covered(event)
        self._beside = covers if len(covers) <= BESIDE else ""

    def lines(self) -> Sequence[Line]:
        """Return the whole call, with nothing cut and nothing that can act on the terminal."""
        event, (verb, what, facts) = self._event, texts.head_of(self._event)
        body = [*_call(event)]
        head = self._head((verb, ""), (f" {what}".rstrip(), "bold"), (f"  {facts}".rstrip(), MUTED), self.asking_step)
        is_command = bool(body) and body[0].lead == PROMPT
        lines = [*body, *head] if self.is_low and is_command else [*head, *body]  # a command must always be in sight
        lines += self._gap() if body else ()
        if not event.covers:
            lines.append(Line(text="can only be allowed once", style=MUTED, indent=2))
        elif not self._beside or self.is_narrow:
            lines.append(Line(text=f"s this session, a always here: {texts.covered(event)}", style=MUTED, indent=2))
        return lines

    def keys(self) -> Sequence[tuple[str, str]]:
        """Return the answers that are offered."""
        event = self._event
        answers = texts.possible_answers(covers=bool(event.covers), edits=event.edits)
        if self.is_narrow:  # an edit has five answers, of which yes and no come first
            return [(one.key, one.word) for one in sorted(answers, key=lambda one: event.edits and one.key not in "yn")]
        more = {"s": f": {self._beside}" if self._beside else "", "n": "…"}
        return [(each.key, each.says + more.get(each.key, "")) for each in answers]

    def _hint(self) -> str:
        """Return what Esc does."""
        return "" if self.is_narrow else "Esc later"

    def _foot(self) -> Sequence[tuple[str, str]]:
        """Return what confines the call, where it would act, and the rule that makes vibe ask."""
        *answers, rule = [(text, WARN if is_unusual else MUTED) for text, is_unusual in texts.foot_of(self._event)]
        return [*answers, *([(f"in {texts.visible(self._event.cwd)}", MUTED)] if self._event.cwd else []), rule]

    def pressed(self, key: str) -> bool:
        """Answer, if the key is one that is offered."""
        if key == "escape":
            self.post_message(self.PutOff())
            return True
        answer = texts.answer_for(key)
        if answer is None or answer.key not in {name for name, _ in self.keys()}:
            return answer is not None or key in {"enter", "space"}
        if answer.scope is None:
            self.ask_words("why not? the agent reads it (optional)", self._refuse)
        else:
            self.reply(Approve(request_id=self.pending.id, allow=True, scope=answer.scope))
        return True

    def _refuse(self, reason: str) -> None:
        self.reply(Approve(request_id=self.pending.id, allow=False, reason=reason))


def _call(event: ApprovalRequestEvent) -> Iterator[Line]:
    """Yield lines with what the head does not say about a call."""
    if texts.says_more(event):
        yield Line(text=texts.visible(event.summary), style="bold", indent=2)
    shown, diff = texts.shown_arguments(event), texts.diff_of(event)
    if diff:
        shown.pop("content", None)
    if not shown and isinstance(event.preview, CommandDisplay):
        shown = {"command": event.preview.command}
    for name, text in shown.items():
        yield from _argument(name, text)
    if diff:
        rows = [texts.visible(row.expandtabs(4)) for row in diff.removesuffix("\n").split("\n")]
        for block in diff_blocks("\n".join(rows)):
            look = block.look.rpartition("--")[2]
            yield Line(text=block.content, lead=block.first, look=look, hangs=True, words=False)


def _argument(name: str, text: str) -> Iterator[Line]:
    is_full = name in texts.FULL
    style = "bold" if is_full else ""
    rows = texts.without_gaps(text if is_full else text.removesuffix("\n"))
    is_long = len(rows) > MOST_UNCOUNTED
    if len(rows) == 1 and len(text) <= LONGEST_INLINE and name != COMMAND:
        said = Content.assemble((f"{texts.visible(name)}: ", MUTED), (texts.visible(rows[0]), style))
        yield Line(text=said, words=False, indent=2)
        return
    if name != COMMAND or is_long:
        yield Line(text=f"{texts.visible(name)}{f' ({len(rows)} lines)' if is_long else ''}:", style=MUTED)
    first, rest = (PROMPT, " " * len(PROMPT)) if name == COMMAND else (BAR, BAR)
    for number, row in enumerate(rows):
        lead = rest if number else first
        yield Line(text=texts.visible(row), style=style, lead=lead, hangs=name == COMMAND, words=False)


WIDEST_LABEL: Final = 28
"""The widest label, in cells, with which descriptions are aligned in a column."""


class OptionChooser:
    """The options of one question, with the cursor and what is picked."""

    def __init__(self, choosing: texts.NumberedQuestion) -> None:
        self.choosing = choosing
        self.cursor = len(choosing.options) if choosing.typed else choosing.default[0] if choosing.default else 0
        self.picked = set(choosing.default) if choosing.several else set[int]()

    @property
    def count(self) -> int:
        """The number of rows to choose from, of which the last may be for the person's own words."""
        return len(self.choosing.options) + self.choosing.own_words

    @property
    def is_on_other(self) -> bool:
        """True if the cursor is on the row for the person's own words."""
        return self.cursor == len(self.choosing.options)

    @property
    def key(self) -> str:
        """The key of the line under the cursor."""
        return f"option {self.cursor}"

    def point(self, key: str) -> bool:
        """Move the cursor to the option of a clicked line; return False if the line is not an option."""
        name, _, number = key.partition(" ")
        if name != "option":
            return False
        self.cursor = int(number)
        return True

    def move(self, step: int) -> bool:
        """Move the cursor; return False if it is at the end already."""
        moved = min(max(self.cursor + step, 0), self.count - 1)
        has_moved, self.cursor = moved != self.cursor, moved
        return has_moved

    def go_to(self, digit: str) -> bool:
        """Move the cursor to the option of that number; return False if there is none."""
        number = int(digit) if digit.isascii() and digit.isdecimal() else 0
        if self.choosing.typed or not 1 <= number <= self.count:
            return False
        self.cursor = number - 1
        return True

    def lines(self, *, short: bool = False) -> list[Line]:
        """Return a line for each option, without descriptions if ``short``."""
        marks = self.choosing.default if not self.choosing.several else ()
        options = [
            (texts.visible(one.label) + "*" * (position in marks), "" if short else texts.visible(one.description))
            for position, one in enumerate(self.choosing.options)
        ]
        column = max([cell_len(label) for label, about in options if about] or [0])
        column = column if column <= WIDEST_LABEL else 0
        if self.choosing.own_words:
            options.append((texts.TYPED if self.choosing.typed else texts.OTHER, ""))
        padded = [(label + " " * (column - cell_len(label)) if about else label, about) for label, about in options]
        return [self._line(position, label, about) for position, (label, about) in enumerate(padded)]

    def _line(self, position: int, label: str, about: str) -> Line:
        is_here = position == self.cursor
        is_option = position < len(self.choosing.options)
        box = ("[x] " if position in self.picked else "[ ] ") if self.choosing.several and is_option else ""
        text = Content.assemble(
            (f"{'▸' if is_here else ' '} {' ' if self.choosing.typed else position + 1} ", f"bold {WARN}"),
            box,
            (label, "bold" if is_here else ""),
            (f"   {about}" if about else "", MUTED),
        )
        return Line(text=text, look="chosen" if is_here else "", indent=4, key=f"option {position}")


class ChoicePanel(RequestPanel):
    """Lets the person choose among the options of ``chooser``."""

    VERB: ClassVar[str] = ""
    """The word for pressing an option's number if only one can be picked."""

    def __init__(self, pending: PendingRequest, chooser: OptionChooser) -> None:
        super().__init__(pending)
        self.chooser = chooser

    def asked(self) -> Sequence[Line]:
        """Return the lines of the question."""
        raise NotImplementedError

    def _worded(self, lead: str, question: str, behind: tuple[str, str], more: Sequence[Line]) -> list[Line]:
        """Return the lines of a question, ``behind`` its first line what it is about, and below it ``more``."""
        first, *others = map(texts.visible, question.split("\n"))
        head, *gap = self._head((lead, MUTED), (first, "bold"), behind)
        return [head, *(Line(text=text, style="bold", indent=2, lead="  ") for text in others), *more, *gap]

    def accept(self, positions: Sequence[int], words: str = "") -> None:
        """Take the picked options, the person's own words, or both."""
        raise NotImplementedError

    def decline(self) -> None:
        """Decline to answer."""
        raise NotImplementedError

    def lines(self) -> Sequence[Line]:
        """Return the question and its options."""
        return [*self.asked(), *self.chooser.lines(short=self.has_class("-tiny") and self.is_narrow), *self._gap()]

    def keys(self) -> Sequence[tuple[str, str]]:
        """Return the keys for choosing."""
        choosing = self.chooser.choosing
        numbers = (f"1-{min(9, self.chooser.count)}", "pick" if choosing.several else self.VERB)
        if self.has_class("-tiny") and self.is_narrow and not choosing.typed:
            return [numbers]
        enter = ("Enter", "done") if choosing.several else ("↑↓ Enter", "choose")
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
            self.ask_words(texts.TYPED, self._take_words)
        elif picked:
            self.accept(picked)
        else:
            self.tell(f"Pick at least one (number or Space). Esc: {chooser.choosing.declines}.")

    def _take_words(self, words: str) -> None:
        self.end_words()
        if words:
            self.accept(sorted(self.chooser.picked), words)

    @on(LineView.Pointed)
    def _point(self, event: LineView.Pointed) -> None:
        event.stop()
        if not self.asleep and self.chooser.point(event.key):
            self.redraw()


class QuestionPanel(ChoicePanel):
    """Asks one to four questions of an agent; Esc declines them all, and ← goes back to the previous one."""

    TITLE: ClassVar[str] = "Question"
    VERB: ClassVar[str] = "answer"

    def __init__(self, pending: PendingRequest, event: QuestionEvent) -> None:
        self._questions = event.questions
        self._choosers = [OptionChooser(texts.choosing_of_question(question)) for question in event.questions]
        self._answers: list[tuple[str, ...]] = [()] * len(self._choosers)
        self._at = 0
        super().__init__(pending, self._choosers[0])

    def asked(self) -> Sequence[Line]:
        """Return the current question, with the answer it was given before if any."""
        question = self._questions[self._at]
        count = f"{self._at + 1} of {len(self._questions)}: " if len(self._questions) > 1 else ""
        header = f"[{texts.visible(question['header'])}] " if question.get("header") else ""
        said = ", ".join(map(texts.visible, self._answers[self._at]))
        answered = [Line(text=f"answered: {said}", style="$text-success", indent=2)] if said else []
        return self._worded(f"{count}{header}", question["question"], self.asking_step, answered)

    def keys(self) -> Sequence[tuple[str, str]]:
        """Return the keys for answering."""
        *keys, escape = super().keys()
        return [*keys, *([("←", "back")] if self._at else []), escape]

    def pressed(self, key: str) -> bool:
        """Handle a key as every choice does, and also those that go back."""
        if key in {"left", "backspace"} and self._at:
            self._go_to(self._at - 1)
            return True
        return super().pressed(key)

    def accept(self, positions: Sequence[int], words: str = "") -> None:
        """Take the labels and the words as the answer to the current question, and go on to the next."""
        labels = [self.chooser.choosing.options[position].label for position in positions]
        self._answers[self._at] = tuple(filter(None, (*labels, words)))
        if self._at + 1 < len(self._choosers):
            self._go_to(self._at + 1)
        else:
            self.reply(AnswerQuestion(request_id=self.pending.id, answers=tuple(self._answers)))

    def decline(self) -> None:
        """Decline all questions."""
        self.reply(AnswerQuestion(request_id=self.pending.id, answers=()))

    def _go_to(self, number: int) -> None:
        self._at, self.chooser = number, self._choosers[number]
        self.redraw(from_top=True)


class DecisionPanel(ChoicePanel):
    """Asks for a decision of a plan, and shows how much time is left for it; ``now`` returns Unix seconds.

    Esc puts the decision off; the plan goes on as far as it can.
    """

    TITLE: ClassVar[str] = "Decision"
    VERB: ClassVar[str] = "decide"

    def __init__(self, pending: PendingRequest, event: PlanDecisionEvent, now: Callable[[], float]) -> None:
        super().__init__(pending, OptionChooser(texts.choosing_of(event)))
        self._event = event
        self._now = now

    def on_mount(self) -> None:
        """Start the countdown if the time is limited."""
        if self._event.timeout_seconds:
            self.set_interval(1.0, self.redraw)

    def asked(self) -> Sequence[Line]:
        """Return the question, and the time left if it is limited."""
        event, name = self._event, f"  {texts.visible(self._event.decision_id)}"
        left = texts.time_left(event, self._now()).strip() if event.timeout_seconds else ""
        more = [Line(text=left, style=WARN, indent=2)] if left else []
        return self._worded("", event.question, (name, MUTED), more)

    def accept(self, positions: Sequence[int], words: str = "") -> None:  # noqa: ARG002  only options are asked for
        """Decide for the picked options."""
        chosen = tuple(self._event.options[position] for position in positions)
        self.reply(Decide(decision_id=self._event.decision_id, selections=chosen))

    def decline(self) -> None:
        """Put the decision off."""
        self.post_message(self.PutOff())


def panel_for(pending: PendingRequest, now: Callable[[], float]) -> PanelFrame:
    """Return the panel for a request; ``now`` returns Unix seconds."""
    event = pending.event
    if isinstance(event, ApprovalRequestEvent):
        return ApprovalPanel(pending, event)
    if isinstance(event, QuestionEvent):
        return QuestionPanel(pending, event)
    return DecisionPanel(pending, event, now)
