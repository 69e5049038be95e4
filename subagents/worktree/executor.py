"""The executor that gives steps with workspace ``worktree`` a worktree of their own, and merges their work."""

from __future__ import annotations

import logging
import secrets
import shutil
from collections.abc import AsyncGenerator, Callable, Collection, Sequence
from contextlib import asynccontextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import Any, Self, TypeVar

import anyio
from anyio.abc import TaskGroup
from msgspec import Struct, field, structs

from ipc.events import WarningEvent, WorktreeEvent
from ipc.sink import EventSink
from subagents.executor import KeptWork, StepExecutor, StepResult, StepTask, StopSignal, interrupted_by
from subagents.step.local_executor import has_begun
from subagents.worktree.apply import held, lock_repository
from subagents.worktree.errors import WorktreeError, WorktreeRefusedError, name_some
from subagents.worktree.lifecycle import ENDED, Phase, StepWorktree, WorktreePlace, WorktreeRecord
from subagents.worktree.merge import MergeConflict
from subagents.worktree.repository import Base, Repository
from subagents.worktree.worktree import OUR_LABEL, PUT_AWAY, remove_folder, remove_if_empty
from vibe.core.messages import Outcome, total_of
from vibe.core.modes import ExecutionMode
from vibe.core.session.write_turn import Turns, waits_told
from vibe.system.files import FileLock
from vibe.system.racing import shielded


def write_kept_work(repository: Repository, record: WorktreeRecord, folder: Path, step_id: str) -> KeptWork | None:
    """Write the files of a dropped attempt's branch into ``folder``, under a name that marks them for deletion.

    Return None if the branch doesn't exist. Blocks; the repository's lock must be held, with its scratch folder.

    Raises:
        WorktreeError: Git or the disk refuses.
    """
    found = repository.git.ask("rev-parse", "--verify", "--quiet", f"refs/heads/{record.branch}^{{commit}}")
    if found.code != 0:
        return None
    top = folder / f"{PUT_AWAY}{step_id}.{secrets.token_hex(4)}"
    index = repository.scratch / "kept"
    try:
        (top / repository.prefix).mkdir(parents=True)
        repository.git("read-tree", found.text, index=index)
        repository.git("checkout-index", "--all", f"--prefix={top}/", index=index)
        changes = repository.changes(record.base.commit, found.text)
    except (OSError, WorktreeError) as error:
        remove_folder(top)
        raise error if isinstance(error, WorktreeError) else WorktreeError(f"{str(top)!r}: {error.strerror}") from error
    changed = tuple(repository.from_workspace(change.path) for change in changes)
    return KeptWork(branch=record.branch, changed=changed, folder=top / repository.prefix, top=top)


T = TypeVar("T")

logger = logging.getLogger(__name__)

LOCK_POLL_SECONDS = 0.005
"""Seconds between two attempts to take the repository's lock."""

MOST_TRIES = 2
"""Subagents that try to resolve one conflict: the next one if markers are left or the step's checks fail."""

LEFT_OUT = "step {step} met uncommitted changes of yours: its changes of {files} are in your tree, but in no commit"

LEFT_UNREAD = "step {step} starts without your changes of {files}, which can't be read"

OWN_TREE = (
    "You work in a git worktree of your own: a copy of the project in which only you write. Ignored files are not in "
    "it. Do not commit, push or switch branches: when you are done the host commits what the files hold and merges it."
)


