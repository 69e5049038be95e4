"""Carries out a planned merge in the user's working tree, index and branch, in that order, and holds the locks for it.

Files are replaced one by one, each as a whole. A file must have the content that the merge was planned for, or the
content it is to get. So a merge that was cut off can continue, and nothing else is ever overwritten.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import stat
import time
from collections.abc import Generator, Sequence, Set as AbstractSet
from contextlib import contextmanager, suppress
from pathlib import Path

from msgspec.structs import replace

from subagents.worktree.errors import (
    GitFailedError,
    MergeRefusedError,
    StaleTreeError,
    WorktreeError,
    name_some,
    on_disk,
)
from subagents.worktree.merge import MergePlan
from subagents.worktree.repository import ABSENT, Change, Repository, stdin_of
from vibe.system.files import POLL_SECONDS, FileLock, folder_below, is_open, put_entry, regular_bytes

LOCK_NAME = "vibe.lock"
"""The file in a repository that plans lock while they change it."""
LOCK_CONTENT = b"vibe plan run\n"
"""The content of vibe's ``index.lock``. Git's own are empty or contain an index."""

PATIENCE_SECONDS = 10.0
"""Seconds to wait for a git command of the user's to release the index."""


def lock_repository(common_dir: Path, seconds: float = 0) -> FileLock | None:
    """Take the lock of a repository, waiting up to ``seconds``. Blocks.

    Return None if another process, or another plan in this one, keeps it.

    Raises:
        WorktreeError: the repository can't be written.
    """
    path = common_dir / LOCK_NAME
    try:
        return FileLock.acquire(path, seconds, brief=True)
    except FileNotFoundError as error:
        problem = f"the repository at {str(common_dir)!r} is missing: restore it, then use `vibe plan retry`"
        raise WorktreeError(problem) from error
    except OSError as error:
        raise WorktreeError(f"{str(path)!r} can't be locked ({error.strerror}): is it writable?") from error


@contextmanager
def index_lock(repository: Repository) -> Generator[None]:
    """Hold git's lock on the index, as any git command that writes would. Blocks.

    The repository's lock must be held, and its scratch folder must exist.

    Raises:
        MergeRefusedError: a git command of the user's does not release it.
        WorktreeError: the repository can't be written.
    """
    path, draft = repository.git_dir / "index.lock", repository.scratch / "lock"
    deadline = time.monotonic() + PATIENCE_SECONDS
    with on_disk(path, "created"):
        draft.write_bytes(LOCK_CONTENT)
        while True:
            with suppress(FileExistsError):
                os.link(draft, path)  # a link never appears without its content, which says whose lock it is
                break
            drop_own_index_lock(repository.git_dir)
            if time.monotonic() > deadline:
                raise MergeRefusedError(f"{str(path)!r} is held by a git command: end it, or remove the file")
            time.sleep(POLL_SECONDS)
    try:
        yield
    finally:
        drop_own_index_lock(repository.git_dir)


def drop_own_index_lock(git_dir: Path) -> None:
    """Remove the index lock of a vibe process that was killed. The repository's lock must be held."""
    path = git_dir / "index.lock"
    with suppress(OSError):
        if regular_bytes(path) == LOCK_CONTENT:
            path.unlink()


EXECUTABLE = "100755"
LINK = "120000"


