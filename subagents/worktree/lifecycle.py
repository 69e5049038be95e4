"""Takes one attempt from a fresh worktree to merged files, and records each phase before the next begins."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from enum import StrEnum
from pathlib import Path

from msgspec import Struct, convert, structs, to_builtins

from subagents.executor import StepResult, StepTask
from subagents.step.tamper_guard import TamperGuard
from subagents.worktree.apply import apply_merge, index_lock, is_merged
from subagents.worktree.errors import (
    GitFailedError,
    MergeRefusedError,
    StaleTreeError,
    WorktreeError,
    name_some,
    on_disk,
)
from subagents.worktree.merge import MergeConflict, MergePlan, Work, merge_trees, plan_merge
from subagents.worktree.repository import DETACHED_HEAD, Base, Change, Repository, take_base
from subagents.worktree.worktree import PUT_AWAY, Worktree, remove_folder
from vibe.system.files import entries_of, regular_bytes, replace_file, text_of
from vibe.system.globs import matches_any, relative_glob

RECORD_FILE = "worktree.json"
"""The file in a step's folder that holds the record of its worktree."""


MERGE_FILE = "merged"
"""The file in a plan's folder that holds the commit of its latest merge, and the branch that this is on."""


class Phase(StrEnum):
    """The phase an attempt has reached."""

    CREATING = "creating"
    WORKING = "working"
    FINISHED = "finished"
    """The work is done and committed on its branch; the record has its ``result`` and ``work``."""
    RESOLVING = "resolving"
    """A subagent is resolving ``conflict``."""
    MERGING = "merging"
    """``plan`` is being carried out in the user's files."""
    MERGED = "merged"
    DROPPED = "dropped"
    """The attempt ended without a merge; any work is on its branch."""


