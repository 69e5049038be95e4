"""A program that reads files by their descriptors, as words that any starter of programs understands."""

from __future__ import annotations

from collections.abc import Sequence

FIRST, SECOND = 7, 8
"""The descriptors: shells can name them, and they are not the one by which commands report."""
PREFIX = ("/bin/sh", "-c", f'exec {FIRST}<"$1" {SECOND}<"$2"; shift 2; exec "$@"', "sh")


def with_files(argv: Sequence[str], first: str, second: str) -> tuple[str, ...]:
    """Return the words that start ``argv`` with two files open for reading."""
    return (*PREFIX, first, second, *argv)


def without_shell(argv: Sequence[str]) -> tuple[list[str], dict[int, str]]:
    """Return the program itself and the file of each descriptor, for who can open files without a shell."""
    if tuple(argv[: len(PREFIX)]) != PREFIX:
        return [*argv], {}
    first, second, *program = argv[len(PREFIX) :]
    return program, {FIRST: first, SECOND: second}
