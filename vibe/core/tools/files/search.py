"""Searches files for a regular expression, with ripgrep or in Python, with the same results."""

from __future__ import annotations

import os
import re
import signal
import stat
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import lru_cache, partial
from io import BytesIO
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from subprocess import DEVNULL, PIPE
from typing import Any, BinaryIO, NamedTuple
from warnings import catch_warnings, simplefilter

from anyio import CancelScope, EndOfStream, open_process, sleep, to_process, to_thread
from anyio.abc import Process
from msgspec import Struct, field, structs

from vibe.core.config.patterns import compile_linear
from vibe.core.tools.errors import ToolError
from vibe.core.tools.files.text_files import BOMS, READ
from vibe.system.files import folder_below
from vibe.system.ignore import PER_FOLDER, Ignores, start_walk, walk_files
from vibe.system.plain_text import printable
from vibe.system.racing import bare_task_group, shielded

LINE_CHARACTERS = 500
"""The most characters of a line that are shown."""
SHOWN_BEFORE = 100
"""Characters of a long line that are shown before its first match."""
SPARE_MATCHES = 50
"""The number of matches beyond those wanted that a search may collect before it stops."""
CHUNK_BYTES = 1024 * 1024
"""Bytes read at a time when looking for a NUL byte."""
LONGEST_LINE = 64 * CHUNK_BYTES
"""The most bytes of one line that are searched.

Nothing after a longer line is searched. Of a file in UTF-16, only this many bytes are searched in all.
"""

RECORD = re.compile(
    rb"([^\0]*?)(?:\0(\d+):(?:([1-9]\d*):)?(\d+):([^\n]*)"
    rb"|: (?:WARNING: stopped searching )?binary file (?:after match|matches) \(found [^\n]*\))\n"
)
"""One line of ripgrep's output: path, number, column, byte offset and text, or the path of a binary file.

There is no column if the match is at one of several CRs before the LF. Such a line is searched here.
"""
INEXACT = re.compile(rb"(?: \[\.\.\. (?:omitted end of long line|\d+ more match(?:es)?)\]\r?|\r\r)$")
"""The end of a text that is not the whole line, or has a CR more than a last line without LF."""
ASCII_PATTERN = re.compile(r"(?:[\w\s/:;,<>=@#%&~'\"`!|*+{}()$^-]|\[[\w-]+\]|\\[^\w\s])*", re.ASCII)
"""Patterns that match nothing but ASCII, for which the encoding of the text makes no difference."""
SEARCHED_HERE = (
    r"(?-u:[\xC0-\xFF](?:[\x00-\x7F]|$)|(?:^|[\x00-\x7F])[\x80-\xBF]|[\xE0-\xF7][\x80-\xBF](?:[\x00-\x7F]|$)"
    r"|[\xF0-\xF7][\x80-\xBF]{2}(?:[\x00-\x7F]|$))|\r[^\r]"
)
"""Lines in an older encoding, which ripgrep does not decode, or with a CR inside, which it takes for the end of a line.

It reports them all, and each is searched here.
"""
(UTF_8_MARK, _), *UTF_16 = BOMS
"""The byte order mark of UTF-8, and those of UTF-16 with their encodings."""
GLOB_SIGN = re.compile(r"[*?\[\]{}\\!]")
"""Characters that have a meaning in ripgrep's globs."""

PIPE_CHECK_SECONDS = 2.0
"""Seconds between two checks for named pipes on which ripgrep may hang."""

FLAGS = (
    "--no-config",
    "--no-messages",
    "--line-number",
    "--column",
    "--byte-offset",
    "--crlf",
    "--with-filename",
    "--no-heading",
    "--null",
    "--color=never",
    "--hidden",
    "--no-ignore-global",
    f"--max-columns={4 * LINE_CHARACTERS}",
    "--max-columns-preview",
)
"""The options of every ripgrep search."""


class Query(Struct, frozen=True, kw_only=True):
    """A search.

    ``start`` is resolved, ``most`` and ``max_bytes`` limit what is found, and the places in ``own`` are left out.
    """

    pattern: str
    root: Path
    start: Path
    use_ignores: bool
    most: int
    max_bytes: int
    ignores: Ignores = field(default_factory=Ignores)
    own: tuple[Path, ...] = ()


class Match(Struct, frozen=True, kw_only=True):
    """A matching line, or the part of a long one around its first match.

    ``path`` is relative to the root if it lies below.
    """

    path: str
    number: int
    text: str

    def line(self) -> str:
        """Return ``path:line:text`` on one line, whatever the three contain."""
        return f"{printable(self.path)}:{self.number}:{printable(self.text)}"


