"""Files: written as a whole or not at all, read whatever they contain, and locked between processes.

The kernel releases a lock when its holder ends, however that happens. Child processes don't inherit it.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
import tempfile
import time
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from io import BufferedReader, TextIOWrapper
from pathlib import Path, PurePath
from threading import Lock

from vibe.system.errors import EnvironmentFailure, UsageError, os_error_as, remedy

POLL_SECONDS = 0.01
"""Seconds between two attempts to take a lock."""
CHANGE_SECONDS = 10.0
"""Seconds to wait for another process that is changing a file."""

_FOLDER = os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC | getattr(os, "O_PATH", os.O_RDONLY)
"""Flags that open a folder without following a link."""


@contextmanager
def opened(path: Path | str, flags: int = os.O_RDONLY, folder: int | None = None) -> Generator[int]:
    """Yield a descriptor of an open file. A new file is accessible to its user only.

    ``path`` is relative to ``folder``, if that is given.

    Raises:
        OSError: it can't be opened.
    """
    descriptor = os.open(path, flags | os.O_CLOEXEC, 0o600, dir_fd=folder)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


@contextmanager
def folder_below(root: Path | str, path: Path | str, *, make: bool = False) -> Generator[tuple[int, str]]:
    """Open the folder of ``path`` below ``root``, and yield its descriptor and the last name of the path. Blocks.

    It is reached name by name without following a link, since others could put one on the way at any time. With
    ``make``, missing folders are made.

    Raises:
        OSError: there is no such folder, or a link is on the way.
    """
    *folders, name = PurePath(path).parts or (".",)
    descriptor = os.open(root, _FOLDER & ~os.O_NOFOLLOW)
    try:
        for part in folders:
            descriptor = _step_into(part, descriptor, make=make)
        yield descriptor, name
    finally:
        os.close(descriptor)


def _step_into(part: str, folder: int, *, make: bool) -> int:
    """Open a folder inside an open one, then close the outer one."""
    if make:
        with suppress(OSError):
            os.mkdir(part, dir_fd=folder)
    below = os.open(part, _FOLDER, dir_fd=folder)
    os.close(folder)
    return below


def try_lock(descriptor: int, *, shared: bool = False) -> bool:
    """Lock an open file or folder at once. Return False if another holder, in this process or another, has it.

    The lock belongs to the open file: it is held until the descriptor and all copies made by ``os.dup`` are closed.

    Raises:
        OSError: the file system has no locks.
    """
    kind = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
    with suppress(BlockingIOError):
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)  # noqa: TID251  the one place
        return True
    return False


def wait_for_lock(descriptor: int, seconds: float, *, shared: bool = False) -> bool:
    """Lock an open file or folder, waiting up to ``seconds``. Return False if another holder has it all the time.

    Blocks.

    Raises:
        OSError: the file system has no locks.
    """
    deadline = time.monotonic() + seconds
    while not try_lock(descriptor, shared=shared):
        if time.monotonic() >= deadline:
            return False
        time.sleep(POLL_SECONDS)
    return True


class FileLock(AbstractContextManager["FileLock"]):
    """A held lock on a file that names its holder. A ``brief`` one deletes the file when it is released."""

    def __init__(self, path: Path, descriptor: int, *, brief: bool = False) -> None:
        self.descriptor = descriptor
        self._path = path
        self._brief = brief

    @classmethod
    def acquire(cls, path: Path, seconds: float = 0, *, brief: bool = False) -> FileLock | None:
        """Take the lock, waiting up to ``seconds``. Return None if another holder has it all that time. Blocks.

        Raises:
            OSError: the file can't be created or locked.
        """
        deadline = time.monotonic() + seconds
        while True:
            with opened(path, os.O_RDWR | os.O_CREAT) as descriptor:
                if try_lock(descriptor) and _is_at(descriptor, path):
                    _name_holder(descriptor)
                    return cls(path, os.dup(descriptor), brief=brief)
            if time.monotonic() >= deadline:
                return None
            time.sleep(POLL_SECONDS)

    @classmethod
    def on_folder(cls, path: Path, *, shared: bool) -> FileLock | None:
        """Lock a folder itself at once, without creating a file. Return None if another holder has it.

        Raises:
            OSError: it can't be opened, or its file system can't lock folders.
        """
        with opened(path, os.O_DIRECTORY) as descriptor:
            return cls(path, os.dup(descriptor)) if try_lock(descriptor, shared=shared) else None

    def __exit__(self, *_raised: object) -> None:
        self.release()

    def release(self) -> None:
        """Release the lock. A second call does nothing.

        A file that is not brief remains, because otherwise two processes could hold the lock.
        """
        if self.descriptor < 0:
            return
        descriptor, self.descriptor = self.descriptor, -1
        with suppress(OSError):  # Closing releases the lock, whatever the disk says.
            if self._brief:
                self._path.unlink(missing_ok=True)  # Done first, so that the next holder notices that it is gone.
            else:
                os.ftruncate(descriptor, 0)
        os.close(descriptor)


class FolderLocks:
    """A process's locks on folders, which several holders within it may share. Thread-safe."""

    def __init__(self) -> None:
        self._held: dict[Path, tuple[FileLock, int]] = {}
        self._lock = Lock()

    def take(self, path: Path, *, beside: bool) -> bool:
        """Lock a folder at once, or share its lock if allowed ``beside`` others in this process.

        Returns False if others have it.

        Raises:
            OSError: see ``FileLock.on_folder``.
        """
        with self._lock:
            lock, users = self._held.get(path, (None, 0))
            if lock is None:
                lock = FileLock.on_folder(path, shared=False)
            elif not beside:
                return False
            if lock is not None:
                self._held[path] = lock, users + 1
            return lock is not None

    def release(self, path: Path) -> None:
        """Release the lock. Others can take it after its last holder has released it."""
        with self._lock:
            lock, users = self._held[path]
            if users > 1:
                self._held[path] = lock, users - 1
            else:
                del self._held[path]
                lock.release()


