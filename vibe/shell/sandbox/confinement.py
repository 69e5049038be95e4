"""Confinement: one run's sandbox, chosen once, and the policy for each place where its commands run.

Where no command may make anything, empty folders and files stand, which go with the last command.
"""

from __future__ import annotations

import os
import stat
import sys
import threading
import weakref
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from functools import cached_property
from pathlib import Path
from typing import Any, TypeAlias

from anyio import CancelScope, to_thread
from msgspec import Struct, field

from vibe.shell.sandbox.choose import BACKENDS, SandboxChoice, choose_sandbox
from vibe.shell.sandbox.control import (
    FOLDERS,
    control_paths,
    fillable_of_repository,
    inner_repositories,
    of_repository,
    settings_of_user,
)
from vibe.shell.sandbox.kept import Kept
from vibe.shell.sandbox.port import (
    READING,
    Confined,
    ReadOnlyUnavailableError,
    ResourceLimits,
    SandboxPolicy,
    SandboxUnprovenError,
)
from vibe.shell.sandbox.records import Record, records_of
from vibe.shell.sandbox.refusals import refusal_note
from vibe.shell.sandbox.secrets import (
    MOST_ENTRIES,
    OF_THE_SYSTEM,
    SecretSearch,
    hidden_paths,
    mount_points,
    secrets_of_system,
)
from vibe.shell.sandbox.settings import Network, SandboxConfig, SandboxMode
from vibe.shell.sandbox.temporary import kept_in, remove_abandoned, temporary_folder
from vibe.system.files import opened, try_lock, wait_for_lock
from vibe.system.git.config_file import cleaned
from vibe.system.git.discovery import located_at, small_text
from vibe.system.own_places import user_home_of

LOCK_SECONDS = 5.0
"""The time to wait for another process that takes one away: that is done in an instant."""

MARK = stat.S_ISVTX
"""The mode bit that tells ours from files of a user: set in the instant that they are made, it says nothing about
empty ones."""


class Placeholders:
    """Placeholders that exist as long as a process uses them; where a file of the user's stands, there is none.

    Each is locked by all its users, so that only the last one takes it away, and none in use is taken for abandoned.
    """

    def __init__(self, paths: Iterable[Path]) -> None:
        held = [(path, lock) for path in paths if (lock := _placed(path)) is not None]
        self.release = weakref.finalize(self, _release, held)
        self._held = frozenset(_which(lock) for _, lock in held)

    def are_among(self, others: Placeholders) -> bool:
        """Return whether releasing these takes none away, as long as ``others`` are not released."""
        return self._held <= others._held


def _which(lock: int) -> tuple[int, int]:
    found = os.fstat(lock)
    return found.st_dev, found.st_ino


def _placed(path: Path) -> int | None:
    while True:
        try:
            made = _made(path)
        except OSError:
            return None
        lock = _opened(path, anyhow=made)
        if lock is None:
            if os.path.lexists(path):
                return None
            continue  # the last one to hold it took it away just now
        with suppress(OSError):  # where there are no locks, it is not removed either
            wait_for_lock(lock, LOCK_SECONDS, shared=True)
        if _is_at(lock, path):
            return lock
        os.close(lock)  # as above


def _made(path: Path) -> bool:
    """Return whether it is there now and was not before."""
    with suppress(FileExistsError):
        if path.name in FOLDERS:
            path.mkdir(0o777 | MARK)
        else:
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o666 | MARK))
        return True
    return False


def _opened(path: Path, *, anyhow: bool = False) -> int | None:
    """Return what stands there, if it is a placeholder.

    ``anyhow``: it is one, even where the file system keeps no mark.
    """
    with suppress(OSError):
        if anyhow or _is_ours(path, path.lstat()):
            with opened(path, os.O_NOFOLLOW | os.O_NONBLOCK) as lock:
                return os.dup(lock) if anyhow or _is_ours(path, os.fstat(lock)) else None
    return None


def _is_ours(path: Path, found: os.stat_result) -> bool:
    is_kind = stat.S_ISDIR if path.name in FOLDERS else stat.S_ISREG
    return is_kind(found.st_mode) and bool(found.st_mode & MARK) and found.st_uid == os.geteuid()


def _release(held: Iterable[tuple[Path, int]]) -> None:
    for path, lock in held:
        with suppress(OSError):
            if try_lock(lock) and _is_at(lock, path):
                _remove_empty(path, lock)
        os.close(lock)


