"""Failure policy: after an attempt comes the next one, a person's choice, a better plan, or the step's end."""

from __future__ import annotations

from planner.plan.model import Step
from planner.state.state import Left
from subagents.executor import StepResult
from subagents.step_result import ENVIRONMENT_REASON
from vibe.core.outcome import Outcome

FIRST_RETRY_SECONDS = 1.0
LONGEST_RETRY_SECONDS = 60.0

INTERRUPTED_REASON = "interrupted"
_END_REASON = {Outcome.FAILED: "failed", Outcome.BLOCKED: "blocked", Outcome.LIMIT: "budget"}


def left_after(step: Step, attempt: int, result: StepResult, *, cut: bool) -> Left | None:
    """Return how an attempt is left that came to ``result``; None: the step ends with it.

    A step with side effects is never begun again by itself, whatever its ``retries`` say.
    """
    if result.outcome is Outcome.COMPLETED:
        return None
    if result.provider_refused or result.outcome is Outcome.INTERRUPTED:
        return Left.CUT if cut else Left.STOPPED
    if result.outcome is Outcome.FAILED and attempt <= step.retries and not step.side_effects:
        return Left.RETRYING
    if step.on_failure == "ask":
        return Left.ASKING
    return Left.REVISING if step.on_failure == "replan" else None


def halts(result: StepResult) -> bool:
    """Return whether no other step would fare better now, so that the plan pauses."""
    is_unserved = result.outcome is Outcome.INTERRUPTED and result.reason == ENVIRONMENT_REASON
    return (result.provider_refused and result.outcome is not Outcome.COMPLETED) or is_unserved


def reason_of(result: StepResult) -> str | None:
    """The stable word for an attempt's end; None for a good one."""
    return result.reason or _END_REASON.get(result.outcome)


def retry_delay(failed_attempt: int) -> float:
    """Seconds until the attempt after this one."""
    return min(LONGEST_RETRY_SECONDS, FIRST_RETRY_SECONDS * 2 ** min(failed_attempt - 1, 10))
