"""Exit codes of the process."""

from __future__ import annotations

from enum import IntEnum


class ExitCode(IntEnum):
    """The meaning of each exit code; published in docs/reference/cli.md."""

    DONE = 0
    FAILED = 1
    """The work failed: a step, the model, a tool."""
    USAGE = 2
    """Bad usage, bad plan, bad configuration."""
    ENVIRONMENT = 3
    """The environment can't serve: bus, lock, key, disk."""
    LIMIT = 4
    """Turns, tokens, price, time, or the provider's quota or credit."""
    BLOCKED = 5
    """A decision or an approval was needed, and there was no one to give it."""
    HUNG_UP = 129
    INTERRUPTED = 130
    TERMINATED = 143
