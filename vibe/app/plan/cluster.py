"""The executor ``dask``: workers of a cluster do the steps in worktrees, this process does all others."""

from __future__ import annotations

import math
import shutil
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from uuid import uuid4

from anyio import create_task_group, to_thread

from ipc.events import WarningEvent
from subagents.cluster.client import ClusterClient
from subagents.cluster.node import scheduler_at, security_of
from subagents.executor import StepExecutor
from subagents.remote.executor import ClusterExecutor, RunForWorkers
from subagents.remote.frames import RemoteSettings, RunParts
from subagents.remote.places import WorkerSettings
from subagents.step.tamper_guard import RunClaims
from vibe.app.cluster.address import Certificates, ClusterAddress, ClusterError, parse_address, read_certificates
from vibe.app.cluster.certificates import write_certificates
from vibe.app.cluster.sent_settings import SentSettings, settings_to_send
from vibe.app.cluster.service import Node, keep_running
from vibe.app.plan.step_executor import PlanSteps, agents_to_come, capabilities_of, local_executor, step_document
from vibe.app.plan.worktrees import repository_of, wants_worktrees
from vibe.core.config.models import bytes_of
from vibe.system.errors import EnvironmentFailure, os_error_as
from vibe.system.process import kill_in_folder
from vibe.system.racing import shielded

NONE_TRAVELS = (
    "no step of this plan works in a worktree of its own, so all are done on this machine: give those that the cluster "
    'is for `"workspace": "worktree"`'
)
LOCAL_SCHEDULER = "tls://127.0.0.1:0"


@asynccontextmanager
async def on_a_cluster(steps: PlanSteps, claims: RunClaims) -> AsyncGenerator[StepExecutor]:
    """Yield an executor that has steps in worktrees done on the cluster that the run's settings name.

    Raises:
        UsageError: the workers would need too many files.
        EnvironmentFailure: the cluster can no longer be reached.
    """
    config, run_id = steps.engine.config.cluster, uuid4().hex
    sent = await to_thread.run_sync(settings_to_send, steps.engine)
    for message in (sent.warning, "" if wants_worktrees(steps.plan) else NONE_TRAVELS):
        if message:
            steps.services.sink.publish(WarningEvent(code="cluster", message=message))
    whole = await to_thread.run_sync(_for_workers, steps, sent, run_id)
    async with AsyncExitStack() as stack:
        address, certificates, node = await stack.enter_async_context(_cluster(steps))
        security = security_of(certificates.files if certificates else ())
        client = ClusterClient(address, security, run=run_id, lost_seconds=config.lost_seconds)
        workers = await stack.enter_async_context(create_task_group())
        stack.callback(workers.cancel_scope.cancel)  # after the client has told them that the run is over
        with os_error_as(partial(ClusterError, address)):
            await stack.enter_async_context(client)
        if node is not None:
            workers.start_soon(_keep, node, client)
        yield ClusterExecutor(
            local_executor(steps, claims),
            client,
            steps.services,
            claims,
            whole,
            partial(repository_of, whole.workspace, steps.host, steps.engine),
            RemoteSettings(
                checkpoint_seconds=config.checkpoint_seconds,
                largest_tree=bytes_of(config.largest_tree),
                setup=config.setup,
                setup_keys=config.setup_keys,
                share=tuple(steps.engine.config.worktree.share),
            ),
        )


def _for_workers(steps: PlanSteps, sent: SentSettings, run_id: str) -> RunForWorkers:
    """Return what each worker gets of a run. Looks for the sandbox that this machine would use. Blocks."""
    sandbox = steps.engine.confinement.choice().sandbox
    store = steps.store
    return RunForWorkers(
        run_id=run_id,
        home=steps.host.home,
        steps=store.folder.step_folder("-").parent,
        workspace=Path(store.settings.workspace),
        parts=RunParts(
            document=step_document(steps, sent.request),
            files=sent.files,
            capabilities=capabilities_of(steps.services),
            agents=agents_to_come(steps.plan, store),
        ),
        needed=() if sandbox is None else (sandbox.name.split()[0].lower(),),
    )


@asynccontextmanager
async def _cluster(steps: PlanSteps) -> AsyncGenerator[tuple[str, Certificates | None, Node | None]]:
    """Yield the address of the cluster, the certificates for it, and the node of the workers to start.

    A scheduler on this machine is stopped when the block ends.
    """
    address = parse_address(steps.store.settings.cluster)
    if address.host:
        folder = steps.engine.config.cluster.certificates
        certificates = await to_thread.run_sync(read_certificates, folder) if address.is_encrypted else None
        yield address.text, certificates, None
        return
    folder = steps.store.folder.path / "cluster"
    remove = partial(shielded, lambda: to_thread.run_sync(_remove, folder))
    await remove()  # a run that was killed may have left it
    # Every user of this machine can reach loopback, and whoever reaches a scheduler can run programs as we do.
    certificates = await to_thread.run_sync(write_certificates, folder)
    async with AsyncExitStack() as stack:
        stack.push_async_callback(remove)
        scheduler = await stack.enter_async_context(scheduler_at(LOCAL_SCHEDULER, str(folder), certificates.files))
        yield scheduler, certificates, await to_thread.run_sync(_workers, steps, address, scheduler, certificates)


def _remove(folder: Path) -> None:
    """Remove the folder of this machine's workers, and end what steps left running in it. Blocks."""
    kill_in_folder(str(folder))
    shutil.rmtree(folder, ignore_errors=True)


async def _keep(node: Node, client: ClusterClient) -> None:
    """Keep a worker running. If it can't be started, the run gets no more places, since it would wait for ever."""
    try:
        await keep_running(node, str)  # its address need not be announced
    except EnvironmentFailure as error:
        client.give_up(str(error))


def _workers(steps: PlanSteps, address: ClusterAddress, scheduler: str, certificates: Certificates) -> Node:
    """Return the workers of this machine, with the variables and the keys of the run; blocks."""
    environ = {**steps.engine.environ, **steps.host.environ}
    place = certificates.ca.parent
    return Node(
        address=scheduler,
        certificates=certificates,
        environ=environ,
        folder=place,
        slots=address.slots or math.ceil(steps.store.settings.max_parallel / address.workers),
        count=address.workers,
        settings=WorkerSettings(folder=str(place), lost_seconds=steps.engine.config.cluster.lost_seconds),
        is_quiet=True,
    )
