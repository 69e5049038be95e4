"""Workspace: which files an agent may touch, which stay closed to it, and which it has read."""

from __future__ import annotations

import hashlib
import os
import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from fnmatch import fnmatchcase
from pathlib import Path
from stat import S_ISDIR

from msgspec import Struct, field
from msgspec.structs import force_setattr, replace

from vibe.core.tools.errors import CONFIGURES_CHECKS, HELD, SEALED, PathError
from vibe.core.tools.files.text_files import DISK, find_hard_links, relink, status_of
from vibe.core.tools.ports import Files
from vibe.shell.sandbox.confinement import Confinement
from vibe.shell.sandbox.control import control_paths
from vibe.shell.sandbox.secrets import CONTROL_FOLDERS, is_control, is_sensitive
from vibe.system.files import text_of
from vibe.system.globs import expand_braces, matches_any, relative_glob
from vibe.system.own_places import NO_OWN_PLACES, OwnPlaces, user_home_of
from vibe.system.plain_text import shortened

KEYS_FILE = ".env"
"""The file in vibe's own folder that holds the API keys of model providers."""

STARTUP_IN_HOME = (
    ".bashrc", ".bash_profile", ".bash_login", ".bash_logout", ".bash_aliases", ".bash_completion", ".profile",
    ".zshrc", ".zshenv", ".zprofile", ".zlogin", ".zlogout", ".kshrc", ".cshrc", ".tcshrc", ".login", ".logout",
    ".inputrc", ".envrc", ".pam_environment", ".xinitrc", ".xprofile", ".xsession", ".xsessionrc", ".xserverrc",
    ".gitconfig", ".gitattributes", ".vimrc", ".vim", ".gvimrc", ".emacs", ".emacs.d", ".nanorc", ".tmux.conf",
    ".screenrc", ".gdbinit", ".pdbrc", ".lldbinit", ".curlrc", ".wgetrc", ".irbrc", ".perldb", ".Rprofile",
    ".condarc", ".hushlogin", ".forward", ".procmailrc", ".crontab", ".cargo/config", ".cargo/config.toml",
    ".gradle/init.gradle", ".gradle/init.d", ".config/autostart", ".config/systemd", ".config/environment.d",
    ".config/fish", ".config/git", ".config/nvim", ".config/direnv", ".config/pip", ".pip",
    ".config/plasma-workspace", ".config/Code", ".config/containers", ".local/bin", ".local/share/applications",
    ".local/share/systemd", ".local/lib", ".oh-my-zsh", "bin", "Library/LaunchAgents", ".cursor", ".gemini",
    ".mozilla",
)  # fmt: skip
"""Paths below the user's home that the user's own programs run or read when they start."""


class Bounds(Struct, frozen=True, kw_only=True):
    """The places on the user's machine that are closed or opened to an agent. All paths are resolved.

    The user chose the workspace: if it lies inside a closed place, only the names of files within it count.
    """

    hidden: tuple[Path, ...] = ()
    """Places that hold keys and credentials."""
    readable: tuple[Path, ...] = ()
    """Places the user has opened for reading, secrets included."""
    writable: tuple[Path, ...] = ()
    """Places the user has opened for writing."""
    sealed: tuple[Path, ...] = ()
    """Files that stay closed even if the user approves."""
    startup: tuple[Path, ...] = ()
    """Files and folders that decide what the user's programs do later."""
    unread: tuple[str, ...] = ()
    """Globs of files that no tool reads, because ``read_file`` may not."""

    def is_sealed(self, path: Path) -> bool:
        """Return whether a resolved path is sealed, under its own name or under another as a hard link.

        Reads the file system.
        """
        return any(path == sealed or _is_same(path, sealed) for sealed in self.sealed)


def glob_matches(name: str, glob: str) -> bool:
    """Return whether ``glob`` matches a path, in either Unicode form, or names a folder above it.

    Its ``*`` spans folders.
    """
    pattern = os.path.normpath(os.path.expanduser(glob))  # noqa: PTH111  a glob is no path
    pattern, name = (unicodedata.normalize("NFC", text) for text in (pattern, name))
    if name == pattern or name.startswith(f"{pattern}/"):
        return True
    return any(fnmatchcase(name, one) or fnmatchcase(name, f"{one}/*") for one in expand_braces(pattern))


def any_matches(names: Iterable[str], globs: Iterable[str]) -> bool:
    """Return whether a glob matches one of a path's names, ignoring case."""
    return any(glob_matches(name.casefold(), glob.casefold()) for name in names for glob in globs)


