"""Bounds: places on the user's machine that stay closed to tools, inside the workspace or not."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path

from msgspec import Struct

from vibe.shell.sandbox.confinement import Confinement
from vibe.shell.sandbox.control import control_paths
from vibe.shell.sandbox.secrets import CONTROL_FOLDERS, is_control, is_sensitive
from vibe.system.files import text_of
from vibe.system.globs import expand_braces
from vibe.system.own_places import user_home_of

KEYS_FILE = ".env"
"""In vibe's own folder: the keys of the model's provider."""

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
"""Paths below the user's home that the user's own programs start or read when they start."""


class Bounds(Struct, frozen=True, kw_only=True):
    """All paths are resolved.

    ``hidden`` holds keys and credentials; ``sealed`` stays closed even if the user approves. What the user has opened
    is ``readable``, secrets included, or ``writable``. ``unread`` are globs of files that no tool reads, because
    ``read_file`` may not. ``startup`` decides what the user's programs do later. The user chose the workspace: if it
    lies inside such a place, only names count within it.
    """

    hidden: tuple[Path, ...] = ()
    readable: tuple[Path, ...] = ()
    writable: tuple[Path, ...] = ()
    sealed: tuple[Path, ...] = ()
    startup: tuple[Path, ...] = ()
    unread: tuple[str, ...] = ()

    def is_sealed(self, path: Path) -> bool:
        """Return whether a resolved path is sealed, under its own name or, as a hard link, under another.

        Reads the file system.
        """
        return any(path == sealed or _is_same(path, sealed) for sealed in self.sealed)

    def opens(self, path: Path, *, write: bool = False) -> bool:
        """Return whether the user has opened a resolved path."""
        return any(_holds(place, path) for place in (self.writable if write else (*self.writable, *self.readable)))

    def is_secret(self, path: Path, roots: Sequence[Path], *, write: bool = False) -> bool:
        """Return whether a resolved path holds secrets, or looks like it, seen from a workspace of ``roots``."""
        if not write and any(_holds(place, path) for place in self.readable):
            return False
        root = _innermost(path, (*roots, *self.writable))
        return is_sensitive(_below(path, root)) or _lies_in(self.hidden, path, root)

    def is_control(self, path: Path, roots: Sequence[Path]) -> bool:
        """Return whether what is written at a resolved path decides what runs later. Reads the file system."""
        root = _innermost(path, (*roots, *self.writable))
        if is_control(_below(path, root)) or _lies_in(self.startup, path, root):
            return True
        places = (place for root in roots for place in (*_linked_control(root), *_resolved(control_paths(root))))
        return any(_holds(place, path) for place in places)


def glob_matches(name: str, glob: str) -> bool:
    """Return whether ``glob`` matches a path, or names a folder above it; its ``*`` spans folders."""
    pattern = os.path.expanduser(glob).removesuffix("/")  # noqa: PTH111  a glob is no path
    if name == pattern or name.startswith(f"{pattern}/"):
        return True
    return any(fnmatchcase(name, one) or fnmatchcase(name, f"{one}/*") for one in expand_braces(pattern))


def any_matches(names: Iterable[str], globs: Iterable[str]) -> bool:
    """Return whether a glob matches one of the names of a path, in any case of letters."""
    return any(glob_matches(name.casefold(), glob.casefold()) for name in names for glob in globs)


def bounds_of(confinement: Confinement, environ: Mapping[str, str]) -> Bounds:
    """The bounds that confined commands have, for the tools that are not commands. Reads the file system."""
    home = user_home_of(environ)
    return Bounds(
        hidden=confinement.hidden,
        readable=confinement.readable,
        writable=confinement.writable,
        sealed=(Path(os.path.realpath(confinement.vibe_home / KEYS_FILE)),),
        startup=tuple(Path(os.path.realpath(home / name)) for name in STARTUP_IN_HOME),
    )


def _resolved(paths: Iterable[Path]) -> Iterator[Path]:
    return (Path(os.path.realpath(path)) for path in paths)


def _linked_control(root: Path) -> Iterator[Path]:
    """Yield where the control folders of a workspace really are, if not in it under their own names."""
    for name in CONTROL_FOLDERS:
        place = root / name
        if place.is_symlink():
            yield Path(os.path.realpath(place))
        elif name == ".git" and (text := text_of(place)).startswith("gitdir:"):
            yield Path(os.path.realpath(root / text.removeprefix("gitdir:").strip()))


def _innermost(path: Path, roots: Iterable[Path]) -> Path | None:
    return max((root for root in roots if _holds(root, path)), key=lambda root: len(root.parts), default=None)


def _below(path: Path, root: Path | None) -> Path:
    """A path as its workspace calls it; one that is itself the root, or in none, whole."""
    return path if root in {None, path} else path.relative_to(root or path)


def _lies_in(places: Iterable[Path], path: Path, root: Path | None) -> bool:
    """Return whether one of ``places`` holds ``path`` without holding the whole workspace."""
    return any(_holds(place, path) and not (root and _holds(place, root)) for place in places)


def _holds(folder: Path, path: Path) -> bool:
    return path == folder or folder in path.parents


def _is_same(path: Path, other: Path) -> bool:
    try:
        return os.path.samefile(path, other)  # noqa: PTH121  Path.samefile does the same with more calls
    except OSError:
        return False
