"""Steering: what is said to the agents of steps while they work, each in whatever process it is."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from typing import TypeAlias

Listen: TypeAlias = Callable[[str], Awaitable[bool]]
"""Takes what is said; False: the agent is not at work, and was not told."""


Identify: TypeAlias = Callable[[], str | None]
"""Tells the id of the agent that is listened for; None: it is not known yet."""


class Steering:
    """Knows, by step, who listens for its agent."""

    def __init__(self) -> None:
        self._listeners: dict[str, tuple[Listen, Identify]] = {}

    @contextmanager
    def heard_by(self, step_id: str, listen: Listen, identify: Identify) -> Generator[None]:
        """Hand what is said to a step's agent to ``listen`` within the block; the innermost of several listens."""
        before = self._listeners.get(step_id)
        self._listeners[step_id] = listen, identify
        try:
            yield
        finally:
            if before is None:
                del self._listeners[step_id]
            else:
                self._listeners[step_id] = before

    def step_of(self, agent_id: str) -> str | None:
        """Return the step whose agent has that id, if it is listened for."""
        return next((step_id for step_id, (_, known) in self._listeners.items() if known() == agent_id), None)

    async def tell(self, step_id: str, text: str) -> bool:
        """Say something to a step's agent, which reads it as the user's before its next model call.

        False: nobody heard it. The step does not run, is a command, or its checks are at work.
        """
        listener = self._listeners.get(step_id)
        return listener is not None and await listener[0](text)
