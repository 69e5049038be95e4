"""Tools of servers in the shape of ours: one class a remote tool, made when its server has listed it."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from typing import Any, ClassVar, Protocol

from anyio import CancelScope, ClosedResourceError, Event, WouldBlock, create_memory_object_stream, move_on_after
from anyio.streams.memory import MemoryObjectReceiveStream
from pydantic import RootModel

from vibe.core.plain_text import shortened
from vibe.core.tools.base import SUMMARY_LENGTH, BaseTool, BaseToolConfig, BaseToolState, InvokeContext, ToolStreamLine
from vibe.core.tools.errors import ToolError
from vibe.core.tools.loading import ToolClass
from vibe.core.tools.mcp.connection import ServerConnection
from vibe.core.tools.mcp.remote import RemoteTool
from vibe.core.tools.mcp.results import MCPToolResult, ResultReader
from vibe.core.tools.permissions import Assessment, listed
from vibe.core.tools.ui import ToolCallDisplay, ToolCallView, ToolResultDisplay, ToolResultView
from vibe.core.tools.workspace import Workspace

PROGRESS_WAITING = 64
"""Progress notes that wait to be shown; what comes when that many wait is dropped."""
MOST_PROGRESS = 1_000
CANCEL_SECONDS = 1.0
"""The time a cancelled call may take to tell its server so."""


class McpArguments(RootModel[dict[str, Any]]):
    """Arguments as the model gave them: their server checks them, it knows its own schema best."""


class CallTasks(Protocol):
    """Runs calls in tasks whose owner outlives the agents: the session they go through is shared."""

    def start_call(self, call: RunningCall) -> None:
        """Have ``call.run`` run."""
        ...


class RunningCall:
    """A call under way: progress to read from ``notes`` until it ends, then ``result``."""

    def __init__(
        self, server: ServerConnection, remote: RemoteTool, arguments: dict[str, Any], reader: ResultReader
    ) -> None:
        self._server = server
        self._remote = remote
        self._arguments = arguments
        self._reader = reader
        self._scope = CancelScope()
        self._done = Event()
        self._shown = 0
        self._result: MCPToolResult | None = None
        self._error: Exception | None = None
        self._to_notes, notes = create_memory_object_stream[str](PROGRESS_WAITING)
        self.notes: MemoryObjectReceiveStream[str] = notes

    async def run(self) -> None:
        """Do it; nothing is raised but a cancellation."""
        try:
            with self._to_notes, self._scope:
                answer = await self._server.call(self._remote, self._arguments, self._progress)
                self._result = await self._reader.read(answer)
        except Exception as error:  # noqa: BLE001  handed on to the door of the tool call, which waits for it
            self._error = error
        finally:
            self._done.set()

    async def abandon(self) -> None:
        """Stop it, if it still runs, and let its server know."""
        self.notes.close()
        self._scope.cancel()
        with move_on_after(CANCEL_SECONDS, shield=True):
            await self._done.wait()

    async def result(self) -> MCPToolResult:
        """The answer.

        Raises:
            ServerCallError: there is none.
        """
        await self._done.wait()
        if self._error is not None:
            raise self._error
        if self._result is None:
            raise ToolError(f"{self._remote.name} was stopped: the servers are being closed")
        return self._result

    async def _progress(self, progress: float, total: float | None, message: str | None) -> None:
        if self._shown >= MOST_PROGRESS:
            return
        self._shown += 1
        share = f"{progress:g}" if total is None else f"{progress:g}/{total:g}"
        try:
            self._to_notes.send_nowait(f"{share} {message}" if message else share)
        except (WouldBlock, ClosedResourceError):
            return  # the reader does not keep up, or is gone


class McpTool(BaseTool[McpArguments, MCPToolResult, BaseToolConfig, BaseToolState]):
    """The base of all proxies; ``proxy_class`` makes a class of it for each remote tool."""

    uses_network = True  # a server's doings can't be known here, so agents that may only look do without

    proxy_name: ClassVar[str]
    remote: ClassVar[RemoteTool]
    server: ClassVar[ServerConnection]
    background: ClassVar[CallTasks]

    async def run(self, args: McpArguments, ctx: InvokeContext) -> AsyncGenerator[ToolStreamLine | MCPToolResult, None]:
        """Call the remote tool, showing its progress.

        Raises:
            ToolError: the server says that it failed, or there is no answer.
        """
        name = self.get_name()
        reader = ResultReader(self.server.name, self.remote.name, ctx.tool_call_id, ctx.output_dir)
        call = RunningCall(self.server, self.remote, args.root, reader)
        self.background.start_call(call)
        try:
            async for note in call.notes:
                yield ToolStreamLine(tool_name=name, message=note, tool_call_id=ctx.tool_call_id)
            result = await call.result()
        finally:
            await call.abandon()
        if not result.ok:
            raise ToolError(result.text or f"{name} failed, and its server does not say why")
        yield result

    # --- what it is ---

    @classmethod
    def get_name(cls) -> str:
        """``server_tool``."""
        return cls.proxy_name

    @classmethod
    def get_description(cls) -> str:
        """The server's words."""
        return cls.remote.description or f"{cls.remote.name} of the MCP server {cls.server.name}"

    @classmethod
    def get_parameters(cls) -> dict[str, Any]:
        """The server's schema."""
        return json.loads(cls.remote.schema)

    @classmethod
    def get_tool_prompt(cls) -> str | None:
        """The hint the configuration gives for the server."""
        return cls.server.config.prompt or None

    # --- what a call of it means ---

    def assess(self, args: McpArguments, workspace: Workspace) -> Assessment:  # noqa: ARG002  the interface
        """Compare the arguments that are text with the lists, as for any tool."""
        texts = (value for value in args.root.values() if isinstance(value, str))
        return Assessment(listed=listed(texts, self.config.allowlist, self.config.denylist))

    def summarize(self, args: McpArguments) -> str:
        """The call with its arguments, on one line."""
        given = json.dumps(args.root, ensure_ascii=False, default=str) if args.root else ""
        line = " ".join(f"{self.get_name()} {given}".split())
        return shortened(line, SUMMARY_LENGTH)

    def format_result(self, result: MCPToolResult) -> str:
        """The answer's text."""
        return result.text or "(no content)"

    # --- how it looks ---

    @classmethod
    def get_call_display(cls, event: ToolCallView) -> ToolCallDisplay:
        """The call, and its arguments for those who open it."""
        given = event.args.root if isinstance(event.args, McpArguments) else {}
        line = " ".join(f"{cls.proxy_name} {json.dumps(given, ensure_ascii=False, default=str)}".split())
        short = shortened(line, SUMMARY_LENGTH)
        return ToolCallDisplay(short, json.dumps(given, ensure_ascii=False, indent=2, default=str))

    @classmethod
    def get_result_display(cls, event: ToolResultView) -> ToolResultDisplay:
        """The first line of the answer."""
        text = event.error or (event.result.text if isinstance(event.result, MCPToolResult) else "")
        return ToolResultDisplay(success=event.error is None, message=next(iter(text.strip().splitlines()), ""))

    @classmethod
    def get_status_text(cls) -> str:
        """Text for the time in which the server is waited for."""
        return f"Waiting for MCP server {cls.server.name}"


def proxy_class(name: str, remote: RemoteTool, server: ServerConnection, background: CallTasks) -> ToolClass:
    """The tool called ``name`` that stands for ``remote``."""
    return type(
        name,
        (McpTool,),
        {
            "__doc__": remote.description,
            "__module__": __name__,
            "proxy_name": name,
            "remote": remote,
            "server": server,
            "background": background,
            "read_only": remote.read_only,
            "uses_network": True,  # what a server does is not known, whatever it says
        },
    )
