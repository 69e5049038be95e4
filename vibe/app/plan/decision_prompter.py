"""DecisionPrompter: asks the user a plan's decisions as they open, one at a time, while other steps go on."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import TypeAlias

import anyio

from ipc.commands import Decide, Pause
from ipc.events import Event, PlanDecisionEvent, PlanStepUpdateEvent
from planner.run.control import PlanControl
from planner.state.outcome import DECISION_REASON

DecisionAsker: TypeAlias = Callable[[PlanDecisionEvent], Awaitable[Sequence[str] | None]]
"""Asks a person to take a decision. Returns the ids of the chosen options, or None to leave it open for now.

Cancelling the call withdraws the question.
"""


class DecisionPrompter:
    """An event sink that has decisions taken as their events arrive, while it is ``at_work``.

    It serves one run of a plan, on one event loop.

    A decision that is taken in another way meanwhile is withdrawn. One that the person does not want to take now is
    left open. The plan goes on, and pauses once nothing is left that could go on without it.
    """

    def __init__(self, ask: DecisionAsker) -> None:
        self._ask = ask
        self._waiting: dict[str, PlanDecisionEvent] = {}
        self._declined: dict[str, PlanDecisionEvent] = {}
        self._running: set[str] = set()
        self._asked: str | None = None
        self._question: anyio.CancelScope | None = None
        self._news = anyio.Event()

    def publish(self, event: Event) -> None:
        """Take note of the plan's decisions."""
        match event:
            case PlanDecisionEvent(selections=(), by=""):
                self._waiting[event.decision_id] = event
            case PlanDecisionEvent():
                self._forget(event.decision_id)
            case PlanStepUpdateEvent(status="in_progress"):
                self._running.add(event.step_id)
            case PlanStepUpdateEvent(status=status) if status != "pending":  # that will be tried again
                self._running.discard(event.step_id)
            case _:
                return
        self._news.set()

    @asynccontextmanager
    async def at_work(self, control: PlanControl) -> AsyncGenerator[None]:
        """Ask for decisions and take them while the block runs."""
        async with anyio.create_task_group() as group:
            group.start_soon(self._ask_in_turn, control)
            yield
            group.cancel_scope.cancel()

    async def _ask_in_turn(self, control: PlanControl) -> None:
        while True:
            self._news = anyio.Event()
            if self._waiting:
                await self._ask_one(next(iter(self._waiting.values())), control)
                continue
            if self._declined and not self._running and not any(one.timeout_seconds for one in self._declined.values()):
                control.submit(Pause(by=DECISION_REASON))
            await self._news.wait()

    async def _ask_one(self, decision: PlanDecisionEvent, control: PlanControl) -> None:
        self._asked = decision.decision_id
        try:
            with anyio.CancelScope() as self._question:
                selections = await self._ask(decision)
                if self._waiting.pop(decision.decision_id, None) is None:
                    return
                if selections:
                    control.submit(Decide(decision_id=decision.decision_id, selections=tuple(selections)))
                else:
                    self._declined[decision.decision_id] = decision
        finally:
            self._asked = self._question = None

    def _forget(self, decision_id: str) -> None:
        self._waiting.pop(decision_id, None)
        self._declined.pop(decision_id, None)
        if self._asked == decision_id and self._question is not None:
            self._question.cancel()
