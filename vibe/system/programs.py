"""The programs that vibe itself starts, looked up here alone, and outside of what a model's commands may write.

Such commands are confined to the workspace, and what vibe starts is not. So what stands in ``PATH`` below a workspace,
as the programs of an activated environment do, is for commands alone: who could put a ``git`` there would run outside.
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
"""Variables with folders that programs and their parts are looked up in."""
OF_COMMANDS = "_VIBE_COMMANDS_"
"""Begins the names of variables that keep what ``SEARCHED`` ones held, for commands."""
STARTED = ("git", "git-lfs", "ssh", "gpg", "rg", "bwrap", "uv", "bash", "sh")
"""Programs that vibe or its git start by name: one of these that leads to a workspace spoils its folder."""
SHELLS = ("/opt/homebrew/bin/bash", "/run/current-system/sw/bin/bash", "/usr/bin/bash", "/bin/bash")
NOWHERE = os.devnull
"""In place of folders where none is left: an empty ``PATH`` would mean the current one."""
MOST_LINKS = 40

_TIES = re.compile(
    r"GIT_(ALTERNATE_OBJECT_DIRECTORIES|CONFIG|CONFIG_PARAMETERS|OBJECT_DIRECTORY|DIR|WORK_TREE|IMPLICIT_WORK_TREE|"
    r"GRAFT_FILE|INDEX_FILE|NO_REPLACE_OBJECTS|REPLACE_REF_BASE|PREFIX|SHALLOW_FILE|COMMON_DIR|NAMESPACE|"
    r"QUARANTINE_PATH|INTERNAL_.*|REFLOG_ACTION|(?:LITERAL|GLOB|NOGLOB|ICASE)_PATHSPECS|PUSH_OPTION_.*)"
)
"""All that ``git rev-parse --local-env-vars`` lists but settings that a user numbers, and what else is of one call."""


def guarded(environ: Mapping[str, str], folders: Iterable[Path]) -> dict[str, str]:
    """``environ`` for vibe itself, which looks nothing up in or by way of ``folders``, whose files commands may write.

    Relative entries go, too. ``command_environ`` is the way back. Reads the file system; doing it again adds folders.
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
    """The variables of a command of the user's or a model's: the user's own, without ties to a git that started us."""
    own = {name.removeprefix(OF_COMMANDS): value for name, value in environ.items() if name.startswith(OF_COMMANDS)}
    return {name: value for name, value in {**environ, **own}.items() if not is_internal(name)}


def is_internal(name: str) -> bool:
    """Return whether a variable is for no command: it is vibe's own, or ties git to a repository and a call of git."""
    return name.startswith(OF_COMMANDS) or bool(_TIES.fullmatch(name))


def find_program(name: str, environ: Mapping[str, str]) -> str | None:
    """Return the path of a program for vibe itself to start, ``environ`` being its own (see ``guarded``); or None."""
    folders = environ.get("PATH", os.defpath).split(os.pathsep)
    return shutil.which(name, path=os.pathsep.join(filter(os.path.isabs, folders)))


def shunned(name: str, environ: Mapping[str, str]) -> str:
    """Return what to add where a program is missing: that there is one which vibe does not start. Mostly nothing."""
    found = find_program(name, command_environ(environ)) if name else None
    return f" ({found} is not used, for commands may change what is there)" if found else ""


def find_ripgrep(environ: Mapping[str, str]) -> str | None:
    """The ``rg`` installed beside this Python, else the one that vibe may start."""
    import sysconfig  # noqa: PLC0415  costs what --help must not

    beside = Path(sysconfig.get_path("scripts")) / "rg"
    return str(beside) if os.access(beside, os.X_OK) else find_program("rg", environ)


def find_shell() -> str:
    """Return the shell that runs lines: the system's bash, else whatever ``/bin/sh`` is."""
    return next((shell for shell in SHELLS if os.access(shell, os.X_OK)), "/bin/sh")


def open_browser(address: str, environ: Mapping[str, str]) -> None:
    """Open an address in the user's browser. Blocks."""
    import subprocess  # noqa: PLC0415  costs what --help must not

    quiet = subprocess.DEVNULL
    words = (sys.executable, "-I", "-m", "webbrowser", address)
    subprocess.run(words, cwd="/", env=dict(environ), stdin=quiet, stdout=quiet, stderr=quiet, check=False)  # noqa: S603  Python's own


def _is_apart(entry: str, places: set[str | tuple[int, int]]) -> bool:
    """Return whether a folder lies outside, on every part of the way that leads there."""
    if not entry.startswith("/"):
        return False
    links = (link for link in (f"{entry}/{name}" for name in STARTED) if _target(link))
    return all(places.isdisjoint((path, _identity(path))) for way in (entry, *links) for path in _way(way))


def _way(path: str) -> Iterator[str]:
    """Every folder and link passed on the way to where an absolute path leads."""
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
    """Return what tells a file from all others, however it is called."""
    with suppress(OSError, ValueError):
        found = os.stat(path)  # noqa: PTH116  as above
        return found.st_dev, found.st_ino
    return None
