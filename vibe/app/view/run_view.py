"""RunView: a run as an observer sees it: events in, steps and totals out; no clock, no terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from graphlib import TopologicalSorter
from typing import Any, TypeAlias, assert_never, cast

from ipc import events as e
from planner.plan.model import StepStatus
from planner.state.evolve import FactInvalidError, evolve
from planner.state.state import State
from vibe.app.view.step_view import PASSING, SUMMARISED, StepView

RUNNING = "in_progress"
ACTIVE = "active"
WAITS_FOR_ANSWER = "waits for your answer"

_Inside: TypeAlias = (
    e.UserMessageEvent
    | e.AssistantDeltaEvent
    | e.ReasoningDeltaEvent
    | e.AssistantEvent
    | e.ToolCallEvent
    | e.ToolStreamEvent
    | e.ToolResultEvent
    | e.CompactStartEvent
    | e.CompactEndEvent
    | e.SubAgentStartedEvent
    | e.SubAgentFinishedEvent
)
_Request: TypeAlias = e.ApprovalRequestEvent | e.ApprovalDecisionEvent | e.QuestionEvent | e.AnswerEvent


@dataclass(frozen=True, slots=True, kw_only=True)
class RunNotice:
    """Something to be said once, above everything that moves. ``kind``: ``note``, ``warning`` or ``error``."""

    kind: str
    message: str
    step_id: str | None


class RunView:
    """A run so far: ``plan`` is the plan's state by its events, the rest is about its agents.

    It belongs to one thread, the one that applies the events.

    Mutable on purpose: a plan may have 10 000 steps and a step hundreds of events a second; a copy of the table, or
    a persistent map, for each would cost more than all the rest. What a reader sees between two events is whole.

    ``steps`` are in plan order, ``running`` and ``failed`` in the order they became so; for those in ``replanning`` a
    better plan is looked for. ``tokens`` are this run's, ``tokens_before`` those of earlier runs, and ``max_tokens``
    what all of them may use (None: no limit). ``cost_usd`` is None once the price of any call is unknown.
    ``started_at`` and ``ended_at`` are in unix seconds. Whoever shows the ``notices`` takes them out.
    """

    def __init__(self) -> None:
        self.plan = State()
        self.goal = ""
        self.steps: dict[str, StepView] = {}
        self.running: dict[str, StepView] = {}
        self.failed: dict[str, StepView] = {}
        self.replanning: dict[str, StepView] = {}
        self.notices: list[RunNotice] = []
        self.tokens = self.tokens_before = 0
        self.max_tokens: int | None = None
        self.cost_usd: float | None = 0.0
        self.calls = 0
        self._helpers: set[str | None] = set()
        self.started_at: float | None = None
        self.ended_at: float | None = None

    @property
    def status(self) -> str:
        """The plan's status."""
        return self.plan.status.value

    @property
    def reason(self) -> str:
        """The reason of the status."""
        return self.plan.reason or ""

    @property
    def counts(self) -> dict[str, int]:
        """Steps per status."""
        return self.plan.counted()

    @property
    def decisions(self) -> dict[str, e.PlanDecisionEvent]:
        """The open decisions, by id."""
        return self.plan.open

    @property
    def total(self) -> int:
        """The number of the plan's steps."""
        return len(self.plan.steps)

    @property
    def done(self) -> int:
        """The number of completed steps; failed and skipped ones don't count."""
        return self.plan.counts[StepStatus.COMPLETED]

    def elapsed(self, now: float) -> float:
        """Seconds from the first event to the last, or to ``now`` (unix seconds) while the run goes on."""
        if self.started_at is None:
            return 0.0
        return max(0.0, (now if self.ended_at is None else self.ended_at) - self.started_at)

    def apply(self, event: e.Event) -> None:
        """Take one event in, in the order of publication."""
        if self.started_at is None:
            self.started_at = event.ts
        match event:
            case (
                e.UserMessageEvent()
                | e.AssistantDeltaEvent()
                | e.ReasoningDeltaEvent()
                | e.AssistantEvent()
                | e.ToolCallEvent()
                | e.ToolStreamEvent()
                | e.ToolResultEvent()
                | e.CompactStartEvent()
                | e.CompactEndEvent()
                | e.SubAgentStartedEvent()
                | e.SubAgentFinishedEvent()
            ):
                self._inside(event)
            case e.UsageEvent():
                self._usage(event)
            case e.ApprovalRequestEvent() | e.ApprovalDecisionEvent() | e.QuestionEvent() | e.AnswerEvent():
                self._request(event)
            case e.WarningEvent() | e.ErrorEvent():
                self._trouble(event)
            case e.SessionStartedEvent() | e.SessionEndedEvent() | e.ToolServerEvent() | e.MemoryEntryEvent():
                return  # of no matter to who watches a plan
            case _:
                self._fact(event)

    def _fact(self, fact: e.Fact) -> None:
        try:
            evolve(self.plan, fact)
        except FactInvalidError:
            return  # of a later version
        match fact:
            case e.PlanStartedEvent() | e.PlanResumedEvent():
                self._begin(fact)
            case e.PlanStepUpdateEvent():
                self._move(fact)
            case e.PlanRevisedEvent():
                self._lay_out()
                message = revision_text(fact.operations, fact.reason)
                self.notices.append(RunNotice(kind="note", message=message, step_id=None))
            case e.PlanPausedEvent() | e.PlanCompletedEvent():
                self.ended_at = fact.ts
            case _:
                pass  # the plan has it

    def _begin(self, event: e.PlanStartedEvent | e.PlanResumedEvent) -> None:
        self.goal, self.ended_at, self.max_tokens = event.goal, None, event.max_tokens
        if isinstance(event, e.PlanResumedEvent):
            self.tokens_before = event.tokens
        elif event.note:
            self.notices.append(RunNotice(kind="note", message=event.note, step_id=None))
        self.steps = {}
        self._lay_out()

    def _lay_out(self) -> None:
        """Have a view of each step the plan has now."""
        levels = _levels({step_id: step.outline.depends_on for step_id, step in self.plan.steps.items()})
        known, self.steps = self.steps, {}
        for step_id, step in self.plan.steps.items():
            view = known.get(step_id)
            if view is None or view.state is not step:
                view = StepView(state=step)
            view.level = levels[step_id]
            self.steps[step_id] = view
        self.running = {step.id: step for step in self.steps.values() if step.status == RUNNING}
        self.failed = {step.id: step for step in self.steps.values() if step.status == "failed"}
        self.replanning = {step.id: step for step in self.steps.values() if step.replanning}

    def _move(self, event: e.PlanStepUpdateEvent) -> None:
        step = self.steps.get(event.step_id)
        if step is None:  # of a plan whose beginning was missed
            step = self.steps[event.step_id] = StepView(state=self.plan.steps[event.step_id])
        for shown in (self.running, self.failed, self.replanning):
            shown.pop(step.id, None)
        step.move(event)
        if step.status == RUNNING:
            self.running[step.id] = step
        elif step.status == "failed":
            self.failed[step.id] = step

    def _inside(self, event: _Inside) -> None:
        step = self.steps.get(event.subagent_step_id or "")
        if step is None or self._is_of_helper(event):
            return
        match event:
            case e.AssistantDeltaEvent():
                step.says(event.message_id, event.attempt, event.text)
            case e.ReasoningDeltaEvent():
                step.activity = "thinking"
            case e.ToolCallEvent() | e.ToolStreamEvent() | e.ToolResultEvent():
                step.tool(event)
            case e.UserMessageEvent() | e.CompactEndEvent():
                step.activity = "waiting for the model"
            case e.AssistantEvent():
                step.turns += 1
                step.activity = "calling tools" if event.tool_calls else "has answered"
            case e.CompactStartEvent():
                step.activity = f"summarising {event.context_tokens:,} tokens of history"
            case e.SubAgentStartedEvent():
                step.subagent_started(event.max_tokens)
                self.replanning |= {step.id: step} if step.replanning else {}
            case e.SubAgentFinishedEvent():
                step.subagent_finished(event.tokens)
                self.replanning.pop(step.id, None)
            case _:
                assert_never(event)

    def _is_of_helper(self, event: _Inside) -> bool:
        """Return whether an event counts turns or budget of a subagent that the step's own agent started."""
        if isinstance(event, e.SubAgentStartedEvent) and event.parent_id is not None:
            self._helpers.add(event.subagent_id)
        counts = isinstance(event, e.SubAgentStartedEvent | e.SubAgentFinishedEvent | e.AssistantEvent)
        return counts and event.subagent_id in self._helpers

    def _usage(self, event: e.UsageEvent) -> None:
        tokens = event.prompt_tokens + event.completion_tokens
        self.calls += 1
        self.tokens += tokens
        self.cost_usd = _plus(self.cost_usd, event.cost_usd)
        step = self.steps.get(event.subagent_step_id or "")
        if step is not None:
            step.calls += 1
            step.tokens += tokens
            step.budget_used += tokens
            step.cost_usd = _plus(step.cost_usd, event.cost_usd)

    def _request(self, event: _Request) -> None:
        step = self.steps.get(event.subagent_step_id or "")
        if step is None:
            return
        match event:
            case e.ApprovalRequestEvent():
                step.requests[event.request_id] = f"waits for your approval of {event.tool}"
            case e.QuestionEvent():
                step.requests[event.request_id] = WAITS_FOR_ANSWER
            case e.ApprovalDecisionEvent() | e.AnswerEvent():
                step.requests.pop(event.request_id, None)
            case _:
                assert_never(event)

    def _trouble(self, event: e.WarningEvent | e.ErrorEvent) -> None:
        kind = "warning" if isinstance(event, e.WarningEvent) else "error"
        if event.code not in PASSING | SUMMARISED:
            self.notices.append(RunNotice(kind=kind, message=event.message, step_id=event.subagent_step_id))
        step = self.steps.get(event.subagent_step_id or "")
        if step is not None and step.status == RUNNING:
            step.activity = event.message