def is_locked(path: Path) -> bool:
    """Return whether another holder has a lock file. False if the file is gone.

    Raises:
        OSError: the file system has no locks.
    """
    with ExitStack() as held:
        try:
            descriptor = held.enter_context(opened(path, os.O_NONBLOCK))
        except OSError:
            return False
        return not try_lock(descriptor, shared=True)


def holder_of(path: Path) -> int | None:
    """Return the pid in a lock file, for people to read: that process may have ended by now."""
    text = text_of(path, 32).strip()
    return int(text) if text.isdecimal() else None


def is_alive(pid: int) -> bool:
    """Return whether a process with that number exists, of any user."""
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        pass
    return True


def _name_holder(descriptor: int) -> None:
    with suppress(OSError):  # If the disk is full, the lock is held all the same.
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, b"%d\n" % os.getpid(), 0)


def _is_at(descriptor: int, path: Path) -> bool:
    """Return whether the locked file is still the one at ``path``. Its last holder may have removed it."""
    with suppress(FileNotFoundError):
        return os.path.samestat(os.fstat(descriptor), path.stat())
    return False


PRIVATE = 0o600
"""The mode of a file for its user only."""
_NOT_REPLACED = {errno.EBUSY, errno.EXDEV, errno.EPERM, errno.EACCES, errno.EROFS}
"""Errors for a file that another can't replace, although it may be written itself."""
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
"""Flags that create a file and fail if there is one."""
_DESCRIPTORS = Path("/proc/self/fd")
"""The folder in which a file without a name can be reached, to give it one."""
NAME_CHARACTERS = 50
"""The most characters of a file's name in the name of its draft.

That is short enough for every file system, as a character has up to 4 bytes.
"""
FULL_SYNC: int | None = getattr(fcntl, "F_FULLFSYNC", None)
"""The command that makes macOS write a file to disk. None on other systems."""
_UNNAMED = os.O_WRONLY | os.O_TMPFILE | os.O_CLOEXEC if hasattr(os, "O_TMPFILE") and _DESCRIPTORS.is_dir() else None
"""Flags that create a file without a name. None if the system can't do that."""


def typed_path(base: Path, text: str) -> Path:
    """Return the path that a person wrote, relative to ``base``. ``~`` is a home directory, if there is such a user.

    Raises:
        UsageError: no file can have that name.
    """
    path = base / os.path.expanduser(text)  # noqa: PTH111  Path's own fails where there is no such user
    try:
        path.lstat()
    except (OSError, ValueError) as error:
        if isinstance(error, ValueError) or error.errno == errno.ENAMETOOLONG:
            raise UsageError(f"{text[:40]!r}... can't be a path, it is too long or has a NUL: check it") from error
    return path


