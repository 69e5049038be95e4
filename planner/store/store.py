"""PlanStore: the folder of a plan held for running it; the only writer of its journal, snapshot and results."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections import deque
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from types import TracebackType
from typing import Self

import anyio
import msgspec
from anyio import to_thread

from ipc.commands import Act
from ipc.events import Fact, PlanEditedEvent
from planner.plan.diagnostics import listed
from planner.plan.for_each import items_as_bytes
from planner.plan.loader import LoadedPlan
from planner.plan.model import Child
from planner.plan.placeholders import as_text
from planner.state.changes import with_dependants
from planner.state.commands import Command, Retry
from planner.state.decide import decide, preview_next_run
from planner.state.lists import output_of
from planner.state.state import State
from planner.store import folder as files
from planner.store.current_plan import effective_plan
from planner.store.errors import BrokenPlanError, PlanLockedError, StoreError, StoreWriteError, writing
from planner.store.journal import PlanJournal, read_journal
from subagents.step.tamper_guard import RECORD_FILES
from subagents.step_result import StepResult
from vibe.core.messages import Outcome
from vibe.system.files import FileLock, replace_file, sync_folder

_NEW_PREFIX = ".new-"
_ABANDONED_SECONDS = 3600.0


class PlanStore:  # noqa: PLR0904  the one owner of a folder that holds a journal, results, a snapshot and a lock
    """A plan's folder, locked by this process until ``close``; a context manager.

    Everything but ``append``, ``keep_result`` and ``sync`` waits for files: call it before an event loop
    runs or from a worker thread. ``now`` tells unix seconds.
    """

    def __init__(self, folder: files.PlanFolder, lock: FileLock, *, now: Callable[[], float] = time.time) -> None:
        self.folder = folder
        self.settings = folder.settings()
        self._lock = lock
        self._now = now
        self._steps = str(folder.path / files.STEPS_FOLDER)
        content = read_journal(folder.path / files.JOURNAL_FILE)
        self.dropped = content.dropped
        """Sentences about what was cut off the journal when it was opened."""
        self._state: State | None = folder.state(content)
        self._kept: deque[tuple[str, StepResult]] = deque()
        self._committing = anyio.Lock()
        self._journal = PlanJournal(folder.path / files.JOURNAL_FILE)
        try:
            self._journal.mend(content)
        except StoreWriteError:
            self._journal.close()
            raise

    @classmethod
    def create(
        cls, home: Path, settings: files.RunSettings, source: bytes, *, now: Callable[[], float] = time.time
    ) -> PlanStore:
        """Make the folder of a new plan, whole or not at all, and hold it.

        A blank ``settings.plan_id`` is chosen here, a zero ``settings.created`` is set to now.

        Raises:
            StoreError: the id given is taken, or the folder can't be made.
        """
        root = files.plans_folder(home)
        created = settings.created or now()
        with writing(root):
            root.mkdir(parents=True, exist_ok=True, mode=0o700)
            _sweep(root, now())
            draft = Path(tempfile.mkdtemp(prefix=_NEW_PREFIX, dir=root))
        with writing(root), ExitStack() as held:
            held.callback(shutil.rmtree, draft, ignore_errors=True)  # gone already if it got its name
            lock = files.lock_plan(draft / files.LOCK_FILE, settings.plan_id or "new")
            held.callback(lock.release)
            replace_file(draft / files.SOURCE_FILE, source, sync=True)
            (draft / files.STEPS_FOLDER).mkdir()
            (draft / files.JOURNAL_FILE).touch(mode=0o600)
            path = _settle(draft, settings.model_copy(update={"created": created}))
            sync_folder(root)
            store = cls(files.PlanFolder(path), lock, now=now)
            held.pop_all()
            return store

    @classmethod
    def open(cls, home: Path, reference: str, *, now: Callable[[], float] = time.time) -> PlanStore:
        """Hold the plan of that id (or unique beginning of one) to go on with it.

        Mends what a sudden end left: a torn journal, results that are in the journal and in no file.

        Raises:
            UsageError: the reference names no plan, or several.
            PlanLockedError: another process runs it.
            BrokenPlanError: a file can't be read back.
            StoreWriteError: the folder can't be written.
        """
        folder = files.find_plan(home, reference)
        lock = files.lock_plan(folder.path / files.LOCK_FILE, folder.plan_id)
        with ExitStack() as held:
            held.callback(lock.release)
            store = cls(folder, lock, now=now)
            held.callback(store.close)
            store._note_lost()
            store._mend_results()
            held.pop_all()
            return store

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the plan; a second call does nothing."""
        self._journal.close()
        self._lock.release()

    @property
    def plan_id(self) -> str:
        """The plan's id."""
        return self.folder.plan_id

    def state(self) -> State:
        """Return how the plan stood when the journal was last read.

        Only the run that holds the plan evolves it.

        Raises:
            BrokenPlanError: the journal can't be read back.
        """
        if self._state is None:
            self._state = self.folder.state()
        return self._state

    def append(self, *facts: Fact) -> None:
        """Write facts, all at once; they outlive this process, and a power cut after ``sync``.

        Raises:
            StoreWriteError: the disk is full or refuses; nothing half-written stays.
            TypeError, ValueError, OverflowError, RecursionError: one holds a value that is no JSON; nothing was
            written.
        """
        self._state = None
        self._journal.append(*facts)

    def note_program(self, program: files.ProgramPart | None) -> None:
        """Keep what a program does of the plan from now on.

        Raises:
            StoreWriteError: the disk is full or refuses.
        """
        noted = self.settings.with_program(program)
        if noted != self.settings:
            with writing(self.folder.path):
                _write_settings(self.folder.path, noted)

    async def sync(self) -> None:
        """Return once all that was appended and kept is on disk.

        Raises:
            StoreWriteError: the disk is full or refuses.
        """
        async with self._committing:
            await to_thread.run_sync(self._commit)

    def keep_result(self, step_id: str, result: StepResult) -> None:
        """Have the next ``sync`` write a step's result, as ``write_result`` does."""
        self._kept.append((step_id, result))

    def write_items(self, step_id: str, items: object) -> None:
        """Put a list on disk, for good; ``effective`` makes the steps for its items of it.

        Raises:
            StoreWriteError: the disk is full or refuses.
        """
        data, digest = items_as_bytes(items)
        path = self.step_folder(step_id) / files.items_file(digest)
        with writing(path):
            replace_file(path, data, sync=True)

    def write_item(self, child: Child) -> Path:
        """Put an item where the agent of its step can read it; return the file.

        Raises:
            StoreWriteError: the disk is full or refuses.
        """
        path = self.step_folder(child.id) / files.ITEM_FILE
        with writing(path):
            replace_file(path, as_text(child.item).encode("utf-8", "replace"), sync=False)
        return path

    def effective(self) -> LoadedPlan:
        """The plan as it stands now.

        Raises:
            BrokenPlanError: it can't be read back.
        """
        return effective_plan(self.folder, self.state())

    def reset(self, step_ids: Collection[str], asked: Act | None = None) -> tuple[str, ...]:
        """Have steps done again, with whatever depends on them, which is returned; ``asked`` as in ``Retry``.

        Raises as ``take``.
        """
        again = with_dependants(self.effective(), self.state(), step_ids)
        self.take(Retry(tuple(step_ids), asked))
        self.forget_checks(again)
        return again

    def forget_checks(self, step_ids: Iterable[str]) -> None:
        """Have steps that are done again take what their checks consist of as it is now: a person has looked at it."""
        for step_id in step_ids:
            for record in self.folder.step_folder(step_id).glob(RECORD_FILES):
                record.unlink(missing_ok=True)

    def take(self, command: Command) -> None:
        """Carry out a command to a plan that is not running: its facts are recorded, and the plan can be resumed.

        Raises:
            PlanEndedError, UnknownStepError, DecisionInvalidError, RevisionInvalidError: it can't be, as things stand.
        """
        facts = self.decided(command)
        self.append(PlanEditedEvent(ts=self._now(), plan_id=self.plan_id, pid=os.getpid()), *facts)
        self._journal.flush()
        state = self.folder.state()
        self.write_snapshot(preview_next_run(state, effective_plan(self.folder, state), self.settings.decisions))

    def decided(self, command: Command) -> Sequence[Fact]:
        """Return what a command would come to; nothing is written.

        Raises:
            UsageError: it can't be carried out, as things stand.
        """
        state = preview_next_run(self.folder.state(), self.effective(), self.settings.decisions)
        return decide(state, command, self._now()).facts

    def _note_lost(self) -> None:
        """Say which steps have results that no record tells of: the journal was cut, and they will be done again.

        Raises:
            BrokenPlanError: one of them acts outside the workspace.
        """
        state = self.state()
        known = {step_id for step_id, step in state.steps.items() if step.begun or step.reused_from}
        known |= {gone.id for gone in state.removed} | state.unfolded.keys()
        with suppress(OSError):
            entries = [entry.name for entry in os.scandir(self._steps) if entry.name not in known]
            lost = sorted(name for name in entries if os.path.exists(f"{self._steps}/{name}/{files.RESULT_FILE}"))  # noqa: PTH110  as below
            if lost:
                self._refuse_side_effects(lost)
                journal = self.folder.path / files.JOURNAL_FILE
                said = f"{journal} was truncated: no record of {listed(lost)}, which ran"
                self.dropped = (*self.dropped, f"{said}; the steps still in the plan run again")

    def _refuse_side_effects(self, lost: Sequence[str]) -> None:
        acting = [step.id for step in self.effective().plan.steps if step.id in lost and step.side_effects]
        if acting:
            problem = f"is missing {listed(acting)}, which acted outside the workspace"
            raise BrokenPlanError(str(self.folder.path / files.JOURNAL_FILE), problem)

    def _mend_results(self) -> None:
        state = self.state()
        for step_id, result in state.results().items():
            if result.outcome is Outcome.INTERRUPTED:
                continue
            path = self.folder.step_folder(step_id) / files.RESULT_FILE
            if not path.is_file() or path.stat().st_size == 0:
                steps = {step.id: step for step in self.effective().plan.steps} if step_id in state.unfolded else {}
                self.write_result(step_id, msgspec.structs.replace(result, output=output_of(state, steps, step_id)))

    def _commit(self) -> None:
        while self._kept:
            self.write_result(*self._kept.popleft())
        self._journal.flush()

    def step_folder(self, step_id: str) -> Path:
        """The folder of a step, made if it is not there yet.

        Raises:
            StoreWriteError: it can't be made.
        """
        path = self.folder.step_folder(step_id)
        with writing(path):
            path.mkdir(parents=True, exist_ok=True)
        return path

    def write_result(self, step_id: str, result: StepResult) -> None:
        """Put a step's result beside its conversation, for people and for dependants; the journal has it too.

        Raises:
            StoreWriteError: the disk is full or refuses.
        """
        data = msgspec.json.encode(result)
        folder = f"{self._steps}/{step_id}"  # text, not Path: this runs once a step, between it and its dependants
        path = f"{folder}/{files.RESULT_FILE}"
        with writing(Path(path)):
            try:
                replace_file(path, data, sync=False)
            except FileNotFoundError:
                os.makedirs(folder, exist_ok=True)  # noqa: PTH103  half the cost of Path.mkdir, once a step
                replace_file(path, data, sync=False)

    def write_snapshot(self, state: State) -> None:
        """Replace ``state.json``.

        Raises:
            StoreWriteError: the disk is full or refuses.
        """
        path = self.folder.path / files.SNAPSHOT_FILE
        with writing(path):
            replace_file(path, msgspec.json.encode(files.snapshot_of(state, self._now())), sync=False)


