from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest
from anyio import create_task_group

from vibe.acp.editor import EditorTerminals
from vibe.acp.updates import SessionChannel
from vibe.shell.errors import CommandStartError
from vibe.shell.process.capture import OutputLimit
from vibe.shell.process.port import CommandOrder


class NoEditor:
    """An editor that must not be called."""

    client = None
    session_id = "s"


@pytest.mark.parametrize("place", ["missing", "file"])
async def test_a_script_that_cannot_be_written_is_told(tmp_path: Path, place: str) -> None:
    (tmp_path / "file").touch()
    terminals = EditorTerminals(cast("SessionChannel", NoEditor()), create_task_group())
    terminals.approve("call", "make")
    environ: dict[str, Any] = {"TMPDIR": str(tmp_path / place)}
    order = CommandOrder(line="make", argv=("make",), cwd=tmp_path, environ=environ, limit=OutputLimit())

    with pytest.raises(CommandStartError, match="can't be written"):
        await terminals.start(order)