def text_of(path: Path, most: int = -1) -> str:
    """Return a file's text, or its first ``most`` characters, whatever its bytes. Empty if it can't be read.

    A byte order mark, which some editors write, is no part of the text.
    """
    with suppress(OSError), regular_file(path) as file:
        return TextIOWrapper(file, "utf-8-sig", "surrogateescape").read(most)
    return ""


@contextmanager
def regular_file(path: Path) -> Generator[BufferedReader]:
    """Yield a regular file, open for reading.

    Raises:
        OSError: it can't be read, or is something else, such as a pipe: reading that could wait for ever.
    """
    with opened(path, os.O_NONBLOCK | os.O_NOCTTY) as descriptor, open(descriptor, "rb", closefd=False) as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, "not a regular file", str(path))
        yield file


def regular_bytes(path: Path, most: int = -1) -> bytes:
    """Return the content of a regular file, or its first ``most`` bytes.

    Raises:
        OSError: as for ``regular_file``.
    """
    with regular_file(path) as file:
        return file.read(most)


def entries_of(folder: str | Path | int) -> list[os.DirEntry[str]]:
    """Return the entries of a folder, or none if it does not exist or can't be read."""
    with suppress(OSError), os.scandir(folder) as entries:
        return list(entries)
    return []


def is_open(path: Path, rights: int) -> bool:
    """Return whether this user has these rights (as ``os.R_OK``) at a path."""
    return os.access(path, rights, effective_ids=os.access in os.supports_effective_ids)


def new_folder(prefix: str, base: str | None) -> Path:
    """Make a folder for temporary files below ``base``, or in the system's usual place if none can be made there."""
    with suppress(OSError):
        return Path(os.path.realpath(tempfile.mkdtemp(prefix=prefix, dir=base or None)))
    return Path(os.path.realpath(tempfile.mkdtemp(prefix=prefix)))


def replace_file(path: Path | str, data: bytes, *, sync: bool, mode: int | None = PRIVATE) -> None:
    """Put ``data`` at ``path`` as a whole: a reader, or the next process, sees the old file or the new one. Blocks.

    For vibe's own files. With ``sync`` it also survives a power failure, because the data is on disk before it gets its
    name. ``mode`` applies whatever the umask is; None leaves it to the umask. A link at ``path`` is replaced.

    Raises:
        OSError: the file can't be written, or the folder is missing; the old file stays.
    """
    with _opened_folder(path) as (folder, name), drafted(folder, name, data, sync=sync, mode=mode) as draft:
        draft.rename(name)


def put_file(path: Path | str, data: bytes, *, sync: bool = False, mode: int | None = None) -> None:
    """Replace the content of a user's file, following links and preserving all else about it. Blocks.

    A new file gets ``mode``, or what the umask leaves. Anything that is not a regular file is written to.

    Raises:
        OSError: the file can't be written, or the folder is missing; the old content stays.
    """
    target = Path(os.path.realpath(path))
    if os.path.exists(path) and not os.path.isfile(target):
        Path(path).write_bytes(data)
        return
    if not os.path.exists(target):
        replace_file(target, data, sync=sync, mode=mode)
        return
    with _opened_folder(target) as (folder, name):
        overwrite(folder, name, data, sync=sync, in_place=target.stat().st_nlink > 1)


def writing(label: str, kind: type[EnvironmentFailure] = EnvironmentFailure) -> AbstractContextManager[None]:
    """Raise an OSError in the block as an error of this kind that the file of this name can't be written."""
    return os_error_as(lambda error: kind(f"{label} can't be written ({error.strerror}); {remedy(error)}"))


@contextmanager
def changing_alone(path: Path, label: str) -> Generator[None]:
    """Ensure that only one process at a time changes ``path``, by locking its folder, which is created if needed.

    The lock leaves no file behind. If ``path`` is a link, the folder it leads to is locked.

    Raises:
        EnvironmentFailure: the folder can't be created or opened, or another process holds the lock for too long.
    """
    with ExitStack() as held:
        with writing(label):
            parent = Path(os.path.realpath(path)).parent
            parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            folder = held.enter_context(opened(parent))
        with suppress(OSError):  # some file systems don't support locks
            if not wait_for_lock(folder, CHANGE_SECONDS):
                busy = f"{label} is being changed by another process; try again when it has ended"
                raise EnvironmentFailure(busy)
        yield