def bounds_of(confinement: Confinement, environ: Mapping[str, str]) -> Bounds:
    """Return the bounds of confined commands, for the tools that are not commands. Reads the file system."""
    home = user_home_of(environ)
    return Bounds(
        hidden=confinement.hidden,
        readable=confinement.readable,
        writable=confinement.writable,
        sealed=(Path(os.path.realpath(confinement.vibe_home / KEYS_FILE)),),
        startup=tuple(Path(os.path.realpath(home / name)) for name in STARTUP_IN_HOME),
    )


def _linked_control(root: Path) -> Iterator[Path]:
    """Yield where a workspace's control folders really are, if not in it under their own names."""
    for name in CONTROL_FOLDERS:
        place = root / name
        if os.path.islink(place):
            yield Path(os.path.realpath(place))
        elif name == ".git" and (text := text_of(place)).startswith("gitdir:"):
            yield Path(os.path.realpath(root / text.removeprefix("gitdir:").strip()))


def _innermost(path: Path, roots: Iterable[Path]) -> Path | None:
    return max(filter(path.is_relative_to, roots), key=lambda root: len(root.parts), default=None)


def _below(path: Path, root: Path | None) -> Path:
    """Return a path relative to its workspace's root, or unchanged if it is the root itself or in no workspace."""
    return path if root in {None, path} else path.relative_to(root or path)


def _is_in(places: Iterable[Path], path: Path, root: Path | None) -> bool:
    """Return whether one of ``places`` contains ``path`` without containing the whole workspace."""
    return any(path.is_relative_to(place) and not (root and root.is_relative_to(place)) for place in places)


def _is_same(path: Path, other: Path) -> bool:
    with suppress(OSError):
        return os.path.samefile(path, other)  # noqa: PTH121  Path.samefile does the same with more calls
    return False


_ESCAPE = re.compile(r"\\(?:x([0-9a-f]{2})|u([0-9a-f]{4})|[nrt])")
_CONTROLS = {r"\n": "\n", r"\r": "\r", r"\t": "\t"}
SHOWN_CHARACTERS = 200
"""The most characters of a path that can't be followed which its error shows."""


