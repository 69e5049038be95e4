"""PlanStore holds the folder of a plan under its lock; only it writes the journal, the snapshot and the results."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, ExitStack, suppress
from pathlib import Path

import anyio
import msgspec

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
from vibe.system.files import FileLock, entries_of, regular_bytes, replace_file, sync_folder

_NEW_PREFIX = ".new-"
_ABANDONED_SECONDS = 3600.0
_ELSEWHERE = ", or set VIBE_HOME to a writable folder"


class PlanStore(AbstractContextManager["PlanStore"]):  # noqa: PLR0904  the one owner of a folder with a journal, results, a snapshot and a lock
    """A plan's folder, locked by this process until ``close``; a context manager.

    All methods except ``append``, ``keep_result`` and ``sync`` wait for files: call them before an event loop runs or
    from a worker thread. ``now`` returns unix seconds.
    """

    def __init__(self, folder: files.PlanFolder, lock: FileLock, *, now: Callable[[], float] = time.time) -> None:
        self.folder = folder
        self.settings = folder.settings()
        self._lock = lock
        self._now = now
        self._steps = str(folder.path / files.STEPS_FOLDER)
        content = read_journal(folder.path / files.JOURNAL_FILE)
        self.dropped = content.dropped
        """Sentences about what was dropped from the journal when it was opened."""
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
        """Create and lock the folder of a new plan, as a whole or not at all.

        If ``settings.plan_id`` is blank, an id is chosen; if ``settings.created`` is 0, it becomes now.

        Raises:
            StoreError: the given id is taken, or the folder can't be created.
        """
        root = files.plans_folder(home)
        created = settings.created or now()
        with writing(root, instead=_ELSEWHERE):
            root.mkdir(parents=True, exist_ok=True, mode=0o700)
            _remove_abandoned(root, now())
            draft = Path(tempfile.mkdtemp(prefix=_NEW_PREFIX, dir=root))
        with writing(root, instead=_ELSEWHERE), ExitStack() as held:
            held.callback(shutil.rmtree, draft, ignore_errors=True)  # finds nothing if the draft was renamed
            lock = files.lock_plan(draft / files.LOCK_FILE, settings.plan_id or "new")
            held.callback(lock.release)
            replace_file(draft / files.SOURCE_FILE, source, sync=True)
            (draft / files.STEPS_FOLDER).mkdir()
            (draft / files.JOURNAL_FILE).touch(mode=0o600)
            path = _give_id(draft, settings.model_copy(update={"created": created}))
            sync_folder(root)
            store = cls(files.PlanFolder(path), lock, now=now)
            held.pop_all()
            return store

    @classmethod
    def open(cls, home: Path, reference: str, *, now: Callable[[], float] = time.time) -> PlanStore:
        """Lock the plan with that id, or the unique beginning of one, to continue it.

        It repairs what a crash left: a torn journal, and results that are in the journal but in no file.

        Raises:
            UsageError: the reference names no plan, or several.
            PlanLockedError: another process runs the plan.
            BrokenPlanError: a file can't be read back.
            StoreWriteError: the folder can't be written to.
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

    def __exit__(self, *_raised: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the journal and release the lock; a second call does nothing."""
        self._journal.close()
        self._lock.release()

    @property
    def plan_id(self) -> str:
        """The plan's id."""
        return self.folder.plan_id

    def state(self) -> State:
        """Return the plan's state as of the last reading of its journal.

        Only the run that holds the plan may evolve it.

        Raises:
            BrokenPlanError: the journal can't be read back.
        """
        if self._state is None:
            self._state = self.folder.state()
        return self._state

    def append(self, *facts: Fact) -> None:
        """Write all facts at once. They survive this process, and after ``sync`` a power cut.

        Raises:
            StoreWriteError: the disk is full or refuses; nothing half-written stays.
            TypeError, ValueError, OverflowError, RecursionError: a value is not JSON; nothing was written.
        """
        self._state = None
        self._journal.append(*facts)

    def note_program(self, program: files.ProgramPart | None) -> None:
        """Record in the settings which steps a program does from now on.

        Raises:
            StoreWriteError: the disk is full or refuses.
        """
        noted = self.settings.with_program(program)
        if noted != self.settings:
            with writing(self.folder.path):
                _write_settings(self.folder.path, noted)

    async def sync(self) -> None:
        """Put all facts and results handed over so far on disk, and return once they are.

        Raises:
            StoreWriteError: the disk is full or refuses.
        """
        async with self._committing:
            await anyio.to_thread.run_sync(self._commit)

    def keep_result(self, step_id: str, result: StepResult) -> None:
        """Have the next ``sync`` write a step's result, as ``write_result`` does."""
        self._kept.append((step_id, result))

    def write_items(self, step_id: str, items: object) -> None:
        """Put a list on disk permanently; ``effective`` makes the steps for its items from it.

        Raises:
            StoreWriteError: the disk is full or refuses.
        """
        data, digest = items_as_bytes(items)
        path = self.step_folder(step_id) / files.items_file(digest)
        with writing(path):
            replace_file(path, data, sync=True)

    def write_item(self, child: Child) -> str:
        """Write an item to a file that the agent of its step can read, and return the file.

        Raises:
            StoreWriteError: the disk is full or refuses.
        """
        path = self.step_folder(child.id) / files.ITEM_FILE
        with writing(path):
            replace_file(path, as_text(child.item).encode("utf-8", "replace"), sync=False)
        return str(path)

    def effective(self) -> LoadedPlan:
        """Return the current plan.

        Raises:
            BrokenPlanError: it can't be read back.
        """
        return effective_plan(self.folder, self.state())

    def preview(self) -> tuple[LoadedPlan, State]:
        """Return the current plan, and its state as the next run will find it.

        Raises:
            BrokenPlanError: they can't be read back.
        """
        state = self.folder.state()
        loaded = effective_plan(self.folder, state)
        return loaded, preview_next_run(state, loaded, self.settings.decisions)

    def reset(self, retry: Act) -> tuple[str, ...]:
        """Have a step retried with all that depend on it, and return the ids of all these.

        Raises the errors of ``take``.
        """
        again = with_dependants(self.effective(), self.state(), [retry.step_id])
        self.take(Retry(retry))
        self.forget_checks(again)
        return again

    def forget_checks(self, step_ids: Iterable[str]) -> None:
        """Forget the recorded check files of retried steps: a person has seen them, so their present form counts."""
        for step_id in step_ids:
            for record in self.folder.step_folder(step_id).glob(RECORD_FILES):
                record.unlink(missing_ok=True)

    def take(self, command: Command) -> None:
        """Carry out a command to a plan that is not running: record its facts and update the snapshot.

        Raises:
            PlanEndedError, UnknownStepError, DecisionInvalidError, RevisionInvalidError: the command can't be carried
                out in the plan's present state.
        """
        facts = self.decided(command)
        self.append(PlanEditedEvent(ts=self._now(), plan_id=self.plan_id, pid=os.getpid()), *facts)
        self._journal.flush()
        self.write_snapshot(self.preview()[1])

    def decided(self, command: Command) -> Sequence[Fact]:
        """Return the facts that a command would lead to, without writing anything.

        Raises:
            UsageError: the command can't be carried out in the plan's present state.
        """
        return decide(self.preview()[1], command, self._now()).facts

    def _note_lost(self) -> None:
        """Note steps with a result but no record: the journal was truncated, so they will run again.

        Raises:
            BrokenPlanError: one of these steps acts outside the workspace.
        """
        state = self.state()
        known = {step_id for step_id, step in state.steps.items() if step.begun or step.reused_from}
        known |= {gone.id for gone in state.removed} | state.unfolded.keys()
        names = [entry.name for entry in entries_of(self._steps) if entry.name not in known]
        lost = sorted(name for name in names if os.path.exists(f"{self._steps}/{name}/{files.RESULT_FILE}"))
        if lost:
            journal = str(self.folder.path / files.JOURNAL_FILE)
            acting = [step.id for step in self.effective().plan.steps if step.id in lost and step.side_effects]
            if acting:
                raise BrokenPlanError(journal, f"is missing {listed(acting)}, which acted outside the workspace")
            problem = f"{journal} was truncated: no record of {listed(lost)}, which ran"
            self.dropped = (*self.dropped, f"{problem}; the steps still in the plan run again")

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
        """Return the folder of a step, and create it if it is missing.

        Raises:
            StoreWriteError: the folder can't be created.
        """
        path = self.folder.step_folder(step_id)
        with writing(path):
            path.mkdir(parents=True, exist_ok=True)
        return path

    def write_result(self, step_id: str, result: StepResult) -> None:
        """Write a step's result beside its conversation, for people and dependants; the journal holds it too.

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


def _give_id(draft: Path, settings: files.RunSettings) -> Path:
    """Write the settings and rename the draft to the plan's id; an id of our own that is taken is chosen again.

    Raises:
        StoreError: the given id is taken.
    """
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


def _remove_abandoned(root: Path, now: float) -> None:
    """Remove drafts whose process died; a draft normally exists for milliseconds."""
    for draft in root.glob(f"{_NEW_PREFIX}*"):
        with suppress(FileNotFoundError):  # it was renamed just now
            if _is_abandoned(draft) or now - draft.stat().st_mtime > _ABANDONED_SECONDS:
                shutil.rmtree(draft, ignore_errors=True)


def _is_abandoned(draft: Path) -> bool:
    """Return whether the maker of a draft died: it writes its pid into the lock file once it holds the lock."""
    try:
        if not regular_bytes(draft / files.LOCK_FILE):
            return False
        files.lock_plan(draft / files.LOCK_FILE, "new").release()
    except (OSError, PlanLockedError, StoreWriteError):
        return False
    return True
