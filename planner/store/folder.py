"""Reads the folders of plans without a lock: finds one, lists all, and reads back what they hold."""

from __future__ import annotations

import os
import re
import secrets
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from enum import StrEnum
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from msgspec import Struct, field, json, structs
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ipc.errors import INVALID_JSON
from ipc.events import PlanEditedEvent
from planner.plan.model import Slug, Step, own_ids
from planner.plan.status import PlanStatus
from planner.state.evolve import FactInvalidError, evolve, fold
from planner.state.state import State
from planner.store.errors import OTHER_VERSION, BrokenPlanError, PlanLockedError, UnknownPlanError, reading, writing
from planner.store.journal import JournalContent, read_file, read_journal
from subagents.executor import StepExecutor
from vibe.system.errors import UsageError
from vibe.system.files import FileLock, holder_of, is_alive, is_open

if TYPE_CHECKING:
    from vibe.core.hooks.runner import Hook
    from vibe.core.tools.base import ToolClass

SETTINGS_VERSION = 1
PROGRAM = "program"
"""The executor of a plan whose steps are all done by a program of the user's."""


class ApprovalSetting(StrEnum):
    """The rights of a run to act without asking."""

    ASK = "ask"
    EDITS = "edits"
    AUTO = "auto"


class RunSettings(BaseModel):
    """Settings of a plan's run, kept in ``run.json`` so that a resume runs it the same way."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    version: Literal[1] = SETTINGS_VERSION
    plan_id: Slug | Literal[""] = ""
    """The plan's id; if it is blank, the store chooses one."""
    goal: str = ""
    workspace: Annotated[str, Field(pattern=r"^[^\x00]*$")]
    sample: bool = False
    """The run works on a temporary copy of a demonstration."""
    script: str | None = None
    """The file that the scripted backend replays."""
    model: str | None = None
    approvals: ApprovalSetting = ApprovalSetting.ASK
    max_parallel: Annotated[int, Field(ge=1)] = 4
    decisions: dict[Slug, tuple[Slug, ...]] = {}
    fail_fast: bool = False
    executor: str = "local"
    """The name of the executor that does the steps; ``program`` if a program of the user's brings it."""
    cluster: str = ""
    """The address of the cluster whose workers do the steps; blank for none."""
    functions: tuple[Slug, ...] = ()
    """The steps that a program does, whatever the executor."""
    allow_dirty: bool = False
    """The base of a worktree includes the user's uncommitted changes."""
    network: bool = False
    """Confined commands may reach the whole network."""
    accept_writes: bool = False
    """A person accepted that steps edit the files they name."""
    only: tuple[Slug, ...] = ()
    """The steps to run; empty for all."""
    reused_from: str | None = None
    """The plan whose results were taken over."""
    base_commit: str | None = None
    """The commit that the content keys are based on, or None without a repository; see ``planner.reuse.reuse``."""
    variables: dict[str, str] | None = None
    """A digest of each environment variable that a command names; None if unknown."""
    inputs: dict[str, Any] = {}
    """The values with which the plan was begun."""
    note: str = ""
    """A sentence about the steps that the run covers, if not all."""
    created: float = 0.0
    """Unix seconds."""
    origin: str = ""
    """The source of the plan: a file, ``-`` or a goal."""
    session: str = ""
    """The conversation in which the plan was begun; blank for none."""
    messages: int | None = None
    """The number of messages in that conversation at the time; None if unknown."""
    given: tuple[str, ...] = ()
    """The settings that the command which began the plan gave; a resume lacks them unless they are given again."""

    def existing_workspace(self) -> Path:
        """Return the workspace.

        Raises:
            UsageError: it is gone, or closed to this user.
        """
        path = Path(self.workspace)
        if not os.path.isdir(path) or not is_open(path, os.X_OK):
            problem = "does not exist or can't be entered: restore it first"
            raise UsageError(f"the workspace of plan {self.plan_id}, {str(path)!r}, {problem}")
        return path

    def by_program(self, step: Step) -> bool:
        """Return whether a program of the user's does the step, so that neither vibe nor another program can."""
        return self.executor == PROGRAM or not own_ids(step).isdisjoint(self.functions)

    def with_program(self, program: ProgramPart | None) -> RunSettings:
        """Return the settings with the steps that a program does added."""
        if program is None:
            return self
        functions = tuple(dict.fromkeys((*self.functions, *program.functions)))
        return self.model_copy(
            update={"functions": functions, "executor": PROGRAM if program.does_all else self.executor}
        )


