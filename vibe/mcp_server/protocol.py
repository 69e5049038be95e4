"""The protocol: our tools in the words of the MCP library, and its requests in ours. The library is loaded here."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

from anyio import Event

from vibe import __version__
from vibe.core.tools.mcp.client import load_library
from vibe.mcp_server.lazy_runtime import LazyRuntime
from vibe.mcp_server.tools import TOOLS, Caller, ToolAnswer
from vibe.system.racing import unless

if TYPE_CHECKING:
    from mcp.server import Server, ServerRequestContext
    from mcp_types import CallToolRequestParams, CallToolResult, ListToolsResult, PaginatedRequestParams

    RequestContext: TypeAlias = ServerRequestContext[Any, Any]

SERVER_NAME, SERVER_TITLE = "vibe", "Vibe"
INSTRUCTIONS = (
    "vibe is a coding agent. call_vibe has one task done and returns its answer; give it the absolute path of the "
    "folder and all it must know. Use mode observe for questions: nothing can be changed then. plan_run has a larger "
    "task planned and carried out by several agents in the background; ask after it with plan_status and plan_result."
)
DISCOVER = "server/discover"
CHOICE = "answer"
SESSION_HEADER = "mcp-session-id"
GONE = "vibe.gone"
"""The event of an HTTP request that is set when its client has hung up."""


class ProtocolCaller(Caller):
    """The ``Caller`` of one request."""

    def __init__(self, context: RequestContext) -> None:
        self._context, self._session = context, context.session

    @property
    def gone(self) -> Event | None:
        """Set when the client has hung up; None: the connection itself tells."""
        request: Any = self._context.request
        return None if request is None else request.scope.get(GONE)

    @property
    def can_be_asked(self) -> bool:
        """True if the client shows forms to a person, and the connection carries our requests."""
        capabilities = self._session.client_capabilities
        asked = capabilities.elicitation if capabilities is not None else None
        by_form = asked is not None and (asked.form is not None or asked.url is None)
        return by_form and self._session.can_send_request

    @property
    def connection(self) -> str:
        """See ``Caller.connection``."""
        request: Any = self._context.request
        return "" if request is None else request.headers.get(SESSION_HEADER, "")

    async def ask(self, message: str, choices: Mapping[str, str]) -> str | None:
        """See ``Caller.ask``; a client that can't ask after all counts as a person who would rather not."""
        from mcp import MCPError

        schema: dict[str, Any] = {
            "type": "object",
            "properties": {
                CHOICE: {"type": "string", "title": "Answer", "enum": [*choices], "enumNames": [*choices.values()]}
            },
            "required": [CHOICE],
        }
        try:
            said = await self._session.elicit_form(message, schema, self._context.request_id)
        except (MCPError, ValueError):
            return None
        chosen = (said.content or {}).get(CHOICE) if said.action == "accept" else None
        return chosen if isinstance(chosen, str) and chosen in choices else None

    async def report(self, count: int, message: str) -> None:
        """See ``Caller.report``."""
        await self._session.report_progress(count, None, message)


def load_server(runtime: LazyRuntime) -> Server[Any]:
    """Load the library and return its server for our tools; the engine is made ready once a client has seen them."""
    load_library()
    from mcp.server import Server
    from mcp_types import ListToolsResult, Tool  # noqa: PLC0415  as the line above

    listed = [Tool.model_validate(tool.listed(), by_name=False) for tool in TOOLS]

    async def list_tools(_: RequestContext, _page: PaginatedRequestParams | None) -> ListToolsResult:
        runtime.prepare()
        return ListToolsResult(tools=listed)

    async def call_tool(context: RequestContext, call: CallToolRequestParams) -> CallToolResult:
        caller = ProtocolCaller(context)
        return _result(await _while_wanted(caller, partial(runtime.call, call.name, call.arguments or {}, caller)))

    return Server(
        SERVER_NAME,
        version=__version__,
        title=SERVER_TITLE,
        instructions=INSTRUCTIONS,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
    )


async def _while_wanted(caller: ProtocolCaller, call: Callable[[], Awaitable[ToolAnswer]]) -> ToolAnswer:
    """Make a call, and give it up when its client hangs up: what it came to could not be fetched any more."""
    if caller.gone is None:
        return await call()
    answers = await unless(caller.gone.wait, call)
    return answers[0] if answers else ToolAnswer(text="the client hung up", is_error=True)


def _result(answer: ToolAnswer) -> CallToolResult:
    from mcp_types import CallToolResult, TextContent  # noqa: PLC0415  loaded with the server

    return CallToolResult(
        content=[TextContent(type="text", text=answer.text)],
        structured_content=dict(answer.data),
        is_error=answer.is_error,
    )
