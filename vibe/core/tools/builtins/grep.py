"""grep: searches the files of a folder for a regular expression, with ripgrep or, if that is missing, in Python."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from stat import S_ISDIR
from typing import Annotated, ClassVar

from anyio import fail_after, to_thread
from pydantic import BaseModel, Field

from ipc.events import FilesDisplay
from vibe.core.tools.base import BaseTool, BaseToolState, InvokeContext, ToolArgs, ToolError, UnaskedConfig
from vibe.core.tools.errors import PathError
from vibe.core.tools.files.search import Found, Match, Query, search_in_python, search_with_ripgrep
from vibe.core.tools.files.text_files import require_regular, status_of
from vibe.core.tools.workspace import Workspace
from vibe.system.globs import is_wild
from vibe.system.ignore import DEFAULT_IGNORES, IGNORE_FILE, Ignores
from vibe.system.plain_text import printable
from vibe.system.programs import find_ripgrep


class GrepArgs(ToolArgs):
    """The pattern, and the place to search."""

    pattern: Annotated[str, Field(min_length=1)]
    path: str = "."
    max_matches: Annotated[int | None, Field(ge=1)] = None
    use_default_ignore: Annotated[bool, Field(description="false: ignored files too")] = True


class GrepResult(BaseModel):
    """Sorted matches, one ``path:line:text`` per line. ``files`` are their paths."""

    matches: str
    match_count: int
    was_truncated: bool = False
    files: list[str] = []


class GrepConfig(UnaskedConfig):
    """Limits. If ``use_ripgrep`` is false, the search in Python is used.

    ``exclude_patterns`` are names that are skipped, whatever the ignore files say. ``codeignore_file`` is the name of
    the workspace's own ignore file.
    """

    max_output_bytes: Annotated[int, Field(ge=1_000)] = 64_000
    default_max_matches: Annotated[int, Field(ge=1)] = 100
    default_timeout: Annotated[float, Field(gt=0)] = 60
    use_ripgrep: bool = True
    exclude_patterns: list[str] = Field(default_factory=lambda: list(DEFAULT_IGNORES))
    codeignore_file: Annotated[str, Field(min_length=1)] = IGNORE_FILE


class Grep(BaseTool[GrepArgs, GrepResult, GrepConfig, BaseToolState]):
    """Searches the contents of files."""

    description: ClassVar[str] = "Search the files below a path for a regular expression."
    read_only: ClassVar[bool] = True
    path_argument: ClassVar[str] = "path"

    async def run(self, args: GrepArgs, ctx: InvokeContext) -> GrepResult:
        """Search. Files that may hold secrets are skipped unless ``path`` names one.

        Raises:
            ToolError: the pattern is not a regular expression, the path is missing, or it took too long.
        """
        start = await to_thread.run_sync(_start, ctx.workspace, args.path)
        seconds = self.config.default_timeout
        query = Query(
            pattern=args.pattern,
            root=ctx.workspace.root,
            start=start,
            use_ignores=args.use_default_ignore,
            most=args.max_matches or self.config.default_max_matches,
            max_bytes=self.config.max_output_bytes,
            own=await to_thread.run_sync(ctx.workspace.own_places.below, ctx.workspace.root),
            ignores=Ignores(names=tuple(self.config.exclude_patterns), file=self.config.codeignore_file),
        )
        ripgrep = find_ripgrep(ctx.environ) if self.config.use_ripgrep else None
        try:
            with fail_after(seconds):
                found = await (search_with_ripgrep(ripgrep, query) if ripgrep else search_in_python(query))
        except TimeoutError:
            late = f"the search took longer than {seconds:g} s; name a narrower path or a simpler pattern"
            raise ToolError(late) from None
        shown = _readable(found.matches, ctx.workspace, secrets=ctx.workspace.is_secret(start))
        return _cut(Found(matches=tuple(shown), more=found.more), query)

    def summarize(self, args: GrepArgs) -> str:
        """Return the pattern and the place: ``grep 'def run' in src``."""
        return f"grep {args.pattern!r} in {args.path}"

    def display(self, result: GrepResult) -> FilesDisplay:
        """Return the files that contain a match."""
        return FilesDisplay(paths=tuple(result.files), total=None if result.was_truncated else len(result.files))

    def format_result(self, result: GrepResult) -> str:
        """Return the matches, and a note if there are more."""
        if not result.matches:  # Always the same text, so that searching reveals nothing about secret files.
            return (
                "no matches; ignored and generated files are searched only if use_default_ignore is false, binary ones "
                "never, and one that may hold secrets only where `path` names it"
            )
        if not result.was_truncated:
            return result.matches
        return f"{result.matches}\n[first {result.match_count} matches; narrow pattern or path, or raise max_matches]"


def _start(workspace: Workspace, path: str) -> Path:
    start = workspace.readable(path)
    name = workspace.relative(start)
    if is_wild(path) and not os.path.lexists(start):
        raise PathError(name, "does not exist", "name a file or a folder, not a pattern")
    found = status_of(start, name)
    if not S_ISDIR(found.st_mode):
        require_regular(found, name)
    return start


def _readable(matches: Sequence[Match], workspace: Workspace, *, secrets: bool) -> list[Match]:
    """Return the matches in files that may be read without asking, or if ``secrets``, also in those with secrets."""
    files = {match.path: workspace.root / match.path for match in matches}
    closed = {
        name
        for name, file in files.items()
        if workspace.is_unread(file) or (not secrets and workspace.is_secret(file)) or workspace.bounds.is_sealed(file)
    }
    return [match for match in matches if match.path not in closed]


def _cut(found: Found, query: Query) -> GrepResult:
    lines: list[str] = []
    size = 0
    for match in found.matches[: query.most]:
        line = match.line()
        size += len(line.encode(errors="replace")) + 1
        if size > query.max_bytes:
            break
        lines.append(line)
    cut = found.more or len(lines) < len(found.matches)
    files = list(dict.fromkeys(printable(match.path) for match in found.matches[: len(lines)]))
    return GrepResult(matches="\n".join(lines), match_count=len(lines), was_truncated=cut, files=files)
