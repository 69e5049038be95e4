"""TerminalApprover: shows a person exactly what would run and takes a yes or a no from the keyboard."""

from __future__ import annotations

from contextlib import ExitStack, suppress

from anyio import CancelScope, to_thread

from vibe.cli.approval_text import PROMPT, UNCLEAR, parse_answer, question_text
from vibe.cli.environment import CliEnvironment
from vibe.cli.keyboard import Keyboard
from vibe.cli.live_tree import LiveTree
from vibe.core.tools.ports import ApprovalAnswer, ApprovalRequest

NOBODY = ApprovalAnswer(allow=False, reason="the terminal was closed before anybody answered")


class TerminalApprover:
    """Asks at the terminal the tree is shown on; the tree makes room while the question is open.

    What was typed before the question appeared is thrown away: nobody agrees to what they have not seen. Ctrl-D, or a
    terminal that is gone, is a no. Ctrl-C stays with the run.
    """

    def __init__(self, tree: LiveTree, env: CliEnvironment) -> None:
        self._tree = tree
        self._env = env

    async def approve(self, request: ApprovalRequest) -> ApprovalAnswer:
        """The person's answer. Cancelling withdraws the question and gives the terminal back to the tree."""
        held = ExitStack()
        try:
            await to_thread.run_sync(self._ask, held, request)
            return await self._answer(held.enter_context(Keyboard(self._env.stdin.fileno())))
        except OSError:
            return NOBODY
        finally:
            with CancelScope(shield=True):
                await to_thread.run_sync(held.close)

    async def _answer(self, keyboard: Keyboard) -> ApprovalAnswer:
        keyboard.forget()
        prompt = PROMPT
        while True:
            await to_thread.run_sync(self._write, prompt)
            line = await keyboard.line()
            if line is None:
                return ApprovalAnswer(allow=False, reason="the user closed the input")
            answer = parse_answer(line)
            if answer is not None:
                return answer
            prompt = UNCLEAR + PROMPT

    def _ask(self, held: ExitStack, request: ApprovalRequest) -> None:
        held.enter_context(self._tree.pause())
        held.callback(self._end_question)
        self._write(question_text(request, self._tree.asking_step(request.request_id)))

    def _end_question(self) -> None:
        with suppress(OSError):
            self._write("\n")

    def _write(self, text: str) -> None:
        self._env.stdout.write(text)
        self._env.stdout.flush()