class WorktreeRecord(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The record of one attempt's worktree.

    ``rounds`` counts the conflicts so far; ``left_out`` are paths whose changes are in no commit.
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


MOST_ROUNDS = 3
"""Conflicts that are resolved for one step. Each further one comes from work merged while the last was resolved."""

OUTSIDE = "it changed {files}, outside its `writes`: list it there if the step is meant to change it"
"""Says why work is not merged; ``files`` are named."""

RESOLVED_INDEX = "vibe-resolved"
"""The name of the copy of a worktree's index with the files as a resolution left them."""

MERGE_TRIES = 3
"""Attempts at a merge, because the user may save a file at the very moment it is compared."""

ENDED = frozenset({Phase.MERGED, Phase.DROPPED})


class WorktreePlace(Struct, frozen=True, kw_only=True):
    """The place of a plan's worktrees: ``folder`` holds them, ``step_folder`` returns where a step keeps its record.

    ``setup`` are the commands to run in each new worktree before its step. The methods read files.
    """

    plan_id: str
    folder: Path
    step_folder: Callable[[str], Path]
    setup: Sequence[str] = ()

    def steps(self, *, put_away: bool = False) -> list[str]:
        """Return the steps that have a worktree; with ``put_away`` also those with one put away, which git may know."""
        names = [e.name for e in entries_of(self.folder) if put_away or not e.name.startswith(PUT_AWAY)]
        return sorted({name.removeprefix(PUT_AWAY).partition(".")[0] for name in names})

    def put_away(self) -> list[Path]:
        """Return the folders of worktrees that were put away and are still to be deleted."""
        return list(self.folder.glob(f"{PUT_AWAY}*"))

    def note_merge(self, commit: str, ref: str) -> None:
        """Record the commit of a merge, and its branch. Failures of the disk are ignored."""
        with suppress(OSError):
            replace_file(self.folder.with_name(MERGE_FILE), f"{commit} {ref}".encode(), sync=False)

    def check_base(self, repository: Repository, base: Base) -> None:
        """Check that a base is on the branch of the latest merge, or holds that merge, be it squashed or rebased.

        Raises:
            WorktreeError: it is elsewhere, and so lacks the work of earlier steps.
        """
        commit, _, ref = text_of(self.folder.with_name(MERGE_FILE)).partition(" ")
        if commit and (not ref or ref != base.ref) and not repository.is_ancestor(commit, base.head):
            with suppress(GitFailedError):
                merged, clashes = merge_trees(repository, base.head, commit)
                if not clashes and not repository.changes(base.head, merged):
                    return
            problem = f"which lacks the work of earlier steps, merged at {ref or DETACHED_HEAD}"
            now = base.ref or DETACHED_HEAD
            raise WorktreeError(f"the repository is at {now}, {problem}: switch back, then run the step again")

    def record(self, step_id: str) -> WorktreeRecord | None:
        """Return the record of a step's latest worktree, or None if it never had one.

        Raises:
            WorktreeError: the record can't be read.
        """
        path = self.step_folder(step_id) / RECORD_FILE
        try:
            return convert(json.loads(regular_bytes(path)), WorktreeRecord)
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            problem = f"{str(path)!r} can't be read: {error}; its branch still holds the step's work"
            raise WorktreeError(problem) from error


def commit_mark(step_id: str, plan_id: str) -> str:
    """Return the sentence in the messages of a step's own commits that distinguishes them from others."""
    return f"The work of step {step_id!r} of plan {plan_id}."


def plan_branches(plan_id: str) -> str:
    """Return the prefix of the names of a plan's branches."""
    return f"vibe/{plan_id}/"


class StepWorktree(Struct, kw_only=True, eq=False):
    """The worktree of an attempt at a step, from its creation to its merge. All methods block: call them in a thread.

    Methods that take a repository need its lock held and its scratch folder.
    """

    place: WorktreePlace
    step_id: str
    number: int
    title: str = ""
    repository: Repository
    is_new: bool = False
    """True if the worktree was made, or made anew, by ``open``."""
    _changes: tuple[Change, ...] = ()  # those of the work, once they are known

    @property
    def folder(self) -> Worktree:
        """The worktree in the repository without its lock held."""
        return self.worktree(self.repository)

    def worktree(self, repository: Repository) -> Worktree:
        """Return the worktree in ``repository``. Its name is unique, because no step's id has a dot."""
        name = self.step_id if self.number == 1 else f"{self.step_id}.{self.number}"
        branch = f"{plan_branches(self.place.plan_id)}{name}"
        return Worktree(repository=repository, path=self.place.folder / name, branch=branch)

    @property
    def _headline(self) -> str:
        return " ".join(self.title.split()) or self.step_id

    @property
    def _message(self) -> str:
        """The message of the step's commit."""
        return f"{self._headline}\n\n{commit_mark(self.step_id, self.place.plan_id)}\n"

    def open(self, repository: Repository, *, restarts: bool) -> WorktreeRecord:
        """Continue the attempt from its recorded phase, or begin it with a fresh worktree.

        With ``restarts``, an attempt that was cut off at work starts over in a new worktree.

        Raises:
            WorktreeError: something is in progress in the repository, or git or the disk refuses.
        """
        record = self.place.record(self.step_id)
        if record is not None and record.attempt != self.number:
            structs.replace(self, number=record.attempt).clear(repository)
            record = None
        if record is not None and record.phase is Phase.MERGING:
            return self.recover(repository)
        if record is None or record.phase is Phase.CREATING:
            return self._create(repository)
        if record.phase is Phase.WORKING and (restarts or not self.folder.is_there):
            self.is_new = True
            self.worktree(repository).create(record.base)
        return record

    def finish(self, result: StepResult, writes: Sequence[str] | None) -> WorktreeRecord:
        """Commit the work on the worktree's branch.

        Raises:
            WorktreeError: it can't be committed.
            MergeRefusedError: it changed files outside the step's ``writes``.
        """
        record = self._record()
        work, changes = self.folder.commit(record.base, self._message) or (None, ())
        if writes is not None and (strayed := self._outside(writes, changes)):
            raise MergeRefusedError(OUTSIDE.format(files=name_some(strayed)))
        self._changes = changes
        names = tuple(self.repository.from_workspace(change.path) for change in changes)
        shown = tuple(name.encode("utf-8", "backslashreplace").decode() for name in names)
        result = structs.replace(result, files_changed=shown)
        return self._write(structs.replace(record, phase=Phase.FINISHED, work=work, result=result))

    def drop(self, repository: Repository, result: StepResult) -> WorktreeRecord:
        """End the attempt without a merge, and keep its work on its branch."""
        record = self._record()
        kept = _keep_on_branch(self.worktree(repository), record, self._message, known=result.detail)
        detail = f"{result.detail.rstrip('.')}; {kept}" if result.detail and kept else result.detail or kept
        result = structs.replace(result, detail=detail, files_changed=())  # no file of the user's has changed
        return self._write(structs.replace(record, phase=Phase.DROPPED, result=result, conflict=None, plan=None))

    def merge(self, repository: Repository) -> WorktreeRecord:
        """Merge the finished work, or record the conflict it has.

        Raises:
            WorktreeError: it can't be merged; the user's files are as they were.
        """
        record = self._record()
        if record.phase in ENDED:
            return record
        if record.work is None:
            return self._write(structs.replace(record, phase=Phase.MERGED), sync=False)
        with index_lock(repository):
            changes = self._changes or repository.changes(record.base.commit, record.work)
            whose = f"step {self.step_id!r} of plan {self.place.plan_id}"
            merge_message = f"Merge {whose}\n\n{self._headline}\n"
            work = Work(commit=record.work, changes=changes, message=self._message, merge_message=merge_message)
            for _ in range(MERGE_TRIES - 1):
                with suppress(StaleTreeError):
                    return self._merge_once(repository, record, work)
            return self._merge_once(repository, record, work)

    def _merge_once(self, repository: Repository, record: WorktreeRecord, work: Work) -> WorktreeRecord:
        plan = plan_merge(repository, record.base, work)
        if plan is None:
            return self._write(structs.replace(record, phase=Phase.MERGED))
        if isinstance(plan, MergeConflict):
            return self._write(structs.replace(record, phase=Phase.RESOLVING, conflict=plan, rounds=record.rounds + 1))
        merging = self._write(structs.replace(record, phase=Phase.MERGING, plan=plan))
        try:
            apply_merge(repository, plan)
        except StaleTreeError:
            self._write(record)
            raise
        # If a crash leaves "merging" on disk, `recover` finds the merge done.
        return self._merged(merging, plan, sync=False)

    def recover(self, repository: Repository) -> WorktreeRecord:
        """Continue a merge that was cut off.

        If the user's files have changed since, the record returns to FINISHED, so that the merge is planned anew.
        """
        record = self._record()
        plan = record.plan
        if plan is None:
            return record
        if is_merged(repository, plan):
            return self._merged(record, plan)
        if repository.git("rev-parse", "HEAD").text == plan.head:
            with suppress(StaleTreeError), index_lock(repository):  # if stale, it is planned anew, as recorded below
                apply_merge(repository, plan)
                return self._merged(record, plan)
        return self._write(structs.replace(record, phase=Phase.FINISHED, plan=None))

    def _merged(self, record: WorktreeRecord, plan: MergePlan, *, sync: bool = True) -> WorktreeRecord:
        """Record that a merge was carried out."""
        if plan.commit is not None:
            self.place.note_merge(plan.commit, record.base.ref)
        return self._write(structs.replace(record, phase=Phase.MERGED, plan=None, left_out=plan.left_out), sync=sync)

    def begin_conflict(self, repository: Repository) -> MergeConflict:
        """Begin the conflicting merge in the worktree, and return its conflict.

        Raises:
            WorktreeError: Git refuses, or the step had too many conflicts.
        """
        record = self._record()
        if record.conflict is None or record.work is None or record.rounds > MOST_ROUNDS:
            raise MergeRefusedError(f"it conflicted with other work {MOST_ROUNDS} times, each time elsewhere")
        folder = self.worktree(repository)
        if not folder.is_there:
            folder.create(record.base)
        folder.begin_conflict(record.work, record.conflict)
        return record.conflict

    def checks(self, task: StepTask) -> TamperGuard:
        """Return a guard of the files that the step's checks consist of, as they are during the merge."""
        record = self.place.step_folder(self.step_id) / f"verification.{self.number}.merge{self._record().rounds}.json"
        return TamperGuard(task, self.folder.workdir, record, tuple)

    def unresolved(self, conflict: MergeConflict, checks: TamperGuard, writes: Sequence[str] | None) -> str:
        """Return the reason that the resolution can't be committed, or an empty string."""
        clashing = {self.repository.from_workspace(path) for path in conflict.paths}
        if problem := self.folder.unresolved(conflict):
            return problem
        if changed := [path for path in checks.changed() if path not in clashing]:
            return f"{name_some(changed)} are part of the step's checks and were changed"
        if writes is None:
            return ""
        merged, _ = merge_trees(self.repository, conflict.onto, self._record().work or conflict.onto)
        own = self.repository.changes(merged, self.folder.tree(RESOLVED_INDEX))  # without what git itself merged
        strayed = [path for path in self._outside(writes, own) if path not in clashing]
        return OUTSIDE.format(files=name_some(strayed)) if strayed else ""

    def _outside(self, writes: Sequence[str], changes: Iterable[Change]) -> list[str]:
        """Return the changed paths, as seen from the workspace, that a step with these ``writes`` may not change."""
        workspace = str(self.repository.workspace)
        claims = [relative_glob(root, glob) for glob in writes for root in (str(self.folder.workdir), workspace)]
        above = [os.path.relpath(glob, workspace) for glob in claims if glob.startswith("/")]
        names = [self.repository.from_workspace(change.path) for change in changes]
        return [name for name in names if not matches_any(name, above if name.startswith("../") else claims)]

    def end_conflict(self, conflict: MergeConflict, result: StepResult) -> WorktreeRecord:
        """Commit the resolution, which is the step's work from now on; ``result`` includes what it cost.

        Raises:
            WorktreeError: it can't be committed.
        """
        work = self.folder.end_conflict(conflict, self._message)
        self._changes = ()
        resolved = structs.replace(
            self._record(), phase=Phase.FINISHED, base=conflict.base, work=work, result=result, conflict=None
        )
        return self._write(resolved)

    def clean_up(self, repository: Repository) -> Path:
        """Remove the worktree and branch of merged work, and the branches of earlier attempts.

        Return the folder that is left to be deleted.
        """
        rest = self.worktree(repository).put_away()
        for number in range(1, self.number + 1):
            structs.replace(self, number=number).worktree(repository).delete_branch()
        return rest

    def clear(self, repository: Repository) -> None:
        """Remove the worktree of an attempt that will not be continued, and keep unmerged work on its branch."""
        record = self._record()
        if record.phase is Phase.MERGED:
            remove_folder(self.clean_up(repository))
        elif record.phase is not Phase.DROPPED:
            _keep_on_branch(self.worktree(repository), record, self._message)
            self._write(structs.replace(record, phase=Phase.DROPPED, conflict=None, plan=None))

    def _create(self, repository: Repository) -> WorktreeRecord:
        busy = repository.busy_with()
        if busy:
            raise WorktreeError(f"{busy} is in progress in the repository: finish or abort it, then run the step again")
        folder, base = self.worktree(repository), take_base(repository)
        self.place.check_base(repository, base)
        record = WorktreeRecord(
            attempt=self.number, branch=folder.branch, folder=str(folder.path), base=base, phase=Phase.CREATING
        )
        self._write(record, sync=False)
        self.is_new = True
        folder.create(base)
        return self._write(structs.replace(record, phase=Phase.WORKING), sync=False)

    def _record(self) -> WorktreeRecord:
        record = self.place.record(self.step_id)
        if record is None:
            raise WorktreeError(f"{str(self.place.step_folder(self.step_id) / RECORD_FILE)!r} is gone")
        return record

    def _write(self, record: WorktreeRecord, *, sync: bool = True) -> WorktreeRecord:
        """Replace the record and return it; with ``sync`` it is on disk before this returns.

        Raises:
            WorktreeError: the disk is full or refuses.
        """
        path = self.place.step_folder(self.step_id) / RECORD_FILE
        with on_disk(path):
            # File names need not be valid text. `json`, unlike msgspec, writes even those in a form that it reads back.
            replace_file(path, json.dumps(to_builtins(record)).encode(), sync=sync)
        return record


def _keep_on_branch(folder: Worktree, record: WorktreeRecord, message: str, known: str = "") -> str:
    """Keep an attempt's work on its branch and remove its worktree.

    Return a phrase that says where the work is, and why it is not on the branch unless that is ``known``, or an empty
    string if there is none.
    """
    work = record.work
    try:
        if work is not None:
            folder.repository.git("update-ref", folder.ref, work)
        elif record.phase is Phase.WORKING and folder.is_there:
            work, _ = folder.commit(record.base, message) or (None, ())
    except WorktreeError as error:
        return f"its work is in {str(folder.path)!r}{'' if str(error) in known else f': {error}'}"
    folder.remove()
    if work is None:
        folder.delete_branch()
        return ""
    return f"its work is kept on branch {folder.branch}"
