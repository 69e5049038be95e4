"""Bounds on what a confined program uses, set by a shell that then becomes the program."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from vibe.core.sandbox.port import ResourceLimits

BLOCK_BYTES = 512
"""What a POSIX shell counts the length of files in."""


def bounded(argv: Sequence[str], bounds: ResourceLimits) -> tuple[str, ...]:
    """The command with its bounds; a bound that is lower already stays."""
    settings = [*_settings(bounds)]
    if not settings:
        return tuple(argv)
    return ("/bin/sh", "-c", f'{{ {"; ".join(settings)}; }} 2>/dev/null; exec "$@"', "sh", *argv)


def _settings(bounds: ResourceLimits) -> Iterator[str]:
    if bounds.processes:  # dash calls it -p, others -u
        yield f"ulimit -u {bounds.processes} || ulimit -p {bounds.processes}"
    if bounds.memory_mb:
        yield f"ulimit -d {bounds.memory_mb * 1024}"
    if bounds.file_mb:
        yield f"ulimit -f {bounds.file_mb * 1024 * 1024 // BLOCK_BYTES}"
    if bounds.cpu_seconds:
        yield f"ulimit -t {bounds.cpu_seconds}"
