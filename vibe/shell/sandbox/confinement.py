"""Confines the commands of a run: chooses its sandbox once, and makes the policy for each place its commands run in.

Paths at which no command may create anything are occupied by empty folders and files, which the last command removes.
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
    inner_repositories,
    of_repository,
    placeholder_paths_in_repository,
    settings_of_user,
)
from vibe.shell.sandbox.kept import KeptPaths
from vibe.shell.sandbox.port import (
    READING,
    ReadOnlyUnavailableError,
    ResourceLimits,
    SandboxPolicy,
    SandboxRun,
    SandboxUnprovenError,
)
from vibe.shell.sandbox.records import Record, records_of
from vibe.shell.sandbox.refusals import refusal_note
from vibe.shell.sandbox.secrets import (
    MOST_ENTRIES,
    SYSTEM_FOLDERS,
    SecretSearch,
    hidden_paths,
    mount_points,
    secrets_of_system,
)
from vibe.shell.sandbox.settings import Network, SandboxConfig, SandboxMode
from vibe.shell.sandbox.temporary import kept_in, remove_abandoned, temporary_folder
from vibe.system.errors import ConfigError
from vibe.system.files import opened, try_lock, wait_for_lock
from vibe.system.git.config_file import cleaned
from vibe.system.git.discovery import located_at, small_text
from vibe.system.own_places import user_home_of

LOCK_SECONDS = 5.0
"""Seconds to wait for another process that is removing a placeholder, which takes only an instant."""

MARK = stat.S_ISVTX
"""The mode bit that distinguishes placeholders from the user's files. It is set as they are created, and has no meaning
for empty files and folders.
"""


class Placeholders:
    """Empty files and folders that exist as long as a process uses them. None is made where the user has a file.

    All users of a placeholder lock it, so that only the last one removes it, and none in use is taken for abandoned.
    """

    def __init__(self, paths: Iterable[Path]) -> None:
        held = [(path, lock) for path in paths if (lock := _created_and_locked(path)) is not None]
        self.release = weakref.finalize(self, _release, held)
        self._held = frozenset(_identity(lock) for _, lock in held)

    def are_among(self, others: Placeholders) -> bool:
        """Return whether ``others`` hold all of these too, so that releasing these removes none."""
        return self._held <= others._held


def _identity(lock: int) -> tuple[int, int]:
    found = os.fstat(lock)
    return found.st_dev, found.st_ino


def _created_and_locked(path: Path) -> int | None:
    while True:
        try:
            made = _created(path)
        except OSError:
            return None
        lock = _open_placeholder(path, is_known=made)
        if lock is None:
            if os.path.lexists(path):
                return None
            continue  # its last user has just removed it
        with suppress(OSError):  # on file systems without locks it is not removed either
            wait_for_lock(lock, LOCK_SECONDS, shared=True)
        if _is_at(lock, path):
            return lock
        os.close(lock)  # removed as well


def _created(path: Path) -> bool:
    """Create a placeholder. Return False if something is at the path already."""
    with suppress(FileExistsError):
        if path.name in FOLDERS:
            path.mkdir(0o777 | MARK)
        else:
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o666 | MARK))
        return True
    return False


def _open_placeholder(path: Path, *, is_known: bool = False) -> int | None:
    """Return a descriptor of the placeholder at a path, or None if there is something else or nothing.

    With ``is_known`` it is known to be a placeholder, even if the file system keeps no mark.
    """
    with suppress(OSError):
        if is_known or _is_ours(path, path.lstat()):
            with opened(path, os.O_NOFOLLOW | os.O_NONBLOCK) as lock:
                return os.dup(lock) if is_known or _is_ours(path, os.fstat(lock)) else None
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
    if _is_at(lock, path):  # another process has put something in it, so it is not a placeholder any more
        os.fchmod(lock, stat.S_IMODE(found.st_mode) & ~MARK)


def _is_at(lock: int, path: Path) -> bool:
    with suppress(OSError):
        return os.path.samestat(os.fstat(lock), path.lstat())
    return False


class Place(Struct, frozen=True, kw_only=True):
    """A place for commands to run in.

    Attributes:
        roots: Folders below which a command may write. The first is its own folder.
        readable: Paths that it may read even though they are hidden.
        network: The network it may use, or None for what the settings say.
        read_only: It writes nothing, reaches nothing outside and reads no secrets, whatever the settings say.
        secrets: Paths below ``roots`` and ``readable`` that are hidden from it. If it is ``read_only``, paths whose
            names suggest secrets are hidden as well.
        bounds: Limits of its use of resources, besides those of the settings.
    """

    roots: tuple[Path, ...]
    readable: tuple[Path, ...] = ()
    network: Network | None = None
    read_only: bool = False
    secrets: tuple[Path, ...] = ()
    bounds: ResourceLimits = ResourceLimits()


SETTINGS_OF_SYSTEM = Path("/etc/gitconfig")

_Control: TypeAlias = "Mapping[Path, Sequence[Path]]"
"""Files that decide what runs later, by the workspace or repository they belong to."""


class _Reusable(Struct):
    """Placeholders and records that are kept from one command to the next.

    Making them for each command would cost more than the command. Nothing is kept while nobody is at work
    (``is_over``).
    """

    placeholders: dict[tuple[Path, ...], Placeholders] = field(default_factory=dict[tuple[Path, ...], Placeholders])
    blank: list[Record] = field(default_factory=list[Record])
    is_over: bool = False

    def keep_empty(self, paths: tuple[Path, ...]) -> None:
        """Keep placeholders at these paths between commands too."""
        if paths and not self.is_over and paths not in self.placeholders:
            self.placeholders[paths] = Placeholders(paths)

    def has(self, placeholders: Placeholders) -> bool:
        """Return whether these placeholders are kept."""
        return not self.is_over and any(placeholders.are_among(kept) for kept in self.placeholders.values())

    def record(self, folder: Path, kept: Sequence[dict[str, Any]]) -> Record:
        """Return a record of ``kept`` for a command."""
        try:
            record = self.blank.pop()
        except IndexError:
            return Record(folder, kept)
        record.fill(kept)
        return record

    def take_back(self, record: Record) -> None:
        """Keep the record of a command that has ended for another one, or remove it."""
        if not self.is_over and record.blank():
            self.blank.append(record)
        else:
            record.remove()

    def release(self) -> None:
        """Remove everything that is kept. Placeholders used by running commands remain until these end."""
        self.is_over = True
        for placeholders in [*self.placeholders.values()]:
            placeholders.release()
        for record in [*self.blank]:
            record.remove()


class Guard(Struct, frozen=True):
    """Files to restore and to remove once a command has ended. ``control`` are the files it must not change."""

    control: _Control = field(default_factory=dict[Path, Sequence[Path]])
    kept: tuple[KeptPaths, ...] = ()
    placeholders: Placeholders = field(default_factory=lambda: Placeholders(()))
    record: Record | None = None
    reusable: _Reusable = field(default_factory=lambda: _Reusable(is_over=True))

    def end_at_once(self) -> bool:
        """End the guard if nothing was changed and everything is kept for the next command, else return False.

        Only a few paths are looked at and one file is emptied, which takes less time than to use a thread.
        """
        if not (self.reusable.has(self.placeholders) and all(kept.is_as_it_was() for kept in self.kept)):
            return False
        self.end()
        return True

    def end(self) -> str:
        """Put everything back, and return notes about what was changed. Reads and writes files."""
        self.placeholders.release()
        notes = [kept.put_back() for kept in self.kept]
        if self.record is not None:
            self.reusable.take_back(self.record)
        return "\n".join(filter(None, notes))


class _Owner:
    """Owns temporary folders, which are removed with it."""


class Confinement:
    """Confines commands as the settings say. All agents of a run share one.

    ``keys`` are variables that hold keys, whatever their names. ``vibe_home`` is hidden, and so are other places with
    secrets. Temporary files are in one folder, which is removed with this object, or at the latest with the process.
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
        self._reusable = _Reusable(is_over=True)

    @asynccontextmanager
    async def at_work(self) -> AsyncGenerator[None]:
        """Keep what each command needs for the next one, for as long as commands follow one another."""
        reusable = self._reusable = _Reusable()
        try:
            yield
        finally:
            if self._reusable is reusable:
                self._reusable = _Reusable(is_over=True)
            with CancelScope(shield=True):
                await to_thread.run_sync(reusable.release)

    @cached_property
    def writable(self) -> tuple[Path, ...]:
        """The paths besides the workspace that the settings let commands write, resolved before a command runs."""
        return tuple(map(_resolved, self._config.writable))

    @cached_property
    def readable(self) -> tuple[Path, ...]:
        """The hidden paths that the settings let commands read, resolved before a command runs."""
        return tuple(map(_resolved, self._config.readable))

    @cached_property
    def hidden(self) -> tuple[Path, ...]:
        """The paths that contain secrets, resolved. Reads the file system once."""
        return hidden_paths(self._environ, [self.vibe_home])

    @cached_property
    def _programs(self) -> tuple[Path, ...]:
        """The folders in which programs are looked up, or the virtual environments these folders belong to.

        Links are left out: a command could make one, and would then see something that it must not.
        """
        entries = dict.fromkeys(os.path.normpath(entry) for entry in self._environ.get("PATH", "").split(os.pathsep))
        folders = [Path(entry) for entry in entries if entry == os.path.realpath(entry)]
        marks = {*filter(os.path.exists, (folder.parent / "pyvenv.cfg" for folder in folders))}
        return tuple(folder.parent if folder.parent / "pyvenv.cfg" in marks else folder for folder in folders)

    @cached_property
    def _hidden_from_all(self) -> tuple[Path, ...]:
        """The paths in ``hidden``, and secrets of the system. Reads many folders, once."""
        return tuple(dict.fromkeys((*self.hidden, *(secrets_of_system() or ()))))

    @cached_property
    def _hidden_from_readers(self) -> tuple[Path, ...] | None:
        """The paths in ``hidden``, and all secrets that a program in a read-only place could see.

        None means there are too many files to look through.
        """
        mounted = (Path(place) for place in mount_points() if place.startswith("/usr/"))
        found = secrets_of_system([*SYSTEM_FOLDERS, *mounted], MOST_ENTRIES)
        return None if found is None else tuple(dict.fromkeys((*self.hidden, *found)))

    @property
    def required(self) -> bool:
        """True if everything must be confined, including the commands that a plan's author wrote."""
        return self._config.mode is SandboxMode.REQUIRED

    def choice(self) -> SandboxChoice:
        """Return the sandbox of this machine.

        The first call starts processes to find out, so don't make it on an event loop.

        Raises:
            EnvironmentFailure: a sandbox is required and none works.
            SandboxUnprovenError: a temporary failure left the question open. The next call tries again.
        """
        with self._lock:
            if self._choice is None:
                self._choice = choose_sandbox(self._config.mode, self._environ, self._backends)
            return self._choice

    @property
    def weakness(self) -> str:
        """A warning that commands run without a sandbox although one is wanted, or ""."""
        choice = self._choice
        if choice is None or choice.sandbox is not None or self._config.mode is SandboxMode.OFF:
            return ""
        return f"commands run without a sandbox because none works here ({choice.reason}): see `vibe doctor`"

    def can_read_only(self) -> bool:
        """Return whether a place can be ``read_only``.

        Don't call it on an event loop unless ``choice`` has been called before.
        """
        sandbox = self.choice().sandbox
        return sandbox is not None and sandbox.has_namespaces

    def without_keys(self, environ: Mapping[str, str]) -> Mapping[str, str]:
        """Return ``environ`` without the variables that hold keys."""
        return {name: value for name, value in environ.items() if name not in self._keys}

    def confine(self, argv: Sequence[str], environ: Mapping[str, str], place: Place) -> tuple[SandboxRun, Guard] | None:
        """Return the confined command, and the guard to ``end`` once it has ended. None if there is no sandbox.

        The command must be started in the place's folder. Reads and writes files.

        Raises:
            EnvironmentFailure: a sandbox is required and none works.
            ReadOnlyUnavailableError: the place is ``read_only``, and no sandbox can enforce that.
        """
        sandbox = self.choice().sandbox
        if sandbox is None and place.read_only:
            raise ReadOnlyUnavailableError("no sandbox")
        if sandbox is None:
            return None
        guard = self.guard(place)
        policy = self._read_only_policy(place) if place.read_only else self.policy(place, guard.control)
        return sandbox.wrap(argv, environ, policy), guard

    def note(self, output: str, exit_code: int, place: Place) -> str:
        """Return a note for the output of a command confined there that may have been refused something, usually ""."""
        chosen = self._choice
        if chosen is None or chosen.sandbox is None or place.read_only:
            return ""
        network = place.network or self._config.network
        return refusal_note(output, exit_code, chosen.sandbox.name, network, _other_owner(place.roots[0]))

    def _read_only_policy(self, place: Place) -> SandboxPolicy:
        """Return the policy for commands in a read-only place.

        Raises:
            ReadOnlyUnavailableError: the workspace contains the user's or vibe's home, or there are too many files.
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
        """Return the policy for commands in a place, which must not change ``control``. Reads files."""
        # We commit in the worktrees that we make for steps, so commands in them don't need to write to the repository.
        vibe_home = Path(os.path.realpath(self.vibe_home))
        users_roots = [root for root in place.roots if not Path(os.path.realpath(root)).is_relative_to(vibe_home)]
        repositories = [folder for root in users_roots for folder in _repository_of_worktree(root) if folder in control]
        roots = (*filter(_is_real, (*place.roots, *self.writable)), *repositories)
        frozen = [path for top in dict.fromkeys((*place.roots, *repositories)) for path in control[top]]
        frozen.append(Path(sys.prefix))  # the environment vibe itself runs from, which may be in the workspace
        readable = (*filter(_is_real, self.readable), self.vibe_home / "skills", *place.readable)
        temp, box = self._own_folders()
        common = [folder for root in place.roots for folder in _repository_of_worktree(root)]
        shown = [Path(os.path.realpath(user_home_of(self._environ))), *common, *(folder.parent for folder in common)]
        shown += self._programs
        return SandboxPolicy(
            writable=tuple(dict.fromkeys(Path(os.path.realpath(root)) for root in roots)),
            temp=temp,
            box=box,
            # Landlock can't hide anything in a writable folder.
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
                memory_mb=min(filter(None, (self._config.max_memory_mb, place.bounds.memory_mb)), default=0),
                file_mb=self._config.max_file_mb,
            ),
        )

    def guard(self, place: Place) -> Guard:
        """Return a guard that keeps a command from creating or changing files that decide what runs later.

        Reads and writes files.
        """
        sandbox = self.choice().sandbox
        if sandbox is None or place.read_only:
            return Guard()
        control, reusable = self._control_of(place), self._reusable
        empty = tuple(path for root in place.roots for path in _placeholders_at(root)) if sandbox.has_namespaces else ()
        reusable.keep_empty(empty)
        placeholders = Placeholders(empty)
        kept: list[KeptPaths] = []
        for top, paths in control.items():
            below = [path for path in paths if path.is_relative_to(top)]
            kept.append(KeptPaths(top, below, () if sandbox.has_namespaces else below))
        record = reusable.record(records_of(self.vibe_home), [files.written() for files in kept])
        return Guard(control, tuple(kept), placeholders, record, reusable)

    def _control_of(self, place: Place) -> _Control:
        """Return the control files of a place, after creating the folder for hooks where there is none."""
        found: dict[Path, Sequence[Path]] = {}
        for root in place.roots:
            with suppress(OSError):  # It is there already, there is no repository, or this user may not write in it.
                (root / ".git" / "hooks").mkdir()
            found[root] = [*control_paths(root, self._inner_of(root), self._settings)]
            found |= {folder: [*of_repository(folder)] for folder in _repository_of_worktree(root)}
        return found

    def _inner_of(self, root: Path) -> tuple[Path, ...]:
        """Return the repositories below a root that existed before the first command."""
        if root not in self._inner:
            self._inner[root] = tuple(inner_repositories(root))
        return self._inner[root]

    def _own_folders(self) -> tuple[Path, Path]:
        """Return the folder for the commands' temporary files, and the one for their sandboxes, hidden from them."""
        with self._lock:
            if self._folders is None:
                base = self._environ.get("TMPDIR")
                self._owner = _Owner()
                self._folders = temporary_folder(base, self._owner), temporary_folder(base, self._owner)
            return self._folders

    def close(self) -> None:
        """Remove the temporary folders once no command runs. Otherwise they are removed with this object. Blocks."""
        with self._lock:
            self._folders = self._owner = None


