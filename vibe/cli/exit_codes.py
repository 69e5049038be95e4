"""The exit codes of the process."""

from __future__ import annotations

from enum import IntEnum


class ExitCode(IntEnum):
    """The meaning of each exit code; published in docs/reference/cli.md."""

    DONE = 0
    FAILED = 1
    """The work failed: a step, the model or a tool."""
    USAGE = 2
    """The command line, a plan or the configuration is wrong."""
    ENVIRONMENT = 3
    """The environment can't serve: bus, lock, key or disk."""
    LIMIT = 4
    """A limit on turns, tokens, price or time was reached, or the provider's quota or credit ran out."""
    BLOCKED = 5
    """A decision or an approval was needed, and nobody was there to give it."""
    HUNG_UP = 129
    INTERRUPTED = 130
    TERMINATED = 143
