"""The folder of a plan as anyone may read it, with no lock: find it, list all of them, read back what it holds."""

from __future__ import annotations

import re
import secrets
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from enum import StrEnum
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import msgspec
from msgspec import Struct, field, structs
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ipc.errors import INVALID_JSON
from planner.plan.model import Slug, Step, own_ids
from planner.plan.status import PlanStatus
from planner.state.evolve import FactInvalidError, fold
from planner.state.state import State
from planner.store.errors import BrokenPlanError, PlanLockedError, UnknownPlanError, writing
from planner.store.journal import JournalContent, read_file, read_journal
from subagents.executor import StepExecutor
from vibe.system.errors import UsageError
from vibe.system.files import FileLock, holder_of, is_alive

if TYPE_CHECKING:
    from vibe.core.hooks.runner import Hook
    from vibe.core.tools.manager import ToolClass

SETTINGS_VERSION = 1
PROGRAM = "program"
"""The executor of a plan whose steps a program does, all of them."""


class ApprovalSetting(StrEnum):
    """Rights of a run to act without asking."""

    ASK = "ask"
    EDITS = "edits"
    AUTO = "auto"


class RunSettings(BaseModel):
    """Settings of a plan's run, kept so that a resume runs it the same way (``run.json``).

    ``plan_id`` blank: the store chooses one. ``created`` is in unix seconds. ``origin`` says where the plan came from
    (a file, ``-``, a goal). ``executor``: the name of what does the steps, ``program`` if that is one a program brings;
    ``cluster``: the address of those who do them for it (blank: none). ``functions``: the steps that a program does,
    whatever does the others. ``allow_dirty``: a worktree's base takes the user's uncommitted changes with it.
    ``network``: confined commands reach everything.
    ``accept_writes``: a person accepted that steps edit the files they name. ``only``: the steps to run (none: all).
    ``reused_from``: the plan whose results were taken over. ``base_commit``: the commit its content keys stand on
    (None: no repository), see ``planner.reuse.reuse``. ``variables``: a digest of each that a command names (None:
    not known). ``inputs``: the values it was begun with.
    ``note`` says which steps the run is about, if not all of them. ``sample`` marks a run on a temporary
    copy of a demonstration; ``script`` is the file the scripted backend replays. ``session`` is the conversation in
    which the plan was begun (blank: none), which had so many ``messages`` then (None: not known). ``given`` names the
    settings that the command gave which began it, and that no resume has unless they are given again.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    version: Literal[1] = SETTINGS_VERSION
    plan_id: Slug | Literal[""] = ""
    goal: str = ""
    workspace: Annotated[str, Field(pattern=r"^[^\x00]*$")]
    sample: bool = False
    script: str | None = None
    model: str | None = None
    approvals: ApprovalSetting = ApprovalSetting.ASK
    max_parallel: Annotated[int, Field(ge=1)] = 4
    decisions: dict[Slug, tuple[Slug, ...]] = {}
    fail_fast: bool = False
    executor: str = "local"
    cluster: str = ""
    functions: tuple[Slug, ...] = ()
    allow_dirty: bool = False
    network: bool = False
    accept_writes: bool = False
    only: tuple[Slug, ...] = ()
    reused_from: str | None = None
    base_commit: str | None = None
    variables: dict[str, str] | None = None
    inputs: dict[str, Any] = {}
    note: str = ""
    created: float = 0.0
    origin: str = ""
    session: str = ""
    messages: int | None = None
    given: tuple[str, ...] = ()

    def by_program(self, step: Step) -> bool:
        """Return whether a program does the step, which neither vibe nor another program can."""
        return self.executor == PROGRAM or not own_ids(step).isdisjoint(self.functions)

    def with_program(self, program: ProgramPart | None) -> RunSettings:
        """Return the settings with what a program does of the plan."""
        if program is None:
            return self
        functions = tuple(dict.fromkeys((*self.functions, *program.functions)))
        return self.model_copy(
            update={"functions": functions, "executor": PROGRAM if program.does_all else self.executor}
        )


class ProgramPart(Struct, frozen=True, kw_only=True):
    """The steps that the program does in which a plan is run: its ``functions``, by their ids, or all of them.

    ``executor`` returns what does the steps of the plan, given what would do them without the program, and where.
    """

    executor: Callable[[StepExecutor, Path], StepExecutor]
    functions: tuple[str, ...] = ()
    does_all: bool = False


class PlanRunOptions(Struct, frozen=True, kw_only=True):
    """Choices of the user for this run; None: the plan's or the configuration's own.

    ``plan_folder`` is where the plan file lies: a sample's files are found beside it. ``only``: the steps asked for
    (none: all); ``reuse``: the plan whose results are taken over; ``allow_dirty``: worktrees may start from what is not
    committed. ``accepted``: a person has read the commands of a plan that a model wrote. ``network``: confined commands
    reach everything. ``plan_id`` is the id of a new plan (blank: one is chosen), ``session`` the conversation in which
    it is begun, and how many ``messages`` that has. ``slowed``: the delays of a demonstration take so many times as
    long as its script says. ``program`` does some of the steps (None: no program is there for that), and brings
    ``tools`` and ``hooks`` for all agents.
    ``asked``: it is asked for approvals, whatever the settings say. ``inputs``: values for the plan's inputs, by name.
    """

    workdir: Path
    plan_folder: Path
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
    reuse: str | None = None
    allow_dirty: bool = False
    accepted: bool = False
    network: bool = False
    plan_id: str = ""
    session: str = ""
    messages: int | None = None
    inputs: Mapping[str, object] = field(default_factory=dict[str, object])
    slowed: float = 1.0
    program: ProgramPart | None = None
    tools: tuple[ToolClass, ...] = ()
    hooks: tuple[Hook, ...] = ()
    asked: bool = False


class PlanSnapshot(Struct, frozen=True, kw_only=True):
    """Snapshot of a plan's status, to be read fast (``state.json``); the journal is the truth.

    ``updated``: unix seconds.
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
"""The item of a step, where it is long."""
LATEST = "latest"
"""Instead of an id: the plan that was begun last."""

