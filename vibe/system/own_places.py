"""The user's home, and vibe's own places, which may lie in a folder it works in but are not part of the work there."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from pwd import getpwuid

STATE = (".env", "git", "locks", "logs", "plans", "run")
"""Parts of a vibe home that only vibe maintains. Working in the home itself means working on the rest."""
TEMPORARY = "vibe-*"
"""The glob of a run's own temporary files and folders."""
WRITERS_VARIABLE = "VIBE_WRITERS"
"""The variable with the note files of all runs above a process and, last, of its own run.

What a call starts may write while that call holds the turn."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnPlaces:
    """The places of this run.

    ``home`` is the user's vibe folder, and ``results`` are the files that a caller has it write. ``environ`` says where
    sockets and temporary files are. Whatever another home left behind is treated like any file.

    This is not a msgspec struct, because the program that restores what a killed run left loads this module and no
    package.
    """

    home: Path | None = None
    environ: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)  # It may contain keys.
    results: tuple[Path, ...] = ()

    def below(self, root: Path) -> tuple[Path, ...]:
        """Return the places below ``root``, with links resolved in both. Reads the file system.

        A root that is itself one of these places, or inside one, is treated like any folder.
        """
        top = Path(os.path.realpath(root))
        places = [*self.results]
        if self.home is not None:
            places += [self.home, *(self.home / name for name in STATE)]
        if self.environ.get("XDG_RUNTIME_DIR"):
            places.append(Path(self.environ["XDG_RUNTIME_DIR"], "vibe"))
        temporary = Path(os.path.realpath(self.environ.get("TMPDIR") or "/tmp"))  # noqa: S108  where it is by default
        if temporary.is_relative_to(top):
            places += temporary.glob(TEMPORARY)
        real = dict.fromkeys(Path(os.path.realpath(place)) for place in places)
        return tuple(place for place in real if place != top and place.is_relative_to(top))


NO_OWN_PLACES = OwnPlaces()
NO_HOME = Path("/nonexistent")
"""Stands for the home of a user who has none."""


def is_placeholder(found: os.stat_result, name: str) -> bool:
    """Return whether an entry is one of the empty ones that keep running commands from creating settings there."""
    is_marked = name.startswith(".") and bool(found.st_mode & stat.S_ISVTX)
    return is_marked and not (found.st_size and stat.S_ISREG(found.st_mode))


def user_home_of(environ: Mapping[str, str]) -> Path:
    """Return the user's home directory by ``environ``, or else by the system, or else ``NO_HOME``.

    A ``HOME`` that is blank or no absolute path names none: the places to hide are those of the user's account.
    """
    chosen = environ.get("HOME")
    try:
        if chosen is None:
            return Path.home()
        return Path(chosen if chosen.startswith("/") else getpwuid(os.getuid()).pw_dir)
    except (KeyError, RuntimeError):  # The user is unknown, as in a container that runs as any user.
        return NO_HOME
