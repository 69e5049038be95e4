"""TerminalApprover: shows a person exactly what would run and takes a yes or a no from the keyboard."""

from __future__ import annotations

from collections.abc import Callable

from anyio import to_thread

from vibe.cli.terminal.approval_text import UNCLEAR, parse_answer, prompt_of, question_text
from vibe.cli.terminal.prompt_queue import Conversation, PromptQueue
from vibe.core.tools.ports import ApprovalAnswer, ApprovalRequest

NOBODY = ApprovalAnswer(allow=False, reason="the terminal was closed before anybody answered")


class TerminalApprover:
    """Asks at the terminal. Ctrl-D, or a terminal that is gone, is a no.

    ``step_of`` tells the title of the step that asks by the id of its request; it may wait for a picture.
    """

    def __init__(self, desk: PromptQueue, step_of: Callable[[str], str]) -> None:
        self._desk = desk
        self._step_of = step_of

    async def approve(self, request: ApprovalRequest) -> ApprovalAnswer:
        """The person's answer. Cancelling withdraws the question and gives the terminal back."""
        try:
            title = await to_thread.run_sync(self._step_of, request.request_id)
            async with self._desk.conversation(question_text(request, title)) as conversation:
                return await _answer(conversation, request)
        except OSError:
            return NOBODY


async def _answer(conversation: Conversation, request: ApprovalRequest) -> ApprovalAnswer:
    prompt = prompt_of(request)
    while True:
        line = await conversation.answer(prompt)
        if line is None:
            return ApprovalAnswer(allow=False, reason="the user closed the input")
        answer = parse_answer(line, request)
        if answer is not None:
            return answer
        prompt = UNCLEAR + prompt_of(request)
