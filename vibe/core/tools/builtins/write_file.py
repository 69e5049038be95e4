"""write_file: a new file, or the whole of one this agent has read."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from functools import partial
from pathlib import Path
from typing import Annotated, ClassVar

from anyio import to_thread
from pydantic import AliasChoices, BaseModel, ConfigDict, Field

from ipc.events import DiffDisplay, WrittenFile
from vibe.core.tools.base import BaseTool, BaseToolConfig, BaseToolState, InvokeContext, ToolError
from vibe.core.tools.files.diffs import FileDiff, file_diff
from vibe.core.tools.files.text_files import DecodedText, FileAccessError, decode, encoded_as, read_whole
from vibe.core.tools.permissions import Assessment, PathAccess
from vibe.core.tools.ports import CallOutlook
from vibe.core.tools.workspace import Workspace

_NEW = DecodedText(text="", encoding="utf-8")


class WriteFileArgs(BaseModel):
    """What to write; ``overwrite`` allows replacing a file, ``append`` adds to its end and makes it if need be."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    path: Annotated[str, Field(validation_alias=AliasChoices("path", "file_path"))]
    content: str
    overwrite: bool = False
    append: bool = False


class WriteFileResult(BaseModel):
    """What was written; ``diff`` is what became of a file that existed. ``added`` and ``removed`` count lines.

    ``kept`` names what is not usual about the bytes of that file and stayed: encoding, line ends.
    """

    path: str
    bytes_written: int
    file_existed: bool
    content: str
    appended: bool = False
    diff: str = ""
    added: int = 0
    removed: int = 0
    kept: str = ""
    warnings: list[str] = []


class WriteFileConfig(BaseToolConfig):
    """``max_write_bytes``: the most one call writes. ``create_parent_dirs``: make missing folders."""

    max_write_bytes: Annotated[int, Field(ge=1)] = 64_000
    create_parent_dirs: bool = True


class WriteFile(BaseTool[WriteFileArgs, WriteFileResult, WriteFileConfig, BaseToolState]):
    """Writes text files."""

    description: ClassVar[str] = "Create a UTF-8 text file, or replace one you have read, in its own encoding."
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
        kept = f"; kept as it was: {result.kept}" if result.kept else ""
        done = f"{'replaced' if result.file_existed else 'created'} {result.path} ({result.bytes_written} bytes{kept})"
        if result.appended:
            done = f"added {result.bytes_written} bytes to {result.path}"
        return "\n".join([done, *(f"[{warning}]" for warning in result.warnings)])

    def outlook(self, args: WriteFileArgs, workspace: Workspace, *, sandboxed: bool) -> CallOutlook:
        """The file, and how many lines come and go; fails where that can't be told."""
        del sandboxed
        name, existed, written = _planned(args, workspace)
        file = WrittenFile(path=name, added=written.added, removed=written.removed, created=not existed)
        return CallOutlook(display=DiffDisplay(files=(file,)), cwd=str(workspace.root))

    def display(self, result: WriteFileResult) -> DiffDisplay:
        """The file, and how many of its lines came and went."""
        created = not result.file_existed
        file = WrittenFile(path=result.path, added=result.added, removed=result.removed, created=created)
        return DiffDisplay(files=(file,))

    def preview(self, args: WriteFileArgs, workspace: Workspace) -> str:
        """Return what would become of a file that exists; fails where that can't be shown."""
        _, existed, written = _planned(args, workspace)
        return written.text if existed else ""

    def diff(self, result: WriteFileResult) -> str:
        """Return what became of a file that existed; nothing of one that may hold secrets."""
        return result.diff

    def files_changed(self, result: WriteFileResult) -> tuple[str, ...]:
        """The file."""
        return (result.path,)


def _planned(args: WriteFileArgs, workspace: Workspace) -> tuple[str, bool, FileDiff]:
    """The file's name, whether it exists, and what would become of it; fails where that can't be told."""
    path = workspace.writable(args.path)
    name = workspace.relative(path)
    existed = workspace.files.exists(path)
    before = decode(read_whole(workspace.files, path, name), name).text if existed else ""
    return name, existed, file_diff(name, before, before + args.content if args.append else args.content)


def _write(args: WriteFileArgs, ctx: InvokeContext, config: WriteFileConfig) -> WriteFileResult:
    path = ctx.workspace.writable(args.path)
    name = ctx.workspace.relative(path)
    _require_short(args.content, name, config.max_write_bytes)
    if ctx.workspace.files.exists(path):
        return _rewrite(path, name, args, ctx)
    if not config.create_parent_dirs and not path.parent.is_dir():
        raise FileAccessError(name, "lies in a folder that does not exist", "make it first, or write elsewhere")
    data = encoded_as(_NEW, args.content, name)
    ctx.workspace.files.create(path, name, data)
    ctx.reads.note(path, data)
    added = len(args.content.splitlines())
    return WriteFileResult(path=name, bytes_written=len(data), file_existed=False, content=args.content, added=added)


def _rewrite(path: Path, name: str, args: WriteFileArgs, ctx: InvokeContext) -> WriteFileResult:
    """Replace a text file, or add to its end, in its own encoding and with its own line ends.

    What is only added to need not have been read.
    """
    old = read_whole(ctx.workspace.files, path, name) if args.append else _seen(path, name, args, ctx)
    decoded = decode(old, name)
    content = decoded.fitted(args.content)
    data = encoded_as(decoded, decoded.text + content if args.append else content, name)
    seen = not args.append or ctx.reads.is_current(path, old)
    linked = ctx.workspace.replace(path, name, data, previous=old)
    if seen:
        ctx.reads.note(path, data)
    diff = FileDiff() if ctx.workspace.is_secret(path) else file_diff(name, decoded.text, decode(data, name).text)
    return WriteFileResult(
        path=name,
        bytes_written=len(data) - (len(old) if args.append else 0),
        file_existed=True,
        content=args.content,
        appended=args.append,
        kept=decoded.kept(),
        warnings=list(filter(None, [linked])),
        diff=diff.text,
        added=diff.added,
        removed=diff.removed,
    )


def _require_short(content: str, name: str, most: int) -> None:
    size = len(content.encode(errors="surrogatepass"))
    if size > most:
        raise ToolError(
            f"the content for {name!r} has {size} bytes, more than {most}; "
            "write a first part, then the rest with `append`"
        )


def _seen(path: Path, name: str, args: WriteFileArgs, ctx: InvokeContext) -> bytes:
    """The bytes to be replaced, which this agent has seen."""
    data = read_whole(ctx.workspace.files, path, name)
    if not args.overwrite:
        raise FileAccessError(name, "exists", "edit it with search_replace, or read it and set overwrite to true")
    if not ctx.reads.is_current(path, data):
        raise FileAccessError(name, "was not read in its current version", "read it with read_file before replacing it")
    return data
