"""A command line's words, and the process it runs in: directories, variables and streams, read once."""

from __future__ import annotations

import os
from argparse import Namespace
from collections.abc import Iterable
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TextIO

from vibe.app.engine.host import HOME_VARIABLE, Host, vibe_home
from vibe.cli.streams import standard_streams
from vibe.system.errors import EnvironmentFailure, UsageError
from vibe.system.files import typed_path
from vibe.system.plain_text import plain_line, shortened
from vibe.system.programs import guarded

if TYPE_CHECKING:
    from ipc.sink import EventSink


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
    detached: EventSink | None = None
    """Hears the run of a command that left its terminal, to say where it was called that it has begun."""

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
    def for_another(self) -> dict[str, str]:
        """The variables of another process of ours, which has the same home."""
        return {**self.environ, HOME_VARIABLE: str(self.home)}

    def path(self, name: str) -> Path:
        """Return the path that a word of the command line means.

        Raises:
            UsageError: no file can be called so.
        """
        return typed_path(self.cwd, name)

    def file_to_write(self, flag: str, name: str) -> Path:
        """Return the path of a file that a flag names.

        Raises:
            UsageError: its folder is not there.
        """
        path = self.path(name)
        if not path.parent.is_dir():
            raise UsageError(f"{flag} {name}: no folder {str(path.parent)!r}; create it first")
        return path

    def tell(self, message: str) -> None:
        """Say how things stand, on standard error."""
        self.stderr.write(f"{message}\n")
        self.stderr.flush()

    def warn(self, warnings: Iterable[str]) -> None:
        """Say what does not end a command, on standard error."""
        self.stderr.writelines(f"warning: {shortened(plain_line(warning), 1_000)}\n" for warning in warnings)

    def write_lines(self, lines: Iterable[str]) -> None:
        """Print lines."""
        self.stdout.writelines(f"{line}\n" for line in lines)
        self.stdout.flush()

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
