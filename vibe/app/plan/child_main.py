"""A step's own process: ``python -P -m vibe.app.plan.child_main LINK PARENT``, started by the run and served by it.

It imports and builds all that an attempt needs before it is told which, makes one attempt as the run itself would, says
what came of it, and leaves. It dies with the process that started it, however that ends.
"""

from __future__ import annotations

import ctypes
import logging
import os
import signal
import socket
import sys
from collections.abc import Sequence
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path

import anyio
import anyio.to_thread

from ipc.events import Event, ToolServerEvent
from subagents.agent.run_services import RunServices
from subagents.executor import StepResult, unserved
from subagents.process.child import (
    LinkedApprover,
    LinkedClaims,
    LinkedLedger,
    LinkedLimiter,
    LinkedSpawnPool,
    LinkedTurn,
    StepLink,
    linked_input,
    linked_turn,
)
from subagents.process.protocol import AGENTS, APPROVALS, QUESTIONS, Begin, Ended, LinkError, MismatchError, Prepare
from subagents.process.transport import SocketTransport
from subagents.step.local_executor import LocalExecutor
from subagents.step_result import ENVIRONMENT_REASON
from vibe.app.engine.build import Engine, build_engine
from vibe.app.engine.host import Host
from vibe.app.engine.tool_servers import tool_servers
from vibe.app.plan.step_context import StepDocument, decode_document, step_context
from vibe.core.outcome import Outcome
from vibe.system.awake_loop import run_awake
from vibe.system.errors import VibeError, innermost

logger = logging.getLogger(__name__)

PR_SET_PDEATHSIG = 1
ORPHAN_SECONDS = 5
"""The time a process has to end after its run is gone, where the kernel does not end it."""
ORPHANED = 1
MISMATCH = 3


class _QuietServers:
    """Passes events on, except those about tool servers: the run has announced its own of the same names."""

    def __init__(self, link: StepLink) -> None:
        self._link = link

    def publish(self, event: Event) -> None:
        """Pass it on, or not."""
        if not isinstance(event, ToolServerEvent):
            self._link.publish(event)


def main(arguments: Sequence[str]) -> int:
    """Serve one attempt."""
    descriptor, parent = map(int, arguments)
    _die_with(parent)
    with socket.socket(fileno=descriptor) as link:
        try:
            run_awake(_serve, StepLink(SocketTransport(link)))
        except MismatchError as error:
            sys.stderr.write(f"{error}\n")
            return MISMATCH
    return 0


def _die_with(parent: int) -> None:
    """Have the kernel end this process with its parent; elsewhere the end of the link does, a little later."""
    if sys.platform.startswith("linux"):
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(ORPHANED)


async def _serve(link: StepLink) -> None:
    await link.greet((AGENTS,))
    prepare = await link.receive()
    if not isinstance(prepare, Prepare):
        return
    document = decode_document(bytes(prepare.document))
    engine = await anyio.to_thread.run_sync(_engine, link, document)
    begin = await link.receive()
    if not isinstance(begin, Begin):
        return
    async with anyio.create_task_group() as group:
        group.start_soon(_attend, link, begin.task.step_id, group.cancel_scope)
        result = await _attempt(link, document, engine, begin)
        _end(link, result)
        group.cancel_scope.cancel()


def _end(link: StepLink, result: StepResult) -> None:
    try:
        link.send(Ended(result))
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        detail = f"the step's result cannot be written as JSON: {error}"
        link.send(Ended(StepResult(outcome=Outcome.FAILED, reason="internal", detail=detail)))


async def _attend(link: StepLink, step_id: str, scope: anyio.CancelScope) -> None:
    """Leave when the run says so, or is gone."""
    try:
        wanted = await link.attend(step_id)
    except LinkError:
        wanted = False
    if not wanted:
        signal.alarm(ORPHAN_SECONDS)
    scope.cancel()


def _engine(link: StepLink, document: StepDocument) -> Engine | VibeError:
    """Return the engine, or the error: the run is told once it asks for an attempt."""
    try:
        return build_engine(_host(document), document.request, partial(LinkedLimiter, link))
    except VibeError as error:
        return error


async def _attempt(link: StepLink, document: StepDocument, engine: Engine | VibeError, begin: Begin) -> StepResult:
    if isinstance(engine, VibeError):
        return _no_surroundings(engine)
    try:
        return await _do(link, document, engine, begin)
    except Exception as raised:
        error = innermost(raised)
        if isinstance(error, VibeError):
            return _no_surroundings(error)
        logger.exception("step %s raised", begin.task.step_id)
        detail = f"{type(error).__name__}: {error}"
        return unserved(raised) or StepResult(outcome=Outcome.FAILED, reason="internal", detail=detail)


def _no_surroundings(error: VibeError) -> StepResult:
    return unserved(error) or StepResult(outcome=Outcome.FAILED, reason=ENVIRONMENT_REASON, detail=str(error))


async def _do(link: StepLink, document: StepDocument, engine: Engine, begin: Begin) -> StepResult:
    place = document.place
    async with AsyncExitStack() as stack:
        stack.push_async_callback(engine.models.aclose)
        servers = await stack.enter_async_context(
            tool_servers(engine, _host(document), place.workspace, attended=link.can(QUESTIONS))
        )
        engine = await servers.equip(_QuietServers(link))
        approvals = engine.approvals(document.approvals, LinkedApprover(link) if link.can(APPROVALS) else None)
        approvals.tree.queue = LinkedTurn(link, approvals)
        services = RunServices(
            sink=link,
            account=LinkedLedger(link, document.limits, begin.usage, begin.cost_usd).account,
            approvals=approvals,
            spawning=LinkedSpawnPool(link, engine.agents, engine.config.subagents),
            limiter_of=engine.models.limiter,
            user_input=partial(linked_input, link) if link.can(QUESTIONS) else None,
            steering=link.steering,
            turns=partial(linked_turn, link),
        )
        local = LocalExecutor(
            step_context(engine, place, services), lambda step_id: _folder(document, step_id), LinkedClaims(link)
        )
        return await local.run(begin.task, link)


def _folder(document: StepDocument, step_id: str) -> Path:
    folder = document.steps / step_id
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _host(document: StepDocument) -> Host:
    return Host(home=document.home, environ=dict(os.environ))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
