"""What a run looks like so far: every event goes in, steps and totals come out; no clock, no terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from graphlib import TopologicalSorter
from typing import TypeAlias, assert_never

from ipc import events as e
from vibe.cli.render.run_revision import revise_views, revision_text
from vibe.cli.render.step_view import PASSING, SUMMARISED, StepView

RUNNING = "in_progress"
ACTIVE = "active"
PAUSED = "paused"
REUSED = "reused"
WAITS_FOR_ANSWER = "waits for your answer"

_Plan: TypeAlias = (
    e.PlanStartedEvent
    | e.PlanResumedEvent
    | e.PlanStepUpdateEvent
    | e.PlanDecisionEvent
    | e.PlanRevisedEvent
    | e.PlanPausedEvent
    | e.PlanCompletedEvent
)
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
class Notice:
    """Something to be said once, above everything that moves. ``kind``: ``note``, ``warning`` or ``error``."""

    kind: str
    message: str
    step_id: str | None


class RunState:
    """A run so far. It belongs to one thread, the one that applies the events.

    Mutable on purpose: a plan may have 10 000 steps and a step hundreds of events a second; a copy of the table, or
    a persistent map, for each would cost more than all the rest. What a reader sees between two events is whole.

    ``steps`` are in plan order, ``running`` and ``failed`` in the order they became so; for those in ``replanning`` a
    better plan is looked for. ``tokens`` are this run's, ``tokens_before`` those of earlier runs, and ``max_tokens`` what
    all of them may use (None: no limit). ``cost_usd`` is None once
    the price of any call is unknown. ``started_at`` and ``ended_at`` are in unix seconds. ``notices`` and
    ``decisions`` (open ones, by id) grow and shrink as the run goes; whoever shows the notices takes them out.
    """

    def __init__(self) -> None:
        self.goal = ""
        self.status = "idle"
        self.reason = ""
        self.steps: dict[str, StepView] = {}
        self.running: dict[str, StepView] = {}
        self.failed: dict[str, StepView] = {}
        self.replanning: dict[str, StepView] = {}
        self.counts: dict[str, int] = {}
        self.decisions: dict[str, e.PlanDecisionEvent] = {}
        self.notices: list[Notice] = []
        self.tokens = self.tokens_before = 0
        self.max_tokens: int | None = None
        self.cost_usd: float | None = 0.0
        self.calls = 0
        self._helpers: set[str | None] = set()
        self.started_at: float | None = None
        self.ended_at: float | None = None

    @property
    def total(self) -> int:
        """How many steps the plan has."""
        return len(self.steps)

    @property
    def done(self) -> int:
        """How many steps completed; what failed or was skipped is not done."""
        return self.counts.get("completed", 0)

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
                self._plan(event)

    def _plan(self, event: _Plan) -> None:
        match event:
            case e.PlanStartedEvent() | e.PlanResumedEvent():
                self._begin(event)
            case e.PlanStepUpdateEvent():
                self._move(event)
            case e.PlanDecisionEvent():
                if event.selections:
                    self.decisions.pop(event.decision_id, None)
                else:
                    self.decisions[event.decision_id] = event
            case e.PlanRevisedEvent():
                self._revise(event)
            case e.PlanPausedEvent():
                self.status, self.reason, self.ended_at = PAUSED, event.reason, event.ts
            case e.PlanCompletedEvent():
                self.status, self.reason, self.ended_at = event.status, event.reason or "", event.ts
            case _:
                assert_never(event)

    def _begin(self, event: e.PlanStartedEvent | e.PlanResumedEvent) -> None:
        outlines = event.steps
        levels = _levels({outline.id: outline.depends_on for outline in outlines})
        self.goal, self.status, self.reason, self.ended_at = event.goal, ACTIVE, "", None
        self.max_tokens = event.max_tokens
        if isinstance(event, e.PlanResumedEvent):
            self.tokens_before = event.tokens
        elif event.note:
            self.notices.append(Notice(kind="note", message=event.note, step_id=None))
        self.steps = {
            outline.id: StepView(
                id=outline.id,
                title=outline.title,
                mode=outline.mode,
                depends_on=outline.depends_on,
                status=outline.status,
                level=levels[outline.id],
                reason=outline.reason or "",
                reused=outline.reason == REUSED,
                merges=outline.workspace == "worktree",
            )
            for outline in outlines
        }
        self._count()

    def _revise(self, event: e.PlanRevisedEvent) -> None:
        revise_views(self.steps, event.operations)
        levels = _levels({step.id: step.depends_on for step in self.steps.values()})
        for step in self.steps.values():
            step.level = levels[step.id]
        self._count()
        message = revision_text(event.operations, event.reason)
        self.notices.append(Notice(kind="note", message=message, step_id=None))

    def _count(self) -> None:
        self.counts = {}
        for step in self.steps.values():
            self.counts[step.status] = self.counts.get(step.status, 0) + 1
        self.running = {step.id: step for step in self.steps.values() if step.status == RUNNING}
        self.failed = {step.id: step for step in self.steps.values() if step.status == "failed"}
        self.replanning = {step.id: step for step in self.steps.values() if step.replanning}

    def _move(self, event: e.PlanStepUpdateEvent) -> None:
        step = self.steps.get(event.step_id)
        if step is None:  # a revision added it
            step = StepView(id=event.step_id, title=event.title, mode="", depends_on=(), status=event.previous, level=0)
            self.steps[step.id] = step
        else:
            self.counts[step.status] -= 1
        self.running.pop(step.id, None)
        self.failed.pop(step.id, None)
        self.replanning.pop(step.id, None)
        step.move(event)
        self.counts[step.status] = self.counts.get(step.status, 0) + 1
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
        """Whether an event counts turns or budget of a subagent that the step's own agent started."""
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
            self.notices.append(Notice(kind=kind, message=event.message, step_id=event.subagent_step_id))
        step = self.steps.get(event.subagent_step_id or "")
        if step is not None and step.status == RUNNING:
            step.activity = event.message


def _plus(sum_so_far: float | None, cost: float | None) -> float | None:
    return None if sum_so_far is None or cost is None else sum_so_far + cost


def _levels(parents: Mapping[str, Sequence[str]]) -> dict[str, int]:
    """How deep each step is indented: one more where a step fans out, one less where several come together."""
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
