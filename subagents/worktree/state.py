"""The record of a step's worktree, kept beside its conversation so that a killed process can be followed."""

from __future__ import annotations

import json
from enum import StrEnum
from pathlib import Path

import msgspec
from msgspec import Struct

from subagents.step_result import StepResult
from subagents.worktree.errors import WorktreeError
from subagents.worktree.merge import MergeConflict, MergePlan
from subagents.worktree.repository import Base
from vibe.core.system.files import replace_file

RECORD_FILE = "worktree.json"


class Phase(StrEnum):
    """The phase an attempt has reached."""

    CREATING = "creating"
    WORKING = "working"
    FINISHED = "finished"
    """The work is done and committed on its branch; ``result`` and ``work`` tell."""
    RESOLVING = "resolving"
    """A subagent resolves ``conflict``."""
    MERGING = "merging"
    """``plan`` is being carried out in the user's files."""
    MERGED = "merged"
    DROPPED = "dropped"
    """It ended without a merge; what there was is on the branch."""


class WorktreeRecord(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One attempt's worktree. ``rounds`` counts the conflicts so far, ``left_out`` are paths that were not committed.

    ``set_up``: the user's commands ran in it.
    """

    attempt: int
    branch: str
    folder: str
    base: Base
    phase: Phase
    work: str | None = None
    result: StepResult | None = None
    conflict: MergeConflict | None = None
    rounds: int = 0
    plan: MergePlan | None = None
    left_out: tuple[str, ...] = ()
    set_up: bool = False


def read_record(step_folder: Path) -> WorktreeRecord | None:
    """The record of a step's latest worktree; None if it never had one.

    Raises:
        WorktreeError: it can't be read back.
    """
    path = step_folder / RECORD_FILE
    try:
        return msgspec.convert(json.loads(path.read_bytes()), WorktreeRecord)
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise WorktreeError(f"{str(path)!r} can't be read: {error}; its branch still holds the step's work") from error


def write_record(step_folder: Path, record: WorktreeRecord, *, sync: bool = True) -> WorktreeRecord:
    """Replace the record, on disk when this returns if ``sync``.

    Raises:
        WorktreeError: the disk is full or refuses.
    """
    path = step_folder / RECORD_FILE
    try:
        # Names of files need not be text: only this module writes what no encoding knows in a form it reads back.
        replace_file(path, json.dumps(msgspec.to_builtins(record)).encode(), sync=sync)
    except OSError as error:
        raise WorktreeError(f"{str(path)!r} can't be written: {error.strerror}") from error
    return record
