"""Where a project's own files may lie: the folders from the workspace up to the root of its repository."""

from __future__ import annotations

from pathlib import Path


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
