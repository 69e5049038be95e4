"""The server: answers `initialize` at once, then loads library and engine and serves the editor until it is gone."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from importlib import import_module

from anyio import create_task_group, to_thread

from vibe.acp.transport import LineTransport, answer_to_initialize
from vibe.app.engine.host import Host
from vibe.system.line_wire import Wire
from vibe.system.racing import unless


async def serve_editor(wire: Wire, host: Host, on_gone: Callable[[], object]) -> None:
    """Serve the editor at the other end until it is gone. Its conversations are then interrupted and saved.

    ``on_gone`` is called as soon as the client no longer waits for work that is still running.
    """
    transport = LineTransport(wire)
    async with create_task_group() as reading:
        reading.start_soon(transport.read)
        reading.start_soon(_call_when_gone, transport, on_gone)
        first = await transport.receive()
        if first is not None:
            answer = answer_to_initialize(first)
            if answer is None:
                transport.push_back(first)
            else:
                await transport.send(answer)
            load = partial(import_module, "vibe.acp.agent")  # The library and the engine, which take long.
            for agent in await unless(transport.gone.wait, lambda: to_thread.run_sync(load, abandon_on_cancel=True)):
                await agent.serve_requests(transport, host)
        await transport.close()
        reading.cancel_scope.cancel()


async def _call_when_gone(transport: LineTransport, call: Callable[[], object]) -> None:
    await transport.gone.wait()
    call()
