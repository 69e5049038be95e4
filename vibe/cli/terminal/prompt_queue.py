"""PromptQueue: asks the person at a terminal the questions of all agents of a run, one at a time."""

from __future__ import annotations

import threading
from collections.abc import AsyncGenerator
from contextlib import ExitStack, asynccontextmanager, suppress
from typing import TYPE_CHECKING

import anyio

from ipc.events import OWN_ANSWERS, AnswerEvent, ApprovalDecisionEvent, Event, WarningEvent
from vibe.cli.environment import CliEnvironment
from vibe.cli.terminal.keyboard import Keyboard
from vibe.system.plain_text import one_line

if TYPE_CHECKING:
    from vibe.cli.terminal.live_tree import LiveTree

PAUSING = "pausing"
"""The code of the warning that the run is pausing."""
NOTICE_LENGTH = 400
NEAR = 8
"""Lines above that may still be changed; on a small screen, lines further up are out of sight."""


class PromptQueue:
    """Holds the terminal for one question after the other; the picture, if any, makes room for each; a ``Desk``.

    Text typed before a question appears is discarded, because it can't be an answer to it. Ctrl-C still reaches the
    run.
    """

    def __init__(self, env: CliEnvironment, picture: LiveTree | None = None) -> None:
        self._env = env
        self._picture = picture
        self._keyboard: Keyboard
        """The keyboard, during a question."""
        self._screen = threading.Lock()
        self.lines = 0
        self._queue = anyio.Lock()
        self._is_asking = False

    @asynccontextmanager
    async def conversation(self, text: str, *, escape: bool = False) -> AsyncGenerator[PromptQueue]:
        """Print ``text`` (safe to print, whole lines) and listen, once no other question is open.

        With ``escape``, the Esc key answers at once. Cancelling gives the terminal back to the picture.

        Raises:
            OSError: the terminal is gone.
        """
        async with self._queue:
            held = ExitStack()
            try:
                await anyio.to_thread.run_sync(self._begin, held, text)
                self._keyboard = held.enter_context(Keyboard(self._env.stdin.fileno(), escape=escape))
                self._keyboard.forget()
                yield self
            finally:
                with anyio.CancelScope(shield=True):
                    await anyio.to_thread.run_sync(held.close)

    async def say(self, text: str) -> None:
        """Print text that is safe to print.

        Raises:
            OSError: the terminal is gone.
        """
        await anyio.to_thread.run_sync(self._say, text)

    async def change_line(self, number: int, text: str) -> None:
        """Replace the text of a line above without disturbing what is being typed.

        A line too far up stays as it is. So does every line once Enter was pressed, because the cursor is then one line
        further down than ``lines`` says.

        Raises:
            OSError: the terminal is gone.
        """
        await anyio.to_thread.run_sync(self._change_line, number, text)

    async def answer(self, prompt: str) -> str | None:
        """Return the line typed after a prompt; None if the input was closed, ``ESCAPE`` for the Esc key.

        Raises:
            OSError: the terminal is gone.
        """
        await self.say(prompt)
        line = await self._keyboard.line()
        self.lines += 1
        return line

    def publish(self, event: Event) -> None:
        """Print that the run is pausing if a question is open, because the picture is hidden then.

        Without a picture, also print that an answer came from elsewhere; a picture says so itself.
        """
        match event:
            case WarningEvent(code=code) if code == PAUSING and self._is_asking:
                text = f"\n  {one_line(event.message, NOTICE_LENGTH)}\n  > "
            case ApprovalDecisionEvent(by=by) | AnswerEvent(by=by) if self._picture is None and by not in OWN_ANSWERS:
                text = f"  answered by {one_line(by)}\n"
            case _:
                return
        with suppress(OSError):
            _write(self._env, text)

    def _say(self, text: str) -> None:
        with self._screen:
            _write(self._env, text)
            self.lines += text.count("\n")

    def _change_line(self, number: int, text: str) -> None:
        with self._screen:
            up = self.lines - number
            if 0 < up <= NEAR and not self._keyboard.has_input():
                _write(self._env, f"\x1b7\x1b[{up}A\r{text}\x1b[K\x1b8")

    def _begin(self, held: ExitStack, text: str) -> None:
        if self._picture is not None:
            held.enter_context(self._picture.pause())
        held.callback(self._end)
        _write(self._env, text)
        self._is_asking = True

    def _end(self) -> None:
        self._is_asking = False
        with suppress(OSError):
            _write(self._env, "\n")


def _write(env: CliEnvironment, text: str) -> None:
    env.stdout.write(text)
    env.stdout.flush()
