"""MiddlewarePipeline: asks each middleware in turn."""

from __future__ import annotations

from collections.abc import Sequence

from anyio.abc import TaskGroup

from vibe.core.messages import ToolCall
from vibe.core.middleware.port import Middleware, Stop, TurnContext, Verdict, Warn


class MiddlewarePipeline:
    """Several middlewares as one. The first ``Stop`` is the last verdict: nothing after it is asked."""

    def __init__(self, members: Sequence[Middleware]) -> None:
        self._members = tuple(members)

    def before_run(self, tasks: TaskGroup) -> None:
        """Get each ready for a run that ends with ``tasks``."""
        for member in self._members:
            member.before_run(tasks)

    async def before_turn(self, context: TurnContext) -> list[Verdict]:
        """Return what they say before a model call, in order."""
        verdicts: list[Verdict] = []
        for member in self._members:
            verdicts += await member.before_turn(context)
            if verdicts and isinstance(verdicts[-1], Stop):
                break
        return verdicts

    def refusal(self, call: ToolCall) -> str | None:
        """The first reason against a call."""
        return next((why for member in self._members if (why := member.refusal(call)) is not None), None)

    async def before_tools(self, context: TurnContext, calls: Sequence[ToolCall]) -> list[Warn]:
        """Return what they warn of before calls are run, in order."""
        return [verdict for member in self._members for verdict in await member.before_tools(context, calls)]

    async def before_end(self, context: TurnContext, answer: str) -> list[Verdict]:
        """Return what they say of an answer that would end the work, in order."""
        return [verdict for member in self._members for verdict in await member.before_end(context, answer)]

    async def after_turn(self, context: TurnContext) -> list[Verdict]:
        """Return what they say after a turn, in order."""
        verdicts: list[Verdict] = []
        for member in self._members:
            verdicts += await member.after_turn(context)
            if verdicts and isinstance(verdicts[-1], Stop):
                break
        return verdicts

    async def after_run(self, context: TurnContext) -> list[Verdict]:
        """Return what they say once the work has ended, in order."""
        return [verdict for member in self._members for verdict in await member.after_run(context)]
