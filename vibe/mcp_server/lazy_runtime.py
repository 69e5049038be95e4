"""LazyRuntime: the one runtime behind all calls, loaded during the handshake."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from anyio import CancelScope, Event, to_thread
from pydantic import ValidationError

from vibe.app.engine.host import Host, refuse_below_two
from vibe.core.tools.schema import describe_problems
from vibe.mcp_server.tools import TOOLS, CallArguments, Caller, ToolAnswer
from vibe.system.errors import VibeError, unexpected
from vibe.system.plain_text import closest, did_you_mean

if TYPE_CHECKING:
    from vibe.app.conversation.runtime import Runtime
    from vibe.mcp_server.served_plans import ServedPlans

logger = logging.getLogger(__name__)

MOST_PROBLEMS = 10


class LazyRuntime:
    """The runtime and how far its agents may go: ``auto_approve`` lets pass what a person would be asked about."""

    def __init__(self, host: Host, *, auto_approve: bool = False) -> None:
        self._host = host
        self._auto_approve = auto_approve
        self._wanted, self._ready, self._closing = Event(), Event(), Event()
        self._plans: ServedPlans | None = None

    async def run(self) -> None:
        """Load the runtime once it is wanted, and hold it until ``close``; then all its work ends.

        Cancelling this ends it only while there is no runtime: plans are paused, and that takes its time.
        """
        await self._wanted.wait()
        make_runtime, make_plans = await to_thread.run_sync(_load, abandon_on_cancel=True)
        with CancelScope(shield=True):
            auto = self._auto_approve
            async with make_runtime(self._host) as runtime, make_plans(runtime, auto_approve=auto) as self._plans:
                self._ready.set()
                await self._closing.wait()

    def close(self) -> None:
        """Have all work end."""
        self._closing.set()

    def prepare(self) -> None:
        """Have the runtime made, before a call comes."""
        self._wanted.set()

    def disconnected(self, connection: str) -> None:
        """Hear that a connection has ended: what was begun over it is paused."""
        if self._plans is not None:
            self._plans.disconnected(connection)

    async def call(self, name: str, arguments: Mapping[str, Any], caller: Caller) -> ToolAnswer:
        """Call a tool; cancelling this ends all it has started. What can't be done is an answer: a sentence why."""
        from ipc.errors import IpcError  # noqa: PLC0415  the handshake does without it

        tools = {tool.name: tool for tool in TOOLS}
        tool = tools.get(name)
        if tool is None:
            hint = did_you_mean(closest(name, tools), f"there are: {', '.join(tools)}")
            return _refusal(f"there is no tool {name[:80]!r}; {hint}")
        try:
            return await self._called(name, tool.arguments.model_validate(dict(arguments)), caller)
        except ValidationError as error:
            problems = [problem.removeprefix(": ") for problem in describe_problems(error, "")[:MOST_PROBLEMS]]
            takes = ", ".join(tool.arguments.model_fields)
            return _refusal(f"{name} can't be called so: {'; '.join(problems)}; it takes {takes}")
        except (VibeError, IpcError) as error:
            return _refusal(str(error))
        except Exception as error:
            logger.exception("a call of %s failed", name)
            return _refusal(unexpected(error))

    async def _called(self, name: str, args: CallArguments, caller: Caller) -> ToolAnswer:
        """Call a tool once the runtime is there.

        Raises:
            NestedTooDeepError: the agent that calls was itself called so, twice over.
            VibeError, ipc.errors.IpcError: the sentence is the answer.
        """
        refuse_below_two(self._host.environ)
        self.prepare()
        while self._plans is None:
            await self._ready.wait()
        from vibe.mcp_server.calls import CALLS  # noqa: PLC0415  loaded with the runtime

        return await CALLS[name](self._plans, args, caller)


def _refusal(sentence: str) -> ToolAnswer:
    return ToolAnswer(text=sentence, data={"status": "refused", "detail": sentence}, is_error=True)


def _load() -> tuple[type[Runtime], type[ServedPlans]]:
    """Import what conversations and plans need; takes long."""
    from vibe.app.conversation.runtime import Runtime  # noqa: PLC0415  the handshake does without it
    from vibe.mcp_server.calls import ServedPlans  # noqa: PLC0415  as the line above

    return Runtime, ServedPlans
