"""Turns of this process's runs to write in a folder, with all others that do."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from anyio import to_thread

from vibe.app.engine.host import Host
from vibe.core.session.write_turn import Tell

T = TypeVar("T")


async def in_turn(host: Host, folder: Path, name: str, tell: Tell, act: Callable[[], T]) -> T:
    """Do something to the files of a folder, in a thread, while no run writes there; see ``WriteTurn.held``.

    Raises:
        WorkspaceLockedError, SessionFolderError: they write for too long, or the folder can't be locked.
    """
    async with host.as_writer().turn([folder], name).held(tell):
        return await to_thread.run_sync(act)