class ProgramPart(Struct, frozen=True, kw_only=True):
    """The part of a plan that the program running it does itself: steps by id in ``functions``, or all of them.

    ``executor`` returns the executor for the plan's steps, given the one used without the program, and the folder.
    """

    executor: Callable[[StepExecutor, Path], StepExecutor]
    functions: tuple[str, ...] = ()
    does_all: bool = False


class PlanRunOptions(Struct, frozen=True, kw_only=True):
    """The user's choices for this run. None stands for the plan's or the configuration's own."""

    workdir: Path
    plan_folder: Path
    """The folder of the plan file; a sample's files are beside it."""
    approvals: ApprovalSetting = ApprovalSetting.ASK
    max_parallel: int | None = None
    decisions: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    model: str | None = None
    fail_fast: bool = False
    trust: bool = False
    bus_address: str | None = None
    executor: str | None = None
    cluster: str | None = None
    only: tuple[str, ...] = ()
    """The steps to run; empty for all."""
    reuse: str | None = None
    """The plan whose results are taken over."""
    allow_dirty: bool = False
    """Worktrees may start from uncommitted changes."""
    accepted: bool = False
    """A person has read the commands of a plan that a model wrote."""
    network: bool = False
    """Confined commands may reach the whole network."""
    plan_id: str = ""
    """The id of a new plan; if it is blank, one is chosen."""
    session: str = ""
    """The conversation in which the plan is begun."""
    messages: int | None = None
    """The number of messages in that conversation."""
    inputs: Mapping[str, object] = field(default_factory=dict[str, object])
    """The values for the plan's inputs, by name."""
    slowed: float = 1.0
    """The factor by which the delays in a demonstration's script are stretched."""
    program: ProgramPart | None = None
    """The part of the plan that the calling program does itself."""
    tools: tuple[ToolClass, ...] = ()
    """Tools of that program, for all agents."""
    hooks: tuple[Hook, ...] = ()
    """Hooks of that program, for all agents."""
    asked: bool = False
    """The program is asked for approvals, whatever the settings say."""


class PlanSnapshot(Struct, frozen=True, kw_only=True):
    """A snapshot of a plan's status in ``state.json``, quick to read; the journal is authoritative.

    ``updated`` is in unix seconds.
    """

    plan_id: str
    status: PlanStatus
    counts: dict[str, int]
    updated: float
    reason: str | None = None


SOURCE_FILE = "plan.json"
SETTINGS_FILE = "run.json"
JOURNAL_FILE = "journal.jsonl"
SNAPSHOT_FILE = "state.json"
LOCK_FILE = "lock"
STEPS_FOLDER = "steps"
RESULT_FILE = "result.json"
ITEM_FILE = "item.txt"
"""The file with the item of a step, if the item is long."""
LATEST = "latest"
"""Stands for the id of the plan that was begun last."""

_STEP_ID = re.compile(r"[a-z0-9_:-]{1,99}")

_snapshot_decoder = json.Decoder(PlanSnapshot)


def items_file(digest: str) -> str:
    """Return the name of the file that holds a list, in its step's folder."""
    return f"items-{digest[:16]}.json"


def plans_folder(home: Path) -> Path:
    """Return the folder that holds the plans of a home."""
    return home / "plans"


def new_plan_id(now: float) -> str:
    """Return an id for a plan created at ``now`` (unix seconds): ``<6 hex>-<yyyymmdd>``; its first characters suffice.

    It may be taken by chance; whoever makes the folder then tries another.
    """
    return f"{secrets.token_hex(3)}-{time.strftime('%Y%m%d', time.gmtime(now))}"


