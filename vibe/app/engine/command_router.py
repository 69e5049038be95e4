"""CommandRouter: passes the commands for a run to the functions that carry them out."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Self, TypeVar

from ipc.commands import BaseCommand, Reply, RunCommand, tag_of
from ipc.control import refusal

W = TypeVar("W", bound=BaseCommand)


class CommandRouter:
    """Passes each command to the function for its kind, and refuses kinds that have none.

    ``about`` says what this run is, for the refusal.
    """

    def __init__(self, about: str) -> None:
        self._about = about
        self._functions: dict[type[BaseCommand], Callable[[Any], Awaitable[Reply]]] = {}

    def on(self, kind: type[W], function: Callable[[W], Awaitable[Reply]]) -> Self:
        """Let ``function`` carry out every command of a kind, on the run's event loop.

        Several may wait side by side.
        """
        self._functions[kind] = function
        return self

    async def __call__(self, command: RunCommand) -> Reply:
        """Carry the command out, or reply why not."""
        function = self._functions.get(type(command))
        if function is not None:
            return await function(command)
        known = ", ".join(map(tag_of, self._functions))
        takes = f"it takes no {tag_of(command)}, only {known}" if known else f"it does not take {tag_of(command)}"
        return refusal("refused", f"{self._about}; {takes}")
