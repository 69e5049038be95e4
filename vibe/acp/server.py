"""The server: answers `initialize` at once, then loads library and engine, and serves the editor until it is gone."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

from anyio import create_task_group, to_thread

from vibe.acp.handshake import answer_to_initialize, capabilities_in
from vibe.acp.transport import LineTransport
from vibe.app.engine.host import Host
from vibe.system.line_wire import Wire
from vibe.system.racing import unless

if TYPE_CHECKING:
    from vibe.acp.session import SlashPort

LoadCommands: TypeAlias = "Callable[[], SlashPort]"
"""Loads what makes the slash commands of a session; takes long."""


async def serve_editor(wire: Wire, host: Host, load: LoadCommands, on_gone: Callable[[], object]) -> None:
    """Serve the editor at the other end until it is gone; its conversations are interrupted and saved then.

    ``load`` loads the slash commands of sessions. ``on_gone`` is called as soon as the client no longer waits for what
    is still at work.
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
            loaded = await unless(
                transport.gone.wait, lambda: to_thread.run_sync(_loaded, load, abandon_on_cancel=True)
            )
            if loaded:
                from vibe.acp.agent import serve_requests

                known = None if answer is None else capabilities_in(first)
                await serve_requests(transport, host, loaded[0], known)
        await transport.close()
        reading.cancel_scope.cancel()


def _loaded(load: LoadCommands) -> SlashPort:
    """Load library and engine, and return the slash commands; takes long."""
    importlib.import_module("vibe.acp.agent")
    return load()


async def _call_when_gone(transport: LineTransport, call: Callable[[], object]) -> None:
    await transport.gone.wait()
    call()