class Found(Struct, frozen=True, kw_only=True):
    """Matches sorted by path and line. ``more`` says that the search stopped because it had enough."""

    matches: tuple[Match, ...]
    more: bool


class _Line(NamedTuple):
    """A line that ripgrep found.

    ``at`` is the byte of the line where the pattern matches, -1 if the line has to be searched here. ``place`` is the
    byte of the file where the line begins.
    """

    path: str
    number: int
    at: int
    place: int
    data: bytes


class BadPatternError(ToolError):
    """A pattern is not a regular expression."""

    def __init__(self, pattern: str, problem: str) -> None:
        super().__init__(f"{pattern!r} is not a regular expression: {problem}; escape what is meant literally")


async def search_with_ripgrep(ripgrep: str, query: Query) -> Found:
    """Search with ``rg``: on all processors first, then in order, up to the limit, if there are too many matches.

    Raises:
        BadPatternError: the pattern is not a regular expression.
        ToolError: ripgrep failed.
    """
    if "\0" in query.pattern:  # A program's arguments can't contain it.
        return await search_in_python(query)
    # In a file named outright, ripgrep reports matches before it notices that the file is binary.
    if await to_thread.run_sync(_is_binary, query.start):
        return Found(matches=(), more=False)
    ignoring = ["--no-ignore"]
    if query.use_ignores:
        ignoring = [f"--glob=!{pattern}" for pattern in query.ignores.globs]
        if await to_thread.run_sync(os.path.isfile, query.root / query.ignores.file):
            ignoring.append(f"--ignore-file={query.ignores.file}")
        ignoring += await to_thread.run_sync(list, _rules_above(query))
    own = (place.relative_to(query.root).as_posix() for place in query.own if place.is_relative_to(query.root))
    ignoring += ["--glob=!/" + GLOB_SIGN.sub(r"\\\g<0>", name) for name in own]
    where = query.start.relative_to(query.root) if query.start.is_relative_to(query.root) else query.start
    patterns = [query.pattern] if ASCII_PATTERN.fullmatch(query.pattern) else [query.pattern, SEARCHED_HERE]
    argv = [*ignoring, *(f"--regexp={pattern}" for pattern in patterns), "--", str(where)]
    try:
        found = await _run([ripgrep, *FLAGS, *argv], query)
        if found.more:  # The first ones are needed. Searching in order costs ripgrep its other threads.
            return await _run([ripgrep, *FLAGS, "--sort=path", *argv], query)
    except BadPatternError:  # Python supports syntax that ripgrep does not.
        return await search_in_python(query)
    in_order = sorted(found.matches, key=lambda match: (match.path.split("/"), match.number))  # ripgrep's own order
    return Found(matches=tuple(in_order), more=False)


def _rules_above(query: Query) -> Iterator[str]:
    """Yield the options for the ignore files above the start. Blocks."""
    if not any(os.path.lexists(place / ".git") for place in (query.start, *query.start.parents)):
        yield "--no-require-git"  # In a repository, the rules of those around it would count, too.
    walk = start_walk(query.root, query.start, query.ignores, (), use_ignores=True)
    if walk.inside and structs.replace(walk, inside=False).leaves_out(query.start / "any", is_folder=False):
        yield "--no-ignore-parent"  # What is named is searched, like ``.venv/lib``, though ``.venv`` ignores ``*``.


def _is_binary(path: Path) -> bool:
    """Return whether a path is a file that is not text. Blocks."""
    with suppress(OSError), path.open("rb") as file:
        head = file.read(CHUNK_BYTES)
        if any(head.startswith(mark) for mark, _ in UTF_16):
            return False
        return b"\0" in head or any(b"\0" in chunk for chunk in iter(partial(file.read, CHUNK_BYTES), b""))
    return False


async def _run(argv: list[str], query: Query) -> Found:
    """Return what one ``rg`` finds, and stop it as soon as that is enough."""
    environ = {"LC_ALL": "C.UTF-8"}
    start = partial(open_process, argv, stdin=DEVNULL, stdout=PIPE, stderr=PIPE, cwd=query.root, env=environ)
    process = await shielded(start)  # One that is only just being started could not be ended.
    found = Found(matches=(), more=False)
    try:
        async with bare_task_group() as group:
            group.start_soon(_release_pipes, query)
            found = await _read_matches(process, query)
            group.cancel_scope.cancel()
        problem = "" if found.matches or found.more else await _read_problem(process)
    finally:
        with CancelScope(shield=True):
            _kill(process)
            await process.aclose()
    if problem:
        if "regex" in problem:
            raise BadPatternError(query.pattern, _last_line(problem))
        raise ToolError(f"the search failed: {_last_line(problem)}; try another path or pattern")
    return found