_STEP_ID = re.compile(r"[a-z0-9_:-]{1,99}")

_snapshot_decoder = msgspec.json.Decoder(PlanSnapshot)


def items_file(digest: str) -> str:
    """The name of the file of a list in its step's folder."""
    return f"items-{digest[:16]}.json"


def plans_folder(home: Path) -> Path:
    """Return where the plans of a home are kept."""
    return home / "plans"


def new_plan_id(now: float) -> str:
    """An id for a plan created at ``now`` (unix seconds): ``<6 hex>-<yyyymmdd>``, whose first characters tell it apart.

    Two may be equal: who makes the folder tries again.
    """
    return f"{secrets.token_hex(3)}-{time.strftime('%Y%m%d', time.gmtime(now))}"


class PlanSummary(Struct, frozen=True, kw_only=True):
    """A line of ``vibe plan list``. Times in unix seconds; ``holder`` is the pid that runs the plan, if one does.

    ``problem`` says why the folder can't be read; the other fields then hold what could be.
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
        """True if its process ended without ending the plan."""
        return self.status is PlanStatus.ACTIVE and self.holder is None

    @property
    def can_go_on(self) -> bool:
        """True if it was left before its end, and no process works on it."""
        return self.is_interrupted or (self.status is PlanStatus.PAUSED and self.holder is None)

    @property
    def progress(self) -> tuple[int, int]:
        """Its steps that are done, and all of them."""
        return self.counts.get("completed", 0), sum(self.counts.values())


class PlanFolder(Struct, frozen=True):
    """One plan's folder. Everything read here may be a moment old while another process runs the plan."""

    path: Path

    @property
    def plan_id(self) -> str:
        """The plan's id: the folder's name."""
        return self.path.name

    def source(self) -> bytes:
        """The plan document, byte for byte as it was given.

        Raises:
            BrokenPlanError: it can't be read.
        """
        return read_file(self.path / SOURCE_FILE)

    def settings(self) -> RunSettings:
        """Return how the plan is run.

        Raises:
            BrokenPlanError: ``run.json`` is missing or not what this version writes.
        """
        path = self.path / SETTINGS_FILE
        try:
            return RunSettings.model_validate_json(read_file(path))
        except ValidationError as error:
            problems = error.errors(include_url=False, include_context=False, include_input=False)
            if any(problem["loc"] == ("version",) for problem in problems):
                raise BrokenPlanError(str(path), "has a version this vibe can't read") from error
            first = problems[0]
            where = ".".join(str(part) for part in first["loc"])
            raise BrokenPlanError(str(path), f"{where}: {first['msg']}" if where else first["msg"]) from error

    def ended_at(self) -> float:
        """The time the journal was last written, in unix seconds; now if it can't be told."""
        return _written(self.path / JOURNAL_FILE) or time.time()

    def journal(self) -> JournalContent:
        """All that is recorded of the plan; nothing on disk is touched.

        Raises:
            BrokenPlanError: the journal can't be read or is broken before its end.
        """
        return read_journal(self.path / JOURNAL_FILE)

    def state(self, content: JournalContent | None = None) -> State:
        """Return how the plan stood at its journal's last sound fact; ``content`` saves reading that again.

        Raises:
            BrokenPlanError: as ``journal``.
        """
        try:
            return fold((content or self.journal()).facts, self.plan_id)
        except FactInvalidError as error:
            raise BrokenPlanError(str(self.path / JOURNAL_FILE), str(error)) from error

    def snapshot(self) -> PlanSnapshot | None:
        """The latest snapshot, or None if it is missing or unreadable: only the journal is authoritative."""
        try:
            return _snapshot_decoder.decode(read_file(self.path / SNAPSHOT_FILE))
        except (BrokenPlanError, *INVALID_JSON):
            return None

    def step_folder(self, step_id: str) -> Path:
        """Return where a step's conversation and result are kept; the folder need not exist.

        Raises:
            BrokenPlanError: the id is invalid, as in a journal that was tampered with.
        """
        if not _STEP_ID.fullmatch(step_id):
            raise BrokenPlanError(str(self.path / JOURNAL_FILE), f"names {step_id[:80]!r}, which is not a step id")
        return self.path / STEPS_FOLDER / step_id

    def result_file(self, step_id: str) -> Path:
        """Return where a step's result is once it has one."""
        return self.step_folder(step_id) / RESULT_FILE

    def items(self, step_id: str, digest: str) -> list[Any]:
        """Return the list that a step's items were made of.

        Raises:
            BrokenPlanError: it is missing, or is not that list.
        """
        path = self.step_folder(step_id) / items_file(digest)
        data = read_file(path)
        if sha256(data).hexdigest() != digest:
            raise BrokenPlanError(str(path), "is not the list that was read when the plan ran")
        return msgspec.json.decode(data, type=list[Any])

    def holder(self) -> int | None:
        """The pid of the process that runs the plan, if one does."""
        pid = holder_of(self.path / LOCK_FILE)
        return pid if pid is not None and is_alive(pid) else None

    def summary(self) -> PlanSummary:
        """Return what a list shows; never fails: what is broken is said in ``problem``."""
        holder = self.holder()
        try:
            settings, snapshot = self.settings(), self.snapshot()
            if snapshot is None or (snapshot.status is PlanStatus.ACTIVE and holder is None):
                state = self.state()  # its process died, perhaps after the plan's end
                snapshot = snapshot_of(state, state.updated or settings.created)
        except BrokenPlanError as error:
            return PlanSummary(plan_id=self.plan_id, counts={}, holder=holder, problem=str(error))
        told = structs.asdict(structs.replace(snapshot, plan_id=self.plan_id))
        return PlanSummary(
            goal=settings.goal, workspace=settings.workspace, created=settings.created, holder=holder, **told
        )


