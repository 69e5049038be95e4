"""The process the command line runs in: directories, variables and streams, read once."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, TextIO

from vibe.app.engine.host import Host
from vibe.cli.streams import standard_streams
from vibe.core.config.paths import absolute, in_utf8
from vibe.system.errors import EnvironmentFailure
from vibe.system.own_places import user_home_of
from vibe.system.programs import guarded

if TYPE_CHECKING:
    from vibe.core.llm.retry import RetryPolicy

HOME_VARIABLE = "VIBE_HOME"
HOME_DIRECTORY = ".vibe"
RUNTIME_VARIABLE = "XDG_RUNTIME_DIR"


@dataclass(frozen=True, slots=True, kw_only=True)
class CliEnvironment:
    """The environment of one command; everything below is handed the part it needs."""

    home: Path
    """The user's vibe folder; absolute, and need not exist."""
    cwd: Path
    """The directory the command was called in; absolute."""
    environ: Mapping[str, str]
    stdout: TextIO
    stderr: TextIO
    stdin: TextIO
    retries: RetryPolicy | None = None
    """As with ``Host``."""
    owns_process: bool = False
    """As with ``Host``: a caller that runs a command line within its own process leaves it off."""
    patience: float | None = None
    """As with ``Host``."""

    @classmethod
    def from_process(cls) -> CliEnvironment:
        """Read the environment of this process: the only place that asks it for its directory and its home.

        Raises:
            EnvironmentFailure: it has no directory any more, or no home.
        """
        cwd = _working_directory()
        environ = MappingProxyType(guarded(os.environ, [cwd]))
        stdin, stdout, stderr = standard_streams(environ)
        return cls(
            home=vibe_home(environ, cwd),
            cwd=cwd,
            environ=environ,
            stdout=stdout,
            stderr=stderr,
            stdin=stdin,
            owns_process=True,
        )

    @property
    def host(self) -> Host:
        """The part that a run may use."""
        return Host(
            home=self.home,
            environ=self.environ,
            runtime_dir=self.runtime_dir,
            retries=self.retries,
            owns_process=self.owns_process,
            patience=self.patience,
        )

    @property
    def runtime_dir(self) -> Path | None:
        """The user's directory for sockets, if the session has one; the specification ignores relative paths."""
        chosen = Path(self.environ.get(RUNTIME_VARIABLE, ""))
        return chosen if chosen.is_absolute() else None

    def tell(self, message: str) -> None:
        """Say how things stand, on standard error."""
        self.stderr.write(f"{message}\n")
        self.stderr.flush()

    def write_json(self, document: object) -> None:
        """Print a document as indented JSON."""
        import json  # noqa: PLC0415  most that is printed is text

        self.stdout.write(json.dumps(document, indent=2, ensure_ascii=False) + "\n")


def _working_directory() -> Path:
    try:
        return Path.cwd()  # noqa: TID251  the command line alone knows where it was called
    except OSError as error:
        raise EnvironmentFailure(
            f"the current directory can't be used ({error.strerror}): change to another"
        ) from error


def vibe_home(environ: Mapping[str, str], cwd: Path) -> Path:
    """The user's vibe folder, as the variables have it.

    Raises:
        EnvironmentFailure: they have none, and the system knows no home of this user.
    """
    chosen = environ.get(HOME_VARIABLE)
    try:
        user_home = user_home_of(environ)
        home = Path(absolute(chosen, cwd, user_home)) if chosen else user_home / HOME_DIRECTORY
    except RuntimeError as error:
        raise EnvironmentFailure(f"no home directory: set {HOME_VARIABLE} to a folder for vibe") from error
    if in_utf8(home) != str(home):
        raise EnvironmentFailure(
            f"the home folder {in_utf8(home)!r} can't be used because its name is not UTF-8: set {HOME_VARIABLE} to "
            f"another"
        )
    return home