class WorkingTree:
    """Compares files with git's entries. Git stores most as they are, and is asked about the others in one call."""

    def __init__(self, repository: Repository) -> None:
        self._repository = repository
        self._git = repository.git
        self._stored_as: dict[str, str] = {}
        self._hidden: frozenset[str] = frozenset()

    def due(self, changes: Sequence[Change]) -> list[Change]:
        """Return the changes that are still to be made.

        Raises:
            StaleTreeError: a path has neither the content before nor the content after its change.
            WorktreeError: a path is in a folder in which this user can't write; the merge can go on once one can.
        """
        closed = [change.path for change in changes if not _is_writable(self._repository.top / change.path)]
        if closed:
            problem = f"{name_some(closed)} can't be written: correct the permissions of the folder"
            raise WorktreeError(problem) from PermissionError()
        doomed = {change.path for change in changes if change.new_mode == ABSENT}
        unsure = [change for change in changes if not self._is_before(change, doomed) and not self._is_after(change)]
        self._ask([change.path for change in unsure])
        if unsure:  # files that a sparse checkout keeps out of the folder count as they are in the index
            listed = self._git("ls-files", "-z", "-t", "--", ":/").items
            self._hidden = frozenset(item[2:] for item in listed if item.startswith("S "))
        stale = [change.path for change in unsure if not self._is_before(change, doomed) and not self._is_after(change)]
        if stale:
            raise StaleTreeError(stale)
        return [change for change in changes if self._is_before(change, doomed)]

    def all_done(self, changes: Sequence[Change]) -> bool:
        """Return whether all changes have been made."""
        self._ask([change.path for change in changes if not self._is_after(change)])
        return all(self._is_after(change) for change in changes)

    def _is_before(self, change: Change, doomed: AbstractSet[str]) -> bool:
        if not self._is_reachable(change.path, doomed):
            return False
        is_new = change.old_mode == ABSENT and change.new_mode != ABSENT
        if is_new and os.path.isdir(self._repository.top / change.path):
            return self._is_emptied(change.path, doomed)
        # The executable bit does not count, because not every file system has one.
        return self._is_at(change.path, change.old_mode, change.old, exactly=False)

    def _is_after(self, change: Change) -> bool:
        return self._is_at(change.path, change.new_mode, change.new, exactly=True)

    def _is_reachable(self, path: str, doomed: AbstractSet[str]) -> bool:
        """Return whether each folder on the way to ``path`` is a folder, missing, or a file that will be removed."""
        for parent in reversed(Path(path).parents[:-1]):
            found = _lstat(self._repository.top / parent)
            if found is None:
                return True
            if not stat.S_ISDIR(found.st_mode):
                return parent.as_posix() in doomed
        return True

    def _is_emptied(self, path: str, doomed: AbstractSet[str]) -> bool:
        """Return whether every file in a folder will be removed."""
        top = self._repository.top
        files = (Path(folder, name) for folder, _, names in os.walk(top / path) for name in names)
        return all(file.relative_to(top).as_posix() in doomed for file in files)

    def _is_at(self, path: str, mode: str, oid: str, *, exactly: bool) -> bool:
        file = self._repository.top / path
        found = _lstat(file) if self._is_reachable(path, frozenset()) else None
        if mode == ABSENT or found is None or stat.S_ISDIR(found.st_mode):
            return found is None and (mode == ABSENT or (not exactly and path in self._hidden))
        if stat.S_ISLNK(found.st_mode) != (mode == LINK):
            return False
        if exactly and (mode == EXECUTABLE) != bool(found.st_mode & stat.S_IXUSR) and mode != LINK:
            return False
        try:
            data = os.fsencode(file.readlink()) if mode == LINK else regular_bytes(file)
        except OSError:
            return False
        return oid in (self._oid(data), self._stored_as.get(path))

    def _ask(self, paths: Sequence[str]) -> None:
        """Ask git how it would store files, because line ends may differ and large files may be kept elsewhere."""
        top = self._repository.top
        plain = [path for path in paths if os.path.isfile(top / path) and not os.path.islink(top / path)]
        listed = [path for path in plain if "\n" not in path and '"' not in path]
        lines = b"".join(os.fsencode(path) + b"\n" for path in listed)
        asked = self._git.ask("hash-object", "--stdin-paths", stdin=lines) if listed else None
        if asked is not None and asked.code == 0:
            self._stored_as.update(zip(listed, asked.text.splitlines(), strict=True))

    def _oid(self, data: bytes) -> str:
        digest = hashlib.new(self._repository.hash_name, usedforsecurity=False)
        digest.update(b"blob %d\0" % len(data))
        digest.update(data)
        return digest.hexdigest()


def _lstat(path: Path) -> os.stat_result | None:
    with suppress(FileNotFoundError, NotADirectoryError):
        return path.lstat()
    return None


def _is_writable(path: Path) -> bool:
    """Return whether this user may write in the nearest existing folder above ``path``."""
    folder = next(parent for parent in path.parents if os.path.lexists(parent))
    return not os.path.isdir(folder) or is_open(folder, os.W_OK | os.X_OK)


