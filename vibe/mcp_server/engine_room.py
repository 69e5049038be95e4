"""EngineRoom: the one runtime behind all calls, loaded while the client is still being greeted."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from anyio import Event, sleep_forever, to_thread

from vibe.app.engine.host import Host
from vibe.mcp_server.tool import CallRefusedError

if TYPE_CHECKING:
    from vibe.app.conversation.runtime import Runtime

DEPTH_VARIABLE = "VIBE_MCP_DEPTH"
"""Tells a server how many others of its kind it was started below."""
DEEPEST = 2


class EngineRoom:
    """The runtime and how far its agents may go: ``auto_approve`` lets pass what a person would be asked about."""

    def __init__(self, host: Host, *, auto_approve: bool = False) -> None:
        depth = depth_of(host.environ)
        self.auto_approve = auto_approve
        self._is_too_deep = depth >= DEEPEST
        self._host = replace(host, environ={**host.environ, DEPTH_VARIABLE: str(depth + 1)})
        self._wanted, self._ready = Event(), Event()
        self._runtime: Runtime | None = None

    async def keep(self) -> None:
        """Hold the runtime, from the first wish for it on, until this is cancelled; then all its work ends."""
        await self._wanted.wait()
        make = await to_thread.run_sync(_load, abandon_on_cancel=True)
        async with make(self._host) as self._runtime:
            self._ready.set()
            await sleep_forever()

    def prepare(self) -> None:
        """Have the runtime made, before a call comes."""
        self._wanted.set()

    async def runtime(self) -> Runtime:
        """Return the runtime, once it is there.

        Raises:
            CallRefusedError: the agent that calls was itself called so, twice over.
        """
        if self._is_too_deep:
            raise CallRefusedError(
                f"vibe was called by vibe, which was called by vibe: that goes no deeper ({DEPTH_VARIABLE}={DEEPEST}); "
                "do the work yourself"
            )
        self.prepare()
        await self._ready.wait()
        if self._runtime is None:
            raise CallRefusedError("the server is closing: call again once it is back")
        return self._runtime


def depth_of(environ: Mapping[str, str]) -> int:
    """Return how many servers of this kind there are above; what is no number counts as none."""
    said = environ.get(DEPTH_VARIABLE, "")
    return int(said) if said.isascii() and said.isdigit() else 0


def _load() -> type[Runtime]:
    """Import what conversations need; takes long."""
    importlib.import_module("vibe.mcp_server.conversation_call")
    from vibe.app.conversation.runtime import Runtime  # noqa: PLC0415  a client is greeted without it

    return Runtime
