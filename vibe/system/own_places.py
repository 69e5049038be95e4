"""The user's home, and places of vibe's own that may lie in a folder it works in and are no part of the work there."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

STATE = (".env", "git", "locks", "logs", "plans", "run")
"""Parts of a home that vibe alone keeps; work in that very folder is work on the rest."""
TEMPORARY = "vibe-*"
"""The names of a run's own temporary files and folders."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnPlaces:
    """The places of this run: ``home`` is the user's vibe folder, ``results`` are the files a caller has it write.

    No struct, since the program that puts back what a killed run left loads this module, and no package.
    ``environ`` says where sockets and temporary files are. What another home left behind is like any file.
    """

    home: Path | None = None
    environ: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)  # it may hold keys
    results: tuple[Path, ...] = ()

    def below(self, root: Path) -> tuple[Path, ...]:
        """Those that lie in ``root``, with links resolved in both. Reads the file system.

        A root that is itself one of these places, or inside one, is worked in like any folder.
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


def is_placeholder(found: os.stat_result, name: str) -> bool:
    """Return whether it is one of the empty things that keep commands from making settings, while they run."""
    is_marked = name.startswith(".") and bool(found.st_mode & stat.S_ISVTX)
    return is_marked and not (found.st_size and stat.S_ISREG(found.st_mode))


def user_home_of(environ: Mapping[str, str]) -> Path:
    """The user's home directory as ``environ`` has it, else as the system has it; ``NO_HOME`` if there is none."""
    chosen = environ.get("HOME")
    try:
        return Path(chosen) if chosen else Path.home()
    except RuntimeError:  # as in a container that runs as any user
        return NO_HOME
