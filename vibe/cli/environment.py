"""What the command line takes from the process it runs in: directories, variables and streams, read once."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TextIO

HOME_VARIABLE = "VIBE_HOME"
HOME_DIRECTORY = ".vibe"
RUNTIME_VARIABLE = "XDG_RUNTIME_DIR"


@dataclass(frozen=True, slots=True, kw_only=True)
class CliEnvironment:
    """The surroundings of one command; everything below is handed what it needs from here.

    ``home`` is the user's vibe folder, ``cwd`` the directory the command was called in. Both are absolute; ``home``
    need not exist.
    """

    home: Path
    cwd: Path
    environ: Mapping[str, str]
    stdout: TextIO
    stderr: TextIO
    stdin: TextIO

    @classmethod
    def from_process(cls) -> CliEnvironment:
        """The surroundings of this process: the only place that asks it for its directory and its home."""
        cwd = Path.cwd()  # noqa: TID251  the command line alone knows where it was called
        environ = MappingProxyType(dict(os.environ))
        chosen = environ.get(HOME_VARIABLE)
        home = cwd / Path(chosen).expanduser() if chosen else Path.home() / HOME_DIRECTORY
        return cls(home=home, cwd=cwd, environ=environ, stdout=sys.stdout, stderr=sys.stderr, stdin=sys.stdin)

    @property
    def runtime_dir(self) -> Path | None:
        """The user's directory for sockets, if the session has one; the specification ignores relative paths."""
        chosen = Path(self.environ.get(RUNTIME_VARIABLE, ""))
        return chosen if chosen.is_absolute() else None
