"""glob: finds the files below a folder whose path matches a pattern."""

from __future__ import annotations

import os
import time
from itertools import islice, takewhile
from pathlib import Path
from typing import Annotated, ClassVar

from anyio import to_thread
from pydantic import BaseModel, Field

from ipc.events import FilesDisplay
from vibe.core.tools.base import Assessment, BaseTool, BaseToolState, InvokeContext, PathAccess, ToolArgs, UnaskedConfig
from vibe.core.tools.workspace import Workspace
from vibe.system.globs import is_wild, matches_any
from vibe.system.ignore import walk_files
from vibe.system.plain_text import printable, shown_lines

LONGEST_WALK_SECONDS = 20.0
"""The most seconds of one search."""
UNKNOWN_SIGNS = ("!(", "@(", "+(", "?(", "*(", "!")
"""Glob syntax that other programs support."""


class GlobArgs(ToolArgs):
    """The pattern, and the folder to search."""

    pattern: Annotated[str, Field(min_length=1, description="such as **/*.py; without '/' names at any depth")]
    path: str = "."
    use_default_ignore: Annotated[bool, Field(description="false: ignored files too")] = True


class GlobResult(BaseModel):
    """Sorted paths, relative to the workspace."""

    paths: list[str]
    was_truncated: bool = False
    why_none: str = ""


class GlobConfig(UnaskedConfig):
    """``max_results`` is the most paths in a result."""

    max_results: Annotated[int, Field(ge=1)] = 200


class Glob(BaseTool[GlobArgs, GlobResult, GlobConfig, BaseToolState]):
    """Finds files by name."""

    description: ClassVar[str] = "Find the files below a folder whose path matches a pattern."
    read_only: ClassVar[bool] = True

    async def run(self, args: GlobArgs, ctx: InvokeContext) -> GlobResult:
        """Search without following links.

        Raises:
            PathError: the folder is missing.
            PathError: it is outside the workspace, or the pattern leads there.
        """
        most = self.config.max_results
        paths, finished = await to_thread.run_sync(_find, ctx.workspace, args, most, abandon_on_cancel=True)
        why = "" if paths else await to_thread.run_sync(_why_none, ctx.workspace, args, abandon_on_cancel=True)
        return GlobResult(paths=paths[:most], was_truncated=len(paths) > most or not finished, why_none=why)

    def assess(self, args: GlobArgs, workspace: Workspace) -> Assessment:
        """Name the folder that is searched."""
        return Assessment(paths=(PathAccess(path=_split_glob(workspace, args.path, args.pattern)[0]),))

    def summarize(self, args: GlobArgs) -> str:
        """Return the pattern and the place: ``glob **/*.py in src``."""
        return f"glob {args.pattern} in {args.path}"

    def display(self, result: GlobResult) -> FilesDisplay:
        """Return the paths."""
        return FilesDisplay(paths=tuple(result.paths), total=None if result.was_truncated else len(result.paths))

    def format_result(self, result: GlobResult) -> str:
        """Return one path per line, and a note if there are more."""
        more = f"[first {len(result.paths)} files; narrow the pattern or the path]" if result.was_truncated else ""
        return shown_lines(result.paths, more=more, none=f"no files match{result.why_none}")


def _split_glob(workspace: Workspace, path: str, glob: str) -> tuple[str, str]:
    """Split a glob below ``path`` into the folder it names outright and a pattern for the files in there.

    A name that exists is taken literally, whatever characters it contains. Reads the file system.
    """
    text = os.path.expanduser(glob)  # noqa: PTH111  a glob is no path
    if "/" not in text.rstrip("/").removeprefix("./"):
        return path, text if text.startswith("./") or text.endswith("/") else f"**/{text}"
    folder = "/" if text.startswith("/") else path
    rest = [name for name in text.split("/") if name not in {"", "."}]
    while rest:
        inside = rest[0] if folder == "." else os.path.join(folder, rest[0])  # noqa: PTH118  the workspace follows '..'
        if (is_wild(rest[0]) or len(rest) == 1) and not os.path.isdir(workspace.root / inside):
            break
        folder = inside
        rest.pop(0)
    return folder, "/".join(rest) or "**"


def _find(workspace: Workspace, args: GlobArgs, most: int) -> tuple[list[str], bool]:
    """Return up to one more than ``most`` paths, and whether the walk was finished."""
    deadline = time.monotonic() + LONGEST_WALK_SECONDS
    folder, pattern = _split_glob(workspace, args.path, args.pattern)
    start = workspace.readable(folder)
    if not os.path.exists(start) and folder != args.path:
        workspace.folder(args.path)
        return [], True
    workspace.folder(folder)
    own = workspace.own_places.below(workspace.root)
    files = walk_files(workspace.root, start, use_ignores=args.use_default_ignore, own=own)
    in_time = takewhile(lambda _: time.monotonic() <= deadline, files)
    found = (workspace.relative(file) for file in in_time if _is_meant(file.relative_to(start), pattern))
    return list(islice(found, most + 1)), time.monotonic() <= deadline


def _is_meant(file: Path, pattern: str) -> bool:
    """Return whether the pattern matches a path below the start, as it is or as listings show it."""
    name = file.as_posix()
    shown = printable(name)
    return matches_any(name, [pattern]) or (shown != name and matches_any(shown, [pattern]))


def _why_none(workspace: Workspace, args: GlobArgs) -> str:
    """Explain at the end of a sentence why nothing matches. Empty if the reason is not known."""
    folder, _ = _split_glob(workspace, args.path, args.pattern)
    if not os.path.isdir(workspace.readable(folder)):
        return f": there is no folder {folder!r}"
    if args.use_default_ignore and _find(workspace, args.model_copy(update={"use_default_ignore": False}), 1)[0]:
        return " but ignored ones: set use_default_ignore to false to see them, or name their folder"
    sign = next((sign for sign in UNKNOWN_SIGNS if sign in args.pattern), "")
    return f": {sign!r} is taken literally; known are *, ?, [...], ** and {{a,b}}" if sign else ""
