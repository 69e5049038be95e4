"""Recorder: takes commands for the plan that runs, records what they come to, and announces it once it may be known."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ipc.events import Fact, PlanAttemptEvent, PlanCompletedEvent, PlanPausedEvent, WarningEvent
from ipc.sink import EventSink
from planner.state.commands import Command, Effect, Refusal
from planner.state.decide import carry_out
from planner.state.state import State
from planner.store.store import PlanStore

_ENDS = (PlanPausedEvent, PlanCompletedEvent)
"""What must be on disk before anybody learns of it."""


class Recorder:
    """The only one that changes the state of a plan that runs.

    What a command comes to is in the journal before it is announced. What an attempt came to is for the journal alone:
    the step's own event tells it. ``perform`` carries out effects. Every method may raise StoreWriteError.
    """

    def __init__(
        self,
        state: State,
        store: PlanStore,
        sink: EventSink,
        *,
        now: Callable[[], float],
        perform: Callable[[Sequence[Effect]], None],
    ) -> None:
        self.state = state
        self._store = store
        self._sink = sink
        self._now = now
        self._perform = perform
        self._end: Fact | None = None

    def take(self, command: Command) -> Refusal | None:
        """Carry a command out, with all that follows; a refusal says why it can't be."""
        facts: list[Fact] = []
        effects = carry_out(self.state, command, self._now(), facts.append)
        if isinstance(effects, Refusal):
            return effects
        if facts:
            self._store.append(*facts)
        for fact in facts:
            if isinstance(fact, _ENDS):
                self._end = fact
            elif not isinstance(fact, PlanAttemptEvent):
                self._sink.publish(fact)
        self._perform(effects)
        return None

    def announce_end(self) -> None:
        """Announce how the run ended, now that it is on disk."""
        if self._end is not None:
            self._sink.publish(self._end)

    def warn(self, code: str, message: str) -> None:
        """Announce something a person should know; it changes nothing."""
        self._sink.publish(WarningEvent(plan_id=self.state.plan_id, code=code, message=message))
