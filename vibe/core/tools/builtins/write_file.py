"""write_file: creates a file, or replaces the whole of one that this agent has read."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, ClassVar

from anyio import to_thread
from pydantic import AliasChoices, Field

from ipc.events import WrittenFile
from vibe.core.tools.base import BaseToolConfig, InvokeContext, ToolArgs, ToolError
from vibe.core.tools.edits import EditResult, EditTool, FileEdit
from vibe.core.tools.errors import PathError
from vibe.core.tools.files.text_files import DecodedText, decode, read_whole
from vibe.core.tools.workspace import Workspace

_NEW = DecodedText(text="", encoding="utf-8")


class WriteFileArgs(ToolArgs):
    """The file and its content.

    ``overwrite`` allows replacing a file. ``append`` adds to its end, and creates it if necessary.
    """

    path: Annotated[str, Field(validation_alias=AliasChoices("path", "file_path"))]
    content: str
    overwrite: bool = False
    append: bool = False


class WriteFileResult(EditResult):
    """The outcome of a write.

    ``kept`` names what is unusual about a file that existed and was preserved: encoding, line ends.
    """

    path: str
    bytes_written: int
    file_existed: bool
    content: str
    appended: bool = False
    kept: str = ""

    def written_files(self) -> tuple[WrittenFile, ...]:
        """Return the file."""
        created = not self.file_existed
        return (WrittenFile(path=self.path, added=self.change.added, removed=self.change.removed, created=created),)


class WriteFileConfig(BaseToolConfig):
    """``max_write_bytes`` is the most one call writes. With ``create_parent_dirs``, missing folders are created."""

    max_write_bytes: Annotated[int, Field(ge=1)] = 64_000
    create_parent_dirs: bool = True


class WriteFile(EditTool[WriteFileArgs, WriteFileResult, WriteFileConfig]):
    """Writes text files."""

    description: ClassVar[str] = "Create a UTF-8 text file, or replace one you have read, in its own encoding."
    path_argument: ClassVar[str] = "path"

    async def run(self, args: WriteFileArgs, ctx: InvokeContext) -> WriteFileResult:
        """Write the file in one step: a reader sees either the old content or the new."""
        return await to_thread.run_sync(self._write, args, ctx)

    def summarize(self, args: WriteFileArgs) -> str:
        """Return the path and the size: ``write_file src/a.py (120 bytes, overwrite)``."""
        size = len(args.content.encode(errors="replace"))
        how = ", append" if args.append else ", overwrite" if args.overwrite else ""
        return f"write_file {args.path} ({size} bytes{how})"

    def format_result(self, result: WriteFileResult) -> str:
        """Return one line, and a line for each warning. The model knows the content."""
        if result.appended:
            return result.report(f"added {result.bytes_written} bytes to {result.path}")
        kept = f"; kept as it was: {result.kept}" if result.kept else ""
        done = "replaced" if result.file_existed else "created"
        return result.report(f"{done} {result.path} ({result.bytes_written} bytes{kept})")

    def planned(self, args: WriteFileArgs, workspace: Workspace) -> FileEdit:
        """Return the edit that gives the file its new text, in its own encoding and with its own line ends."""
        path = workspace.writable(args.path)
        name = workspace.relative(path)
        old = read_whole(workspace.files, path, name) if workspace.files.exists(path) else None
        decoded = _NEW if old is None else decode(old, name)
        content = decoded.with_line_ends(args.content)
        text = decoded.text + content if args.append else content
        return FileEdit(path=path, name=name, old=old, decoded=decoded, text=text)

    def _write(self, args: WriteFileArgs, ctx: InvokeContext) -> WriteFileResult:
        edit, config = self.planned(args, ctx.workspace), self.config
        path, name, old = edit.path, edit.name, edit.old
        size = len(args.content.encode(errors="surrogatepass"))
        if size > config.max_write_bytes:
            long = f"the content for {name!r} has {size} bytes, more than {config.max_write_bytes}"
            raise ToolError(f"{long}; write a first part, then the rest with `append`")
        if old is not None and not args.append:
            _require_seen(path, name, old, args, ctx)
        if old is None and not config.create_parent_dirs and not path.parent.is_dir():
            raise PathError(name, "lies in a folder that does not exist", "make it first, or write elsewhere")
        data = edit.encoded()
        diff, warnings = edit.write(ctx, data)
        return WriteFileResult(
            path=name,
            bytes_written=len(data) - (len(old or b"") if args.append else 0),
            file_existed=old is not None,
            content=args.content,
            appended=args.append and old is not None,
            kept=edit.decoded.peculiarities(),
            warnings=warnings,
            change=diff,
        )


def _require_seen(path: Path, name: str, old: bytes, args: WriteFileArgs, ctx: InvokeContext) -> None:
    """Check that this agent has seen the current version of the file it replaces.

    Raises:
        PathError: ``overwrite`` is not set, or the agent has not seen it.
    """
    if not args.overwrite:
        raise PathError(name, "exists", "edit it with search_replace, or read it and set overwrite to true")
    if not ctx.reads.is_current(path, old):
        raise PathError(name, "was not read in its current version", "read it with read_file before replacing it")
