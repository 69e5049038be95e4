"""Builds a PlanReport from a plan, its journal and its spending. Pure; every figure was recorded."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from msgspec import structs

from ipc.events import Fact, PlanDecisionEvent
from planner.plan.for_each import own_edges
from planner.plan.model import Child, Plan, PlanStatus, Step, StepStatus
from planner.plan.operations import operation_text, read_operations
from planner.plan.status import items_text, readable_title
from planner.report import model
from planner.state.decisions import plan_decision
from planner.state.outcome import outcome_of, warnings_of
from planner.state.state import CUT, AttemptKey, AttemptState, Left, RemovedStep, Span, State, StepState
from planner.store.folder import RunSettings
from subagents.step_result import StepResult
from vibe.core.messages import Outcome, Spent, total_of

INTERRUPTED = "interrupted"
CUT_OFF = "its run broke off while it was at work; resume to continue"
OPEN = "open"
_OF_ATTEMPT = ("reason", "detail", "turns", "worker", "lost")
_OF_RESULT = ("summary", "printed", "output")
NOTHING_SPENT = model.ReportedUsage()
_OF_SETTINGS = {"created", "workspace", "origin", "model", "max_parallel", "reused_from", "base_commit"}
_OF_STEP = {"id", "command", "agent"}


@dataclass(frozen=True, kw_only=True)
class ReportSources:
    """The sources of a report.

    ``plan`` is the current plan, revisions included, ``facts`` its journal, and ``dropped`` the losses of a torn
    journal. ``spent`` is the spending of each attempt, from its facts or else from its conversation; ``revisions`` is
    that of each revision, with the step that had failed. ``pid`` is the process that runs the plan, if any.
    """

    plan_id: str
    plan: Plan
    settings: RunSettings
    facts: Sequence[Fact]
    state: State
    spent: Mapping[AttemptKey, Spent]
    revisions: Sequence[tuple[str, Spent]] = ()
    dropped: Sequence[str] = ()
    pid: int | None = None

    @cached_property
    def _spent(self) -> Mapping[str, Mapping[int, Spent]]:
        """The spending of each attempt, by step and number."""
        by_step: dict[str, dict[int, Spent]] = {}
        for (step_id, attempt), spending in self.spent.items():
            by_step.setdefault(step_id, {})[attempt] = spending
        return by_step

    def report(self) -> model.PlanReport:
        """Return the report of a plan that has ended, is running, or was left in between."""
        state, settings = self.state, self.settings
        steps = tuple(self._step(step) for step in self.plan.steps)
        interrupted = state.status is PlanStatus.ACTIVE and self.pid is None
        spent = _spent(total_of([*self.spent.values(), *(spending for _, spending in self.revisions)]))
        return model.PlanReport(
            plan_id=self.plan_id,
            goal=self.plan.goal,
            status=INTERRUPTED if interrupted else state.status.value,
            outcome=self._outcome(interrupted=interrupted),
            reason=state.reason,
            pid=self.pid,
            **settings.model_dump(include=_OF_SETTINGS),
            updated=state.updated or settings.created,
            active_seconds=state.active_seconds,
            breaks=tuple(state.breaks),
            counts=dict(Counter(step.status for step in steps)),
            spent=spent,
            limits=tuple(self._limits(spent)),
            steps=steps,
            decisions=tuple(self._decisions()),
            revisions=tuple(self._revisions()),
            removed_steps=tuple(_removed(step) for step in state.removed_for_good()),
            other_spending=tuple(self._other_spending()),
            denied=tuple(self._denied()),
            warnings=warnings_of((state.steps[step.id] for step in self.plan.steps), self.dropped),
            models=tuple(self._models()),
            files_changed=tuple(
                sorted({file for step in steps if not step.reused_from for file in step.files_changed})
            ),
        )

    # --- steps ------------------------------------------------------------------------------------------------

    def _step(self, step: Step) -> model.StepReportLine:
        was = self.state.steps[step.id]
        whole = self.state.steps[step.pattern] if isinstance(step, Child) else was
        status, result = was.status, was.last_result
        # The process died while the step was running.
        is_cut = self.pid is None and was.left is Left.CUT and bool(was.spans) and was.spans[-1].ended == CUT
        attempts = tuple(self._attempts(was))
        spans = tuple(self._spans(was))
        return model.StepReportLine(
            **step.model_dump(include=_OF_STEP),
            title=readable_title(step.title),
            model=", then ".join(_models_of(step, was)) or None,
            mode=step.mode.value,
            status=status.value,
            reason=INTERRUPTED if is_cut else was.reason,
            detail=CUT_OFF if is_cut else was.detail or self._waits_for(step, status),
            tolerated=was.tolerated and not whole.spoils and status in (StepStatus.FAILED, StepStatus.CANCELLED),
            reused_from=was.reused_from,
            depends_on=tuple(edge.step for edge in own_edges(step)),
            pattern=step.pattern if isinstance(step, Child) else "",
            items=self._items(step.id),
            attempts=attempts,
            spans=spans,
            duration_s=round(sum(span.end - span.start for span in spans), 3) if spans else None,
            spent=_spent(total_of(self._spent.get(step.id, {}).values())),
            budget_tokens=None if step.command else step.max_tokens,
            budget_used=attempts[-1].spent.total_tokens if attempts and not step.command else None,
            **{name: getattr(result, name) for name in _OF_RESULT},
            files_changed=_files_changed(was),
            checks=tuple(_checks(step, status, result)),
        )

    def _waits_for(self, step: Step, status: StepStatus) -> str:
        """Return which steps block a step, and their statuses; blank if none does."""
        before = [self.state.steps[edge.step] for edge in own_edges(step) if status is StepStatus.BLOCKED]
        blocking = [f"{each.id} ({each.status})" for each in before if each.spoils or not each.status.is_final]
        return f"waits for {', '.join(blocking)}" if blocking else ""

    def _items(self, step_id: str) -> str:
        made = self.state.items_of(step_id)
        return items_text(each.status for each in made) if made else ""

    def _models(self) -> Iterator[model.ModelReport]:
        """Yield the results of each model, over the steps that name several."""
        taken: dict[str, list[AttemptState]] = {}
        spent: dict[str, list[Spent]] = {}
        for step in self.plan.steps:
            was = self.state.steps[step.id]
            models = _models_of(step, was)
            for attempt in was.attempts if len(models) > 1 else ():
                name = models[min(attempt.number, len(models)) - 1]
                taken.setdefault(name, []).append(attempt)
                spent.setdefault(name, []).append(self._spent.get(step.id, {}).get(attempt.number, attempt.result))
        for name, attempts in taken.items():
            completed = sum(attempt.result.outcome is Outcome.COMPLETED for attempt in attempts)
            used = _spent(total_of(spent[name]))
            yield model.ModelReport(model=name, attempts=len(attempts), completed=completed, spent=used)

    def _spans(self, step: StepState) -> Iterator[Span]:
        for span in step.spans:
            yield Span(round(span.start, 3), round(span.end, 3), span.attempt, span.ended)
        running = self.state.running.get(step.outline.id)
        if running is not None and not step.attempt_over:
            yield Span(round(running[1], 3), round(self.state.active_seconds, 3), step.attempt, OPEN)

    def _attempts(self, step: StepState) -> Iterator[model.AttemptReport]:
        """Yield every attempt that was begun, including those without a recorded end."""
        spent = self._spent.get(step.outline.id, {})
        known = {attempt.number: attempt for attempt in step.attempts}
        for number in sorted({*known, *range(1, step.begun + 1)}):
            spending = _spent(total_of([spent[number]])) if number in spent else NOTHING_SPENT
            ended = known.get(number)
            if ended is None:
                yield model.AttemptReport(number=number, outcome=None, spent=spending)
                continue
            yield model.AttemptReport(
                number=number,
                outcome=ended.result.outcome.value,
                **{name: getattr(ended.result, name) for name in _OF_ATTEMPT},
                duration_s=round(ended.seconds, 3),
                ended_at=ended.ended_at,
                spent=spending,
            )

    # --- the whole plan ---------------------------------------------------------------------------------------

    def _outcome(self, *, interrupted: bool) -> str | None:
        state = self.state
        if interrupted:
            return Outcome.INTERRUPTED.value
        if self.pid is not None or state.status in {PlanStatus.IDLE, PlanStatus.ACTIVE}:
            return None
        return (state.outcome or outcome_of(state, state.status, state.reason)).value

    def _limits(self, spent: model.ReportedUsage) -> Iterator[model.LimitReport]:
        budget = self.plan.budget
        if budget is None:
            return
        for unit, most, used in (
            ("tokens", budget.max_tokens, spent.total_tokens),
            ("USD", budget.max_price, spent.cost_usd),
            ("seconds", budget.max_seconds, round(self.state.active_seconds, 3)),
        ):
            if most is not None:
                yield model.LimitReport(unit=unit, most=most, used=used)

    def _decisions(self) -> Iterator[model.DecisionReport]:
        """Yield the plan's own decisions in its order, then those about steps as they were opened."""
        opened: dict[str, PlanDecisionEvent] = {}
        taken: dict[str, PlanDecisionEvent] = {}
        order: dict[str, None] = {decision.id: None for decision in self.plan.decisions}
        for fact in self.facts:
            if isinstance(fact, PlanDecisionEvent):
                order.setdefault(fact.decision_id)
                (taken if fact.selections else opened)[fact.decision_id] = fact
        own = {decision.id: plan_decision(decision) for decision in self.plan.decisions}
        for decision_id in order:
            decision = own.get(decision_id) or taken.get(decision_id) or opened[decision_id]
            labels = dict(zip(decision.options, decision.labels, strict=True))
            answer, opening = taken.get(decision_id), opened.get(decision_id)
            yield model.DecisionReport(
                id=decision_id,
                question=decision.question,
                options=decision.labels,
                selections=tuple(labels.get(each, each) for each in answer.selections) if answer else (),
                by=answer.by if answer else "",
                at=answer.ts if answer else None,
                opened_at=opening.ts if opening else None,
            )

    def _revisions(self) -> Iterator[model.RevisionReport]:
        for revision in self.state.revisions:
            operations = read_operations(list(revision.operations))
            texts = tuple(operation_text(operation) for operation in operations)
            yield model.RevisionReport(at=revision.ts, by=revision.by, reason=revision.reason, operations=texts)

    def _other_spending(self) -> Iterator[model.OtherSpending]:
        """Yield the spending on removed steps, then on revisions."""
        others: dict[tuple[str, str], list[Spent]] = {}
        for step_id, attempts in self._spent.items():
            calling = [spending for spending in attempts.values() if spending.usage.calls]
            if calling and step_id not in self.state.steps:
                others["removed", step_id] = calling
        for step_id, spending in self.revisions:
            others.setdefault(("mending", step_id), []).append(spending)
        for (what, step_id), each in others.items():
            yield model.OtherSpending(what=what, step_id=step_id, attempts=len(each), spent=_spent(total_of(each)))

    def _denied(self) -> Iterator[model.DeniedReport]:
        every = [*(gone.step for gone in self.state.removed), *self.state.steps.values()]
        for step in every:
            for attempt in step.attempts:
                for denial in attempt.result.denied:
                    yield model.DeniedReport(step_id=step.outline.id, **structs.asdict(denial))


