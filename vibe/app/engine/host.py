"""Host: the folders, variables and limits of the machine that a run may use, as the command line read them.

A vibe that was started by another vibe's agent knows how deep it is nested. Below two others, no agent begins.
"""

from __future__ import annotations

import os
import resource
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING
from uuid import uuid4

from msgspec import Struct, field
from msgspec.structs import replace

from vibe.core.config.paths import absolute, in_utf8
from vibe.system.errors import EnvironmentFailure, UsageError
from vibe.system.files import FolderLocks, entries_of, new_folder, typed_path
from vibe.system.own_places import NO_HOME, WRITERS_VARIABLE, OwnPlaces, user_home_of
from vibe.system.programs import guarded

if TYPE_CHECKING:
    from vibe.core.config.loader import GivenSettings
    from vibe.core.llm.limiter import CallLimiter
    from vibe.core.llm.retry import RetryPolicy
    from vibe.core.session.write_turn import WriteTurn


class Hold(Struct, eq=False):
    """A conversation or a plan that is present in a folder. ``name`` is what people call it."""

    folder: Path
    name: str
    writing: bool = False
    """True while it is writing there."""


class Workspaces(Struct, eq=False):
    """The folders that the runs of a process work in, with any number of runs in each. Thread-safe."""

    locks: FolderLocks = field(default_factory=FolderLocks)
    """The locks of this process on folders that it writes in."""
    _holds: list[Hold] = field(default_factory=list[Hold])
    _lock: Lock = field(default_factory=Lock)

    def enter(self, workspace: Path, name: str) -> Hold:
        """Register a run in a folder. Blocks."""
        hold = Hold(workspace.resolve(), name)
        with self._lock:
            self._holds.append(hold)
        return hold

    def leave(self, hold: Hold) -> None:
        """Remove a run from its folder. A second call does nothing."""
        with self._lock, suppress(ValueError):
            self._holds.remove(hold)

    def writing_beside(self, hold: Hold) -> tuple[str, ...]:
        """Return the names of the other runs that are writing in the folder now."""
        with self._lock:
            others = (one for one in self._holds if one.folder == hold.folder and one is not hold)
            return tuple(one.name for one in others if one.writing)


FILES_WANTED = (16_384, 10_240, 4_096)
"""Limits of open files to try, in this order: macOS accepts fewer than the limit that it reports."""
FILES_PER_STEP = 8
"""The most files a running step holds open: three pipes, its conversation, a connection to the model, a few more."""
FILES_RESERVED = 64
RUNTIME_VARIABLE = "XDG_RUNTIME_DIR"


class Host(Struct, frozen=True, kw_only=True):
    """The part of the machine that a run may use."""

    home: Path
    """The user's vibe folder: an absolute path, which need not exist."""
    environ: Mapping[str, str]
    retries: RetryPolicy | None = None
    """The rule for repeating model calls if a provider's settings have none. None means the usual one."""
    owns_process: bool = False
    """True if nothing else lives in this process. Then its signals mean the run, and its garbage is the run's."""
    patience: float | None = None
    """The seconds that a call waits for others that write in its folder. None means the usual time."""
    workspaces: Workspaces = field(default_factory=Workspaces)
    """The folders that its runs work in."""
    limiters: dict[str, CallLimiter] = field(default_factory=dict["str", "CallLimiter"])
    """The limiters of model calls by provider, which all runs of this host share."""
    results: tuple[Path, ...] = ()
    """The files that its runs must leave for a caller."""
    given: GivenSettings | None = None
    """Settings for its runs that override or add to the configured ones. None means there are none."""

    @property
    def runtime_dir(self) -> Path | None:
        """The user's directory for sockets, if the session has one. The specification says to ignore relative paths."""
        chosen = Path(self.environ.get(RUNTIME_VARIABLE, ""))
        return chosen if chosen.is_absolute() else None

    @property
    def own_places(self) -> OwnPlaces:
        """The places where its runs keep their own files, apart from the user's work."""
        return OwnPlaces(home=self.home, environ=self.environ, results=self.results)

    def new_folder(self, prefix: str) -> Path:
        """Make a folder for temporary files that stay."""
        return new_folder(prefix, self.environ.get("TMPDIR"))

    def beside(self, folders: Iterable[Path]) -> Host:
        """Return the host for work that may also write in these folders. vibe starts no program that lies in them."""
        return replace(self, environ=guarded(self.environ, folders))

    def as_writer(self) -> Host:
        """Return the host of one run. Its variables tell everything the run starts in whose turn it writes."""
        above, own = self.environ.get(WRITERS_VARIABLE), str(self.home / "locks" / f"{uuid4().hex[:16]}.writer")
        return replace(self, environ={**self.environ, WRITERS_VARIABLE: f"{above}{os.pathsep}{own}" if above else own})

    def turn(self, folders: Sequence[Path], name: str) -> WriteTurn:
        """Return this run's turns to write in some folders. ``name`` is what people call the run."""
        from vibe.core.session.write_turn import WriteTurn  # noqa: PLC0415  too slow an import for --help

        return WriteTurn(folders, name, self.environ, self.patience, self.workspaces.locks)


