"""Preparation of every worktree before a step begins: the user's shared folders, and commands that were run."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from msgspec import structs

from subagents.executor import StepTask
from subagents.worktree.errors import WorktreeError


@dataclass(frozen=True, slots=True, kw_only=True)
class WorktreeSetup:
    """``commands`` are run in each worktree as it is made, before its step."""

    commands: tuple[str, ...] = ()

    def tasks(self, task: StepTask) -> list[tuple[str, StepTask]]:
        """The commands, each with the task that runs it in place of the step's own work."""
        own = task.with_step(title=f"Set up: {task.step.title}", verify=[], output_schema=None)
        plain = structs.replace(own, inputs=())
        return [
            (command, structs.replace(plain.with_step(command=command), conversation=f"setup{number}"))
            for number, command in enumerate(self.commands, start=1)
        ]


def link_shared(share: Sequence[str], workspace: Path, workdir: Path) -> None:
    """Link what there is of the shared paths into a worktree, but for what git checked out there.

    Raises:
        WorktreeError: a link can't be made.
    """
    top = Path(os.path.realpath(workdir))
    for name in share:
        source, target = workspace / name, workdir / name
        inside = Path(os.path.realpath(target.parent)).is_relative_to(top)
        if not inside or not source.exists() or os.path.lexists(target):
            continue
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            target.symlink_to(source)
        except OSError as error:
            raise WorktreeError(f"{str(target)!r} can't be linked to {str(source)!r}: {error.strerror}") from error


def shared_links(share: Sequence[str], workspace: Path, workdir: Path) -> list[Path]:
    """Return the links that are still there: they are no part of the work."""
    return [workdir / name for name in share if _leads_to(workdir / name, workspace / name)]


def _leads_to(link: Path, source: Path) -> bool:
    try:
        return link.readlink() == source
    except OSError:
        return False
