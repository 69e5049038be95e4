"""Recorder: takes commands for the plan that runs, records what they come to, and announces it once it may be known."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec
from msgspec import structs

from ipc.events import (
    Fact,
    PlanAttemptEvent,
    PlanCompletedEvent,
    PlanPausedEvent,
    PlanStepUpdateEvent,
    PlanWaitingEvent,
    WarningEvent,
    WorkDone,
    shortened,
)
from ipc.sink import EventSink
from planner.state.commands import AskReviser, Command, Effect, WaitForRetry
from planner.state.decide import carry_out
from planner.state.schedule import schedule_of
from planner.state.state import IN_PROGRESS, State
from planner.store.store import PlanStore
from subagents.step_result import StepResult
from vibe.core.messages import Usage

_ENDS = frozenset({PlanPausedEvent, PlanCompletedEvent})
"""What must be on disk before anybody learns of it."""

_NONE_USED, _NO_USAGE = Usage(), WorkDone().usage

MOST_HELD = 64
"""Of so many steps at once it is said that they wait for others' files."""


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
        self._held: dict[str, tuple[str, ...]] = {}
        """Of which steps it was said that they wait for others' files, and for whose."""

    def take(self, command: Command) -> None:
        """Carry a command out, with all that follows; raises as ``decide``, if it can't be."""
        facts: list[Fact] = []
        effects = carry_out(self.state, command, self._now(), facts.append)
        if facts:
            self._store.append(*facts)
        for fact in facts:
            kind = type(fact)
            if kind in _ENDS:
                self._end = fact
            elif kind is not PlanAttemptEvent:
                self._sink.publish(_with_work(fact, self.state))
        self._announce_waits(effects)
        if effects:
            self._perform(effects)

    def _announce_waits(self, effects: Sequence[Effect]) -> None:
        """Say what steps wait for that could start but for that; without a word it is a place among those that run."""
        for effect in effects:
            match effect:
                case WaitForRetry(step_id, _, seconds):
                    self._announce_wait(step_id, "retry", seconds=seconds)
                case AskReviser(step_id):
                    self._announce_wait(step_id, "revision")
                case _:
                    pass
        schedule = schedule_of(self.state)
        for step_id in (*self._held, *schedule.queue.parked()):
            if step_id not in schedule.ready:
                self._held.pop(step_id, None)
                continue
            holders = schedule.queue.met_by(step_id, self.state.running)
            if self._held.get(step_id, ()) != holders and (step_id in self._held or len(self._held) < MOST_HELD):
                self._held[step_id] = holders
                self._announce_wait(step_id, "files" if holders else "slot", step_ids=holders)

    def _announce_wait(self, step_id: str, waits_for: str, **told: Any) -> None:
        waits = PlanWaitingEvent(plan_id=self.state.plan_id, step_id=step_id, waits_for=waits_for, **told)
        self._sink.publish(waits)

    def announce_end(self) -> None:
        """Announce how the run ended, now that it is on disk."""
        if self._end is not None:
            self._sink.publish(self._end)

    def warn(self, code: str, message: str) -> None:
        """Announce something a person should know; it changes nothing."""
        self._sink.publish(WarningEvent(plan_id=self.state.plan_id, code=code, message=message))


def _with_work(fact: Fact, state: State) -> Fact:
    """The end of an attempt with what that came to; the journal has it already."""
    if not isinstance(fact, PlanStepUpdateEvent) or fact.previous != IN_PROGRESS:
        return fact
    result = state.steps[fact.step_id].result
    return fact if result is None else structs.replace(fact, work=_work_of(result))


def _work_of(result: StepResult) -> WorkDone:
    work = msgspec.convert(result, WorkDone, from_attributes=True)
    usage = _NO_USAGE if result.usage == _NONE_USED else work.usage
    return structs.replace(work, summary=shortened(result.summary), usage=usage)
