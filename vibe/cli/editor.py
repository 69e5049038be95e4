"""Opens the user's editor on a file."""

from __future__ import annotations

import shlex
import subprocess
from pathlib import Path

from vibe.cli.environment import CliEnvironment
from vibe.shell.sandbox.temporary import brief_folder
from vibe.system.errors import EnvironmentFailure, os_error_as
from vibe.system.programs import find_program


def open_editor(path: Path, env: CliEnvironment, instead: str = "") -> None:
    """Let the user edit a file; ``instead`` tells them in the error what else they can do.

    Raises:
        EnvironmentFailure: there is no editor, it can't be started, or it ended with an error.
    """
    command = env.environ.get("VISUAL") or env.environ.get("EDITOR") or ""
    if not command:
        raise EnvironmentFailure(f"no editor: set EDITOR to one, such as EDITOR=nano{instead}")
    env.stdout.flush()
    try:
        program, *words = shlex.split(command)
        found = find_program(program, env.environ) or program
        code = subprocess.run([found, *words, path], cwd=env.cwd, env=dict(env.environ), check=False).returncode  # noqa: S603  the user's own command
        problem = f"ended with exit code {code}, so nothing was changed" if code else ""
    except (OSError, ValueError) as error:
        problem = f"can't be started ({error})"
    if problem:
        raise EnvironmentFailure(f"the editor {command!r} {problem}: set VISUAL or EDITOR to another{instead}")


def edited(text: str, name: str, env: CliEnvironment) -> str:
    """Let the user change a text, as a file with this name, and return it.

    Raises:
        EnvironmentFailure: there is no editor, it can't be started, it ended with an error, or it left no text.
    """
    failed = os_error_as(
        lambda error: EnvironmentFailure(f"the editor's file is lost, nothing was changed ({error.strerror})")
    )
    with failed, brief_folder(env.environ.get("TMPDIR")) as folder:
        path = folder / name
        path.write_text(text, encoding="utf-8")
        open_editor(path, env)
        return path.read_text(encoding="utf-8", errors="replace")
