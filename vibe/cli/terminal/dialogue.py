"""The place where questions are put to a person, one dialogue after the other, whatever the terminal can do."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from typing import Protocol


class Dialogue(Protocol):
    """The terminal during a question. ``lines`` counts those printed so far."""

    lines: int

    async def say(self, text: str) -> None:
        """Print text that is safe to print, as it is.

        Raises:
            OSError: the terminal is gone.
        """
        ...

    async def change_line(self, number: int, text: str) -> None:
        """Put another text into a line above, where that can be done.

        Raises:
            OSError: the terminal is gone.
        """
        ...

    async def answer(self, prompt: str) -> str | None:
        """The line typed after a prompt; None when the person closed the input (Ctrl-D), ``ESCAPE`` for the Esc key.

        Raises:
            OSError: the terminal is gone.
        """
        ...


class Desk(Protocol):
    """Holds one dialogue after the other."""

    def conversation(self, text: str, *, escape: bool = False) -> AbstractAsyncContextManager[Dialogue]:
        """Print ``text`` (safe to print, whole lines) and listen, once no other question is open.

        With ``escape`` the Esc key answers at once, where there is one.

        Raises:
            OSError: the terminal is gone.
        """
        ...
