"""Finds the programs a repository may make git run, by reading its files as git would, without starting git."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path

from vibe.system.git.config_file import GitConfigError, GitSetting, read_settings
from vibe.system.git.discovery import LocatedRepository, OddRepositoryError, locate, located_at
from vibe.system.git.shelter import LFS_VALUE

CONFIG_BYTES = 256 * 1024
"""Maximum size of a git configuration, in characters. A larger one is assumed to name programs."""
MAX_NAME = 4096
"""Names in the index that are longer, in bytes, are no paths."""
MAX_CONFIGS = 100
"""Maximum number of configurations read below ``.git/modules``."""
MAX_REPOSITORIES = 100
"""Maximum number of nested repositories that are checked. With more of them, the line needs approval."""

PROGRAM_KEYS = frozenset({
    "alternaterefscommand", "askpass", "browser", "cccmd", "clean", "cmd", "command", "defaultkeycommand", "difffilter",
    "driver", "editor", "external", "fsmonitor", "gitproxy", "headercmd", "helper", "hookspath", "httpd",
    "ignorerevsfile", "packobjectshook", "pager", "process", "program", "receivepack", "recentobjectshook",
    "sendmailcmd", "smtpserver", "smudge", "sshcommand", "submodulesummary", "textconv", "tocmd", "tunnel",
    "uploadpack", "vcs", "worktree", "worktreeconfig",
})  # fmt: skip
"""Last parts of the names of settings that say what git runs, or where it looks for files."""

PROGRAM_SECTIONS = frozenset({
    "browser", "filter", "gpg", "hook", "include", "includeif", "man", "pager", "protocol",
})  # fmt: skip
LFS_PROGRAMS = re.compile(r"customtransfer\..*|extension\..*")
LFS_PROGRAM_KEYS = frozenset({"standalonetransferagent", "sshtransfer"})
HELPER_URL = re.compile(r"\w[\w+.-]*::")
"""An address that names the program that fetches it, such as ``ext::``."""

RUNNING_HOOKS = ("post-index-change", "fsmonitor-watchman", "query-watchman")
CHOSEN = "the repository's git configuration names programs that git would run"
GITLINK = b"\x00\x00\xe0\x00"
"""The mode of an index entry that is a nested repository."""
NAME_AFTER_MODE = (38, 40, 50, 52)
"""Possible distances in bytes from an entry's mode to its name: SHA-1 or SHA-256, each with or without extra flags."""


def repository_doubt(folder: Path) -> str:
    """Return why git in ``folder`` may run programs that the repository chose, or "". Reads the file system."""
    try:
        located = locate(folder)
        return "" if located is None else _tree_doubt(located)
    except OddRepositoryError as error:
        return f"{error}: git may use another repository instead"
    except OSError as error:
        return f"the repository can't be read ({error.strerror})"


def _tree_doubt(located: LocatedRepository) -> str:
    """Do the same for a working tree and the repositories nested in it, because git looks for changes there too."""
    seen: set[Path] = set()
    pending = [located]
    while pending:
        repository = pending.pop()
        if repository.git_dir in seen:
            continue
        seen.add(repository.git_dir)
        if len(seen) > MAX_REPOSITORIES:
            return f"{str(located.top)!r} contains too many repositories to check each"
        doubt = _git_dir_doubt(repository)
        if doubt:
            return doubt
        nested = _repositories_in(repository)
        if nested is None:
            return "the repository's index can't be read for the repositories in it"
        pending += nested
    return ""


def _git_dir_doubt(located: LocatedRepository) -> str:
    folders = dict.fromkeys((located.git_dir, located.common_dir))
    for folder in folders:
        for hook in RUNNING_HOOKS:
            if os.access(folder / "hooks" / hook, os.X_OK):
                return f"the repository has a {hook} hook, which git would run"
    modules = located.common_dir / "modules"
    configs = [folder / name for folder in folders for name in ("config", "config.worktree")]
    if os.path.isdir(modules):
        configs += islice(modules.glob("**/config"), MAX_CONFIGS)
    return next((doubt for config in configs if (doubt := _config_doubt(config))), "")


def _config_doubt(config: Path) -> str:
    try:
        with config.open(encoding="utf-8-sig", errors="replace", newline="") as file:
            text = file.read(CONFIG_BYTES)
    except OSError:
        return ""
    try:
        chosen = len(text) == CONFIG_BYTES or any(map(_runs_something, read_settings(text)))
    except GitConfigError:
        return "the repository's git configuration can't be parsed"
    return CHOSEN if chosen else ""


def _runs_something(setting: GitSetting) -> bool:
    section, subsection, key, value = setting
    if (section, subsection) == ("filter", "lfs"):
        return key in PROGRAM_KEYS and not LFS_VALUE.fullmatch(value)
    if section in PROGRAM_SECTIONS or key in PROGRAM_KEYS or value.lstrip().startswith("!"):
        return True
    if section == "lfs":
        return bool(LFS_PROGRAMS.match(subsection)) or key in LFS_PROGRAM_KEYS
    if section == "diff":
        return bool(subsection) or (key == "submodule" and value != "short")
    return bool(HELPER_URL.match(value if section == "remote" and key in {"url", "pushurl"} else subsection))


def _repositories_in(located: LocatedRepository) -> list[LocatedRepository] | None:
    """Return the nested repositories that the index lists, or None if the index can't be read.

    Raises:
        OddRepositoryError: one of them isn't laid out as git would have done it.
    """
    found: list[LocatedRepository] = []
    for index in (located.git_dir / "index", *located.git_dir.glob("sharedindex.*")):
        try:
            data = index.read_bytes()
        except FileNotFoundError:
            continue
        if GITLINK not in data:
            continue
        if data[4:8] not in {b"\x00\x00\x00\x02", b"\x00\x00\x00\x03"}:
            return None
        for name in _gitlinks(data):
            with suppress(OSError):  # these bytes of the index weren't a name
                inner = located_at(located.top / name)
                found += [] if inner is None else [inner]
    return found


def _gitlinks(data: bytes) -> Iterator[str]:
    """Yield the names in the index that may be those of repositories.

    Wrong guesses do no harm, because they don't lead to a folder with a ``.git``.
    """
    at = data.find(GITLINK)
    while at >= 0:
        for start in (at + distance for distance in NAME_AFTER_MODE):
            name = data[start : data.find(b"\0", start)]
            if name and len(name) < MAX_NAME:
                yield os.fsdecode(name)
        at = data.find(GITLINK, at + 1)
