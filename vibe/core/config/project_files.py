"""Folders a project's own files may lie in: from the workspace up to the root of its repository, and below it."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

FOREIGN_FOLDERS = frozenset({
    ".git", ".tox", ".venv", "build", "dist", "node_modules", "site-packages", "target", "third_party", "vendor",
    "venv",
})  # fmt: skip
"""Folders of other projects, whose instructions are not for this one."""
TEACHING_FOLDERS = frozenset({".vibe", ".agents"})
MAX_DEPTH = 4
MAX_FOLDERS = 2_000
"""The depth below a workspace, and the number of folders, to which instructions are looked for."""


def project_lineage(workdir: Path, user_home: Path) -> list[Path]:
    """``workdir`` and the folders above it that belong to the same project, nearest first; all are resolved.

    A project ends at its git root. Outside a repository only ``workdir`` itself counts: what lies above belongs to
    others. The user's home directory is nobody's project.
    """
    start, home = workdir.resolve(), user_home.resolve()
    lineage = [start, *start.parents]
    for depth, folder in enumerate(lineage):
        if folder == home:
            return lineage[:depth]
        if (folder / ".git").exists():
            return lineage[: depth + 1]
    return [start]


def project_root(workdir: Path, user_home: Path) -> Path:
    """The root of the repository around ``workdir``, else ``workdir`` itself; resolved."""
    lineage = project_lineage(workdir, user_home)
    return lineage[-1] if lineage else workdir.resolve()


def nested_folders(workdir: Path, trusts: Callable[[Path], bool]) -> tuple[Path, ...]:
    """Return the trusted folders below a trusted ``workdir`` that have a ``.vibe`` or ``.agents``, the nearest first.

    Reads the file system: four levels deep at most, past hidden folders, links and folders of other projects.
    """
    start = workdir.resolve()
    if not trusts(start):
        return ()
    found: list[Path] = []
    level, seen = [start], 0
    for depth in range(MAX_DEPTH + 1):
        deeper: list[Path] = []
        for folder in level[: MAX_FOLDERS - seen]:
            names = _folders_in(folder)
            if depth and TEACHING_FOLDERS.intersection(names) and trusts(folder):
                found.append(folder)
            deeper += [folder / name for name in names if not name.startswith(".") and name not in FOREIGN_FOLDERS]
        seen += len(level)
        level = deeper
    return tuple(found)


def _folders_in(folder: Path) -> list[str]:
    with suppress(OSError), os.scandir(folder) as entries:
        return sorted(entry.name for entry in entries if entry.is_dir(follow_symlinks=False))
    return []
