"""Errors of tools.

VibeError
└── ToolError                  the message goes to the model as the call's result
    ├── ToolArgumentsError     arguments that don't fit the schema
    ├── NoSuchToolError        no tool of that name is offered
    ├── ReadOnlyRefusedError   a call that was let run where it can only read needs more
    └── PathError              a path that leads nowhere, or is closed
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

from ipc.events import Display
from vibe.shell.errors import CommandStartError
from vibe.system.errors import VibeError, closest, did_you_mean


class ToolError(VibeError):
    """A tool could not do what it was asked; the message is what the model reads."""

    display: Display | None = None
    """What there is to see of it, beside the message."""

    def showing(self, display: Display) -> Self:
        """Return the error, with what there is to see of it."""
        self.display = display
        return self


class ToolArgumentsError(ToolError):
    """The arguments don't fit. Each problem is a sentence that opens with the schema path (``arguments.path: ...``)."""

    def __init__(self, tool: str, problems: Sequence[str]) -> None:
        super().__init__(f"{tool}: " + "; ".join(problems))


class NoSuchToolError(ToolError):
    """Nothing of that name."""

    def __init__(self, name: str, known: Sequence[str]) -> None:
        hint = did_you_mean(closest(name, known, most=3, cutoff=0.5), f"available: {', '.join(known)}")
        super().__init__(f"unknown tool {name!r}; {hint if known else 'no tools are offered'}")


class ReadOnlyRefusedError(ToolError):
    """A call in a read-only sandbox needs more: ``lacking`` says what, ``printed`` is its output so far."""

    def __init__(self, lacking: str, printed: str = "") -> None:
        super().__init__(f"in a read-only sandbox {lacking}\n{printed}".rstrip())
        self.lacking = lacking
        self.printed = printed


class PathError(ToolError):
    """A path that can't be used."""

    def __init__(self, path: str, problem: str) -> None:
        super().__init__(f"{path!r} {problem}; give another path")


HELD = "belongs to the checks of this step, which must not change it"
CONFIGURES_CHECKS = "configures the checks of this step; only a step whose `writes` names it may write it"
SEALED = "holds your keys and is closed to every tool"
"""Why a path is closed: a file the agent's work is checked with, a config file of these checks, the user's keys."""


TOLD = (ToolError, CommandStartError)
"""Errors that the model reads as the result of its call."""
