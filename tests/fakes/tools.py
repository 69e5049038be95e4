"""Tools, an approver and an executor for tests of code that calls tools."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import anyio
from pydantic import BaseModel, ConfigDict

from ipc.events import ApprovalRequestEvent
from ipc.sink import MemorySink
from vibe.core.config.models import VibeConfig
from vibe.core.messages import ToolCall, ToolMessage
from vibe.core.tools.base import (
    Assessment,
    BaseTool,
    BaseToolConfig,
    BaseToolState,
    InvokeContext,
    PathAccess,
    TextResult,
    ToolClass,
    ToolPermission,
)
from vibe.core.tools.discovery import ToolSources
from vibe.core.tools.errors import ToolError
from vibe.core.tools.executor import ToolExecutor
from vibe.core.tools.gate import Approvals
from vibe.core.tools.manager import ToolManager
from vibe.core.tools.ports import ApprovalAnswer
from vibe.core.tools.workspace import Workspace


class Traffic:
    """Logs the starts and ends of calls, and holds calls at gates until the test opens them."""

    def __init__(self) -> None:
        self.log: list[str] = []
        self.running = 0
        self.most = 0
        self._gates: dict[str, anyio.Event] = {}
        self._arrivals: dict[str, anyio.Event] = {}

    def gate(self, name: str) -> anyio.Event:
        """Return the event that the call with this name waits for."""
        return self._gates.setdefault(name, anyio.Event())

    def arrival(self, name: str) -> anyio.Event:
        """Return the event that is set once the call with this name runs."""
        return self._arrivals.setdefault(name, anyio.Event())


class PassArgs(BaseModel):
    """A name for the log. A call that is ``held`` waits at its gate."""

    model_config = ConfigDict(extra="forbid")

    name: str
    held: bool = False
    fail: str = ""


class Allowed(BaseToolConfig):
    """Runs without asking."""

    permission: ToolPermission = ToolPermission.ALWAYS


def passing_tools(traffic: Traffic) -> tuple[ToolClass, ...]:
    """Return the tools ``look`` (read-only) and ``change``, which log their start and end, and fail if told to."""

    async def go(args: PassArgs) -> TextResult:
        traffic.log.append(f"+{args.name}")
        traffic.running += 1
        traffic.most = max(traffic.most, traffic.running)
        traffic.arrival(args.name).set()
        try:
            if args.held:
                await traffic.gate(args.name).wait()
            if args.fail == "tool":
                raise ToolError(f"{args.name} could not")
            if args.fail:
                raise RuntimeError(f"{args.name} broke")
        finally:
            traffic.running -= 1
        traffic.log.append(f"-{args.name}")
        return TextResult(text=f"{args.name} done")

    class Look(BaseTool[PassArgs, TextResult, Allowed, BaseToolState]):
        """Looks."""

        read_only = True

        async def run(self, args: PassArgs, ctx: InvokeContext) -> TextResult:  # noqa: ARG002  the shape of a tool
            return await go(args)

    class Change(BaseTool[PassArgs, TextResult, Allowed, BaseToolState]):
        """Changes."""

        async def run(self, args: PassArgs, ctx: InvokeContext) -> TextResult:  # noqa: ARG002  the shape of a tool
            return await go(args)

        def files_changed(self, result: TextResult) -> tuple[str, ...]:
            return (result.text.split()[0],)

    return (Look, Change)


class SaveArgs(BaseModel):
    """Where and what."""

    path: str
    text: str = ""


class Save(BaseTool[SaveArgs, TextResult, BaseToolConfig, BaseToolState]):
    """Asks before it writes a file."""

    def assess(self, args: SaveArgs, workspace: Workspace) -> Assessment:  # noqa: ARG002  the shape of a tool
        return Assessment(paths=(PathAccess(path=args.path, write=True),))

    async def run(self, args: SaveArgs, ctx: InvokeContext) -> TextResult:
        path = await anyio.to_thread.run_sync(ctx.workspace.writable, args.path)
        await anyio.Path(path).write_text(args.text, encoding="utf-8")
        return TextResult(text=f"saved {path.name}")


class Peek(BaseTool[SaveArgs, TextResult, Allowed, BaseToolState]):
    """Reads a file without asking."""

    read_only = True

    def assess(self, args: SaveArgs, workspace: Workspace) -> Assessment:  # noqa: ARG002  the shape of a tool
        return Assessment(paths=(PathAccess(path=args.path),))

    async def run(self, args: SaveArgs, ctx: InvokeContext) -> TextResult:
        path = await anyio.to_thread.run_sync(ctx.workspace.readable, args.path)
        return TextResult(text=await anyio.Path(path).read_text(encoding="utf-8"))


class ScriptedApprover:
    """Gives its answers in order, and keeps the requests."""

    def __init__(self, answers: Sequence[ApprovalAnswer] = ()) -> None:
        self.answers = list(answers)
        self.asked: list[ApprovalRequestEvent] = []
        self.open = 0
        self.most = 0

    async def approve(self, request: ApprovalRequestEvent) -> ApprovalAnswer:
        """Return the next answer, or wait forever if none is left."""
        self.asked.append(request)
        self.open += 1
        self.most = max(self.most, self.open)
        try:
            await anyio.lowlevel.checkpoint()
            if not self.answers:
                await anyio.sleep_forever()
            return self.answers.pop(0)
        finally:
            self.open -= 1


class ExecutorRig:
    """An executor over given tools, which keeps its events and messages. ``more`` goes into each call's context."""

    def __init__(
        self,
        root: Path,
        *classes: ToolClass,
        approvals: Approvals | None = None,
        tables: Mapping[str, dict[str, Any]] | None = None,
        writes: tuple[str, ...] | None = None,
        **more: Any,
    ) -> None:
        self.sink = MemorySink()
        self.recorded: list[ToolMessage] = []
        self.executor = ToolExecutor(
            tools=ToolManager(ToolSources(root=root, extra=classes), VibeConfig(tools=dict(tables or {}))),
            context=InvokeContext(workspace=Workspace(root=root, writes=writes), **more),
            approvals=approvals or Approvals(),
            sink=self.sink,
        )

    @property
    def record(self) -> Callable[[ToolMessage], None]:
        """A callback that appends messages to ``recorded``."""
        return self.recorded.append


def call(call_id: str, tool: str, /, **arguments: Any) -> ToolCall:
    """Return a tool call as a model makes it."""
    return ToolCall(id=call_id, name=tool, arguments=json.dumps(arguments))
