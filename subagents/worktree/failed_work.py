"""The work of a step that failed, whose worktree is gone: written out again from its branch, to be looked at."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from subagents.worktree.checkout import PUT_AWAY, remove_folder
from subagents.worktree.errors import WorktreeError
from subagents.worktree.repository import Repository
from subagents.worktree.state import WorktreeRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptWork:
    """A step's work that was not merged: its ``branch``, the files it ``changed``, and a ``folder`` with all of them.

    ``folder`` stands for the workspace; it is in ``top``, a copy that is no repository.
    """

    branch: str
    changed: tuple[str, ...]
    folder: Path
    top: Path


KeptBy: TypeAlias = Callable[[str], AbstractAsyncContextManager[KeptWork | None]]
"""Has the work of a step for as long as it is open; None: it kept none."""


def write_out(repository: Repository, record: WorktreeRecord, folder: Path, step_id: str) -> KeptWork | None:
    """Write the files of a dropped attempt's branch into ``folder``, as to be deleted; None: it has none.

    Blocks; with the repository's lock held and its scratch folder.

    Raises:
        WorktreeError: git or the disk refuses.
    """
    found = repository.git.ask("rev-parse", "--verify", "--quiet", f"refs/heads/{record.branch}^{{commit}}")
    if found.code != 0:
        return None
    top = folder / f"{PUT_AWAY}{step_id}.{secrets.token_hex(4)}"
    index = repository.scratch / "kept"
    try:
        (top / repository.prefix).mkdir(parents=True)
        repository.git("read-tree", found.text, index=index)
        repository.git("checkout-index", "--all", f"--prefix={top}/", index=index)
        changes = repository.changes(record.base.commit, found.text)
    except (OSError, WorktreeError) as error:
        remove_folder(top)
        raise error if isinstance(error, WorktreeError) else WorktreeError(f"{str(top)!r}: {error.strerror}") from error
    return KeptWork(
        branch=record.branch,
        changed=tuple(repository.from_workspace(change.path) for change in changes),
        folder=top / repository.prefix,
        top=top,
    )
