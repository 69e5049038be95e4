"""Snapshots of a workspace's files, for conversations and for the steps of plans: exact bytes, modes, links, folders.

A log records, point by point, which paths changed and their new state; the contents are stored as blobs. Git only lists
the files, so that none of its conversions is ever applied to them. Ignored files, files over 10 MB, repositories inside
the workspace and vibe's own files are left out.
"""

from __future__ import annotations

import errno
import hashlib
import os
import re
import shutil
import stat
import subprocess
import time
import zlib
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence, Set as AbstractSet
from contextlib import suppress
from pathlib import Path
from typing import Annotated, BinaryIO

from msgspec import Meta, Struct, field, json, msgpack, structs

from ipc.errors import INVALID_JSON
from vibe.core.session.errors import SnapshotError
from vibe.system.files import entries_of, regular_bytes, replace_file, text_of, writing
from vibe.system.git.calls import GitCall, GitOutput, git_environ, run_git, without_fetching
from vibe.system.git.config_file import GitConfigError, read_settings
from vibe.system.git.discovery import LocatedRepository, locate
from vibe.system.own_places import NO_OWN_PLACES, OwnPlaces, is_placeholder
from vibe.system.plain_text import some_of
from vibe.system.programs import find_program, shunned

MOST_BYTES = 10_000_000
"""The most bytes of a file that is recorded."""
MOST_FILES = 10_000
"""The most new files in one snapshot; more can't be the work of an agent."""
SETTLED_NS = 100_000_000
"""Nanoseconds after which another change certainly gives a file another date."""
READ_TRIES = 3
"""Tries to read a file that changes while it is read."""
NAMES_SHOWN = 5
"""The most file names in a message."""

LOG, STORE = "history.jsonl", "files.git"
EARLIER_LOGS = ("snapshots.jsonl", "points.jsonl")
"""The logs of earlier versions, which recorded files as git stores them."""
KNOWN = "git/files"
"""The folder below the vibe home with the known states of files whose exact content is in the user's repository."""
KNOWN_SECONDS = 30 * 86_400.0
"""Seconds after which an unused file of known states is deleted."""


class PathState(Struct, frozen=True, array_like=True):
    """The state of a path: ``mode`` with the kind of file, the blob of its content, and what reveals a change.

    Without a blob it is a folder, or something whose content could not be recorded.
    """

    mode: Annotated[int, Meta(ge=0, le=0xFFFF)]
    blob: str = ""
    size: int = 0
    mtime_ns: int = 0
    ctime_ns: int = 0
    inode: int = 0

    @property
    def is_folder(self) -> bool:
        """True for a folder."""
        return stat.S_ISDIR(self.mode)

    @property
    def is_whole(self) -> bool:
        """True if the path can be restored from this."""
        return bool(self.blob) or self.is_folder

    def is_like(self, other: PathState | None) -> bool:
        """Return whether the two are known to be the same except for their dates."""
        if other is None or (self.mode, self.blob) != (other.mode, other.blob):
            return False
        return self.is_whole or self == other


