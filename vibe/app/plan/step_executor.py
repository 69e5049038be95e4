"""Executors of a plan's steps: this process, or one of its own for each attempt."""

from __future__ import annotations

import sys
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext

import msgspec
from msgspec import Struct

from planner.plan.model import Plan
from planner.store.folder import ApprovalSetting
from planner.store.store import PlanStore
from subagents.agent.budget import Limits
from subagents.agent.run_services import RunServices
from subagents.executor import StepExecutor
from subagents.step.local_executor import LocalExecutor
from subagents.step.tamper_guard import RunClaims
from vibe.app.engine.build import Engine
from vibe.app.engine.host import Host
from vibe.app.plan.step_context import StepDocument, StepPlace, step_context
from vibe.core import extensions
from vibe.core.extensions import extension_names, make_extension
from vibe.core.tools.permissions import ApprovalMode
from vibe.system.errors import UsageError

STEP_PROGRAM = "vibe.app.plan.child_main"
MOST_SPARES = 2

APPROVAL_MODES = {
    ApprovalSetting.ASK: ApprovalMode.ASK,
    ApprovalSetting.EDITS: ApprovalMode.EDITS,
    ApprovalSetting.AUTO: ApprovalMode.ALL,
}


class PlanSteps(Struct, frozen=True, kw_only=True):
    """The steps of a plan that is run: how it stands, and what its agents work with."""

    plan: Plan
    store: PlanStore
    host: Host
    engine: Engine
    place: StepPlace
    services: RunServices


def check_executor(name: str) -> None:
    """Check that there is an executor of this name.

    Raises:
        UsageError: there is no such executor.
    """
    if name not in EXECUTORS and name not in (known := extension_names(extensions.EXECUTORS)):
        raise UsageError(f"--executor {name!r}: no such executor; choose from {', '.join([*EXECUTORS, *known])}")


@asynccontextmanager
async def step_executor(steps: PlanSteps) -> AsyncGenerator[StepExecutor]:
    """Yield the executor that the run's settings ask for; what it started is gone when the block ends."""
    name, claims = steps.store.settings.executor, RunClaims()
    own = EXECUTORS.get(name)
    made = own(steps, claims) if own else make_extension(extensions.EXECUTORS, name, steps, _local(steps, claims))
    async with made as executor:
        yield executor


def _local(steps: PlanSteps, claims: RunClaims) -> LocalExecutor:
    context = step_context(steps.engine, steps.place, steps.services)
    return LocalExecutor(context, steps.store.step_folder, claims)


@asynccontextmanager
async def _in_processes(steps: PlanSteps, claims: RunClaims) -> AsyncGenerator[StepExecutor]:
    from subagents.process.child_process import StepProgram
    from subagents.process.executor import ProcessExecutor, ProcessPool

    store = steps.store
    pool = ProcessPool(
        # -P: the folder it starts in may hold modules of any name.
        StepProgram(
            argv=(sys.executable, "-P", "-m", STEP_PROGRAM),
            environ=steps.host.environ,
            document=_document(steps),
            capabilities=_capabilities(steps.services),
        ),
        spares=min(MOST_SPARES, store.settings.max_parallel),
        expected=_agents_to_come(steps.plan, store),
    )
    try:
        await pool.fill()
        yield ProcessExecutor(pool, steps.services, claims, _local(steps, claims), store.step_folder)
    finally:
        await pool.close()


EXECUTORS: Mapping[str, Callable[[PlanSteps, RunClaims], AbstractAsyncContextManager[StepExecutor]]] = {
    "local": lambda steps, claims: nullcontext(_local(steps, claims)),
    "process": _in_processes,
}
"""The executors there are, by the name that ``--executor`` and a run's settings know them by."""
DEFAULT_EXECUTOR = "local"


def _capabilities(services: RunServices) -> tuple[str, ...]:
    """Return what the run can do for the processes of steps."""
    from subagents.process.protocol import APPROVALS, QUESTIONS

    asked = {APPROVALS: services.approvals.tree.approver, QUESTIONS: services.user_input}
    return tuple(name for name, person in asked.items() if person is not None)


def _document(steps: PlanSteps) -> bytes:
    return msgspec.json.encode(
        StepDocument(
            home=steps.host.home,
            steps=steps.store.folder.step_folder("-").parent,
            request=steps.engine.request,
            approvals=steps.services.approvals.mode,
            place=steps.place,
            limits=plan_limits(steps.plan),
        ),
        enc_hook=str,  # paths
    )


def plan_limits(plan: Plan) -> Limits:
    """The plan's budget as limits of its account."""
    budget = plan.budget
    return Limits(max_tokens=budget.max_tokens, max_price=budget.max_price) if budget else Limits()


def _agents_to_come(plan: Plan, store: PlanStore) -> int:
    """Return how many steps an agent has still to do."""
    steps = store.state().steps
    return sum(
        step.command is None and not (step.id in steps and steps[step.id].status.is_final) for step in plan.steps
    )
