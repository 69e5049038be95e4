"""The protocol: our tools in the words of the MCP library, its requests in ours, and the runtime behind all calls.

The library is loaded here, and the runtime during the handshake.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from functools import partial
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypeAlias

from anyio import CancelScope, Event, to_thread
from pydantic import ValidationError

from ipc.errors import IpcError
from vibe import __version__
from vibe.app.engine.host import Host, refuse_below_two
from vibe.core.tools.mcp.client import load_library
from vibe.core.tools.schema import describe_problems
from vibe.mcp_server.tools import TOOLS, CallArguments, Caller, ToolAnswer
from vibe.system.errors import VibeError, closest, did_you_mean, unexpected
from vibe.system.racing import unless

if TYPE_CHECKING:
    from mcp.server import Server, ServerRequestContext
    from mcp_types import CallToolRequestParams, CallToolResult, ListToolsResult, PaginatedRequestParams

    from vibe.mcp_server.served_plan import ServedPlans

    RequestContext: TypeAlias = ServerRequestContext[Any, Any]

logger = logging.getLogger(__name__)

MOST_PROBLEMS = 10


class LazyRuntime:
    """The runtime and how far its agents may go: ``auto_approve`` lets pass what a person would be asked about.

    Once ``wanted`` is set it is made, before a call comes.
    """

    def __init__(self, host: Host, *, auto_approve: bool = False) -> None:
        self._host = host
        self._auto_approve = auto_approve
        self.wanted, self._ready, self._closing = Event(), Event(), Event()
        self._plans: ServedPlans | None = None
        self._calls: ModuleType

    async def run(self) -> None:
        """Load the runtime once it is wanted, and hold it until ``close``; then all its work ends.

        Cancelling this ends it only while there is no runtime: plans are paused, and that takes its time.
        """
        await self.wanted.wait()
        self._calls = await to_thread.run_sync(import_module, "vibe.mcp_server.calls", abandon_on_cancel=True)
        with CancelScope(shield=True):
            async with self._calls.served_plans(self._host, auto_approve=self._auto_approve) as self._plans:
                self._ready.set()
                await self._closing.wait()

    def close(self) -> None:
        """Have all work end."""
        self._closing.set()

    def disconnected(self, connection: str) -> None:
        """Hear that a connection has ended: what was begun over it is paused."""
        if self._plans is not None:
            self._plans.disconnected(connection)

    async def call(self, name: str, arguments: Mapping[str, Any], caller: Caller) -> ToolAnswer:
        """Call a tool; cancelling this ends all it has started. What can't be done is an answer: a sentence why."""
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
            UsageError: the agent that calls was itself called so, twice over.
            VibeError, ipc.errors.IpcError: the sentence is the answer.
        """
        refuse_below_two(self._host.environ)
        self.wanted.set()
        while self._plans is None:
            await self._ready.wait()
        return await self._calls.CALLS[name](self._plans, args, caller)


def _refusal(sentence: str) -> ToolAnswer:
    return ToolAnswer(text=sentence, data={"status": "refused", "detail": sentence}, is_error=True)


SERVER_NAME, SERVER_TITLE = "vibe", "Vibe"
INSTRUCTIONS = (
    "vibe is a coding agent. call_vibe has one task done and returns its answer; give it the absolute path of the "
    "folder and all it must know. Use mode observe for questions: nothing can be changed then. plan_run has a larger "
    "task planned and carried out by several agents in the background; ask after it with plan_status and plan_result."
)
DISCOVER = "server/discover"


def load_server(runtime: LazyRuntime) -> Server[Any]:
    """Load the library and return its server for our tools; the engine is made ready once a client has seen them."""
    load_library()
    from mcp.server import Server
    from mcp_types import CallToolResult, ListToolsResult, TextContent, Tool  # noqa: PLC0415  as the line above

    listed = [Tool.model_validate(tool.listed(), by_name=False) for tool in TOOLS]

    async def list_tools(_: RequestContext, _page: PaginatedRequestParams | None) -> ListToolsResult:
        runtime.wanted.set()
        return ListToolsResult(tools=listed)

    async def call_tool(context: RequestContext, call: CallToolRequestParams) -> CallToolResult:
        caller = Caller(context)
        work = partial(runtime.call, call.name, call.arguments or {}, caller)
        # It is given up when its client hangs up: what it came to could not be fetched any more.
        answers = [await work()] if caller.gone is None else await unless(caller.gone.wait, work)
        answer = answers[0] if answers else ToolAnswer(text="the client hung up", is_error=True)
        return CallToolResult(
            content=[TextContent(type="text", text=answer.text)],
            structured_content=dict(answer.data),
            is_error=answer.is_error,
        )

    return Server(
        SERVER_NAME,
        version=__version__,
        title=SERVER_TITLE,
        instructions=INSTRUCTIONS,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
    )
