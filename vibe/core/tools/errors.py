"""Errors of tools.

VibeError
└── ToolError                  its message goes to the model as the call's result
    ├── ToolArgumentsError     the arguments don't fit the schema
    ├── NoSuchToolError        no tool of that name is offered
    ├── ReadOnlyRefusedError   a call was allowed to run read-only, but needs more
    └── PathError              a path leads nowhere or is closed, or the file there can't be used
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

from ipc.events import Display
from vibe.system.errors import VibeError, closest, did_you_mean


class ToolError(VibeError):
    """A tool could not do what it was asked to do. The model reads the message."""

    display: Display | None = None
    """The part of the failed call that a screen can show beside the message."""

    def showing(self, display: Display) -> Self:
        """Attach a display to the error and return it."""
        self.display = display
        return self


class ToolArgumentsError(ToolError):
    """The arguments don't fit. Each problem opens with its schema path (``arguments.path: ...``)."""

    def __init__(self, tool: str, problems: Sequence[str]) -> None:
        super().__init__(f"{tool}: " + "; ".join(problems))


class NoSuchToolError(ToolError):
    """No tool of that name is offered."""

    def __init__(self, name: str, known: Sequence[str]) -> None:
        hint = did_you_mean(closest(name, known, most=3, cutoff=0.5), f"available: {', '.join(known)}")
        super().__init__(f"unknown tool {name!r}; {hint if known else 'no tools are offered'}")


class ReadOnlyRefusedError(ToolError):
    """A call in a read-only sandbox needs more. ``lacking`` says what, and ``printed`` is its output so far."""

    def __init__(self, lacking: str, printed: str = "") -> None:
        super().__init__(f"in a read-only sandbox {lacking}\n{printed}".rstrip())
        self.lacking = lacking
        self.printed = printed


class PathError(ToolError):
    """A path, or the file there, can't be used. The message says why and what to do about it."""

    def __init__(self, path: str, problem: str, advice: str = "give another path") -> None:
        super().__init__(f"{path!r} {problem}" + (f"; {advice}" if advice else ""))


HELD = "belongs to the checks of this step, which must not change it"
"""The problem of a path that is one of a step's checks."""
CONFIGURES_CHECKS = "configures the checks of this step; only a step whose `writes` names it may write it"
"""The problem of a path that configures a step's checks."""
SEALED = "holds your keys and is closed to every tool"
"""The problem of a path that holds the user's keys."""
