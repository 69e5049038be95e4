"""The port for sandboxes, which turn a command and its variables into the same command confined to a policy."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from msgspec import Struct, field

from vibe.shell.sandbox.settings import Network
from vibe.system.errors import EnvironmentFailure


class ResourceLimits(Struct, frozen=True, kw_only=True):
    """Limits of a program's use of resources. 0 means no limit.

    ``processes`` counts all processes and threads together. The others apply to each process.
    """

    processes: int = 0
    memory_mb: int = 0
    file_mb: int = 0
    cpu_seconds: int = 0


READING = ResourceLimits(processes=256, memory_mb=2_048, file_mb=64, cpu_seconds=60)
"""Limits of commands in a read-only place."""
LOOKING = ResourceLimits(memory_mb=READING.memory_mb)
"""Limits of commands that do nothing but read, wherever they run, as nobody is asked about them."""


class SandboxPolicy(Struct, frozen=True, kw_only=True):
    """The rights of a confined program. All paths are resolved.

    Attributes:
        writable: Paths below which it may write.
        temp: The folder for its temporary files (``TMPDIR``) and caches.
        box: A folder of ours for files of the sandbox. The program never sees it.
        hidden: Paths that it must not read. It may read all others.
        readable: Paths that it sees even though they are inside hidden ones.
        frozen: Paths that it must not write even though they are inside writable ones.
        shown: Paths that it sees even though they are in a folder shared with other programs, such as ``/tmp``, in
            place of which it has a private one.
        records: The folder where it is recorded what has to be put back if we are killed.
        network: The network that it may use.
        unix_sockets: It may open Unix sockets.
        read_only: It sees only the system's programs and ``readable`` without ``hidden``, and writes only temporary
            files in memory, which vanish with it.
        bounds: Limits of its use of resources.
    """

    writable: tuple[Path, ...]
    temp: Path
    box: Path
    hidden: tuple[Path, ...] = ()
    readable: tuple[Path, ...] = ()
    frozen: tuple[Path, ...] = ()
    cleaned: Mapping[Path, str] = field(default_factory=dict[Path, str])
    """Files with credentials, and the copies without them that the program sees instead."""
    shown: tuple[Path, ...] = ()
    records: Path | None = None
    network: Network = Network.LOOPBACK
    unix_sockets: bool = False
    read_only: bool = False
    bounds: ResourceLimits = ResourceLimits()


class SandboxRun(Struct, frozen=True, kw_only=True):
    """The confined command to start, and the variables to start it with.

    ``options`` are the options of its sandbox, if they aren't part of the command.
    """

    argv: tuple[str, ...]
    environ: Mapping[str, str]
    options: tuple[str, ...] = ()


class Sandbox(Struct, frozen=True, kw_only=True):
    """A way to confine programs.

    Attributes:
        name: The sandbox's name for people.
        limits: What it can't do, for people.
        has_namespaces: It can enforce that a program only reads, and keeps ``frozen`` paths from being written while a
            command runs. Without namespaces they have to be restored afterwards.
        wrap: Returns a command confined to a policy, to be started in the same folder with the variables it returns.
            Reads the file system.
    """

    name: str
    limits: str
    has_namespaces: bool
    wrap: Callable[[Sequence[str], Mapping[str, str], SandboxPolicy], SandboxRun]


class ReadOnlyUnavailableError(EnvironmentFailure):
    """No sandbox here can enforce that a command only reads."""

    def __init__(self, problem: str) -> None:
        super().__init__(f"the command can't be confined to reading: {problem}; run it with the user's approval")


class SandboxUnprovenError(EnvironmentFailure):
    """A temporary failure kept us from finding out which sandbox works. The next command tries again."""

    def __init__(self, problem: str) -> None:
        super().__init__(f"whether a sandbox works here could not be found out ({problem}): try again")


BASH = frozenset({"/usr/bin/bash", "/bin/bash"})
"""The system's bash. One found elsewhere may be any program, and might not set the limits."""
STARTUP_VARIABLES = ("BASH_", "BASHOPTS", "SHELLOPTS", "POSIXLY_CORRECT")
"""Beginnings of variables that make bash run something, or behave differently, before it gets to its line."""
POSIX_BLOCK, BASH_BLOCK = 512, 1024
"""The units, in bytes, in which shells measure the size of files."""


def bounded(argv: Sequence[str], environ: Mapping[str, str], bounds: ResourceLimits) -> tuple[str, ...]:
    """Return the command with limits set before it. Lower limits that already apply remain.

    For a line of bash, the limits are set on the line itself, in front of its text. So the line numbers stay as they
    are, and no further shell has to start.
    """
    if (
        argv[0] in BASH
        and tuple(argv[1:2]) == ("-c",)
        and len(argv) > 2
        and not any(name.startswith(STARTUP_VARIABLES) for name in environ)
    ):
        settings = [*_settings(bounds, "ulimit -u {0}", BASH_BLOCK)]
        return (*argv[:2], f"{_grouped(settings)}{argv[2]}", *argv[3:]) if settings else tuple(argv)
    settings = [*_settings(bounds, "ulimit -u {0} || ulimit -p {0}", POSIX_BLOCK)]  # dash calls it -p, others -u
    return ("/bin/sh", "-c", f'{_grouped(settings)}exec "$@"', "sh", *argv) if settings else tuple(argv)


LIMITS = re.compile(r"\{ (?:ulimit [^;]*; )+:; \} 2>/dev/null; ")
"""The limits in front of a line's text, which a shell quotes with it in a syntax error."""


def _grouped(settings: Sequence[str]) -> str:
    return f"{{ {'; '.join(settings)}; :; }} 2>/dev/null; "


def _settings(bounds: ResourceLimits, processes: str, block: int) -> Iterator[str]:
    if bounds.processes:
        yield processes.format(bounds.processes)
    if bounds.memory_mb:
        yield f"ulimit -d {bounds.memory_mb * 1024}"
    if bounds.file_mb:
        yield f"ulimit -f {bounds.file_mb * 1024 * 1024 // block}"
    if bounds.cpu_seconds:
        yield f"ulimit -t {bounds.cpu_seconds}"
