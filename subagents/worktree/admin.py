"""Git's own folder of a worktree: made, found beyond doubt, and forgotten."""

from __future__ import annotations

import os
import secrets
from contextlib import suppress
from pathlib import Path

from subagents.worktree.repository import Repository

LINK = "gitdir: "


def admin_folder(repository: Repository, path: Path) -> Path | None:
    """The folder of the worktree at ``path``: one of the repository's that names it back; None if git knows of none.

    What the worktree itself says is a hint only: whoever works in it can write that.
    """
    folders = _folders(repository)
    named = folders / Path(_text(path / ".git").removeprefix(LINK).strip()).name
    if _is_of(named, path):
        return named
    with suppress(OSError):
        return next((folder for folder in folders.iterdir() if _is_of(folder, path)), None)
    return None


def add_worktree(repository: Repository, path: Path, branch: str, commit: str) -> None:
    """Have git make a worktree at ``path``, all of whose files are there, with ``branch`` at ``commit``.

    Raises:
        OSError: the disk refuses.
        GitFailedError: git refuses.
    """
    _folders(repository).mkdir(exist_ok=True)  # where the shelter leads, git makes none
    words = ("-c", "core.sparseCheckout=false", "worktree", "add", "--quiet", "--force", "--no-track", "-B", branch)
    repository.git(*words, str(path), commit)
    name = Path(_text(path / ".git").strip()).name
    # Git names the shelter it was given; who works there needs the repository itself.
    (path / ".git").write_text(f"{LINK}{_folders(repository) / name}\n", encoding="utf-8", errors="surrogateescape")


def forget_worktree(repository: Repository, path: Path) -> None:
    """Have git know nothing of the worktrees at ``path``, from one moment to the next.

    What it knew goes with the scratch folder.

    Raises:
        OSError: the disk refuses.
    """
    while (admin := admin_folder(repository, path)) is not None:
        admin.rename(repository.scratch / f"forgotten.{secrets.token_hex(4)}")
    with suppress(OSError):
        _folders(repository).rmdir()  # the last one, as git does


def _folders(repository: Repository) -> Path:
    return repository.common_dir / "worktrees"


def _link_of(path: Path) -> str:
    return os.path.join(os.path.realpath(path), ".git")  # noqa: PTH118  text, which is what git compares


def _is_of(admin: Path, path: Path) -> bool:
    back = _text(admin / "gitdir").rstrip("\n")
    return bool(back) and back in {_link_of(path), str(path / ".git")}


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="surrogateescape")
    except OSError:
        return ""
