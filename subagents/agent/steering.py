"""Messages to the agents of running steps, in this process or in others."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from typing import TypeAlias

Listen: TypeAlias = Callable[[str, str], Awaitable[bool]]
"""Takes a message and its sender, and returns False if it was not delivered because the agent isn't working."""


Identify: TypeAlias = Callable[[], str | None]
"""Returns the agent's id, or None while it is unknown."""


class Steering:
    """Passes messages to the agents of running steps."""

    def __init__(self) -> None:
        self._listeners: dict[str, tuple[Listen, Identify]] = {}
        self._early: dict[str, list[str]] = {}

    @property
    def at_work(self) -> tuple[str, ...]:
        """The steps whose agents are listening."""
        return tuple(self._listeners)

    @contextmanager
    def attempt(self, step_id: str) -> Generator[None]:
        """Within the block, keep messages for a step's agent until it listens."""
        self._early[step_id] = []
        try:
            yield
        finally:
            self._early.pop(step_id, None)

    def keep(self, step_id: str, texts: list[str]) -> None:
        """Keep ``texts``, and later messages, for the agent that takes a step over within the same attempt."""
        self._early[step_id] = texts

    @contextmanager
    def heard_by(self, step_id: str, listen: Listen, identify: Identify) -> Generator[tuple[str, ...]]:
        """Within the block, pass messages for a step's agent to ``listen``. The block receives those kept before.

        Of nested blocks for one step, the innermost counts.
        """
        before = self._listeners.get(step_id)
        self._listeners[step_id] = listen, identify
        try:
            yield tuple(self._early.pop(step_id, ()))
        finally:
            if before is None:
                del self._listeners[step_id]
            else:
                self._listeners[step_id] = before

    def step_of(self, agent_id: str) -> str | None:
        """Return the running step whose agent has this id, or None."""
        return next((step_id for step_id, (_, known) in self._listeners.items() if known() == agent_id), None)

    async def tell(self, step_id: str, text: str, by: str = "") -> bool:
        """Send a message to a step's agent, which reads it as the user's before its next model call.

        ``by`` names who sent it from elsewhere. The step can't complete until the agent has read it. Return False if
        it was not delivered, because no agent works on the step.
        """
        listener, early = self._listeners.get(step_id), self._early.get(step_id)
        if listener is not None:
            return await listener[0](text, by)
        if early is not None:
            early.append(text)
        return early is not None