def _remove_empty(path: Path, lock: int) -> None:
    found = os.fstat(lock)
    if stat.S_ISDIR(found.st_mode):
        with suppress(OSError):
            path.rmdir()
    elif not found.st_size:
        path.unlink()
    if _is_at(lock, path):  # another process put something in there, so it is theirs now
        os.fchmod(lock, stat.S_IMODE(found.st_mode) & ~MARK)


def _is_at(lock: int, path: Path) -> bool:
    with suppress(OSError):
        return os.path.samestat(os.fstat(lock), path.lstat())
    return False


class Place(Struct, frozen=True, kw_only=True):
    """The place a command runs in: it may write below ``roots`` (the first is its folder) and read ``readable``.

    ``network`` None: as the settings say. ``readable`` is read although it is hidden. ``read_only``: it writes nothing,
    reaches nothing outside and reads no secrets, whatever the settings say. ``secrets`` lie below ``roots`` and
    ``readable`` and are hidden from it, as are, where it is ``read_only``, those that their names tell.
    """

    roots: tuple[Path, ...]
    readable: tuple[Path, ...] = ()
    network: Network | None = None
    read_only: bool = False
    secrets: tuple[Path, ...] = ()


SETTINGS_OF_SYSTEM = Path("/etc/gitconfig")

_Control: TypeAlias = "Mapping[Path, Sequence[Path]]"
"""Files that decide what runs later, by the workspace or repository they are of."""


class _Standing(Struct):
    """Things that stay from one command to the next, so as not to be made for each: they cost more than the command.

    Nothing stays while nobody is at work (``is_over``).
    """

    placeholders: dict[tuple[Path, ...], Placeholders] = field(default_factory=dict[tuple[Path, ...], Placeholders])
    blank: list[Record] = field(default_factory=list[Record])
    is_over: bool = False

    def keep_empty(self, paths: tuple[Path, ...]) -> None:
        """Keep these places empty between commands, too."""
        if paths and not self.is_over and paths not in self.placeholders:
            self.placeholders[paths] = Placeholders(paths)

    def has(self, placeholders: Placeholders) -> bool:
        """Return whether these stay."""
        return not self.is_over and any(placeholders.are_among(one) for one in self.placeholders.values())

    def record(self, folder: Path, kept: Sequence[dict[str, Any]]) -> Record:
        """Return a command's record."""
        try:
            record = self.blank.pop()
        except IndexError:
            return Record(folder, kept)
        record.fill(kept)
        return record

    def take_back(self, record: Record) -> None:
        """A command has ended."""
        if not self.is_over and record.blank():
            self.blank.append(record)
        else:
            record.remove()

    def release(self) -> None:
        """Take all of it away; what commands under way use stays until they end."""
        self.is_over = True
        for placeholders in [*self.placeholders.values()]:
            placeholders.release()
        for record in [*self.blank]:
            record.remove()


class Guard(Struct, frozen=True):
    """Files to restore, and ones to take away, once a command has ended. ``control`` are files it must not change."""

    control: _Control = field(default_factory=dict[Path, Sequence[Path]])
    kept: tuple[Kept, ...] = ()
    placeholders: Placeholders = field(default_factory=lambda: Placeholders(()))
    record: Record | None = None
    standing: _Standing = field(default_factory=lambda: _Standing(is_over=True))

    def end_at_once(self) -> bool:
        """End it if all is as it was, and stays for the next command; else false, and nothing has happened.

        That takes a few looks at the file system and empties a file: less than it takes to have a thread do it.
        """
        if not (self.standing.has(self.placeholders) and all(kept.is_as_it_was() for kept in self.kept)):
            return False
        self.end()
        return True

    def end(self) -> str:
        """Put everything back, and say what was not as it was. Reads and writes files."""
        self.placeholders.release()
        notes = [kept.put_back() for kept in self.kept]
        if self.record is not None:
            self.standing.take_back(self.record)
        return "\n".join(filter(None, notes))


class _Owner:
    """Has temporary folders, which go with it."""


