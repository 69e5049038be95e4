from __future__ import annotations

from pathlib import Path

import anyio
import pytest

from tests.fakes.editor import ScriptedTerminals, SystemTerminals
from tests.integration.shell.sandbox.cell import Cell
from vibe.core.tools.base import InvokeContext
from vibe.core.tools.builtins.bash import Bash, BashArgs, BashConfig, BashResult, BashState
from vibe.core.tools.workspace import ReadTracker, Workspace
from vibe.shell.errors import CommandStartError
from vibe.shell.process.port import Commands
from vibe.shell.sandbox.records import records_of


async def run(cell: Cell, commands: Commands, line: str) -> BashResult:
    tool = Bash(BashConfig(), BashState())
    context = InvokeContext(
        tool_call_id="1",
        workspace=Workspace(root=cell.root),
        reads=ReadTracker(),
        environ=cell.environ,
        confinement=cell.confinement,
        commands=commands,
    )
    results = [item async for item in tool.run(BashArgs(command=line), context) if isinstance(item, BashResult)]
    return results[0]


async def test_what_runs_in_a_terminal_is_confined(cell: Cell) -> None:
    line = f"tty -s && echo on a terminal; echo made > here; echo no > {cell.base}/outside; cat ~/.netrc; env; exit 3"
    result = await run(cell, SystemTerminals(), line)

    assert result.returncode == 3
    assert result.stdout.startswith("on a terminal\n")
    assert "MISTRAL_API_KEY" not in result.stdout
    assert "SECRET" not in result.stdout
    assert "the sandbox" in result.note
    assert await anyio.Path(cell.root / "here").read_text() == "made\n"
    assert not await anyio.Path(cell.base / "outside").exists()


async def test_a_terminal_that_can_not_be_had_leaves_nothing_behind(cell: Cell) -> None:
    def there() -> set[Path]:
        return {*cell.root.rglob("*"), *records_of(cell.confinement.vibe_home).glob("*")}

    with pytest.raises(CommandStartError) as refused:
        await run(cell, ScriptedTerminals(), "true")
    assert await anyio.to_thread.run_sync(there) == set()
    assert repr(str(cell.root)) in str(refused.value)