class WorktreeExecutor(Struct, eq=False):
    """Has ``_inner`` do the steps, in worktrees; see ``StepExecutor``. It runs in the process that has the plan.

    ``_open_repository`` is called in a thread when the first step needs the repository.

    Only one step at a time changes the user's repository, even among several plans. A step whose process was killed
    continues where it was: at work, being merged, or merged.
    """

    _inner: StepExecutor
    _place: WorktreePlace
    _open_repository: Callable[[], Repository]
    _sink: EventSink
    _turns: Turns | None = None
    _lock: anyio.Lock = field(default_factory=anyio.Lock)
    _opened: Repository | None = None
    _deletions: TaskGroup | None = None

    async def __aenter__(self) -> Self:
        """Open the task group that deletes worktrees of merged steps in the background, while later steps run."""
        self._deletions = anyio.create_task_group()
        await self._deletions.__aenter__()
        return self

    async def __aexit__(self, *error: object) -> None:
        """Wait until all of them are deleted."""
        deletions, self._deletions = self._deletions, None
        if deletions is not None:
            await deletions.__aexit__(None, None, None)  # they raise nothing; the block's error must not cancel them
            await _shielded(partial(remove_if_empty, self._place.folder))

    async def run(self, task: StepTask, stop: StopSignal) -> StepResult:
        """Do one attempt at a step, and merge its work if the step completes."""
        if task.step.workspace != "worktree":
            return await self._inner.run(task, stop)
        try:
            return await self._run(task, stop)
        except (WorktreeError, WorktreeRefusedError) as error:
            return interrupted_by(error) or StepResult(outcome=Outcome.FAILED, reason="workspace", detail=str(error))

    async def _run(self, task: StepTask, stop: StopSignal) -> StepResult:
        step = await self._worktree(task.step_id, task.attempt, task.step.title)
        continues = await anyio.to_thread.run_sync(lambda: has_begun(self._place.step_folder(task.step_id), task))
        record = await self._with_lock(partial(step.open, restarts=not continues))
        if record.phase is Phase.WORKING:
            self._announce(task, record, "created")
            if record.base.left_out:
                message = LEFT_UNREAD.format(step=repr(task.step_id), files=name_some(record.base.left_out))
                self._warn(task, message, code="worktree.left_out")
            elsewhere = getattr(self._inner, "works_elsewhere", False)
            setup = tuple(self._place.setup) if step.is_new or elsewhere else ()
            result = await self._inner.run(structs.replace(_in_worktree(task, step), setup=setup), stop)
            task = structs.replace(task, setup=setup if elsewhere else ())  # the merge and its checks happen here
            if _continues_later(result):
                return structs.replace(result, files_changed=(), folder=record.folder)  # the user's files are unchanged
            record = await self._finish(task, step, result)
        return await self._merge(task, stop, step, record)

    async def recover(self) -> None:
        """Complete the merges of a process that was killed. Call this before any step starts.

        Raises:
            WorktreeError, WorktreeRefusedError: Git or the disk refuses.
        """
        for rest in await anyio.to_thread.run_sync(self._place.put_away):
            await self._delete(rest)
        for step_id in await anyio.to_thread.run_sync(self._place.steps):
            record = await anyio.to_thread.run_sync(self._place.record, step_id)
            if record is not None and record.phase is Phase.MERGING:
                await self._in_turn((await self._worktree(step_id, record.attempt)).recover, step_id)

    async def clear(self, step_ids: Collection[str]) -> None:
        """Remove the worktrees of steps that will not be continued, and keep unmerged work on their branches.

        Raises:
            WorktreeError, WorktreeRefusedError: Git or the disk refuses.
        """
        for step_id in await anyio.to_thread.run_sync(self._place.steps):
            record = await anyio.to_thread.run_sync(self._place.record, step_id)
            if record is not None and step_id in step_ids:
                await self._with_lock((await self._worktree(step_id, record.attempt)).clear)

    @asynccontextmanager
    async def kept(self, step_id: str) -> AsyncGenerator[KeptWork | None]:
        """Yield the work that a failed step has on its branch, written out as files.

        Yield None if there is none, or if git or the disk refuses.
        """
        work: KeptWork | None = None
        try:
            record = await anyio.to_thread.run_sync(self._place.record, step_id)
            if record is not None and record.phase is Phase.DROPPED:
                written = partial(write_kept_work, record=record, folder=self._place.folder, step_id=step_id)
                work = await self._with_lock(written)
        except (WorktreeError, WorktreeRefusedError) as error:
            logger.warning("the work of step %s can't be read: %s", step_id, error)
        try:
            yield work
        finally:
            if work is not None:
                await self._delete(work.top)

    async def _delete(self, rest: Path) -> None:
        if self._deletions is not None:
            delete = partial(shutil.rmtree, rest, ignore_errors=True)  # keep its parent, where the next one is made
            self._deletions.start_soon(_shielded, delete)
        else:
            await _shielded(partial(remove_folder, rest))

    async def _finish(self, task: StepTask, step: StepWorktree, result: StepResult) -> WorktreeRecord:
        """Commit the attempt's work. If the attempt did not complete, keep the work on its branch, unmerged."""
        if result.outcome is Outcome.COMPLETED:
            try:
                return await _shielded(partial(step.finish, result, task.step.writes))
            except WorktreeError as error:
                if interrupted_by(error):
                    raise
                result = refused(result, error)
        return await self._with_lock(partial(step.drop, result=result))

    async def _merge(self, task: StepTask, stop: StopSignal, step: StepWorktree, record: WorktreeRecord) -> StepResult:
        """Merge, and have conflicts resolved, until the work is in the user's tree or can't be merged."""
        try:
            merged = await self._until_merged(task, stop, step, record)
        except WorktreeError as error:
            if interrupted_by(error):
                raise
            record = await anyio.to_thread.run_sync(self._place.record, task.step_id) or record
            result = record.result or StepResult(outcome=Outcome.FAILED)
            merged = await self._with_lock(partial(step.drop, result=refused(result, error)))
        if isinstance(merged, StepResult):
            return merged
        result = merged.result or StepResult(outcome=Outcome.FAILED, reason="merge", detail="its result is lost")
        if merged.phase is Phase.MERGED:
            self._announce(task, merged, "merged", files=result.files_changed, left_out=merged.left_out)
            await self._delete(await self._with_lock(step.clean_up))
            if merged.left_out:
                self._warn(task, LEFT_OUT.format(files=name_some(merged.left_out), step=repr(task.step_id)))
        else:
            self._announce(task, merged, "kept", detail=result.detail)
        branch = merged.branch if merged.phase is Phase.DROPPED and merged.branch in result.detail else ""
        return structs.replace(result, folder=merged.folder, branch=branch)

    async def _until_merged(
        self, task: StepTask, stop: StopSignal, step: StepWorktree, record: WorktreeRecord
    ) -> WorktreeRecord | StepResult:
        while record.phase not in ENDED:
            if record.phase is Phase.RESOLVING:
                resolved = await self._resolve(task, stop, step, record)
                if isinstance(resolved, StepResult):
                    return resolved
            record = await self._in_turn(step.merge, task.step_id)
        return record

    async def _resolve(
        self, task: StepTask, stop: StopSignal, step: StepWorktree, record: WorktreeRecord
    ) -> WorktreeRecord | StepResult:
        """Have a subagent resolve the conflict, then run the checks again.

        Return a result, rather than the new record, if the attempt stops here and continues later.
        """
        conflict = await self._with_lock(step.begin_conflict)
        theirs = await anyio.to_thread.run_sync(other_side, await self._repository(), record.base, conflict)
        resolving = ConflictResolution(conflict=conflict, round=record.rounds, theirs=theirs)
        so_far = record.result or StepResult(outcome=Outcome.FAILED)
        clash = f"conflicts in {name_some(conflict.paths)}"
        self._warn(task, f"merging step {task.step_id!r} found {clash}: a subagent resolves them")
        self._announce(task, record, "conflict", files=tuple(conflict.paths))
        task, problem = _in_worktree(task, step), ""
        checks = await anyio.to_thread.run_sync(step.checks, task)
        for tries in range(1, MOST_TRIES + 1):
            job = resolving.task(task, so_far, tries, problem)
            if job is None:
                problem = problem or "no budget left for it"
                break
            done = await self._inner.run(job, stop)
            so_far = with_usage_of(so_far, done)
            if _continues_later(done):
                return _paused(so_far, done)
            if done.outcome is not Outcome.COMPLETED:
                problem = done.detail or done.reason or done.outcome.value
                so_far = structs.replace(so_far, any_model=done.is_limited_by_plan)
                break
            problem = await anyio.to_thread.run_sync(step.unresolved, conflict, checks, task.step.writes)
            if not problem and task.step.verify:
                check = task.with_step(title=f"Check the merge of: {task.step.title}")
                checked = await self._inner.run(structs.replace(check, only_checks=True), stop)
                if _continues_later(checked):
                    return _paused(so_far, checked)
                failure = f"{checked.detail}\n{checked.summary}".strip()
                problem = failure if checked.outcome is not Outcome.COMPLETED else ""
            if not problem:
                resolved = await _shielded(partial(step.end_conflict, conflict, so_far))
                self._announce(task, resolved, "resolved", files=tuple(conflict.paths))
                return resolved
        unresolved = refused(so_far, f"the {clash} are not resolved: {problem.splitlines()[0]}")
        return await self._with_lock(partial(step.drop, result=unresolved))

    async def _repository(self) -> Repository:
        if self._opened is None:
            self._opened = await anyio.to_thread.run_sync(self._open_repository)
        return self._opened

    async def _in_turn(self, act: Callable[[Repository], T], step_id: str) -> T:
        """Call ``act``, which writes the user's files, in the run's turn to write."""
        async with nullcontext() if self._turns is None else self._turns(waits_told(self._sink, step_id)):
            return await self._with_lock(act)

    async def _with_lock(self, act: Callable[[Repository], T]) -> T:
        """Call ``act`` in a thread while the repository is locked against other steps and processes."""
        repository = await self._repository()
        async with self._lock:
            while True:
                if lock := await anyio.to_thread.run_sync(lock_repository, repository.common_dir):
                    return await _shielded(partial(_locked, repository, lock, act))
                await anyio.sleep(LOCK_POLL_SECONDS)

    async def _worktree(self, step_id: str, attempt: int, title: str = "") -> StepWorktree:
        repository = await self._repository()
        return StepWorktree(place=self._place, step_id=step_id, number=attempt, title=title, repository=repository)

    def _announce(self, task: StepTask, record: WorktreeRecord, status: str, **fields: Any) -> None:
        event = WorktreeEvent(
            subagent_step_id=task.step_id,
            status=status,
            attempt=record.attempt,
            folder=record.folder,
            branch=record.branch,
            round=record.rounds,
            base=record.base.commit,
            commit=record.work or "",
            **fields,
        )
        self._sink.publish(event)

    def _warn(self, task: StepTask, message: str, code: str = "merge") -> None:
        self._sink.publish(WarningEvent(code=code, message=message, subagent_step_id=task.step_id))


