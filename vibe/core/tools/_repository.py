"""Whether git may run programs that a repository chose: read from its files as git would, without starting git."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from vibe.core.git.config_file import GitConfigError, GitSetting, read_settings
from vibe.core.git.shelter import LFS_VALUE

CONFIG_BYTES = 256 * 1024
MAX_NAME = 4096
MAX_CONFIGS = 100
MAX_REPOSITORIES = 100
"""How many repositories within a repository are looked at before it is asked about."""

PROGRAM_KEYS = frozenset({
    "alternaterefscommand", "askpass", "clean", "command", "editor", "external", "fsmonitor", "gitproxy", "helper",
    "hookspath", "pager", "process", "program", "receivepack", "smudge", "sshcommand", "textconv", "uploadpack", "vcs",
    "worktree",
})  # fmt: skip
"""Last parts of settings that say what git runs, or where it looks for files."""

PROGRAM_SECTIONS = frozenset({"filter", "gpg", "include", "includeif", "protocol"})
HELPER_URL = re.compile(r"\w[\w+.-]*::")
"""An address that names the program that gets it: ``ext::``."""

RUNNING_HOOKS = ("post-index-change", "fsmonitor-watchman", "query-watchman")
CHOSEN = "the repository's git configuration names programs that git would run"
GITLINK = b"\x00\x00\xe0\x00"
"""The mode of an entry of the index that is a repository of its own."""
NAME_AFTER_MODE = (38, 40, 50, 52)
"""Bytes from the mode of an entry to its name: with SHA-1 or SHA-256, and with two bytes more of flags."""


def repository_doubt(folder: Path) -> str:
    """Why git in ``folder`` may run programs that the repository chose; or nothing. Reads the file system."""
    for parent in (folder, *folder.parents):
        git = _git_dir(parent / ".git")
        if git is not None:
            return _tree_doubt(parent, git)
        if (parent / ".git").is_file():
            return ""  # git goes no further either
        if (parent / "HEAD").is_file() and (parent / "objects").is_dir() and (parent / "refs").is_dir():
            return f"{str(parent)!r} looks like a bare repository among the files"
    return ""


def _git_dir(entry: Path) -> Path | None:
    """The folder that ``.git`` is, or names as those of worktrees and submodules do."""
    if entry.is_dir():
        return entry
    if not entry.is_file():
        return None
    text = entry.read_text(encoding="utf-8", errors="replace")[:MAX_NAME]
    target = (entry.parent / text.removeprefix("gitdir:").strip()).resolve()
    return target if target.is_dir() else None


def _tree_doubt(top: Path, git: Path) -> str:
    """The same for a working tree and the repositories in it, in which git looks for changes, too."""
    seen: set[Path] = set()
    pending = [(top, git)]
    while pending:
        folder, git = pending.pop()
        if git.resolve() in seen:
            continue
        seen.add(git.resolve())
        if len(seen) > MAX_REPOSITORIES:
            return f"{str(top)!r} holds too many repositories to look at each"
        doubt = _git_dir_doubt(git)
        if doubt:
            return doubt
        within = _repositories_in(folder, git)
        if within is None:
            return "the repository's index can't be read for the repositories in it"
        pending += within
    return ""


def _git_dir_doubt(git: Path) -> str:
    link = git / "commondir"
    common = (git / link.read_text(encoding="utf-8", errors="replace").strip()).resolve() if link.is_file() else git
    for folder in dict.fromkeys((git, common)):
        for hook in RUNNING_HOOKS:
            if os.access(folder / "hooks" / hook, os.X_OK):
                return f"the repository has a {hook} hook, which git would run"
    modules = common / "modules"
    configs = [folder / name for folder in dict.fromkeys((git, common)) for name in ("config", "config.worktree")]
    if modules.is_dir():
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
        return "the repository's git configuration can't be understood"
    return CHOSEN if chosen else ""


def _runs_something(setting: GitSetting) -> bool:
    section, subsection, key, value = setting
    if (section, subsection) == ("filter", "lfs"):
        return key in PROGRAM_KEYS and not LFS_VALUE.fullmatch(value)
    if section in PROGRAM_SECTIONS or key in PROGRAM_KEYS:
        return True
    if section == "diff":
        return bool(subsection) or (key == "submodule" and value != "short")
    return bool(HELPER_URL.match(value if section == "remote" and key in {"url", "pushurl"} else subsection))


def _repositories_in(top: Path, git: Path) -> list[tuple[Path, Path]] | None:
    """The repositories that the index of ``git`` says are in its working tree; None where it can't be told."""
    found: list[tuple[Path, Path]] = []
    for index in (git / "index", *git.glob("sharedindex.*")):
        try:
            data = index.read_bytes()
        except OSError:
            continue
        if GITLINK not in data:
            continue
        if data[4:8] not in {b"\x00\x00\x00\x02", b"\x00\x00\x00\x03"}:
            return None
        for name in _gitlinks(data):
            inner = _git_dir(top / name / ".git")
            if inner is not None:
                found.append((top / name, inner))
    return found


def _gitlinks(data: bytes) -> Iterator[str]:
    """Names that may be those of repositories: what is none of them is no folder with a ``.git`` either."""
    at = data.find(GITLINK)
    while at >= 0:
        for start in (at + distance for distance in NAME_AFTER_MODE):
            name = data[start : data.find(b"\0", start)]
            if name and len(name) < MAX_NAME:
                yield os.fsdecode(name)
        at = data.find(GITLINK, at + 1)
