from __future__ import annotations

from pathlib import Path

import anyio
import pytest

from ipc.events import ToolStreamEvent
from ipc.sink import MemorySink
from tests.fakes.editor import Closed, ScriptedTerminals
from tests.fakes.engine import BUILTIN_TOOLS
from tests.fakes.tools import call
from tests.unit.core.tools.builtins.calling import PATH, Caller, make
from vibe.core.messages import ToolMessage
from vibe.core.tools.background import background_commands
from vibe.core.tools.base import InvokeContext
from vibe.core.tools.builtins.background import Background
from vibe.core.tools.builtins.bash import Bash
from vibe.core.tools.errors import ToolError
from vibe.core.tools.executor import ToolExecutor
from vibe.core.tools.gate import Approvals
from vibe.core.tools.permissions import ApprovalMode
from vibe.core.tools.workspace import Workspace
from vibe.shell.errors import CommandStartError

LOST = "the editor closed its terminal"


async def test_a_line_runs_in_a_terminal_and_its_output_is_shown_as_it_comes(tmp_path: Path) -> None:
    terminals = ScriptedTerminals(("one\n", "two\nthr", "ee", 3))
    environ = {"PATH": PATH, "HOME": "/h", "MISTRAL_API_KEY": "k"}
    caller, tool = Caller(root=tmp_path, commands=terminals, environ=environ), make(Bash)
    result = await caller.call(tool, command="make all", timeout=20)

    assert tool.format_result(result) == "one\ntwo\nthree\n[exit code 3]"
    assert caller.shown == ["one\n", "two\n", "three"]
    order = terminals.opened[0].order
    assert (order.line, order.argv[1:], order.timeout) == ("make all", ("-c", "make all"), 20)
    assert order.cwd == Workspace(root=tmp_path).root
    assert (order.environ["HOME"], order.environ["CI"], "MISTRAL_API_KEY" in order.environ) == ("/h", "true", False)
    assert terminals.opened[0].is_stopped


async def test_a_line_that_takes_too_long_is_stopped_in_its_terminal(tmp_path: Path) -> None:
    terminals = ScriptedTerminals(("so far\n",))
    with pytest.raises(ToolError, match=r"stopped after 7 s(.|\n)*so far"):
        await Caller(root=tmp_path, commands=terminals).call(make(Bash), command="make all", timeout=7)
    assert terminals.opened[0].is_stopped


async def test_a_call_that_is_cancelled_stops_its_terminal(tmp_path: Path) -> None:
    terminals = ScriptedTerminals(("so far\n", anyio.Event(), 0))
    caller = Caller(root=tmp_path, commands=terminals)
    async with anyio.create_task_group() as group:

        async def run() -> None:
            await caller.call(make(Bash), command="make all")
            pytest.fail("it came to its end")

        group.start_soon(run)
        while not terminals.opened:
            await anyio.lowlevel.checkpoint()
        await terminals.opened[0].waits.wait()
        group.cancel_scope.cancel()
    assert terminals.opened[0].is_stopped
    assert caller.shown == ["so far\n"]


async def test_a_terminal_that_dies_is_an_error_with_what_it_had_printed(tmp_path: Path) -> None:
    terminals = ScriptedTerminals(("so far\n", Closed(LOST)))
    with pytest.raises(ToolError, match=f"how the command ended: {LOST}; check what(.|\n)*so far"):
        await Caller(root=tmp_path, commands=terminals).call(make(Bash), command="make all")


async def test_without_a_terminal_nothing_runs(tmp_path: Path) -> None:
    caller = Caller(root=tmp_path, commands=ScriptedTerminals())
    with pytest.raises(CommandStartError, match="the editor has no terminal; go on without commands"):
        await caller.call(make(Bash), command="touch made")