def snapshot_of(state: State, updated: float) -> PlanSnapshot:
    """A plan's state as it is to be read fast; ``updated`` in unix seconds."""
    counts = state.counted()
    return PlanSnapshot(plan_id=state.plan_id, status=state.status, counts=counts, updated=updated, reason=state.reason)


def find_plan(home: Path, reference: str) -> PlanFolder:
    """The plan of that id, or the only one whose id begins so, or the one that was begun last (``latest``).

    Raises:
        UnknownPlanError: there is no such plan.
        UsageError: there are several.
    """
    root = plans_folder(home)
    names = _plan_names(root)
    if reference == LATEST and names:
        return max((PlanFolder(root / name) for name in names), key=_begun)
    beginnings = [name for name in names if reference and name.startswith(reference)]
    matches = [reference] if reference in names else beginnings
    if not matches:
        raise UnknownPlanError(reference, root, any_known=bool(names))
    if len(matches) > 1:
        shown = ", ".join(matches[:5]) + (" ..." if len(matches) > 5 else "")
        raise UsageError(f"{reference!r} matches {len(matches)} plans ({shown}): give more of the id")
    return PlanFolder(root / matches[0])


def list_plans(home: Path) -> list[PlanSummary]:
    """Every plan of a home, the oldest first; broken folders are listed with what is the matter with them."""
    return sorted((folder.summary() for folder in plan_folders(home)), key=lambda plan: plan.created)


