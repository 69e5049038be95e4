"""From a plan, its journal and what was spent to its PlanReport; pure, and no figure that was not recorded."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from planner.decisions import attempt_of, step_decision
from planner.instructions import EndPlan
from planner.model import Decision, Plan, PlanStatus, Step, StepStatus
from planner.operations import operation_text, read_operations
from planner.plan_outcome import StepReport, outcome_of, warnings_of
from planner.records import (
    AttemptEnded,
    DecisionMade,
    DecisionOpened,
    JournalRecord,
    RunSettings,
)
from planner.removed_steps import RemovedStep
from planner.replay import AttemptKey, RestoredPlan, Spending, StepReason, total_of
from planner.report import (
    AttemptReport,
    CheckReport,
    DecisionReport,
    DeniedReport,
    LimitReport,
    OtherSpending,
    PlanReport,
    RemovedStepReport,
    RevisionReport,
    Spent,
    StepReportLine,
)
from planner.report_times import Times, times_of
from planner.standing import standing_of
from subagents.executor import StepResult
from vibe.core.outcome import Outcome

INTERRUPTED = "interrupted"
CUT_OFF = "its process ended while it ran; a resume continues it"
NOTHING_SPENT = Spent()


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportSources:
    """What a report is made of.

    ``plan`` is the plan as it stands, revisions included; ``spent`` what each attempt took, with what conversations tell
    of those that no record tells of; ``mending`` is what each revision took, by the step that had failed; ``removed`` is
    what revisions took out of the plan; ``pid`` is the process that runs it, if one does.
    """

    plan_id: str
    plan: Plan
    settings: RunSettings
    records: Sequence[JournalRecord]
    restored: RestoredPlan
    spent: Mapping[AttemptKey, Spending]
    mending: Sequence[tuple[str, Spending]] = ()
    removed: Sequence[RemovedStep] = ()
    pid: int | None = None


def build_report(sources: ReportSources) -> PlanReport:
    """The report of a plan that ended, was left, or runs."""
    return _Builder(sources).report()


class _Builder:
    def __init__(self, sources: ReportSources) -> None:
        self._from = sources
        self._restored = sources.restored
        self._times: Times = times_of(sources.records, is_running=sources.pid is not None)
        self._spent: dict[str, dict[int, Spending]] = {}
        for (step_id, attempt), spending in sources.spent.items():
            self._spent.setdefault(step_id, {})[attempt] = spending
        self._ended: dict[str, dict[int, list[AttemptEnded]]] = {}
        self._statuses = standing_of(
            sources.plan, sources.restored, decisions=sources.settings.decisions, running=sources.pid is not None
        ).statuses
        for record in sources.records:
            if isinstance(record, AttemptEnded):
                self._ended.setdefault(record.step_id, {}).setdefault(record.attempt, []).append(record)

    def report(self) -> PlanReport:
        sources, restored, settings = self._from, self._restored, self._from.settings
        steps = tuple(self._step(step) for step in sources.plan.steps)
        interrupted = restored.status is PlanStatus.ACTIVE and sources.pid is None
        counts: dict[str, int] = {}
        for step in steps:
            counts[step.status] = counts.get(step.status, 0) + 1
        spent = _spent(total_of([*sources.spent.values(), *(spending for _, spending in sources.mending)]))
        return PlanReport(
            plan_id=sources.plan_id,
            goal=sources.plan.goal,
            status=INTERRUPTED if interrupted else restored.status.value,
            outcome=self._outcome(interrupted=interrupted),
            reason=restored.reason,
            pid=sources.pid,
            created=settings.created,
            updated=sources.records[-1].at if sources.records else settings.created,
            workspace=settings.workspace,
            origin=settings.origin,
            model=settings.model,
            max_parallel=settings.max_parallel,
            reused_from=settings.reused_from,
            base_commit=settings.base_commit,
            active_seconds=self._times.active_seconds,
            breaks=self._times.breaks,
            counts=counts,
            spent=spent,
            limits=tuple(self._limits(spent)),
            steps=steps,
            decisions=tuple(self._decisions()),
            revisions=tuple(self._revisions()),
            removed_steps=tuple(_removed(step) for step in sources.removed),
            other_spending=tuple(self._other_spending()),
            denied=tuple(self._denied()),
            warnings=warnings_of(self._step_reports(), restored.dropped),
            files_changed=tuple(
                sorted({file for step in steps if not step.reused_from for file in step.files_changed})
            ),
        )

    # --- steps ------------------------------------------------------------------------------------------------

    def _step(self, step: Step) -> StepReportLine:
        status = self._statuses[step.id]
        why = self._why(step.id)
        result = self._restored.results.get(step.id)
        attempts = tuple(self._attempts(step.id))
        spans = self._times.spans.get(step.id, ())
        return StepReportLine(
            id=step.id,
            title=step.title,
            mode=step.mode.value,
            status=status.value,
            reason=why.reason,
            detail=why.detail,
            tolerated=status is StepStatus.FAILED and step.on_failure == "continue",
            reused_from=self._restored.reused.get(step.id),
            depends_on=tuple(edge.step for edge in step.dependencies),
            command=step.command,
            model=step.model,
            agent=step.agent,
            attempts=attempts,
            spans=spans,
            duration_s=round(sum(span.end - span.start for span in spans), 3) if spans else None,
            spent=_spent(total_of(self._spent.get(step.id, {}).values())),
            budget_tokens=None if step.command else step.max_tokens,
            budget_used=attempts[-1].spent.tokens if attempts and not step.command else None,
            summary=result.summary if result else "",
            printed=result.printed if result else "",
            output=result.output if result else None,
            files_changed=self._files_changed(step.id, result),
            checks=tuple(_checks(step, status, result)),
        )

    def _why(self, step_id: str) -> StepReason:
        cut = self._from.pid is None and step_id in self._restored.running
        return (
            StepReason(reason=INTERRUPTED, detail=CUT_OFF) if cut else self._restored.reasons.get(step_id, StepReason())
        )

    def _attempts(self, step_id: str) -> Iterator[AttemptReport]:
        recorded, spent = self._ended.get(step_id, {}), self._spent.get(step_id, {})
        begun = {span.attempt for span in self._times.spans.get(step_id, ())}
        for number in sorted({*recorded, *begun}):
            spending = _spent(spent[number]) if number in spent else NOTHING_SPENT
            ends = recorded.get(number)
            if ends is None:
                yield AttemptReport(number=number, outcome=None, spent=spending)
                continue
            result = ends[-1].result
            yield AttemptReport(
                number=number,
                outcome=result.outcome.value,
                reason=result.reason,
                detail=result.detail,
                duration_s=round(sum(end.result.duration_s for end in ends), 3),
                ended_at=ends[-1].at,
                turns=result.turns,
                spent=spending,
            )

    def _files_changed(self, step_id: str, result: StepResult | None) -> tuple[str, ...]:
        results = [ends[-1].result for ends in self._ended.get(step_id, {}).values()]
        files = {file for each in (*results, *([result] if result else [])) for file in each.files_changed}
        return tuple(sorted(files))

    # --- the whole plan ---------------------------------------------------------------------------------------

    def _step_reports(self) -> list[StepReport]:
        reports: list[StepReport] = []
        for step in self._from.plan.steps:
            status, why = self._statuses[step.id], self._why(step.id)
            reports.append(
                StepReport(
                    step_id=step.id,
                    title=step.title,
                    status=status,
                    reason=why.reason,
                    detail=why.detail,
                    result=self._restored.results.get(step.id),
                    tolerated=status is StepStatus.FAILED and step.on_failure == "continue",
                )
            )
        return reports

    def _outcome(self, *, interrupted: bool) -> str | None:
        status = self._restored.status
        if interrupted:
            return Outcome.INTERRUPTED.value
        if self._from.pid is not None or status in {PlanStatus.IDLE, PlanStatus.ACTIVE}:
            return None
        if self._restored.outcome is not None:
            return self._restored.outcome.value
        return outcome_of(EndPlan(status, self._restored.reason), self._step_reports(), refused=()).value

    def _limits(self, spent: Spent) -> Iterator[LimitReport]:
        budget = self._from.plan.budget
        if budget is None:
            return
        if budget.max_tokens is not None:
            yield LimitReport(unit="tokens", most=budget.max_tokens, used=spent.tokens)
        if budget.max_price is not None:
            yield LimitReport(unit="USD", most=budget.max_price, used=spent.cost_usd)
        if budget.max_seconds is not None:
            yield LimitReport(unit="seconds", most=budget.max_seconds, used=round(self._times.active_seconds, 3))

    def _decisions(self) -> Iterator[DecisionReport]:
        opened: dict[str, float] = {}
        made: dict[str, DecisionMade] = {}
        known = {decision.id: decision for decision in self._from.plan.decisions}
        order: dict[str, None] = dict.fromkeys(known)
        for record in self._from.records:
            if isinstance(record, DecisionOpened | DecisionMade):
                order.setdefault(record.decision_id)
            if isinstance(record, DecisionOpened):
                opened[record.decision_id] = record.at
            elif isinstance(record, DecisionMade):
                made[record.decision_id] = record
        for decision_id in order:
            decision = known.get(decision_id) or self._about_a_step(decision_id)
            labels = {option.id: option.label for option in decision.options} if decision else {}
            taken = made.get(decision_id)
            yield DecisionReport(
                id=decision_id,
                question=decision.question if decision else decision_id,
                options=tuple(labels),
                selections=tuple(labels.get(each, each) for each in taken.selections) if taken else (),
                by=taken.by if taken else "",
                at=taken.at if taken else None,
                opened_at=opened.get(decision_id),
            )

    def _about_a_step(self, decision_id: str) -> Decision | None:
        """A decision that the run itself put, about an attempt that failed or was cut off."""
        about = attempt_of(decision_id)
        step = next((step for step in self._from.plan.steps if about and step.id == about[1]), None)
        if about is None or step is None:
            return None
        ends = self._ended.get(step.id, {}).get(about[2])
        detail = ends[-1].result.detail if ends else ""
        return step_decision(step, decision_id, detail=detail)

    def _revisions(self) -> Iterator[RevisionReport]:
        for record in self._restored.revisions:
            operations = read_operations(list(record.operations))
            texts = tuple(operation_text(operation) for operation in operations)
            yield RevisionReport(at=record.at, by=record.by, reason=record.reason, operations=texts)

    def _other_spending(self) -> Iterator[OtherSpending]:
        removed: dict[str, list[Spending]] = {}
        for step_id, attempts in self._spent.items():
            calling = [spending for spending in attempts.values() if spending.usage.calls]
            if calling and step_id not in self._statuses:
                removed[step_id] = calling
        mending: dict[str, list[Spending]] = {}
        for step_id, spending in self._from.mending:
            mending.setdefault(step_id, []).append(spending)
        for what, spent in (("removed", removed), ("mending", mending)):
            for step_id, each in spent.items():
                yield OtherSpending(what=what, step_id=step_id, attempts=len(each), spent=_spent(total_of(each)))

    def _denied(self) -> Iterator[DeniedReport]:
        for step_id, attempts in self._ended.items():
            for ends in attempts.values():
                for denial in ends[-1].result.denied:
                    yield DeniedReport(
                        step_id=step_id, tool=denial.tool, summary=denial.summary, reason=denial.reason, by=denial.by
                    )


def _removed(step: RemovedStep) -> RemovedStepReport:
    return RemovedStepReport(
        id=step.id,
        title=step.title,
        status=step.status.value,
        attempts=step.attempts,
        removed_by=step.removed_by,
        removed_at=step.removed_at,
    )


def _spent(spending: Spending) -> Spent:
    usage = spending.usage
    return Spent(
        prompt_tokens=usage.prompt_tokens,
        completion_tokens=usage.completion_tokens,
        cached_tokens=usage.cached_tokens,
        calls=usage.calls,
        cost_usd=spending.cost_usd,
    )


def _checks(step: Step, status: StepStatus, result: StepResult | None) -> Iterator[CheckReport]:
    """What is known of the ``verify`` lines: all of a completed step passed; else the one that failed is named."""
    failed = result is not None and result.outcome is Outcome.FAILED and result.reason == "verify"
    named = next((line for line in step.verify if failed and result and result.detail.startswith(f"`{line}` ")), None)
    before = named is not None  # checks run in order, up to the first that fails
    for line in step.verify:
        if status is StepStatus.COMPLETED:
            yield CheckReport(command=line, result="passed")
        elif line == named:
            before = False
            yield CheckReport(command=line, result="failed")
        else:
            yield CheckReport(command=line, result="passed" if before else "unknown")