class PlanSummary(Struct, frozen=True, kw_only=True):
    """A line of ``vibe plan list``. Times are in unix seconds; ``holder`` is the pid of the process that runs it.

    If the folder can't be read, ``problem`` says why, and the other fields hold what could be read.
    """

    plan_id: str
    goal: str = ""
    workspace: str = ""
    status: PlanStatus | None = None
    reason: str | None = None
    counts: Mapping[str, int]
    created: float = 0.0
    updated: float = 0.0
    holder: int | None = None
    problem: str | None = None

    @property
    def is_interrupted(self) -> bool:
        """True if its process died before it ended the plan."""
        return self.status is PlanStatus.ACTIVE and self.holder is None

    @property
    def can_go_on(self) -> bool:
        """True if it has not ended and no process works on it."""
        return self.is_interrupted or (self.status is PlanStatus.PAUSED and self.holder is None)

    @property
    def progress(self) -> tuple[int, int]:
        """The number of its completed steps, and of all steps."""
        return self.counts.get("completed", 0), sum(self.counts.values())


class PlanFolder(Struct, frozen=True):
    """One plan's folder. While another process runs the plan, everything read here may be a moment old."""

    path: Path

    @property
    def plan_id(self) -> str:
        """The plan's id: the folder's name."""
        return self.path.name

    def source(self) -> bytes:
        """Return the plan document, byte for byte as it was given.

        Raises:
            BrokenPlanError: it can't be read.
        """
        return read_file(self.path / SOURCE_FILE)

    def settings(self) -> RunSettings:
        """Return the settings of the plan's run.

        Raises:
            BrokenPlanError: ``run.json`` is missing, or is not a file that this version writes.
        """
        path = self.path / SETTINGS_FILE
        try:
            return RunSettings.model_validate_json(read_file(path))
        except ValidationError as error:
            problems = error.errors(include_url=False, include_context=False, include_input=False)
            if any(problem["loc"] == ("version",) for problem in problems):
                raise BrokenPlanError(str(path), "has a version this vibe can't read", OTHER_VERSION) from error
            first = problems[0]
            where = ".".join(str(part) for part in first["loc"])
            raise BrokenPlanError(str(path), f"{where}: {first['msg']}" if where else first["msg"]) from error

    def journal(self) -> JournalContent:
        """Read the plan's journal, leaving the file unchanged.

        Raises:
            BrokenPlanError: the journal can't be read or is broken before its end.
        """
        return read_journal(self.path / JOURNAL_FILE)

    def state(self, content: JournalContent | None = None) -> State:
        """Return the plan's state after the last sound fact in its journal; ``content`` saves reading that again.

        Raises:
            BrokenPlanError: as for ``journal``, or a fact is unknown to this version.
        """
        try:
            return fold((content or self.journal()).facts, self.plan_id)
        except FactInvalidError as error:
            raise BrokenPlanError(str(self.path / JOURNAL_FILE), str(error), OTHER_VERSION) from error

    def snapshot(self) -> PlanSnapshot | None:
        """Return the latest snapshot, or None if it is missing or unreadable: only the journal is authoritative."""
        with suppress(BrokenPlanError, *INVALID_JSON):
            return _snapshot_decoder.decode(read_file(self.path / SNAPSHOT_FILE))
        return None

    def step_folder(self, step_id: str) -> Path:
        """Return the folder for a step's conversation and result; it may not exist yet.

        Raises:
            BrokenPlanError: the id is not a valid one, as in a journal that was tampered with.
        """
        if not _STEP_ID.fullmatch(step_id):
            raise BrokenPlanError(str(self.path / JOURNAL_FILE), f"names {step_id[:80]!r}, which is not a step id")
        return self.path / STEPS_FOLDER / step_id

    def result_file(self, step_id: str) -> Path:
        """Return the file for a step's result; it may not exist yet."""
        return self.step_folder(step_id) / RESULT_FILE

    def items(self, step_id: str, digest: str) -> list[Any]:
        """Return the list from which the steps for items were made.

        Raises:
            BrokenPlanError: the file is missing, or does not match ``digest``.
        """
        path = self.step_folder(step_id) / items_file(digest)
        data = read_file(path)
        if sha256(data).hexdigest() != digest:
            raise BrokenPlanError(str(path), "is not the list that was read when the plan ran")
        return json.decode(data, type=list[Any])

    def holder(self) -> int | None:
        """Return the pid of the process that runs the plan, or None."""
        pid = holder_of(self.path / LOCK_FILE)
        return pid if pid is not None and is_alive(pid) else None

    def summary(self) -> PlanSummary:
        """Return the plan's line for a list; never fails, since ``problem`` says what is broken."""
        holder = self.holder()
        try:
            settings, snapshot = self.settings(), self.snapshot()
            if snapshot is None or (snapshot.status is PlanStatus.ACTIVE and holder is None):
                state = self.state()  # its process died, perhaps after the plan's end
                if holder is None and state.status is PlanStatus.ACTIVE:
                    evolve(state, PlanEditedEvent(ts=state.updated))  # its attempts ended with it
                snapshot = snapshot_of(state, state.updated or settings.created)
        except BrokenPlanError as error:
            return PlanSummary(plan_id=self.plan_id, counts={}, holder=holder, problem=str(error))
        fields = structs.asdict(structs.replace(snapshot, plan_id=self.plan_id))
        return PlanSummary(
            goal=settings.goal, workspace=settings.workspace, created=settings.created, holder=holder, **fields
        )