def _models_of(step: Step, was: StepState) -> tuple[str, ...]:
    """Return the models of a step, or several from its agent's file if it names none."""
    order = was.outline.order
    return step.models or (() if order is None else tuple(order.models))


def _removed(gone: RemovedStep) -> model.RemovedStepReport:
    return model.RemovedStepReport(
        id=gone.id,
        title=readable_title(gone.step.outline.title),
        status=gone.status.value,
        attempts=gone.step.begun,
        removed_by=gone.by,
        removed_at=gone.at,
    )


def _files_changed(step: StepState) -> tuple[str, ...]:
    results = [attempt.result for attempt in step.attempts]
    files = {file for each in (*results, *([step.result] if step.result else [])) for file in each.files_changed}
    return tuple(sorted(files))


def _spent(spent: Spent) -> model.ReportedUsage:
    return model.ReportedUsage(**structs.asdict(spent.usage.for_events()), cost_usd=spent.cost_usd)


def _checks(step: Step, status: StepStatus, result: StepResult) -> Iterator[model.CheckReport]:
    """Yield the known results of the ``verify`` lines.

    If the step completed, all of them passed. Otherwise its result names the one that failed, if one did.
    """
    failed = result.outcome is Outcome.FAILED and result.reason == "verify"
    named = next((line for line in step.verify if failed and result.detail.startswith(f"`{line}` ")), None)
    before = named is not None or status is StepStatus.COMPLETED  # checks run in order, up to the first that fails
    for line in step.verify:
        yield model.CheckReport(command=line, result="failed" if line == named else "passed" if before else "unknown")
        before = before and line != named