async def test_long_output_is_cut_and_the_whole_is_kept_without_secrets(tmp_path: Path) -> None:
    lines = "".join(f"{number}\n" for number in range(30_000))
    terminals = ScriptedTerminals((lines, "the key is sk-something-long\n", 0))
    environ = {"PATH": PATH, "MISTRAL_API_KEY": "sk-something-long"}
    caller = Caller(root=tmp_path, commands=terminals, environ=environ, output_dir=tmp_path / "out")
    tool = make(Bash)
    text = tool.format_result(result := await caller.call(tool, command="make all"))

    assert len(text) < 17_000
    (kept,) = result.output_files
    assert f"[the whole output is in {kept}]" in text
    for said in (text, await anyio.Path(kept).read_text()):
        assert "sk-something" not in said
        assert "29999\nthe key is" in said


async def test_a_background_command_runs_on_in_its_terminal(tmp_path: Path) -> None:
    go = anyio.Event()
    terminals = ScriptedTerminals(("ready\n", go, "bye\n", 5))
    async with background_commands() as background:
        caller, look = Caller(root=tmp_path, commands=terminals, background=background), make(Background)
        assert "in the background as bg1" in (await caller.call(make(Bash), command="serve", background=True)).note
        first = await caller.call(look, handle="bg1", wait=60)
        go.set()
        text, last = "", first
        while last.exit_code is None:
            last = await caller.call(look, handle="bg1", wait=60)
            text += last.output

    assert terminals.opened[0].order.timeout is None
    assert (first.output, first.exit_code) == ("ready\n", None)
    assert (text, last.exit_code) == ("bye\n", 5)


@pytest.mark.parametrize("by_the_model", [True, False])
async def test_a_background_command_is_stopped_in_its_terminal(tmp_path: Path, *, by_the_model: bool) -> None:
    terminals = ScriptedTerminals(("ready\n",))
    async with background_commands() as background:
        caller, look = Caller(root=tmp_path, commands=terminals, background=background), make(Background)
        await caller.call(make(Bash), command="serve", background=True)
        await terminals.opened[0].waits.wait()
        if by_the_model:
            stopped = await caller.call(look, handle="bg1", stop=True)
            assert "ready\n[bg1: ended with exit code 143 after" in look.format_result(stopped)
    assert terminals.opened[0].is_stopped


async def test_a_background_command_whose_terminal_dies_is_said_to_be_lost(tmp_path: Path) -> None:
    terminals = ScriptedTerminals(("ready\n", Closed(LOST)))
    async with background_commands() as background:
        caller, look = Caller(root=tmp_path, commands=terminals, background=background), make(Background)
        await caller.call(make(Bash), command="serve", background=True)
        text = ""
        while LOST not in text:
            text += look.format_result(await caller.call(look, handle="bg1", wait=60))

    assert text.startswith("ready\n")
    assert f"[bg1: lost, {LOST}, after" in text
    assert "exit code" not in text


async def test_a_stateful_shell_says_that_a_terminal_keeps_nothing(tmp_path: Path) -> None:
    terminals = ScriptedTerminals(("", 0))
    result = await Caller(root=tmp_path, commands=terminals).call(make(Bash, stateful=True), command="cd src")

    assert terminals.opened[0].order.reports
    assert "the shell did not tell its folder and variables: they stay as they were" in result.note


async def test_only_what_was_let_run_gets_to_a_terminal(tmp_path: Path) -> None:
    terminals = ScriptedTerminals(("ok\n", 0))
    sink = MemorySink()
    executor = ToolExecutor(
        tools=BUILTIN_TOOLS.filtered(None),
        context=InvokeContext(workspace=Workspace(root=tmp_path), environ={"PATH": PATH}, commands=terminals),
        approvals=Approvals(ApprovalMode.ASK),
        sink=sink,
    )
    messages: list[ToolMessage] = []
    calls = [call(str(n), "bash", command=line) for n, line in enumerate(("touch made", "vim", "ls", "git status"))]
    await executor.run_all(calls, messages.append)

    assert [message.status for message in messages] == ["denied", "denied", "ok", "error"]
    assert [terminal.order.line for terminal in terminals.opened] == ["ls"]
    assert [event.text for event in sink.events if isinstance(event, ToolStreamEvent)] == ["ok\n"]
    assert "the editor has no terminal" in messages[3].content
