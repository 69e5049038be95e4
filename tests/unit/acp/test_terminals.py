from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import anyio
import pytest
from acp.schema import CreateTerminalResponse, TerminalOutputResponse, WaitForTerminalExitResponse
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


class SlowEditor:
    """An editor that opens a terminal once it is told to."""

    session_id = "s"

    def __init__(self) -> None:
        self.client = self
        self.was_asked, self.answers, self.released = anyio.Event(), anyio.Event(), anyio.Event()
        self.asked: list[str] = []

    async def create_terminal(self, *_: Any, args: list[str], **__: Any) -> CreateTerminalResponse:
        self.asked += args
        self.was_asked.set()
        await self.answers.wait()
        return CreateTerminalResponse(terminal_id="t1")

    async def kill_terminal(self, _session_id: str, terminal_id: str) -> None:
        self.asked.append(f"kill {terminal_id}")

    async def wait_for_terminal_exit(self, *_: Any) -> WaitForTerminalExitResponse:
        return WaitForTerminalExitResponse(exit_code=137)

    async def terminal_output(self, *_: Any) -> TerminalOutputResponse:
        return TerminalOutputResponse(output="", truncated=False)

    async def release_terminal(self, _session_id: str, terminal_id: str) -> None:
        self.asked.append(f"release {terminal_id}")
        self.released.set()


async def test_a_cancelled_command_waits_for_no_editor_and_its_terminal_is_ended_once_it_opens(tmp_path: Path) -> None:
    editor, environ = SlowEditor(), dict[str, str](TMPDIR=str(tmp_path))
    order = CommandOrder(line="make", argv=("make",), cwd=tmp_path, environ=environ, limit=OutputLimit())
    async with create_task_group() as tasks:
        terminals = EditorTerminals(cast("SessionChannel", editor), tasks)
        terminals.approve("call", "make")
        async with create_task_group() as work:
            work.start_soon(terminals.start, order)
            await editor.was_asked.wait()
            assert await anyio.Path(editor.asked[2]).exists()
            work.cancel_scope.cancel()
        assert not await anyio.Path(editor.asked[2]).exists()  # without it the command can't begin

        editor.answers.set()
        await editor.released.wait()

    assert editor.asked[-2:] == ["kill t1", "release t1"]
