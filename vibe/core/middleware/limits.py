"""Middleware that tells an agent when its budget is nearly used up, and stops an agent that repeats itself."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, TypeAlias

from vibe.core.messages import AssistantMessage, Message, Outcome, ToolCall, ToolMessage
from vibe.core.middleware.port import HOST_NOTICE, Middleware, Notice, Stop, TurnContext, Verdict, Warn, last_notices
from vibe.core.tools.builtins.background import STILL_RUNNING

WRAP_UP_SHARE = 0.8
"""The used share of a limit at which the agent is told to finish."""
WRAP_UP = (
    "more than 80 % of this agent's budget is used. Finish what you are doing, leave the files "
    "in a consistent state, and {ending}."
)
SUMMARISE = "end with your closing summary"


class SpendingNotice(Middleware):
    """Tells the agent to finish when a limit of its budget is near. ``ending`` tells it what to end with."""

    def __init__(self, ending: str = SUMMARISE) -> None:
        self._text = WRAP_UP.format(ending=ending)
        self._has_warned = False

    async def before_turn(self, context: TurnContext) -> Sequence[Verdict]:
        """Tell the agent once when 80 % of the budget is used. A resumed agent is not told again."""
        if self._has_warned or context.budget.used_share() < WRAP_UP_SHARE:
            return ()
        self._has_warned = True
        return () if HOST_NOTICE + self._text in last_notices(context.transcript) else (Notice(self._text),)


WARN_AFTER: Final = 3
"""Identical repetitions in a row after which the agent is warned."""
END_AFTER: Final = 6
"""Identical repetitions in a row after which the work ends."""
LONGEST_ROUND: Final = 3
"""The most turns that a repeated group may consist of."""

_Turn: TypeAlias = tuple[tuple[str, str, str], ...]
"""The tool, arguments and result of each call of one turn."""


class LoopDetection(Middleware):
    """Detects an agent that repeats the same calls with the same results.

    The same command with a different output counts as progress, and waiting for a background command is no loop.
    """

    async def after_turn(self, context: TurnContext) -> Sequence[Verdict]:
        """Warn the agent after ``WARN_AFTER`` repetitions of a group of turns, and stop it after ``END_AFTER``."""
        messages = context.transcript.messages
        last, *others = _last_turns(messages, LONGEST_ROUND + 1) or [()]
        if last not in others:
            return ()
        turns = _last_turns(messages, END_AFTER * LONGEST_ROUND)
        for length in range(1, LONGEST_ROUND + 1):
            repeating = _repeating(turns, length)
            tools = ", ".join(dict.fromkeys(call[0] for turn in reversed(turns[:length]) for call in turn))
            if repeating >= END_AFTER * length:
                detail = f"{tools} was called {END_AFTER} times in a row with the same arguments and the same result"
                return (Stop(outcome=Outcome.FAILED, reason="loop", detail=detail),)
            if repeating == WARN_AFTER * length:
                return (
                    Notice(
                        f"you called {tools} {WARN_AFTER} times in a row with the same arguments, and the result was "
                        "the same each time. Calling it again will not change it: try something else, or say what "
                        f"stands in the way. After {END_AFTER} times the work is ended."
                    ),
                    Warn(code="loop", message=f"{tools} was called {WARN_AFTER} times in a row with the same result"),
                )
        return ()


def _repeating(turns: Sequence[_Turn], length: int) -> int:
    """Return how many of the turns, newest first, consist of repetitions of one group of ``length`` turns."""
    count = min(length, len(turns))
    while count < len(turns) and turns[count] == turns[count - length]:
        count += 1
    return count


def _last_turns(messages: Sequence[Message], most: int) -> list[_Turn]:
    """Return up to ``most`` of the latest turns that called tools, newest first, back to the last wait or answer."""
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
            if len(turns) == most:
                break
    return turns


def _waits(call: ToolCall, results: dict[str, str]) -> bool:
    """Return True if a call waited for a background command that is still running."""
    return call.name == "background" and STILL_RUNNING in results.get(call.id, "").rpartition("\n")[2]
