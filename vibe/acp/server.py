"""The server: answers `initialize` at once, then loads library and engine, and serves the editor until it is gone."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

from anyio import create_task_group, to_thread

from vibe.acp.handshake import answer_to_initialize, capabilities_in
from vibe.acp.transport import LineTransport
from vibe.app.engine.host import Host
from vibe.core.system.line_wire import Wire

if TYPE_CHECKING:
    from vibe.acp.session import SlashPort

LoadCommands: TypeAlias = "Callable[[], SlashPort]"
"""Loads what makes the slash commands of a session; takes long."""


async def serve_editor(wire: Wire, host: Host, load: LoadCommands, on_gone: Callable[[], object]) -> None:
    """Serve the editor at the other end until it is gone; its conversations are interrupted and saved then.

    ``load`` loads the slash commands of sessions. ``on_gone`` is called as soon as nobody waits any more for what is
    still at work.
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
            if await _is_loaded(transport, load):
                from vibe.acp.agent import serve_requests

                await serve_requests(transport, host, load(), capabilities_in(first) if answer is not None else None)
        await transport.close()
        reading.cancel_scope.cancel()


async def _is_loaded(transport: LineTransport, load: LoadCommands) -> bool:
    """Load library and engine; False: the editor went meanwhile."""
    async with create_task_group() as loading:
        loading.start_soon(_call_when_gone, transport, loading.cancel_scope.cancel)
        await to_thread.run_sync(importlib.import_module, "vibe.acp.agent", abandon_on_cancel=True)
        await to_thread.run_sync(load, abandon_on_cancel=True)
        loading.cancel_scope.cancel()
    return not transport.gone.is_set()


async def _call_when_gone(transport: LineTransport, call: Callable[[], object]) -> None:
    await transport.gone.wait()
    call()