class Confinement:
    """Confines commands as the settings say; one for all agents of a run.

    ``keys`` are variables that hold keys, whatever they are called. ``vibe_home`` and what else holds secrets is
    hidden. Temporary files live in one folder, which goes with this object, at the latest with the process.
    """

    def __init__(
        self,
        config: SandboxConfig,
        environ: Mapping[str, str],
        vibe_home: Path,
        *,
        keys: Iterable[str] = (),
        backends: Sequence[str] = BACKENDS,
    ) -> None:
        self._keys = frozenset(keys)
        self._config = config
        self._environ = environ
        self.vibe_home = vibe_home
        """Vibe's own folder."""
        self._backends = backends
        self._settings = settings_of_user(environ)
        self._lock = threading.Lock()
        self._choice: SandboxChoice | None = None
        self._folders: tuple[Path, Path] | None = None
        self._owner: _Owner | None = None
        self._inner: dict[Path, tuple[Path, ...]] = {}
        self._search = SecretSearch()
        self._standing = _Standing(is_over=True)

    @asynccontextmanager
    async def at_work(self) -> AsyncGenerator[None]:
        """While somebody is at work here, one command after the other, keep for the next what each of them needs."""
        standing = self._standing = _Standing()
        try:
            yield
        finally:
            if self._standing is standing:
                self._standing = _Standing(is_over=True)
            with CancelScope(shield=True):
                await to_thread.run_sync(standing.release)

    @property
    def writable(self) -> tuple[Path, ...]:
        """The places besides the workspace that settings let commands write, resolved."""
        return tuple(map(_expanded, self._config.writable))

    @property
    def readable(self) -> tuple[Path, ...]:
        """The hidden places that settings let commands read, resolved."""
        return tuple(map(_expanded, self._config.readable))

    @cached_property
    def hidden(self) -> tuple[Path, ...]:
        """The places that contain secrets, resolved. Reads the file system, once."""
        return hidden_paths(self._environ, [self.vibe_home])

    @cached_property
    def _programs(self) -> tuple[Path, ...]:
        """The folders that programs are looked up in, with the virtual environments they belong to.

        None that a link leads to: a command could lay the link, and would see there what it must not.
        """
        entries = dict.fromkeys(os.path.normpath(one) for one in self._environ.get("PATH", "").split(os.pathsep))
        folders = [Path(entry) for entry in entries if entry == os.path.realpath(entry)]
        marked = {*filter(os.path.exists, (one.parent / "pyvenv.cfg" for one in folders))}
        return tuple(one.parent if one.parent / "pyvenv.cfg" in marked else one for one in folders)

    @cached_property
    def _hidden_from_all(self) -> tuple[Path, ...]:
        """The same, and those of the system. Reads many folders, once."""
        return tuple(dict.fromkeys((*self.hidden, *(secrets_of_system() or ()))))

    @cached_property
    def _hidden_from_readers(self) -> tuple[Path, ...] | None:
        """The same of all that a program sees that only reads; None: too much to look through."""
        mounted = (Path(place) for place in mount_points() if place.startswith("/usr/"))
        found = secrets_of_system([*OF_THE_SYSTEM, *mounted], MOST_ENTRIES)
        return None if found is None else tuple(dict.fromkeys((*self.hidden, *found)))

    @property
    def required(self) -> bool:
        """True if everything must be confined, a plan author's own commands included."""
        return self._config.mode is SandboxMode.REQUIRED

    def choice(self) -> SandboxChoice:
        """Return the sandbox there is, found out at the first call. Starts processes, so not on an event loop.

        Raises:
            EnvironmentFailure: one is required and none works.
            SandboxUnprovenError: it could not be found out; the next call tries again.
        """
        with self._lock:
            if self._choice is None:
                self._choice = choose_sandbox(self._config.mode, self._environ, self._backends)
            return self._choice

    @property
    def weakness(self) -> str:
        """A warning that commands run without a sandbox although one is wanted.

        Blank if there is nothing to say.
        """
        choice = self._choice
        if choice is None or choice.sandbox is not None or self._config.mode is SandboxMode.OFF:
            return ""
        return f"commands run without a sandbox because none works here ({choice.reason}): see `vibe doctor`"

    def can_read_only(self) -> bool:
        """Return whether a place can be ``read_only``.

        As ``choice``: not on an event loop, unless that has been called.
        """
        sandbox = self.choice().sandbox
        return sandbox is not None and sandbox.has_namespaces

    def without_keys(self, environ: Mapping[str, str]) -> Mapping[str, str]:
        """``environ`` without the variables that hold keys."""
        return {name: value for name, value in environ.items() if name not in self._keys}

    def confine(self, argv: Sequence[str], environ: Mapping[str, str], place: Place) -> tuple[Confined, Guard] | None:
        """The command confined, to be started in the place's folder, and what is to ``end`` once it has ended.

        None where nothing confines. Reads and writes files.

        Raises:
            EnvironmentFailure: one is required and none works.
            ReadOnlyUnavailableError: the place is ``read_only``, and that can't be had.
        """
        sandbox = self.choice().sandbox
        if sandbox is None and place.read_only:
            raise ReadOnlyUnavailableError("no sandbox")
        if sandbox is None:
            return None
        guard = self.guard(place)
        policy = self._reading(place) if place.read_only else self.policy(place, guard.control)
        return sandbox.wrap(argv, environ, policy), guard

    def note(self, output: str, exit_code: int, place: Place) -> str:
        """Return what to add to the output of a command confined there that may have been refused something.

        Mostly nothing.
        """
        chosen = self._choice
        if chosen is None or chosen.sandbox is None or place.read_only:
            return ""
        network = place.network or self._config.network
        return refusal_note(output, exit_code, chosen.sandbox.name, network, _other_owner(place.roots[0]))

    def _reading(self, place: Place) -> SandboxPolicy:
        """Return what a command there may do that only reads.

        Raises:
            ReadOnlyUnavailableError: the workspace holds the home, or there are too many files.
        """
        shown = tuple(Path(os.path.realpath(path)) for path in (*place.roots, *place.readable))
        home = Path(os.path.realpath(user_home_of(self._environ)))
        for kept in (home, Path(os.path.realpath(self.vibe_home))):
            if any(kept.is_relative_to(path) for path in shown):
                raise ReadOnlyUnavailableError(f"the workspace contains {str(kept)!r}")
        repositories = [folder for root in place.roots for folder in _repository_of_worktree(root)]
        secrets = self._search.below((*place.roots, *place.readable))
        if secrets is None or self._hidden_from_readers is None:
            raise ReadOnlyUnavailableError("too many files to check for secrets")
        temp, box = self._own_folders()
        settings = [path for root in place.roots for path in control_paths(root, self._inner_of(root), self._settings)]
        settings += [path for folder in repositories for path in of_repository(folder)]
        return SandboxPolicy(
            writable=(),
            cleaned=_cleaned((*settings, *(root / ".gitmodules" for root in place.roots)), box),
            temp=temp,
            box=box,
            hidden=(*self._hidden_from_readers, *place.secrets, *secrets),
            readable=(*shown, *repositories),
            read_only=True,
            bounds=READING,
        )

    def policy(self, place: Place, control: _Control) -> SandboxPolicy:
        """Return what a command there may do, ``control`` being what it may not change. Reads files."""
        # A worktree that we made for a step is committed by us: what runs in it needs no hand on the user's repository.
        own = Path(os.path.realpath(self.vibe_home))
        theirs = [root for root in place.roots if not Path(os.path.realpath(root)).is_relative_to(own)]
        repositories = [folder for root in theirs for folder in _repository_of_worktree(root) if folder in control]
        roots = (*place.roots, *repositories, *self.writable)
        frozen = [path for top in dict.fromkeys((*place.roots, *repositories)) for path in control[top]]
        frozen.append(Path(sys.prefix))  # what vibe runs by, and beside it, where a workspace holds that
        readable = (*self.readable, self.vibe_home / "skills", *place.readable)
        temp, box = self._own_folders()
        common = [folder for root in place.roots for folder in _repository_of_worktree(root)]
        shown = [Path(os.path.realpath(user_home_of(self._environ))), *common, *(folder.parent for folder in common)]
        shown += self._programs
        return SandboxPolicy(
            writable=tuple(dict.fromkeys(Path(os.path.realpath(root)) for root in roots)),
            temp=temp,
            box=box,
            # Landlock hides nothing writable.
            hidden=(*self._hidden_from_all, box, *(place.secrets if self.can_read_only() else ())),
            readable=tuple(filter(os.path.exists, readable)),
            shown=tuple(filter(os.path.exists, dict.fromkeys(shown))),
            cleaned=_cleaned((*frozen, *self._settings), box),
            frozen=tuple(dict.fromkeys(Path(os.path.realpath(path)) for path in filter(os.path.exists, frozen))),
            records=records_of(self.vibe_home),
            network=place.network or self._config.network,
            unix_sockets=self._config.unix_sockets,
            bounds=ResourceLimits(
                processes=self._config.max_processes,
                memory_mb=self._config.max_memory_mb,
                file_mb=self._config.max_file_mb,
            ),
        )

    def guard(self, place: Place) -> Guard:
        """See to it that a command there makes and changes nothing that decides what runs later.

        Reads and writes files.
        """
        sandbox = self.choice().sandbox
        if sandbox is None or place.read_only:
            return Guard()
        control, standing = self._control_of(place), self._standing
        empty = tuple(path for root in place.roots for path in _fillable_at(root)) if sandbox.has_namespaces else ()
        standing.keep_empty(empty)
        placeholders = Placeholders(empty)
        kept: list[Kept] = []
        for top, paths in control.items():
            below = [path for path in paths if path.is_relative_to(top)]
            kept.append(Kept(top, below, () if sandbox.has_namespaces else below))
        record = standing.record(records_of(self.vibe_home), [one.written() for one in kept])
        return Guard(control, tuple(kept), placeholders, record, standing)

    def _control_of(self, place: Place) -> _Control:
        """Find it, after a folder for hooks was made where there is none."""
        found: dict[Path, Sequence[Path]] = {}
        for root in place.roots:
            if (root / ".git").is_dir():
                (root / ".git" / "hooks").mkdir(exist_ok=True)
            found[root] = [*control_paths(root, self._inner_of(root), self._settings)]
            found |= {folder: [*of_repository(folder)] for folder in _repository_of_worktree(root)}
        return found

    def _inner_of(self, root: Path) -> tuple[Path, ...]:
        """The repositories below a root that were there before the first command."""
        if root not in self._inner:
            self._inner[root] = inner_repositories(root)
        return self._inner[root]

    def _own_folders(self) -> tuple[Path, Path]:
        """For temporary files of commands, and for what makes their sandboxes, which they don't see."""
        with self._lock:
            if self._folders is None:
                base = self._environ.get("TMPDIR")
                self._owner = _Owner()
                self._folders = temporary_folder(base, self._owner), temporary_folder(base, self._owner)
            return self._folders

    def close(self) -> None:
        """Remove the temporary folders, now that no command runs; without it, they go with the object. Blocks."""
        with self._lock:
            self._folders = self._owner = None


