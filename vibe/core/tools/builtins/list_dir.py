"""list_dir: lists the contents of a folder."""

from __future__ import annotations

import os
import stat
from typing import Annotated, ClassVar

from anyio import to_thread
from pydantic import BaseModel, Field

from vibe.core.tools.base import BaseTool, BaseToolState, InvokeContext, ToolArgs, UnaskedConfig
from vibe.core.tools.files.text_files import folder_of
from vibe.core.tools.workspace import Workspace
from vibe.system.ignore import list_entries
from vibe.system.own_places import is_placeholder
from vibe.system.plain_text import printable, shown_lines


class ListDirArgs(ToolArgs):
    """The folder to list."""

    path: str = "."
    use_default_ignore: Annotated[bool, Field(description="false: ignored entries too")] = True


class ListDirResult(BaseModel):
    """Sorted names. Folders end with ``/`` and links with ``@``; files have their size in bytes."""

    entries: list[str]
    total: int
    was_truncated: bool = False


class ListDirConfig(UnaskedConfig):
    """``max_entries`` is the most entries in a result."""

    max_entries: Annotated[int, Field(ge=1)] = 200


class ListDir(BaseTool[ListDirArgs, ListDirResult, ListDirConfig, BaseToolState]):
    """Lists a folder."""

    description: ClassVar[str] = "List the files and folders in a folder."
    read_only: ClassVar[bool] = True
    path_argument: ClassVar[str] = "path"

    async def run(self, args: ListDirArgs, ctx: InvokeContext) -> ListDirResult:
        """List the folder.

        Raises:
            PathError: it is missing, not a folder, or can't be read.
        """
        lines = await to_thread.run_sync(_lines, ctx.workspace, args)
        most = self.config.max_entries
        return ListDirResult(entries=lines[:most], total=len(lines), was_truncated=len(lines) > most)

    def format_result(self, result: ListDirResult) -> str:
        """Return one entry per line, and a note if there are more."""
        more = f"[first {len(result.entries)} of {result.total} entries]" if result.was_truncated else ""
        return shown_lines(result.entries, more=more, none="the folder is empty, or all in it is ignored")


def _lines(workspace: Workspace, args: ListDirArgs) -> list[str]:
    folder = workspace.folder(args.path)
    own = workspace.own_places.below(workspace.root)
    found = list_entries(workspace.root, folder, use_ignores=args.use_default_ignore, own=own)
    with folder_of(folder / "entry", workspace.relative(folder)) as descriptor:
        return [*filter(None, (_line(entry.name, descriptor) for entry in found))]


def _line(entry: str, folder: int) -> str:
    """Return the line for an entry, or an empty string for a placeholder that only exists while commands run."""
    name = printable(entry)
    try:
        found = os.stat(entry, dir_fd=folder, follow_symlinks=False)
    except OSError:  # The entry is gone by now.
        return name
    if is_placeholder(found, entry):
        return ""
    mark = "@" if stat.S_ISLNK(found.st_mode) else "/" if stat.S_ISDIR(found.st_mode) else f"  {found.st_size}"
    return f"{name}{mark}"
