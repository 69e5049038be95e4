"""Replanning according to the ``[planner]`` table: whether models plan, how far, and how long decisions wait."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import partial
from pathlib import Path

from msgspec.structs import replace

from planner.author.planner_agent import PlannerAgent, PlanningLimits
from planner.plan.loader import LoadedPlan
from planner.plan.model import Plan
from planner.run.revision_runner import ReplanPolicy
from planner.store.folder import ApprovalSetting, RunSettings
from subagents.agent.run_context import AgentContext
from subagents.executor import KeptBy
from subagents.worktree.repository import find_repository
from vibe.app.plan.preflight import check_needs, check_surroundings, with_ladders
from vibe.app.plan.worktrees import wants_worktrees
from vibe.core.config.models import PlannerConfig
from vibe.system.errors import UsageError

SWITCH = "planner.enabled"


def check_enabled(config: PlannerConfig, wanted: str, origins: Mapping[str, str]) -> None:
    """Check that a model may plan. ``wanted`` says what asks for it, and ``origins`` where settings come from.

    Raises:
        UsageError: none may.
    """
    if not config.enabled:
        where = origins.get(SWITCH, "the configuration")
        raise UsageError(f"{wanted}: {SWITCH} is false ({where}); set it to true, or remove it")


def check_replans(plan: Plan, config: PlannerConfig, origins: Mapping[str, str]) -> None:
    """Check that models may plan if a step has ``on_failure: replan``.

    Raises:
        UsageError: they may not.
    """
    wanting = next((step.id for step in plan.steps if step.on_failure == "replan"), None)
    if wanting is not None:
        check_enabled(config, f"step {wanting!r} has on_failure: replan", origins)


def limits_of(
    config: PlannerConfig, *, max_tokens: int | None = None, max_price: float | None = None
) -> PlanningLimits:
    """Return the limits of one piece of planning. Given values replace the settings."""
    return PlanningLimits(
        max_turns=config.max_turns,
        max_tokens=max_tokens or config.max_tokens,
        max_price=max_price,
        max_context_tokens=config.max_context_tokens,
    )


def replan_policy(
    context: AgentContext, config: PlannerConfig, settings: RunSettings, *, folder: Path, kept_by: KeptBy
) -> ReplanPolicy:
    """Return the replanning policy of a run: the reviser, its limit, and the check of revised plans.

    Revisions may add command lines that the user has not read only in the mode that allows everything no rule denies.
    ``kept_by`` returns the work that a failed step left.
    """
    check = partial(checked_revision, context, config, settings)
    new_commands = settings.approvals is ApprovalSetting.AUTO
    planner = PlannerAgent(context, limits_of(config), new_commands=new_commands, folder=folder, kept_by=kept_by)
    return ReplanPolicy(reviser=planner if config.enabled else None, max_replans=config.max_replans, check=check)


def checked_revision(
    context: AgentContext, config: PlannerConfig, settings: RunSettings, loaded: LoadedPlan, left: Collection[str]
) -> LoadedPlan:
    """Return a plan that was changed while it runs in the form in which it runs on. Waits for git.

    First, each step that is left must be able to start. A merge in progress does not matter, since it may be one of the
    plan's own steps.

    Raises:
        UsageError: a model or agent is unknown, a price limit can't be kept, models may not plan, the needs of a
            step
            are not met, or there is no repository for worktrees.
        EnvironmentFailure: a provider's key is missing.
    """
    plan = loaded.plan
    check_surroundings(plan, context, context.default_model, settings.by_program)
    check_replans(plan, config, {})
    if wants_worktrees(plan):
        find_repository(context.workspace.root, context.environ)
    check_needs([step for step in plan.steps if step.id in left], settings.cluster)
    return with_ladders(loaded, context.agents)


def with_decision_timeout(loaded: LoadedPlan, seconds: float) -> LoadedPlan:
    """Return the plan with a timeout in every decision that has none of its own (0: they wait for ever)."""
    plan = loaded.plan
    if not seconds:
        return loaded
    given = {"timeout_seconds": seconds}
    decisions = [
        one if given.keys() <= one.model_fields_set else one.model_copy(update=given) for one in plan.decisions
    ]
    return replace(loaded, plan=plan.model_copy(update={"decisions": decisions}))
