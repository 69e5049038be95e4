"""Files: written as a whole or not at all, and read whatever they hold."""

from __future__ import annotations

import errno
import fcntl
import os
import stat
import tempfile
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from pathlib import Path

from vibe.system.locks import opened

PRIVATE = 0o600
_NOT_REPLACED = {errno.EBUSY, errno.EXDEV, errno.EPERM, errno.EACCES, errno.EROFS}
"""Errors of putting a file in the place of another, which may be written all the same."""
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_DESCRIPTORS = Path("/proc/self/fd")
FULL_SYNC: int | None = getattr(fcntl, "F_FULLFSYNC", None)
"""The folder in which a file without a name can be reached, to give it one."""
_UNNAMED = os.O_WRONLY | os.O_TMPFILE | os.O_CLOEXEC if hasattr(os, "O_TMPFILE") and _DESCRIPTORS.is_dir() else None


def text_of(path: Path, most: int = -1) -> str:
    """The text of a file, whatever its bytes, or ``most`` characters; nothing where none can be read."""
    with suppress(OSError):
        if path.is_file():  # a named pipe would be waited for
            with path.open(encoding="utf-8", errors="surrogateescape") as file:
                return file.read(most)
    return ""


def entries_of(folder: str | Path) -> list[os.DirEntry[str]]:
    """The entries of a folder; none where there is no folder, or none that can be read."""
    with suppress(OSError), os.scandir(folder) as entries:
        return list(entries)
    return []


def replace_file(path: Path | str, data: bytes, *, sync: bool, mode: int | None = PRIVATE) -> None:
    """Put ``data`` at ``path`` as a whole: a reader, or the next process, sees the old file or the new. Blocks.

    For files of our own. With ``sync`` it survives a power failure, too: it is on disk before it gets its name.
    ``mode`` holds whatever the umask is, None leaves it to the umask. A link at ``path`` is replaced.

    Raises:
        OSError: the disk is full or refuses, or the folder is missing; the old file stays.
    """
    with _opened_folder(path) as (folder, name), drafted(folder, name, data, sync=sync, mode=mode) as draft:
        draft.rename(name)


def put_file(path: Path | str, data: bytes, *, sync: bool = False, mode: int | None = None) -> None:
    """Put ``data`` into a file that is the user's: through links, and all else about it stays. Blocks.

    A new one has ``mode``, or what the umask leaves. What is no regular file is written to.

    Raises:
        OSError: the disk is full or refuses, or the folder is missing; the old content stays.
    """
    target = Path(os.path.realpath(path))
    if Path(path).exists() and not target.is_file():
        Path(path).write_bytes(data)
        return
    if not target.exists():
        replace_file(target, data, sync=sync, mode=mode)
        return
    with _opened_folder(target) as (folder, name):
        overwrite(folder, name, data, sync=sync, in_place=target.stat().st_nlink > 1)


def overwrite(
    folder: int,
    name: str,
    data: bytes,
    *,
    sync: bool,
    in_place: bool = False,
    look: Callable[[int], None] = lambda _: None,
) -> None:
    """Let ``data`` be all of a regular file in an open folder; mode, owner and attributes stay. Blocks.

    A reader sees the old content or the new. Only with ``in_place``, and where another file can't take its place (a
    mount point, a folder that may not be written, an owner or an attribute that can't be given away), its own bytes are
    changed, while a copy of the old ones is kept. ``look`` is given the file, open for reading, at the last moment, and
    may raise.

    Raises:
        OSError: the disk is full or refuses, or there is no such file; the old content stays.
    """
    try:
        if in_place:
            raise PermissionError(errno.EPERM, "its other names would be left behind")
        with drafted(folder, name, data, sync=sync) as draft, _read(folder, name) as old:
            look(old)
            _make_alike(draft.descriptor, old)
            draft.rename(name)
    except OSError as error:
        if error.errno not in _NOT_REPLACED:
            raise
        with _read(folder, name) as old:
            look(old)
            _write_in_place(folder, name, old, data)


@contextmanager
def trial_file(path: Path, data: bytes) -> Generator[Path]:
    """A file with ``data`` beside ``path``, to be checked before it counts; removed afterwards. Blocks.

    Raises:
        OSError: the disk is full or refuses, or the folder is missing.
    """
    with _opened_folder(path) as (folder, name), drafted(folder, name, data, sync=False, mode=PRIVATE) as draft:
        draft.give_name()
        yield path.with_name(draft.name)


@contextmanager
def drafted(
    folder: int, name: str, data: bytes, *, sync: bool, mode: int | None = None
) -> Generator[FileDraft, None, None]:
    """A draft with all of ``data`` in it; gone afterwards unless it was given a name.

    Raises:
        OSError: the disk is full or refuses.
    """
    draft = FileDraft(folder, name)
    try:
        if mode is not None:
            os.fchmod(draft.descriptor, mode)
        write_all(draft.descriptor, data)
        if sync:
            _synced(draft.descriptor)
        yield draft
    finally:
        os.close(draft.descriptor)
        draft.drop()