def _plus(sum_so_far: float | None, cost: float | None) -> float | None:
    return None if sum_so_far is None or cost is None else sum_so_far + cost


def _levels(parents: Mapping[str, Sequence[str]]) -> dict[str, int]:
    """Return the indentation of each step: one more where a step fans out, one less where several come together."""
    known = {step_id: [parent for parent in above if parent in parents] for step_id, above in parents.items()}
    fan: dict[str, int] = {}
    for above in known.values():
        if len(above) == 1:
            fan[above[0]] = fan.get(above[0], 0) + 1
    levels: dict[str, int] = {}
    for step_id in TopologicalSorter(known).static_order():
        above = known[step_id]
        if len(above) == 1:
            levels[step_id] = levels[above[0]] + (fan[above[0]] > 1)
        else:
            levels[step_id] = max(0, min((levels[parent] for parent in above), default=1) - 1)
    return levels


def revision_text(operations: Sequence[Mapping[str, Any]], reason: str) -> str:
    """A revision in a line: why, and which steps it is about."""
    verbs = {"add_step": "added", "remove_step": "removed", "update_step": "changed"}
    said: dict[str, dict[str, None]] = {}
    for operation in operations:
        verb = verbs.get(str(operation.get("op")), "reordered")
        step = operation.get("step")
        named = cast("Mapping[str, Any]", step).get("id") if isinstance(step, Mapping) else operation.get("id", step)
        said.setdefault(verb, {})[str(named)] = None
    parts = [f"{verb} {', '.join(names)}" for verb, names in said.items()]
    return f"the plan was revised{f' ({reason})' if reason else ''}: {'; '.join(parts)}"
