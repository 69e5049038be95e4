"""Manages the folders for temporary files of a run, which are removed with the run, however its process ends."""

from __future__ import annotations

import hashlib
import os
import shutil
import stat
import tempfile
import weakref
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

from vibe.shell.sandbox.secrets import EMPTY
from vibe.system.files import entries_of, is_alive, new_folder, opened, try_lock

PREFIX = "vibe-run-"
_NEW = "vibe-new-"


def temporary_folder(base: str | None, owner: object) -> Path:
    """Make a folder below ``base`` if that is writable, else in the system's usual place. Remove abandoned ones.

    The folder is removed with ``owner``, or at the latest with the process. A process holds a lock on its folder for as
    long as it lives, so that the folder of a live process is never taken for abandoned.
    """
    folder, lock = _make(base)
    weakref.finalize(owner, _end, folder, lock)
    remove_abandoned(str(folder.parent))
    return folder


def remove_abandoned(base: str | None = None) -> None:
    """Remove the folders of killed processes below ``base``, or in the system's usual place."""
    root = Path(base or tempfile.gettempdir())
    names = [entry.name for entry in entries_of(root)]
    for folder in filter(_is_ours, (root / name for name in names if name.startswith(PREFIX))):
        if (lock := _lock(folder)) is not None:
            _end(folder, lock)
    for name in names:
        pid = name.removeprefix(_NEW).partition("-")[0]
        if name.startswith(_NEW) and pid.isdecimal() and not is_alive(int(pid)):
            with suppress(OSError):
                (root / name).rmdir()  # its process died before the folder got its final name or any file


@contextmanager
def brief_folder(base: str | None = None) -> Generator[Path]:
    """Provide a folder that is removed after the block. If the process is killed, it becomes an abandoned one."""
    folder, lock = _make(base)
    try:
        yield folder
    finally:
        _end(folder, lock)


def prepare_temp(temp: Path, box: Path) -> None:
    """Create the folder for a confined program's temporary files, and the one for files of its sandbox."""
    (temp / "cache").mkdir(parents=True, exist_ok=True)
    box.mkdir(mode=0o700, parents=True, exist_ok=True)
    (box / EMPTY).touch(mode=0o444)


def kept_in(box: Path, data: bytes) -> str:
    """Return the path of a file in ``box`` with ``data``. It stays for later commands with the same data."""
    path = box / hashlib.blake2b(data, digest_size=16).hexdigest()
    if not os.path.exists(path):
        new = path.with_name(f"{path.name}.{os.urandom(8).hex()}")
        new.write_bytes(data)
        new.rename(path)
    return str(path)


def _make(base: str | None) -> tuple[Path, int | None]:
    prefix = f"{_NEW}{os.getpid()}-"
    while True:
        new = new_folder(prefix, base)
        # The lock is taken before the folder gets the name by which others find abandoned ones. It ends with us.
        lock = _lock(new)
        try:
            return new.rename(new.with_name(new.name.replace(prefix, PREFIX, 1))), lock
        except FileNotFoundError:  # another process that can't see this one, as in a container, removed it as abandoned
            if lock is not None:
                os.close(lock)


def _end(folder: Path, lock: int | None) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    if lock is not None:
        os.close(lock)


def _is_ours(folder: Path) -> bool:
    with suppress(OSError):
        found = folder.lstat()
        return stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid()
    return False


def _lock(folder: Path) -> int | None:
    """Return the descriptor of the lock, or None if another process has it or the file system has no locks."""
    with suppress(OSError), opened(folder, os.O_DIRECTORY | os.O_NOFOLLOW) as descriptor:
        if try_lock(descriptor):
            return os.dup(descriptor)
    return None
