"""Checks before a plan may start: models with keys and prices, agents, decisions that fit."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeAlias

from planner.plan.model import Decision, Plan, Step
from planner.state.state import State
from planner.store.current_plan import open_decisions
from subagents.agent.run_context import AgentContext
from vibe.app.engine.build import Engine
from vibe.core.tools.manager import ToolManager, profile_view, unknown_tools
from vibe.system.errors import UsageError

StepParts: TypeAlias = Engine | AgentContext
"""Has the models, tools and profiles of steps' agents."""


def check_surroundings(plan: Plan, parts: StepParts, default_model: str | None) -> None:
    """Check that every step could start; nothing is written or sent.

    Raises:
        UsageError: a model, agent or tool is unknown, or a price limit can't be held.
        EnvironmentFailure: a provider's key is missing.
    """
    if default_model is not None:
        parts.models.resolve(default_model)  # a name that was given is right, whether or not a step needs it
    priced = bool(plan.budget and plan.budget.max_price)
    for step in plan.steps:
        if step.agent is not None and parts.agents is not None:
            profile_view(parts.tools, parts.agents.get(step.agent), may_widen=False)
        if step.command is None:
            _check_tools(step, parts.tools)
            _check_model_of(step, parts, default_model, priced=priced or step.max_price is not None)


def _check_tools(step: Step, tools: ToolManager) -> None:
    for field, names in (("allowed_tools", step.allowed_tools or ()), ("denied_tools", step.denied_tools)):
        for name, hint in unknown_tools(tools, names):
            raise UsageError(f"step {step.id!r}: {field} names {name!r}, which is not a tool; {hint}")


def _check_model_of(step: Step, parts: StepParts, default_model: str | None, *, priced: bool) -> None:
    try:
        check_model(step, parts, default_model, priced=priced)
    except UsageError as error:
        if step.model is None and step.agent is None:
            raise  # every step's model
        raise UsageError(f"step {step.id!r}: {error}") from error


def check_answers(plan: Plan, state: State, given: Mapping[str, tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
    """As ``check_decisions`` for a plan that was begun, whose steps may wait for decisions too.

    Returns those about steps. ``state`` says what it waits for.

    Raises:
        UsageError: also where another answer was given before.
    """
    for decision_id, selections in given.items():
        before = state.decisions.get(decision_id)
        if before is not None and set(before.selections) != set(selections):
            taken = ", ".join(before.selections)
            raise UsageError(f"--decide {decision_id}={selections[0]}: already decided: {taken}; leave it out")
    waiting = open_decisions(plan, state)
    new = {name: chosen for name, chosen in given.items() if name not in state.decisions}
    own = {decision.id for decision in plan.decisions}
    check_decisions([*plan.decisions, *(decision for decision in waiting if decision.id not in own)], new)
    return {name: chosen for name, chosen in new.items() if name not in own}


def check_decisions(decisions: Iterable[Decision], given: Mapping[str, tuple[str, ...]]) -> None:
    """Check that the decisions given by flags exist in a plan.

    Raises:
        UsageError: a decision or option is unknown, or one too many was chosen.
    """
    by_id = {decision.id: decision for decision in decisions}
    for decision_id, selections in given.items():
        decision = by_id.get(decision_id)
        if decision is None:
            known = ", ".join(by_id) or "none"
            raise UsageError(f"--decide {decision_id}: the plan has no such decision; it has {known}")
        options = [option.id for option in decision.options]
        unknown = [selection for selection in selections if selection not in options]
        if unknown:
            raise UsageError(f"--decide {decision_id}={unknown[0]}: no such option; choose from {', '.join(options)}")
        if len(selections) > 1 and not decision.multi_select:
            raise UsageError(f"--decide {decision_id}: takes one option, not {len(selections)}")


def check_model(step: Step, parts: StepParts, default_model: str | None, *, priced: bool) -> str:
    """Return the name of the step's model, after a check of its key and, if ``priced``, its price.

    Raises:
        UsageError: the model or agent is unknown, or it has no price.
        EnvironmentFailure: a provider's key is missing.
    """
    profile = parts.agents.delegated(step.agent) if step.agent and parts.agents is not None else None
    alias = step.model or (profile and profile.active_model) or default_model
    model = parts.models.resolve_priced(alias) if priced else parts.models.resolve(alias)
    parts.models.backend(model)
    return model.name
