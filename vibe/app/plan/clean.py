"""Cleans up after ended plans: lists or removes worktrees, branches with unmerged work, and copies of samples."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Collection, Iterator, Sequence
from contextlib import AbstractContextManager, suppress
from functools import cache, partial
from pathlib import Path

from msgspec import Raw, Struct, json, structs

from ipc.events import PlanAttemptEvent
from planner.plan.status import OPEN_STATUSES
from planner.store.errors import UnknownPlanError, writing
from planner.store.folder import LOCK_FILE, PlanFolder, PlanSummary, find_plan, list_plans, lock_plan, plans_folder
from planner.store.store import PlanStore
from subagents.worktree import lifecycle
from subagents.worktree.apply import held, lock_repository
from subagents.worktree.errors import WorktreeError, WorktreeRefusedError
from subagents.worktree.repository import Repository, open_repository
from subagents.worktree.worktree import PUT_AWAY, Worktree, remove_folder, remove_if_empty
from vibe.app.engine.host import Host
from vibe.app.plan.prepare import remove_sample_copy, sample_copy
from vibe.app.plan.worktrees import git_folder, place_of, worktrees_folder
from vibe.system.errors import UsageError
from vibe.system.files import entries_of

LOCK_SECONDS = 30.0

_PLAN_ID = r"(?:[0-9a-f]{6}-\d{8}|\d{8}-[0-9a-f]{6})"
_BRANCH = re.compile(rf"vibe/({_PLAN_ID})/([a-z0-9_-]+)(?:\.\d+)?")


class PlanWorktrees(Struct, frozen=True, kw_only=True):
    """Worktrees and branches of one plan."""

    worktrees: tuple[Path, ...] = ()
    branches: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.worktrees or self.branches)


def find_worktrees(repository: Repository | None, folder: Path, plan_id: str) -> PlanWorktrees:
    """Return the worktrees and branches of a plan whose worktrees are in ``folder``. Blocks.

    ``repository`` is None if the plan's repository is gone.

    Raises:
        WorktreeError: git refuses.
    """
    found = dict.fromkeys(sorted(folder / entry.name for entry in entries_of(folder)))
    if repository is None:
        return PlanWorktrees(worktrees=tuple(found))
    found.update(dict.fromkeys(path for path in _worktrees(repository) if path.parent == folder))
    refs = repository.git("for-each-ref", "--format=%(refname)", f"refs/heads/{lifecycle.plan_branches(plan_id)}").text
    branches = tuple(ref.removeprefix("refs/heads/") for ref in refs.splitlines())
    return PlanWorktrees(worktrees=tuple(found), branches=branches)


def give_up_worktrees(repository: Repository, place: lifecycle.WorktreePlace) -> None:
    """Remove the worktrees of a plan that will not be continued. Blocks.

    Unmerged work is kept on its branch. A merge that was cut off is finished first.

    Raises:
        WorktreeError: git or the disk refuses, or another process does not release the repository.
    """
    with _locked(repository) as locked:
        for step_id in place.steps(put_away=True):
            record = place.record(step_id)
            if record is None:
                continue
            step = lifecycle.StepWorktree(place=place, step_id=step_id, number=record.attempt, repository=repository)
            if record.phase is lifecycle.Phase.MERGING:
                step.recover(locked)
            step.clear(locked)
    for rest in place.put_away():
        remove_folder(rest)


def remove_worktrees(repository: Repository | None, folder: Path, found: PlanWorktrees) -> None:
    """Remove worktrees and branches. Blocks.

    Raises:
        WorktreeError: git refuses, or another process does not release the repository.
    """
    if repository is not None:
        with _locked(repository) as locked:
            for path in (path for path in found.worktrees if not path.name.startswith(PUT_AWAY)):
                Worktree(repository=locked, path=path, branch="").remove()
            for branch in found.branches:
                Worktree(repository=locked, path=folder, branch=branch).delete_branch()
    for path in found.worktrees:
        shutil.rmtree(path, ignore_errors=True)
    remove_if_empty(folder)


def _locked(repository: Repository) -> AbstractContextManager[Repository]:
    lock = lock_repository(repository.common_dir, LOCK_SECONDS)
    if lock is None:
        raise WorktreeError(f"another run is working in {str(repository.top)!r}: try again when it has ended")
    return held(repository, lock)


class Orphans(Struct, frozen=True, kw_only=True):
    """The remains of a plan whose folder is gone.

    Removing ``empty`` loses nothing: it holds worktrees whose folders are gone, and merged branches. ``unmerged`` are
    branches with work of the plan's steps.
    """

    plan_id: str
    empty: PlanWorktrees
    unmerged: tuple[str, ...]


class _Branch(Struct, frozen=True, kw_only=True):
    name: str
    plan_id: str
    is_merged: bool
    worktree: str


def find_orphans(repository: Repository, plans: Path, known: Collection[str]) -> list[Orphans]:
    """Return the remains of plans whose folders in ``plans`` are gone.

    ``known`` are the plans that have one. Blocks.

    Whatever may belong to a plan of another user, or of another home, is left out: a worktree that exists, or is meant
    to be elsewhere, and a branch that is checked out in one.

    Raises:
        WorktreeError: git refuses.
    """
    trees: dict[str, list[Path]] = {}
    for path in _worktrees(repository):
        plan_id = _plan_of(path, plans)
        if plan_id and plan_id not in known and not os.path.lexists(path):
            trees.setdefault(plan_id, []).append(path)
    gone = {str(path) for paths in trees.values() for path in paths}
    branches = [
        branch
        for branch in _branches(repository)
        if branch.plan_id not in known and (not branch.worktree or branch.worktree in gone)
    ]
    return [
        Orphans(
            plan_id=plan_id,
            empty=PlanWorktrees(
                worktrees=tuple(trees.get(plan_id, ())),
                branches=tuple(b.name for b in branches if b.plan_id == plan_id and b.is_merged),
            ),
            unmerged=tuple(b.name for b in branches if b.plan_id == plan_id and not b.is_merged),
        )
        for plan_id in sorted({*trees, *(branch.plan_id for branch in branches)})
    ]


def _worktrees(repository: Repository) -> Iterator[Path]:
    """Yield the worktrees that git knows and that are not locked, except the user's main one."""
    listed = repository.git("worktree", "list", "--porcelain", "-z").out.split(b"\0\0")
    for block in listed[1:]:
        lines = [os.fsdecode(line) for line in block.split(b"\0") if line]
        if lines and not any(line.partition(" ")[0] == "locked" for line in lines):
            yield Path(lines[0].removeprefix("worktree "))


