"""A stateful shell in each sandbox: what it keeps, and what stays inside."""

from __future__ import annotations

from typing import Any

from anyio import to_thread
from msgspec.structs import replace

from tests.integration.shell.sandbox.cell import Cell
from tests.unit.core.tools.builtins.calling import Caller, make
from vibe.core.tools.base import InvokeContext, ToolStreamLine
from vibe.core.tools.builtins.bash import Bash


def show_nothing(event: ToolStreamLine) -> None:
    """Ignore the output."""


class Shell:
    """Calls bash with one agent's shell."""

    def __init__(self, cell: Cell) -> None:
        self.tool: Any = make(Bash, stateful=True)
        self.context: InvokeContext = replace(
            Caller(root=cell.root, environ=cell.environ).context(), confinement=cell.confinement
        )

    async def call(self, line: str, *, read_only: bool = False, **arguments: Any) -> Any:
        args = self.tool.parse({"command": line, **arguments})
        return await self.tool.execute(args, replace(self.context, read_only=read_only), show_nothing)


async def test_it_is_kept_in_the_sandbox_whose_own_variables_are_not(cell: Cell) -> None:
    await to_thread.run_sync((cell.root / "src").mkdir)
    shell = Shell(cell)
    first = await shell.call("cd src; export COLOUR=red TMPDIR=/elsewhere UV_CACHE_DIR=/there")
    assert "not kept for later calls: TMPDIR, UV_CACHE_DIR" in first.note
    after = await shell.call('echo "$PWD $COLOUR"; test "$TMPDIR" != /elsewhere')
    assert (after.stdout, after.returncode) == (f"{cell.root}/src red\n", 0)
    assert dict(shell.tool.state.shell.variables) == {"COLOUR": "red"}


async def test_outside_the_sandbox_nothing_is_heeded_that_was_set_inside(cell: Cell) -> None:
    await to_thread.run_sync((cell.root / "src").mkdir)
    shell = Shell(cell)
    await shell.call("cd src; export COLOUR=red PATH=$PWD:$PATH")
    outside = await shell.call(
        'echo "$PWD ${COLOUR-none}"; case $PATH in $PWD:*) echo led;; esac; cd ..', unconfined=True
    )
    assert outside.stdout == f"{cell.root}/src none\n"
    assert shell.tool.state.shell.folder == "src"


async def test_what_only_reads_tells_too(cell: Cell) -> None:
    if not await to_thread.run_sync(cell.confinement.can_read_only):
        assert cell.backend == "landlock"
        return
    await to_thread.run_sync((cell.root / "src").mkdir)
    shell = Shell(cell)
    await shell.call("export hue=red")
    await shell.call("cd src", read_only=True)
    after = await shell.call('echo "$PWD $hue"', read_only=True)
    assert after.stdout == f"{cell.root}/src red\n"
    assert dict(shell.tool.state.shell.variables) == {"hue": "red"}