class Workspace(Struct, frozen=True, kw_only=True):
    """The part of the file system that one agent works in.

    Paths are resolved at the moment of use. A hard link can't be told from the file it shares, so a hard link inside
    the root to a file outside it counts as inside.
    """

    root: Path
    """The folder the agent works in."""
    extra_roots: tuple[Path, ...] = ()
    """Further folders, with the same rights as ``root``."""
    writes: tuple[str, ...] | None = None
    """Globs of what may be written, relative to ``root`` (see ``vibe.system.globs``). None allows anything inside."""
    read_roots: tuple[Path, ...] = ()
    """Folders that may be read but not written."""
    protected: frozenset[Path] = frozenset()
    """Resolved files that may never be written, because the agent's work is checked with them."""
    configures_checks: Callable[[Path], bool] = lambda _path: False
    """Returns whether a resolved path, existing or not, configures these checks."""
    bounds: Bounds = field(default_factory=Bounds)
    """Places on the user's machine that stay closed, inside the workspace or not."""
    stands_for: Path | None = None
    """The folder that ``root`` is a copy of, while a step works in the copy."""
    files: Files = DISK
    """Reads and writes the files. An editor's include unsaved text."""
    own_places: OwnPlaces = NO_OWN_PLACES
    """Vibe's own places, which no search shows unless it names one."""
    admitted: Mapping[str, Path] = field(default_factory=dict[str, Path])
    """Where the paths of the call that works here led when it was allowed. They may lead nowhere else by now."""

    def __post_init__(self) -> None:
        force_setattr(self, "root", _real(self.root))
        force_setattr(self, "extra_roots", tuple(_real(root) for root in self.extra_roots))
        force_setattr(self, "read_roots", tuple(_real(root) for root in self.read_roots))

    def resolve(self, path: str) -> Path:
        r"""Return where ``path`` leads, inside or not: relative to ``root``, with ``~``, links and ``..`` resolved.

        A name spelled in another Unicode form than on disk, or with the escapes by which listings show undecodable or
        unprintable characters (``\udcff``, ``\n``), finds the one on disk.

        Raises:
            PathError: the path is empty, contains a NUL character, is too long, goes through a cycle of links, or
                changes while it is followed.
        """
        if not path or "\0" in path:
            raise PathError(path, "is empty" if not path else "holds a NUL character")
        joined = os.path.join(self.root, os.path.expanduser(path))  # noqa: PTH111, PTH118  text: Path() drops '//' and './'
        try:
            resolved = os.path.realpath(_as_on_disk(joined))
            with suppress(FileNotFoundError, NotADirectoryError, PermissionError):
                Path(resolved).lstat()
            circular = any(os.path.islink(part) for part in (resolved, *map(str, Path(resolved).parents)))
        except (OSError, UnicodeError) as error:  # It is too long, changed meanwhile, or no name in this locale.
            problem = f"can't be followed ({getattr(error, 'strerror', error)})"
            raise PathError(shortened(path, SHOWN_CHARACTERS), problem) from error
        if circular:
            raise PathError(path, "goes round in a circle of symbolic links")
        return Path(resolved)

    def path_to_approve(self, resolved: Path) -> Path:
        """Return the path that a lasting approval of ``resolved`` is about: the original's, if the root is a copy."""
        if self.stands_for is None or not resolved.is_relative_to(self.root):
            return resolved
        return _real(self.stands_for) / resolved.relative_to(self.root)

    def contains(self, resolved: Path, *, write: bool = False) -> bool:
        """Return whether a resolved path is open to reading (or to writing, ``writes`` aside)."""
        opened = (*self.bounds.writable, *(() if write else self.bounds.readable))
        return any(map(resolved.is_relative_to, (*self._roots(write=write), *opened)))

    def is_secret(self, resolved: Path, *, write: bool = False) -> bool:
        """Return whether a resolved path holds secrets, or looks like it."""
        if not write and any(map(resolved.is_relative_to, self.bounds.readable)):
            return False
        root = _innermost(resolved, (*self._roots(write=write), *self.bounds.writable))
        return is_sensitive(_below(resolved, root)) or _is_in(self.bounds.hidden, resolved, root)

    def is_unread(self, resolved: Path, written: str = "") -> bool:
        """Return whether ``read_file`` may never read a resolved path."""
        names = (written.removeprefix("./"), self.relative(resolved), resolved.as_posix())
        return any_matches(names, self.bounds.unread)

    def without_reading(self, globs: Sequence[str]) -> Workspace:
        """Return the same workspace, but no tool reads what ``globs`` match."""
        return replace(self, bounds=replace(self.bounds, unread=(*self.bounds.unread, *globs))) if globs else self

    def is_control(self, resolved: Path) -> bool:
        """Return whether writing to a resolved path decides what runs later. Reads the file system."""
        roots = self._roots(write=True)
        root = _innermost(resolved, (*roots, *self.bounds.writable))
        if is_control(_below(resolved, root)) or _is_in(self.bounds.startup, resolved, root):
            return True
        places = (place for root in roots for place in (*_linked_control(root), *map(_real, control_paths(root))))
        return any(map(resolved.is_relative_to, places))

    def _roots(self, *, write: bool) -> tuple[Path, ...]:
        return (self.root, *self.extra_roots, *(() if write else self.read_roots))

    def claim_problem(self, path: str, resolved: Path) -> PathError | None:
        """Return why this agent may not write a path, inside or not, or None if it may.

        The error shows it as ``path``.
        """
        if resolved in self.protected:
            return PathError(path, HELD)
        if self.configures_checks(resolved):
            return PathError(path, CONFIGURES_CHECKS)
        if self.writes is None or matches_any(self.relative(resolved), self._claims()):
            return None
        return PathError(path, f"is not among the paths this step may write ({', '.join(self.writes) or 'none'})")

    def _claims(self) -> Iterator[str]:
        """Yield ``writes`` relative to this root. An absolute glob may name the folder that this one is a copy of."""
        roots = {str(self.root), *([str(self.stands_for)] if self.stands_for else [])}
        return (relative_glob(root, glob) for glob in self.writes or () for root in roots)

    def readable(self, path: str) -> Path:
        """Return the resolved path, which is inside the workspace.

        Raises:
            PathError: see ``resolve``; or the path is closed, or leads outside the workspace.
        """
        return self._inside(path, write=False)

    def writable(self, path: str) -> Path:
        """Return the resolved path, which is inside the workspace and may be written.

        Raises:
            PathError: as for ``readable``, or it is not among the paths this agent may write.
        """
        resolved = self._inside(path, write=True)
        problem = self.claim_problem(path, resolved)
        if problem is not None:
            raise problem
        return resolved

    def _inside(self, path: str, *, write: bool) -> Path:
        resolved = self.resolve(path)
        if path.endswith(os.sep) and not resolved.is_dir():
            raise PathError(path, "names a folder that does not exist")
        if self.bounds.is_sealed(resolved):
            raise PathError(path, SEALED)
        if not self.contains(resolved, write=write):
            raise PathError(path, f"leads outside the workspace {str(self.root)!r}")
        if self.admitted.get(path, resolved) != resolved:
            raise PathError(path, f"leads to {self.relative(resolved)!r} by now, and the call was allowed for another")
        return resolved

    def folder(self, path: str) -> Path:
        """Return the resolved folder at ``path``, for listing or searching it.

        Raises:
            PathError: it is outside the workspace, missing, not readable, or not a folder.
        """
        folder = self.readable(path)
        if not S_ISDIR(status_of(folder, self.relative(folder)).st_mode):
            raise PathError(self.relative(folder), "is not a folder", "give a folder, such as '.'")
        return folder

    def write(self, path: Path, name: str, data: bytes, *, previous: bytes | None) -> str:
        """Replace the content of a writable file by ``data``; return a note about its other names (hard links). Blocks.

        If ``previous`` is None, there is no file yet, and it is created.

        They remain names of the same file if all of them are found and each may be written. Otherwise, as for files
        linked from a package store, they keep the old content.

        Raises:
            ToolError: it is no longer ``previous``, or it can't be written; nothing has changed.
        """
        if previous is None:
            root = _innermost(path, self._roots(write=True))
            if root is not None and not os.path.isdir(root):  # made anew, it would hide where the work went
                raise PathError(str(root), "is gone", "work in it can't go on: it was moved or deleted")
            self.files.create(path, name, data)
            return ""
        shared = find_hard_links(path, self.root)
        self.files.replace(path, name, data, previous=previous)
        if shared is None:
            return ""
        together = shared.is_complete and all(map(self._may_write, shared.others))
        linked = [relink(path, other, shared.file) for other in shared.others if together]
        if together and all(linked):
            names = ", ".join(sorted(map(self.relative, shared.others)))
            return f"{names} changed with it: they are the same file (hard links)"
        return "the file had other names (hard links); not all of them have the new content"

    def _may_write(self, resolved: Path) -> bool:
        closed = self.bounds.is_sealed(resolved) or self.is_secret(resolved, write=True) or self.is_control(resolved)
        return not closed and self.contains(resolved, write=True) and self.claim_problem("", resolved) is None

    def relative(self, path: Path) -> str:
        """Return a path as people name it: relative to ``root`` if below it, else absolute; always with ``/``.

        Bytes that can't be decoded are shown as escapes, which ``resolve`` understands.
        """
        text = path.relative_to(self.root).as_posix() if path.is_relative_to(self.root) else path.as_posix()
        return text.encode(errors="backslashreplace").decode()

    def granting(self, paths: Sequence[Path], *, write: bool) -> Workspace:
        """Return the same workspace with the resolved ``paths`` and everything below them allowed too."""
        if write:
            return replace(self, extra_roots=(*self.extra_roots, *paths))
        return replace(self, read_roots=(*self.read_roots, *paths))


