"""What follows when an attempt at a step ends: the next attempt, a person's choice, a better plan, or the step's end."""

from __future__ import annotations

from enum import Enum

from planner.instructions import StepEnded, Unfinished
from planner.model import Step, StepStatus
from subagents.executor import ENVIRONMENT_REASON
from vibe.core.outcome import Outcome

FIRST_RETRY_SECONDS = 1.0
LONGEST_RETRY_SECONDS = 60.0

INTERRUPTED_REASON = "interrupted"

END_STATUS = {
    Outcome.COMPLETED: StepStatus.COMPLETED,
    Outcome.FAILED: StepStatus.FAILED,
    Outcome.BLOCKED: StepStatus.FAILED,
    Outcome.LIMIT: StepStatus.FAILED,
}
_END_REASON = {Outcome.FAILED: "failed", Outcome.BLOCKED: "blocked", Outcome.LIMIT: "budget"}


class Follows(Enum):
    """What an attempt's end leads to."""

    END = "end"
    RETRY = "retry"
    GO_ON = "go on"
    """The same attempt goes on, in this run or a later one."""
    CONFIRM = "confirm"
    """Somebody must say whether the same attempt may go on."""
    ASK = "ask"
    REVISE = "revise"


def follows(step: Step, attempt: int, ended: StepEnded) -> Follows:
    """What the plan says. A step with side effects is never begun again by itself, whatever its ``retries`` say."""
    if ended.outcome is Outcome.COMPLETED:
        return Follows.END
    if ended.provider_refused or ended.outcome is Outcome.INTERRUPTED:
        return Follows.CONFIRM if ended.cut and step.side_effects else Follows.GO_ON
    if ended.outcome is Outcome.FAILED and attempt <= step.retries and not step.side_effects:
        return Follows.RETRY
    if step.on_failure == "ask":
        return Follows.ASK
    return Follows.REVISE if step.on_failure == "replan" else Follows.END


def halts(ended: StepEnded) -> bool:
    """Whether no other step would fare better now, so that the plan pauses."""
    is_unserved = ended.outcome is Outcome.INTERRUPTED and ended.reason == ENVIRONMENT_REASON
    return ended.provider_refused or is_unserved


def unfinished_after(next_: Follows, ended: StepEnded) -> Unfinished | None:
    """How an attempt is left that leads to this; None if nothing of it is open."""
    match next_:
        case Follows.ASK:
            return Unfinished.ASKING
        case Follows.REVISE:
            return Unfinished.REVISING
        case Follows.GO_ON | Follows.CONFIRM:
            return Unfinished.CUT if ended.cut else Unfinished.STOPPED
        case Follows.END | Follows.RETRY:
            return None


def reason_of(ended: StepEnded) -> str | None:
    """The stable word for an attempt's end; None for a good one."""
    return ended.reason or _END_REASON.get(ended.outcome)


def retry_delay(failed_attempt: int) -> float:
    """Seconds until the attempt after this one."""
    return min(LONGEST_RETRY_SECONDS, FIRST_RETRY_SECONDS * 2 ** min(failed_attempt - 1, 10))
