"""Files: written so that nobody ever sees half of one, read whatever is in them."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from pathlib import Path

PRIVATE = 0o600
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_DESCRIPTORS = Path("/proc/self/fd")
"""The folder in which a file without a name can be reached, to give it one."""
_UNNAMED = os.O_WRONLY | os.O_TMPFILE | os.O_CLOEXEC if hasattr(os, "O_TMPFILE") and _DESCRIPTORS.is_dir() else None


def text_of(path: Path) -> str:
    """The text of a file, whatever its bytes; nothing where there is no file, or none that can be read."""
    try:
        return path.read_text(encoding="utf-8", errors="surrogateescape") if path.is_file() else ""
    except OSError:
        return ""


def replace_file(
    path: Path | str,
    data: bytes,
    *,
    sync: bool,
    mode: int | None = PRIVATE,
    check: Callable[[Path], None] | None = None,
) -> None:
    """Put ``data`` at ``path`` as a whole: a reader, or the next process, sees the old file or the new. Blocks.

    With ``sync`` it survives a power failure, too: it is on disk before it gets its name. ``mode`` holds whatever the
    umask is, None leaves it to the umask. ``check`` is given the draft's path and may raise. A link at ``path`` is
    replaced.

    Raises:
        OSError: the disk is full or refuses, or the folder is missing; the old file stays.
    """
    parent, name = os.path.split(path)
    folder = os.open(parent or ".", _FOLDER)
    try:
        with _drafted(folder, name, data, sync=sync, mode=mode) as draft:
            if check is not None:
                check(Path(parent, draft.name))
            draft.rename(name)
    finally:
        os.close(folder)


@contextmanager
def _drafted(folder: int, name: str, data: bytes, *, sync: bool, mode: int | None) -> Generator[FileDraft]:
    """A draft with all of ``data`` under its own name; gone afterwards unless it was given another."""
    draft = FileDraft(folder, name)
    try:
        try:
            if mode is not None:
                os.fchmod(draft.descriptor, mode)
            write_all(draft.descriptor, data)
            if sync:
                os.fsync(draft.descriptor)
            draft.give_name()
        finally:
            os.close(draft.descriptor)
        yield draft
    finally:
        draft.drop()


class FileDraft:
    """A file that is being written, in the folder of the one it will be.

    Where the system can do that it has no name yet. So a process that is killed leaves nothing behind. ``folder`` and
    ``descriptor`` are the caller's to close.
    """

    def __init__(self, folder: int, name: str) -> None:
        self._folder = folder
        self.name = f".{name[:100]}.{os.urandom(6).hex()}.tmp"
        unnamed = _open_unnamed(folder)
        self._has_name = unnamed is None
        self.descriptor = os.open(self.name, _CREATE, 0o666, dir_fd=folder) if unnamed is None else unnamed

    def link(self, name: str) -> None:
        """Give it a name that nothing has.

        Raises:
            OSError: something has it (FileExistsError), or the file system knows no links.
        """
        own = self.name if self._has_name else f"{_DESCRIPTORS}/{self.descriptor}"
        os.link(own, name, src_dir_fd=self._folder, dst_dir_fd=self._folder, follow_symlinks=not self._has_name)

    def give_name(self) -> None:
        """Give it its own, temporary name if it has none.

        Raises:
            OSError: it can't be done.
        """
        if not self._has_name:
            self.link(self.name)
            self._has_name = True

    def rename(self, name: str) -> None:
        """Give it a name, in place of what has it.

        Raises:
            OSError: it can't be done.
        """
        self.give_name()
        os.rename(self.name, name, src_dir_fd=self._folder, dst_dir_fd=self._folder)

    def drop(self) -> None:
        """Take the temporary name away, if it has one still."""
        if self._has_name:
            with suppress(FileNotFoundError):
                os.unlink(self.name, dir_fd=self._folder)


def write_all(descriptor: int, data: bytes) -> None:
    """Write every byte, in as many writes as it takes.

    Raises:
        OSError: the disk is full or refuses; some of it may be written.
    """
    done = os.write(descriptor, data)
    while done < len(data):
        done += os.write(descriptor, memoryview(data)[done:])


def append_all(descriptor: int, data: bytes, end: int) -> None:
    """Append every byte to a file of ``end`` bytes, or none: after a short write it is cut back.

    Raises:
        OSError: the disk is full or refuses; the file is as it was.
    """
    try:
        write_all(descriptor, data)
    except OSError:
        with suppress(OSError):  # what is told is why it could not be written
            os.ftruncate(descriptor, end)  # half a line would spoil the next one
        raise


def append_rotating(path: Path, data: bytes, most: int) -> None:
    """Append to a log that only its user may read; at ``most`` bytes it becomes ``<path>.1`` and starts over.

    Raises:
        OSError: the disk is full or refuses.
    """
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    with suppress(FileNotFoundError):
        size = path.stat().st_size
        if size and size + len(data) > most:
            path.replace(path.with_name(f"{path.name}.1"))
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC, PRIVATE)
    try:
        write_all(descriptor, data)
    finally:
        os.close(descriptor)


def sync_data(descriptor: int) -> None:
    """Have what was written to a file on disk, without its times where the system tells them apart.

    Raises:
        OSError: the disk refuses.
    """
    getattr(os, "fdatasync", os.fsync)(descriptor)


def sync_folder(path: Path) -> None:
    """Have a folder's entries on disk.

    Raises:
        OSError: the disk refuses.
    """
    descriptor = os.open(path, _FOLDER)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _open_unnamed(folder: int) -> int | None:
    """A new file in a folder, under no name; None where there is no such thing."""
    with suppress(OSError):
        return None if _UNNAMED is None else os.open(".", _UNNAMED, 0o666, dir_fd=folder)
    return None