def snapshot_of(state: State, updated: float) -> PlanSnapshot:
    """Return the snapshot of a plan's state; ``updated`` is in unix seconds."""
    counts = state.counted()
    return PlanSnapshot(plan_id=state.plan_id, status=state.status, counts=counts, updated=updated, reason=state.reason)


def find_plan(home: Path, reference: str) -> PlanFolder:
    """Return the plan with that id, or the only one whose id begins so; ``latest`` is the one that was begun last.

    Raises:
        UnknownPlanError: there is no such plan.
        UsageError: several ids begin so.
    """
    root = plans_folder(home)
    names = _plan_names(root)
    if reference == LATEST and names:
        return max((PlanFolder(root / name) for name in names), key=_creation)
    beginnings = [name for name in names if reference and name.startswith(reference)]
    matches = [reference] if reference in names else beginnings
    if not matches:
        raise UnknownPlanError(reference, root, any_known=bool(names))
    if len(matches) > 1:
        shown = ", ".join(matches[:5]) + (" ..." if len(matches) > 5 else "")
        raise UsageError(f"{reference!r} matches {len(matches)} plans ({shown}): give more of the id")
    return PlanFolder(root / matches[0])


def list_plans(home: Path) -> list[PlanSummary]:
    """Return every plan of a home, oldest first; broken folders are included, with their problem."""
    return sorted((folder.summary() for folder in plan_folders(home)), key=lambda plan: plan.created)


def plan_folders(home: Path) -> list[PlanFolder]:
    """Return the folders of all plans of a home, sorted by id, without reading anything in them.

    Raises:
        BrokenPlanError: the plans can't be listed.
    """
    root = plans_folder(home)
    return [PlanFolder(root / name) for name in _plan_names(root)]


def plans_in(home: Path, workspace: str | None, most: int | None = None) -> Iterator[PlanFolder]:
    """Yield the plans of a workspace, or of all, beginning with those whose settings were written last.

    It skips broken plans, reads only settings, and looks at no more than the ``most`` newest plans of the home.
    """
    folders = sorted(plan_folders(home), key=lambda folder: modified_at(folder.path / SETTINGS_FILE), reverse=True)
    for folder in folders[:most]:
        with suppress(BrokenPlanError):
            if workspace in {None, folder.settings().workspace}:
                yield folder


def modified_at(path: Path) -> float:
    """Return when a file or link was last written, in unix seconds, or 0 if it can't be read."""
    with suppress(OSError):
        return path.lstat().st_mtime
    return 0.0


def _creation(folder: PlanFolder) -> tuple[float, str]:
    """Return when a plan was created, in unix seconds (0 if its settings can't be read), and its id."""
    with suppress(BrokenPlanError):
        return folder.settings().created, folder.plan_id
    return 0.0, folder.plan_id


def _plan_names(root: Path) -> list[str]:
    with reading(root), suppress(FileNotFoundError):
        return sorted(entry.name for entry in root.iterdir() if entry.is_dir() and not entry.name.startswith("."))
    return []


def lock_plan(path: Path, plan_id: str) -> FileLock:
    """Take the lock of a plan without waiting for it.

    Raises:
        PlanLockedError: the lock is held, in this process or another.
        StoreWriteError: the lock file can't be made or locked.
    """
    with writing(path):
        lock = FileLock.acquire(path)
    if lock is None:
        raise PlanLockedError(plan_id, holder_of(path))
    return lock
