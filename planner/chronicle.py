"""What happens to a plan, written to its journal and then announced: one method a fact."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping

from ipc.events import (
    PlanCompletedEvent,
    PlanDecisionEvent,
    PlanPausedEvent,
    PlanResumedEvent,
    PlanRevisedEvent,
    PlanStartedEvent,
    PlanStepUpdateEvent,
    StepOutline,
    WarningEvent,
)
from ipc.sink import EventSink
from planner.instructions import DecisionTaken, EndPlan, MoveStep, Unfinished
from planner.model import Decision, Plan, PlanStatus, StepStatus
from planner.records import (
    AttemptEnded,
    DecisionMade,
    DecisionOpened,
    PlanMoved,
    PlanRevised,
    ProcessAttached,
    StepMoved,
)
from planner.replay import RestoredPlan, total_of
from planner.store import PlanStore
from subagents.executor import StepResult
from vibe.core.outcome import Outcome


class Chronicle:
    """The journal's and the bus's only pen while a plan runs; the record always comes before the event.

    Every method may raise StoreWriteError.
    """

    def __init__(
        self, plan: Plan, store: PlanStore, sink: EventSink, *, version: str = "", now: Callable[[], float] = time.time
    ) -> None:
        self._plan = plan
        self._plan_id = store.plan_id
        self._store = store
        self._sink = sink
        self._version = version
        self._now = now
        self._titles = {step.id: step.title for step in plan.steps}
        self._max_tokens = plan.budget.max_tokens if plan.budget else None

    def attached(self, restored: RestoredPlan) -> None:
        """This process took the plan up, for the first time or again."""
        self._store.append(ProcessAttached(at=self._now(), pid=os.getpid(), version=self._version))
        self._store.append(PlanMoved(at=self._now(), status=PlanStatus.ACTIVE))
        for message in restored.dropped:
            self.warned("journal.torn", message)
        steps = self._outlines(restored)
        if restored.attached:
            done = sum(step.status.is_final for step in restored.steps.values())
            self._sink.publish(
                PlanResumedEvent(
                    plan_id=self._plan_id,
                    goal=self._plan.goal,
                    steps=steps,
                    done=done,
                    tokens=total_of(restored.spent.values()).usage.total_tokens,
                    max_tokens=self._max_tokens,
                )
            )
        else:
            self._sink.publish(
                PlanStartedEvent(
                    plan_id=self._plan_id,
                    goal=self._plan.goal,
                    steps=steps,
                    max_parallel_steps=self._store.settings.max_parallel,
                    note=self._store.settings.note,
                    reused_from=self._store.settings.reused_from,
                    max_tokens=self._max_tokens,
                )
            )

    def moved(self, move: MoveStep, duration_s: float | None) -> None:
        """A step changed status; seconds, if it had been running."""
        self._store.append(
            StepMoved(
                at=self._now(),
                step_id=move.step_id,
                previous=move.previous,
                status=move.status,
                reason=move.reason,
                detail=move.detail,
                attempt=move.attempt,
            )
        )
        self._sink.publish(
            PlanStepUpdateEvent(
                plan_id=self._plan_id,
                step_id=move.step_id,
                title=self._titles[move.step_id],
                status=move.status.value,
                previous=move.previous.value,
                reason=move.reason,
                detail=move.detail,
                attempt=move.attempt,
                duration_s=duration_s,
            )
        )

    def revised(self, record: PlanRevised, plan: Plan) -> None:
        """The plan is another one from now on."""
        self._store.append(record)
        self._plan = plan
        self._titles = {step.id: step.title for step in plan.steps}
        self._sink.publish(PlanRevisedEvent(plan_id=self._plan_id, operations=record.operations, reason=record.reason))

    def attempt_ended(
        self, step_id: str, attempt: int, result: StepResult, *, retry: bool, unfinished: Unfinished | None = None
    ) -> None:
        """An attempt is over; nothing is announced until the step moves. What follows as in AttemptEnded.

        Raises:
            TypeError, ValueError, OverflowError, RecursionError: its output is no JSON value; nothing was written.
        """
        self._store.append(
            AttemptEnded(
                at=self._now(), step_id=step_id, attempt=attempt, result=result, retry=retry, unfinished=unfinished
            ),
        )

    def decision_opened(self, decision: Decision) -> None:
        """A decision waits to be taken."""
        self._store.append(DecisionOpened(at=self._now(), decision_id=decision.id))
        self._announce_decision(decision, (), "")

    def decided(self, decision: Decision, taken: DecisionTaken) -> None:
        """A decision was taken."""
        self._store.append(
            DecisionMade(at=self._now(), decision_id=decision.id, selections=taken.selections, by=taken.by)
        )
        self._announce_decision(decision, taken.selections, taken.by)

    def ended(self, end: EndPlan, outcome: Outcome) -> None:
        """The run is over: written only; announce it with ``announce_end`` once that is on disk."""
        self._store.append(PlanMoved(at=self._now(), status=end.status, reason=end.reason, outcome=outcome))

    def announce_end(self, end: EndPlan, counts: Mapping[str, int], duration_s: float) -> None:
        """Tell everyone that the run is over; ``duration_s`` is the run's."""
        if end.status is PlanStatus.PAUSED:
            self._sink.publish(PlanPausedEvent(plan_id=self._plan_id, reason=end.reason or ""))
            return
        self._sink.publish(
            PlanCompletedEvent(
                plan_id=self._plan_id,
                status=end.status.value,
                counts=dict(counts),
                duration_s=duration_s,
                reason=end.reason,
            )
        )

    def warned(self, code: str, message: str) -> None:
        """Something a person should know; announced, not written."""
        self._sink.publish(WarningEvent(plan_id=self._plan_id, code=code, message=message))

    def _announce_decision(self, decision: Decision, selections: tuple[str, ...], by: str) -> None:
        self._sink.publish(
            PlanDecisionEvent(
                plan_id=self._plan_id,
                decision_id=decision.id,
                question=decision.question,
                options=tuple(option.id for option in decision.options),
                selections=selections,
                by=by,
                labels=tuple(option.label for option in decision.options),
                descriptions=tuple(option.description for option in decision.options),
                multi_select=decision.multi_select,
                default=_default_of(decision),
                timeout_seconds=decision.timeout_seconds,
            )
        )

    def _outlines(self, restored: RestoredPlan) -> tuple[StepOutline, ...]:
        outlines: list[StepOutline] = []
        for step in self._plan.steps:
            was = restored.steps.get(step.id)
            outlines.append(
                StepOutline(
                    id=step.id,
                    title=step.title,
                    mode=step.mode.value,
                    depends_on=tuple(dependency.step for dependency in step.dependencies),
                    status=(was.status if was else StepStatus.PENDING).value,
                    reason=why.reason if (why := restored.reasons.get(step.id)) else None,
                    workspace=step.workspace,
                )
            )
        return tuple(outlines)


def _default_of(decision: Decision) -> tuple[str, ...]:
    default = decision.default or ()
    return (default,) if isinstance(default, str) else tuple(default)
