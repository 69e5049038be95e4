"""The decisions a run itself puts: what becomes of a step that failed, or whose attempt was cut off.

Their ids hold a colon, which no id of a plan does: ``failed:<step>:<attempt>`` and ``interrupted:<step>:<attempt>``.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from pydantic import StringConstraints

from planner.model import Decision, Option, Step

FAILED_KIND = "failed"
INTERRUPTED_KIND = "interrupted"


class Choice(StrEnum):
    """What can be chosen for a step."""

    RETRY = "retry"
    AGAIN = "again"
    SKIP = "skip"
    STOP = "stop"


class StepDecision(Decision):
    """A decision about one attempt at a step; it has no default and waits for ever."""

    id: Annotated[str, StringConstraints(pattern=r"^(failed|interrupted):[a-z0-9_-]+:[0-9]+$")]


def failed_id(step_id: str, attempt: int) -> str:
    """The decision about an attempt that failed."""
    return f"{FAILED_KIND}:{step_id}:{attempt}"


def interrupted_id(step_id: str, attempt: int) -> str:
    """The decision about an attempt that was cut off."""
    return f"{INTERRUPTED_KIND}:{step_id}:{attempt}"


def attempt_of(decision_id: str) -> tuple[str, str, int] | None:
    """The kind, the step and the attempt a decision is about; None if it is one of the plan's own."""
    parts = decision_id.split(":")
    if len(parts) != 3 or parts[0] not in (FAILED_KIND, INTERRUPTED_KIND) or not parts[2].isdecimal():
        return None
    return parts[0], parts[1], int(parts[2])


def choices_of(kind: str) -> tuple[Choice, ...]:
    """What can be chosen about an attempt that ended so."""
    first = Choice.AGAIN if kind == INTERRUPTED_KIND else Choice.RETRY
    return first, Choice.SKIP, Choice.STOP


def step_decision(step: Step, decision_id: str, *, reason: str | None = None, detail: str = "") -> StepDecision:
    """The decision of that id about ``step``; ``reason`` and ``detail`` say how the attempt ended.

    Raises:
        ValueError: it is none about this step.
    """
    about = attempt_of(decision_id)
    if about is None or about[1] != step.id:
        raise ValueError(f"{decision_id!r} is no decision about step {step.id!r}")
    kind, _, attempt = about
    if kind == FAILED_KIND:
        ended = detail or reason or "no reason given"
        question = f"Step {step.id} ({step.title}) failed, attempt {attempt}: {ended}. What now?"
    else:
        question = (
            f"Step {step.id} ({step.title}) was interrupted, attempt {attempt}, and acts outside the workspace: "
            "it may be partly done. What now?"
        )
    options = [Option(id=choice.value, label=_LABELS[choice]) for choice in choices_of(kind)]
    return StepDecision(id=decision_id, question=question, options=options)


_LABELS = {
    Choice.RETRY: "Retry it from its beginning",
    Choice.AGAIN: "Continue: what was cut off may be done a second time",
    Choice.SKIP: "Skip it: its dependents run without it",
    Choice.STOP: "Mark it failed and skip its dependents",
}
