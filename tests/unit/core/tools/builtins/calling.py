"""Calls a tool as an agent does: validated arguments in, stream events and one result out."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from vibe.core.tools.background import BackgroundCommands
from vibe.core.tools.base import BaseTool, InvokeContext, ToolStreamLine
from vibe.core.tools.files.text_files import DISK
from vibe.core.tools.ports import Files
from vibe.core.tools.workspace import ReadTracker, Workspace
from vibe.shell.process.port import Commands
from vibe.system.own_places import NO_OWN_PLACES, OwnPlaces

PATH = os.environ["PATH"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """An agent's side of a call. ``settings`` is the tool's table."""

    root: Path
    tracker: ReadTracker = field(default_factory=ReadTracker)
    environ: Mapping[str, str] = field(default_factory=lambda: {"PATH": PATH})
    output_dir: Path | None = None
    writes: tuple[str, ...] | None = None
    files: Files = DISK
    own_places: OwnPlaces = NO_OWN_PLACES
    commands: Commands | None = None
    background: BackgroundCommands | None = None
    shown: list[str] = field(default_factory=list[str])

    def context(self) -> InvokeContext:
        return InvokeContext(
            tool_call_id="call-1",
            workspace=Workspace(root=self.root, writes=self.writes, files=self.files, own_places=self.own_places),
            reads=self.tracker,
            output_dir=self.output_dir,
            environ=self.environ,
            commands=self.commands,
            background=self.background,
        )

    async def call(self, tool: BaseTool[Any, Any, Any, Any], **arguments: Any) -> Any:
        def show(event: ToolStreamLine) -> None:
            self.shown.append(event.message)

        return await tool.execute(tool.parse(arguments), self.context(), show)


def make(kind: type[BaseTool[Any, Any, Any, Any]], **settings: Any) -> BaseTool[Any, Any, Any, Any]:
    return kind.from_config(kind.config_class()(**settings))
