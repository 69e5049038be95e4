"""Executors of a plan's steps: this process, a process for each attempt, a cluster, or an installed package."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

from anyio import CancelScope, to_thread
from msgspec import Struct, json

from planner.plan.model import Plan
from planner.store.folder import PROGRAM, ApprovalSetting, PlanRunOptions, ProgramPart
from planner.store.store import PlanStore
from subagents.agent.budget import Limits
from subagents.agent.run_services import RunServices
from subagents.executor import StepExecutor
from subagents.step.local_executor import LocalExecutor
from subagents.step.tamper_guard import RunClaims
from vibe.app.engine.build import Engine, EngineRequest
from vibe.app.engine.host import Host
from vibe.app.plan.step_context import StepDocument, StepPlace, step_context
from vibe.core import extensions
from vibe.core.config.models import ClusterConfig
from vibe.core.tools.permissions import ApprovalMode
from vibe.shell.sandbox.confinement import remove_remains
from vibe.system.errors import UsageError

DEFAULT_EXECUTOR = "local"
CLUSTER_EXECUTOR = "dask"
OWN_EXECUTORS = (DEFAULT_EXECUTOR, "process", CLUSTER_EXECUTOR)

APPROVAL_MODES = {
    ApprovalSetting.ASK: ApprovalMode.ASK,
    ApprovalSetting.EDITS: ApprovalMode.EDITS,
    ApprovalSetting.AUTO: ApprovalMode.ALL,
}


class PlanSteps(Struct, frozen=True, kw_only=True):
    """The steps of a plan that is run: the plan and its folder, and what its agents work with."""

    plan: Plan
    store: PlanStore
    host: Host
    engine: Engine
    place: StepPlace
    services: RunServices
    program: ProgramPart | None = None
    """The part of a program that does some of them, if there is one."""


def check_executor(name: str) -> None:
    """Check that there is an executor of a name.

    Raises:
        UsageError: there is none.
    """
    if name not in OWN_EXECUTORS and name not in (others := extensions.extension_names(extensions.EXECUTORS)):
        known = dict.fromkeys((*OWN_EXECUTORS, *others))
        raise UsageError(f"--executor {name!r}: no such executor; choose from {', '.join(known)}")


def executor_of(options: PlanRunOptions, before: str = DEFAULT_EXECUTOR) -> str:
    """Return the name of the executor that was asked for. Naming a cluster selects the one executor that uses it.

    Raises:
        UsageError: there is no such executor, or it does not use the cluster that was named.
    """
    name = options.executor or (before if options.cluster is None else CLUSTER_EXECUTOR)
    if options.executor or name != PROGRAM:
        check_executor(name)
    _check_reach(name, options)
    if options.cluster is not None and name != CLUSTER_EXECUTOR:
        raise UsageError(f"--cluster is for --executor {CLUSTER_EXECUTOR}, not for {name!r}: leave one of the two out")
    return name


def _check_reach(name: str, options: PlanRunOptions) -> None:
    """Check that steps will be able to call what a program brings.

    Raises:
        UsageError: they are in other processes.
    """
    functions = options.program.functions if options.program and name == "process" else ()
    brought = {"tools": options.tools, "hooks": options.hooks, "functions": functions}
    if (found := [word for word, given in brought.items() if given]) and name in {"process", CLUSTER_EXECUTOR}:
        raise UsageError(
            f"executor={name!r}: a process of its own can't call {' and '.join(found)} of this program: leave "
            "executor= out, or offer them as an MCP server"
        )


def cluster_of(executor: str, given: str, config: ClusterConfig) -> str:
    """Return the address of the cluster that an executor uses, after checking it; empty if it uses none. Blocks.

    Raises:
        UsageError: none is named, or one of its settings is wrong.
        EnvironmentFailure: it can't be reached.
    """
    if executor != CLUSTER_EXECUTOR:
        return ""
    from vibe.app.cluster.address import check_cluster

    address = given or config.address
    if not address:
        raise UsageError(
            f"--executor {CLUSTER_EXECUTOR} needs a cluster: name it with --cluster ADDRESS (local:2 to try it out), "
            "or by `address` in [cluster] of your settings"
        )
    check_cluster(address, config.certificates)
    return address


@asynccontextmanager
async def step_executor(steps: PlanSteps) -> AsyncGenerator[StepExecutor]:
    """Yield the executor that the run's settings ask for. Everything it started is gone when the block ends."""
    named, claims, program = steps.store.settings.executor, RunClaims(), steps.program
    name = DEFAULT_EXECUTOR if named == PROGRAM else named
    # Other packages get the executor of this process, as docs/guide/extending.md promises. Ours share the claims.
    given = claims if name in OWN_EXECUTORS else local_executor(steps, claims)
    make = await to_thread.run_sync(extensions.load_extension, extensions.EXECUTORS, name)
    async with make(steps, given) as executor:
        yield executor if program is None else program.executor(executor, steps.place.workspace)