def _cleaned(files: Iterable[Path], box: Path) -> dict[Path, str]:
    """Return the git settings that hold credentials, with paths of copies in ``box`` without these.

    Reads and writes files.
    """
    real = dict.fromkeys(Path(os.path.realpath(file)) for file in (*files, SETTINGS_OF_SYSTEM))
    texts = {file: cleaned(file) for file in real}
    found = {file: text for file, text in texts.items() if text is not None}
    return {file: kept_in(box, text.encode("utf-8", "surrogateescape")) for file, text in found.items()}


def confines(confinement: Confinement) -> bool:
    """Return whether commands are confined. If a temporary failure left that open, assume so."""
    with suppress(SandboxUnprovenError):
        return confinement.choice().sandbox is not None
    return True


def remove_remains(environ: Mapping[str, str], workdir: Path) -> None:
    """Remove temporary folders and placeholders that killed runs left behind. Writes to both places."""
    remove_abandoned(environ.get("TMPDIR"))
    remove_abandoned_placeholders(workdir)


def remove_abandoned_placeholders(root: Path) -> None:
    """Remove the placeholders that killed runs left in a workspace. Reads and writes files."""
    _release((path, lock) for path in _placeholders_at(root) if (lock := _open_placeholder(path)) is not None)


def _placeholders_at(root: Path) -> list[Path]:
    """Return the paths for placeholders in a workspace and in its repository, also if it is a worktree of that."""
    repositories = (root / ".git",) if os.path.isdir(root / ".git") else _repository_of_worktree(root)
    return [
        *(root / name for name in FOLDERS),
        *(path for folder in repositories for path in placeholder_paths_in_repository(folder)),
    ]


