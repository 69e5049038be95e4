"""What worktree steps left in a repository whose plan's folder is gone: told from what is the user's by name and words."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path

from subagents.worktree_leftovers import Leftovers
from subagents.worktree_repository import Repository
from subagents.worktree_steps import plan_branches, work_of

_PLAN_ID = r"(?:[0-9a-f]{6}-\d{8}|\d{8}-[0-9a-f]{6})"
_BRANCH = re.compile(rf"vibe/({_PLAN_ID})/([a-z0-9_-]+)(?:\.\d+)?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Orphans:
    """What there is of a plan nobody knows any more.

    Nothing is lost with ``empty``: worktrees whose folders are gone, and branches that are merged. ``unmerged`` are branches
    with work of the plan's steps.
    """

    plan_id: str
    empty: Leftovers
    unmerged: tuple[str, ...]

    @property
    def all(self) -> Leftovers:
        """Both."""
        return Leftovers(worktrees=self.empty.worktrees, branches=(*self.empty.branches, *self.unmerged))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Branch:
    name: str
    plan_id: str
    is_merged: bool
    worktree: str


def find_orphans(repository: Repository, plans: Path, known: Collection[str]) -> list[Orphans]:
    """What plans left whose folders in ``plans`` are gone; ``known`` are those that have one. Blocks.

    What may belong to a plan of another user's, or of another home, is not among it: a worktree that is there, or is to be
    elsewhere, and a branch that is checked out in one.

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
            empty=Leftovers(
                worktrees=tuple(trees.get(plan_id, ())),
                branches=tuple(b.name for b in branches if b.plan_id == plan_id and b.is_merged),
            ),
            unmerged=tuple(b.name for b in branches if b.plan_id == plan_id and not b.is_merged),
        )
        for plan_id in sorted({*trees, *(branch.plan_id for branch in branches)})
    ]


def _worktrees(repository: Repository) -> Iterator[Path]:
    """Those that git knows and nobody locked, but for the user's main one."""
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
    """Branches that are ours beyond doubt: by their names, and by what their last commit says unless it is the user's, too."""
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
