"""Who does a plan's steps: this process, or one of its own for each attempt."""

from __future__ import annotations

import sys
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass

from planner.model import Plan
from planner.records import Approvals as ApprovalSetting
from planner.store import PlanStore
from subagents.budget import Limits
from subagents.executor import StepExecutor
from subagents.local import LocalExecutor
from subagents.verification import Neighbours
from vibe.app.build import Engine
from vibe.app.host import Host
from vibe.app.step_surroundings import StepPlace, StepServices, step_surroundings
from vibe.core.errors import UsageError
from vibe.core.tools.permissions import ApprovalMode

STEP_PROGRAM = "vibe.app.step_process"
MOST_SPARES = 2

APPROVAL_MODES = {
    ApprovalSetting.ASK: ApprovalMode.ASK,
    ApprovalSetting.EDITS: ApprovalMode.EDITS,
    ApprovalSetting.AUTO: ApprovalMode.ALL,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Crew:
    """What an executor is made of: the engine, where it works, and what is one for the whole run."""

    engine: Engine
    place: StepPlace
    services: StepServices


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanSteps:
    """The steps an executor is for. ``local`` does them in this process, ``neighbours`` knows which are at work."""

    crew: Crew
    store: PlanStore
    plan: Plan
    host: Host
    local: LocalExecutor
    neighbours: Neighbours


def check_executor(name: str) -> None:
    """See that there is an executor of this name.

    Raises:
        UsageError: there is none.
    """
    if name not in EXECUTORS:
        raise UsageError(f"--executor {name!r}: there is no such executor; choose one of {', '.join(EXECUTORS)}")


@asynccontextmanager
async def step_executor(crew: Crew, store: PlanStore, plan: Plan, host: Host) -> AsyncGenerator[StepExecutor]:
    """Yield the executor that the run's settings ask for; what it started is gone when the block ends."""
    neighbours = Neighbours()
    local = LocalExecutor(step_surroundings(crew.engine, crew.place, crew.services), store.step_folder, neighbours)
    steps = PlanSteps(crew=crew, store=store, plan=plan, host=host, local=local, neighbours=neighbours)
    async with EXECUTORS[store.settings.executor](steps) as executor:
        yield executor


@asynccontextmanager
async def _in_this_process(steps: PlanSteps) -> AsyncGenerator[StepExecutor]:
    yield steps.local


@asynccontextmanager
async def _in_processes(steps: PlanSteps) -> AsyncGenerator[StepExecutor]:
    from subagents.link_run import Shared  # noqa: PLC0415  most runs have no processes
    from subagents.process_executor import ProcessSettings, process_executor  # noqa: PLC0415  as above
    from subagents.step_process import StepProgram  # noqa: PLC0415  as above

    crew, store = steps.crew, steps.store
    services = crew.services
    settings = ProcessSettings(
        # -P: the folder it starts in may hold modules of any name.
        program=StepProgram(
            argv=(sys.executable, "-P", "-m", STEP_PROGRAM),
            environ=steps.host.environ,
            document=_document(crew, store, steps.plan, steps.host),
            capabilities=_capabilities(services),
        ),
        spares=min(MOST_SPARES, store.settings.max_parallel),
        expected=_agents_to_come(steps.plan, store),
    )
    shared = Shared(
        account=services.account,
        approvals=services.approvals,
        spawning=services.spawning,
        limiter_of=crew.engine.models.limiter,
        sink=services.sink,
        user_input=services.user_input,
        neighbours=steps.neighbours,
    )
    async with process_executor(settings, shared, steps.local, store.step_folder) as executor:
        yield executor


EXECUTORS: Mapping[str, Callable[[PlanSteps], AbstractAsyncContextManager[StepExecutor]]] = {
    "local": _in_this_process,
    "process": _in_processes,
}
"""The executors there are, by the name that ``--executor`` and a run's settings know them by."""
DEFAULT_EXECUTOR = "local"


def _capabilities(services: StepServices) -> tuple[str, ...]:
    """What the run can do for the processes of steps."""
    from subagents.link import APPROVALS, QUESTIONS  # noqa: PLC0415  only for processes

    asked = {APPROVALS: services.approvals.approver, QUESTIONS: services.user_input}
    return tuple(name for name, person in asked.items() if person is not None)


def _document(crew: Crew, store: PlanStore, plan: Plan, host: Host) -> bytes:
    from vibe.app.step_document import StepDocument, encode_document  # noqa: PLC0415  only for processes

    request, place, services = crew.engine.request, crew.place, crew.services
    limits = plan_limits(plan)
    return encode_document(
        StepDocument(
            home=str(host.home),
            steps=str(store.folder.step_folder("-").parent),
            workdir=str(request.workdir),
            workspace=str(place.workspace),
            approvals=services.approvals.mode,
            flags=dict(request.flags),
            trust=request.trust,
            replay=None if request.replay is None else str(request.replay),
            model=place.model,
            sample=place.sample,
            session_id=place.session_id,
            accepted_writes=place.accepted_writes,
            max_tokens=limits.max_tokens,
            max_price=limits.max_price,
        )
    )


def plan_limits(plan: Plan) -> Limits:
    """The plan's budget as limits of its account."""
    budget = plan.budget
    return Limits(max_tokens=budget.max_tokens, max_price=budget.max_price) if budget else Limits()


def _agents_to_come(plan: Plan, store: PlanStore) -> int:
    """How many steps an agent has still to do."""
    steps = store.replay().steps
    return sum(
        step.command is None and not (step.id in steps and steps[step.id].status.is_final) for step in plan.steps
    )
