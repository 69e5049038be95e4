"""Bounds on a confined program: set by the bash that runs a line, else by a shell that becomes the program."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from vibe.shell.sandbox.port import ResourceLimits

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
