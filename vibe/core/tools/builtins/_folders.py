"""Parts of the tools that look into folders: finding the folder, and showing what is in it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from vibe.core.tools.files.search import printable
from vibe.core.tools.files.text_files import FileAccessError
from vibe.core.tools.workspace import Workspace


def folder_at(workspace: Workspace, path: str) -> Path:
    """The resolved folder.

    Raises:
        PathError: it is outside the workspace, or can't be resolved.
        FileAccessError: it is missing, or no folder.
    """
    folder = workspace.readable(path)
    if not folder.is_dir():
        problem = "is no folder" if folder.exists() else "does not exist"
        raise FileAccessError(workspace.relative(folder), problem, "give a folder, such as '.'")
    return folder


def shown_lines(lines: Sequence[str], *, more: str, none: str) -> str:
    """A result a line and, where there is ``more``, what is said of it; ``none`` where nothing was found.

    A name that holds what would break the line, or steer a terminal, is written with escapes.
    """
    return "\n".join(filter(None, [*map(printable, lines), more])) or none
