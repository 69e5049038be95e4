"""Errors of a plan's folder on disk; roots in ``vibe.system.errors``.

EnvironmentFailure                 (vibe.system.errors, exit 3)
└── StoreError                     the plan's folder can't be used
    ├── StoreWriteError            the disk is full, read-only or missing; nothing half-written stays
    ├── BrokenPlanError            a file of the folder can't be read back
    └── PlanLockedError            another process runs the plan
UsageError                         (vibe.system.errors, exit 2)
└── UnknownPlanError               no folder has that id
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path

from vibe.system.errors import EnvironmentFailure, UsageError, os_error_as

RESTORE = "restore the file from a backup or run the plan again"
PERMIT = "permit this user to read it"
OTHER_VERSION = f"use the vibe that wrote it, {RESTORE}"


class StoreError(EnvironmentFailure):
    """The folder of a plan can't be used for what was asked."""


class StoreWriteError(StoreError):
    """A write to the plan's folder failed."""

    def __init__(self, path: Path, cause: OSError, *, instead: str = "") -> None:
        problem = cause.strerror or str(cause)
        super().__init__(f"cannot write {path}: {problem}; free or permit space there{instead}, then try again")


def writing(path: Path, *, instead: str = "") -> AbstractContextManager[None]:
    """Turn an OSError in the block into a ``StoreWriteError`` about a path; ``instead`` is what else helps."""
    return os_error_as(partial(StoreWriteError, path, instead=instead))


class BrokenPlanError(StoreError):
    """A file of a plan's folder can't be read back; ``where`` is the file, with a line number if there is one."""

    def __init__(self, where: str, problem: str, advice: str = RESTORE) -> None:
        super().__init__(f"{where}: {problem}; {advice}")


def reading(path: Path) -> AbstractContextManager[None]:
    """Turn an OSError in the block into a ``BrokenPlanError`` about a path."""
    return os_error_as(partial(_unreadable, path))


def _unreadable(path: Path, cause: OSError) -> BrokenPlanError:
    problem = "is missing" if isinstance(cause, FileNotFoundError) else cause.strerror or "cannot be read"
    return BrokenPlanError(str(path), problem, PERMIT if isinstance(cause, PermissionError) else RESTORE)


class PlanLockedError(StoreError):
    """Another process runs the plan; ``pid`` is None if it is unknown."""

    def __init__(self, plan_id: str, pid: int | None) -> None:
        holder = f"process {pid}" if pid else "another process"
        super().__init__(f"plan {plan_id} is being run by {holder}; stop it first or wait")


class UnknownPlanError(UsageError):
    """No plan has that id; ``any_known`` says whether there are plans at all."""

    def __init__(self, reference: str, folder: Path, *, any_known: bool) -> None:
        super().__init__(
            f"no plan {reference!r} in {folder}: see `vibe plan list`"
            if any_known
            else f"no plan has run yet in {folder.parent}: start one with `vibe plan run FILE`"
        )
