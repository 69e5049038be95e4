"""read_file: reads a window of lines of a text file of any size."""

from __future__ import annotations

from io import BytesIO
from typing import Annotated, BinaryIO, ClassVar

from anyio import to_thread
from pydantic import AliasChoices, BaseModel, Field

from ipc.events import ImageDisplay
from vibe.core.messages import Image
from vibe.core.tools.base import BaseTool, BaseToolState, InvokeContext, ToolArgs, UnaskedConfig
from vibe.core.tools.errors import PathError
from vibe.core.tools.files.images import as_image, image_type
from vibe.core.tools.files.text_files import LARGEST_WHOLE_BYTES, decode, sniff
from vibe.system.plain_text import counted, whole_characters

CHUNK_BYTES = 1024 * 1024
"""The most bytes read at a time of a larger file."""


class ReadFileArgs(ToolArgs):
    """The file and the lines to read.

    ``offset`` counts lines from 0, and ``column`` counts bytes of the first of them.
    """

    path: Annotated[str, Field(validation_alias=AliasChoices("path", "file_path"))]
    offset: Annotated[int, Field(ge=0, description="lines to skip")] = 0
    limit: Annotated[int | None, Field(ge=1, description="most lines to return")] = None
    column: Annotated[int, Field(ge=0, description="where to go on in a line that was cut")] = 0


class ReadFileResult(BaseModel):
    """The lines, or ``media_type`` and ``image_base64`` of an image.

    ``next_offset`` is None at the end of the file, and ``total_lines`` if the lines were not counted. ``next_column``
    is where to continue in a line that was cut.
    """

    path: str
    content: str
    lines_read: int
    was_truncated: bool = False
    offset: int = 0
    next_offset: int | None = None
    next_column: int = 0
    total_lines: int | None = None
    encoding: str = "utf-8"
    crlf: bool = False
    cut_in_line: bool = False
    media_type: str = ""
    image_base64: str = ""


class ReadFileConfig(UnaskedConfig):
    """``max_read_bytes`` is the most one call returns."""

    max_read_bytes: Annotated[int, Field(ge=1_000)] = 64_000


class ReadFile(BaseTool[ReadFileArgs, ReadFileResult, ReadFileConfig, BaseToolState]):
    """Reads text files, and images for models that accept them."""

    description: ClassVar[str] = "Read a text file, or a window of its lines."
    read_only: ClassVar[bool] = True
    path_argument: ClassVar[str] = "path"

    async def run(self, args: ReadFileArgs, ctx: InvokeContext) -> ReadFileResult:
        """Read at most ``max_read_bytes``. The version seen is recorded, so that ``write_file`` may replace it."""
        return await to_thread.run_sync(_read, args, ctx, self.config.max_read_bytes)

    def images(self, result: ReadFileResult) -> tuple[Image, ...]:
        """Return the image, if the file is one."""
        return (Image(result.media_type, result.image_base64),) if result.media_type else ()

    def display(self, result: ReadFileResult) -> ImageDisplay | None:
        """Return an image's name and size, or None for text."""
        if not result.media_type:
            return None
        size = len(result.image_base64) * 3 // 4 - result.image_base64[-2:].count("=")
        return ImageDisplay(path=result.path, media_type=result.media_type, size_bytes=size)

    def summarize(self, args: ReadFileArgs) -> str:
        """Return the path and the lines: ``read_file src/a.py:11-20``."""
        if not args.offset and not args.column and args.limit is None:
            return f"read_file {args.path}"
        return f"read_file {args.path}:{args.offset + 1}-{args.offset + args.limit if args.limit else ''}"

    def format_result(self, result: ReadFileResult) -> str:
        """Return the lines, then in brackets whatever else the model should know."""
        if result.media_type:
            return f"[{result.path}: an image, {result.media_type}]"
        last = result.offset + result.lines_read
        notes: list[str] = []
        if result.offset or result.next_offset is not None:
            total = f" of {result.total_lines}" if result.total_lines is not None else ""
            notes.append(f"lines {result.offset + 1}-{last}{total}")
        if result.cut_in_line:
            notes.append(f"line {last} is too long and was cut")
        if result.next_offset is not None:
            column = f", column={result.next_column}" if result.next_column else ""
            notes.append(f"more at offset={result.next_offset}{column}")
        if result.encoding != "utf-8":
            notes.append(f"encoding {result.encoding}{'' if result.encoding.startswith('utf') else ' (a guess)'}")
        if result.crlf:
            notes.append("line ends are CRLF")
        if not result.content:
            notes.append("the file is empty")
        newline = "" if not result.content or result.content.endswith("\n") else "\n"
        return result.content + (f"{newline}[{'; '.join(notes)}]" if notes else "")