def _cleaned(files: Iterable[Path], box: Path) -> dict[Path, str]:
    """Return files of git's settings with credentials, and copies in ``box`` without them. Reads and writes files."""
    real = dict.fromkeys(Path(os.path.realpath(file)) for file in (*files, SETTINGS_OF_SYSTEM))
    texts = {file: cleaned(file) for file in real}
    found = {file: text for file, text in texts.items() if text is not None}
    return {file: kept_in(box, text.encode("utf-8", "surrogateescape")) for file, text in found.items()}


def confines(confinement: Confinement) -> bool:
    """Return whether commands are confined; where that could not be found out, whether they are to be."""
    try:
        return confinement.choice().sandbox is not None
    except SandboxUnprovenError:
        return True


def remove_remains(environ: Mapping[str, str], workdir: Path) -> None:
    """Remove what runs that were killed left of their commands' confinement; writes in both places."""
    remove_abandoned(environ.get("TMPDIR"))
    remove_abandoned_placeholders(workdir)


def remove_abandoned_placeholders(root: Path) -> None:
    """Remove what commands of runs that were killed left at a workspace to keep places empty.

    Reads and writes files.
    """
    _release((path, lock) for path in _fillable_at(root) if (lock := _opened(path)) is not None)


def _fillable_at(root: Path) -> list[Path]:
    """Return what must stay empty at a workspace and in its repository, which it may be a worktree of."""
    repositories = (root / ".git",) if (root / ".git").is_dir() else _repository_of_worktree(root)
    return [
        *(root / name for name in FOLDERS),
        *(path for folder in repositories for path in fillable_of_repository(folder)),
    ]


def _other_owner(root: Path) -> int | None:
    """The user a folder is of, where root looks at one of another user's: no capability is left to it inside."""
    with suppress(OSError):
        owner = root.stat().st_uid
        return owner if os.geteuid() == 0 and owner != 0 else None
    return None


def _expanded(path: str) -> Path:
    return Path(os.path.realpath(os.path.expanduser(path)))  # noqa: PTH111  as the user wrote it


def _repository_of_worktree(root: Path) -> tuple[Path, ...]:
    """The repository's folder that a git worktree at ``root`` writes to, if both name each other."""
    try:
        found = located_at(root)
        if found is None or found.git_dir == found.common_dir:
            return ()
        back = found.git_dir / small_text(found.git_dir / "gitdir").strip()
    except (OSError, ValueError):
        return ()
    return (found.common_dir,) if os.path.realpath(back) == os.path.realpath(root / ".git") else ()