class Point(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A line of the log: the files at the time ``at`` (unix seconds), as changes since the previous point.

    In a conversation, ``messages`` is its length then, and ``found`` says that the changes are not its agent's work.

    In a plan, ``begun`` and ``ended`` are steps. ``busy`` are the steps that may have changed files since the previous
    point. Others may have done so, too, if the process had ended meanwhile (``cut``) or other runs wrote in the folder
    (``others``). ``rewound`` are the steps before which the files were restored.

    ``lost`` says why the files could not be recorded. ``there`` are files that existed at all previous points, but were
    ignored or in a repository inside the workspace.
    """

    at: float = 0.0
    changed: dict[str, PathState | None] = field(default_factory=dict[str, "PathState | None"])
    messages: int = 0
    found: bool = False
    begun: tuple[str, ...] = ()
    ended: tuple[str, ...] = ()
    busy: tuple[str, ...] = ()
    cut: bool = False
    others: bool = False
    rewound: tuple[str, ...] = ()
    lost: str = ""
    there: dict[str, PathState] = {}


_decode = json.Decoder(Point).decode
_decode_known = msgpack.Decoder(dict[str, PathState]).decode


class Snapshots:
    """The points of one session or plan, in its folder. All methods block: call them in a thread, one at a time.

    ``environ`` determines which git is found, and its settings. The ``own`` places of vibe are left out. Paths are
    relative to the workspace.
    """

    def __init__(
        self, workspace: Path, folder: Path, environ: Mapping[str, str], own: OwnPlaces = NO_OWN_PLACES
    ) -> None:
        self.workspace = workspace.resolve()
        self.store = BlobStore(self.workspace, folder / STORE, environ)
        self._folder = folder
        self._own = own
        self._ready = False
        self._last: Point | None = None
        self._files: dict[str, PathState] = {}
        """The files at the last point, with their latest dates."""
        self._known: dict[str, PathState] = {}
        self._known_changed = False
        self._unread: dict[str, bool] = {}
        """The paths that can't be read, each with whether that was reported."""

    def take(self, messages: int, *, found: bool = False) -> None:
        """Record the files of a conversation; if nothing changed, at most that a turn has ended.

        ``found`` says that the agent has not acted on ``messages`` yet.

        Raises:
            SnapshotError: git is missing or failed, writing failed, or there are far too many new files.
        """
        changed = self.changes()
        last = self._last
        if last is None or changed or last.lost or (last.found and not found):
            least = 0 if last is None else last.messages  # a summary may have replaced the prompt they belong to
            self._write(Point(at=time.time(), changed=changed, messages=max(messages, least), found=found))

    def record(self, point: Point) -> Point:
        """Record the files together with the other fields of ``point``.

        Raises:
            SnapshotError: as ``take``.
        """
        point = structs.replace(point, changed=self.changes())
        self._write(point)
        return point

    def lose(self, messages: int, problem: str) -> None:
        """Note that the files of a conversation are not recorded from now on; a failure to note it is ignored."""
        with suppress(SnapshotError):
            self._write(Point(at=time.time(), messages=messages, found=True, lost=problem))

    def points(self, *, whole: bool = False) -> list[Point]:
        """Return all points, oldest first, skipping torn lines. Files in ``there`` are added to the first point.

        Raises:
            SnapshotError: the ``whole`` log is wanted, and a line is damaged.
        """
        try:
            lines = regular_bytes(self._folder / LOG).splitlines()
        except OSError:
            return []
        found: list[Point] = []
        for number, line in enumerate(lines, start=1):
            try:
                point = _decode(line)
            except INVALID_JSON as error:
                if whole and line.endswith(b"}"):  # a torn one was left out by whoever wrote the next, too
                    problem = f"{self._folder / LOG}:{number} is damaged, so the files of that time are not known"
                    raise SnapshotError(f"{problem}: go on with them as they are, or restore a backup of it") from error
                continue
            changed = {_path_of(name): state for name, state in point.changed.items()}
            found.append(structs.replace(point, changed=changed))
            for name, state in point.there.items():
                found[0].changed.setdefault(_path_of(name), state)
        return found

    def check_readable(self) -> None:
        """Check that no earlier version recorded files here.

        Raises:
            SnapshotError: one did.
        """
        if any((self._folder / name).is_file() for name in EARLIER_LOGS):
            raise SnapshotError(
                "the files of that time were recorded by an earlier version of vibe, which kept no exact copies: "
                "go back without them (`vibe session rewind ID N`, `vibe plan retry ID STEP`)"
            )

    def unread(self) -> str:
        """Return a sentence on files that can't be read, naming each file once; empty if there are no further ones."""
        names = [name for name, is_said in self._unread.items() if not is_said]
        self._unread.update(dict.fromkeys(names, True))
        shown = some_of(map(repr, names), NAMES_SHOWN)
        return f"not recorded for rewind, since it can't be read: {shown}" if names else ""

    def changes(self) -> dict[str, PathState | None]:
        """Return the new state of each path that differs from the last point, None if it is gone; store contents.

        Raises:
            SnapshotError: as ``take``.
        """
        self._prepare()
        own = self._own.below(self.workspace)
        listing = self.store.listed(own, with_blobs=self._last is None)
        if sum(path not in self._files and path not in listing.tracked for path in listing.paths) > MOST_FILES:
            raise SnapshotError(
                f"the files of {self.workspace} are not recorded for rewind: more than {MOST_FILES} are new; list "
                "generated files in .gitignore"
            )
        self._unread.update({name: False for name in listing.closed if name not in self._unread})
        return dict(self._compared(listing, {path.relative_to(self.workspace).as_posix() for path in own}))

    def _compared(self, listing: Listing, own: AbstractSet[str]) -> Iterator[tuple[str, PathState | None]]:
        """Yield the differences from the last point; a folder that can't be entered counts as unchanged."""
        inside = _by_folder(listing.paths, self._files)
        there = set[str]()
        closed = set[str]()
        for folder in sorted(inside):
            parent = folder.rpartition("/")[0]
            if parent in closed and folder:
                closed.add(folder)
                continue
            try:
                found = os.lstat(f"{self.workspace}/{folder}") if parent in there or not folder else None
            except (FileNotFoundError, NotADirectoryError):
                found = None
            except OSError:
                found = None
                closed.add(folder)
                self._unread.setdefault(folder, False)
                continue
            if found is not None and stat.S_ISDIR(found.st_mode):
                there.add(folder)
                yield from self._folder_compared(folder, found, inside.keys() | own)
                yield from self._files_compared(inside[folder], listing.tracked, inside)
                continue
            gone = [path for path in inside[folder] if path in self._files]
            old = self._files.get(folder)
            if old is not None and old.is_folder and folder not in listing.paths:
                gone.append(folder)
            yield from ((path, None) for path in gone)

    def _folder_compared(
        self, folder: str, found: os.stat_result, passed: AbstractSet[str]
    ) -> Iterator[tuple[str, PathState | None]]:
        old = self._files.get(folder)
        if old is not None and _is_unchanged(old, found):
            return
        for empty, is_there in self._empty_folders(folder, passed):
            yield empty, _state_from(is_there, "")
        state = _state_from(found, "")
        if state.is_like(old):
            self._files[folder] = state
        else:
            yield folder, state

    def _files_compared(
        self, paths: Iterable[str], tracked: Mapping[str, str], folders: Container[str]
    ) -> Iterator[tuple[str, PathState | None]]:
        top, files = f"{self.workspace}/", self._files
        for path in paths:
            old = files.get(path)
            try:
                found = os.lstat(top + path)
                if old is not None and _is_unchanged(old, found):
                    continue
                if stat.S_ISDIR(found.st_mode) and path in folders:
                    continue  # it is compared as a folder
                is_ours = is_placeholder(found, path.rpartition("/")[2])
                state = None if is_ours else self._read_state(path, found, tracked.get(path, ""), old)
            except (FileNotFoundError, NotADirectoryError):
                state = None
            except OSError:
                self._unread.setdefault(path, False)
                continue
            if state is not None and state.is_like(old):
                files[path] = state
            elif state is not old:
                yield path, state

    def _read_state(self, path: str, found: os.stat_result, tracked: str, old: PathState | None) -> PathState | None:
        """Return the state of a path, and store its content.

        Raises:
            FileNotFoundError: it has just been removed.
            SnapshotError: its content can't be stored.
        """
        if stat.S_ISDIR(found.st_mode):
            return _state_from(found, "")
        known = self._known.get(path)
        if known is not None and known.blob == tracked and _is_unchanged(known, found):
            return known
        try:
            data, found = _content(f"{self.workspace}/{path}", found)
        except FileNotFoundError:
            raise
        except OSError:
            data = None
            self._unread.setdefault(path, False)
        if data is None:
            return PathState(found.st_mode, "", found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino)
        blob = self.store.name_of(data)
        state = _state_from(found, blob)
        if blob == tracked:
            self._known[path] = state
            self._known_changed = True
        elif old is None or blob != old.blob:
            self.store.put(blob, data)
        return state

    def _empty_folders(self, folder: str, listed: AbstractSet[str]) -> Iterator[tuple[str, os.stat_result]]:
        """Yield the unlisted folders below a folder that hold nothing but folders, skipping any that disappear."""
        entries = entries_of(f"{self.workspace}/{folder}")
        for name in [entry.name for entry in entries if entry.is_dir(follow_symlinks=False)]:
            path = f"{folder}/{name}" if folder else name
            if name == ".git" or path in listed:
                continue
            with suppress(FileNotFoundError, NotADirectoryError):
                yield from self._empty_tree(path, name)

    def _empty_tree(self, path: str, name: str) -> list[tuple[str, os.stat_result]]:
        """Return a folder and all folders below it if they hold no files, else nothing.

        Raises:
            FileNotFoundError: one of them has just been removed.
        """
        place = f"{self.workspace}/{path}"
        if is_placeholder(os.lstat(place), name):
            return []
        below = list(os.walk(place))
        if any(files or any(Path(found, name).is_symlink() for name in names) for found, names, files in below):
            return []
        return [(os.path.relpath(found, self.workspace), os.lstat(found)) for found, _, _ in below]

    def _prepare(self) -> None:
        """Open the store and read the log, once."""
        if self._ready:
            return
        self.store.prepare()
        points = self.points()
        self._files = files_after(points)
        self._last = points[-1] if points else None
        if not points:
            self._known = self._read_known()
        self._ready = True

    def _write(self, point: Point) -> None:
        """Append a point to the log.

        Raises:
            SnapshotError: writing failed.
        """
        newly_listed = self._newly_listed(point.changed)
        changed = {_name_of(path): state for path, state in point.changed.items() if path not in newly_listed}
        there = {_name_of(path): state for path, state in newly_listed.items()}
        line = json.encode(structs.replace(point, changed=changed, there=there)) + b"\n"
        path = self._folder / LOG
        with writing(str(path), SnapshotError), path.open("ab+") as log:
            if log.tell() and not _ends_a_line(log):
                line = b"\n" + line  # a killed process left an incomplete line
            log.write(line)
        if self._last is None:
            self._write_known()
        self._files = files_after([point], self._files)
        self._last = point

    def _newly_listed(self, changed: Mapping[str, PathState | None]) -> dict[str, PathState]:
        """Return the files that are new in the listing but older than the last point, so nobody created them since.

        Files in a renamed folder keep their dates, too; they are recognised by their inodes and not returned.
        """
        if self._last is None or time.time() < self._last.at:  # after a clock was set back, no date tells anything
            return {}
        last_ns = int(self._last.at * 1e9) - SETTLED_NS
        new = {path: state for path, state in changed.items() if state is not None and path not in self._files}
        known = {state.inode for state in self._files.values()} if new else set[int]()
        return {path: state for path, state in new.items() if 0 < state.ctime_ns < last_ns and state.inode not in known}

    @property
    def _known_file(self) -> Path | None:
        name = hashlib.sha256(os.fsencode(self.workspace)).hexdigest()[:32]
        return None if self._own.home is None else self._own.home / KNOWN / name

    def _read_known(self) -> dict[str, PathState]:
        """Read the states, found by earlier sessions or plans, of files with exact copies in the user's repository."""
        file = self._known_file
        with suppress(OSError, *INVALID_JSON):
            known = {} if file is None else _decode_known(regular_bytes(file))
            return {_path_of(name): state for name, state in known.items()}
        return {}

    def _write_known(self) -> None:
        """Save the known states for later sessions, and delete files unused for long. Disk errors are ignored."""
        file = self._known_file
        if file is None or not self._known_changed:
            return
        with suppress(OSError):
            file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            for other in file.parent.iterdir():
                if other.stat().st_mtime < time.time() - KNOWN_SECONDS:
                    other.unlink(missing_ok=True)
            known = {_name_of(path): state for path, state in self._known.items()}
            replace_file(file, msgpack.encode(known), sync=False)


def carry_on(old: Path, new: Path, *, dropped: int = 0, most: int | None = None) -> None:
    """Copy the points of a session to one that goes on from it, so that its files can be restored there, too. Blocks.

    ``dropped`` messages fewer are left since a summary replaced the first ones; of a conversation that was cut, only
    the first ``most`` messages are left. If the disk refuses, the new session begins without points.
    """
    kept: list[bytes] = []
    with suppress(OSError):
        for line in regular_bytes(old / LOG).splitlines():
            try:
                point = _decode(line)
            except INVALID_JSON:
                kept.append(line)
                continue
            if most is None or point.messages <= most:
                place = point.messages and max(point.messages - dropped, 1)  # the summary is the first message
                kept.append(json.encode(structs.replace(point, messages=place)))
        shutil.copytree(old / STORE, new / STORE, copy_function=_share)
        replace_file(new / LOG, b"".join(line + b"\n" for line in kept), sync=False)


def _share(source: str, target: str) -> None:
    """Copy a file of a store; an object, which never changes, becomes a second name of the same file if it can."""
    if f"{os.sep}objects{os.sep}" in source:
        with suppress(OSError):
            os.link(source, target)
            return
    shutil.copy2(source, target)


def files_after(points: Iterable[Point], files: Mapping[str, PathState] | None = None) -> dict[str, PathState]:
    """Return the files after some points, starting from ``files`` before them."""
    found = dict(files or {})
    for point in points:
        for path, state in point.changed.items():
            if state is None:
                found.pop(path, None)
            else:
                found[path] = state
    return found


def parents(path: str) -> Iterator[str]:
    """Yield the folders above a path, innermost first."""
    while path := path.rpartition("/")[0]:
        yield path


def _by_folder(paths: Iterable[str], files: Mapping[str, PathState]) -> dict[str, list[str]]:
    """Return all present and former folders, each with its present and former files."""
    inside: dict[str, list[str]] = {"": []}
    for path in {*paths, *files}:
        state = files.get(path)
        if state is not None and state.is_folder:
            inside.setdefault(path, [])
            if path not in paths:
                continue
        inside.setdefault(path.rpartition("/")[0], []).append(path)
    for folder in list(inside):
        for parent in parents(folder):
            inside.setdefault(parent, [])
    return inside


def _state_from(found: os.stat_result, blob: str) -> PathState:
    """Return the state that was found, without a change time so recent that another change could have the same."""
    ctime_ns = found.st_ctime_ns if found.st_ctime_ns < time.time_ns() - SETTLED_NS else 0
    return PathState(found.st_mode, blob, found.st_size, found.st_mtime_ns, ctime_ns, found.st_ino)


def _is_unchanged(old: PathState, found: os.stat_result) -> bool:
    return (
        old.ctime_ns == found.st_ctime_ns
        and old.mtime_ns == found.st_mtime_ns
        and old.size == found.st_size
        and old.inode == found.st_ino
        and old.mode == found.st_mode
    )


def _content(path: str, found: os.stat_result) -> tuple[bytes | None, os.stat_result]:
    """Return the content of a file or link, None if it is too large, and its status when it was read.

    Raises:
        OSError: it can't be read, or is neither a file nor a link.
    """
    if stat.S_ISLNK(found.st_mode):
        return os.fsencode(Path(path).readlink()), found
    data = b""
    for _ in range(READ_TRIES):
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb", buffering=0) as file:
            found = os.fstat(descriptor)
            if not stat.S_ISREG(found.st_mode):
                raise OSError(errno.EINVAL, "it is not a plain file", path)
            if found.st_size > MOST_BYTES:
                return None, found
            data = file.read(MOST_BYTES + 1)
            after = os.fstat(descriptor)
        if len(data) == after.st_size and after.st_mtime_ns == found.st_mtime_ns:
            break  # it did not change while it was read
    return data, found


def _ends_a_line(log: BinaryIO) -> bool:
    log.seek(-1, os.SEEK_END)
    return log.read(1) == b"\n"


def _name_of(path: str) -> str:
    """Encode a path as text that any format can hold, since file names need not be UTF-8."""
    return path if path.isascii() else os.fsencode(path).decode("latin-1")


def _path_of(name: str) -> str:
    return name if name.isascii() else os.fsdecode(name.encode("latin-1"))


GIT_SECONDS = 30.0
"""Seconds that one git call may take."""
MOST_AT_ONCE = 64_000_000
"""The most bytes of contents that are read back at a time."""

DEFAULT_EXCLUDES = (
    ".git/", ".venv/", "venv/", "node_modules/", "__pycache__/", ".mypy_cache/", ".pytest_cache/", ".ruff_cache/",
    ".cache/", "target/",
)  # fmt: skip
"""The ignored paths of a workspace without a repository."""

_CONFIG = "[core]\n\trepositoryformatversion = 1\n\tbare = false\n[gc]\n\tauto = 0\n[extensions]\n\tobjectFormat = {}\n"
_LIST = ("ls-files", "-z", "--cached", "--others", "--exclude-standard")
_TRACKED = re.compile(r"[^?] \d{6} ([0-9a-f]+) \d\t(.+)", re.DOTALL)


class Listing(Struct, frozen=True, kw_only=True):
    """The ``paths`` of a workspace that are not ignored, and the blobs git has for the ``tracked`` ones.

    ``closed`` are folders that can't be read.
    """

    paths: AbstractSet[str]
    tracked: Mapping[str, str]
    closed: Sequence[str]


class BlobStore:
    """A private git repository with the contents of files. All methods block: call them in a thread.

    ``environ`` determines which git is found, and its settings.
    """

    def __init__(self, workspace: Path, git_dir: Path, environ: Mapping[str, str]) -> None:
        self.git_dir = git_dir
        self._workspace = workspace
        self._user_environ = environ
        self._environ = without_fetching(git_environ(environ, workspace))
        self._user: LocatedRepository | None = None
        self._hash_name = "sha1"

    def prepare(self) -> None:
        """Create the private repository unless it exists.

        Raises:
            SnapshotError: git is missing, or writing failed.
        """
        if find_program("git", self._environ) is None:
            why = shunned("git", self._user_environ)
            raise SnapshotError(f"files are not recorded for rewind: git is not installed{why}")
        with suppress(OSError, ValueError):  # a repository with an unknown layout counts as none
            self._user = locate(self._workspace)
        if not (self.git_dir / "HEAD").is_file():
            with writing(str(self.git_dir), SnapshotError):
                self._create()
        self._hash_name = _object_format(self.git_dir)

    def listed(self, outside: Iterable[Path], *, with_blobs: bool) -> Listing:
        """List the files of the workspace, except ignored ones, those in inner repositories, and those in ``outside``.

        Raises:
            SnapshotError: git failed.
        """
        names = (path.relative_to(self._workspace).as_posix() for path in outside)
        # Names that differ only in case are different files.
        words = ("-c", "core.ignoreCase=false", *_LIST, *(("-t", "--stage") if with_blobs else ()))
        answer = self._git(*words, "--", ".", *(f":(exclude,literal){name}" for name in names), by_user=True)
        if answer.code != 0:
            raise SnapshotError(f"the files of {self._workspace} can't be recorded: git ls-files: {answer.problem}")
        paths = set(os.fsdecode(answer.out).split("\0"))
        tracked: dict[str, str] = {}
        if with_blobs:
            found = [_TRACKED.fullmatch(item) for item in paths]
            tracked = {entry[2]: entry[1] for entry in found if entry is not None}
            paths = {item[2:] for item in paths if item.startswith("? ")} | tracked.keys()
        files = {path for path in paths if path and not path.endswith("/")}
        return Listing(paths=files, tracked=tracked, closed=answer.closed)

    def name_of(self, data: bytes) -> str:
        """Return the name of the blob with this content."""
        digest = hashlib.new(self._hash_name, b"blob %d\0" % len(data), usedforsecurity=False)
        digest.update(data)
        return digest.hexdigest()

    def put(self, name: str, data: bytes) -> None:
        """Store a blob.

        Raises:
            SnapshotError: writing failed.
        """
        file = self.git_dir / "objects" / name[:2] / name[2:]
        if file.exists():
            return
        with writing(str(self.git_dir), SnapshotError):
            file.parent.mkdir(exist_ok=True, mode=0o700)
            replace_file(file, zlib.compress(b"blob %d\0" % len(data) + data, 1), sync=False)

    def get(self, sizes: Mapping[str, int]) -> Iterator[tuple[str, bytes]]:
        """Yield the names and contents of blobs, given their sizes by name; missing ones are left out.

        Raises:
            SnapshotError: git can't be run.
        """
        batch: list[str] = []
        room = MOST_AT_ONCE
        for name, size in sizes.items():
            if batch and size > room:
                yield from self._read(batch)
                batch, room = [], MOST_AT_ONCE
            batch.append(name)
            room -= size
        yield from self._read(batch)

    def _read(self, names: Sequence[str]) -> Iterator[tuple[str, bytes]]:
        """Yield the names and contents of blobs that exist."""
        out = self._git("cat-file", "--batch", stdin="".join(f"{name}\n" for name in names).encode()).out
        start = 0
        while start < len(out):
            end = out.index(b"\n", start)
            name, *rest = out[start:end].decode().split(" ")
            start = end + 1
            if len(rest) == 2:  # the blob's type and size; one field means that it is missing
                yield name, out[start : start + int(rest[1])]
                start += int(rest[1]) + 1

    def _create(self) -> None:
        """Create the private repository, which can also read the objects of the user's repository."""
        user = self._user
        for name in ("objects/info", "objects/pack", "refs", "info"):
            (self.git_dir / name).mkdir(parents=True, exist_ok=True, mode=0o700)
        (self.git_dir / "config").write_text(
            _CONFIG.format("sha1" if user is None else _object_format(user.common_dir))
        )
        (self.git_dir / "info" / "exclude").write_text("\n".join((*DEFAULT_EXCLUDES, "")))
        if user is not None:
            (self.git_dir / "objects" / "info" / "alternates").write_text(f"{user.common_dir / 'objects'}\n")
        (self.git_dir / "HEAD").write_text("ref: refs/heads/none\n")

    def _git(self, *words: str, stdin: bytes = b"", by_user: bool = False) -> GitOutput:
        """Run git in the private repository, or with ``by_user`` in the user's, if there is one."""
        if by_user and self._user is not None:
            environ = self._user.surroundings(self._environ)
        else:
            environ = {**self._environ, "GIT_DIR": str(self.git_dir), "GIT_WORK_TREE": str(self._workspace)}
        call = GitCall(words=words, folder=self._workspace, environ=environ, stdin=stdin, seconds=GIT_SECONDS)
        try:
            return run_git(call)
        except subprocess.TimeoutExpired as error:
            raise SnapshotError(f"git took longer than {GIT_SECONDS:.0f} s in {self._workspace}") from error
        except OSError as error:
            raise SnapshotError(f"git can't be run ({error.strerror}) in {self._workspace}") from error


def _object_format(git_dir: Path) -> str:
    """Return the hash algorithm of a repository's object names."""
    try:
        settings = list(read_settings(text_of(git_dir / "config")))
    except GitConfigError:
        settings = []
    named = [one.value for one in settings if (one.section, one.key) == ("extensions", "objectformat")]
    return "sha256" if named[-1:] == ["sha256"] else "sha1"
