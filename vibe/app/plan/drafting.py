"""Proposals of plans, and of changes to plans that have begun, by a model or from a document. Nothing is run."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache, partial

from anyio import to_thread
from msgspec import Struct, convert, field, structs

from ipc.events import PlanBounds, PlanExpectation, PlannedCommand, PlanProposedEvent
from planner.author.planner_agent import Draft, PlannerAgent, PlanningLimits, ProposedChange
from planner.plan.diagnostics import PlanEndedError
from planner.plan.estimate import Estimate, estimate, notes
from planner.plan.loader import LoadedPlan, load_plan
from planner.plan.model import Plan
from planner.plan.step_limits import usual_limits
from planner.state.changes import NOT_REVISED, REVISABLE
from planner.state.schedule import outline_of
from planner.state.state import State
from planner.store.current_plan import current_state
from planner.store.folder import PlanFolder
from subagents.agent.run_context import AgentContext
from vibe.app.engine.build import Engine
from vibe.app.plan.command_consent import command_lines
from vibe.app.plan.preflight import with_ladders
from vibe.core.agent_loop import ActResult
from vibe.system.errors import UsageError, VibeError


class DraftVersion(Struct, frozen=True, kw_only=True):
    """One version of a proposed plan.

    ``number`` counts from 1. ``estimate`` holds the plan's bounds, and ``expected`` what it will probably take (None:
    unknown). ``repairs`` says what was corrected in the model's own output.
    """

    number: int
    loaded: LoadedPlan
    estimate: Estimate
    expected: PlanExpectation | None = None
    repairs: tuple[str, ...] = ()


class PlanDraft(Struct, kw_only=True):
    """A plan proposed for a goal, in all its versions. Each version is announced; none is run.

    ``context`` is that of the planning agent: its account pays for every version, and its sink gets the events.
    ``limits`` bound each piece of planning. Estimates take from the engine's configuration what plan and steps leave
    open, and from its agents the models of those that steps name. ``expects`` returns what a resolved plan will take if
    a given number of its steps can run at once; it reads files.
    """

    goal: str
    context: AgentContext
    limits: PlanningLimits
    engine: Engine
    expects: Callable[[Plan, int], PlanExpectation | None]
    versions: list[DraftVersion] = field(default_factory=list[DraftVersion])
    """All versions. The last one is the proposal."""
    text: str = ""
    """The document to edit: that of the last version, or what the person made of it that is to be corrected."""
    piped: str = ""
    """Text that came with the goal, for the planner."""
    acted: ActResult | None = None
    """The result of the last planning; None before the first, or if it was cancelled."""
    planner: PlannerAgent | None = None
    """The agent that planned last."""
    commented: Callable[[str, str], object] | None = None
    """Takes a comment on the proposal, and who made it; None unless somebody is being asked about the proposal."""

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
        """The proposed plan.

        Raises:
            UsageError: the plan has no version yet.
        """
        return self.last.loaded

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes on the proposal to read before it runs.

        Raises:
            UsageError: the plan has no version yet.
        """
        return notes(self.last.estimate)

    async def write(self) -> DraftVersion | None:
        """Have the plan written for the goal; return None if planning failed, in which case ``acted`` says why.

        Raises:
            UsageError: the model is not available.
        """
        return await self._take_draft(await self._new_planner().plan(self.goal, piped=self.piped))

    async def revise(self, sentence: str) -> DraftVersion | None:
        """Have the proposal changed as a sentence says; return None if it stays as it is, and ``acted`` says why.

        Raises:
            UsageError: there is nothing to change yet, the sentence is blank, the plan is too long for the model, or
                the
                model is not available.
        """
        return await self._take_draft(await self._new_planner().redraft(self.loaded.plan, sentence))

    def steer(self, text: str) -> bool:
        """Say something to the planning model; return False if none is planning, or it can't take messages."""
        return self.planner is not None and self.planner.steer(text)

    def tell(self, text: str, by: str) -> bool:
        """Take something said from outside: as a comment while a person is asked, otherwise as ``steer`` does.

        Returns False if nobody hears it.
        """
        if self.commented is not None:
            self.commented(text, by)
            return True
        return self.steer(text)

    async def replace(self, document: LoadedPlan | bytes | str, repairs: tuple[str, ...] = ()) -> DraftVersion:
        """Take a document that someone else wrote as the next version. ``repairs`` is as in ``DraftVersion``.

        Raises:
            PlanInvalidError: the plan is invalid, with all its problems.
        """
        if not isinstance(document, LoadedPlan):
            document = await to_thread.run_sync(partial(load_plan, document, where="the plan"))
        return await self._propose(document, repairs)

    def _new_planner(self) -> PlannerAgent:
        self.acted, self.planner = None, PlannerAgent(self.context, self.limits)
        return self.planner

    async def _take_draft(self, draft: Draft) -> DraftVersion | None:
        self.acted = draft.acted
        plan = draft.plan
        return None if plan is None else await self._propose(plan.loaded, plan.repairs)

    async def _propose(self, loaded: LoadedPlan, repairs: tuple[str, ...] = ()) -> DraftVersion:
        self.goal, self.text = loaded.plan.goal, loaded.source_bytes.decode("utf-8", "replace")
        found, expected = await to_thread.run_sync(self._bounds, loaded)
        number = len(self.versions) + 1
        version = DraftVersion(number=number, loaded=loaded, estimate=found, expected=expected, repairs=repairs)
        self.versions.append(version)
        self.context.sink.publish(self._proposed_event(version))
        return version

    def _bounds(self, loaded: LoadedPlan) -> tuple[Estimate, PlanExpectation | None]:
        """Return the bounds of a plan, and what it will take. Reads earlier plans, and may load the price list."""
        plan = with_ladders(loaded, self.engine.agents).plan.resolved()
        config = self.engine.config
        at_once = plan.max_parallel_steps or config.planner.max_parallel_steps
        rate_of, usual = cache(self._rate), usual_limits(config)
        found = estimate(
            plan,
            loaded.dag,
            max_parallel=at_once,
            usual=usual,
            rate_of=lambda step: rate_of(next(iter(step.models), None), step.agent),
        )
        return found, self.expects(plan, at_once)

    def _rate(self, model: str | None, agent: str | None) -> float | None:
        """Return the price of the dearest token for a step with this model or agent; None if it is unknown."""
        models = self.context.models
        try:
            profile = None if agent is None else self.engine.agents.delegated(agent)
            own = models if profile is None else models.adjusted(profile.settings)
            alias = model or (None if profile is None else profile.model) or self.context.default_model
            return own.highest_token_price(own.resolve(alias))
        except VibeError:  # an estimate must work for plans that can't run yet
            return None

    def _proposed_event(self, version: DraftVersion) -> PlanProposedEvent:
        plan, found = version.loaded.plan.resolved(), version.estimate
        bounds = convert(found, PlanBounds, from_attributes=True)
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


async def propose_change(
    plan: PlanFolder, sentence: str, context: AgentContext, limits: PlanningLimits
) -> ProposedChange:
    """Have a model propose the revision that a sentence asks for, of a plan that has begun, whether it runs or not.

    ``context`` is as for ``PlanDraft``. Steps that run or are done stay as they are.

    Raises:
        UsageError: the plan has ended, the sentence is blank, or the model is not available.
        EnvironmentFailure: the plan's folder can't be read.
    """
    loaded, state = await to_thread.run_sync(_current, plan)
    found = await PlannerAgent(context, limits).change(loaded.plan, state, sentence)
    new = () if found.revised is None else _new_lines(loaded.plan, found.revised.plan)
    return structs.replace(found, commands=new)


def _current(folder: PlanFolder) -> tuple[LoadedPlan, State]:
    """Return a plan and its state. Reads files."""
    loaded, state = current_state(folder)
    if state.status not in REVISABLE:
        raise PlanEndedError(state.status.value, NOT_REVISED)
    return loaded, state


def _new_lines(before: Plan, after: Plan) -> tuple[PlannedCommand, ...]:
    known = {one.command for one in command_lines(before)}
    return tuple(one for one in command_lines(after) if one.command not in known)
