"""Refused tool calls: what a middleware or a read-only profile forbids is answered in the call's place."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

import msgspec

from ipc.errors import INVALID_JSON
from ipc.events import ToolCallEvent, ToolResultEvent
from ipc.sink import EventSink
from vibe.core.config.patterns import canonical_tool_name
from vibe.core.messages import ToolCall, ToolMessage
from vibe.core.middleware.port import Middleware, MiddlewarePipeline
from vibe.core.outcome import Denial
from vibe.core.tools.executor import ToolBatch, ToolExecutor


class GuardedTools:
    """A ``ToolExecutor`` behind a pipeline. A refusal is a rule at work, whatever was approved."""

    def __init__(self, tools: ToolExecutor, pipeline: MiddlewarePipeline, sink: EventSink) -> None:
        self._tools = tools
        self._pipeline = pipeline
        self._sink = sink

    async def run_all(self, calls: Sequence[ToolCall], record: Callable[[ToolMessage], None]) -> ToolBatch:
        """See ``ToolExecutor.run_all``."""
        reasons = [self._pipeline.refusal(call) for call in calls]
        if not any(reasons):
            return await self._tools.run_all(calls, record)
        messages: list[ToolMessage] = []
        refused = [self._refused(call, why) if why else None for call, why in zip(calls, reasons, strict=True)]

        def keep(message: ToolMessage | None) -> None:
            """Take what an allowed call came to, after the refused ones before it; None: there are no more."""
            while len(messages) < len(calls) and (answer := refused[len(messages)]) is not None:
                messages.append(answer)
                record(answer)
            if message is not None:
                messages.append(message)
                record(message)

        try:
            allowed = [call for call, why in zip(calls, reasons, strict=True) if not why]
            batch = await self._tools.run_all(allowed, keep)
        finally:
            keep(None)
        denials = tuple(
            Denial(tool=call.name, summary=call.name, reason=why, by="rule")
            for call, why in zip(calls, reasons, strict=True)
            if why
        )
        return replace(batch, messages=tuple(messages), denied=(*denials, *batch.denied))

    def _refused(self, call: ToolCall, why: str) -> ToolMessage:
        arguments = _object(call.arguments)
        self._sink.publish(
            ToolCallEvent(
                tool_call_id=call.id,
                tool=call.name,
                arguments=arguments or {},
                summary=call.name,
                raw=call.arguments if arguments is None else None,
            )
        )
        content = f"Denied: {why}. The call was not run; go on without it, or say what you would need."
        self._sink.publish(ToolResultEvent(tool_call_id=call.id, tool=call.name, status="denied", content=content))
        return ToolMessage(content, call.id, call.name, status="denied")


def _object(arguments: str) -> dict[str, object] | None:
    try:
        return msgspec.json.decode(arguments, type=dict[str, object])
    except INVALID_JSON:
        return None


class ReadOnly(Middleware):
    """``refused`` are the tools there are for others. They are not offered.

    A model that asks all the same is denied.
    """

    def __init__(self, agent: str, refused: Iterable[str]) -> None:
        self._agent = agent
        self._refused = frozenset(map(canonical_tool_name, refused))

    def refusal(self, call: ToolCall) -> str | None:
        """The profile's name, where the tool is one of those."""
        name = canonical_tool_name(call.name)
        return f"the agent {self._agent!r} is read-only and has no {name}" if name in self._refused else None