def _plan_of(path: Path, plans: Path) -> str:
    """Return the plan that a worktree was made for, judged by its path; empty if it was not made for one."""
    place = path.parent
    is_ours = place.name == "worktrees" and os.path.realpath(place.parent.parent) == os.path.realpath(plans)
    return place.parent.name if is_ours and re.fullmatch(_PLAN_ID, place.parent.name) else ""


def _branches(repository: Repository) -> Iterator[_Branch]:
    """Yield the branches that are ours beyond doubt.

    They have a name of ours, and their last commit is ours too, unless it is merged.
    """
    fields = "%(refname)%00%(worktreepath)%00%(contents:body)%00%00"
    found = repository.git("for-each-ref", f"--format={fields}", "refs/heads/vibe/").out.split(b"\0\0\n")
    listed = repository.git("for-each-ref", "--merged=HEAD", "--format=%(refname)", "refs/heads/vibe/")
    merged = {*listed.text.split()}
    for ref, worktree, body in (os.fsdecode(one).split("\0", 2) for one in found if one):
        name = ref.removeprefix("refs/heads/")
        matched = _BRANCH.fullmatch(name)
        if matched is None or not name.startswith(lifecycle.plan_branches(matched[1])):
            continue
        if ref in merged or lifecycle.commit_mark(matched[2], matched[1]) in body:
            yield _Branch(name=name, plan_id=matched[1], is_merged=ref in merged, worktree=worktree)