async def _release_pipes(query: Query) -> None:
    """Release ``rg`` if it waits for a writer because an ignore file turns out to be a named pipe."""
    while query.use_ignores:
        await sleep(PIPE_CHECK_SECONDS)
        await to_thread.run_sync(_open_pipes, query, abandon_on_cancel=True)


def _open_pipes(query: Query) -> None:
    above = map(str, (query.start, *query.start.parents))
    below = (folder for folder, _, _ in os.walk(query.start))
    for path in (f"{folder}/{name}" for folder in (*above, *below) for name in PER_FOLDER):
        with suppress(OSError):  # There is no such file, or ripgrep does not wait for it.
            if stat.S_ISFIFO(os.lstat(path).st_mode):
                os.close(os.open(path, os.O_WRONLY | os.O_NONBLOCK))


def _kill(process: Process) -> None:
    """Kill the process.

    ``process.kill()`` would reap a child that has just ended, and the event loop then complains on standard error.
    """
    if process.returncode is None:
        with suppress(ProcessLookupError):
            os.kill(process.pid, signal.SIGKILL)


async def _read_matches(process: Process, query: Query) -> Found:
    matches: list[Match] = []
    binary: set[str] = set()
    buffer = b""
    size = 0
    enough = query.most + SPARE_MATCHES
    while process.stdout is not None and len(matches) <= enough and size <= 2 * query.max_bytes:
        try:
            buffer += await process.stdout.receive()
        except EndOfStream:
            return Found(matches=tuple(match for match in matches if match.path not in binary), more=False)
        end = 0
        lines: list[_Line] = []
        while record := RECORD.match(buffer, end):
            end = record.end()
            path = os.fsdecode(record[1]).removeprefix("./")
            if record[2] is None:
                binary.add(path)
                continue
            size += len(record[0])
            lines.append(_Line(path, int(record[2]), int(record[3] or 0) - 1, int(record[4]), record[5]))
        matches += await _matches_of(lines, query)
        buffer = buffer[end:]
    return Found(matches=tuple(match for match in matches if match.path not in binary), more=True)


async def _matches_of(lines: Sequence[_Line], query: Query) -> list[Match]:
    """Return the matches among the lines ripgrep reported, without lines reported only for their encoding."""
    lines = await to_thread.run_sync(_as_searched, lines, query.root)
    shown = [text_of(line.data) for line in lines]
    starts: list[int | None] = [len(line.data[: line.at].decode(errors="ignore")) for line in lines]
    odd = [at for at, line in enumerate(lines) if line.at < 0 or b"\r" in line.data or shown[at].encode() != line.data]
    if odd:
        _expression(query.pattern)  # Fails here, because an error in the other process would not reach us.
        found = await to_process.run_sync(_match_starts, query.pattern, [shown[at] for at in odd], cancellable=True)
        for at, start in zip(odd, found, strict=True):
            starts[at] = start
    return [
        Match(path=line.path, number=line.number, text=excerpt(text, start))
        for line, text, start in zip(lines, shown, starts, strict=True)
        if start is not None
    ]


def _match_starts(pattern: str, lines: list[str]) -> list[int | None]:
    """Return where the pattern first matches in each line."""
    found = (_expression(pattern).search(line) for line in lines)
    return [match.start() if match else None for match in found]


def _as_searched(lines: Sequence[_Line], root: Path) -> list[_Line]:
    """Return the lines as they are in their files; of long ones, ripgrep only reports the beginning. Blocks.

    A line that is a file whose lines end with CR is returned as these lines, ``at`` -1. Lines that are not in their
    files are left out: a link that others put in place of a folder may have led ripgrep to elsewhere.
    """
    of_files = groupby(lines, key=attrgetter("path"))
    return [line for name, of_file in of_files for line in _in_file(root, name, of_file)]


def _in_file(root: Path, name: str, lines: Iterable[_Line]) -> Iterator[_Line]:
    with suppress(OSError), _opened(root, name) as text:
        begin = text.tell()
        for line in lines:
            text.seek(begin + line.place)
            data = text.readline(LONGEST_LINE).removesuffix(b"\n")
            if data.startswith(INEXACT.sub(b"", line.data).rstrip(b"\r")):
                data = data.removesuffix(b"\r")
                is_file = line.number == 1 and b"\r" in data and "\r" not in next(_lines(root, name), "\r")
                parts = enumerate(_lines(root, name) if is_file else (), start=1)
                own = [_Line(name, number, at=-1, place=0, data=part.encode()) for number, part in parts]
                yield from own or [line._replace(data=data)]


