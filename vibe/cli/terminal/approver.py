"""TerminalApprover: a person's yes or no to a tool call, or to the commands of a plan, that they see in full."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

import anyio
from anyio import to_thread

from ipc.events import ApprovalRequestEvent
from vibe.cli.terminal.approval_text import UNCLEAR, parse_answer, prompt_of, question_text, visible
from vibe.cli.terminal.dialogue import Desk, Dialogue
from vibe.core.tools.ports import ApprovalAnswer

if TYPE_CHECKING:
    from vibe.app.plan.command_consent import CommandLine
    from vibe.cli.environment import CliEnvironment

YES = frozenset({"y", "yes"})
TERMINAL_CLOSED = ApprovalAnswer(allow=False, reason="the terminal was closed before anyone answered")


class TerminalApprover:
    """Asks at the terminal. Ctrl-D, or a terminal that is gone, is a no.

    ``step_of`` tells the title of the step that asks by the id of its request; it may wait for a picture.
    """

    def __init__(self, queue: Desk, step_of: Callable[[str], str]) -> None:
        self._queue = queue
        self._step_of = step_of

    async def approve(self, request: ApprovalRequestEvent) -> ApprovalAnswer:
        """The person's answer. Cancelling withdraws the question and gives the terminal back."""
        try:
            title = await to_thread.run_sync(self._step_of, request.request_id)
            async with self._queue.conversation(question_text(request, title)) as conversation:
                return await _answer(conversation, request)
        except OSError:
            return TERMINAL_CLOSED


async def _answer(conversation: Dialogue, request: ApprovalRequestEvent) -> ApprovalAnswer:
    prompt = prompt_of(request)
    while True:
        line = await conversation.answer(prompt)
        if line is None:
            return ApprovalAnswer(allow=False, reason="the user closed the input")
        answer = parse_answer(line, request)
        if answer is not None:
            return answer
        prompt = UNCLEAR + prompt_of(request)


def accept_commands(lines: Sequence[CommandLine], writes: Sequence[str], env: CliEnvironment) -> bool:
    """Show the commands of a plan that a model wrote, and ask; False without a terminal, or on any answer but yes."""
    if not (env.stdin.isatty() and env.stdout.isatty()):
        return False
    return anyio.run(partial(_ask, lines, writes, env))


async def _ask(lines: Sequence[CommandLine], writes: Sequence[str], env: CliEnvironment) -> bool:
    shown = "".join(f"  {one.step_id}{' (check)' if one.check else ''}: {visible(one.line)}\n" for one in lines)
    files = f"and its steps would edit these files: {', '.join(map(visible, writes))}\n" if writes else ""
    text = f"A model wrote this plan. It would run these commands without asking again:\n{shown}{files}"
    from vibe.cli.terminal.prompt_queue import PromptQueue  # noqa: PLC0415  most plans are accepted already

    async with PromptQueue(env).conversation(text) as conversation:
        answer = await conversation.answer("Run them? [y/N] > ")
    return (answer or "").strip().lower() in YES
