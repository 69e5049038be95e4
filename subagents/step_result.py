"""The result of an attempt at a step, and the usage of each of its agents."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from ipc.events import WorkDone
from vibe.core.messages import Denial, Outcome, Usage

ENVIRONMENT_REASON = "environment"
"""Reason of an attempt for which the system lacked something. The plan pauses, and the attempt goes on once it can."""

LOST_REASON = "lost"
"""Reason of an attempt whose worker was lost. If its outcome is INTERRUPTED, a person decides whether to repeat it."""


class AgentUsage(Struct, frozen=True, kw_only=True, gc=False):
    """The usage of one agent by itself. ``agent`` is its profile; ``cost_usd`` is None if unknown."""

    agent_id: str
    parent_id: str | None = None
    agent: str = ""
    usage: Usage = Usage()
    cost_usd: float | None = None


class StepResult(WorkDone, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """The result of one attempt at a step.

    An ``outcome`` of COMPLETED, FAILED, BLOCKED or LIMIT is final for the attempt; INTERRUPTED means that the step
    stopped at the end of a turn and can continue from there. ``reason`` is a stable word (``budget``, ``verify``,
    ``output``, ``exit_code``, ``timeout``, ``blocked``, ``provider`` ...), ``detail`` a sentence for people. ``output``
    is the value handed in, if the step has a schema for one and completed. ``cost_usd`` is None if unknown.
    ``provider_refused`` says that the key, quota or credit was at fault, so that no other step would fare better.
    ``usage`` includes the subagents that the step's agent started. ``agents`` has the usage of each, first that of the
    step's own agent, which used ``model``. For ``waited_s`` of its ``duration_s`` the attempt waited for a person.
    ``printed`` is a part of the output of the command or check that failed. ``folder`` and ``branch`` are those of its
    worktree, ``pid`` is its own process; each is set only if it had one.
    """

    outcome: Outcome
    reason: str | None = None
    detail: str = ""
    printed: str = ""
    output: Any = None
    usage: Usage = Usage()
    duration_s: float = 0.0
    waited_s: float = 0.0
    model: str = ""
    denied: tuple[Denial, ...] = ()
    agent_id: str | None = None
    provider_refused: bool = False
    agents: tuple[AgentUsage, ...] = ()

    @property
    def is_limited_by_plan(self) -> bool:
        """True if the attempt ended, or no other one followed it, because the plan's budget is used up."""
        return self.any_model and self.outcome is not Outcome.FAILED