def put_new_file(path: Path, data: bytes) -> None:
    """Create a file, whole or not at all, with the mode that the umask leaves. Blocks.

    Raises:
        FileExistsError: something exists there.
        OSError: the file can't be written, or the folder is missing; nothing is left there.
    """
    with _opened_folder(path) as (folder, name), drafted(folder, name, data, sync=False) as draft:
        draft.place(name)


def overwrite(
    folder: int,
    name: str,
    data: bytes,
    *,
    sync: bool,
    in_place: bool = False,
    look: Callable[[int], None] = lambda _: None,
) -> None:
    """Replace the content of a regular file in an open folder, preserving mode, owner and attributes. Blocks.

    A reader sees the old content or the new. The bytes of the file itself are changed only with ``in_place``, or if
    another file can't replace it (a mount point, a folder that may not be written, an owner or an attribute that can't
    be set). A copy of the old bytes is kept meanwhile. ``look`` is given the file, open for reading, at the last
    moment, and may raise.

    Raises:
        OSError: the file can't be written, or there is none; the old content stays.
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


def put_entry(folder: int, name: str, data: bytes, mode: int) -> None:
    """Put a file, or a link to ``data``, into an open folder as a whole, in place of whatever has the name. Blocks.

    Raises:
        OSError: it can't be written; what was there stays.
    """
    if stat.S_ISLNK(mode):
        draft = f".{os.urandom(6).hex()}.tmp"
        os.symlink(os.fsdecode(data), draft, dir_fd=folder)
        os.rename(draft, name, src_dir_fd=folder, dst_dir_fd=folder)
        return
    with drafted(folder, name, data, sync=False, mode=stat.S_IMODE(mode)) as draft:
        draft.rename(name)


@contextmanager
def trial_file(path: Path, data: bytes) -> Generator[Path]:
    """Yield a temporary file with ``data`` beside ``path``, to be checked before it is used. Blocks.

    Raises:
        OSError: it can't be written, or the folder is missing.
    """
    with _opened_folder(path) as (folder, name), drafted(folder, name, data, sync=False, mode=PRIVATE) as draft:
        draft.give_name()
        yield path.with_name(draft.name)


@contextmanager
def drafted(
    folder: int, name: str, data: bytes, *, sync: bool, mode: int | None = None
) -> Generator[FileDraft, None, None]:
    """Yield a draft that contains ``data``. It is gone afterwards unless it was given a name.

    Raises:
        OSError: it can't be written.
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
    """Give a file the owner, mode and attributes of another, including access lists.

    Raises:
        PermissionError: one of them can't be given.
    """
    wanted = os.fstat(model)
    given = os.fstat(descriptor)
    if (given.st_uid, given.st_gid) != (wanted.st_uid, wanted.st_gid):
        os.fchown(descriptor, wanted.st_uid, wanted.st_gid)
    os.fchmod(descriptor, stat.S_IMODE(wanted.st_mode))
    attributes, own = _attributes(model), _attributes(descriptor)
    with suppress(OSError):  # Any difference that remains is noticed below.
        for attribute in own.keys() - attributes.keys():
            os.removexattr(descriptor, attribute)
        for attribute, value in attributes.items():
            if own.get(attribute) != value:
                os.setxattr(descriptor, attribute, value)
    if attributes != own and _attributes(descriptor) != attributes:
        raise PermissionError(errno.EPERM, "its attributes can't be given to another file")


def _attributes(descriptor: int) -> dict[str, bytes]:
    """Return the extended attributes of an open file, or none if the system or file system does not support them."""
    with suppress(OSError, AttributeError):
        return {name: os.getxattr(descriptor, name) for name in os.listxattr(descriptor)}
    return {}


def _write_in_place(folder: int, name: str, old: int, data: bytes) -> None:
    """Change the bytes of a file.

    If this process ends meanwhile, the old ones are in the file or in a copy beside it.
    """
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
                _write_from_start(file, previous)  # There is usually room for that, since nothing was cut off yet.
                copy.is_kept = False
                raise


def _write_from_start(file: int, data: bytes) -> None:
    os.lseek(file, 0, os.SEEK_SET)
    write_all(file, data)
    os.ftruncate(file, len(data))
    _synced(file)