def _settle(draft: Path, settings: files.RunSettings) -> Path:
    """Give the draft its name; a chosen id that is taken by chance is chosen again."""
    while True:
        plan_id = settings.plan_id or files.new_plan_id(settings.created)
        path = draft.parent / plan_id
        document = settings.model_copy(update={"plan_id": plan_id})
        _write_settings(draft, document)
        sync_folder(draft)
        try:
            draft.rename(path)
        except OSError as error:
            if not path.exists():
                raise
            if settings.plan_id:
                problem = f"plan {plan_id!r} already exists in {draft.parent}: resume it, or choose another id"
                raise StoreError(problem) from error
        else:
            return path


def _write_settings(folder: Path, settings: files.RunSettings) -> None:
    replace_file(folder / files.SETTINGS_FILE, settings.model_dump_json(indent=2).encode() + b"\n", sync=True)


def _sweep(root: Path, now: float) -> None:
    """Remove drafts whose maker died; a draft lives for milliseconds."""
    for draft in root.glob(f"{_NEW_PREFIX}*"):
        with suppress(FileNotFoundError):  # it has just got its name
            if _is_abandoned(draft) or now - draft.stat().st_mtime > _ABANDONED_SECONDS:
                shutil.rmtree(draft, ignore_errors=True)


def _is_abandoned(draft: Path) -> bool:
    """Return whether its maker died: they put their pid into the lock file only once they held the lock."""
    try:
        if not (draft / files.LOCK_FILE).read_bytes():
            return False
        files.lock_plan(draft / files.LOCK_FILE, "new").release()
    except (OSError, PlanLockedError, StoreWriteError):
        return False
    return True
