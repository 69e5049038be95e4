"""Checks before a plan starts (models with keys and prices, agents, tools, decisions and needs), and before a retry."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TypeAlias

from msgspec.structs import replace

from planner.plan.loader import LoadedPlan
from planner.plan.model import Decision, Plan, Step, own_ids
from planner.state.facts import moves_to_next_model
from planner.state.state import State
from planner.store.current_plan import open_decisions
from planner.store.folder import ProgramPart, RunSettings
from subagents.agent.budget import Account, Limits
from subagents.agent.run_context import AgentContext
from subagents.step_result import StepResult
from vibe.app.engine.build import Engine
from vibe.core.agents.manager import AgentManager
from vibe.core.agents.models import AgentProfile
from vibe.core.config.models import ModelConfig
from vibe.core.tools.manager import ToolManager, profile_view, unknown_tools
from vibe.system.errors import UsageError, closest, did_you_mean
from vibe.system.plain_text import some_of

SHOWN_STEPS = 8

StepParts: TypeAlias = Engine | AgentContext
"""Provides the models, tools and profiles for the agents of steps."""


def check_surroundings(
    plan: Plan, parts: StepParts, default_model: str | None, by_program: Callable[[Step], bool] = lambda _: False
) -> None:
    """Check that every step could start. Nothing is written or sent. Steps that a program does need no model.

    Raises:
        UsageError: a model, agent or tool is unknown, or a price limit can't be kept.
        EnvironmentFailure: a provider's key is missing.
    """
    if default_model is not None:
        parts.models.resolve(default_model)  # a wrong name is an error even if no step needs it
    priced = bool(plan.budget and plan.budget.max_price)
    for step in plan.steps:
        profile = parts.agents.get(step.agent) if step.agent is not None and parts.agents is not None else None
        if profile is not None:
            profile_view(parts.tools, profile, may_widen=False)
        if step.command is None:
            check_tools(step, parts.tools)
            for each in () if by_program(step) else _with_ladder(step, profile).by_model:
                _check_model_of(each, parts, default_model, priced=priced or step.max_price is not None)


def with_ladders(loaded: LoadedPlan, agents: AgentManager | None, program: ProgramPart | None = None) -> LoadedPlan:
    """Return the plan with the models of its agents filled in, where an agent has several and its step names none.

    What a function of the program does has no model, so that a list of them does not repeat it.

    Raises:
        UsageError: one of those steps acts outside the workspace, and so must have only one model.
    """
    known = dict[str, AgentProfile]() if agents is None else agents.profiles
    functions = () if program is None else program.functions
    steps = [_with_ladder(step, known.get(step.agent or ""), functions) for step in loaded.plan.steps]
    return replace(loaded, plan=loaded.plan.model_copy(update={"steps": steps}))


def rest_of(plan: Plan, state: State) -> Plan:
    """Return a plan that has begun without the steps that are over, which need nothing any more."""
    over = {step.id for step in state.steps.values() if step.status.is_final}
    return plan.model_copy(update={"steps": [step for step in plan.steps if step.id not in over]})


def as_begun(loaded: LoadedPlan, state: State) -> LoadedPlan:
    """Return the plan with the models that agents with several had when it began, since attempts count through them."""
    begun = {was.id: list(was.outline.order.models) for was in state.steps.values() if was.outline.order}
    steps = [
        step.model_copy(update={"model": begun[step.id]}) if step.model is None and begun.get(step.id) else step
        for step in loaded.plan.steps
    ]
    return replace(loaded, plan=loaded.plan.model_copy(update={"steps": steps}))


def _with_ladder(step: Step, profile: AgentProfile | None, functions: Iterable[str] = ()) -> Step:
    if not own_ids(step).isdisjoint(functions):
        return step.model_copy(update={"model": None})
    if profile is None or len(profile.models) < 2 or step.model is not None or step.command is not None:
        return step
    if step.side_effects:
        why = f"agent {profile.name!r} has several models, and a step with side effects is never retried automatically"
        raise UsageError(f"step {step.id!r}: {why}: name one `model` in it")
    return step.model_copy(update={"model": list(profile.models)})


def check_tools(step: Step, tools: ToolManager) -> None:
    """Check that each tool a step names exists.

    Raises:
        UsageError: one does not.
    """
    for field, names in (("allowed_tools", step.allowed_tools or ()), ("denied_tools", step.denied_tools)):
        for name, hint in unknown_tools(tools, names):
            raise UsageError(f"step {step.id!r}: {field} names {name!r}, which matches no tool; {hint}")


def _check_model_of(step: Step, parts: StepParts, default_model: str | None, *, priced: bool) -> None:
    try:
        check_model(step, parts, default_model, priced=priced)
    except UsageError as error:
        if step.model is None and step.agent is None:
            raise  # it is the default model, which no single step is to blame for
        raise UsageError(f"step {step.id!r}: {error}") from error


def check_functions(loaded: LoadedPlan, program: ProgramPart | None) -> None:
    """Check that the steps that a program does are steps of the plan.

    Raises:
        UsageError: one is not.
    """
    known = loaded.dag.dependencies
    if unknown := [step_id for step_id in (program.functions if program else ()) if step_id not in known]:
        hint = did_you_mean(closest(unknown[0], known), f"its steps are {some_of(known, SHOWN_STEPS)}")
        raise UsageError(f"functions: the plan has no step {unknown[0]!r}; {hint}")


def check_program(settings: RunSettings, loaded: LoadedPlan, state: State, program: ProgramPart | None) -> None:
    """Check that steps which only the plan's own program can do are done, or that the program is there to do them.

    Raises:
        UsageError: one is open, and whoever resumes the plan does not do it.
    """
    present = RunSettings(workspace="").with_program(program)
    for step in rest_of(loaded.plan, state).steps:
        if settings.by_program(step) and not present.by_program(step):
            given = "executor" if own_ids(step).isdisjoint(settings.functions) else "functions"
            problem = f"plan {settings.plan_id}: a program does step {step.id!r}"
            raise UsageError(f"{problem}: resume it there, with {given}=")


def check_needs(steps: Iterable[Step], cluster: str) -> None:
    """Check that this machine meets the needs of the steps that must be done on it.

    ``cluster`` is the address of the cluster that does steps in worktrees. If it is empty or ``local:N``, all steps are
    done on this machine.

    Raises:
        UsageError: it does not meet them.
    """
    travel = bool(cluster) and not cluster.startswith("local:")
    for step in steps:
        if not step.needs or (travel and step.workspace == "worktree"):
            continue
        from subagents.remote.places import own_labels, unmet

        if missing := unmet(step.needs, own := own_labels(), {}):
            has = ", ".join(f"{name}={text}" for name, text in own.items())
            fix = "have it done in a worktree, by a cluster whose workers have it (--cluster)"
            raise UsageError(f"step {step.id!r} needs {missing}, and this machine has {has}: {fix}")


def check_answers(plan: Plan, state: State, given: Mapping[str, tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
    """Check the decisions given for a plan that has begun, and return those that are about steps.

    Like ``check_decisions``, but steps may wait for decisions too; ``state`` says which.

    Raises:
        UsageError: as from ``check_decisions``, or another answer was given before.
    """
    for decision_id, selections in given.items():
        earlier = state.decisions.get(decision_id)
        if earlier is not None and set(earlier.selections) != set(selections):
            taken = ", ".join(earlier.selections)
            raise UsageError(f"--decide {decision_id}={selections[0]}: already decided: {taken}; leave it out")
    waiting = open_decisions(plan, state)
    new = {name: chosen for name, chosen in given.items() if name not in state.decisions}
    own = {decision.id for decision in plan.decisions}
    check_decisions([*plan.decisions, *(decision for decision in waiting if decision.id not in own)], new)
    return {name: chosen for name, chosen in new.items() if name not in own}


def check_decisions(decisions: Iterable[Decision], given: Mapping[str, tuple[str, ...]]) -> None:
    """Check that the decisions given by flags exist in a plan.

    Raises:
        UsageError: a decision or option is unknown, or too many options were chosen.
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