@contextmanager
def _copied(folder: int, name: str, data: bytes) -> Generator[FileDraft]:
    """Yield a named copy for as long as it may be needed, beside the file or else among temporary files."""
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
    """A file that is being written, in the folder where it will be.

    It has no name yet if the system supports that, so that a killed process leaves nothing behind. The caller closes
    ``folder`` and ``descriptor``.
    """

    def __init__(self, folder: int, name: str) -> None:
        self._folder = folder
        self.name = f".{name[:NAME_CHARACTERS]}.{os.urandom(6).hex()}.tmp"
        unnamed = _open_unnamed(folder)
        self._has_name = unnamed is None
        self.is_kept = False
        """True if the temporary name must stay because its content is nowhere else."""
        self.descriptor = os.open(self.name, _CREATE, 0o666, dir_fd=folder) if unnamed is None else unnamed

    def link(self, name: str) -> None:
        """Give it an unused name.

        Raises:
            OSError: the name is used (FileExistsError), or the file system has no hard links.
        """
        own = self.name if self._has_name else f"{_DESCRIPTORS}/{self.descriptor}"
        os.link(own, name, src_dir_fd=self._folder, dst_dir_fd=self._folder, follow_symlinks=not self._has_name)

    def place(self, name: str) -> None:
        """Give it an unused name. On a file system without hard links, the check and the rename are two steps.

        Raises:
            OSError: the name is used (FileExistsError), or it can't be done.
        """
        try:
            self.link(name)
        except FileExistsError:
            raise
        except OSError:
            with suppress(FileNotFoundError):
                os.stat(name, dir_fd=self._folder, follow_symlinks=False)
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), name) from None
            self.rename(name)

    def give_name(self) -> None:
        """Give it its temporary name, unless it has that already.

        Raises:
            OSError: it can't be done.
        """
        if not self._has_name:
            self.link(self.name)
            self._has_name = True

    def rename(self, name: str) -> None:
        """Give it a name, replacing any file of that name.

        Raises:
            OSError: it can't be done.
        """
        self.give_name()
        os.rename(self.name, name, src_dir_fd=self._folder, dst_dir_fd=self._folder)

    def drop(self) -> None:
        """Remove its temporary name, if it still has that."""
        if self._has_name and not self.is_kept:
            with suppress(FileNotFoundError):
                os.unlink(self.name, dir_fd=self._folder)


def write_all(descriptor: int, data: bytes) -> None:
    """Write all bytes, in as many writes as needed.

    Raises:
        OSError: they can't be written; some of them may have been.
    """
    done = os.write(descriptor, data)
    while done < len(data):
        done += os.write(descriptor, memoryview(data)[done:])


def append_all(descriptor: int, data: bytes, end: int) -> None:
    """Append all bytes to a file of ``end`` bytes, or none: after a short write it is truncated again.

    Raises:
        OSError: they can't be written; the file is unchanged.
    """
    try:
        write_all(descriptor, data)
    except OSError:
        with suppress(OSError):  # The error to report is the one of the write.
            os.ftruncate(descriptor, end)  # Half a line would corrupt the next one.
        raise


def append_rotating(path: Path, data: bytes, most: int) -> None:
    """Append to a log that only its user may read. At ``most`` bytes it is renamed to ``<path>.1`` and starts over.

    Raises:
        OSError: the log can't be written.
    """
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    with suppress(FileNotFoundError):
        size = path.stat().st_size
        if size and size + len(data) > most:
            path.replace(path.with_name(f"{path.name}.1"))
    with opened(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW) as descriptor:
        write_all(descriptor, data)


def _synced(descriptor: int) -> None:
    """Write a file to disk. On macOS, ``fsync`` alone only hands it to the drive."""
    if FULL_SYNC is None:
        os.fsync(descriptor)
    else:
        fcntl.fcntl(descriptor, FULL_SYNC)


def sync_data(descriptor: int) -> None:
    """Write a file's data to disk, without its times if the system distinguishes the two.

    Raises:
        OSError: the disk refuses.
    """
    getattr(os, "fdatasync", _synced)(descriptor)


def sync_folder(path: Path) -> None:
    """Write a folder's entries to disk.

    Raises:
        OSError: the disk refuses.
    """
    with opened(path, os.O_DIRECTORY) as descriptor:
        _synced(descriptor)


def _open_unnamed(folder: int) -> int | None:
    """Open a new file without a name in a folder, or return None if that is not supported."""
    with suppress(OSError):
        return None if _UNNAMED is None else os.open(".", _UNNAMED, 0o666, dir_fd=folder)
    return None
