"""Git's own folder of a worktree: made as ``git worktree add`` makes it, found beyond doubt, and forgotten."""

from __future__ import annotations

import os
import secrets
from contextlib import suppress
from pathlib import Path

from subagents.worktree_repository import Repository

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


def make_admin_folder(repository: Repository, path: Path, commit: str, index: bytes | None = None) -> Path:
    """Have git know the folder ``path`` as a worktree at ``commit``; it does so as a whole or not at all.

    Raises:
        OSError: the disk refuses.
    """
    draft = repository.scratch / f"worktree.{secrets.token_hex(4)}"
    draft.mkdir()
    (draft / "commondir").write_text("../..\n")
    (draft / "gitdir").write_text(f"{_link_of(path)}\n", encoding="utf-8", errors="surrogateescape")
    (draft / "HEAD").write_text(f"{commit}\n")
    if index is not None:
        (draft / "index").write_bytes(index)
    admin = _folders(repository) / f"{path.name}-{secrets.token_hex(4)}"
    admin.parent.mkdir(exist_ok=True)
    draft.rename(admin)
    (path / ".git").write_text(f"{LINK}{admin}\n", encoding="utf-8", errors="surrogateescape")
    return admin


def forget_worktree(repository: Repository, path: Path) -> None:
    """Have git know nothing of the worktrees at ``path``, from one moment to the next; what it knew goes with the scratch folder.

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
