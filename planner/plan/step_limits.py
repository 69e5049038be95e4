"""Limits of a step's agent if the step names none: they depend on its mode, and grow each time they end an attempt."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from planner.plan.model import Step
from vibe.core.config.models import VibeConfig
from vibe.core.modes import ExecutionMode

MOST = 8
"""The highest multiple of the usual limits that a step can get."""


class StepLimits(Struct, frozen=True, kw_only=True):
    """Limits of one attempt: tokens (prompt plus completion) and model calls."""

    max_tokens: int
    max_turns: int


def usual_limits(config: VibeConfig) -> Mapping[ExecutionMode, StepLimits]:
    """Return the limits for each mode in the settings."""
    turns, tokens = config.step_turns, config.step_tokens
    return {
        mode: StepLimits(max_tokens=getattr(tokens, mode.value), max_turns=getattr(turns, mode.value))
        for mode in ExecutionMode
    }


USUAL = usual_limits(VibeConfig())
"""The limits if nothing is configured. Each call sends the whole conversation, so tokens grow faster than turns."""


def step_limits(step: Step, usual: Mapping[ExecutionMode, StepLimits] = USUAL, *, exhausted: int = 0) -> StepLimits:
    """Return what an attempt at a step may use.

    The usual limits double with each of the ``exhausted`` attempts that used them up, up to ``MOST`` times as much. The
    step's own limits always hold.
    """
    common = usual.get(step.mode) or USUAL[step.mode]
    more = min(2**exhausted, MOST)
    return StepLimits(
        max_tokens=step.max_tokens or common.max_tokens * more, max_turns=step.max_turns or common.max_turns * more
    )
