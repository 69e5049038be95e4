"""The remains of worktree steps in a repository, of a plan that is known or of one whose folder is gone.

Given up, or removed. Of the latter, what is the user's is told apart by name and by what commits say.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Collection, Generator, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from msgspec import Struct

from subagents.worktree.apply import held, lock_repository
from subagents.worktree.errors import WorktreeError
from subagents.worktree.lifecycle import (
    Attempt,
    Phase,
    StepWorktree,
    WorktreePlace,
    plan_branches,
    work_of,
)
from subagents.worktree.repository import Repository
from subagents.worktree.worktree import PUT_AWAY, Worktree, remove_folder, remove_if_empty

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
    """Return what there is of a plan whose worktrees are in ``folder``; None: its repository is gone. Blocks.

    Raises:
        WorktreeError: git refuses.
    """
    found: dict[Path, None] = {}
    with suppress(OSError):
        found.update(dict.fromkeys(sorted(folder.iterdir())))
    if repository is None:
        return PlanWorktrees(worktrees=tuple(found))
    listed = repository.git("worktree", "list", "--porcelain", "-z").items
    known = (Path(item.removeprefix("worktree ")) for item in listed if item.startswith("worktree "))
    found.update(dict.fromkeys(path for path in known if path.parent == folder))
    refs = repository.git("for-each-ref", "--format=%(refname)", f"refs/heads/{plan_branches(plan_id)}").text
    branches = tuple(ref.removeprefix("refs/heads/") for ref in refs.splitlines())
    return PlanWorktrees(worktrees=tuple(found), branches=branches)


def give_up_worktrees(repository: Repository, place: WorktreePlace) -> None:
    """Remove the worktrees of a plan that will not be continued. Blocks.

    What was not merged is kept on its branch; a merge that was cut off is carried to its end first.

    Raises:
        WorktreeError: git or the disk refuses, or another process does not let go of the repository.
    """
    with _alone(repository) as locked:
        for step_id in place.steps(put_away=True):
            record = place.record(step_id)
            if record is None:
                continue
            step = StepWorktree(Attempt(place=place, step_id=step_id, number=record.attempt), repository)
            if record.phase is Phase.MERGING:
                step.recover(locked)
            step.clear(locked)
    for rest in place.put_away():
        remove_folder(rest)


def remove_worktrees(repository: Repository | None, folder: Path, found: PlanWorktrees) -> None:
    """Remove them. Blocks.

    Raises:
        WorktreeError: git refuses, or another process does not let go of the repository.
    """
    if repository is not None:
        with _alone(repository) as locked:
            for path in (path for path in found.worktrees if not path.name.startswith(PUT_AWAY)):
                Worktree(repository=locked, path=path, branch="").remove()
            for branch in found.branches:
                Worktree(repository=locked, path=folder, branch=branch).delete_branch()
    for path in found.worktrees:
        shutil.rmtree(path, ignore_errors=True)
    remove_if_empty(folder)


@contextmanager
def _alone(repository: Repository) -> Generator[Repository]:
    lock = lock_repository(repository.common_dir, LOCK_SECONDS)
    if lock is None:
        raise WorktreeError(f"another run is working in {str(repository.top)!r}: try again when it has ended")
    with held(repository, lock) as locked:
        yield locked


class Orphans(Struct, frozen=True, kw_only=True):
    """The remains of a plan whose folder is gone.

    Nothing is lost with ``empty``: worktrees whose folders are gone, and branches that are merged. ``unmerged`` are
    branches with work of the plan's steps.
    """

    plan_id: str
    empty: PlanWorktrees
    unmerged: tuple[str, ...]

    @property
    def all(self) -> PlanWorktrees:
        """Both."""
        return PlanWorktrees(worktrees=self.empty.worktrees, branches=(*self.empty.branches, *self.unmerged))


class _Branch(Struct, frozen=True, kw_only=True):
    name: str
    plan_id: str
    is_merged: bool
    worktree: str


def find_orphans(repository: Repository, plans: Path, known: Collection[str]) -> list[Orphans]:
    """Return what plans left whose folders in ``plans`` are gone; ``known`` are those that have one. Blocks.

    What may belong to a plan of another user's, or of another home, is not among it: a worktree that is there, or is to
    be elsewhere, and a branch that is checked out in one.

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
    """The worktrees that git knows and that are not locked, but for the user's main one."""
    listed = repository.git("worktree", "list", "--porcelain", "-z").out.split(b"\0\0")
    for block in listed[1:]:
        lines = [os.fsdecode(line) for line in block.split(b"\0") if line]
        if lines and not any(line.partition(" ")[0] == "locked" for line in lines):
            yield Path(lines[0].removeprefix("worktree "))


def _plan_of(path: Path, plans: Path) -> str:
    """The plan that a worktree was made for, by where it is; blank: it was not."""
    place = path.parent
    is_ours = place.name == "worktrees" and os.path.realpath(place.parent.parent) == os.path.realpath(plans)
    return place.parent.name if is_ours and re.fullmatch(_PLAN_ID, place.parent.name) else ""


def _branches(repository: Repository) -> Iterator[_Branch]:
    """Yield branches that are ours beyond doubt: by name, and by their last commit unless that is the user's, too."""
    fields = "%(refname)%00%(worktreepath)%00%(contents:body)%00%00"
    found = repository.git("for-each-ref", f"--format={fields}", "refs/heads/vibe/").out.split(b"\0\0\n")
    merged = set(
        repository.git("for-each-ref", "--merged=HEAD", "--format=%(refname)", "refs/heads/vibe/").text.split()
    )
    for ref, worktree, body in (os.fsdecode(one).split("\0", 2) for one in found if one):
        name = ref.removeprefix("refs/heads/")
        matched = _BRANCH.fullmatch(name)
        if matched is None or not name.startswith(plan_branches(matched[1])):
            continue
        if ref in merged or work_of(matched[2], matched[1]) in body:
            yield _Branch(name=name, plan_id=matched[1], is_merged=ref in merged, worktree=worktree)
