"""Limits of an agent: its turns, its spending, and doing the same again and again."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile
from typing import Final, TypeAlias

from vibe.core.messages import AssistantMessage, Message, ToolCall, ToolMessage
from vibe.core.middleware.port import HOST_NOTICE, Middleware, Notice, Stop, TurnContext, Verdict, Warn
from vibe.core.outcome import Outcome
from vibe.core.tools.builtins.background import STILL_RUNNING


class TurnLimit(Middleware):
    """Counts model calls over the transcript except the ``before`` first ones: a resume brings no new allowance."""

    def __init__(self, max_turns: int, before: int = 0) -> None:
        self._max_turns = max_turns
        self._before = before

    async def before_turn(self, context: TurnContext) -> Sequence[Verdict]:
        """Stop once the limit is reached."""
        if context.transcript.turns - self._before < self._max_turns:
            return ()
        detail = f"the limit of {self._max_turns} turns is reached"
        return (Stop(outcome=Outcome.LIMIT, reason="turns", detail=detail),)


WRAP_UP_SHARE = 0.8
WRAP_UP = (
    "more than 80 % of this agent's budget is used. Finish what you are doing, leave the files "
    "in a consistent state, and {ending}."
)
SUMMARISE = "end with your closing summary"


class SpendingNotice(Middleware):
    """Leaves room for an orderly end; the limits themselves are held by the budget, and by the limit of turns.

    ``ending`` is what the agent is to end with; turns are counted as ``TurnLimit`` does.
    """

    def __init__(self, max_turns: int | None = None, before: int = 0, *, ending: str = SUMMARISE) -> None:
        self._max_turns = max_turns
        self._before = before
        self._text = WRAP_UP.format(ending=ending)
        self._said = False

    async def before_turn(self, context: TurnContext) -> Sequence[Verdict]:
        """Say it at 80 % of the tightest limit of tokens, price and turns, once.

        An agent that goes on is not told again.
        """
        if self._said or max(context.budget.used_share(), self._used_turns(context)) < WRAP_UP_SHARE:
            return ()
        self._said = True
        prompts = (prompt.content for prompt in reversed(context.transcript.prompts))
        told = HOST_NOTICE + self._text in takewhile(lambda text: text.startswith(HOST_NOTICE), prompts)
        return () if told else (Notice(self._text),)

    def _used_turns(self, context: TurnContext) -> float:
        """A share of the turns; the last of few is reason enough."""
        turns = context.transcript.turns - self._before
        if self._max_turns is None or not turns:
            return 0.0
        return WRAP_UP_SHARE if turns >= int(WRAP_UP_SHARE * self._max_turns) else 0.0


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

    async def after_turn(self, context: TurnContext) -> Sequence[Verdict]:
        """Tell the agent when the last turns were alike, and stop it when it did not heed that."""
        messages = context.transcript.messages
        last, *others = _last_turns(messages, LONGEST_ROUND + 1) or [()]
        if last not in others:
            return ()
        turns = _last_turns(messages, END_AFTER * LONGEST_ROUND)
        for length in range(1, LONGEST_ROUND + 1):
            alike = _alike(turns, length)
            tools = ", ".join(dict.fromkeys(call[0] for turn in reversed(turns[:length]) for call in turn))
            if alike >= END_AFTER * length:
                detail = f"{tools} was called {END_AFTER} times in a row with the same arguments and the same result"
                return (Stop(outcome=Outcome.FAILED, reason="loop", detail=detail),)
            if alike == WARN_AFTER * length:
                return (
                    Notice(
                        f"you called {tools} {WARN_AFTER} times in a row with the same arguments, and the result was "
                        "the same each time. Calling it again will not change it: try something else, or say what "
                        f"stands in the way. After {END_AFTER} times the work is ended."
                    ),
                    Warn(code="loop", message=f"{tools} was called {WARN_AFTER} times in a row with the same result"),
                )
        return ()


def _alike(turns: Sequence[_Turn], length: int) -> int:
    """Return how many of the last turns, the last first, repeat a round of so many."""
    count = min(length, len(turns))
    while count < len(turns) and turns[count] == turns[count - length]:
        count += 1
    return count


def _last_turns(messages: Sequence[Message], most: int) -> list[_Turn]:
    """The last turns that called tools, the last first; ``most`` at most, none from before a wait."""
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
    return call.name == "background" and STILL_RUNNING in results.get(call.id, "").rpartition("\n")[2]
