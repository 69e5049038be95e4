"""What a plan's worktree steps left in a repository, found by name; given up, or removed."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from subagents.worktree_apply import scratch_folder
from subagents.worktree_errors import WorktreeError
from subagents.worktree_folder import PUT_AWAY, WorktreeFolder, put_away_in, remove_folder
from subagents.worktree_lock import lock_repository
from subagents.worktree_record import Phase, read_record
from subagents.worktree_repository import Repository
from subagents.worktree_steps import Attempt, StepWorktree, plan_branches, steps_with_leftovers

LOCK_SECONDS = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Leftovers:
    """Worktrees and branches of one plan."""

    worktrees: tuple[Path, ...] = ()
    branches: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.worktrees or self.branches)


def find_leftovers(repository: Repository | None, folder: Path, plan_id: str) -> Leftovers:
    """What there is of a plan whose worktrees are in ``folder``; None: its repository is gone. Blocks.

    Raises:
        WorktreeError: git refuses.
    """
    found: dict[Path, None] = {}
    with suppress(OSError):
        found.update(dict.fromkeys(sorted(folder.iterdir())))
    if repository is None:
        return Leftovers(worktrees=tuple(found))
    listed = repository.git("worktree", "list", "--porcelain", "-z").items
    known = (Path(item.removeprefix("worktree ")) for item in listed if item.startswith("worktree "))
    found.update(dict.fromkeys(path for path in known if path.parent == folder))
    refs = repository.git("for-each-ref", "--format=%(refname)", f"refs/heads/{plan_branches(plan_id)}").text
    branches = tuple(ref.removeprefix("refs/heads/") for ref in refs.splitlines())
    return Leftovers(worktrees=tuple(found), branches=branches)


def give_up_worktrees(repository: Repository, folder: Path, plan_id: str, step_folder: Callable[[str], Path]) -> None:
    """Remove the worktrees in ``folder`` of a plan that will not be gone on with. Blocks.

    What was not merged is kept on its branch; a merge that was cut off is carried to its end first.

    Raises:
        WorktreeError: git or the disk refuses, or another process does not let go of the repository.
    """
    with _alone(repository) as held:
        for step_id in steps_with_leftovers(folder):
            record = read_record(step_folder(step_id))
            if record is None:
                continue
            whose = Attempt(
                plan_id=plan_id,
                step_id=step_id,
                title="",
                number=record.attempt,
                folder=folder,
                step_folder=step_folder(step_id),
            )
            step = StepWorktree(whose, repository)
            if record.phase is Phase.MERGING:
                step.recover(held)
            step.clear(held)
    for rest in put_away_in(folder):
        remove_folder(rest)


def remove_leftovers(repository: Repository | None, folder: Path, leftovers: Leftovers) -> None:
    """Remove them. Blocks.

    Raises:
        WorktreeError: git refuses, or another process does not let go of the repository.
    """
    if repository is not None:
        with _alone(repository) as held:
            for path in (path for path in leftovers.worktrees if not path.name.startswith(PUT_AWAY)):
                WorktreeFolder(repository=held, path=path, branch="").remove()
            for branch in leftovers.branches:
                WorktreeFolder(repository=held, path=folder, branch=branch).delete_branch()
    for path in leftovers.worktrees:
        shutil.rmtree(path, ignore_errors=True)
    with suppress(OSError):
        folder.rmdir()


@contextmanager
def _alone(repository: Repository) -> Generator[Repository]:
    lock = lock_repository(repository.common_dir, LOCK_SECONDS)
    if lock is None:
        raise WorktreeError(f"another run is at work in {str(repository.top)!r}: try again when it has ended")
    try:
        held = repository.holding(lock.descriptor)
        with scratch_folder(held):
            yield held
    finally:
        lock.release()
