"""TerminalUserInput: puts an agent's questions to the person at the terminal, one after the other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress

from anyio import to_thread

from vibe.cli.terminal.approval_text import visible
from vibe.cli.terminal.choice_text import (
    Choosing,
    Declined,
    MenuItem,
    OwnWords,
    Picked,
    Unclear,
    options_text,
    prompt_text,
    read_choice,
)
from vibe.cli.terminal.dialogue import ESCAPE, Desk, Dialogue
from vibe.core.tools.ports import Answer, Question


class TerminalUserInput:
    """Asks at the terminal. Esc, an empty line, Ctrl-D or a terminal that is gone: the person would rather not.

    ``asking_step`` tells the title of the step whose question is open (empty: none); it may wait for a picture.
    """

    def __init__(self, queue: Desk, asking_step: Callable[[], str] = str) -> None:
        self._queue = queue
        self._asking_step = asking_step

    async def __call__(self, questions: Sequence[Question], request_id: str = "") -> Sequence[Answer] | None:  # noqa: ARG002
        """An answer to each question; None as soon as one is declined. Cancelling withdraws them."""
        title = await to_thread.run_sync(self._asking_step)
        with suppress(OSError):
            async with self._queue.conversation(_heading(title, len(questions)), escape=True) as conversation:
                return await _ask_all(conversation, questions)
        return None


async def ask_choice(conversation: Dialogue, choosing: Choosing) -> Picked | None:
    """Return the person's answer; None: they decline.

    Raises:
        OSError: the terminal is gone.
    """
    prompt = prompt_text(choosing)
    while True:
        line = await conversation.answer(prompt)
        reading = Declined() if line is None else read_choice(line, choosing)
        match reading:
            case Picked():
                return reading
            case Declined():
                return None
            case OwnWords():
                words = await conversation.answer("  your words (Enter: back)  > ")
                if words is None or words == ESCAPE:
                    return None
                if words.strip():
                    return Picked(words=words.strip())
            case Unclear(why):
                await conversation.say(f"  {why}\n")


async def _ask_all(conversation: Dialogue, questions: Sequence[Question]) -> Sequence[Answer] | None:
    answers: list[Answer] = []
    for number, question in enumerate(questions, start=1):
        position = f"{number} of {len(questions)}: " if len(questions) > 1 else ""
        answer = await _ask(conversation, question, position)
        if answer is None:
            return None
        answers.append(answer)
    return answers


async def _ask(conversation: Dialogue, question: Question, position: str) -> Answer | None:
    choosing = Choosing(
        options=tuple(MenuItem(label=one.label, description=one.description) for one in question.options),
        several=question.multi_select,
        own_words=True,
        typed=question.typed,
    )
    header = f"[{visible(question.header)}] " if question.header else ""
    lines = question.question.split("\n")
    asked = "\n    ".join(visible(line) for line in lines)
    await conversation.say(f"  {position}{header}{asked}\n{options_text(choosing)}")
    picked = await ask_choice(conversation, choosing)
    if picked is None:
        return None
    if picked.words:
        return Answer(question=question.question, answer=picked.words, is_other=True)
    labels = [question.options[position].label for position in picked.positions]
    return Answer(question=question.question, answer=", ".join(labels))


def _heading(title: str, count: int) -> str:
    whose = f"  for step: {visible(title)}" if title else ""
    return f"\n? {'a question' if count == 1 else f'{count} questions'} to you{whose}\n"