async def _read_problem(process: Process) -> str:
    text = b""
    with suppress(EndOfStream):
        while process.stderr is not None and len(text) < 10_000:
            text += await process.stderr.receive()
    return text.decode(errors="replace")


def _last_line(problem: str) -> str:
    lines = [line.strip() for line in problem.splitlines() if line.strip()]
    return lines[-1].removeprefix("error: ").removeprefix("rg: ")


@contextmanager
def _opened(root: Path, name: str) -> Generator[BinaryIO]:
    """Open a file as ripgrep searches it: after its byte order mark, and as UTF-8 if it is UTF-16.

    Raises:
        OSError: it can't be read, or a link is on the way to it from ``root``.
    """
    with folder_below(root, name) as (folder, last):
        descriptor = os.open(last, READ, dir_fd=folder)
    with os.fdopen(descriptor, "rb") as opened:
        head = opened.read(3)
        encoding = next((name for mark, name in UTF_16 if head.startswith(mark)), None)
        if encoding is None:
            opened.seek(3 if head == UTF_8_MARK else 0)
            yield opened
        else:
            text = (head + opened.read(LONGEST_LINE)).decode(encoding, errors="replace").removeprefix("\ufeff")
            yield BytesIO(text.encode())


def text_of(line: bytes) -> str:
    """Return a line decoded as UTF-8 or as the most likely single-byte encoding."""
    for encoding in ("utf-8", "cp1252"):
        with suppress(UnicodeDecodeError):
            return line.decode(encoding)
    return line.decode("latin-1")


def excerpt(text: str, at: int) -> str:
    """Return a line, or the part of a long one around ``at``."""
    start = max(at - SHOWN_BEFORE, 0) if len(text) > LINE_CHARACTERS else 0
    end = start + LINE_CHARACTERS
    return f"{'…' if start else ''}{text[start:end]}{'…' if end < len(text) else ''}"


async def search_in_python(query: Query) -> Found:
    """Search in a separate process, so that a slow expression delays nothing else and can be stopped.

    Raises:
        BadPatternError: the pattern is not a regular expression.
    """
    _expression(query.pattern)
    return await to_process.run_sync(scan, query, cancellable=True)


@lru_cache(maxsize=16)
def _expression(pattern: str) -> Any:
    r"""Compile a pattern with Python, or with RE2 if Python does not support it (``\p{L}``, ``[[:alpha:]]``).

    Raises:
        BadPatternError: neither supports it.
    """
    try:
        with catch_warnings():
            simplefilter("error")
            return re.compile(pattern)
    except (re.error, FutureWarning, DeprecationWarning, RecursionError, OverflowError) as error:
        found = compile_linear(pattern)
        if found is None:
            raise BadPatternError(pattern, str(error)) from error
        return found


def scan(query: Query) -> Found:
    """Search in this process. Blocks."""
    expression = _expression(query.pattern)
    matches: list[Match] = []
    size = 0
    files = walk_files(query.root, query.start, use_ignores=query.use_ignores, ignores=query.ignores, own=query.own)
    for file in (file for file in files if not _is_binary(file)):
        name = file.relative_to(query.root).as_posix() if file.is_relative_to(query.root) else str(file)
        before = len(matches)
        for number, line in enumerate(_lines(query.root, name), start=1):
            if "\0" in line:  # The file is not text, so none of its matches count.
                del matches[before:]
                break
            if found := expression.search(line):
                matches.append(Match(path=name, number=number, text=excerpt(line, found.start())))
                size += len(name) + len(matches[-1].text)
            if len(matches) > query.most + SPARE_MATCHES or size > 2 * query.max_bytes:
                return Found(matches=tuple(matches), more=True)
    return Found(matches=tuple(matches), more=False)


def _lines(root: Path, name: str) -> Iterator[str]:
    """Yield the lines of a file as they are searched, or none if it can't be read."""
    with suppress(OSError), _opened(root, name) as text:
        yield from (text_of(line.removesuffix(b"\n").removesuffix(b"\r")) for line in _bounded_lines(text))


def _bounded_lines(file: BinaryIO) -> Iterator[bytes]:
    """Yield lines with their ends. Without any LF, they end with CR."""
    line = file.readline(LONGEST_LINE)
    if not line.endswith(b"\n"):
        yield from line.removesuffix(b"\r").split(b"\r") if line else ()
        return
    while line:
        yield line
        if len(line) == LONGEST_LINE:
            return
        line = file.readline(LONGEST_LINE)
