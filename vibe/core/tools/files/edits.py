"""Edits of text files: what one would change, as data for people, and how it is made."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, TypeVar

from pydantic import BaseModel

from ipc.events import DiffDisplay, WrittenFile
from vibe.core.tools.base import BaseTool, BaseToolConfig, BaseToolState, InvokeContext
from vibe.core.tools.files.diffs import FileDiff, file_diff
from vibe.core.tools.files.text_files import DecodedText, encoded_as
from vibe.core.tools.ports import CallOutlook
from vibe.core.tools.workspace import Workspace

Args = TypeVar("Args", bound=BaseModel)
Edited = TypeVar("Edited", bound="EditResult")
Config = TypeVar("Config", bound=BaseToolConfig)


class EditResult(BaseModel):
    """What became of a file that existed: a ``diff``; ``added`` and ``removed`` count lines, new files' too."""

    diff: str = ""
    added: int = 0
    removed: int = 0
    warnings: list[str] = []

    def written(self) -> tuple[WrittenFile, ...]:
        """The files, with how many of their lines came and went."""
        raise NotImplementedError

    def told(self, done: str) -> str:
        """Return what the model reads: what was done, and a line for each warning."""
        return "\n".join([done, *(f"[{warning}]" for warning in self.warnings)])


@dataclass(frozen=True, slots=True, kw_only=True)
class FileEdit:
    """A file as it is (``old`` None: there is none yet), and its text as it will be."""

    path: Path
    name: str
    old: bytes | None
    decoded: DecodedText
    text: str

    def compared(self) -> FileDiff:
        """The change."""
        return file_diff(self.name, self.decoded.text, self.text)

    def encoded(self) -> bytes:
        """The file's bytes as they will be.

        Raises:
            ToolError: a character that can't be encoded.
        """
        return encoded_as(self.decoded, self.text, self.name)

    def replace(self, ctx: InvokeContext, data: bytes) -> tuple[FileDiff, list[str]]:
        """Let ``data`` be all of the file, which exists; return the change and warnings. Blocks.

        Nothing is shown of a file that may hold secrets. An agent that knew the file knows it still.

        Raises:
            ToolError: the file has changed meanwhile, or can't be written.
        """
        old = self.old or b""
        seen = ctx.reads.is_current(self.path, old)
        linked = ctx.workspace.replace(self.path, self.name, data, previous=old)
        if seen:
            ctx.reads.note(self.path, data)
        return FileDiff() if ctx.workspace.is_secret(self.path) else self.compared(), [linked] if linked else []


class EditTool(BaseTool[Args, Edited, Config, BaseToolState]):
    """The base of tools that edit a text file."""

    edits_files: ClassVar[bool] = True

    @abstractmethod
    def planned(self, args: Args, workspace: Workspace) -> FileEdit:
        """Return what a call would do; fails as the call would."""

    def outlook(self, args: Args, workspace: Workspace, *, sandboxed: bool) -> CallOutlook:
        """The file, how many lines come and go and, if it exists, the diff; fails where that can't be told."""
        del sandboxed
        edit = self.planned(args, workspace)
        diff = edit.compared()
        file = WrittenFile(path=edit.name, added=diff.added, removed=diff.removed, created=edit.old is None)
        display = DiffDisplay(files=(file,))
        return CallOutlook(display=display, cwd=str(workspace.root), diff="" if edit.old is None else diff.text)

    def display(self, result: Edited) -> DiffDisplay:
        """The files, and how many of their lines came and went."""
        return DiffDisplay(files=result.written())

    def diff(self, result: Edited) -> str:
        """Return what became of a file that existed; nothing of one that may hold secrets."""
        return result.diff

    def files_changed(self, result: Edited) -> tuple[str, ...]:
        """The files."""
        return tuple(file.path for file in result.written())
