"""Plans and changes of begun plans as proposals, which a model makes or a document brings; nothing runs."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache, partial

import msgspec
from anyio import to_thread
from msgspec import Struct, field, structs

from ipc.events import PlanBounds, PlanExpectation, PlannedCommand, PlanProposedEvent
from planner.author.planner_agent import Draft, FoundChange, PlannerAgent, PlanningLimits
from planner.plan.diagnostics import PlanEndedError
from planner.plan.estimate import Estimate, estimate, notes
from planner.plan.loader import LoadedPlan, load_plan
from planner.plan.model import Plan, PlanStatus
from planner.plan.operations import operation_text
from planner.plan.step_limits import usual_limits
from planner.state.changes import OPEN_STATUSES
from planner.state.schedule import outline_of
from planner.state.state import State
from planner.store.current_plan import current_state
from planner.store.folder import PlanFolder
from subagents.agent.run_context import AgentContext
from vibe.app.plan.command_consent import command_lines
from vibe.app.plan.preflight import with_ladders
from vibe.core.agent_loop import ActResult
from vibe.core.agents.manager import AgentManager
from vibe.core.config.models import VibeConfig
from vibe.system.errors import UsageError, VibeError


class DraftVersion(Struct, frozen=True, kw_only=True):
    """One version of a proposed plan: its ``number``, from 1, its bounds, and what it will take (None: unknown).

    ``repairs`` say what was put right in the model's own words.
    """

    number: int
    loaded: LoadedPlan
    estimate: Estimate
    expected: PlanExpectation | None = None
    repairs: tuple[str, ...] = ()


class PlanDraft(Struct, kw_only=True):
    """A plan that is proposed for a goal, in all its versions; each is announced, and none is run.

    ``context`` is that of the agent which plans: its account pays for every version, its sink is told. ``limits`` bound
    each piece of planning. Estimates take from ``config`` what plan and steps do not say, and from ``agents`` the
    models of those that steps name. ``expects`` tells what a resolved plan will take, of which so many steps can run at
    once; it reads files.
    """

    goal: str
    context: AgentContext
    limits: PlanningLimits
    config: VibeConfig
    agents: AgentManager
    expects: Callable[[Plan, int], PlanExpectation | None]
    versions: list[DraftVersion] = field(default_factory=list[DraftVersion])
    """All versions; the last is the proposal."""
    piped: str = ""
    """Text that came with the goal, for the planner."""
    acted: ActResult | None = None
    """Result of the last planning; None before the first, or if it was cancelled."""
    planner: PlannerAgent | None = None
    """The one that planned last."""
    commented: Callable[[str, str], object] | None = None
    """Takes a comment on the proposal, and who made it; None: nobody is being asked about it."""

    @property
    def last(self) -> DraftVersion:
        """The last version.

        Raises:
            UsageError: the plan has no version yet.
        """
        if not self.versions:
            raise UsageError("no plan yet: create it first")
        return self.versions[-1]

    @property
    def loaded(self) -> LoadedPlan:
        """The proposal.

        Raises:
            UsageError: the plan has no version yet.
        """
        return self.last.loaded

    @property
    def notes(self) -> tuple[str, ...]:
        """Return what to know of the proposal before it runs.

        Raises:
            UsageError: the plan has no version yet.
        """
        return notes(self.last.estimate)

    async def write(self) -> DraftVersion | None:
        """Have the plan written for the goal; None: planning failed, and ``acted`` says why.

        Raises:
            UsageError: the model can't be had.
        """
        return await self._take(await self._renewed().plan(self.goal, piped=self.piped))

    async def revise(self, sentence: str) -> DraftVersion | None:
        """Have the proposal changed as a sentence says; None: it stays as it is, and ``acted`` says why.

        Raises:
            UsageError: there is nothing to change yet.
            UsageError: the sentence is blank, the plan is too long to be told, or the model can't be had.
        """
        return await self._take(await self._renewed().redraft(self.loaded.plan, sentence))

    def steer(self, text: str) -> bool:
        """Say something to the model that plans; False: it does not, or can't take that."""
        return self.planner is not None and self.planner.steer(text)

    def tell(self, text: str, by: str) -> bool:
        """Take words from outside as a comment while a person is asked, else as ``steer``; False: nobody hears them."""
        if self.commented is not None:
            self.commented(text, by)
            return True
        return self.steer(text)

    async def replace(self, document: LoadedPlan | bytes | str, repairs: tuple[str, ...] = ()) -> DraftVersion:
        """Take a document that another wrote as the next version; ``repairs`` as in it.

        Raises:
            PlanInvalidError: the plan is invalid; all problems at once.
        """
        if not isinstance(document, LoadedPlan):
            document = await to_thread.run_sync(partial(load_plan, document, where="the plan"))
        return await self._propose(document, repairs)

    def _renewed(self) -> PlannerAgent:
        self.acted, self.planner = None, PlannerAgent(self.context, self.limits)
        return self.planner

    async def _take(self, draft: Draft) -> DraftVersion | None:
        self.acted = draft.acted
        plan = draft.plan
        return None if plan is None else await self._propose(plan.loaded, plan.repairs)

    async def _propose(self, loaded: LoadedPlan, repairs: tuple[str, ...] = ()) -> DraftVersion:
        self.goal = loaded.plan.goal
        found, expected = await to_thread.run_sync(self._bounds, loaded)
        number = len(self.versions) + 1
        version = DraftVersion(number=number, loaded=loaded, estimate=found, expected=expected, repairs=repairs)
        self.versions.append(version)
        self.context.sink.publish(self._proposed(version))
        return version

    def _bounds(self, loaded: LoadedPlan) -> tuple[Estimate, PlanExpectation | None]:
        """Return the bounds of a plan, and what it will take; reads earlier plans, and may load the price list."""
        plan = with_ladders(loaded, self.agents).plan.resolved()
        at_once = plan.max_parallel_steps or self.config.planner.max_parallel_steps
        rate_of, usual = cache(self._rate), usual_limits(self.config)
        found = estimate(
            plan,
            loaded.dag,
            max_parallel=at_once,
            usual=usual,
            rate_of=lambda step: rate_of(next(iter(step.models), None), step.agent),
        )
        return found, self.expects(plan, at_once)

    def _rate(self, model: str | None, agent: str | None) -> float | None:
        """Return what the dearest token costs that a step with this model or agent can use; None: unknown."""
        models = self.context.models
        try:
            profile = None if agent is None else self.agents.delegated(agent)
            own = models if profile is None else models.adjusted(profile.settings)
            alias = model or (None if profile is None else profile.model) or self.context.default_model
            return own.dearest_token(own.resolve(alias))
        except VibeError:  # a plan that can't run yet is read all the same
            return None

    def _proposed(self, version: DraftVersion) -> PlanProposedEvent:
        plan, found = version.loaded.plan.resolved(), version.estimate
        bounds = msgspec.convert(found, PlanBounds, from_attributes=True)
        return PlanProposedEvent(
            goal=self.goal,
            document=json.loads(version.loaded.plan.escaped().model_dump_json(exclude_unset=True)),
            steps=tuple(outline_of(step) for step in plan.steps),
            estimate=structs.replace(bounds, notes=notes(found, bounds=False)),
            expected=version.expected,
            commands=command_lines(plan),
            draft=version.number,
            repairs=version.repairs,
        )


