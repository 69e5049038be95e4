"""Two ways to search files for a regular expression, with the same answer: ripgrep's and our own."""

from __future__ import annotations

import os
import re
import signal
import stat
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from subprocess import DEVNULL, PIPE

from anyio import CancelScope, EndOfStream, create_task_group, open_process, sleep, to_process, to_thread
from anyio.abc import Process

from vibe.core.system.ignore import Ignores, walk_files
from vibe.core.system.shield import shielded
from vibe.core.tools.errors import ToolError
from vibe.core.tools.files.text_files import BinaryFileError, decode

LINE_CHARACTERS = 500
LARGEST_FILE_BYTES = 50 * 1024 * 1024
SPARE_MATCHES = 50

RECORD = re.compile(rb"([^\0]*)\0(\d+):([^\n]*)\n")
BINARY_WARNING = re.compile(rb"[^\n]*: WARNING: stopped searching binary file after match \([^\n]*\)\n")
LONG_LINE_NOTE = re.compile(r" \[\.\.\. (?:omitted end of long line|\d+ more match(?:es)?)\]$")
UNPRINTABLE = re.compile(r"[\x00-\x08\x0a-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")

PATIENCE_SECONDS = 2.0
PATTERN_FILES = (".gitignore", ".ignore", ".rgignore", ".git/info/exclude")
"""The files that ripgrep reads patterns from."""