def _locked(repository: Repository, lock: FileLock, act: Callable[[Repository], T]) -> T:
    with held(repository, lock) as locked:
        return act(locked)


async def _shielded(act: Callable[[], T]) -> T:
    """Call ``act``, which is short, in a thread, and let it complete even if the step is cancelled meanwhile."""
    return await shielded(partial(anyio.to_thread.run_sync, act))


def _in_worktree(task: StepTask, step: StepWorktree) -> StepTask:
    if task.has_agent:
        task = task.with_step(prompt=f"{task.step.instructions}\n\n{OWN_TREE}")
    return structs.replace(task, workdir=str(step.folder.workdir))


def _continues_later(result: StepResult) -> bool:
    """Return whether the attempt will be continued later, in the same worktree."""
    is_refused = result.provider_refused and result.outcome is not Outcome.COMPLETED
    return result.outcome is Outcome.INTERRUPTED or is_refused


def _paused(so_far: StepResult, last: StepResult) -> StepResult:
    """Return the result of an attempt that stopped during a merge, which will be continued."""
    ended = {name: getattr(last, name) for name in ("outcome", "reason", "detail", "provider_refused")}
    return structs.replace(so_far, **ended, files_changed=())


def refused(result: StepResult, problem: object) -> StepResult:
    """Return the result of a step that is done but can't be merged."""
    outcome, reason = (Outcome.LIMIT, "budget") if result.any_model else (Outcome.FAILED, "merge")
    return structs.replace(result, outcome=outcome, reason=reason, detail=f"done, but can't be merged: {problem}")


