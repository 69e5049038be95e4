"""Where each step of a plan stands that is read back from its folder, and what it waits for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from planner.decisions import failed_id, interrupted_id, step_decision
from planner.instructions import RestoredStep, Unfinished
from planner.model import Decision, Plan, StepStatus
from planner.readiness import Readiness, Verdict
from planner.replay import RestoredPlan

_VERDICTS = {
    Verdict.WAIT: StepStatus.BLOCKED,
    Verdict.ASK: StepStatus.NEEDS_DECISION,
    Verdict.RUN: StepStatus.PENDING,
    Verdict.SKIP: StepStatus.PENDING,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """``statuses`` has every step of the plan, in its order; ``open_decisions`` are those steps now wait for."""

    statuses: Mapping[str, StepStatus]
    open_decisions: tuple[Decision, ...]

    def counts(self) -> dict[str, int]:
        """Steps per status; those no step has are left out."""
        return {status.value: count for status, count in Counter(self.statuses.values()).items()}


def standing_of(
    plan: Plan,
    restored: RestoredPlan,
    *,
    decisions: Mapping[str, tuple[str, ...]] | None = None,
    running: bool = False,
) -> Standing:
    """How the effective ``plan`` stands by its journal.

    ``decisions`` are those given when the plan was run, beside the ones taken since. With ``running`` a process has the
    plan: what it began is IN_PROGRESS; else that comes back as PENDING.
    """
    plan = plan.resolved()
    own = {decision.id for decision in plan.decisions}
    taken = {**(decisions or {}), **restored.decisions}
    readiness = Readiness(plan, {name: chosen for name, chosen in taken.items() if name in own})
    for step in plan.steps:
        was = restored.steps.get(step.id)
        if was is not None and was.status.is_final:
            readiness.settle(step.id, was.status, waived=was.waived)
    statuses: dict[str, StepStatus] = {}
    needed: dict[str, Decision] = {}
    by_id = {decision.id: decision for decision in plan.decisions}
    for step in plan.steps:
        was = restored.steps.get(step.id, RestoredStep(StepStatus.PENDING))
        asked = open_question(step.id, was, taken, side_effects=step.side_effects)
        if was.status.is_final:
            statuses[step.id] = was.status
        elif running and step.id in restored.running:
            statuses[step.id] = StepStatus.IN_PROGRESS
        elif asked is not None:
            statuses[step.id] = StepStatus.NEEDS_DECISION
            needed[asked] = step_decision(step, asked, reason=was.reason, detail=was.detail)
        else:
            verdict = readiness.verdict(step.id)
            statuses[step.id] = _VERDICTS[verdict]
            if verdict is Verdict.ASK:
                needed.update({name: by_id[name] for name in readiness.undecided(step.id)})
    return Standing(statuses=statuses, open_decisions=tuple(needed.values()))


def open_question(
    step_id: str, was: RestoredStep, taken: Mapping[str, tuple[str, ...]], *, side_effects: bool
) -> str | None:
    """The id of the decision about an attempt that the step waits for; None if it waits for none."""
    if was.unfinished is Unfinished.ASKING:
        asked = failed_id(step_id, was.attempt)
    elif was.unfinished is Unfinished.CUT and side_effects:
        asked = interrupted_id(step_id, was.attempt)
    else:
        return None
    return None if asked in taken else asked
