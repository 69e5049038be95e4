"""Nesting: a vibe that an agent of another vibe started knows so, and below two others no agent begins."""

from __future__ import annotations

from collections.abc import Mapping

from vibe.core.errors import UsageError

DEPTH_VARIABLE = "VIBE_DEPTH"
"""Says of a process below how many vibes it was started, whether by the shell, as an MCP server or otherwise."""
DEEPEST = 2


class NestedTooDeepError(UsageError):
    """A vibe was started by a vibe that was started by a vibe: more likely a loop than a wish."""

    def __init__(self) -> None:
        super().__init__(
            "vibe was called by vibe, which was called by vibe: that goes no deeper "
            f"({DEPTH_VARIABLE}={DEEPEST}); do the work yourself"
        )


def depth_of(environ: Mapping[str, str]) -> int:
    """Return how many vibes there are above; what is no number counts as none."""
    said = environ.get(DEPTH_VARIABLE, "")
    return int(said) if said.isascii() and said.isdigit() else 0


def refuse_below_two(environ: Mapping[str, str]) -> None:
    """Let agents begin, unless there are two vibes above.

    Raises:
        NestedTooDeepError: there are.
    """
    if depth_of(environ) >= DEEPEST:
        raise NestedTooDeepError


def one_deeper(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that agents hand on to what they start."""
    return {**environ, DEPTH_VARIABLE: str(depth_of(environ) + 1)}
