"""The carrying out of a merge in the user's working tree, index and branch: in that order, file by file.

Every file is replaced as a whole. What is found must be what the merge was worked out for, or what it leads to: so a
merge that was cut off is continued, and nothing else is ever overwritten.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Generator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from subagents.worktree.errors import GitFailedError, WorktreeError
from subagents.worktree.lock import drop_own_index_lock
from subagents.worktree.merge import MergePlan
from subagents.worktree.repository import ABSENT, Change, Repository
from subagents.worktree.working_tree import Disk


@contextmanager
def scratch_folder(repository: Repository) -> Generator[None]:
    """Our folder in the repository's own, empty at first and gone in the end; with the repository's lock held.

    Raises:
        WorktreeError: it can't be made.
    """
    drop_own_index_lock(repository.git_dir)
    shutil.rmtree(repository.scratch, ignore_errors=True)
    try:
        repository.scratch.mkdir(mode=0o700)
    except OSError as error:
        problem = f"{str(repository.scratch)!r} can't be created ({error.strerror}): is the repository writable?"
        raise WorktreeError(problem) from error
    try:
        yield
    finally:
        shutil.rmtree(repository.scratch, ignore_errors=True)


def apply_merge(repository: Repository, plan: MergePlan) -> None:
    """Change files, index and branch as planned; what is changed already is left. With both locks and scratch folder.

    Raises:
        StaleTreeError: a file is not as expected; nothing was changed.
        WorktreeError: the disk is full or refuses, or the branch moved.
    """
    due = Disk(repository).due(plan.files)
    index = repository.scratch / "index"
    if (repository.git_dir / "index").is_file():
        shutil.copyfile(repository.git_dir / "index", index)
    if plan.index:
        repository.update_index(index, plan.index)
    staged = _stage(repository, due, index if plan.index == plan.files else None)
    try:
        _remove(repository, due)
        _place(repository, due, staged)
        if plan.index:
            index.replace(repository.git_dir / "index")
    except OSError as error:
        raise WorktreeError(f"a step's files can't be written in {str(repository.top)!r}: {error}") from error
    if plan.commit is not None:
        _move_branch(repository, plan)


def is_merged(repository: Repository, plan: MergePlan) -> bool:
    """Return whether a merge was carried out to its end."""
    if plan.commit is not None:
        return repository.is_ancestor(plan.commit, "HEAD")
    return Disk(repository).all_done(plan.files)


def _stage(repository: Repository, due: Sequence[Change], index: Path | None) -> Path:
    """Have git write the new files beside the repository, as it would check them out; where they are."""
    folder = repository.scratch / "files"
    come = [change for change in due if change.new_mode != ABSENT]
    if come:
        if index is None:
            index = repository.scratch / "files.index"
            repository.update_index(index, come)
        listed = b"".join(os.fsencode(change.path) + b"\0" for change in come)
        repository.git("checkout-index", "-z", "--stdin", f"--prefix={folder}/", stdin=listed, index=index)
    return folder


def _remove(repository: Repository, due: Sequence[Change]) -> None:
    """Remove the files that go, and the folders that are empty without them."""
    for change in due:
        if change.new_mode != ABSENT:
            continue
        file = repository.top / change.path
        file.unlink(missing_ok=True)
        for folder in file.parents:
            if folder in (repository.top, repository.workspace) or folder in repository.workspace.parents:
                break
            with suppress(OSError):
                folder.rmdir()
                continue
            break


def _place(repository: Repository, due: Sequence[Change], staged: Path) -> None:
    for change in due:
        if change.new_mode == ABSENT:
            continue
        target = repository.top / change.path
        target.parent.mkdir(parents=True, exist_ok=True)
        if target.is_dir() and not target.is_symlink():
            _remove_empty(target)
        try:
            (staged / change.path).replace(target)
        except OSError:  # the repository's folder is on another file system
            draft = target.with_name(f".vibe-{os.getpid()}")
            shutil.copy2(staged / change.path, draft, follow_symlinks=False)
            draft.replace(target)


def _remove_empty(folder: Path) -> None:
    for path, _, _ in os.walk(folder, topdown=False):
        Path(path).rmdir()


def _move_branch(repository: Repository, plan: MergePlan) -> None:
    words = ("update-ref", "-m", "vibe: merge the work of a step", "HEAD", plan.commit or "", plan.head)
    answer = repository.git.ask(*words)
    if answer.code != 0 and not is_merged(repository, plan):
        raise GitFailedError(words, repository.top, answer.problem)
