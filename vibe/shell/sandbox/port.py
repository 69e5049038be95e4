"""Sandbox, the port: a command and its variables in, the same command confined to a policy out."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from msgspec import Struct, field

from vibe.shell.sandbox.settings import Network
from vibe.system.errors import EnvironmentFailure


class ResourceLimits(Struct, frozen=True, kw_only=True):
    """The most a program may use; 0: as much as it wants.

    ``processes`` are all it starts together, threads included; the others are of each process.
    """

    processes: int = 0
    memory_mb: int = 0
    file_mb: int = 0
    cpu_seconds: int = 0


READING = ResourceLimits(processes=256, memory_mb=2_048, file_mb=64, cpu_seconds=60)
"""Of what only reads."""


class SandboxPolicy(Struct, frozen=True, kw_only=True):
    """The rights of a confined program: to read all but ``hidden``, to write below ``writable`` and ``temp``.

    ``readable`` are files and folders it sees although something ``hidden`` holds them; ``frozen`` what it may not
    write although it is ``writable``. ``shown`` it sees although it lies in a folder that others share, such as /tmp,
    where it has one of its own. All paths are resolved. ``temp`` is its TMPDIR and holds its caches. ``box`` is a
    folder of ours for what makes the sandbox; it never sees that. ``records`` is where it is noted what has to be put
    back if we are killed. ``unix_sockets``: it may open some.

    ``read_only``: it sees the system's programs and ``readable`` without ``hidden``, nothing else, and writes nothing
    but temporary files in memory, which go with it.
    """

    writable: tuple[Path, ...]
    temp: Path
    box: Path
    hidden: tuple[Path, ...] = ()
    readable: tuple[Path, ...] = ()
    frozen: tuple[Path, ...] = ()
    cleaned: Mapping[Path, str] = field(default_factory=dict[Path, str])
    """Files that hold credentials, and those without them that it sees instead."""
    shown: tuple[Path, ...] = ()
    records: Path | None = None
    network: Network = Network.LOOPBACK
    unix_sockets: bool = False
    read_only: bool = False
    bounds: ResourceLimits = ResourceLimits()


class Confined(Struct, frozen=True, kw_only=True):
    """The command to start instead, and the variables to start it with.

    ``options`` are what its sandbox is told, where that is not in the command.
    """

    argv: tuple[str, ...]
    environ: Mapping[str, str]
    options: tuple[str, ...] = ()


class Sandbox(Struct, frozen=True, kw_only=True):
    """A way to confine programs. ``name`` and ``limits`` are for people: what it is, and what it can't do.

    ``has_namespaces``: it can keep a program from everything but reading, and what is ``frozen`` can't be written while
    the command runs; else it has to be restored. ``wrap`` returns a command confined to a policy, to be started in the
    same folder with the variables it returns, and reads the file system.
    """

    name: str
    limits: str
    has_namespaces: bool
    wrap: Callable[[Sequence[str], Mapping[str, str], SandboxPolicy], Confined]


class ReadOnlyUnavailableError(EnvironmentFailure):
    """A command can't be kept to reading here."""

    def __init__(self, problem: str) -> None:
        super().__init__(f"the command can't be confined to reading: {problem}; run it with the user's approval")


class SandboxUnprovenError(EnvironmentFailure):
    """Something that passes kept us from finding out which sandbox works; the next command tries again."""

    def __init__(self, problem: str) -> None:
        super().__init__(f"whether a sandbox works here could not be found out ({problem}): try again")


BASH = frozenset({"/usr/bin/bash", "/bin/bash"})
"""Those of the system: one that is found elsewhere may be anything, and then sets no bounds."""
STARTUP = ("BASH_", "BASHOPTS", "SHELLOPTS", "POSIXLY_CORRECT")
"""Variables beginning so make bash run something, or behave otherwise, before it comes to its line."""
POSIX_BLOCK, BASH_BLOCK = 512, 1024
"""The units in which shells count the length of files."""


def bounded(argv: Sequence[str], environ: Mapping[str, str], bounds: ResourceLimits) -> tuple[str, ...]:
    """Return the command with its bounds; a bound that is lower already stays.

    A line of bash gets them put before it, where it begins: numbers of lines stay as they are, and no other
    shell has to start.
    """
    if (
        argv[0] in BASH
        and tuple(argv[1:2]) == ("-c",)
        and len(argv) > 2
        and not any(name.startswith(STARTUP) for name in environ)
    ):
        settings = [*_settings(bounds, "ulimit -u {0}", BASH_BLOCK)]
        return (*argv[:2], f"{_grouped(settings)}{argv[2]}", *argv[3:]) if settings else tuple(argv)
    settings = [*_settings(bounds, "ulimit -u {0} || ulimit -p {0}", POSIX_BLOCK)]  # dash calls it -p, others -u
    return ("/bin/sh", "-c", f'{_grouped(settings)}exec "$@"', "sh", *argv) if settings else tuple(argv)


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