@contextmanager
def held(repository: Repository, lock: FileLock) -> Generator[Repository]:
    """Yield the repository while ``lock`` is held, with an empty scratch folder. Both are released at the end.

    Raises:
        WorktreeError: the folder can't be made.
    """
    with lock:
        # Git commands keep the lock's descriptor open.
        locked = replace(repository, git=replace(repository.git, locks=(lock.descriptor,)))
        drop_own_index_lock(locked.git_dir)
        shutil.rmtree(locked.scratch, ignore_errors=True)
        with on_disk(locked.scratch, "created"):
            locked.scratch.mkdir(mode=0o700)
        try:
            yield locked
        finally:
            shutil.rmtree(locked.scratch, ignore_errors=True)


def apply_merge(repository: Repository, plan: MergePlan) -> None:
    """Change files, index and branch as planned, except what is changed already.

    Both locks must be held and the scratch folder must exist.

    Raises:
        StaleTreeError: a file is not as expected; nothing was changed.
        WorktreeError: the disk is full or refuses, or the branch moved.
    """
    due = WorkingTree(repository).due(plan.files)
    index = repository.scratch / "index"
    if os.path.isfile(repository.git_dir / "index"):
        shutil.copy2(repository.git_dir / "index", index)  # as in ``Repository.snapshot``
    if plan.index:
        repository.update_index(index, plan.index)
    staged = _stage(repository, due, index if plan.index == plan.files else None)
    with on_disk(repository.top):
        _remove(repository, due)
        _put_files(repository, due, staged)
        if plan.index:
            index.replace(repository.git_dir / "index")
    if plan.commit is not None:
        _move_branch(repository, plan)


def is_merged(repository: Repository, plan: MergePlan) -> bool:
    """Return whether a merge was carried out completely."""
    if plan.commit is not None:
        return repository.is_ancestor(plan.commit, "HEAD")
    return WorkingTree(repository).all_done(plan.files)


def _stage(repository: Repository, due: Sequence[Change], index: Path | None) -> Path:
    """Make git check out the new files into the scratch folder, and return where they are."""
    folder = repository.scratch / "files"
    added = [change for change in due if change.new_mode != ABSENT]
    if added:
        if index is None:
            index = repository.scratch / "files.index"
            repository.update_index(index, added)
        listed = stdin_of(change.path for change in added)
        repository.git("checkout-index", "-z", "--stdin", f"--prefix={folder}/", stdin=listed, index=index)
    return folder


def _remove(repository: Repository, due: Sequence[Change]) -> None:
    """Remove the files that the merge deletes, and the folders that are empty without them."""
    kept = {repository.top, repository.workspace, *repository.workspace.parents}
    for change in due:
        if change.new_mode != ABSENT:
            continue
        with suppress(FileNotFoundError), folder_below(repository.top, change.path) as (folder, name):
            os.unlink(name, dir_fd=folder)
        with suppress(OSError):
            for above in [one for one in (repository.top / change.path).parents if one not in kept]:
                above.rmdir()


def _put_files(repository: Repository, due: Sequence[Change], staged: Path) -> None:
    for change in due:
        if change.new_mode == ABSENT:
            continue
        file, target = staged / change.path, repository.top / change.path
        with folder_below(repository.top, change.path, make=True) as (folder, name):
            if os.path.isdir(target) and not os.path.islink(target):
                _remove_empty(target)
            try:
                os.rename(file, name, dst_dir_fd=folder)
            except OSError:  # git's folder may be on another file system than the working tree
                data = os.fsencode(file.readlink()) if file.is_symlink() else file.read_bytes()
                put_entry(folder, name, data, file.lstat().st_mode)


def _remove_empty(folder: Path) -> None:
    for path, _, _ in os.walk(folder, topdown=False):
        Path(path).rmdir()


def _move_branch(repository: Repository, plan: MergePlan) -> None:
    words = ("update-ref", "-m", "vibe: merge the work of a step", "HEAD", plan.commit or "", plan.head)
    answer = repository.git.ask(*words)
    if answer.code != 0 and not is_merged(repository, plan):
        raise GitFailedError(words, repository.top, answer.problem)
