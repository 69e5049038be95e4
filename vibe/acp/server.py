"""The server: answers `initialize` at once, then loads library and engine, and serves the editor until it is gone."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from functools import partial

from anyio import create_task_group, to_thread

from vibe.acp.transport import LineTransport, answer_to_initialize, capabilities_in
from vibe.app.engine.host import Host
from vibe.system.line_wire import Wire
from vibe.system.racing import unless


async def serve_editor(wire: Wire, host: Host, on_gone: Callable[[], object]) -> None:
    """Serve the editor at the other end until it is gone; its conversations are interrupted and saved then.

    ``on_gone`` is called as soon as the client no longer waits for what is still at work.
    """
    transport = LineTransport(wire)
    async with create_task_group() as reading:
        reading.start_soon(transport.read)
        reading.start_soon(_call_when_gone, transport, on_gone)
        first = await transport.receive()
        if first is not None:
            answer = answer_to_initialize(first)
            if answer is None:
                transport.hold(first)
            else:
                await transport.send(answer)
            if await unless(transport.gone.wait, partial(to_thread.run_sync, _load, abandon_on_cancel=True)):
                from vibe.acp.agent import serve_requests

                known = None if answer is None else capabilities_in(first)
                await serve_requests(transport, host, known)
        await transport.close()
        reading.cancel_scope.cancel()


def _load() -> object:
    """Load library and engine, which takes long."""
    return importlib.import_module("vibe.acp.agent")


async def _call_when_gone(transport: LineTransport, call: Callable[[], object]) -> None:
    await transport.gone.wait()
    call()
