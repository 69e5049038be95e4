"""The arguments of a command line and the process it runs in: directories, variables and streams, read once."""

from __future__ import annotations

import os
import sys
from argparse import Namespace
from collections.abc import Iterable
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TextIO

from vibe.app.engine.host import HOME_VARIABLE, Host, vibe_home
from vibe.cli.streams import standard_streams
from vibe.system.errors import EnvironmentFailure, UsageError
from vibe.system.files import typed_path
from vibe.system.own_places import STATE
from vibe.system.plain_text import one_line
from vibe.system.programs import guarded

if TYPE_CHECKING:
    from ipc.sink import EventSink


BUS_TOKEN = "VIBE_BUS_TOKEN"  # noqa: S105  the name of a variable
"""The variable with the token of a run on TCP whose token this home doesn't have."""
GONE = Path("/dev/null/the current folder, which is gone")
"""The directory of a command that was called where there is none. Nothing can be there, so whoever needs it fails."""


class Arguments(Namespace):
    """The arguments of a command line by name; ``workdir`` and ``extra_roots`` are existing folders."""

    def named_in(self, kind: Any) -> dict[str, Any]:
        """Return the arguments for which a struct has fields, by name."""
        given = vars(self)
        return {name: given[name] for name in kind.__struct_fields__ if name in given}


class CliEnvironment(Host, frozen=True, kw_only=True):
    """The environment of one command: what its runs may use of the machine, its directory and its streams.

    A caller that runs a command line within its own process leaves ``owns_process`` off.
    """

    cwd: Path
    """The absolute path of the directory in which the command was called, or ``GONE``."""
    stdout: TextIO
    stderr: TextIO
    stdin: TextIO
    detached: EventSink | None = None
    """Gets the events of a command that left its terminal, to report there that its run has begun."""

    @classmethod
    def from_process(cls) -> CliEnvironment:
        """Read this process's environment; nothing else asks the process for its directory and home.

        Raises:
            EnvironmentFailure: there is no home, or names can't have letters beyond ASCII.
        """
        if sys.getfilesystemencoding() == "ascii":
            raise EnvironmentFailure("file names are limited to ASCII here: unset PYTHONUTF8, or set LC_ALL=C.UTF-8")
        try:
            cwd = Path.cwd()  # noqa: TID251  only the command line knows where it was called
        except OSError:
            cwd = GONE
        environ = MappingProxyType(guarded(os.environ, [cwd]))
        stdin, stdout, stderr = standard_streams(environ)
        home = vibe_home(environ, cwd)
        return cls(home=home, cwd=cwd, environ=environ, stdout=stdout, stderr=stderr, stdin=stdin, owns_process=True)

    @property
    def for_another(self) -> dict[str, str]:
        """The variables for another process of ours with the same home."""
        return {**self.environ, HOME_VARIABLE: str(self.home)}

    def path(self, name: str) -> Path:
        """Return the path that a command line argument means.

        Raises:
            UsageError: it can't be the name of a file.
        """
        return typed_path(self.cwd, name)

    def path_to_write(self, flag: str, name: str) -> Path:
        """Return the path of a file or folder for output that a flag names.

        Raises:
            UsageError: vibe keeps its own records there.
        """
        path = self.path(name)
        real = Path(os.path.realpath(path))
        if any(real.is_relative_to(os.path.realpath(self.home / records)) for records in STATE):
            raise UsageError(f"{flag} {name}: is where vibe keeps its own records; name another place")
        return path

    def file_to_write(self, flag: str, name: str, plan: str = "") -> Path:
        """Return the path of an output file that a flag names.

        Raises:
            UsageError: its folder doesn't exist, it is a folder or the file of the ``plan`` it is about, or vibe keeps
                its own records there.
        """
        path = self.path_to_write(flag, name)
        if os.path.isdir(path):
            raise UsageError(f"{flag} {name}: is a folder; name a file")
        if not os.path.isdir(path.parent):
            raise UsageError(f"{flag} {name}: no folder {str(path.parent)!r}; create it first")
        if os.path.realpath(path) == os.path.realpath(self.cwd / plan):
            raise UsageError(f"{flag} {name}: is the plan itself; name another file")
        return path

    def tell(self, message: str) -> None:
        """Write a message on standard error."""
        self.stderr.write(f"{message}\n")
        self.stderr.flush()

    def ask(self, question: str) -> str:
        """Write a question on standard error, and return the line that is typed; blank at the end of input."""
        self.stderr.write(question)
        self.stderr.flush()
        return self.stdin.readline()

    def warn(self, warnings: Iterable[str]) -> None:
        """Write warnings on standard error."""
        self.stderr.writelines(f"warning: {one_line(warning, 1_000)}\n" for warning in warnings)

    def write_lines(self, lines: Iterable[str]) -> None:
        """Print lines."""
        self.stdout.writelines(f"{line}\n" for line in lines)
        self.stdout.flush()

    def answer(self, args: Arguments, document: object, lines: Iterable[str]) -> None:
        """Print the result of a command, as JSON if ``--output`` asks for it, else as lines."""
        if args.output == "json":
            self.write_json(document)
        else:
            self.write_lines(lines)

    def write_json(self, document: object) -> None:
        """Print a document as indented JSON."""
        import json  # noqa: PLC0415  most output is text

        self.stdout.write(json.dumps(document, indent=2, ensure_ascii=False) + "\n")
