"""Limits of a step's agent where the step names none: by its mode, and more once that ended it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from planner.plan.model import Step
from subagents.executor import StepResult
from vibe.core.modes import ExecutionMode
from vibe.core.outcome import Outcome

OWN_LIMITS = frozenset({"budget", "turns"})
"""Reasons of attempts that ended for want of tokens or turns."""
MOST = 8
"""How many times the usual a step may get at most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepLimits:
    """Limits of one attempt: tokens, prompt plus completion, and model calls."""

    max_tokens: int
    max_turns: int


USUAL: Mapping[ExecutionMode, StepLimits] = {
    ExecutionMode.CODE: StepLimits(max_tokens=1_000_000, max_turns=60),
    ExecutionMode.TEST: StepLimits(max_tokens=1_000_000, max_turns=60),
    ExecutionMode.RESEARCH: StepLimits(max_tokens=500_000, max_turns=40),
    ExecutionMode.DESIGN: StepLimits(max_tokens=500_000, max_turns=40),
    ExecutionMode.DOCS: StepLimits(max_tokens=500_000, max_turns=40),
    ExecutionMode.RUN: StepLimits(max_tokens=300_000, max_turns=30),
}
"""Where nothing is configured. A conversation is sent with each call, so tokens grow faster than turns."""


def step_limits(step: Step, usual: Mapping[ExecutionMode, StepLimits] = USUAL, *, exhausted: int = 0) -> StepLimits:
    """Return what an attempt at a step may use.

    ``exhausted`` attempts before it ended for want of it: it gets twice as much, each time. What the step itself says
    holds whatever happened.
    """
    more = min(2**exhausted, MOST)
    common = usual.get(step.mode, USUAL[step.mode])
    return StepLimits(
        max_tokens=step.max_tokens or common.max_tokens * more, max_turns=step.max_turns or common.max_turns * more
    )


def is_exhausted(result: StepResult) -> bool:
    """Return whether an attempt ended because it had used up what it may."""
    return result.outcome is Outcome.LIMIT and result.reason in OWN_LIMITS