class PlanRemains(Struct, frozen=True, kw_only=True):
    """The remains of one plan.

    ``kept_because`` says why they were left; if it is empty, they were removed, or would be.

    ``sample`` is the temporary copy of a demonstration's project in which it worked, and ``record`` the plan's own
    folder.
    """

    plan_id: str
    found: PlanWorktrees
    sample: Path | None = None
    kept_because: str = ""
    record: Path | None = None


def clean_plans(
    host: Host, references: Sequence[str], *, cwd: Path, dry_run: bool, records: bool = False
) -> list[PlanRemains]:
    """Clean up after the named plans, or all that have ended, and return the plans with anything to clean. Blocks.

    The remains of a plan whose folder is gone are looked for in the repository around ``cwd``. Its unmerged work is
    removed only if the plan was named. With ``records``, the plans' own folders are removed as well, and with them all
    that is known of the plans.

    Raises:
        UsageError: there is no such plan, or a named one is running or can be resumed. Nothing was removed.
        EnvironmentFailure: git or the disk refuses.
    """
    repository_at = cache(partial(_repository_at, host=host))  # thousands of plans may share a few repositories
    repository, root = repository_at(cwd), plans_folder(host.home)
    orphans = find_orphans(repository, root, {plan.plan_id for plan in list_plans(host.home)}) if repository else []
    found = [_find_named(host, reference, orphans) for reference in references]
    folders = [one for one in found if isinstance(one, PlanFolder)]
    for folder in folders:
        why = _kept_because(folder.summary())
        if why:
            raise UsageError(f"plan {folder.plan_id} is not cleaned: {why}")
    if not references:
        folders = [PlanFolder(root / plan.plan_id) for plan in list_plans(host.home) if plan.problem is None]
    cleaned = [
        _clean(folder, host, repository_at(Path(folder.settings().workspace)), dry_run=dry_run) for folder in folders
    ]
    if records:
        cleaned = [_without_record(one, root, dry_run=dry_run) for one in cleaned]
    if repository is not None:
        for orphan in [one for one in found if isinstance(one, Orphans)] if references else orphans:
            cleaned += _clean_orphans(repository, orphan, root, named=bool(references), dry_run=dry_run)
    return [one for one in cleaned if one.found or one.sample or one.record]


def _without_record(cleaned: PlanRemains, root: Path, *, dry_run: bool) -> PlanRemains:
    """Remove the folder of a plan that has ended, under its lock."""
    if cleaned.kept_because:
        return cleaned
    path = root / cleaned.plan_id
    if not dry_run:
        with lock_plan(path / LOCK_FILE, cleaned.plan_id), writing(path):
            shutil.rmtree(path)
    return structs.replace(cleaned, record=path)


def give_up(host: Host, folder: PlanFolder) -> None:
    """Remove the worktrees of a plan that was cancelled and is not running. Its branches stay. Blocks.

    Raises:
        EnvironmentFailure: git or the disk refuses.
    """
    place = place_of(folder)
    repository = _repository_at(Path(folder.settings().workspace), host) if os.path.isdir(place.folder) else None
    if repository is not None:
        give_up_worktrees(repository, place)


def note_merged(host: Host, store: PlanStore) -> None:
    """Record that steps are done whose work was merged when their run was killed; finish what it was merging. Blocks.

    Raises:
        EnvironmentFailure: git or the disk refuses.
    """
    place, state = place_of(store.folder), store.state()
    for step_id in [step_id for step_id in state.running if not state.steps[step_id].attempt_over]:
        record = place.record(step_id)
        if record is None or record.attempt != state.steps[step_id].attempt:
            continue
        repository = _repository_at(Path(store.settings.workspace), host)
        if record.phase is lifecycle.Phase.MERGING and repository is not None:
            step = lifecycle.StepWorktree(place=place, step_id=step_id, number=record.attempt, repository=repository)
            with _locked(repository) as locked:
                record = step.recover(locked)
        if record.phase is lifecycle.Phase.MERGED and record.result is not None:
            result = Raw(json.encode(record.result))
            at, plan_id = state.updated, store.plan_id
            ended = PlanAttemptEvent(ts=at, plan_id=plan_id, step_id=step_id, attempt=record.attempt, result=result)
            store.append(ended)