FLAGS = (
    "--no-config",
    "--no-messages",
    "--line-number",
    "--with-filename",
    "--no-heading",
    "--null",
    "--color=never",
    "--hidden",
    "--no-require-git",
    "--no-ignore-global",
    f"--max-columns={4 * LINE_CHARACTERS}",
    "--max-columns-preview",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """A search: ``start`` is resolved; ``most`` and ``max_bytes`` say when enough was found."""

    pattern: str
    root: Path
    start: Path
    use_ignores: bool
    most: int
    max_bytes: int
    ignores: Ignores = field(default_factory=Ignores)


@dataclass(frozen=True, slots=True, kw_only=True)
class Match:
    """A line that matches; ``path`` is relative to the root where it lies below."""

    path: str
    number: int
    text: str

    def line(self) -> str:
        """``path:line:text`` on one line, whatever the three hold."""
        text = self.text if len(self.text) <= LINE_CHARACTERS else self.text[:LINE_CHARACTERS] + "…"
        return f"{printable(self.path)}:{self.number}:{printable(text)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """Matches sorted by path and line; ``more``: the search stopped because it had enough."""

    matches: tuple[Match, ...]
    more: bool


class BadPatternError(ToolError):
    """A pattern that is no regular expression."""

    def __init__(self, pattern: str, problem: str) -> None:
        super().__init__(f"{pattern!r} is not a regular expression: {problem}; escape what is meant literally")
        self.pattern = pattern
        self.problem = problem


IN_ORDER = "--sort=path"
"""Costs ripgrep its other threads, so it is only asked for where the first matches must be told from the rest."""


async def search_with_ripgrep(ripgrep: str, query: Query) -> Found:
    """Search with ``rg``: on all processors, and where that finds more than enough, again in order, up to enough.

    Raises:
        BadPatternError: the pattern is no regular expression.
        ToolError: ripgrep failed.
    """
    ignoring = ["--no-ignore"]
    if query.use_ignores:
        ignoring = [f"--glob=!{pattern}" for pattern in query.ignores.names]
        if (query.root / query.ignores.file).is_file():
            ignoring.append(f"--ignore-file={query.ignores.file}")
    where = query.start.relative_to(query.root) if query.start.is_relative_to(query.root) else query.start
    argv = [*ignoring, f"--regexp={query.pattern}", "--", str(where)]
    found = await _run([ripgrep, *FLAGS, *argv], query)
    if found.more:
        return await _run([ripgrep, *FLAGS, IN_ORDER, *argv], query)
    return Found(matches=tuple(sorted(found.matches, key=_place)), more=False)


def _place(match: Match) -> tuple[list[str], int]:
    """Return where a match stands in ripgrep's own order of paths: name by name, then line by line."""
    return match.path.split("/"), match.number


async def _run(argv: list[str], query: Query) -> Found:
    """Return what one ``rg`` finds; it is stopped as soon as there is enough."""
    process = await _start(argv, query)
    found = Found(matches=(), more=False)
    try:
        try:
            async with create_task_group() as group:
                group.start_soon(_release_pipes, query)
                found = await _read_matches(process, query)
                group.cancel_scope.cancel()
        except BaseExceptionGroup as errors:
            raise errors.exceptions[0] from None
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
    """Let go of ``rg`` where it waits for a writer of what should be a file of patterns and is a named pipe."""
    while query.use_ignores:
        await sleep(PATIENCE_SECONDS)
        await to_thread.run_sync(_open_pipes, query, abandon_on_cancel=True)


def _open_pipes(query: Query) -> None:
    above = map(str, (query.start, *query.start.parents))
    below = (folder for folder, _, _ in os.walk(query.start))
    for path in (f"{folder}/{name}" for folder in (*above, *below) for name in PATTERN_FILES):
        with suppress(OSError):  # there is none, or the caller does not wait for it
            if stat.S_ISFIFO(os.lstat(path).st_mode):
                os.close(os.open(path, os.O_WRONLY | os.O_NONBLOCK))


async def _start(argv: list[str], query: Query) -> Process:
    """Shielded, for a process that is just being started could not be ended."""
    environ = {"LC_ALL": "C.UTF-8"}
    start = partial(open_process, argv, stdin=DEVNULL, stdout=PIPE, stderr=PIPE, cwd=query.root, env=environ)
    return await shielded(start)


def _kill(process: Process) -> None:
    """Not ``process.kill()``: it reaps a child that has just ended, which the loop then complains of on stderr."""
    if process.returncode is None:
        with suppress(ProcessLookupError):
            os.kill(process.pid, signal.SIGKILL)


async def _read_matches(process: Process, query: Query) -> Found:
    matches: list[Match] = []
    buffer = b""
    size = 0
    enough = query.most + SPARE_MATCHES
    while process.stdout is not None and len(matches) <= enough and size <= 2 * query.max_bytes:
        try:
            data = await process.stdout.receive()
        except EndOfStream:
            return Found(matches=tuple(matches), more=False)
        buffer = BINARY_WARNING.sub(b"", buffer + data)
        end = 0
        for record in RECORD.finditer(buffer):
            matches.append(_match(record))
            end = record.end()
            size += len(record[0])
        buffer = buffer[end:]
    return Found(matches=tuple(matches), more=True)


async def _read_problem(process: Process) -> str:
    text = b""
    try:
        while process.stderr is not None and len(text) < 10_000:
            text += await process.stderr.receive()
    except EndOfStream:
        pass
    return text.decode(errors="replace")


def _last_line(problem: str) -> str:
    lines = [line.strip() for line in problem.splitlines() if line.strip()]
    return lines[-1].removeprefix("error: ").removeprefix("rg: ")


def _match(record: re.Match[bytes]) -> Match:
    path = os.fsdecode(record[1]).removeprefix("./")
    text = LONG_LINE_NOTE.sub("…", record[3].decode(errors="replace"))
    return Match(path=path, number=int(record[2]), text=text.removeprefix("\ufeff").removesuffix("\r"))


async def search_in_python(query: Query) -> Found:
    """Search in a process of our own, so that a slow expression delays nothing else and can be stopped.

    Raises:
        BadPatternError: the pattern is no regular expression.
    """
    try:
        re.compile(query.pattern)
    except re.error as error:
        raise BadPatternError(query.pattern, str(error)) from error
    return await to_process.run_sync(scan, query, cancellable=True)


def scan(query: Query) -> Found:
    """The search itself; blocks."""
    expression = re.compile(query.pattern)
    matches: list[Match] = []
    size = 0
    for file in walk_files(query.root, query.start, use_ignores=query.use_ignores, ignores=query.ignores):
        name = file.relative_to(query.root).as_posix() if file.is_relative_to(query.root) else str(file)
        for number, line in enumerate(_lines(file), start=1):
            if expression.search(line):
                matches.append(Match(path=name, number=number, text=line))
                size += len(name) + len(line)
            if len(matches) > query.most + SPARE_MATCHES or size > 2 * query.max_bytes:
                return Found(matches=tuple(matches), more=True)
    return Found(matches=tuple(matches), more=False)


def _lines(file: Path) -> list[str]:
    try:
        if file.stat().st_size > LARGEST_FILE_BYTES:
            return []
        text = decode(file.read_bytes(), file.name).text
    except (OSError, BinaryFileError):
        return []
    lines = text.split("\n")
    if not lines[-1]:
        lines.pop()
    return [line.removesuffix("\r") for line in lines]


def printable(text: str) -> str:
    """Return text on one line, with escapes for what would break it or control a terminal."""
    return UNPRINTABLE.sub(lambda found: ascii(found[0])[1:-1], text)
