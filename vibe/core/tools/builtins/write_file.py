"""write_file: a new file, or the whole of one this agent has read."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from functools import partial
from pathlib import Path
from typing import Annotated, Any, ClassVar

from anyio import to_thread
from pydantic import AliasChoices, BaseModel, ConfigDict, Field

from ipc.events import DiffDisplay, WrittenFile
from vibe.core.tools.base import (
    Assessment,
    BaseTool,
    BaseToolConfig,
    BaseToolState,
    InvokeContext,
    PathAccess,
    ToolError,
)
from vibe.core.tools.files.diffs import FileDiff, diff_of, file_diff
from vibe.core.tools.files.text_files import FileAccessError, decode, read_whole
from vibe.core.tools.ports import CallOutlook
from vibe.core.tools.workspace import Workspace


class WriteFileArgs(BaseModel):
    """What to write; ``overwrite`` allows replacing a file, ``append`` adds to its end and makes it if need be."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    path: Annotated[str, Field(validation_alias=AliasChoices("path", "file_path"))]
    content: str
    overwrite: bool = False
    append: bool = False


class WriteFileResult(BaseModel):
    """What was written; ``diff`` is what became of a file that existed. ``added`` and ``removed`` count lines."""

    path: str
    bytes_written: int
    file_existed: bool
    content: str
    appended: bool = False
    diff: str = ""
    added: int = 0
    removed: int = 0


class WriteFileConfig(BaseToolConfig):
    """``max_write_bytes``: the most one call writes. ``create_parent_dirs``: make missing folders."""

    max_write_bytes: Annotated[int, Field(ge=1)] = 64_000
    create_parent_dirs: bool = True


class WriteFile(BaseTool[WriteFileArgs, WriteFileResult, WriteFileConfig, BaseToolState]):
    """Writes text files."""

    description: ClassVar[str] = "Create a UTF-8 text file, or replace one you have read."
    edits_files: ClassVar[bool] = True

    async def run(self, args: WriteFileArgs, ctx: InvokeContext) -> AsyncGenerator[WriteFileResult, None]:
        """Write it in one go: a reader sees the old content or the new."""
        yield await to_thread.run_sync(partial(_write, args, ctx, self.config))

    def assess(self, args: WriteFileArgs, workspace: Workspace) -> Assessment:  # noqa: ARG002  the interface
        """Name the file, written."""
        return Assessment(paths=(PathAccess(path=args.path, write=True),))

    def summarize(self, args: WriteFileArgs) -> str:
        """Name and size: ``write_file src/a.py (120 bytes, overwrite)``."""
        size = len(args.content.encode(errors="replace"))
        how = ", append" if args.append else ", overwrite" if args.overwrite else ""
        return f"write_file {args.path} ({size} bytes{how})"

    def format_result(self, result: WriteFileResult) -> str:
        """One line; the model knows the content."""
        if result.appended:
            return f"added {result.bytes_written} bytes to {result.path}"
        return f"{'replaced' if result.file_existed else 'created'} {result.path} ({result.bytes_written} bytes)"

    def outlook(self, args: WriteFileArgs, workspace: Workspace, *, sandboxed: bool) -> CallOutlook:
        """The file, and how many lines come and go; fails where that can't be told."""
        del sandboxed
        path = workspace.writable(args.path)
        name = workspace.relative(path)
        existed = workspace.files.exists(path)
        before = decode(read_whole(workspace.files, path, name), name).text if existed else ""
        written = file_diff(name, before, before + args.content if args.append else args.content)
        file = WrittenFile(path=name, added=written.added, removed=written.removed, created=not existed)
        return CallOutlook(display=DiffDisplay(files=(file,)), cwd=str(workspace.root))

    def display(self, result: WriteFileResult) -> DiffDisplay:
        """The file, and how many of its lines came and went."""
        created = not result.file_existed
        file = WrittenFile(path=result.path, added=result.added, removed=result.removed, created=created)
        return DiffDisplay(files=(file,))

    def preview(self, args: WriteFileArgs, workspace: Workspace) -> str:
        """Return what would become of a file that exists; fails where that can't be shown."""
        path = workspace.writable(args.path)
        name = workspace.relative(path)
        if not workspace.files.exists(path):
            return ""
        before = decode(read_whole(workspace.files, path, name), name).text
        return diff_of(name, before, before + args.content if args.append else args.content)

    def diff(self, result: WriteFileResult) -> str:
        """Return what became of a file that existed; nothing of one that may hold secrets."""
        return result.diff

    def files_changed(self, result: WriteFileResult) -> tuple[str, ...]:
        """The file."""
        return (result.path,)


