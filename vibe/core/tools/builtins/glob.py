"""glob: the files below a folder whose path matches a pattern."""

from __future__ import annotations

import time
from itertools import islice
from pathlib import Path
from typing import Annotated, ClassVar

from anyio import to_thread
from pydantic import BaseModel, ConfigDict, Field

from ipc.events import FilesDisplay
from vibe.core.system.globs import matches_any
from vibe.core.system.ignore import walk_files
from vibe.core.tools.base import (
    Assessment,
    BaseTool,
    BaseToolConfig,
    BaseToolState,
    InvokeContext,
    PathAccess,
    ToolPermission,
)
from vibe.core.tools.builtins._folders import folder_at, shown_lines
from vibe.core.tools.workspace import Workspace

LONGEST_WALK_SECONDS = 20.0


class GlobArgs(BaseModel):
    """What to look for, and where."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    pattern: Annotated[str, Field(min_length=1, description="such as **/*.py; without '/' names at any depth")]
    path: str = "."
    use_default_ignore: Annotated[bool, Field(description="false: ignored files too")] = True


class GlobResult(BaseModel):
    """Paths relative to the workspace, sorted."""

    paths: list[str]
    was_truncated: bool = False


class GlobConfig(BaseToolConfig):
    """``max_results``: the longest answer."""

    permission: ToolPermission = ToolPermission.ALWAYS
    max_results: Annotated[int, Field(ge=1)] = 200


class Glob(BaseTool[GlobArgs, GlobResult, GlobConfig, BaseToolState]):
    """Finds files by name."""

    description: ClassVar[str] = "Find the files below a folder whose path matches a pattern."
    read_only: ClassVar[bool] = True

    async def run(self, args: GlobArgs, ctx: InvokeContext) -> GlobResult:
        """Look; links are not followed.

        Raises:
            FileAccessError: the folder is missing.
        """
        start = await to_thread.run_sync(folder_at, ctx.workspace, args.path)
        most = self.config.max_results
        paths, finished = await to_thread.run_sync(_find, ctx.workspace, start, args, most, abandon_on_cancel=True)
        return GlobResult(paths=paths[:most], was_truncated=len(paths) > most or not finished)

    def assess(self, args: GlobArgs, workspace: Workspace) -> Assessment:  # noqa: ARG002  the interface
        """Name where it looks."""
        return Assessment(paths=(PathAccess(path=args.path),))

    def summarize(self, args: GlobArgs) -> str:
        """Pattern and place: ``glob **/*.py in src``."""
        return f"glob {args.pattern} in {args.path}"

    def display(self, result: GlobResult) -> FilesDisplay:
        """The paths."""
        return FilesDisplay(paths=tuple(result.paths), total=None if result.was_truncated else len(result.paths))

    def format_result(self, result: GlobResult) -> str:
        """A path a line, and whether there are more."""
        more = f"[first {len(result.paths)} files; narrow the pattern or the path]" if result.was_truncated else ""
        return shown_lines(result.paths, more=more, none="no files match")


def _find(workspace: Workspace, start: Path, args: GlobArgs, most: int) -> tuple[list[str], bool]:
    """Up to one more than ``most`` paths, and whether the walk came to its end."""
    deadline = time.monotonic() + LONGEST_WALK_SECONDS
    pattern = args.pattern if "/" in args.pattern else f"**/{args.pattern}"
    late = False

    def in_time() -> bool:
        nonlocal late
        late = late or time.monotonic() > deadline
        return not late

    files = walk_files(workspace.root, start, use_ignores=args.use_default_ignore)
    # matches_any is asked about paths below the start, whatever the workspace calls them.
    found = (
        workspace.relative(file)
        for file in files
        if in_time() and matches_any(file.relative_to(start).as_posix(), [pattern])
    )
    return list(islice(found, most + 1)), not late
