"""The words of a plan's folder: the journal's records, the settings of a run and its snapshot."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any, Literal, TypeAlias

import msgspec
from msgspec import Struct
from pydantic import BaseModel, ConfigDict, Field

from planner.instructions import Unfinished
from planner.model import PlanStatus, Slug, StepStatus
from subagents.executor import StepResult
from vibe.core.outcome import Outcome

SETTINGS_VERSION = 1
_EDGE_OPERATIONS = ("add_edge", "remove_edge")


class Approvals(StrEnum):
    """What a run may do without asking."""

    ASK = "ask"
    EDITS = "edits"
    AUTO = "auto"


class RunSettings(BaseModel):
    """How a plan is run, kept so that a resume runs it the same way (``run.json``).

    ``plan_id`` blank: the store chooses one. ``created`` is in unix seconds. ``origin`` says where the plan came from
    (a file, ``-``, a goal). ``executor``: the name of what does the steps. ``allow_dirty``: a
    worktree's base takes the user's uncommitted changes with it. ``network``: confined commands reach everything. ``accept_writes``: a person accepted that steps
    edit the files they name. ``only``: the steps to run (none: all). ``reused_from``:
    the plan whose results were taken over. ``base_commit``: the commit its content keys stand on (None: no repository), see
    ``planner.content_keys``. ``note`` says which steps the run is about, if not all of them. ``sample`` marks a run on a temporary copy of a demonstration; ``script`` is the file the
    scripted backend replays.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    version: Literal[1] = SETTINGS_VERSION
    plan_id: Slug | Literal[""] = ""
    goal: str = ""
    workspace: str
    sample: bool = False
    script: str | None = None
    model: str | None = None
    approvals: Approvals = Approvals.ASK
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
    note: str = ""
    created: float = 0.0
    origin: str = ""


class Snapshot(Struct, frozen=True, kw_only=True):
    """Where a plan stands, to be read fast (``state.json``); the journal is the truth. ``updated``: unix seconds."""

    plan_id: str
    status: PlanStatus
    counts: dict[str, int]
    updated: float
    reason: str | None = None


class BaseRecord(Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="type"):
    """What every line of ``journal.jsonl`` carries: ``at``, in unix seconds."""

    at: float


class ProcessAttached(BaseRecord, frozen=True, kw_only=True, tag="started"):
    """A process took the plan up, to run it or go on with it."""

    pid: int
    version: str = ""


class CommandAttached(BaseRecord, frozen=True, kw_only=True, tag="edited"):
    """A command changed the plan while nobody ran it; what follows, up to the next process, is its doing."""

    pid: int


class PlanMoved(BaseRecord, frozen=True, kw_only=True, tag="plan"):
    """The plan changed status. ``outcome``: what the run came to that ended so."""

    status: PlanStatus
    reason: str | None = None
    outcome: Outcome | None = None


class StepMoved(BaseRecord, frozen=True, kw_only=True, tag="step"):
    """A step changed status; ``attempt`` is the one it is at, 0 before the first."""

    step_id: str
    previous: StepStatus
    status: StepStatus
    reason: str | None = None
    detail: str = ""
    attempt: int = 0


class AttemptEnded(BaseRecord, frozen=True, kw_only=True, tag="attempt"):
    """An attempt came to its end; written, and on disk, before the step's own transition.

    ``retry`` says that another attempt is due, so that the step's status can be told even when the process died
    before the transition was written. ``unfinished`` says how it was left if the step is not final and no other
    attempt is due.
    """

    step_id: str
    attempt: int
    result: StepResult
    retry: bool = False
    unfinished: Unfinished | None = None


class DecisionOpened(BaseRecord, frozen=True, kw_only=True, tag="decision.opened"):
    """A decision was put to whoever can take it."""

    decision_id: str


class DecisionMade(BaseRecord, frozen=True, kw_only=True, tag="decision"):
    """A decision was taken. ``by``: ``user``, ``flag``, ``default``, ``timeout``, or ``reuse``: another plan's answer."""

    decision_id: str
    selections: tuple[str, ...]
    by: str = ""


class StepsReset(BaseRecord, frozen=True, kw_only=True, tag="reset"):
    """A person had finished steps put back to pending, to be done again; attempts count on."""

    step_ids: tuple[str, ...]


class StepReused(BaseRecord, frozen=True, kw_only=True, tag="reused"):
    """Another plan did this very step, by its content key: its result stands for this plan's, which spent nothing on it."""

    step_id: str
    plan_id: str
    result: StepResult


class WorkspaceLeft(BaseRecord, frozen=True, kw_only=True, tag="left"):
    """A process let go of the plan while the workspace's repository stood at this commit."""

    commit: str


class PlanRevised(BaseRecord, frozen=True, kw_only=True, tag="revised"):
    """The plan's steps or edges changed: ``operations`` as ``planner.revision.plain_operations`` writes them.

    ``by`` is ``replan`` if a step's failure led to it, else who asked; ``step_id`` is that step.
    """

    operations: tuple[dict[str, Any], ...]
    reason: str = ""
    by: str = ""
    step_id: str | None = None

    def removed(self) -> frozenset[str]:
        """The steps that went."""
        return self._named("id", "remove_step")

    def changed(self) -> frozenset[str]:
        """The steps that were there before and are no longer what they were, or come after others."""
        return self._named("id", "update_step") | self._named("step", *_EDGE_OPERATIONS)

    def _named(self, name: str, *kinds: str) -> frozenset[str]:
        """The steps these operations name; what is no operation is for ``planner.effective`` to refuse."""
        named = (operation.get(name) for operation in self.operations if operation.get("op") in kinds)
        return frozenset(step_id for step_id in named if isinstance(step_id, str))


JournalRecord: TypeAlias = (
    ProcessAttached
    | CommandAttached
    | PlanMoved
    | StepMoved
    | AttemptEnded
    | DecisionOpened
    | DecisionMade
    | StepsReset
    | PlanRevised
    | StepReused
    | WorkspaceLeft
)

_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(JournalRecord)


def encode_record(record: JournalRecord) -> bytes:
    """One line of the journal, with its newline.

    Raises:
        TypeError, ValueError, OverflowError, RecursionError: a step's output is no JSON value.
    """
    return _encoder.encode(record) + b"\n"


def decode_record(line: bytes) -> JournalRecord:
    """The record of one line.

    Raises:
        msgspec.ValidationError: JSON, but no record of ours.
        msgspec.DecodeError: not JSON.
    """
    return _decoder.decode(line)