def _read(args: ReadFileArgs, ctx: InvokeContext, max_bytes: int) -> ReadFileResult:
    path = ctx.workspace.readable(args.path)
    name = ctx.workspace.relative(path)
    with ctx.workspace.files.read(path, name) as file:
        size = file.seek(0, 2)
        file.seek(0)
        if size > LARGEST_WHOLE_BYTES:
            return _read_part(file, size, name, args, max_bytes)
        data = file.read(LARGEST_WHOLE_BYTES + CHUNK_BYTES)
    media_type = image_type(data) if ctx.sees_images else None
    if media_type is not None:
        image = as_image(data, media_type, name)
        return ReadFileResult(path=name, content="", lines_read=0, media_type=image.media_type, image_base64=image.data)
    decoded = decode(data, name)
    ctx.reads.note(path, data)
    text = decoded.text.replace("\r\n", "\n")
    result = _window(BytesIO(text.encode(errors="replace")), name, args, max_bytes)
    result.total_lines = text.count("\n") + (not text.endswith("\n") and bool(text))
    result.encoding, result.crlf = decoded.encoding, len(text) < len(decoded.text)
    return result


def _read_part(file: BinaryIO, size: int, name: str, args: ReadFileArgs, max_bytes: int) -> ReadFileResult:
    head = file.read(CHUNK_BYTES)
    encoding = sniff(head, name, size)
    if encoding.startswith("utf-16"):
        raise PathError(name, f"has {size} bytes of {encoding}", "convert it to UTF-8 first (bash: iconv)")
    file.seek(3 if encoding == "utf-8-sig" else 0)
    result = _window(file, name, args, max_bytes, "utf-8" if encoding.startswith("utf") else encoding)
    result.encoding = encoding
    return result


def _window(file: BinaryIO, name: str, args: ReadFileArgs, max_bytes: int, codec: str = "utf-8") -> ReadFileResult:
    """Return the requested lines of a file in this encoding."""
    skipped = _skip_lines(file, args.offset)
    goes_on = _pass_bytes(file, args.column)
    data = file.read(max_bytes + 1)
    if args.column and not (goes_on and data):
        raise PathError(name, f"has a shorter line {args.offset + 1}", f"column {args.column} is past its end")
    if args.offset and not data:
        raise PathError(name, f"has {counted(skipped, 'line')}", f"offset {args.offset} is past its end")
    full = len(data) > max_bytes
    data = data[:max_bytes]
    line_end = data.rfind(b"\n") + 1
    if full:
        data = data[:line_end] if line_end else whole_characters(data)
    parts = data.split(b"\n", args.limit) if args.limit else [data]
    limited = args.limit is not None and len(parts) > args.limit and bool(parts[-1] or full or file.read(1))
    if args.limit is not None and len(parts) > args.limit:
        data = data[: len(data) - len(parts[-1])]
    full = full and not limited
    cut = full and not line_end
    lines = data.count(b"\n") + (bool(data) and not data.endswith(b"\n"))
    return ReadFileResult(
        path=name,
        content=data.decode(codec, errors="replace").replace("\r\n", "\n"),
        lines_read=lines,
        was_truncated=full,
        offset=args.offset,
        next_offset=args.offset + lines - cut if full or limited else None,
        next_column=args.column + len(data) if cut else 0,
        crlf=b"\r\n" in data,
        cut_in_line=cut,
    )


def _pass_bytes(file: BinaryIO, count: int) -> bool:
    """Skip ``count`` bytes of a line. Return False if it has fewer."""
    while count and (chunk := file.read(min(count, CHUNK_BYTES))):
        if b"\n" in chunk:
            return False
        count -= len(chunk)
    return not count


def _skip_lines(file: BinaryIO, count: int) -> int:
    """Skip to the start of line ``count``, or to the end. Return the number of skipped lines."""
    skipped = 0
    last = b"\n"
    while skipped < count and (chunk := file.read(CHUNK_BYTES)):
        found = chunk.count(b"\n")
        last = chunk[-1:]
        if skipped + found >= count:
            rest = chunk.split(b"\n", count - skipped)[-1]
            file.seek(-len(rest), 1)
            return count
        skipped += found
    return skipped + (last != b"\n")
