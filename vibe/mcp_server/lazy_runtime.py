"""LazyRuntime: the one runtime behind all calls, loaded during the handshake."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from anyio import CancelScope, Event, to_thread

from vibe.app.engine.host import Host, refuse_below_two
from vibe.mcp_server.tool import CallRefusedError

if TYPE_CHECKING:
    from vibe.app.conversation.runtime import Runtime
    from vibe.mcp_server.served_plans import ServedPlans


class LazyRuntime:
    """The runtime and how far its agents may go: ``auto_approve`` lets pass what a person would be asked about."""

    def __init__(self, host: Host, *, auto_approve: bool = False) -> None:
        self.auto_approve = auto_approve
        self._host = host
        self._wanted, self._ready, self._closing = Event(), Event(), Event()
        self._plans: ServedPlans | None = None

    async def run(self) -> None:
        """Load the runtime once it is wanted, and hold it until ``close``; then all its work ends.

        Cancelling this ends it only while there is no runtime: plans are paused, and that takes its time.
        """
        await self._wanted.wait()
        make_runtime, make_plans = await to_thread.run_sync(_load, abandon_on_cancel=True)
        with CancelScope(shield=True):
            auto = self.auto_approve
            async with make_runtime(self._host) as runtime, make_plans(runtime, auto_approve=auto) as self._plans:
                self._ready.set()
                await self._closing.wait()

    def close(self) -> None:
        """Have all work end."""
        self._closing.set()

    def prepare(self) -> None:
        """Have the runtime made, before a call comes."""
        self._wanted.set()

    async def loaded(self) -> Runtime:
        """Return the runtime, once it is there; raises as ``plans``."""
        return (await self.plans()).runtime

    def disconnected(self, connection: str) -> None:
        """Hear that a connection has ended: what was begun over it is paused."""
        if self._plans is not None:
            self._plans.disconnected(connection)

    async def plans(self) -> ServedPlans:
        """Return the plans of this server, once they can be run.

        Raises:
            NestedTooDeepError: the agent that calls was itself called so, twice over.
            CallRefusedError: the server is closing.
        """
        refuse_below_two(self._host.environ)
        self.prepare()
        await self._ready.wait()
        if self._plans is None:
            raise CallRefusedError("the server is closing: call again once it is back")
        return self._plans


def _load() -> tuple[type[Runtime], type[ServedPlans]]:
    """Import what conversations and plans need; takes long."""
    importlib.import_module("vibe.mcp_server.conversation_call")
    importlib.import_module("vibe.mcp_server.plan_calls")
    from vibe.app.conversation.runtime import Runtime  # noqa: PLC0415  the handshake does without it
    from vibe.mcp_server.served_plans import ServedPlans  # noqa: PLC0415  as the line above

    return Runtime, ServedPlans