def what_is_left(host: Host, folder: PlanFolder) -> str:
    """Return a phrase on what is left of a cancelled plan and how to remove it; empty if nothing is. Blocks.

    Raises:
        EnvironmentFailure: git or the disk refuses.
    """
    repository = _repository_at(Path(folder.settings().workspace), host)
    found = find_worktrees(repository, worktrees_folder(folder), folder.plan_id)
    if not found:
        return ""
    kept = f"unmerged work is kept on {', '.join(found.branches)}" if found.branches else ""
    left = "its worktrees still exist" if found.worktrees else ""
    return f"{' and '.join(filter(None, (left, kept)))}; remove with `vibe plan clean {folder.plan_id}`"


def _find_named(host: Host, reference: str, orphans: Sequence[Orphans]) -> PlanFolder | Orphans:
    try:
        return find_plan(host.home, reference)
    except UnknownPlanError:
        matches = [one for one in orphans if one.plan_id == reference]  # only the full id may delete work
        if not matches:
            raise
        return matches[0]


def _clean_orphans(
    repository: Repository, orphans: Orphans, root: Path, *, named: bool, dry_run: bool
) -> Iterator[PlanRemains]:
    going = orphans.empty
    if named:
        going = structs.replace(going, branches=(*going.branches, *orphans.unmerged))
    if going and not dry_run:
        remove_worktrees(repository, root / orphans.plan_id / "worktrees", going)
    yield PlanRemains(plan_id=orphans.plan_id, found=going)
    if orphans.unmerged and not named:
        why = (
            f"{', '.join(orphans.unmerged)} holds unmerged work, and no plan with that id is in {str(root)!r}; "
            f"`vibe plan clean {orphans.plan_id}` removes it"
        )
        left = PlanWorktrees(branches=orphans.unmerged)
        yield PlanRemains(plan_id=orphans.plan_id, found=left, kept_because=why)


def _clean(folder: PlanFolder, host: Host, repository: Repository | None, *, dry_run: bool) -> PlanRemains:
    place = worktrees_folder(folder)
    found = find_worktrees(repository, place, folder.plan_id)
    sample = sample_copy(folder.settings())
    why = _kept_because(folder.summary()) or (_other_user_of(sample, folder, host) if sample else "")
    if found and not why and not dry_run:
        remove_worktrees(repository, place, found)
    if sample and not why and not dry_run:
        remove_sample_copy(sample)
    return PlanRemains(plan_id=folder.plan_id, found=found, sample=sample, kept_because=why)


def _other_user_of(sample: Path, folder: PlanFolder, host: Host) -> str:
    """Return why a sample's copy is still needed: a plan that reused results of this one works in it, too."""
    for plan in list_plans(host.home):
        other = plan.plan_id != folder.plan_id and plan.problem is None and _kept_because(plan)
        if other and sample_copy(PlanFolder(folder.path.parent / plan.plan_id).settings()) == sample:
            return f"plan {plan.plan_id} is using its copy of the sample"
    return ""


def _kept_because(plan: PlanSummary) -> str:
    if plan.holder is not None:
        return f"process {plan.holder} is running it"
    if plan.status in OPEN_STATUSES:
        return f"it can be resumed; `vibe plan cancel {plan.plan_id}` ends it for good"
    return ""


def _repository_at(workspace: Path, host: Host) -> Repository | None:
    with suppress(WorktreeRefusedError):
        return open_repository(workspace, host.environ, git_folder(host.home)) if os.path.isdir(workspace) else None
    return None