MOST_COMMITS = 20
"""Commits of the other side that a prompt names."""
MOST_SUMMARY = 2_000
"""Characters of the step's own summary that a prompt quotes."""

PROMPT = """\
The work of step {step_id!r} is done and was committed. Merging it clashes with what came into the project meanwhile.
You are in the step's git worktree, in the middle of that merge. These files hold conflicts:
{files}

The side called {label} is this step's:
{ours}

The side called {onto} is what is in the project now:
{theirs}

Resolve every conflict so that what both sides meant is kept, and remove every line of marks ({marks}). Where a file
cannot be marked (it is binary, or one side deleted it) it says what to choose from: put the right content in its place
or delete it. Change nothing else. Do not commit, abort or start the merge again: the host commits what the files hold
when you are done.
"""


class ConflictResolution(Struct, frozen=True, kw_only=True):
    """A conflict to be resolved, number ``round`` of the step.

    ``theirs`` describes what came into the project meanwhile.
    """

    conflict: MergeConflict
    round: int
    theirs: Sequence[str]

    def task(self, task: StepTask, so_far: StepResult, tries: int, problem: str) -> StepTask | None:
        """Return the task of try number ``tries``, with what is left of the step's budget, or None if nothing is left.

        ``problem`` says what was wrong with the try before.
        """
        spent, cost = so_far.usage.total_tokens, so_far.cost_usd or 0.0
        price = None if task.step.max_price is None else task.step.max_price - cost
        if spent >= task.max_tokens or (price is not None and price <= 0):
            return None
        return structs.replace(
            task.with_step(
                title=f"Resolve the conflicts of: {task.step.title}",
                mode=ExecutionMode.CODE,
                prompt=self._prompt(task, so_far, problem),
                command=None,
                verify=[],
                max_price=price,
                output_schema=None,
            ),
            max_tokens=task.max_tokens - spent,
            inputs=(),
            told=(),
            conversation=f"merge{self.round}" if tries == 1 else f"merge{self.round}-{tries}",
        )

    def _prompt(self, task: StepTask, so_far: StepResult, problem: str) -> str:
        prompt = PROMPT.format(
            step_id=task.step_id,
            files="\n".join(f"- {path!r}" for path in self.conflict.paths),
            label=OUR_LABEL,
            ours=f"{task.step.title}\n{so_far.summary[:MOST_SUMMARY]}".strip(),
            onto=self.conflict.onto,
            theirs="\n".join(f"- {line}" for line in self.theirs),
            marks="<<<<<<<, |||||||, =======, >>>>>>>",
        )
        if task.step.verify:
            checks = "\n".join(f"- `{line}`" for line in task.step.verify)
            prompt += f"\nThen the host runs these checks:\n{checks}\n"
        return f"{prompt}\nAn earlier try was not good enough: {problem}\n" if problem else prompt


def other_side(repository: Repository, base: Base, conflict: MergeConflict) -> tuple[str, ...]:
    """Return descriptions of what came into the project, in the files that clash, since the step began."""
    paths = [f":(top,literal){path}" for path in conflict.paths]
    words = ("log", "-z", f"-{MOST_COMMITS}", "--no-merges", "--format=%s (%b)", f"{base.head}..{conflict.head}")
    subjects = [" ".join(item.split()) for item in repository.git(*words, "--", *paths).items]
    if conflict.onto != conflict.head:
        subjects.append("changes in the working tree that are not committed")
    return tuple(subjects)


def with_usage_of(first: StepResult, second: StepResult) -> StepResult:
    """Return ``first`` with the usage, turns, time, denials and agents of ``second`` added."""
    return structs.replace(
        first,
        **structs.asdict(total_of((first, second))),
        turns=first.turns + second.turns,
        duration_s=first.duration_s + second.duration_s,
        denied=(*first.denied, *second.denied),
        agents=(*first.agents, *second.agents),
        agent_id=first.agent_id or second.agent_id,
    )
