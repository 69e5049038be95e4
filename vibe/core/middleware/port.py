"""Middleware: the base class of code that looks at a conversation between its turns and may warn, shorten or end it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Sequence
from itertools import takewhile
from typing import TypeAlias

from anyio.abc import TaskGroup
from msgspec import Struct

from vibe.core.budget import Budget
from vibe.core.messages import Outcome, ToolCall
from vibe.core.session.folder import Transcript

HOST_NOTICE = "Notice from the host: "
"""The start of every user message that was written by the host, not by a person."""


Reminders: TypeAlias = Callable[[], Sequence[str]]
"""Returns the current state an agent must not lose when its conversation is summarised, such as its to-do list."""


class TurnContext(Struct, frozen=True, kw_only=True):
    """A conversation between two turns. ``context_tokens`` estimates the size of the next prompt."""

    transcript: Transcript
    budget: Budget
    context_tokens: int


class Stop(Struct, frozen=True, kw_only=True):
    """End the work. ``reason`` is a stable word, ``detail`` is for people."""

    outcome: Outcome
    reason: str
    detail: str


class Notice(Struct, frozen=True):
    """Tell the model something. ``HOST_NOTICE`` is prepended to it."""

    text: str


class Warn(Struct, frozen=True, kw_only=True):
    """Warn the people who watch. ``code`` is a stable word."""

    code: str
    message: str


class Compact(Struct, frozen=True, kw_only=True):
    """Shorten the conversation before it continues. ``threshold`` is the number of tokens it exceeds."""

    threshold: int


Verdict: TypeAlias = Stop | Notice | Warn | Compact


def last_notices(transcript: Transcript) -> Iterator[str]:
    """Yield the host's notices since a person last spoke, newest first.

    They are read from the transcript, so a resumed agent is not told the same again.
    """
    prompts = (prompt.content for prompt in reversed(transcript.prompts))
    return takewhile(lambda text: text.startswith(HOST_NOTICE), prompts)


class Middleware:
    """One concern of an agent loop. A hook that is not overridden does nothing. One instance serves one agent.

    The loop awaits each hook, so a slow hook delays the agent.
    """

    def before_run(self, tasks: TaskGroup) -> None:
        """Prepare for a run. Tasks started in ``tasks`` end before the run does, however it ends."""

    async def before_turn(self, context: TurnContext) -> Sequence[Verdict]:  # noqa: ARG002
        """Look at the conversation before a model call."""
        return ()

    async def before_tools(self, context: TurnContext, calls: Sequence[ToolCall]) -> Sequence[Warn]:  # noqa: ARG002
        """Look at the tool calls that are about to run."""
        return ()

    async def after_turn(self, context: TurnContext) -> Sequence[Verdict]:  # noqa: ARG002
        """Look at the conversation after a turn that called tools; it includes their results."""
        return ()

    async def before_end(self, context: TurnContext, answer: str) -> Sequence[Notice | Warn]:  # noqa: ARG002
        """Look at an answer that would end the work; a ``Notice`` makes the agent go on."""
        return ()

    async def after_run(self, context: TurnContext) -> Sequence[Warn]:  # noqa: ARG002
        """Look at the conversation once the work has ended. A cancellation waits for this hook."""
        return ()


Hook: TypeAlias = Callable[[Middleware, TurnContext], Awaitable[Sequence[Verdict]]]
