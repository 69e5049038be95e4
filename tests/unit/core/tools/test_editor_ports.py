"""Whatever serves files or commands to the tools behaves as the disk and our own processes do."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import anyio
import pytest

from tests.fakes.editor import EditorFiles, SystemTerminals
from tests.unit.core.tools.watching import gone, pid_in
from vibe.core.tools.errors import ToolError
from vibe.core.tools.files.text_files import DISK
from vibe.core.tools.ports import Files
from vibe.shell.errors import CommandStartError
from vibe.shell.process.capture import OutputLimit
from vibe.shell.process.port import CommandOrder, CommandResult, Commands
from vibe.shell.process.runner import PROCESSES


def editor_with_it_open(path: Path) -> EditorFiles:
    files = EditorFiles()
    if path.exists():
        files.buffers[path] = path.read_bytes().decode()
    return files


FILES: dict[str, Callable[[Path], Files]] = {
    "the disk": lambda _: DISK,
    "an editor": lambda _: EditorFiles(),
    "an editor that has it open": editor_with_it_open,
}
COMMANDS: dict[str, Commands] = {"our processes": PROCESSES, "terminals": SystemTerminals()}


def read(files: Files, path: Path) -> bytes:
    with files.read(path, path.name) as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(0)
        data = file.read(size + 1)
    assert len(data) == size
    return data


@pytest.mark.parametrize("files_of", FILES.values(), ids=FILES)
def test_a_file_is_read_replaced_and_saved(tmp_path: Path, files_of: Callable[[Path], Files]) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(b"one\r\ntwo")
    files = files_of(path)

    assert files.exists(path)
    assert read(files, path) == b"one\r\ntwo"
    files.replace(path, "a.txt", b"three\n", previous=b"one\r\ntwo")
    assert read(files, path) == path.read_bytes() == b"three\n"


@pytest.mark.parametrize("files_of", FILES.values(), ids=FILES)
def test_a_file_that_is_not_what_it_was_stays(tmp_path: Path, files_of: Callable[[Path], Files]) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(b"new")
    files = files_of(path)

    for previous in (b"old", b"newer", b"ne", b""):
        with pytest.raises(ToolError, match=r"'a.txt' has changed meanwhile"):
            files.replace(path, "a.txt", b"mine", previous=previous)
    with pytest.raises(ToolError, match=r"'a.txt' exists by now"):
        files.create(path, "a.txt", b"mine")
    assert read(files, path) == path.read_bytes() == b"new"


@pytest.mark.parametrize("files_of", FILES.values(), ids=FILES)
def test_a_file_that_is_missing_is_made_with_its_folder(tmp_path: Path, files_of: Callable[[Path], Files]) -> None:
    path = tmp_path / "new" / "a.txt"
    files = files_of(path)

    assert not files.exists(path)
    for use in (lambda: read(files, path), lambda: files.replace(path, "new/a.txt", b"b", previous=b"a")):
        with pytest.raises(ToolError, match="does not exist"):
            use()
    files.create(path, "new/a.txt", b"a")
    assert read(files, path) == path.read_bytes() == b"a"


def order(root: Path, line: str, *, timeout: float | None = None) -> CommandOrder:
    limit = OutputLimit(shown=1_000, keep_in=root / "outputs", name="it")
    argv, environ = ("/bin/bash", "-c", line), {"PATH": os.environ["PATH"]}
    return CommandOrder(line=line, argv=argv, cwd=root, environ=environ, timeout=timeout, limit=limit)


async def ended(commands: Commands, wanted: CommandOrder) -> tuple[CommandResult, str]:
    """Run a command, and return its result and the output shown on the way."""
    running = await commands.start(wanted)
    shown = ""
    try:
        while (pieces := await running.next_output()) is not None:
            shown += "".join(map(str, pieces))
    finally:
        await running.stop()
    await running.stop()
    assert await running.next_output() is None
    return running.result(), shown


@pytest.mark.parametrize("commands", COMMANDS.values(), ids=COMMANDS)
async def test_a_command_runs_where_and_with_what_it_is_told(tmp_path: Path, commands: Commands) -> None:
    result, shown = await ended(commands, order(tmp_path, "pwd; echo ${HOME-none}; exit 3"))

    assert (result.exit_code, result.timed_out, result.lost, result.is_success) == (3, False, "", False)
    assert result.stdout == shown == f"{tmp_path}\nnone\n"


@pytest.mark.parametrize("commands", COMMANDS.values(), ids=COMMANDS)
async def test_a_signal_is_told_as_a_shell_tells_it(tmp_path: Path, commands: Commands) -> None:
    result, _ = await ended(commands, order(tmp_path, "kill -SEGV $$"))
    assert result.exit_code == 139


@pytest.mark.parametrize("commands", COMMANDS.values(), ids=COMMANDS)
async def test_what_takes_too_long_is_ended(tmp_path: Path, commands: Commands) -> None:
    result, _ = await ended(commands, order(tmp_path, "sleep 300; touch never", timeout=0.2))

    assert (result.timed_out, result.is_success) == (True, False)
    assert not await anyio.Path(tmp_path / "never").exists()


@pytest.mark.parametrize("commands", COMMANDS.values(), ids=COMMANDS)
async def test_what_is_stopped_is_ended_though_the_caller_is_cancelled(tmp_path: Path, commands: Commands) -> None:
    running = await commands.start(order(tmp_path, "echo $$ > pid; exec sleep 300"))
    pid = await pid_in(tmp_path / "pid")
    with anyio.CancelScope() as scope:
        scope.cancel()
        await running.stop()
    assert await gone(pid)
    assert running.result().exit_code > 128


@pytest.mark.parametrize("commands", COMMANDS.values(), ids=COMMANDS)
async def test_long_output_is_kept_whole(tmp_path: Path, commands: Commands) -> None:
    result, _ = await ended(commands, order(tmp_path, "seq 1 20000"))

    assert len(result.stdout) < 2_000
    assert result.stdout_dropped > 100_000
    (kept,) = result.output_files
    assert await anyio.Path(kept).read_text() == "".join(f"{number}\n" for number in range(1, 20_001))


@pytest.mark.parametrize("commands", COMMANDS.values(), ids=COMMANDS)
async def test_no_command_starts_in_a_folder_that_is_gone(tmp_path: Path, commands: Commands) -> None:
    with pytest.raises(CommandStartError, match="can't start a command in"):
        await commands.start(order(tmp_path / "gone", "true"))
