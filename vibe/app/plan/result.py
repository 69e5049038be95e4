"""The result record of a plan run."""

from __future__ import annotations

from collections.abc import Sequence

from planner.plan.status import PlanStatus, StepStatus
from planner.state.outcome import RunResult
from planner.state.state import RemovedStep
from subagents.step_result import ENVIRONMENT_REASON, AgentUsage
from vibe.app.engine.event_publishing import Publishing
from vibe.app.engine.result_record import ENVIRONMENT_EXIT, RunRecord, exit_code_of
from vibe.core.messages import Spent
from vibe.core.outcome import Outcome
from vibe.system.errors import EnvironmentFailure


def plan_record(
    outcome: RunResult,
    channel: Publishing,
    warnings: Sequence[str],
    revisions: Sequence[tuple[str, AgentUsage]] = (),
    removed: Sequence[tuple[RemovedStep, Spent]] = (),
) -> RunRecord:
    """Return the record that a run prints at its end.

    ``revisions``: failed steps with the agents that revised the plan; ``removed``: removed steps and their spending.
    """
    refused = outcome.status is PlanStatus.PAUSED and outcome.outcome is Outcome.FAILED  # by a provider or the system
    results = [step.result for step in outcome.steps if step.result is not None]
    return RunRecord(
        outcome=outcome.outcome,
        exit_code=exit_code_of(outcome.outcome, None, unserved=refused or channel.bus.failed),
        reason=outcome.reason,
        session_id=channel.session_id,
        plan_id=outcome.plan_id,
        result=_closing_words(outcome),
        steps=outcome.steps,
        removed_steps=removed,
        agents=[
            *((step.id, agent) for step in outcome.steps if step.result for agent in step.result.agents),
            *revisions,
        ],
        usage=outcome.usage,
        cost_usd=outcome.cost_usd,
        duration_s=outcome.duration_s,
        denied=[denial for result in results for denial in result.denied],
        warnings=channel.warnings((*warnings, *outcome.warnings)),
    )


def broken_off_record(
    error: EnvironmentFailure, plan_id: str, channel: Publishing, warnings: Sequence[str], spent: Spent
) -> RunRecord:
    """Return what is printed where the plan's own folder could not be written any more.

    How the steps stand is on disk.
    """
    return RunRecord(
        outcome=Outcome.FAILED,
        exit_code=ENVIRONMENT_EXIT,
        reason=ENVIRONMENT_REASON,
        detail=str(error),
        session_id=channel.session_id,
        plan_id=plan_id,
        result=str(error),
        usage=spent.usage,
        cost_usd=spent.cost_usd,
        duration_s=0.0,
        warnings=channel.warnings(warnings),
    )


def _closing_words(outcome: RunResult) -> str:
    """Return the summary of the last completed step if the plan completed, else the reason why it did not."""
    if outcome.status is PlanStatus.COMPLETED:
        done = [step.result for step in outcome.steps if step.status is StepStatus.COMPLETED and step.result]
        return done[-1].summary if done else ""
    words = {StepStatus.FAILED: "failed"}
    if outcome.status is not PlanStatus.CANCELLED:
        words[StepStatus.CANCELLED] = "was cancelled"
    spoilt = [step for step in outcome.steps if step.status in words and not step.tolerated]
    if spoilt:
        return "; ".join(f"step {step.id!r} {words[step.status]}: {step.detail or step.reason}" for step in spoilt)
    unserved = [step.detail for step in outcome.steps if not step.status.is_final and step.reason == ENVIRONMENT_REASON]
    if outcome.reason == ENVIRONMENT_REASON and unserved:
        return f"{outcome.status.value}: {unserved[0]}, then resume the plan"
    return f"{outcome.status.value}: {outcome.reason or 'no reason given'}"
