"""Middleware: what looks at a conversation between its turns and may end, warn, shorten or refuse."""

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
"""The beginning of every message to the model that no person wrote."""


Reminders: TypeAlias = Callable[[], Sequence[str]]
"""State an agent must not lose, read from its source: its list of things to do, its plan."""


class TurnContext(Struct, frozen=True, kw_only=True):
    """A conversation between two turns. ``context_tokens`` is how long the next prompt will be."""

    transcript: Transcript
    budget: Budget
    context_tokens: int


class Stop(Struct, frozen=True, kw_only=True):
    """End the work; ``reason`` is a stable word, ``detail`` is for people."""

    outcome: Outcome
    reason: str
    detail: str


class Notice(Struct, frozen=True):
    """Tell the model something; ``HOST_NOTICE`` is put before it."""

    text: str


class Warn(Struct, frozen=True, kw_only=True):
    """Tell people something; ``code`` is stable."""

    code: str
    message: str


class Compact(Struct, frozen=True, kw_only=True):
    """Shorten the conversation before it goes on; ``threshold`` in tokens is what it passed."""

    threshold: int


Verdict: TypeAlias = Stop | Notice | Warn | Compact


def last_notices(transcript: Transcript) -> Iterator[str]:
    """Yield what the host said since a person last spoke, the last first; so a resume does not begin anew."""
    prompts = (prompt.content for prompt in reversed(transcript.prompts))
    return takewhile(lambda text: text.startswith(HOST_NOTICE), prompts)


class Middleware:
    """One concern of an agent loop; what it does not override lets everything pass. One instance serves one agent.

    The hooks are awaited between the turns, so what they wait for, the agent waits for.
    """

    def before_run(self, tasks: TaskGroup) -> None:
        """Get ready for a run; what is started in ``tasks`` has ended when the run has, however it ends."""

    async def before_turn(self, context: TurnContext) -> Sequence[Verdict]:  # noqa: ARG002
        """Look at the conversation before a model call."""
        return ()

    async def before_tools(self, context: TurnContext, calls: Sequence[ToolCall]) -> Sequence[Warn]:  # noqa: ARG002
        """Look at the calls that are about to be run."""
        return ()

    async def after_turn(self, context: TurnContext) -> Sequence[Verdict]:  # noqa: ARG002
        """Look at the conversation after a turn that called tools, with their results in it."""
        return ()

    async def before_end(self, context: TurnContext, answer: str) -> Sequence[Notice | Warn]:  # noqa: ARG002
        """Look at an answer that ends the work; a notice makes the agent go on."""
        return ()

    async def after_run(self, context: TurnContext) -> Sequence[Warn]:  # noqa: ARG002
        """Look at the conversation once the work has ended, however it did: a cancellation waits for it."""
        return ()


Hook: TypeAlias = Callable[[Middleware, TurnContext], Awaitable[Sequence[Verdict]]]
