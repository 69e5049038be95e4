"""Saves what must outlive a worker: the files of an attempt's step and its tree are sent to the run as they change.

``Keeper`` runs on the worker. ``store_part`` writes on the run's side, within the step's own folder. Both block.
"""

from __future__ import annotations

import os
import re
import stat
import time
from collections.abc import Generator, Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TypeAlias

from subagents.process.protocol import LinkError
from subagents.remote.frames import MOST_FILE_BYTES, FilePart, Frame, WorkTree, parts_of, pieces_of
from subagents.remote.trees import commit_of, pack
from subagents.worktree.errors import MergeRefusedError, on_disk
from subagents.worktree.lifecycle import RECORD_FILE
from subagents.worktree.worktree import Worktree
from vibe.system.files import regular_bytes, regular_file, replace_file

HELD_BACK = frozenset({RECORD_FILE, "result.json"})
"""Files of a step's folder that only the run writes."""
MOST_RESULT_BYTES = 1_000_000
"""Bytes of the largest result of an earlier step that is sent along."""
SLOW_SECONDS = 2.0
"""Seconds. A tree that takes longer to copy is copied only at intervals, any other before each model call."""

_NAME = re.compile(r"[^/\0]{1,255}(?:/[^/\0]{1,255}){0,15}")
_FileState: TypeAlias = tuple[int, int, int]


class Keeper:
    """Knows which parts of a step's folder and of the attempt's worktree the run has."""

    def __init__(self, folder: Path, worktree: Worktree, commit: str, checkpoint_seconds: float) -> None:
        self._folder = folder
        self._worktree = worktree
        self._commit = commit
        self._interval_seconds = checkpoint_seconds
        self._copy_seconds = 0.0
        self._copied_at = time.monotonic()
        self._seen = dict(_files(folder))

    def frames(self, *, last: bool, tree: bool) -> list[Frame]:
        """Return what the run doesn't have yet of the step's files and, if wanted, of the ``tree``.

        A tree that is slow to copy comes only at intervals, or if ``last``.
        """
        return [*self._changed_files(last=last), *(self._tree(last=last) if tree else ())]

    def _changed_files(self, *, last: bool) -> Iterator[Frame]:
        for name, now in _files(self._folder):
            before = self._seen.get(name)
            if now == before:
                continue
            is_new = before is None or now[0] != before[0] or now[1] <= before[1]
            start = 0 if is_new or before is None else before[1]
            data = _read(self._folder / name, start, now[1])
            if not last and not is_new:
                data = data[: data.rfind(b"\n") + 1]
            self._seen[name] = (now[0], start + len(data), now[2])
            if data or is_new:
                first, *others = pieces_of(data)
                yield from (FilePart(name, first, is_new=is_new), *(FilePart(name, piece) for piece in others))

    def _tree(self, *, last: bool) -> list[Frame]:
        age = time.monotonic() - self._copied_at
        if not last and self._copy_seconds > SLOW_SECONDS and age < self._interval_seconds:
            return []
        started = time.monotonic()
        try:
            commit = commit_of(self._worktree)
        except MergeRefusedError as error:
            return [WorkTree(self._commit, flaw=str(error))] if last else []
        frames: list[Frame] = []
        if commit != self._commit:
            repository = self._worktree.repository
            frames = [*parts_of(pack(repository.git, commit, [self._commit])), WorkTree(commit)]
            self._commit = commit
        self._copied_at = time.monotonic()
        self._copy_seconds = self._copied_at - started
        return frames


def store_part(folder: Path, kept: FilePart, data: bytes) -> None:
    """Write a part of a file that a worker sent into the run's folder of the step.

    Of a file that is too large, such as a log, only the beginning is kept: the step itself may well be done.

    Raises:
        LinkError: its name leads out of the folder.
        WorktreeError: the disk refuses.
    """
    path = folder / _checked(kept.name)
    with on_disk(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        if not Path(os.path.realpath(path.parent)).is_relative_to(os.path.realpath(folder)) or path.is_symlink():
            raise LinkError(f"a file outside the step's folder: {kept.name!r}")
        so_far = 0 if kept.is_new or not path.exists() else path.stat().st_size
        data = data[: max(0, MOST_FILE_BYTES - so_far)]
        if kept.is_new:
            replace_file(path, data, sync=False)
        else:
            with path.open("ab") as file:
                file.write(data)


def files_to_send(steps: Path, step_id: str, results: Iterable[Path]) -> Mapping[str, bytes]:
    """Return the files of a step and the results of earlier steps, by their names below the steps' folder.

    A result that is too long is left out. The task has what the step is told of it.
    """
    own = {f"{step_id}/{name}": (steps / step_id / name) for name, _ in _files(steps / step_id)}
    for result in results:
        with suppress(OSError, ValueError):
            if result.stat().st_size <= MOST_RESULT_BYTES:
                own[str(result.relative_to(steps))] = result
    return {name: regular_bytes(path) for name, path in own.items()}


def _checked(name: str) -> str:
    parts = name.split("/")
    if not _NAME.fullmatch(name) or {".", ".."} & {*parts} or parts[0] in HELD_BACK:
        raise LinkError(f"not the name of a file of the step: {name[:80]!r}")
    return name


def _files(folder: Path) -> Generator[tuple[str, _FileState]]:
    """Yield the regular files below a folder with inode, size and time of change. Links are not followed."""
    for path in (Path(place, name) for place, _, names in os.walk(folder) for name in names):
        with suppress(OSError):
            found = path.lstat()
            relative = path.relative_to(folder).as_posix()
            if stat.S_ISREG(found.st_mode) and relative not in HELD_BACK:
                yield relative, (found.st_ino, found.st_size, found.st_mtime_ns)


def _read(path: Path, start: int, end: int) -> bytes:
    try:
        with regular_file(path) as file:
            file.seek(start)
            return file.read(end - start)
    except OSError:
        return b""
