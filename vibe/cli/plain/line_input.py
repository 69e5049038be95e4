"""LineInput: lines typed at a terminal, with history and editing, while other lines are printed above."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TextIO, TypeVar, cast

if TYPE_CHECKING:
    from prompt_toolkit import PromptSession
    from prompt_toolkit.patch_stdout import StdoutProxy

Done = TypeVar("Done")


class LineInput:
    """Reads and writes at the terminal of this process; ``open_lines`` makes one. ``prompt`` says what to show."""

    def __init__(self, session: PromptSession[str], out: StdoutProxy, prompt: Callable[[], str]) -> None:
        self._session = session
        self._out = out
        self._prompt = prompt

    @property
    def out(self) -> TextIO:
        """The same for whoever writes to a stream."""
        return cast("TextIO", self._out)

    def write(self, text: str) -> None:
        """Print text that is safe to print; what has no end of line yet waits for it."""
        self._out.write(text)

    def flush(self) -> None:
        """See that lines are on their way."""
        self._out.flush()

    def refresh(self) -> None:
        """Show the prompt that is due now."""
        self._session.app.invalidate()

    async def aside(self, work: Callable[[], Done]) -> Done:
        """Leave the terminal to something that blocks, in a thread; what was typed is there again afterwards."""
        from prompt_toolkit.application import run_in_terminal
        from prompt_toolkit.application.current import set_app

        with set_app(self._session.app):
            return await run_in_terminal(work, in_executor=True)

    async def line(self) -> str:
        """The next line.

        Raises:
            EOFError: the person closed the input (Ctrl-D).
            KeyboardInterrupt: the person pressed Ctrl-C.
        """
        return await self._session.prompt_async(lambda: f"{self._prompt()} ", handle_sigint=False)


@contextmanager
def open_lines(history: Path, prompt: Callable[[], str]) -> Generator[LineInput]:
    """Lines of the terminal of this process, those of earlier times from the file ``history``."""
    from prompt_toolkit import PromptSession
    from prompt_toolkit.history import FileHistory
    from prompt_toolkit.patch_stdout import StdoutProxy

    history.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    history.touch(mode=0o600)
    session: PromptSession[str] = PromptSession(history=FileHistory(str(history)))
    with StdoutProxy(sleep_between_writes=0.02, raw=True) as out:
        yield LineInput(session, out, prompt)
