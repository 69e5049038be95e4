"""The folder for temporary files of one run: it goes with the run, and with the process however that ends."""

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
from vibe.system.files import is_alive, opened, try_lock

PREFIX = "vibe-run-"
_NEW = "vibe-new-"


def temporary_folder(base: str | None, owner: object) -> Path:
    """Make one, below ``base`` if that can be written, else where the system wants it; those of the dead are removed.

    It goes with ``owner``, at the latest with the process. A process holds a lock on its own folder for as long as it
    lives, so that no live process's is ever taken for dead.
    """
    folder, held = _make(base)
    weakref.finalize(owner, _end, folder, held)
    remove_abandoned(str(folder.parent))
    return folder


def remove_abandoned(base: str | None = None) -> None:
    """Remove the folders of processes that were killed, below ``base`` or where the system wants them."""
    root = Path(base or tempfile.gettempdir())
    for folder in filter(_is_ours, root.glob(f"{PREFIX}*")):
        if (held := _lock(folder)) is not None:
            _end(folder, held)
    for folder in root.glob(f"{_NEW}*-*"):
        pid = folder.name.removeprefix(_NEW).partition("-")[0]
        if pid.isdecimal() and not is_alive(int(pid)):
            with suppress(OSError):
                folder.rmdir()  # its maker died before it got its name, let alone a file


@contextmanager
def brief_folder(base: str | None = None) -> Generator[Path]:
    """One that goes with the block; if the process is killed in it, as ``temporary_folder``."""
    folder, held = _make(base)
    try:
        yield folder
    finally:
        _end(folder, held)


def prepare_temp(temp: Path, box: Path) -> None:
    """Make the folder for a confined program's temporary files, and that for what makes its sandbox."""
    (temp / "cache").mkdir(parents=True, exist_ok=True)
    box.mkdir(mode=0o700, parents=True, exist_ok=True)
    (box / EMPTY).touch(mode=0o444)


def kept_in(box: Path, data: bytes) -> str:
    """Return a file that holds ``data``, which stays for the next command that is told the same."""
    path = box / hashlib.blake2b(data, digest_size=16).hexdigest()
    if not path.exists():
        new = path.with_name(f"{path.name}.{os.urandom(8).hex()}")
        new.write_bytes(data)
        new.rename(path)
    return str(path)


def _make(base: str | None) -> tuple[Path, int | None]:
    prefix = f"{_NEW}{os.getpid()}-"
    while True:
        place = base if base and os.access(f"{base}/", os.W_OK) else None
        new = Path(os.path.realpath(tempfile.mkdtemp(prefix=prefix, dir=place)))
        # The lock comes before the name by which others look for the dead; it is let go with the process.
        held = _lock(new)
        try:
            return new.rename(new.with_name(new.name.replace(prefix, PREFIX, 1))), held
        except FileNotFoundError:  # a process that can't see this one, as out of a container, took it for dead
            if held is not None:
                os.close(held)


def _end(folder: Path, held: int | None) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    if held is not None:
        os.close(held)


def _is_ours(folder: Path) -> bool:
    with suppress(OSError):
        found = folder.lstat()
        return stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid()
    return False


def _lock(folder: Path) -> int | None:
    """Return the descriptor of the lock; None if another process has it, or the file system knows no locks."""
    with suppress(OSError), opened(folder, os.O_DIRECTORY | os.O_NOFOLLOW) as descriptor:
        if try_lock(descriptor):
            return os.dup(descriptor)
    return None
