"""What the ``[planner]`` table means to a run: whether models plan, how far, and how long decisions wait."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from planner.agent import PlannerAgent, PlanningLimits
from planner.loader import LoadedPlan
from planner.model import Plan
from planner.revising import ReplanPolicy
from subagents.surroundings import Surroundings
from vibe.app.build import Engine
from vibe.core.config.models import PlannerConfig
from vibe.core.errors import UsageError

SWITCH = "planner.enabled"


class PlannerDisabledError(UsageError):
    """The configuration says that no model writes or revises plans."""

    def __init__(self, where: str, wanted: str) -> None:
        super().__init__(f"{wanted}: {SWITCH} is false ({where}); set it to true, or leave that out")


def check_enabled(engine: Engine, wanted: str) -> None:
    """See that a model may plan; ``wanted`` is what asks for it.

    Raises:
        PlannerDisabledError: it may not.
    """
    if not engine.config.planner.enabled:
        raise PlannerDisabledError(engine.loaded.origins.get(SWITCH, "the configuration"), wanted)


def check_replans(plan: Plan, engine: Engine) -> None:
    """See that steps which want the plan revised when they fail can have that.

    Raises:
        PlannerDisabledError: they can't.
    """
    wanting = next((step.id for step in plan.steps if step.on_failure == "replan"), None)
    if wanting is not None:
        check_enabled(engine, f"step {wanting!r} has on_failure: replan")


def limits_of(
    config: PlannerConfig, *, max_tokens: int | None = None, max_price: float | None = None
) -> PlanningLimits:
    """How far one piece of planning may go; what is given replaces the setting."""
    return PlanningLimits(
        max_turns=config.max_turns,
        max_tokens=max_tokens or config.max_tokens,
        max_price=max_price,
        max_context_tokens=config.max_context_tokens,
    )


def replan_policy(around: Surroundings, config: PlannerConfig, *, new_commands: bool, folder: Path) -> ReplanPolicy:
    """Who mends the plan of a run, and how often. ``new_commands``: with command lines that nobody has read."""
    if not config.enabled:
        return ReplanPolicy(max_replans=config.max_replans)
    planner = PlannerAgent(around, limits_of(config), new_commands=new_commands, folder=folder)
    return ReplanPolicy(reviser=planner, max_replans=config.max_replans)


def with_decision_timeout(loaded: LoadedPlan, seconds: float) -> LoadedPlan:
    """The plan with that time in every decision that names none of its own (0: for ever)."""
    plan = loaded.plan
    if not seconds or all("timeout_seconds" in decision.model_fields_set for decision in plan.decisions):
        return loaded
    decisions = [
        decision
        if "timeout_seconds" in decision.model_fields_set
        else decision.model_copy(update={"timeout_seconds": seconds})
        for decision in plan.decisions
    ]
    return replace(loaded, plan=plan.model_copy(update={"decisions": decisions}))
