"""The settings of a plan's run and its snapshot, as they are kept in its folder."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Literal

from msgspec import Struct
from pydantic import BaseModel, ConfigDict, Field

from planner.plan.model import PlanStatus, Slug

SETTINGS_VERSION = 1


class ApprovalSetting(StrEnum):
    """Rights of a run to act without asking."""

    ASK = "ask"
    EDITS = "edits"
    AUTO = "auto"


class RunSettings(BaseModel):
    """Settings of a plan's run, kept so that a resume runs it the same way (``run.json``).

    ``plan_id`` blank: the store chooses one. ``created`` is in unix seconds. ``origin`` says where the plan came from
    (a file, ``-``, a goal). ``executor``: the name of what does the steps. ``allow_dirty``: a
    worktree's base takes the user's uncommitted changes with it. ``network``: confined commands reach everything.
    ``accept_writes``: a person accepted that steps edit the files they name. ``only``: the steps to run (none: all).
    ``reused_from``: the plan whose results were taken over. ``base_commit``: the commit its content keys stand on
    (None: no repository), see ``planner.reuse.cache_keys``. ``variables``: a digest of each that a command names (None:
    not known). ``note`` says which steps the run is about, if not all of them. ``sample`` marks a run on a temporary
    copy of a demonstration; ``script`` is the file the scripted backend replays.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    version: Literal[1] = SETTINGS_VERSION
    plan_id: Slug | Literal[""] = ""
    goal: str = ""
    workspace: str
    sample: bool = False
    script: str | None = None
    model: str | None = None
    approvals: ApprovalSetting = ApprovalSetting.ASK
    max_parallel: Annotated[int, Field(ge=1)] = 4
    decisions: dict[Slug, tuple[Slug, ...]] = {}
    fail_fast: bool = False
    executor: str = "local"
    allow_dirty: bool = False
    network: bool = False
    accept_writes: bool = False
    only: tuple[Slug, ...] = ()
    reused_from: str | None = None
    base_commit: str | None = None
    variables: dict[str, str] | None = None
    note: str = ""
    created: float = 0.0
    origin: str = ""


class PlanSnapshot(Struct, frozen=True, kw_only=True):
    """Snapshot of a plan's status, to be read fast (``state.json``); the journal is the truth.

    ``updated``: unix seconds.
    """

    plan_id: str
    status: PlanStatus
    counts: dict[str, int]
    updated: float
    reason: str | None = None
