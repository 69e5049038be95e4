"""memory: keeps facts for later conversations."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, ClassVar

from anyio import to_thread
from pydantic import Field

from vibe.core.instructions.memory import AgentMemory, MemoryScope
from vibe.core.tools.base import BaseTool, BaseToolConfig, BaseToolState, InvokeContext, TextResult, ToolArgs, ToolError
from vibe.core.tools.permissions import Assessment, ToolPermission
from vibe.core.tools.workspace import Workspace


class MemoryAction(StrEnum):
    """What to do with the memory."""

    ADD = "add"
    REMOVE = "remove"
    LIST = "list"


class MemoryArgs(ToolArgs):
    """The arguments. ``text`` is for ``add``, and ``id`` for ``remove``."""

    action: MemoryAction
    text: Annotated[str, Field(description="one fact, in a sentence")] = ""
    id: str = ""
    scope: MemoryScope = MemoryScope.PROJECT


class Memory(BaseTool[MemoryArgs, TextResult, BaseToolConfig, BaseToolState]):
    """Keeps facts that later conversations are given. Listing them needs no approval."""

    changes_files: ClassVar[bool] = False
    description: ClassVar[str] = (
        "Keep or forget a fact for later conversations about this project (or, scope global, about everything). Only "
        "for what lasts and can't be read off the files; never secrets."
    )

    async def run(self, args: MemoryArgs, ctx: InvokeContext) -> TextResult:
        """Add, remove or list facts.

        Raises:
            VibeError: the fact can't be kept or removed.
        """
        if ctx.memory is None:
            raise ToolError("there is no memory here: do the work without it")
        return TextResult(text=await _answer(args, ctx.memory))

    def assess(self, args: MemoryArgs, workspace: Workspace) -> Assessment:
        """Allow listing, which changes nothing. Judge other actions as usual."""
        if args.action is MemoryAction.LIST:
            return Assessment(listed=ToolPermission.ALWAYS)
        return super().assess(args, workspace)

    def summarize(self, args: MemoryArgs) -> str:
        """Return the action and its subject: ``memory add (project): tests run with tox``."""
        about = args.text or args.id
        return f"memory {args.action} ({args.scope})" + (f": {' '.join(about.split())[:100]}" if about else "")


async def _answer(args: MemoryArgs, memory: AgentMemory) -> str:
    match args.action:
        case MemoryAction.ADD:
            entry = await memory.add(args.text, args.scope)
            return f"kept as {entry.id} ({args.scope})"
        case MemoryAction.REMOVE:
            entry = await memory.remove(args.id)
            return f"forgotten: {entry.text}"
        case MemoryAction.LIST:
            entries = await to_thread.run_sync(memory.store.entries, args.scope)
            return "\n".join(f"{entry.id}: {entry.text}" for entry in entries) or f"no {args.scope} entries"
