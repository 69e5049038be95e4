"""The result of an attempt at a step, and the usage of each of its agents."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from ipc.events import WorkDone
from vibe.core.messages import Denial, Outcome, Usage

ENVIRONMENT_REASON = "environment"
"""The reason of an attempt that the system could not serve: it goes on once it can, and the plan pauses until then."""

LOST_REASON = "lost"
"""The reason of an attempt whose worker is lost; if it is interrupted, whether to begin it again is for a person."""


class AgentUsage(Struct, frozen=True, kw_only=True, gc=False):
    """The usage of one agent by itself. ``agent`` is its profile; ``cost_usd`` None: unknown."""

    agent_id: str
    parent_id: str | None = None
    agent: str = ""
    usage: Usage = Usage()
    cost_usd: float | None = None


class StepResult(WorkDone, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """The result of one attempt at a step.

    ``outcome`` COMPLETED, FAILED, BLOCKED or LIMIT is final for the attempt; INTERRUPTED means the step stopped at a
    turn's end and goes on from there. ``reason`` is a stable word (``budget``, ``verify``, ``output``, ``exit_code``,
    ``timeout``, ``blocked``, ``provider`` ...), ``detail`` a sentence for people. ``output`` is what was handed in, if
    the step has a schema for that and completed. ``cost_usd`` is None if unknown. ``provider_refused`` says the key,
    quota or credit was the matter: no other step would fare better. ``usage`` counts the subagents the step's agent
    started, too; ``agents`` tells them apart, with the step's own agent first, whose ``model`` it is. For ``waited_s``
    of its ``duration_s`` it waited for a person. ``printed`` is what a command or check that failed had to say, in
    part. ``folder`` and ``branch`` are those of its worktree, ``pid`` is the process of its own, if it had such.
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
