"""A command line's words, and the process it runs in: directories, variables and streams, read once."""

from __future__ import annotations

import os
from argparse import Namespace
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, TextIO

from vibe.app.engine.host import Host
from vibe.cli.streams import standard_streams
from vibe.core.config.paths import absolute, in_utf8
from vibe.system.errors import EnvironmentFailure, UsageError
from vibe.system.own_places import user_home_of
from vibe.system.programs import guarded

HOME_VARIABLE = "VIBE_HOME"
HOME_DIRECTORY = ".vibe"


class Arguments(Namespace):
    """The arguments of a command line by their names; ``workdir`` and ``extra_roots`` are folders that are there."""

    def named_in(self, kind: Any) -> dict[str, Any]:
        """Return those that a struct has fields for, by name."""
        given = vars(self)
        return {name: given[name] for name in kind.__struct_fields__ if name in given}


class CliEnvironment(Host, frozen=True, kw_only=True):
    """The environment of one command: what its runs may use of the machine, the directory and the streams.

    A caller that runs a command line within its own process leaves ``owns_process`` off.
    """

    cwd: Path
    """The directory the command was called in; absolute."""
    stdout: TextIO
    stderr: TextIO
    stdin: TextIO

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

    def tell(self, message: str) -> None:
        """Say how things stand, on standard error."""
        self.stderr.write(f"{message}\n")
        self.stderr.flush()

    def write_lines(self, lines: Iterable[str]) -> None:
        """Print lines."""
        self.stdout.writelines(f"{line}\n" for line in lines)

    def answer(self, args: Arguments, document: object, lines: Iterable[str]) -> None:
        """Print what a command found out: as JSON where ``--output`` wants that, else as lines."""
        if args.output == "json":
            self.write_json(document)
        else:
            self.write_lines(lines)

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


def existing_folder(flag: str, given: str | None, cwd: Path) -> Path:
    """The folder a flag names (relative to ``cwd``), or ``cwd``.

    Raises:
        UsageError: there is no such folder, or none that can be written down.
    """
    folder = cwd / Path(given).expanduser() if given else cwd
    if not folder.is_dir():
        where = f"{flag} {given}" if given else f"the current folder, {cwd}"
        raise UsageError(f"{where}: no such folder")
    return utf8_folder(folder.resolve())


def utf8_folder(folder: Path) -> Path:
    """The folder, which what is kept of a run will name.

    Raises:
        UsageError: its name is not UTF-8, as JSON, TOML and events have to be.
    """
    if in_utf8(folder) != str(folder):
        raise UsageError(f"the folder {in_utf8(folder)!r} can't be used because its name is not UTF-8: rename it")
    return folder
