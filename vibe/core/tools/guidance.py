"""CallGuidance: applies what the user and the project have taught an agent to its tool calls."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import anyio.to_thread
from msgspec import Struct, field

from vibe.core.config.patterns import canonical_tool_name, our_tool_name
from vibe.core.hooks.runner import HookAnswer, HookCall, HookRunner
from vibe.core.instructions.memory import AgentMemory
from vibe.core.instructions.project_docs import NestedDocs
from vibe.core.skills.manager import AgentSkills


class CallGuidance(Struct, kw_only=True):
    """Consulted by the executor before and after each call of one agent.

    A field is None or empty if there is nothing of its kind.

    ``refused`` are tools that other agents have, but that the read-only ``profile`` of this one lacks.
    """

    skills: AgentSkills = field(default_factory=AgentSkills)
    memory: AgentMemory | None = None
    hooks: HookRunner | None = None
    docs: NestedDocs | None = None
    profile: str = ""
    refused: frozenset[str] = frozenset()
    _notices: list[str] = field(default_factory=list[str])

    @property
    def readable(self) -> tuple[Path, ...]:
        """Folders outside the workspace that the agent may read: those of its skills."""
        return tuple(info.path.parent.resolve() for info in self.skills.manager.available.values())

    def refusal(self, tool: str) -> str | None:
        """Return why a read-only agent is denied a tool, or None if it is not. Knows both names of a tool."""
        name = our_tool_name(tool)
        if name not in map(canonical_tool_name, self.refused):
            return None
        return f"the agent {self.profile!r} is read-only and has no {name}"

    def restriction(self, tool: str, arguments: Mapping[str, Any]) -> str | None:
        """Return why the agent's loaded skills don't allow a call, or None if they do."""
        return self.skills.refusal(tool, arguments)

    async def before_call(self, call: HookCall) -> HookAnswer:
        """Return the hooks' answer to a call that is about to run."""
        return HookAnswer(call=call) if self.hooks is None else await self.hooks.before_tool(call)

    async def after_call(self, call: HookCall, paths: Iterable[Path], *, status: str, result: str) -> None:
        """Take note of a call that was run, with the resolved paths it touched."""
        if self.hooks is not None:
            self._notices += await self.hooks.after_tool(call, status=status, result=result)
        touched = tuple(paths)
        if self.docs is not None and touched:
            self._notices += await anyio.to_thread.run_sync(self.docs.notices, touched)

    def reminders(self) -> tuple[str, ...]:
        """Return what the agent must still know after its conversation is shortened.

        Folder instructions are announced again the next time a call touches their folder.
        """
        if self.docs is not None:
            self.docs.forget()
        reminder = self.skills.reminder()
        return (reminder,) if reminder else ()

    def take_notices(self) -> tuple[str, ...]:
        """Return, once, what the model should be told before its next turn."""
        taken = tuple(self._notices)
        self._notices.clear()
        return taken