def _write(args: WriteFileArgs, ctx: InvokeContext, config: WriteFileConfig) -> WriteFileResult:
    path = ctx.workspace.writable(args.path)
    name = ctx.workspace.relative(path)
    data = _encoded(args.content, name, config.max_write_bytes)
    files = ctx.workspace.files
    existed = files.exists(path)
    if existed and args.append:
        return _append(path, name, args, ctx)
    if existed:
        previous = _seen(path, name, args, ctx)
        files.replace(path, name, data, previous=previous)
        diff = _diff(path, name, previous, data, ctx)
    else:
        if not config.create_parent_dirs and not path.parent.is_dir():
            raise FileAccessError(name, "lies in a folder that does not exist", "make it first, or write elsewhere")
        files.create(path, name, data)
        diff = FileDiff(added=len(args.content.splitlines()))
    ctx.reads.note(path, data)
    return WriteFileResult(
        path=name, bytes_written=len(data), file_existed=existed, content=args.content, **_told(diff)
    )


def _told(diff: FileDiff) -> dict[str, Any]:
    return {"diff": diff.text, "added": diff.added, "removed": diff.removed}


def _diff(path: Path, name: str, before: bytes, after: bytes, ctx: InvokeContext) -> FileDiff:
    """From one version to the next; nothing where a version is no text, or may hold secrets."""
    if ctx.workspace.is_secret(path):
        return FileDiff()
    try:
        return file_diff(name, decode(before, name).text, decode(after, name).text)
    except FileAccessError:
        return FileDiff()


def _append(path: Path, name: str, args: WriteFileArgs, ctx: InvokeContext) -> WriteFileResult:
    """Add to the end of a text file, in its own encoding and with its own line ends; it need not have been read."""
    old = read_whole(ctx.workspace.files, path, name)
    decoded = decode(old, name)
    content = args.content.replace("\r\n", "\n").replace("\n", "\r\n") if _is_crlf(decoded.text) else args.content
    try:
        data = old + content.encode("utf-8" if decoded.encoding == "utf-8-sig" else decoded.encoding)
    except UnicodeEncodeError as error:
        character = content[error.start]
        raise ToolError(
            f"{name!r} is encoded as {decoded.encoding}, which lacks {character!r}; use characters it has"
        ) from error
    seen = ctx.reads.is_current(path, old)
    ctx.workspace.files.replace(path, name, data, previous=old)
    if seen:
        ctx.reads.note(path, data)
    return WriteFileResult(
        path=name,
        bytes_written=len(data) - len(old),
        file_existed=True,
        content=args.content,
        appended=True,
        **_told(_diff(path, name, old, data, ctx)),
    )


def _is_crlf(text: str) -> bool:
    return 2 * text.count("\r\n") > text.count("\n")


def _encoded(content: str, name: str, most: int) -> bytes:
    try:
        data = content.encode()
    except UnicodeEncodeError as error:
        raise ToolError(
            f"the content for {name!r} holds half a surrogate pair at character {error.start}; write the character "
            "itself"
        ) from error
    if len(data) > most:
        raise ToolError(
            f"the content for {name!r} has {len(data)} bytes, more than {most}; "
            "write a first part, then the rest with `append`"
        )
    return data


def _seen(path: Path, name: str, args: WriteFileArgs, ctx: InvokeContext) -> bytes:
    """The bytes to be replaced, which this agent has seen."""
    data = read_whole(ctx.workspace.files, path, name)
    if not args.overwrite:
        raise FileAccessError(name, "exists", "edit it with search_replace, or read it and set overwrite to true")
    if not ctx.reads.is_current(path, data):
        raise FileAccessError(name, "was not read in its current version", "read it with read_file before replacing it")
    return data
