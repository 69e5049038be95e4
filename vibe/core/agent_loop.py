"""AgentLoop: turn after turn until the model asks for no more tools, or a limit, a fault or a person ends it."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from ipc.events import ErrorEvent, UserMessageEvent
from vibe.core.budget import BudgetExhaustedError
from vibe.core.llm.errors import ContextTooLongError, ModelAccessError, ModelError
from vibe.core.messages import AssistantMessage, ToolMessage, Usage, UserMessage
from vibe.core.outcome import Outcome
from vibe.core.stop import NeverStop, StopSignal
from vibe.core.tools.permissions import Denial
from vibe.core.turn import AgentKit, TurnResult, TurnRunner

QUOTA_STATUSES = frozenset({402, 429})
"""The provider's credit or quota is used up: a limit, not a fault."""

LOOP_LENGTH = 3
"""The same call with the same result so many times in a row is a loop."""

WRAP_UP_SHARE = 0.8
WRAP_UP_NOTICE = (
    "Notice from the host: more than 80 % of this agent's budget is used. Finish what you are doing, leave the files "
    "in a consistent state, and end with your closing summary."
)

EMPTY_NOTICE = "Your last answer was empty. Go on with the work, or end with your closing summary."


@dataclass(frozen=True, slots=True, kw_only=True)
class ActResult:
    """What came of a prompt.

    ``reason`` is a stable word: ``turns``, ``budget``, ``loop``, ``empty``, ``context``, ``provider``, ``model``,
    ``blocked``, ``stopped``; None if completed. ``detail`` says it for people. ``cost_usd`` None: unknown.
    """

    outcome: Outcome
    reason: str | None = None
    detail: str = ""
    text: str = ""
    usage: Usage = field(default_factory=Usage)
    cost_usd: float | None = None
    turns: int = 0
    denied: tuple[Denial, ...] = ()
    files_changed: tuple[str, ...] = ()
    error: ModelError | None = None


class AgentLoop:
    """One agent in its conversation. ``max_turns`` counts model calls over the whole transcript."""

    def __init__(self, kit: AgentKit, *, max_turns: int | None = None) -> None:
        self._kit = kit
        self._max_turns = max_turns
        self._turns = TurnRunner(kit)
        self._denied: list[Denial] = []
        self._files_changed: dict[str, None] = {}
        self._warned = False

    async def act(self, prompt: str, stop: StopSignal | None = None) -> ActResult:
        """Answer a prompt, using tools as needed. What goes wrong is a result; only a cancellation is raised."""
        self._kit.transcript.append(UserMessage(prompt))
        self._kit.sink.publish(UserMessageEvent(text=prompt))
        return await self._until_done(stop or NeverStop())

    async def resume(self, stop: StopSignal | None = None) -> ActResult:
        """Go on with a conversation that was cut off, from its last complete turn."""
        transcript = self._kit.transcript
        transcript.close_dangling_calls()
        last = transcript.messages[-1]
        if isinstance(last, AssistantMessage) and last.content.strip():
            return self._result(Outcome.COMPLETED, text=last.content)
        return await self._until_done(stop or NeverStop())

    def interrupted(self) -> ActResult:
        """What a cancelled ``act`` came to so far."""
        return self._result(Outcome.INTERRUPTED, "stopped", "stopped before the end")

    async def _until_done(self, stop: StopSignal) -> ActResult:
        empty_before = False
        while True:
            if stop.requested:
                return self._result(Outcome.INTERRUPTED, "stopped", "stopped at the end of a turn")
            if self._max_turns is not None and self._kit.transcript.turns >= self._max_turns:
                return self._result(Outcome.LIMIT, "turns", f"the limit of {self._max_turns} turns is reached")
            self._give_notice()
            turn = await self._turn()
            if isinstance(turn, ActResult):
                return turn
            ended = self._ending(turn, empty_before=empty_before)
            if ended is not None:
                return ended
            empty_before = not turn.completion.message.tool_calls

    async def _turn(self) -> TurnResult | ActResult:
        try:
            turn = await self._turns.run()
        except BudgetExhaustedError as error:
            return self._result(Outcome.LIMIT, "budget", str(error))
        except ModelAccessError as error:
            return self._failed("provider", error)
        except ContextTooLongError as error:
            return self._failed("context", error)
        except ModelError as error:
            return self._failed("model", error)
        if turn.batch is not None:
            self._denied.extend(turn.batch.denied)
            self._files_changed.update(dict.fromkeys(turn.batch.files_changed))
        return turn

    def _ending(self, turn: TurnResult, *, empty_before: bool) -> ActResult | None:
        """The result, if this turn was the last."""
        message = turn.completion.message
        if message.tool_calls:
            if self._loops():
                call = message.tool_calls[-1].name
                return self._result(
                    Outcome.FAILED, "loop", f"{call} was called {LOOP_LENGTH} times in a row with the same result"
                )
            return None
        if message.content.strip():
            return self._result(Outcome.COMPLETED, text=message.content)
        if empty_before:
            return self._result(Outcome.FAILED, "empty", "the model answered with nothing, twice")
        self._kit.transcript.append(UserMessage(EMPTY_NOTICE))
        return None

    def _loops(self) -> bool:
        """Whether the last turns made the same calls with the same results."""
        seen: Counter[tuple[tuple[str, str, str], ...]] = Counter()
        turns = 0
        results: dict[str, str] = {}
        for message in reversed(self._kit.transcript.messages):
            if isinstance(message, ToolMessage):
                results[message.tool_call_id] = message.content
            elif isinstance(message, AssistantMessage):
                seen[tuple((c.name, c.arguments, results.get(c.id, "")) for c in message.tool_calls)] += 1
                turns += 1
                results = {}
            if turns == LOOP_LENGTH:
                return len(seen) == 1
        return False

    def _give_notice(self) -> None:
        if not self._warned and self._kit.budget.used_share() >= WRAP_UP_SHARE:
            self._warned = True
            self._kit.transcript.append(UserMessage(WRAP_UP_NOTICE))

    def _failed(self, reason: str, error: ModelError) -> ActResult:
        self._kit.sink.publish(ErrorEvent(code=f"model.{reason}", message=str(error)))
        outcome = Outcome.LIMIT if error.status in QUOTA_STATUSES else Outcome.FAILED
        return self._result(outcome, reason, str(error), error=error)

    def _result(
        self,
        outcome: Outcome,
        reason: str | None = None,
        detail: str = "",
        *,
        text: str = "",
        error: ModelError | None = None,
    ) -> ActResult:
        transcript = self._kit.transcript
        blocked = next((denial for denial in self._denied if denial.by == "headless"), None)
        if outcome is Outcome.COMPLETED and blocked is not None:
            outcome, reason = Outcome.BLOCKED, "blocked"
            detail = f"{blocked.summary} was denied, and nobody was there to ask: {blocked.reason}"
        return ActResult(
            outcome=outcome,
            reason=reason,
            detail=detail,
            text=text,
            usage=transcript.usage,
            cost_usd=transcript.cost_usd,
            turns=transcript.turns,
            denied=tuple(self._denied),
            files_changed=tuple(self._files_changed),
            error=error,
        )