class ProposedChange(FoundChange, frozen=True, kw_only=True):
    """A proposed revision of a begun plan, which the user may accept; by itself it changes nothing.

    ``operations`` are for ``vibe.app.plan.commands.revise`` or a run's ``PlanControl.revise`` (none: there is nothing
    to change), ``reason`` is the planner's. ``commands`` are lines that no step ran before. ``acted`` says what went
    wrong, and what it took.
    """

    commands: tuple[PlannedCommand, ...] = ()

    @property
    def diff(self) -> tuple[str, ...]:
        """Return what would change, a line for each operation."""
        return tuple(operation_text(operation) for operation in self.operations)


async def propose_change(
    plan: PlanFolder, sentence: str, context: AgentContext, limits: PlanningLimits
) -> ProposedChange:
    """Have a model propose the revision that a sentence asks for, of a begun plan, running or not.

    ``context`` as for ``PlanDraft``. Steps that run, or are done, stay as they are.

    Raises:
        UsageError: the plan has ended, the sentence is blank, or the model can't be had.
        EnvironmentFailure: the plan's folder can't be read.
    """
    loaded, state = await to_thread.run_sync(_as_it_stands, plan)
    found = await PlannerAgent(context, limits).change(loaded.plan, state, sentence)
    new = () if found.revised is None else _new_lines(loaded.plan, found.revised.plan)
    return ProposedChange(**structs.asdict(found), commands=new)


def _as_it_stands(folder: PlanFolder) -> tuple[LoadedPlan, State]:
    """Return a plan and its state; reads files."""
    loaded, state = current_state(folder)
    if state.status not in OPEN_STATUSES | {PlanStatus.FAILED}:
        raise PlanEndedError(state.status.value, "nothing left to change; run the edited plan file")
    return loaded, state


def _new_lines(before: Plan, after: Plan) -> tuple[PlannedCommand, ...]:
    known = {one.command for one in command_lines(before)}
    return tuple(one for one in command_lines(after) if one.command not in known)
