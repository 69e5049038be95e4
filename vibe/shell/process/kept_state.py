"""Keeps the state of a shell from one call to the next: its folder, and the variables it exports.

The shell reports both as it ends, on a descriptor that its children don't get. The report is trusted no more than a
line is: the folder must be in the workspace, and only variables that a command would be given are kept.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from msgspec import Struct, field

from vibe.shell.policy.words import Place
from vibe.shell.port import Roots
from vibe.shell.process.runner import MOST_REPORTED
from vibe.shell.sandbox.secrets import AGENT_SOCKETS

SCRIPT = (
    "trap '__vibe=$?; trap - EXIT; "
    '{ command pwd -P; printf "\\0"; /usr/bin/env -0; } 2>/dev/null >&9; '
    "exit $__vibe' EXIT; "
    '__vibe=$1; shift; eval "$__vibe" 9>&-'
)
"""Evaluates a line without the descriptor, and reports the shell's state at the end, however the line ends."""
SET_BY_SHELL = re.compile(r"_|PWD|OLDPWD|SHLVL|__vibe")
NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
NEVER_KEPT = re.compile(r"(?:LD|DYLD|GIT|BASH)_.*|ENV|IFS|PS4|PROMPT_COMMAND")
"""Variables of the loader, of git and of the shell that change what runs. They are never kept."""
UNHEEDED = re.compile(r"[a-z][a-z0-9]{0,30}")
"""Names that mean nothing to any program, exported or not. Some with an underscore do, such as ``https_proxy``."""
SHOWN_NAMES = 5
"""Maximum number of variables named in the description of a state."""


class ShellState(Struct, frozen=True, kw_only=True):
    """State in which the next line starts.

    ``folder`` is relative to the workspace's root. ``variables`` are those that differ; None means it is not set.
    """

    folder: str = ""
    variables: Mapping[str, str | None] = field(default_factory=dict[str, str | None])

    @property
    def heeded(self) -> tuple[str, ...]:
        """The variables that may affect programs. With any of them, a line may do more than its words say."""
        return tuple(sorted(name for name in self.variables if not UNHEEDED.fullmatch(name)))

    @property
    def place(self) -> Place:
        """The folder in the form the policy uses."""
        return (self.folder,) if self.folder else ()

    def described(self, *, variables: bool = True) -> str:
        """Describe the state next to a line: ``in src, with PATH``. Return "" for a fresh state."""
        names = self.heeded if variables else ()
        shown = [*names[:SHOWN_NAMES], *([f"{len(names) - SHOWN_NAMES} more"] if len(names) > SHOWN_NAMES else [])]
        parts = [f"in {self.folder}" if self.folder else "", f"with {', '.join(shown)}" if shown else ""]
        return ", ".join(filter(None, parts))

    def key(self) -> str:
        """Return the key that lasting approvals given in this state are bound to. It is "" for a fresh state."""
        values = "\0".join(f"{name}={self.variables[name]!r}" for name in self.heeded)
        digest = f"variables {hashlib.blake2b(os.fsencode(values), digest_size=8).hexdigest()}" if values else ""
        return ", ".join(filter(None, (f"in {self.folder}" if self.folder else "", digest)))

    def given(self, environ: Mapping[str, str]) -> dict[str, str]:
        """Return the variables of a line: ``environ`` with the kept ones applied."""
        merged = {**environ, **self.variables}
        return {name: value for name, value in merged.items() if value is not None}


class Surroundings(Struct, frozen=True, kw_only=True):
    """The variables of a line.

    Attributes:
        base: The variables without the kept ones.
        wanted: The variables with the kept ones.
        had: The variables the line was started with.
        passing: Returns those of the given variables that a command may get.
    """

    base: Mapping[str, str]
    wanted: Mapping[str, str]
    had: Mapping[str, str]
    passing: Callable[[Mapping[str, str]], Mapping[str, str]]


def stateful_argv(shell: tuple[str, ...]) -> tuple[str, ...]:
    """Turn ``[shell, "-c", line]`` into a command that also reports the shell's state."""
    program, option, line = shell
    return (program, option, SCRIPT, program, line)


def next_state(
    before: ShellState, report: bytes, around: Surroundings, workspace: Roots
) -> tuple[ShellState, tuple[str, ...]]:
    """Return the state after a line, and notes about it for the model. Reads the file system."""
    folder, *entries = report.split(b"\0")
    if len(entries) < 2 or len(report) > MOST_REPORTED or entries[-1]:
        return before, ("the shell did not tell its folder and variables: they stay as they were before this call",)
    variables, dropped = _variables(before, entries, around)
    notes = [f"not kept for later calls: {', '.join(dropped)}"] if dropped else []
    place, problem = _folder(os.fsdecode(folder).removesuffix("\n"), before, workspace)
    after = ShellState(folder=place, variables=variables)
    if problem:
        notes.append(problem)
    elif place != before.folder:
        notes.append(f"the next call starts in {place or 'the workspace root'}")
    return after, tuple(notes)


def folder_problem(folder: str, workspace: Roots) -> str:
    """Return why no line may begin in a folder, or "". Reads the file system."""
    path = workspace.root / folder
    if os.path.realpath(path) != str(path) or not os.path.isdir(path):
        return f"{folder} is gone"
    if not workspace.contains(path, write=True):
        return f"{folder} is outside the workspace"
    return ""


def _folder(reported: str, before: ShellState, workspace: Roots) -> tuple[str, str]:
    """Return the folder of the next line, and a problem with the reported one, or ""."""
    if reported == str(workspace.root):
        return "", ""
    folder = workspace.relative(Path(reported))
    problem = folder_problem(folder, workspace) if reported.startswith("/") else "the folder it ended in is gone"
    if not problem:
        return folder, ""
    fallback = before.folder if before.folder and not folder_problem(before.folder, workspace) else ""
    return fallback, f"{problem}: the next call starts in {fallback or 'the workspace root'}"


def _variables(
    before: ShellState, entries: list[bytes], around: Surroundings
) -> tuple[dict[str, str | None], list[str]]:
    """Return the variables to keep, and the names of changed ones that are not kept."""
    now = dict(_reported_variables(entries))
    changed: dict[str, str | None] = {name: value for name, value in now.items() if around.had.get(name) != value}
    changed |= {name: None for name in around.had if name not in now}
    dropped = sorted(name for name, value in changed.items() if not _may_be_kept(name, value, around))
    kept = {**before.variables, **{name: value for name, value in changed.items() if name not in dropped}}
    return {name: value for name, value in kept.items() if around.base.get(name) != value}, dropped


def _reported_variables(entries: list[bytes]) -> Iterator[tuple[str, str]]:
    for entry in entries:
        name, equals, value = os.fsdecode(entry).partition("=")
        if equals and not SET_BY_SHELL.fullmatch(name):
            yield name, value


def _may_be_kept(name: str, value: str | None, around: Surroundings) -> bool:
    """Return whether a command would be given the variable. It is not given those the sandbox sets or removes."""
    is_the_sandboxs = name in around.had and around.had[name] != around.wanted.get(name)
    if is_the_sandboxs or not NAME.fullmatch(name) or NEVER_KEPT.fullmatch(name) or name in AGENT_SOCKETS:
        return False
    return around.passing({name: value or ""}).get(name) == (value or "")
