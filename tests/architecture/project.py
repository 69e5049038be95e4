"""The project as files: the paths that the architecture tests walk over."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
PACKAGES = ("vibe", "planner", "subagents", "ipc")
UNTRACKED = frozenset({
    ".git",
    ".uv",
    "__pycache__",
    ".pytest_cache",
    ".ruff_cache",
    ".hypothesis",
    ".import_linter_cache",
    "node_modules",
    "dist",
    "build",
    "uv.lock",
})


def project_files() -> Iterator[Path]:
    """Yield every file that is or may be committed."""
    for folder, subfolders, names in os.walk(ROOT):
        subfolders[:] = sorted(name for name in subfolders if name not in UNTRACKED and not name.startswith(".venv"))
        yield from (Path(folder) / name for name in sorted(names) if name not in UNTRACKED)


def source_files() -> list[Path]:
    """Return every module of the four packages."""
    return sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py"))


def shown(path: Path) -> str:
    """Return the path as a failing test names it."""
    return path.relative_to(ROOT).as_posix()
