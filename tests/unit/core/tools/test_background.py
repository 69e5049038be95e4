from __future__ import annotations

import os
from pathlib import Path

import anyio
import anyio.lowlevel
import pytest

from ipc.events import BackgroundEndedEvent, BackgroundStartedEvent
from ipc.sink import MemorySink
from tests.unit.core.tools.watching import gone, pid_in
from vibe.core.tools.background import MOST_AT_ONCE, BackgroundCommands, background_commands
from vibe.core.tools.errors import ToolError
from vibe.shell.process.port import CommandOrder
from vibe.shell.process.runner import OutputLimit, RunningCommand, shell_argv

ENVIRON = {"PATH": os.environ["PATH"]}
WAIT = "echo $$ > pid; sleep 300; :"
"""The shell does not become ``sleep``. A SIGTERM during a process's exec would end it as SIGKILL does."""


def order_of(line: str, cwd: Path, limit: OutputLimit = OutputLimit()) -> CommandOrder:  # noqa: B008  frozen
    return CommandOrder(line=line, argv=tuple(shell_argv(line)), cwd=cwd, environ=ENVIRON, limit=limit)


async def nothing() -> str:
    return ""


async def start(commands: BackgroundCommands, root: Path, line: str) -> str:
    limit = OutputLimit(shown=2_000, keep_in=root / "outputs", name="background")
    return commands.adopt(await RunningCommand.start(order_of(line, root, limit)), line, nothing)


async def ended(commands: BackgroundCommands, handle: str) -> tuple[int, str]:
    """Wait for a background command to end, and return its exit code and its output."""
    text = ""
    while True:
        report = await commands.report(handle, wait_seconds=120)
        text += report.output
        if report.exit_code is not None:
            return report.exit_code, text


async def test_it_runs_on_while_others_work_and_tells_what_is_new(tmp_path: Path) -> None:
    async with background_commands() as commands:
        handle = await start(commands, tmp_path, "echo one; until [ -e go ]; do sleep 0.05; done; echo two; exit 3")
        first = await commands.report(handle, wait_seconds=120)
        assert (first.exit_code, first.output) == (None, "one\n")
        assert (await commands.report(handle)).output == ""
        (tmp_path / "go").touch()
        assert await ended(commands, handle) == (3, "two\n")


@pytest.mark.parametrize("prompt", ["Go on? [y/N] ", "Password:"])
async def test_a_prompt_is_told_while_the_command_waits_after_it(tmp_path: Path, prompt: str) -> None:
    async with background_commands() as commands:
        handle = await start(commands, tmp_path, f"printf '{prompt}'; until [ -e go ]; do sleep 0.05; done; echo yes")
        assert (await commands.report(handle, wait_seconds=120)).output.strip() == prompt.strip()
        (tmp_path / "go").touch()
        assert await ended(commands, handle) == (0, "yes\n")


async def test_what_still_runs_at_the_end_is_ended_with_all_it_started(tmp_path: Path) -> None:
    async with background_commands() as commands:
        await start(commands, tmp_path, "sh -c 'echo $$ > pid; exec sleep 300' & wait")
        pid = await pid_in(tmp_path / "pid")

    assert await gone(pid)


async def test_a_cancelled_agent_leaves_nothing_behind(tmp_path: Path) -> None:
    pid = 0
    with anyio.CancelScope() as scope:
        async with background_commands() as commands:
            await start(commands, tmp_path, "echo $$ > pid; exec sleep 300")
            pid = await pid_in(tmp_path / "pid")
            scope.cancel()
            await anyio.sleep_forever()

    assert pid
    assert await gone(pid)


async def test_one_can_be_stopped_and_asked_about_afterwards(tmp_path: Path) -> None:
    async with background_commands() as commands:
        handle = await start(commands, tmp_path, WAIT)
        pid = await pid_in(tmp_path / "pid")
        stopped = await commands.stop(handle)
        assert (stopped.exit_code, await gone(pid)) == (143, True)
        assert (await commands.stop(handle)).exit_code == 143
        assert (await commands.report(handle, wait_seconds=120)).exit_code == 143


async def test_long_output_keeps_its_end_here_and_the_whole_in_a_file(tmp_path: Path) -> None:
    async with background_commands() as commands:
        handle = await start(commands, tmp_path, "seq 1 20000")
        code, text = await ended(commands, handle)
        report = await commands.report(handle)

    assert code == 0
    assert text.endswith("20000\n")
    assert len(text) < 60_000
    assert report.output_files[0].read_text() == "".join(f"{number}\n" for number in range(1, 20_001))


async def test_there_is_a_limit_and_unknown_handles_name_the_known(tmp_path: Path) -> None:
    async with background_commands() as commands:
        for _ in range(MOST_AT_ONCE):
            commands.check_room()
            await start(commands, tmp_path, "exec sleep 300")
        with pytest.raises(ToolError, match="stop one of bg1, bg2"):
            commands.check_room()
        with pytest.raises(ToolError, match="no background command 'bg99'; there are: bg1"):
            await commands.report("bg99")


@pytest.mark.parametrize("line", ["echo one", "echo one; sleep 300"])
async def test_what_has_to_be_done_once_a_command_has_ended_is_done_and_told(tmp_path: Path, line: str) -> None:
    done: list[bool] = []

    async def after() -> str:
        with anyio.CancelScope(shield=True):
            await anyio.lowlevel.checkpoint()
        done.append(running.result().exit_code == 0)
        return "[put aside]"

    async with background_commands() as commands:
        running = await RunningCommand.start(order_of(line, tmp_path))
        handle = commands.adopt(running, line, after)
        if "sleep" not in line:
            assert await ended(commands, handle) == (0, "one\n[put aside]")
    assert done == ["sleep" not in line]


async def test_what_a_command_left_running_is_told_when_it_has_ended(tmp_path: Path) -> None:
    async with background_commands() as commands:
        handle = await start(
            commands, tmp_path, "sleep 300 & until ps -o comm= -p $! | grep -q sleep; do :; done; echo started"
        )
        code, text = await ended(commands, handle)
    assert (code, text) == (0, "started\n[1 process left running was stopped when the command ended: sleep]")


async def test_start_and_end_are_announced_without_secrets(tmp_path: Path) -> None:
    sink = MemorySink()
    async with background_commands() as commands:
        commands.announce(sink, lambda text: text.replace("hunter2", "[redacted]"))
        running = await RunningCommand.start(order_of("echo hunter2; exit 3", tmp_path))
        handle = commands.adopt(running, "echo hunter2; exit 3", nothing, tool_call_id="c")
        assert await ended(commands, handle) == (3, "hunter2\n")
        stopped = await start(commands, tmp_path, WAIT)
        await pid_in(tmp_path / "pid")
        await commands.stop(stopped)
        (tmp_path / "pid").unlink()
        await start(commands, tmp_path, WAIT)
        await pid_in(tmp_path / "pid")

    first, *_ = begun = [event for event in sink.events if isinstance(event, BackgroundStartedEvent)]
    assert (first.handle, first.command, first.tool_call_id) == (handle, "echo [redacted]; exit 3", "c")
    over = [event for event in sink.events if isinstance(event, BackgroundEndedEvent)]
    assert [event.handle for event in over] == [event.handle for event in begun] == ["bg1", "bg2", "bg3"]
    assert [(event.status, event.exit_code) for event in over] == [("exited", 3), ("stopped", 143), ("stopped", 143)]
    assert over[0].output == "[redacted]\n"
    assert over[0].duration_s > 0
