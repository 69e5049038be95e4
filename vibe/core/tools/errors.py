"""Errors of tools and their manager.

VibeError
├── ToolError                  the message goes to the model as the call's result
│   ├── ToolArgumentsError     arguments that don't fit the schema
│   ├── NoSuchToolError        no tool of that name is offered
│   ├── ReadOnlyRefusedError   a call that was let run where it can only read needs more
│   ├── CommandTimeoutError    a command that took too long
│   ├── CommandLostError       a command of which nobody knows how it ended
│   └── PathError              a path that leads nowhere, or is closed
│       ├── PathOutsideError   a path that leads out of the workspace
│       └── PathNotClaimedError  a path the agent did not say it would write
└── UsageError
    └── ToolConfigError        a ``[tools.*]`` table is wrong
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Self

from ipc.events import Display
from vibe.shell.errors import CommandStartError
from vibe.system.errors import UsageError, VibeError
from vibe.system.plain_text import closest, did_you_mean


class ToolError(VibeError):
    """A tool could not do what it was asked; the message is what the model reads."""

    display: Display | None = None
    """What there is to see of it, beside the message."""

    def showing(self, display: Display) -> Self:
        """Return the error, with what there is to see of it."""
        self.display = display
        return self


class ToolArgumentsError(ToolError):
    """The arguments don't fit. ``problems`` are sentences that open with the schema path (``arguments.path: ...``)."""

    def __init__(self, tool: str, problems: Sequence[str]) -> None:
        super().__init__(f"{tool}: " + "; ".join(problems))
        self.tool = tool
        self.problems = tuple(problems)


class NoSuchToolError(ToolError):
    """Nothing of that name; ``closest`` are names that look like it."""

    def __init__(self, name: str, known: Sequence[str]) -> None:
        self.name = name
        self.closest = tuple(closest(name, known, most=3, cutoff=0.5))
        hint = did_you_mean(self.closest, f"available: {', '.join(known)}")
        super().__init__(f"unknown tool {name!r}; {hint if known else 'no tools are offered'}")


class ReadOnlyRefusedError(ToolError):
    """A call in a read-only sandbox needs more: ``lacking`` says what, ``printed`` is its output so far."""

    def __init__(self, lacking: str, printed: str = "") -> None:
        super().__init__(f"in a read-only sandbox {lacking}\n{printed}".rstrip())
        self.lacking = lacking
        self.printed = printed


class CommandTimeoutError(ToolError):
    """A command that took too long; the message ends with what it had printed."""

    def __init__(self, seconds: float, printed: str) -> None:
        said = f"the command was stopped after {seconds:g} s; give a larger timeout, or make it do less"
        super().__init__(f"{said}\n{printed}".rstrip())
        self.seconds = seconds


class CommandLostError(ToolError):
    """A command of which nobody knows how it ended; the message ends with what it had printed."""

    def __init__(self, problem: str, printed: str) -> None:
        said = f"it is unknown how the command ended: {problem}; check what it has done before you run it again"
        super().__init__(f"{said}\n{printed}".rstrip())
        self.problem = problem


class PathError(ToolError):
    """A path that can't be used."""

    def __init__(self, path: str, problem: str) -> None:
        super().__init__(f"{path!r} {problem}; give another path")
        self.path = path
        self.problem = problem


class PathOutsideError(PathError):
    """A path outside the workspace."""

    def __init__(self, path: str, root: Path) -> None:
        super().__init__(path, f"leads outside the workspace {str(root)!r}")
        self.root = root


class PathNotClaimedError(PathError):
    """A path outside what the agent said it would write."""

    def __init__(self, path: str, writes: Sequence[str]) -> None:
        super().__init__(path, f"is not among the paths this step may write ({', '.join(writes) or 'none'})")
        self.writes = tuple(writes)


HELD = "belongs to the checks of this step, which must not change it"
CONFIGURES_CHECKS = "configures the checks of this step; only a step whose `writes` names it may write it"
SEALED = "holds your keys and is closed to every tool"
"""Why a path is closed: a file the agent's work is checked with, a config file of these checks, the user's keys."""


class ToolConfigError(UsageError):
    """A tool's settings don't fit it."""

    def __init__(self, tool: str, problems: Sequence[str]) -> None:
        super().__init__(f"[tools.{tool}]: {'; '.join(problems)}")
        self.tool = tool
        self.problems = tuple(problems)


TOLD = (ToolError, CommandStartError)
"""Errors that the model reads as the result of its call."""
