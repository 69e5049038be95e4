"""Changes to plans that have begun, proposed by a model for a sentence; they count once the user accepts them."""

from __future__ import annotations

from dataclasses import dataclass

from anyio import to_thread

from planner.author.planner_agent import PlannerAgent, PlanningLimits
from planner.plan.diagnostics import PlanEndedError
from planner.plan.loader import LoadedPlan
from planner.plan.model import Plan
from planner.plan.operations import Operation, operation_text
from planner.plan.status import PlanStatus
from planner.state.changes import OPEN_STATUSES
from planner.state.decide import look
from planner.state.state import State
from planner.store.current_plan import effective_plan
from planner.store.folder import PlanFolder
from subagents.agent.run_context import AgentContext
from vibe.app.plan.command_consent import CommandLine, command_lines
from vibe.core.agent_loop import ActResult
from vibe.core.outcome import StopSignal


@dataclass(frozen=True, slots=True, kw_only=True)
class ProposedChange:
    """A proposed revision of a begun plan, which the user may accept; by itself it changes nothing.

    ``operations`` are for ``vibe.app.plan.commands.revise`` or a run's ``PlanControl.revise`` (none: there is nothing
    to change), ``reason`` is the planner's. ``commands`` are lines that no step ran before. ``acted`` says what went
    wrong, and what it took.
    """

    plan_id: str
    wished: str
    acted: ActResult
    operations: tuple[Operation, ...] = ()
    reason: str = ""
    commands: tuple[CommandLine, ...] = ()

    @property
    def diff(self) -> tuple[str, ...]:
        """Return what would change, a line for each operation."""
        return tuple(operation_text(operation) for operation in self.operations)


async def propose_change(
    plan: PlanFolder, sentence: str, context: AgentContext, limits: PlanningLimits, stop: StopSignal | None = None
) -> ProposedChange:
    """Have a model propose the revision that a sentence asks for, of a begun plan, running or not.

    ``context`` as for ``PlanDraft``. Steps that run, or are done, stay as they are.

    Raises:
        UsageError: the plan has ended, the sentence is blank, or the model can't be had.
        EnvironmentFailure: the plan's folder can't be read.
    """
    loaded, state = await to_thread.run_sync(_as_it_stands, plan)
    found = await PlannerAgent(context, limits).change(loaded.plan, state, sentence, stop)
    new = () if found.revised is None else _new_lines(loaded.plan, found.revised.plan)
    return ProposedChange(
        plan_id=plan.plan_id,
        wished=sentence,
        acted=found.acted,
        operations=found.operations,
        reason=found.reason,
        commands=new,
    )


def _as_it_stands(folder: PlanFolder) -> tuple[LoadedPlan, State]:
    """Return a plan and its state; reads files."""
    state = folder.state()
    if state.status not in OPEN_STATUSES | {PlanStatus.FAILED}:
        raise PlanEndedError(state.status.value, "nothing left to change; run the edited plan file")
    loaded = effective_plan(folder, state)
    if not state.is_run or state.status is not PlanStatus.ACTIVE:
        look(state, loaded, folder.settings().decisions)
    return loaded, state


def _new_lines(before: Plan, after: Plan) -> tuple[CommandLine, ...]:
    known = {one.line for one in command_lines(before)}
    return tuple(one for one in command_lines(after) if one.line not in known)
