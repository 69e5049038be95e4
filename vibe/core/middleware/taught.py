"""Taught: tells the model, between its turns, what hooks and folders' instructions have to say about its work."""

from __future__ import annotations

from collections.abc import Sequence

from vibe.core.middleware.port import Middleware, Notice, Reminders, TurnContext, Verdict, Warn
from vibe.core.tools.guidance import CallGuidance

MAX_RETURNS = 3
"""The times in a row that hooks may send an agent back to work that believes it is done."""


def taught_reminders(guidance: CallGuidance, others: Reminders) -> Reminders:
    """Reminds an agent of what it was taught, besides what ``others`` remind it of."""
    return lambda: (*others(), *guidance.reminders())


class Taught(Middleware):
    """Passes on what ``guidance`` has gathered from the calls of one agent, and asks its hooks before it ends."""

    def __init__(self, guidance: CallGuidance) -> None:
        self._guidance = guidance
        self._returns = 0

    async def before_turn(self, context: TurnContext) -> Sequence[Verdict]:  # noqa: ARG002
        """Return what was said about the calls of the turn before."""
        return [Notice(text) for text in self._guidance.take_notices()]

    async def before_end(self, context: TurnContext, answer: str) -> Sequence[Notice | Warn]:  # noqa: ARG002
        """Return what hooks send back to an agent that believes it is done."""
        hooks = self._guidance.hooks
        text = await hooks.post_agent_turn(answer, again=self._returns) if hooks is not None else None
        if text is None:
            self._returns = 0
            return ()
        if self._returns == MAX_RETURNS:
            self._returns = 0
            message = f"{text} (the agent was sent back {MAX_RETURNS} times already, and ends now)"
            return [Warn(code="hook", message=message)]
        self._returns += 1
        return [Notice(text)]
