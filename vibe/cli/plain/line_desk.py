"""LineInput: lines typed at a terminal; LineDesk: takes the next line as the answer to the oldest question."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TextIO, TypeVar, cast

import anyio

if TYPE_CHECKING:
    from prompt_toolkit import PromptSession
    from prompt_toolkit.patch_stdout import StdoutProxy


Done = TypeVar("Done")


class LineInput:
    """Reads and writes at this process's terminal; see ``open_lines``. ``prompt`` returns the prompt to show."""

    def __init__(self, session: PromptSession[str], out: StdoutProxy, prompt: Callable[[], str]) -> None:
        self._session = session
        self.out = cast("TextIO", out)
        """Takes text that is safe to print; an unfinished line waits for its end."""
        self._prompt = prompt

    def refresh(self) -> None:
        """Show the prompt that is due now."""
        self._session.app.invalidate()

    async def aside(self, work: Callable[[], Done]) -> Done:
        """Run something that blocks and uses the terminal, in a thread; typed text is restored afterwards."""
        from prompt_toolkit.application import run_in_terminal
        from prompt_toolkit.application.current import set_app

        with set_app(self._session.app):
            return await run_in_terminal(work, in_executor=True)

    async def line(self) -> str:
        """Return the next line.

        Raises:
            EOFError: the person closed the input (Ctrl-D).
            KeyboardInterrupt: the person pressed Ctrl-C.
        """
        return await self._session.prompt_async(lambda: f"{self._prompt()} ", handle_sigint=False)


@contextmanager
def open_lines(history: Path, prompt: Callable[[], str]) -> Generator[LineInput]:
    """Open the terminal of this process for lines; the file ``history`` holds those of earlier times."""
    from prompt_toolkit import PromptSession
    from prompt_toolkit.history import FileHistory
    from prompt_toolkit.patch_stdout import StdoutProxy

    history.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    history.touch(mode=0o600)
    session: PromptSession[str] = PromptSession(history=FileHistory(str(history)))
    with StdoutProxy(sleep_between_writes=0.02, raw=True) as out:
        yield LineInput(session, out, prompt)


class LineDesk:
    """Asks one question after the other, as a ``Desk``. ``changed`` is called when another prompt is due."""

    def __init__(self, write: Callable[[str], object], changed: Callable[[], object]) -> None:
        self.lines = 0
        self._write = write
        self.prompt = ""
        """The prompt of the question that waits for a line, or ``""`` if none does."""
        self._changed = changed
        self._queue = anyio.Lock()
        self._answered = anyio.Event()
        self._line: str | None = None

    @asynccontextmanager
    async def conversation(self, text: str, *, escape: bool = False) -> AsyncGenerator[LineDesk]:  # noqa: ARG002
        """Print ``text`` and listen, once no other question is open."""
        async with self._queue:
            await self.say(text)
            yield self

    async def say(self, text: str) -> None:
        """Print text that is safe to print."""
        self.lines += text.count("\n")
        self._write(text)

    async def change_line(self, number: int, text: str) -> None:
        """Do nothing, because printed lines stay as they are."""

    def give(self, line: str | None) -> bool:
        """Take a line as the answer (None if the input was closed); return False if no question waits for one."""
        if not self.prompt:
            return False
        self.prompt, self._line = "", line
        self._answered.set()
        return True

    async def answer(self, prompt: str) -> str | None:
        """Return the next line given, or None if the input was closed; cancelling withdraws the question."""
        *heading, label = prompt.split("\n")
        if heading:
            self._write("\n".join(heading) + "\n")
        self._answered, self.prompt = anyio.Event(), label.strip() or ">"
        self._changed()
        try:
            await self._answered.wait()
        finally:
            self.prompt = ""
            self._changed()
        return self._line
