"""TerminalPerson: asks the person at the terminal for approvals, answers and decisions, one at a time."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from typing import TYPE_CHECKING, Protocol

import anyio
from msgspec import Struct

from ipc.events import ApprovalRequestEvent, PlanDecisionEvent, PlannedCommand
from planner.plan.inputs import read_value
from planner.plan.placeholders import as_text
from vibe.cli.terminal.prompt_queue import PromptQueue
from vibe.core.tools.ports import ApprovalAnswer
from vibe.core.tools.questions import Question, QuestionAnswer
from vibe.front import request_text as texts
from vibe.system.plain_text import ESCAPE

if TYPE_CHECKING:
    from planner.plan.model import Input
    from vibe.cli.environment import CliEnvironment
    from vibe.cli.terminal.live_tree import LiveTree

YES = frozenset({"y", "yes"})
TERMINAL_CLOSED = ApprovalAnswer(allow=False, reason="the terminal was closed before anyone answered")


class Desk(Protocol):
    """A terminal that asks one question after the other. ``lines`` counts the lines printed so far."""

    lines: int

    def conversation(self, text: str, *, escape: bool = False) -> AbstractAsyncContextManager[Desk]:
        """Print ``text`` (safe to print, whole lines) and listen, once no other question is open.

        With ``escape``, the Esc key answers at once, if there is one.

        Raises:
            OSError: the terminal is gone.
        """
        ...

    async def say(self, text: str) -> None:
        """Print text that is safe to print, during a question.

        Raises:
            OSError: the terminal is gone.
        """

    async def change_line(self, number: int, text: str) -> None:
        """Replace the text of a line above, where that is possible.

        Raises:
            OSError: the terminal is gone.
        """

    async def answer(self, prompt: str) -> str | None:
        """Return the line typed after a prompt; None if the input was closed (Ctrl-D), ``ESCAPE`` for the Esc key.

        Raises:
            OSError: the terminal is gone.
        """
        ...


class TerminalPerson(Struct, eq=False):
    """The person as an ``Approver``; ``answer`` is a ``UserInput``, and ``decide`` a ``DecisionAsker``.

    Ctrl-D or a lost terminal means no to a call. To anything else they decline, as does Esc. ``_asking_step`` returns
    the name of the step that makes a request, by the request's id, or ``""``; it may wait for a picture. ``_clock``
    returns unix seconds.
    """

    _desk: Desk
    _asking_step: Callable[[str], str] = lambda _request_id: ""
    _clock: Callable[[], float] = time.time

    async def approve(self, request: ApprovalRequestEvent) -> ApprovalAnswer:
        """Return the person's answer. Cancelling withdraws the question and gives the terminal back."""
        try:
            step_id = await anyio.to_thread.run_sync(self._asking_step, request.request_id)
            async with self._desk.conversation(texts.question_text(request, step_id)) as conversation:
                return await _yes_or_no(conversation, request)
        except OSError:
            return TERMINAL_CLOSED

    async def answer(self, questions: Sequence[Question], request_id: str = "") -> Sequence[QuestionAnswer] | None:
        """Return an answer to each question, or None once one is declined; cancelling withdraws them."""
        step_id = await anyio.to_thread.run_sync(self._asking_step, request_id)
        whose = f"  for step {texts.visible(step_id)}" if step_id else ""
        count = "a question" if len(questions) == 1 else f"{len(questions)} questions"
        with suppress(OSError):
            async with self._desk.conversation(f"\n? {count} to you{whose}\n", escape=True) as conversation:
                return await _ask_all(conversation, questions)
        return None

    async def decide(self, decision: PlanDecisionEvent) -> Sequence[str] | None:
        """Return the ids of the picked options, or None if the person declines for now."""
        choosing, picked = texts.choosing_of(decision), None
        heading = (
            f"\n? {texts.visible(decision.decision_id)}: {_indented(decision.question)}\n{texts.options_text(choosing)}"
        )
        with suppress(OSError):
            async with (
                self._desk.conversation(heading, escape=True) as conversation,
                self._countdown(conversation, decision),
            ):
                with suppress(OSError):
                    picked = await ask_choice(conversation, choosing)
        return None if picked is None else [decision.options[position] for position in picked.positions]

    @asynccontextmanager
    async def _countdown(self, conversation: Desk, decision: PlanDecisionEvent) -> AsyncGenerator[None]:
        """Show how much time is left until the block ends."""
        if not decision.timeout_seconds:
            yield
            return
        number = conversation.lines
        await conversation.say(texts.time_left(decision, self._clock()) + "\n")
        async with anyio.create_task_group() as group:
            group.start_soon(self._count, conversation, decision, number)
            yield
            group.cancel_scope.cancel()

    async def _count(self, conversation: Desk, decision: PlanDecisionEvent, number: int) -> None:
        with suppress(OSError):  # reading the answer then fails too
            while True:
                await anyio.sleep(1.0)
                await conversation.change_line(number, texts.time_left(decision, self._clock()))