def _other_owner(root: Path) -> int | None:
    """Return the owner of a folder if root runs vibe and the owner is another user.

    Inside the sandbox root has no capabilities, so it can't write that user's files.
    """
    with suppress(OSError):
        owner = root.stat().st_uid
        return owner if os.geteuid() == 0 and owner != 0 else None
    return None


def _resolved(path: str) -> Path:
    return Path(os.path.realpath(os.path.expanduser(path)))  # noqa: PTH111  as the user wrote it


def _is_real(path: Path) -> bool:
    """Return whether a path still leads through no link, as commands may have made some."""
    return os.path.realpath(path) == str(path)


ASTRAY = "leads out of the workspace by a link, which a command may have made: name where it leads, or remove the link"


def check_paths(config: SandboxConfig, workspace: Path, origins: Mapping[str, str]) -> None:
    """Check that paths of the settings which are in a workspace stay in it. ``origins`` says where each key is set.

    Raises:
        ConfigError: one leads out of it.
    """
    top = Path(os.path.realpath(workspace))
    for key, paths in (("readable", config.readable), ("writable", config.writable)):
        for path in paths:
            named = Path(os.path.abspath(os.path.expanduser(path)))  # noqa: PTH100, PTH111  as above
            is_inside = any(map(named.is_relative_to, (workspace, top)))
            if is_inside and not _resolved(path).is_relative_to(top):
                raise ConfigError(origins[f"sandbox.{key}"], f"sandbox.{key}", f"{path!r} {ASTRAY}")


def _repository_of_worktree(root: Path) -> tuple[Path, ...]:
    """Return the repository's folder that a git worktree at ``root`` writes to, if each names the other."""
    try:
        found = located_at(root)
        if found is None or found.git_dir == found.common_dir:
            return ()
        back = found.git_dir / small_text(found.git_dir / "gitdir").strip()
    except (OSError, ValueError):
        return ()
    return (found.common_dir,) if os.path.realpath(back) == os.path.realpath(root / ".git") else ()
