"""Parts of the tools that look into folders: finding the folder, and showing what is in it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from vibe.core.system.globs import is_wild
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


def split_glob(workspace: Workspace, path: str, glob: str) -> tuple[str, str]:
    """The folder that a glob below ``path`` names outright, and what it says of the files in there.

    A name that exists is meant literally, whatever characters it holds. Reads the file system.
    """
    text = os.path.expanduser(glob)  # noqa: PTH111  a glob is no path
    if "/" not in text.rstrip("/").removeprefix("./"):
        return path, text if text.startswith("./") or text.endswith("/") else f"**/{text}"
    folder = "/" if text.startswith("/") else path
    rest = [name for name in text.split("/") if name not in {"", "."}]
    while rest:
        inside = rest[0] if folder == "." else os.path.join(folder, rest[0])  # noqa: PTH118  the workspace follows '..'
        if (is_wild(rest[0]) or len(rest) == 1) and not (workspace.root / inside).is_dir():
            break
        folder = inside
        rest.pop(0)
    return folder, "/".join(rest) or "**"


def shown_lines(lines: Sequence[str], *, more: str, none: str) -> str:
    """A result a line and, where there is ``more``, what is said of it; ``none`` where nothing was found.

    A name that holds what would break the line, or steer a terminal, is written with escapes.
    """
    return "\n".join(filter(None, [*map(printable, lines), more])) or none