HOME_VARIABLE = "VIBE_HOME"
HOME_DIRECTORY = ".vibe"


def vibe_home(environ: Mapping[str, str], cwd: Path) -> Path:
    """Return the user's vibe folder according to the environment variables.

    Raises:
        EnvironmentFailure: they name none and the system knows no home of this user, a file is there, or its name
            is not UTF-8.
    """
    chosen = environ.get(HOME_VARIABLE)
    user_home = user_home_of(environ)
    if not chosen and user_home == NO_HOME:
        raise EnvironmentFailure(f"no home directory: set {HOME_VARIABLE} to a folder for vibe")
    home = Path(absolute(chosen, cwd, user_home)) if chosen else user_home / HOME_DIRECTORY
    # Path.exists would raise for a path inside a folder that we may not enter.
    existing = next(place for place in (home, *home.parents) if os.path.exists(place))
    if not os.path.isdir(existing):
        raise EnvironmentFailure(f"{in_utf8(existing)!r} is a file: set {HOME_VARIABLE} to a folder for vibe")
    if in_utf8(home) != str(home):
        raise EnvironmentFailure(
            f"the home folder {in_utf8(home)!r} can't be used because its name is not UTF-8: "
            f"set {HOME_VARIABLE} to another"
        )
    return home


def existing_folder(flag: str, given: str | None, cwd: Path) -> Path:
    """Return the folder that a flag names, relative to ``cwd``, or ``cwd`` itself.

    Raises:
        UsageError: there is no such folder, or its name is not UTF-8.
        EnvironmentFailure: the current folder is gone.
    """
    folder = typed_path(cwd, given) if given else cwd
    if not os.path.isdir(folder):
        if not given:
            raise EnvironmentFailure("the current folder is gone: change to another, or name one")
        raise UsageError(f"{flag} {given}: no such folder")
    return utf8_folder(folder.resolve())


def utf8_folder(folder: Path) -> Path:
    """Return the folder if it can be named in what is kept of a run.

    Raises:
        UsageError: its name is not UTF-8, which JSON, TOML and events need.
    """
    if in_utf8(folder) != str(folder):
        raise UsageError(f"the folder {in_utf8(folder)!r} can't be used because its name is not UTF-8: rename it")
    return folder


def allow_open_files() -> None:
    """Raise this process's limit of open files as far as allowed. Only for the command that owns the process."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    for figure in FILES_WANTED:
        wanted = figure if hard == resource.RLIM_INFINITY else min(figure, hard)
        if soft == resource.RLIM_INFINITY or soft >= wanted:
            return
        with suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
            return


def steps_at_once(wanted: int) -> int:
    """Return how many of ``wanted`` steps the files that this process may still open are enough for; at least 1."""
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if limit == resource.RLIM_INFINITY:
        return wanted
    open_files = len(entries_of("/dev/fd")) or FILES_RESERVED  # some systems do not list them
    return max(1, min(wanted, (limit - open_files - FILES_RESERVED) // FILES_PER_STEP))


DEPTH_VARIABLE = "VIBE_DEPTH"
"""Tells a process how many vibes are above it, whether a shell, an MCP client or anything else started it."""
DEEPEST = 2


def depth_of(environ: Mapping[str, str]) -> int:
    """Return the number of vibes above this one; 0 if the value is invalid."""
    value = environ.get(DEPTH_VARIABLE, "")
    return int(value[:9]) if value.isascii() and value.isdigit() else 0


def refuse_below_two(environ: Mapping[str, str]) -> None:
    """Refuse to begin with an agent if two vibes are above this one, which is more likely a loop than a wish.

    Raises:
        UsageError: there are two.
    """
    if depth_of(environ) >= DEEPEST:
        raise UsageError(
            "vibe was called by vibe, which was called by vibe: that goes no deeper "
            f"({DEPTH_VARIABLE}={DEEPEST}); do the work yourself"
        )


def one_deeper(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the environment variables that agents pass on to what they start."""
    return {**environ, DEPTH_VARIABLE: str(depth_of(environ) + 1)}