@contextmanager
def _opened_folder(path: Path | str) -> Generator[tuple[int, str]]:
    parent, name = os.path.split(path)
    with opened(parent or ".", os.O_DIRECTORY) as folder:
        yield folder, name


def _read(folder: int, name: str, access: int = os.O_RDONLY) -> AbstractContextManager[int]:
    return opened(name, access | os.O_NOFOLLOW | os.O_NONBLOCK, folder)


def _make_alike(descriptor: int, model: int) -> None:
    """Give a file the owner, the mode and the attributes of another, access lists among them.

    Raises:
        PermissionError: one of them can't be given.
    """
    wanted = os.fstat(model)
    given = os.fstat(descriptor)
    if (given.st_uid, given.st_gid) != (wanted.st_uid, wanted.st_gid):
        os.fchown(descriptor, wanted.st_uid, wanted.st_gid)
    os.fchmod(descriptor, stat.S_IMODE(wanted.st_mode))
    attributes, own = _attributes(model), _attributes(descriptor)
    with suppress(OSError):  # what differs then is seen below
        for attribute in own.keys() - attributes.keys():
            os.removexattr(descriptor, attribute)
        for attribute, value in attributes.items():
            if own.get(attribute) != value:
                os.setxattr(descriptor, attribute, value)
    if attributes != own and _attributes(descriptor) != attributes:
        raise PermissionError(errno.EPERM, "its attributes can't be given to another file")


def _attributes(descriptor: int) -> dict[str, bytes]:
    """The extended attributes of an open file; none where the system or the file system has no such thing."""
    with suppress(OSError, AttributeError):
        return {name: os.getxattr(descriptor, name) for name in os.listxattr(descriptor)}
    return {}


def _write_in_place(folder: int, name: str, old: int, data: bytes) -> None:
    """Change the bytes of a file. Whatever ends this process meanwhile, the old ones are there, or beside it."""
    with _read(folder, name, os.O_WRONLY) as file:
        if not os.path.samestat(os.fstat(file), os.fstat(old)):
            raise OSError(errno.EBUSY, "it was replaced meanwhile")
        with os.fdopen(os.dup(old), "rb") as reader:
            reader.seek(0)
            previous = reader.read()
        with _copied(folder, name, previous) as copy:
            try:
                _write_from_start(file, data)
            except OSError:
                copy.is_kept = True
                _write_from_start(file, previous)  # most have room for that: nothing was cut off yet
                copy.is_kept = False
                raise


def _write_from_start(file: int, data: bytes) -> None:
    os.lseek(file, 0, os.SEEK_SET)
    write_all(file, data)
    os.ftruncate(file, len(data))
    _synced(file)


@contextmanager
def _copied(folder: int, name: str, data: bytes) -> Generator[FileDraft]:
    """A copy under a name of its own for as long as it may be needed: beside the file, else among temporary files."""
    with ExitStack() as held:
        try:
            copy = held.enter_context(drafted(folder, name, data, sync=True, mode=PRIVATE))
            copy.give_name()
        except OSError as error:
            if error.errno not in _NOT_REPLACED:
                raise
            elsewhere, _ = held.enter_context(_opened_folder(Path(tempfile.gettempdir(), name)))
            copy = held.enter_context(drafted(elsewhere, name, data, sync=True, mode=PRIVATE))
            copy.give_name()
        yield copy


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
        self.is_kept = False
        """Its temporary name stays: what it holds is nowhere else."""
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
        if self._has_name and not self.is_kept:
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
    with opened(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW) as descriptor:
        write_all(descriptor, data)


def _synced(descriptor: int) -> None:
    """Have a file on disk; macOS only hands it to the drive unless it is told more."""
    if FULL_SYNC is None:
        os.fsync(descriptor)
    else:
        fcntl.fcntl(descriptor, FULL_SYNC)


def sync_data(descriptor: int) -> None:
    """Have what was written to a file on disk, without its times where the system tells them apart.

    Raises:
        OSError: the disk refuses.
    """
    getattr(os, "fdatasync", _synced)(descriptor)


def sync_folder(path: Path) -> None:
    """Have a folder's entries on disk.

    Raises:
        OSError: the disk refuses.
    """
    with opened(path, os.O_DIRECTORY) as descriptor:
        _synced(descriptor)


def _open_unnamed(folder: int) -> int | None:
    """A new file in a folder, under no name; None where there is no such thing."""
    with suppress(OSError):
        return None if _UNNAMED is None else os.open(".", _UNNAMED, 0o666, dir_fd=folder)
    return None
