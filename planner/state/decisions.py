"""Decisions: a plan's own, and those that a run opens about steps that failed or were cut off.

The ids of the latter are ``failed:<step>:<attempt>`` and ``interrupted:<step>:<attempt>``; no id in a
plan holds a colon.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import TYPE_CHECKING

from ipc.events import PlanDecisionEvent
from planner.plan.diagnostics import DecisionInvalidError, listed, quoted

if TYPE_CHECKING:
    from planner.plan.model import Decision, Step

TIMEOUT = "timeout"
"""The ``by`` of a decision whose time ran out."""
FAILED_KIND = "failed"
INTERRUPTED_KIND = "interrupted"


class StepChoice(StrEnum):
    """The choices for a step that failed or was cut off."""

    RETRY = "retry"
    AGAIN = "again"
    SKIP = "skip"
    STOP = "stop"


def about_id(kind: str, step_id: str, attempt: int) -> str:
    """Return the id of the decision about an attempt that failed or was cut off, as ``kind`` says."""
    return f"{kind}:{step_id}:{attempt}"


def choices_of(kind: str) -> tuple[StepChoice, ...]:
    """Return the choices about an attempt that failed or was cut off, as ``kind`` says."""
    first = StepChoice.AGAIN if kind == INTERRUPTED_KIND else StepChoice.RETRY
    return first, StepChoice.SKIP, StepChoice.STOP


def plan_decision(decision: Decision) -> PlanDecisionEvent:
    """Return the fact that opens one of the plan's own decisions."""
    default = decision.default or ()
    return PlanDecisionEvent(
        decision_id=decision.id,
        question=decision.question,
        options=tuple(option.id for option in decision.options),
        labels=tuple(option.label for option in decision.options),
        descriptions=tuple(option.description for option in decision.options),
        multi_select=decision.multi_select,
        default=(default,) if isinstance(default, str) else tuple(default),
        timeout_seconds=decision.timeout_seconds,
    )


def step_decision(step: Step, attempt: int, kind: str, ended: str = "", *, is_item: bool = False) -> PlanDecisionEvent:
    """Return the fact that opens a decision about an attempt at ``step``; it has no default and no timeout.

    ``ended`` says how the attempt ended, ``is_item`` that the step does one item of a list.
    """
    if kind == FAILED_KIND:
        question = f"Step {step.id} ({step.title}) failed, attempt {attempt}: {ended or 'no reason given'}. What now?"
    else:
        question = (
            f"Step {step.id} ({step.title}) was interrupted, attempt {attempt}, and acts outside the workspace: "
            "it may be partly done. What now?"
        )
    choices, labels = choices_of(kind), _LABELS | ({StepChoice.SKIP: _ITEM_SKIPPED} if is_item else {})
    return PlanDecisionEvent(
        decision_id=about_id(kind, step.id, attempt),
        question=question,
        options=tuple(choice.value for choice in choices),
        labels=tuple(labels[choice] for choice in choices),
        descriptions=("",) * len(choices),
        kind=kind,
        step_id=step.id,
        attempt=attempt,
    )


def check_selections(decision: PlanDecisionEvent, selections: tuple[str, ...]) -> None:
    """Check that an answer is one the decision offers.

    Raises:
        DecisionInvalidError: an option is unknown, several were chosen where one is wanted, or none was.
    """
    name, options = decision.decision_id, decision.options
    for selection in selections:
        if selection not in options:
            problem = f"unknown option {quoted(selection)}; choose from: {listed(options)}"
            raise DecisionInvalidError(name, problem)
    if len(set(selections)) != 1 and not decision.multi_select:
        problem = f"exactly one option must be chosen, not {len(selections)}; choose from: {listed(options)}"
        raise DecisionInvalidError(name, problem)
    if not selections:
        raise DecisionInvalidError(name, f"at least one option must be chosen; choose from: {listed(options)}")


def check_answer(decisions: Mapping[str, Decision], decision_id: str, selections: tuple[str, ...]) -> None:
    """Check an answer to one of the plan's own decisions.

    Raises:
        DecisionInvalidError: the plan has no such decision, or it does not offer this answer.
    """
    if decision_id not in decisions:
        problem = f"the plan has no such decision; its decisions: {listed(decisions)}"
        raise DecisionInvalidError(decision_id, problem)
    check_selections(plan_decision(decisions[decision_id]), selections)


_ITEM_SKIPPED = "Skip it: it counts as one that did not complete; if too few can, those not begun are skipped too"
_LABELS = {
    StepChoice.RETRY: "Retry it from the start",
    StepChoice.AGAIN: "Continue: interrupted work may be repeated",
    StepChoice.SKIP: "Skip it: its dependents run without it",
    StepChoice.STOP: "Mark it failed: what depends on its success does not run",
}
