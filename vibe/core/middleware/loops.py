"""LoopDetection: tells an agent that does the same again and again and learns nothing from it, then ends it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, TypeAlias

from vibe.core.messages import AssistantMessage, Message, ToolCall, ToolMessage
from vibe.core.middleware.port import Middleware, Moment, Notice, Stop, Verdict, Warn
from vibe.core.outcome import Outcome
from vibe.core.tools.builtins.background import STILL_RUNNING

WARN_AFTER: Final = 3
"""The agent is told once it has done the same so many times in a row."""
END_AFTER: Final = 6
"""The work ends once it has done so as often as this."""
LONGEST_ROUND: Final = 3
"""So many turns that repeat each other as a group are a loop, too."""

_Turn: TypeAlias = tuple[tuple[str, str, str], ...]
"""Tool, arguments and result of each call of a turn."""


class LoopDetection(Middleware):
    """Compares tools, arguments and results; the same command with another output is work, and waiting is no loop."""

    async def after_turn(self, moment: Moment) -> Sequence[Verdict]:
        """Tell the agent when the last turns were alike, and stop it when it did not heed that."""
        turns = _last_turns(moment.transcript.messages)
        for length in range(1, LONGEST_ROUND + 1):
            alike = _alike(turns, length)
            tools = ", ".join(dict.fromkeys(call[0] for turn in reversed(turns[:length]) for call in turn))
            if alike >= END_AFTER * length:
                detail = f"{tools} was called {END_AFTER} times in a row with the same arguments and the same result"
                return (Stop(outcome=Outcome.FAILED, reason="loop", detail=detail),)
            if alike == WARN_AFTER * length:
                return (
                    Notice(
                        f"you called {tools} {WARN_AFTER} times in a row with the same arguments, and the result was the "
                        "same each time. Calling it again will not change it: try something else, or say what stands in "
                        f"the way. After {END_AFTER} times the work is ended."
                    ),
                    Warn(code="loop", message=f"{tools} was called {WARN_AFTER} times in a row with the same result"),
                )
        return ()


def _alike(turns: Sequence[_Turn], length: int) -> int:
    """How many of the last turns, the last first, repeat a round of so many."""
    count = min(length, len(turns))
    while count < len(turns) and turns[count] == turns[count - length]:
        count += 1
    return count


def _last_turns(messages: Sequence[Message]) -> list[_Turn]:
    """The last turns that called tools, the last first; no more than it takes to know, none from before a wait."""
    turns: list[_Turn] = []
    results: dict[str, str] = {}
    for message in reversed(messages):
        if isinstance(message, ToolMessage):
            results[message.tool_call_id] = message.content
        elif isinstance(message, AssistantMessage):
            if not message.tool_calls or any(_waits(call, results) for call in message.tool_calls):
                break
            turns.append(tuple((call.name, call.arguments, results.get(call.id, "")) for call in message.tool_calls))
            results = {}
            if len(turns) == END_AFTER * LONGEST_ROUND:
                break
    return turns


def _waits(call: ToolCall, results: dict[str, str]) -> bool:
    return call.name == "background" and STILL_RUNNING in results.get(call.id, "").rpartition("\n")[2]
