"""Passes open files to a program by their descriptors, in an argv that any starter of programs can run."""

from __future__ import annotations

from collections.abc import Sequence

FIRST, SECOND = 7, 8
"""The descriptors for the files. Shells can name them, and they differ from the one on which commands report."""
PREFIX = ("/bin/sh", "-c", f'exec {FIRST}<"$1" {SECOND}<"$2"; shift 2; exec "$@"', "sh")


def with_files(argv: Sequence[str], first: str, second: str) -> tuple[str, ...]:
    """Return an argv that opens two files for reading and runs ``argv``."""
    return (*PREFIX, first, second, *argv)


def without_shell(argv: Sequence[str]) -> tuple[list[str], dict[int, str]]:
    """Return the program's own argv and the file for each descriptor, for callers that can open files themselves."""
    if tuple(argv[: len(PREFIX)]) != PREFIX:
        return [*argv], {}
    first, second, *program = argv[len(PREFIX) :]
    return program, {FIRST: first, SECOND: second}