def plan_folders(home: Path) -> list[PlanFolder]:
    """The folder of every plan of a home, by their ids; nothing in them is read.

    Raises:
        BrokenPlanError: the plans can't be listed.
    """
    root = plans_folder(home)
    return [PlanFolder(root / name) for name in _plan_names(root)]


def latest_in(home: Path, workspace: str) -> PlanFolder | None:
    """Return the plan of a workspace whose settings were written last; None: there is none.

    Only settings are read, from the newest to the one found.
    """
    return next(plans_in(home, workspace), None)


def plans_in(home: Path, workspace: str | None, most: int | None = None) -> Iterator[PlanFolder]:
    """Yield the plans of a workspace (None: of all), those whose settings were written last first; none broken.

    ``most``: so many plans of a home are looked at (None: all), the newest. Only settings are read.
    """
    root = plans_folder(home)
    names = sorted(_plan_names(root), key=lambda name: _written(root / name / SETTINGS_FILE), reverse=True)
    for name in names[:most]:
        folder = PlanFolder(root / name)
        with suppress(BrokenPlanError):
            if workspace in {None, folder.settings().workspace}:
                yield folder


def _written(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0


def _begun(folder: PlanFolder) -> tuple[float, str]:
    """Return the time when it was made (0 if it can't be read), and its id."""
    try:
        return folder.settings().created, folder.plan_id
    except BrokenPlanError:
        return 0.0, folder.plan_id


def _plan_names(root: Path) -> list[str]:
    try:
        return sorted(entry.name for entry in root.iterdir() if entry.is_dir() and not entry.name.startswith("."))
    except FileNotFoundError:
        return []
    except OSError as error:
        raise BrokenPlanError(str(root), error.strerror or "cannot be read") from error


def lock_plan(path: Path, plan_id: str) -> FileLock:
    """Take the lock of a plan at once or not at all.

    Raises:
        PlanLockedError: another holder has it, in this process or another.
        StoreWriteError: the lock file can't be made or locked.
    """
    with writing(path):
        lock = FileLock.acquire(path)
    if lock is None:
        raise PlanLockedError(plan_id, holder_of(path))
    return lock
