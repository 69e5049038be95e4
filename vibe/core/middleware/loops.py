"""LoopDetection: ends an agent that does the same again and again and learns nothing from it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from vibe.core.messages import AssistantMessage, Message, ToolMessage
from vibe.core.middleware.port import Middleware, Moment, Stop, Verdict
from vibe.core.outcome import Outcome

LOOP_LENGTH = 3
"""The same calls with the same results so many turns in a row are a loop."""


class LoopDetection(Middleware):
    """Compares tools, arguments and results; the same command with another output is work."""

    async def after_turn(self, moment: Moment) -> Sequence[Verdict]:
        """Stop when the last turns were alike."""
        name = looping_tool(moment.transcript.messages)
        if name is None:
            return ()
        detail = f"{name} was called {LOOP_LENGTH} times in a row with the same result"
        return (Stop(outcome=Outcome.FAILED, reason="loop", detail=detail),)


def looping_tool(messages: Sequence[Message]) -> str | None:
    """The last tool of turns that repeat each other, if the last ones do; looks at no more than those."""
    seen: Counter[tuple[tuple[str, str, str], ...]] = Counter()
    turns = 0
    last = ""
    results: dict[str, str] = {}
    for message in reversed(messages):
        if isinstance(message, ToolMessage):
            results[message.tool_call_id] = message.content
        elif isinstance(message, AssistantMessage):
            if not message.tool_calls:
                return None
            last = last or message.tool_calls[-1].name
            seen[tuple((call.name, call.arguments, results.get(call.id, "")) for call in message.tool_calls)] += 1
            turns += 1
            results = {}
        if turns == LOOP_LENGTH:
            return last if len(seen) == 1 else None
    return None
