"""Dry run of a plan: order, limits, and the needs of each step, met or not. Nothing is run or written."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, TypeVar

import anyio
from msgspec import Struct, field, structs, to_builtins

from planner.plan.estimate import Estimate, estimate, notes
from planner.plan.loader import LoadedPlan, with_inputs
from planner.plan.model import Plan, Step
from planner.plan.step_limits import StepLimits, step_limits, usual_limits
from planner.store.folder import PlanRunOptions
from subagents.agent.tool_policy import step_tools
from vibe.app.engine.build import Engine
from vibe.app.engine.host import Host
from vibe.app.engine.result_record import ENVIRONMENT_EXIT
from vibe.app.plan.preflight import check_model, check_needs, check_tools, with_ladders
from vibe.app.plan.prepare import engine_of_new
from vibe.app.plan.replanning import check_replans
from vibe.app.plan.reuse import ReuseStart, starting_point
from vibe.app.plan.step_executor import cluster_of, executor_of
from vibe.app.plan.worktrees import check_worktrees
from vibe.core.modes import ExecutionMode
from vibe.core.tools.manager import ToolManager, profile_view
from vibe.system.errors import EnvironmentFailure, VibeError

USAGE_EXIT = 2
_SHOWN_BOUNDS = ("critical_path", "model_steps", "max_tokens", "max_turns", "max_price", "speed_up", "overlaps")

T = TypeVar("T")


class StepNeeds(Struct, frozen=True, kw_only=True):
    """The needs of one step.

    ``model`` and ``tools`` are empty for a command. ``problem`` is the reason why it can't start, if there is one.
    """

    id: str
    mode: str
    model: str = ""
    agent: str = ""
    tools: tuple[str, ...] = ()
    commands: tuple[str, ...] = ()
    max_tokens: int = 0
    max_turns: int = 0
    attempts: int = 1
    workspace: str = "shared"
    problem: str = ""


class DryRun(Struct, frozen=True, kw_only=True):
    """The result of a dry run.

    ``order`` lists the steps in waves. ``problems`` would keep the run from starting, and ``exit_code`` is what it
    would end with.
    """

    plan: Plan
    order: tuple[tuple[str, ...], ...]
    bounds: Estimate
    said: tuple[str, ...]
    steps: tuple[StepNeeds, ...]
    start: ReuseStart
    given: Mapping[str, tuple[str, ...]]
    problems: tuple[str, ...]
    exit_code: int

    def as_document(self) -> dict[str, Any]:
        """Return it as JSON types. Token, turn and price figures are upper bounds, never guesses."""
        bounds: dict[str, Any] = to_builtins(self.bounds)
        selection = self.start.selection
        return {
            "goal": self.plan.goal,
            "order": [list(level) for level in self.order],
            **{name: bounds[name] for name in _SHOWN_BOUNDS},
            "side_by_side": self.bounds.width,
            "max_seconds": self.plan.budget.max_seconds if self.plan.budget else None,
            "notes": list(self.said),
            "commands": [{"step": step.id, "command": line} for step in self.steps for line in step.commands],
            "steps": [to_builtins(step) for step in self.steps],
            "decisions": [
                {
                    "id": decision.id,
                    "question": decision.question,
                    "options": [option.id for option in decision.options],
                    "default": decision.default,
                    "given": list(self.given.get(decision.id, ())),
                }
                for decision in self.plan.decisions
            ],
            "runs": list(selection.runs),
            "taken_over": list(selection.taken),
            "left_out": list(selection.left_out),
            "note": self.start.note,
            "problems": list(self.problems),
        }


def dry_run(loaded: LoadedPlan, options: PlanRunOptions, host: Host) -> DryRun:
    """Check everything that a run checks before it starts. Reads files, writes none, calls no model.

    Raises:
        UsageError: a flag or the configuration is wrong.
    """
    loaded = with_inputs(loaded, options.inputs)
    engine = engine_of_new(loaded.plan, options, host)
    start = starting_point(loaded, options, host.home, engine.environ)
    plan = with_ladders(loaded, engine.agents).plan
    parallel = options.max_parallel or plan.max_parallel_steps or engine.config.planner.max_parallel_steps
    usual = usual_limits(engine.config)
    bounds = estimate(plan, loaded.dag, max_parallel=parallel, usual=usual)
    needs = _Needs(plan, engine, options.model, usual)
    try:
        if options.model is not None:
            needs.check(partial(engine.models.resolve, options.model))
        steps = tuple(needs.needs_of(step) for step in plan.steps)
        needs.check(partial(check_replans, plan, engine.config.planner, engine.loaded.origins))
        runs = [step for step in plan.steps if step.id in start.selection.runs]
        executor, given = executor_of(options), options.cluster or ""
        needs.check(lambda: check_needs(runs, cluster_of(executor, given, engine.config.cluster)))
        dirty, where = options.allow_dirty, loaded.where
        needs.check(partial(check_worktrees, plan, start.workspace, host, engine, allow_dirty=dirty, where=where))
    finally:
        anyio.run(engine.models.aclose)
    return DryRun(
        plan=plan,
        order=loaded.dag.levels(),
        bounds=bounds,
        said=(*notes(bounds), *engine.warnings),
        steps=steps,
        start=start,
        given={**start.decisions, **options.decisions},
        problems=tuple(dict.fromkeys(needs.problems)),
        exit_code=needs.exit_code,
    )


class _Needs(Struct):
    """Works out the needs of steps, once for each kind: a plan has thousands of steps and a handful of kinds."""

    plan: Plan
    engine: Engine
    default_model: str | None
    usual: Mapping[ExecutionMode, StepLimits]
    problems: list[str] = field(default_factory=list[str])
    exit_code: int = 0
    _known: dict[tuple[object, ...], tuple[Any, str]] = field(default_factory=dict[Any, Any])

    def check(self, check: Callable[[], object]) -> None:
        """Make a check of the run's start, and keep its error."""
        try:
            check()
        except VibeError as error:
            self._problem(error)

    def needs_of(self, step: Step) -> StepNeeds:
        """Return what the step needs."""
        commands = tuple(line for line in (step.command, *step.verify) if line)
        attempts = len(step.by_model) + step.retries
        needs = StepNeeds(
            id=step.id, mode=step.mode.value, commands=commands, attempts=attempts, workspace=step.workspace
        )
        if step.command is not None:
            return needs
        limits = step_limits(step, self.usual)
        models = [self._model(one) for one in step.by_model]
        model = ", then ".join(name for name, _ in models)
        no_model = "; ".join(filter(None, (problem for _, problem in models)))
        tools, no_tools = self._step_tools(step)
        return structs.replace(
            needs,
            model=model,
            agent=step.agent or "",
            tools=tools,
            max_tokens=limits.max_tokens,
            max_turns=limits.max_turns,
            problem="; ".join(filter(None, (no_model, no_tools))),
        )

    def _model(self, step: Step) -> tuple[str, str]:
        priced = bool((self.plan.budget and self.plan.budget.max_price) or step.max_price is not None)
        own = next(iter(step.models), None)

        def name() -> str:
            return check_model(step, self.engine, self.default_model, priced=priced).name

        return self._cached(("model", own, step.agent, priced), name, own or self.default_model or "")

    def _step_tools(self, step: Step) -> tuple[tuple[str, ...], str]:
        allowed = None if step.allowed_tools is None else tuple(step.allowed_tools)
        kind = ("tools", step.mode, allowed, tuple(step.denied_tools), step.agent)
        return self._cached(kind, partial(self._names, step, allowed), ())

    def _cached(self, kind: tuple[object, ...], look: Callable[[], T], otherwise: T) -> tuple[T, str]:
        """Return what was worked out for a kind of step, and its problem if there is one."""
        if kind not in self._known:
            try:
                self._known[kind] = (look(), "")
            except VibeError as error:
                self._known[kind] = (otherwise, self._problem(error))
        return self._known[kind]

    def _names(self, step: Step, allowed: tuple[str, ...] | None) -> tuple[str, ...]:
        tools: ToolManager = self.engine.tools
        check_tools(step, tools)
        if step.agent is not None:
            tools = profile_view(tools, self.engine.agents.get(step.agent), may_widen=False)
        patterns = step_tools(step.mode, allowed, tuple(step.denied_tools))
        return tuple(sorted(tools.filtered(*patterns).available))

    def _problem(self, error: VibeError) -> str:
        code = ENVIRONMENT_EXIT if isinstance(error, EnvironmentFailure) else USAGE_EXIT
        self.exit_code = self.exit_code or code
        self.problems.append(str(error))
        return str(error)