class ReadTracker(Struct):
    """Remembers which version of which file an agent has seen: a digest of each, not its bytes."""

    _seen: dict[Path, bytes] = field(default_factory=dict[Path, bytes])

    def note(self, path: Path, data: bytes) -> None:
        """Record that the agent has read or written ``data`` as the whole of the file at a resolved path."""
        self._seen[path] = _digest(data)

    def is_current(self, path: Path, data: bytes) -> bool:
        """Return whether ``data``, the file's bytes now, is the version the agent has seen last."""
        return self._seen.get(path) == _digest(data)


def _real(root: Path) -> Path:
    """Return a root with its links resolved.

    Raises:
        PathError: it is not absolute, so there is no folder it could be relative to.
    """
    if not root.is_absolute():
        raise PathError(str(root), "is not absolute, and a workspace has nothing to be relative to")
    return Path(os.path.realpath(root))


def _as_on_disk(path: str) -> str:
    """Return ``path`` with each name in the form that exists on disk: composed, decomposed or without escapes."""
    if (path.isascii() and "\\" not in path) or os.path.lexists(path):
        return path
    found = os.sep
    for name in Path(path).parts[1:]:
        forms = (name, *(unicodedata.normalize(form, name) for form in ("NFC", "NFD")), _ESCAPE.sub(_unescaped, name))
        candidates = [f"{found.removesuffix(os.sep)}{os.sep}{form}" for form in forms]
        found = next((candidate for candidate in candidates if os.path.lexists(candidate)), candidates[0])
    return found


def _unescaped(found: re.Match[str]) -> str:
    """Return the character that a listing shows as an escape because it can't be printed."""
    character = _CONTROLS.get(found[0]) or chr(int(found[1] or found[2], 16))
    return found[0] if character == "\0" or character.isprintable() else character


def _digest(data: bytes) -> bytes:
    return hashlib.blake2b(data, digest_size=16).digest()
