"""LineDesk: questions to a person who types lines: the next line typed is the answer to the oldest."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager

import anyio


class LineDialogue:
    """One question under way; see ``vibe.cli.terminal.prompt_queue.Dialogue``."""

    def __init__(self, desk: LineDesk) -> None:
        self._desk = desk
        self.lines = 0

    async def say(self, text: str) -> None:
        """Print text that is safe to print."""
        self.lines += text.count("\n")
        self._desk.write(text)

    async def change_line(self, number: int, text: str) -> None:
        """Do nothing: what was printed stays."""

    async def answer(self, prompt: str) -> str | None:
        """The next line typed; None when the person closed the input."""
        return await self._desk.wait(prompt)


class LineDesk:
    """One question after the other. ``write`` prints, ``changed`` is called when another prompt is due."""

    def __init__(self, write: Callable[[str], object], changed: Callable[[], object]) -> None:
        self.write = write
        self.prompt = ""
        """The prompt of the question that waits for a line; empty: none does."""
        self._changed = changed
        self._queue = anyio.Lock()
        self._answered = anyio.Event()
        self._line: str | None = None

    @asynccontextmanager
    async def conversation(self, text: str, *, escape: bool = False) -> AsyncGenerator[LineDialogue]:  # noqa: ARG002
        """Print ``text`` and listen, once no other question is open."""
        async with self._queue:
            self.write(text)
            yield LineDialogue(self)

    def give(self, line: str | None) -> bool:
        """Take a line as the answer (None: the input was closed); False: no question waits for one."""
        if not self.prompt:
            return False
        self.prompt, self._line = "", line
        self._answered.set()
        return True

    async def wait(self, prompt: str) -> str | None:
        """Return the next line that is given; cancelling withdraws the question."""
        *said, label = prompt.split("\n")
        if said:
            self.write("\n".join(said) + "\n")
        self._answered, self.prompt = anyio.Event(), label.strip() or ">"
        self._changed()
        try:
            await self._answered.wait()
        finally:
            self.prompt = ""
            self._changed()
        return self._line