async def ask_choice(conversation: Desk, choosing: texts.NumberedQuestion) -> texts.PickedOptions | None:
    """Return the person's answer, or None if they decline.

    Raises:
        OSError: the terminal is gone.
    """
    prompt = texts.prompt_text(choosing)
    while True:
        line = await conversation.answer(prompt)
        reading = None if line is None else texts.read_choice(line, choosing)
        if isinstance(reading, str):
            await conversation.say(f"  {reading}\n")
        elif reading != texts.OWN_WORDS:
            return reading
        else:
            words = await conversation.answer("  your words (Enter: back)  > ")
            if words is None or words == ESCAPE:
                return None
            if words.strip():
                return texts.PickedOptions(words=words.strip())


def asking(env: CliEnvironment, picture: LiveTree | None = None) -> tuple[PromptQueue, TerminalPerson]:
    """Return the queue that holds the terminal for one question after the other, and the person there."""
    queue = PromptQueue(env, picture)
    return queue, TerminalPerson(queue, picture.asking_step) if picture else TerminalPerson(queue)


def accept_commands(lines: Sequence[PlannedCommand], writes: Sequence[str], env: CliEnvironment) -> bool:
    """Show the commands of a plan that a model wrote, and ask; False without a terminal or without a yes."""
    if not (env.stdin.isatty() and env.stdout.isatty()):
        return False
    return anyio.run(_accept, lines, writes, env)


async def _accept(lines: Sequence[PlannedCommand], writes: Sequence[str], env: CliEnvironment) -> bool:
    shown = "".join(f"{texts.command_line(one)}\n" for one in lines)
    files = f"and its steps would edit these files: {', '.join(map(texts.visible, writes))}\n" if writes else ""
    text = f"A model wrote this plan. It would run these commands without asking again:\n{shown}{files}"
    async with PromptQueue(env).conversation(text) as conversation:
        answer = await conversation.answer("Run them? [y/N] > ")
    return (answer or "").strip().lower() in YES


def ask_inputs(inputs: Sequence[Input], env: CliEnvironment) -> dict[str, object] | None:
    """Return the values that the person at the terminal gives for a plan's inputs, or None if they decline."""
    return anyio.run(_ask_inputs, inputs, env)


async def _ask_inputs(inputs: Sequence[Input], env: CliEnvironment) -> dict[str, object] | None:
    with suppress(OSError):
        async with PromptQueue(env).conversation("The plan wants to know:\n", escape=True) as conversation:
            return await _ask_values(conversation, inputs)
    return None


async def _ask_values(conversation: Desk, inputs: Sequence[Input]) -> dict[str, object] | None:
    values: dict[str, object] = {}
    for one in inputs:
        values[one.name] = await _ask_value(conversation, one)
        if values[one.name] is None:
            return None
    return values


async def _ask_value(conversation: Desk, declared: Input) -> object | None:
    """Ask until the person gives a valid value, or return None if they decline."""
    choices = f"; one of {', '.join(map(as_text, declared.choices))}" if declared.choices else ""
    about = f" {_indented(declared.description)}" if declared.description else ""
    await conversation.say(f"  {declared.name} ({declared.type}{texts.visible(choices)}){about}\n")
    while True:
        line = await conversation.answer("  > ")
        if line is None or line == ESCAPE:
            return None
        value, problem = read_value(declared, line)
        if not problem:
            return value
        await conversation.say(f"  {texts.visible(problem)}\n")


async def _yes_or_no(conversation: Desk, request: ApprovalRequestEvent) -> ApprovalAnswer:
    prompt = texts.prompt_of(request)
    while True:
        line = await conversation.answer(prompt)
        if line is None:
            return ApprovalAnswer(allow=False, reason="the user closed the input")
        answer = texts.parse_answer(line, request)
        if answer is not None:
            return answer
        prompt = texts.UNCLEAR + texts.prompt_of(request)


async def _ask_all(conversation: Desk, questions: Sequence[Question]) -> Sequence[QuestionAnswer] | None:
    answers: list[QuestionAnswer] = []
    for number, question in enumerate(questions, start=1):
        position = f"{number} of {len(questions)}: " if len(questions) > 1 else ""
        answer = await _ask(conversation, question, position)
        if answer is None:
            return None
        answers.append(answer)
    return answers


async def _ask(conversation: Desk, question: Question, position: str) -> QuestionAnswer | None:
    choosing = texts.choosing_of_question(question.model_dump())
    header = f"[{texts.visible(question.header)}] " if question.header else ""
    await conversation.say(f"  {position}{header}{_indented(question.question)}\n{texts.options_text(choosing)}")
    picked = await ask_choice(conversation, choosing)
    if picked is None:
        return None
    if picked.words:
        return QuestionAnswer(question=question.question, answer=picked.words, is_other=True)
    labels = [question.options[position].label for position in picked.positions]
    return QuestionAnswer(question=question.question, answer=", ".join(labels))


def _indented(text: str) -> str:
    return "\n    ".join(map(texts.visible, text.split("\n")))
