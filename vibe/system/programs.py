"""Looks up the programs that vibe itself starts, and only outside of what a model's commands may write.

Those commands are confined to the workspace, but what vibe starts is not. So folders in ``PATH`` below a workspace,
such as those of an activated environment, are for commands only: otherwise a ``git`` put there would run unconfined.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path

SEARCHED = ("PATH", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "PYTHONPATH", "GIT_EXEC_PATH")
"""Variables with folders in which programs and their parts are looked up."""
OF_COMMANDS = "_VIBE_COMMANDS_"
"""Prefix of variables that save the original values of the ``SEARCHED`` ones, for commands."""
STARTED = ("git", "git-lfs", "ssh", "gpg", "rg", "bwrap", "uv", "bash", "sh")
"""Programs that vibe or its git start by name. If one of these links into a workspace, its folder is not used."""
SHELLS = ("/opt/homebrew/bin/bash", "/run/current-system/sw/bin/bash", "/usr/bin/bash", "/bin/bash")
NOWHERE = os.devnull
"""Replaces the folders of ``PATH`` if none is left, because an empty ``PATH`` means the current folder."""
MOST_LINKS = 40
"""The most links that are followed on the way to a path."""

_TIES = re.compile(
    r"GIT_(ALTERNATE_OBJECT_DIRECTORIES|CONFIG|CONFIG_PARAMETERS|OBJECT_DIRECTORY|DIR|WORK_TREE|IMPLICIT_WORK_TREE|"
    r"GRAFT_FILE|INDEX_FILE|NO_REPLACE_OBJECTS|REPLACE_REF_BASE|PREFIX|SHALLOW_FILE|COMMON_DIR|NAMESPACE|"
    r"QUARANTINE_PATH|INTERNAL_.*|REFLOG_ACTION|(?:LITERAL|GLOB|NOGLOB|ICASE)_PATHSPECS|PUSH_OPTION_.*)"
)
"""The list of ``git rev-parse --local-env-vars`` except numbered settings, and other variables of one call of git."""


def guarded(environ: Mapping[str, str], folders: Iterable[Path]) -> dict[str, str]:
    """Return ``environ`` for vibe itself, so that no program is looked up in or through ``folders``.

    Commands may write the files in these folders. Relative entries are removed, too. ``command_environ`` undoes the
    change. Calling it again adds more folders. Reads the file system.
    """
    places = {mark for folder in folders for mark in (os.path.normpath(folder), _identity(folder)) if mark}
    changed: dict[str, str] = {}
    for name in SEARCHED:
        given = environ.get(name, os.defpath if name == "PATH" else "")
        kept = os.pathsep.join(entry for entry in given.split(os.pathsep) if _is_apart(entry, places))
        if kept != given:
            changed[OF_COMMANDS + name] = environ.get(OF_COMMANDS + name, given)
            changed[name] = kept or (NOWHERE if name == "PATH" else "")
    return {**environ, **changed}


def command_environ(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables for a user's or a model's command: the user's own, without ties to a git that started us."""
    own = {name.removeprefix(OF_COMMANDS): value for name, value in environ.items() if name.startswith(OF_COMMANDS)}
    return {name: value for name, value in {**environ, **own}.items() if not is_internal(name)}


def is_internal(name: str) -> bool:
    """Return whether to keep a variable from commands: it is vibe's own, or ties git to a repository and a call."""
    return name.startswith(OF_COMMANDS) or bool(_TIES.fullmatch(name))


def find_program(name: str, environ: Mapping[str, str]) -> str | None:
    """Return the path of a program for vibe itself to start, or None. ``environ`` is vibe's own (see ``guarded``)."""
    folders = environ.get("PATH", os.defpath).split(os.pathsep)
    return shutil.which(name, path=os.pathsep.join(filter(os.path.isabs, folders)))


def shunned(name: str, environ: Mapping[str, str]) -> str:
    """Return a note for a missing program if one exists that vibe refuses to start, or else an empty string."""
    found = find_program(name, command_environ(environ)) if name else None
    return f" ({found} is not used, for commands may change what is there)" if found else ""


def find_ripgrep(environ: Mapping[str, str]) -> str | None:
    """Return the ``rg`` installed beside this Python, or else the one that vibe may start."""
    import sysconfig  # noqa: PLC0415  costs what --help must not

    beside = Path(sysconfig.get_path("scripts")) / "rg"
    return str(beside) if os.access(beside, os.X_OK) else find_program("rg", environ)


def find_shell() -> str:
    """Return the shell that runs lines: the system's bash, or else ``/bin/sh``."""
    return next((shell for shell in SHELLS if os.access(shell, os.X_OK)), "/bin/sh")


def open_browser(address: str, environ: Mapping[str, str]) -> None:
    """Open an address in the user's browser. Blocks."""
    import subprocess  # noqa: PLC0415  costs what --help must not

    quiet = subprocess.DEVNULL
    words = (sys.executable, "-I", "-m", "webbrowser", address)
    subprocess.run(words, cwd="/", env=dict(environ), stdin=quiet, stdout=quiet, stderr=quiet, check=False)  # noqa: S603  Python's own


def _is_apart(entry: str, places: set[str | tuple[int, int]]) -> bool:
    """Return whether a folder is outside of ``places``, along every part of the way that leads to it."""
    if not entry.startswith("/"):
        return False
    links = (link for link in (f"{entry}/{name}" for name in STARTED) if _target(link))
    return all(places.isdisjoint((path, _identity(path))) for way in (entry, *links) for path in _steps_to(way))


def _steps_to(path: str) -> Iterator[str]:
    """Yield every folder and link on the way to where an absolute path leads."""
    at, links = "/", 0
    rest = [*reversed(path.split("/"))]
    while rest:
        word = rest.pop()
        if word not in {"", "."}:
            parent = at.rpartition("/")[0]
            at = parent or "/" if word == ".." else f"{at.rstrip('/')}/{word}"
        yield at
        if word and (target := _target(at)) and links < MOST_LINKS:
            links += 1
            at = "/" if target.startswith("/") else at.rpartition("/")[0] or "/"
            rest += reversed(target.split("/"))


def _target(path: str) -> str:
    with suppress(OSError):
        return os.readlink(path)  # noqa: PTH115  thousands of times at each start
    return ""


def _identity(path: str | Path) -> tuple[int, int] | None:
    """Return what distinguishes a file from all others, whatever its name."""
    with suppress(OSError, ValueError):
        found = os.stat(path)  # noqa: PTH116  as above
        return found.st_dev, found.st_ino
    return None
