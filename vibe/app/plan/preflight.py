"""Checks before a plan may start: models with keys and prices, agents, decisions that fit."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TypeAlias

from msgspec.structs import replace

from planner.plan.loader import LoadedPlan
from planner.plan.model import Decision, Plan, Step, own_ids
from planner.state.state import State
from planner.store.current_plan import open_decisions
from planner.store.folder import ProgramPart, RunSettings
from subagents.agent.run_context import AgentContext
from vibe.app.engine.build import Engine
from vibe.core.agents.manager import AgentManager
from vibe.core.agents.models import AgentProfile
from vibe.core.tools.manager import ToolManager, profile_view, unknown_tools
from vibe.system.errors import UsageError, closest, did_you_mean
from vibe.system.plain_text import some_of

SHOWN_STEPS = 8

StepParts: TypeAlias = Engine | AgentContext
"""Has the models, tools and profiles of steps' agents."""


def check_surroundings(
    plan: Plan, parts: StepParts, default_model: str | None, by_program: Callable[[Step], bool] = lambda _: False
) -> None:
    """Check that every step could start; nothing is written or sent. Those a program does need no model.

    Raises:
        UsageError: a model, agent or tool is unknown, or a price limit can't be held.
        EnvironmentFailure: a provider's key is missing.
    """
    if default_model is not None:
        parts.models.resolve(default_model)  # a name that was given is right, whether or not a step needs it
    priced = bool(plan.budget and plan.budget.max_price)
    for step in plan.steps:
        profile = parts.agents.get(step.agent) if step.agent is not None and parts.agents is not None else None
        if profile is not None:
            profile_view(parts.tools, profile, may_widen=False)
        if step.command is None:
            _check_tools(step, parts.tools)
            for rung in () if by_program(step) else _with_ladder(step, profile).rungs:
                _check_model_of(rung, parts, default_model, priced=priced or step.max_price is not None)


def with_ladders(loaded: LoadedPlan, agents: AgentManager | None) -> LoadedPlan:
    """Return the plan with the models of its agents that have several, in the steps that name none themselves.

    Raises:
        UsageError: one of those steps acts outside the workspace, so that it can have but one.
    """
    known = dict[str, AgentProfile]() if agents is None else agents.profiles
    steps = [_with_ladder(step, known.get(step.agent or "")) for step in loaded.plan.steps]
    return replace(loaded, plan=loaded.plan.model_copy(update={"steps": steps}))


def as_begun(loaded: LoadedPlan, state: State) -> LoadedPlan:
    """Return a plan that goes on with the models that its agents had, if several: attempts are counted in those."""
    begun = {was.id: list(was.outline.order.models) for was in state.steps.values() if was.outline.order}
    steps = [
        step.model_copy(update={"model": begun[step.id]}) if step.model is None and begun.get(step.id) else step
        for step in loaded.plan.steps
    ]
    return replace(loaded, plan=loaded.plan.model_copy(update={"steps": steps}))


def _with_ladder(step: Step, profile: AgentProfile | None) -> Step:
    if profile is None or len(profile.models) < 2 or step.model is not None or step.command is not None:
        return step
    if step.side_effects:
        why = f"agent {profile.name!r} has several models, and a step with side effects is never retried automatically"
        raise UsageError(f"step {step.id!r}: {why}: name one `model` in it")
    return step.model_copy(update={"model": list(profile.models)})


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


def check_functions(loaded: LoadedPlan, program: ProgramPart | None) -> None:
    """Check that the steps a program does are steps of the plan.

    Raises:
        UsageError: one is not.
    """
    known = loaded.dag.dependencies
    if unknown := [step_id for step_id in (program.functions if program else ()) if step_id not in known]:
        hint = did_you_mean(closest(unknown[0], known), f"its steps are {some_of(known, SHOWN_STEPS)}")
        raise UsageError(f"functions: the plan has no step {unknown[0]!r}; {hint}")


def check_program(settings: RunSettings, loaded: LoadedPlan, state: State, program: ProgramPart | None) -> None:
    """Check that the steps which only the program can do that the plan was begun in are done, or that it is there.

    Raises:
        UsageError: one is open, and who resumes the plan does not do it.
    """
    for step in loaded.plan.steps:
        found = state.steps.get(step.id)
        if not settings.by_program(step) or (found is not None and found.status.is_final):
            continue
        if not RunSettings(workspace="").with_program(program).by_program(step):
            given = "executor" if own_ids(step).isdisjoint(settings.functions) else "functions"
            raise UsageError(
                f"plan {settings.plan_id}: a program does step {step.id!r}: resume it there, with {given}="
            )


def check_needs(steps: Iterable[Step], cluster: str) -> None:
    """Check that this machine meets the needs of the steps that no other may do.

    ``cluster``: the address of those that do steps in worktrees; blank or ``local:N``: none but this one.

    Raises:
        UsageError: it does not.
    """
    travel = bool(cluster) and not cluster.startswith("local:")
    for step in steps:
        if not step.needs or (travel and step.workspace == "worktree"):
            continue
        from subagents.remote.places import own_labels, unmet

        if missing := unmet(step.needs, own := own_labels(), {}):
            has = ", ".join(f"{name}={text}" for name, text in own.items())
            raise UsageError(
                f"step {step.id!r} needs {missing}, and this machine has {has}: have it done in a worktree, by a "
                "cluster whose workers have it (--cluster)"
            )


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
    """Return the name of the step's model, or of its first, after a check of its key and, if ``priced``, its price.

    Raises:
        UsageError: the model or agent is unknown, or it has no price.
        EnvironmentFailure: a provider's key is missing.
    """
    profile = parts.agents.delegated(step.agent) if step.agent and parts.agents is not None else None
    alias = next(iter(step.models), None) or (profile and profile.model) or default_model
    model = parts.models.resolve_priced(alias) if priced else parts.models.resolve(alias)
    parts.models.backend(model)
    return model.name