@asynccontextmanager
async def in_this_process(steps: PlanSteps, claims: RunClaims) -> AsyncGenerator[StepExecutor]:
    """Yield an executor that does the steps in this process."""
    yield local_executor(steps, claims)


def local_executor(steps: PlanSteps, claims: RunClaims) -> LocalExecutor:
    """Return the executor of this process."""
    context = step_context(steps.engine, steps.place, steps.services)
    return LocalExecutor(context, steps.store.step_folder, claims)


@asynccontextmanager
async def in_processes(steps: PlanSteps, claims: RunClaims) -> AsyncGenerator[StepExecutor]:
    """Yield an executor that does each step of an agent in a process of its own."""
    from subagents.process.child_process import MOST_SPARES, ProcessPool, StepProgram
    from subagents.process.executor import ProcessExecutor

    store = steps.store
    program = StepProgram(
        environ=steps.host.environ,
        document=step_document(steps, steps.engine.request),
        capabilities=capabilities_of(steps.services),
    )
    spares = min(MOST_SPARES, store.settings.max_parallel)
    pool = ProcessPool(program, spares=spares, expected=agents_to_come(steps.plan, store))
    try:
        await pool.fill()
        yield ProcessExecutor(pool, steps.services, claims, local_executor(steps, claims), store.step_folder)
    finally:
        with CancelScope(shield=True):
            await pool.close()
            # A process that is ended while it gets ready may leave the folders in which it tries the sandbox.
            await to_thread.run_sync(remove_remains, steps.host.environ, Path(store.settings.workspace))


def capabilities_of(services: RunServices) -> tuple[str, ...]:
    """Return what the run can do for the processes of steps."""
    from subagents.process.protocol import APPROVALS, QUESTIONS

    asked = {APPROVALS: services.approvals.approver, QUESTIONS: services.user_input}
    return tuple(name for name, person in asked.items() if person is not None)


def step_document(steps: PlanSteps, request: EngineRequest) -> bytes:
    """Return the document for processes of steps, which build their engine by ``request``."""
    document = StepDocument(
        home=steps.host.home,
        steps=steps.store.folder.step_folder("-").parent,
        request=request,
        approvals=steps.services.approvals.mode,
        place=steps.place,
        limits=plan_limits(steps.plan),
    )
    return json.encode(document, enc_hook=str)  # for paths


def plan_limits(plan: Plan) -> Limits:
    """Return the plan's budget as limits of its account."""
    budget = plan.budget
    return Limits(max_tokens=budget.max_tokens, max_price=budget.max_price) if budget else Limits()


def agents_to_come(plan: Plan, store: PlanStore) -> int:
    """Return how many steps agents have still to do."""
    done = {step_id for step_id, step in store.state().steps.items() if step.status.is_final}
    return sum(step.command is None and step.id not in done for step in plan.steps)