def check_model(step: Step, parts: StepParts, default_model: str | None, *, priced: bool) -> ModelConfig:
    """Return the step's (first) model, after checking its key and, if ``priced``, that it has a price.

    Raises:
        UsageError: the model or agent is unknown, or the model has no price.
        EnvironmentFailure: a provider's key is missing.
    """
    profile = parts.agents.delegated(step.agent) if step.agent and parts.agents is not None else None
    alias = next(iter(step.models), None) or (profile and profile.model) or default_model
    model = parts.models.resolve_priced(alias) if priced else parts.models.resolve(alias)
    parts.models.backend(model)
    return model


def shortage(
    account: Account, parts: StepParts, default_model: str | None, step: Step, attempt: int, result: StepResult
) -> str:
    """Say what an account lacks for one more attempt by a step's agent; see ``DispatchOptions.shortage``.

    The next model of a list must be able to use all that the step allows it, any other attempt to make one call.
    """
    again, used = step.at_attempt(attempt + 1), result.usage
    model = check_model(again, parts, default_model, priced=account.has_price_limit)
    climbs = moves_to_next_model(step, attempt, result)
    wanted = Limits(max_tokens=again.max_tokens, max_price=again.max_price) if climbs else Limits()
    return account.shortage(model, used.prompt_tokens // max(1, used.calls), wanted)
