from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import anyio
import pytest
from anyio import CancelScope, create_task_group, fail_after, to_thread

from tests.unit.core.tools.watching import alive, gone, pid_in
from vibe.shell.errors import CommandStartError
from vibe.shell.process.port import CommandOrder
from vibe.shell.process.runner import (
    CommandResult,
    OutputLimit,
    OutputPiece,
    OwnProcesses,
    RunningCommand,
    child_environ,
    run_command,
    shell_argv,
)

ENVIRON = {"PATH": os.environ["PATH"]}


def order_of(line: str, cwd: Path) -> CommandOrder:
    return CommandOrder(line=line, argv=tuple(shell_argv(line)), cwd=cwd, environ=ENVIRON)


async def test_the_exit_code_and_both_streams_come_back(tmp_path: Path) -> None:
    result = await run_command("echo out; echo err >&2; exit 3", cwd=tmp_path, environ=ENVIRON)
    assert (result.exit_code, result.stdout, result.stderr, result.timed_out) == (3, "out\n", "err\n", False)


async def test_an_argv_is_not_read_by_a_shell(tmp_path: Path) -> None:
    result = await run_command(["/bin/echo", "$HOME; ls", "a  b"], cwd=tmp_path, environ=ENVIRON)
    assert result.stdout == "$HOME; ls a  b\n"


async def test_a_signal_is_128_and_its_number(tmp_path: Path) -> None:
    result = await run_command("kill -SEGV $$", cwd=tmp_path, environ=ENVIRON)
    assert result.exit_code == 128 + signal.SIGSEGV


async def test_a_command_that_kills_its_parent_ends_itself_alone(tmp_path: Path) -> None:
    result = await run_command("echo out; kill -9 $PPID; sleep 600; echo never", cwd=tmp_path, environ=ENVIRON)

    assert (result.exit_code, result.stdout, result.stderr) == (137, "out\n", "")


async def test_a_starter_of_commands_that_is_stopped_does_not_stop_its_program(tmp_path: Path) -> None:
    environ = {**ENVIRON, "LARGE": "x" * 30_000}
    found = await run_command("cut -d' ' -f4 /proc/$PPID/stat", cwd=tmp_path, environ=ENVIRON)
    codes: list[int] = []

    async def run_one() -> None:
        result = await run_command("exit 3", cwd=tmp_path, environ=environ)
        codes.append(result.exit_code)

    async def let_it_go_on() -> None:
        os.kill(int(found.stdout), signal.SIGCONT)

    os.kill(int(found.stdout), signal.SIGSTOP)
    with fail_after(60):
        async with create_task_group() as group:
            for _ in range(30):
                group.start_soon(run_one)
            group.start_soon(let_it_go_on)

    assert codes == [3] * 30


async def test_a_command_that_kills_its_parent_harms_no_other(tmp_path: Path) -> None:
    codes: list[int] = []

    async def run(line: str) -> None:
        codes.append((await run_command(line, cwd=tmp_path, environ=ENVIRON)).exit_code)

    async with create_task_group() as group:
        group.start_soon(run, "until [ -e killed ]; do sleep 0.01; done; sleep 0.1; exit 3")
        group.start_soon(run, "sleep 0.1; touch killed; kill -9 $PPID; sleep 600")

    assert sorted(codes) == [3, 137]


@pytest.mark.parametrize(
    ("line", "problem"), [("echo a\0b", "a null character in the command; leave it out"), ("echo \ud800", "surrogates")]
)
async def test_what_no_command_can_be_is_refused_and_harms_no_other(line: str, problem: str, tmp_path: Path) -> None:
    running = await RunningCommand.start(order_of("sleep 0.2; exit 3", tmp_path))
    try:
        with pytest.raises(CommandStartError, match=problem):
            await run_command(line, cwd=tmp_path, environ=ENVIRON)
        while await running.next_output() is not None:
            pass
    finally:
        await running.stop()
    assert running.result().exit_code == 3


async def test_a_variable_that_cannot_be_is_refused_and_harms_no_other(tmp_path: Path) -> None:
    running = await RunningCommand.start(order_of("sleep 0.2; exit 3", tmp_path))
    try:
        await run_command(["/usr/bin/bwrap"], cwd=tmp_path, environ={**ENVIRON, "A=B": "C"})
    except CommandStartError:
        pass
    finally:
        while await running.next_output() is not None:
            pass
        await running.stop()
    assert running.result().exit_code == 3


async def test_a_command_leads_a_group_that_it_may_end(tmp_path: Path) -> None:
    result = await run_command("trap 'exit 4' TERM; (sleep 600) & kill -- -$$; wait", cwd=tmp_path, environ=ENVIRON)

    assert result.exit_code == 4


async def test_commands_at_once_have_one_watcher_that_goes_with_us(tmp_path: Path) -> None:
    script = (
        "import anyio, sys\nfrom pathlib import Path\nfrom vibe.shell.process.runner import run_command\n"
        "async def main():\n    async with anyio.create_task_group() as group:\n"
        "        for name in 'abc':\n"
        "            line = f'ps -o ppid= -p $PPID > {name}.new; mv {name}.new {name}; sleep 600'\n"
        "            group.start_soon(lambda l=line: run_command(l, cwd=Path(sys.argv[1]), environ={'PATH': sys.argv[2]}))\n"
        "anyio.run(main)\n"
    )
    async with await anyio.open_process([sys.executable, "-c", script, str(tmp_path), os.environ["PATH"]]) as ours:
        watchers = {await pid_in(tmp_path / name) for name in "abc"}
        ours.kill()

    assert len(watchers) == 1
    assert await gone(watchers.pop())


async def test_a_missing_program_is_127(tmp_path: Path) -> None:
    result = await run_command(["/no-such-program-here"], cwd=tmp_path, environ=ENVIRON)
    assert result.exit_code == 127
    assert "no-such-program-here" in result.stderr


@pytest.mark.parametrize(
    ("what", "line", "more"), [("command", ": " + "x" * 140_000, {}), ("environment", ":", {"A": "x" * 140_000})]
)
async def test_what_is_too_long_for_the_system_is_said_plainly(
    tmp_path: Path, what: str, line: str, more: dict[str, str]
) -> None:
    result = await run_command(line, cwd=tmp_path, environ={**ENVIRON, **more})
    assert result.exit_code == 127
    assert f"the {what} is too long for the system: put what is long (14000" in result.stderr


async def test_a_missing_folder_is_an_error_that_names_it(tmp_path: Path) -> None:
    with pytest.raises(CommandStartError, match="no-folder"):
        await run_command("true", cwd=tmp_path / "no-folder", environ=ENVIRON)


async def test_input_is_empty_and_there_is_no_terminal(tmp_path: Path) -> None:
    script = (
        "read -r line; echo read=$?; (: </dev/tty) 2>/dev/null && echo terminal || echo none; ls /proc/$$/fd | wc -l"
    )
    result = await run_command(script, cwd=tmp_path, environ=ENVIRON)
    assert result.stdout.split()[:2] == ["read=1", "none"]


async def test_the_command_can_not_reach_the_lifeline(tmp_path: Path) -> None:
    script = "import os; print(sorted(int(fd) for fd in os.listdir('/proc/self/fd')))"
    result = await run_command([sys.executable, "-c", script], cwd=tmp_path, environ=ENVIRON)
    assert result.stdout == "[0, 1, 2, 3]\n"  # 3 is the folder being listed


async def test_it_waits_for_no_child_of_its_own_but_the_commands(tmp_path: Path) -> None:
    script = "import os\ntry:\n    os.wait()\nexcept ChildProcessError:\n    print('childless')"
    result = await run_command([sys.executable, "-c", script], cwd=tmp_path, environ=ENVIRON)
    assert result.stdout == "childless\n"


async def test_a_background_child_delays_nothing_and_is_ended(tmp_path: Path) -> None:
    began = time.monotonic()
    result = await run_command("sleep 600 & echo $!", cwd=tmp_path, environ=ENVIRON)
    assert result.exit_code == 0
    assert time.monotonic() - began < 120
    assert await gone(int(result.stdout))


async def test_a_child_that_ignores_sigterm_and_holds_the_pipe_dies(tmp_path: Path) -> None:
    result = await run_command(
        "(trap '' TERM; echo $BASHPID; touch on; while :; do sleep 1; done) & until [ -e on ]; do sleep 0.02; done",
        cwd=tmp_path,
        environ=ENVIRON,
    )
    assert await gone(int(result.stdout))


async def test_a_child_in_a_process_group_of_its_own_dies(tmp_path: Path) -> None:
    result = await run_command("set -m; sleep 600 & echo $!", cwd=tmp_path, environ=ENVIRON)
    assert await gone(int(result.stdout))


async def test_a_child_that_leaves_the_session_does_not_hold_the_result(tmp_path: Path) -> None:
    began = time.monotonic()
    result = await run_command(
        "setsid sh -c 'echo $$ > pid; exec sleep 600' & until [ -s pid ]; do :; done; cat pid",
        cwd=tmp_path,
        environ=ENVIRON,
    )
    assert time.monotonic() - began < 120
    escaped = int(result.stdout)
    os.kill(escaped, signal.SIGKILL)


async def stopped(script: str, cwd: Path) -> CommandResult:
    """Run a command that is stopped after a second, or later if a busy machine has not printed anything by then."""
    for seconds in (1, 5, 25):
        result = await run_command(script, cwd=cwd, environ=ENVIRON, timeout=seconds)
        if result.stdout:
            return result
    raise AssertionError("it never said anything")


async def test_what_left_its_session_goes_too_where_daemons_end_with_their_command(tmp_path: Path) -> None:
    daemon = "trap '' TERM; echo $$ > daemon; sleep 600"
    line = f"env -i setsid sh -c {shlex.quote(daemon)} & sleep 600"
    running = await OwnProcesses(0.1, ("MARK", "1")).start(order_of(line, tmp_path))
    pid = await pid_in(tmp_path / "daemon")
    await running.stop()

    assert not alive(pid)


async def test_a_command_that_takes_too_long_is_stopped_with_what_it_printed(tmp_path: Path) -> None:
    result = await stopped("echo $$; sleep 600", tmp_path)
    assert result.timed_out
    assert await gone(int(result.stdout))


async def test_a_command_that_ignores_sigterm_is_killed(tmp_path: Path) -> None:
    result = await stopped("trap '' TERM; echo $$; while :; do sleep 1; done", tmp_path)
    assert result.timed_out
    assert result.exit_code == 128 + signal.SIGKILL
    assert await gone(int(result.stdout))


async def test_sigterm_lets_a_command_clean_up(tmp_path: Path) -> None:
    result = await stopped("trap 'echo cleaned; exit 9' TERM; while :; do sleep 0.05; done", tmp_path)
    assert result.stdout == "cleaned\n"
    assert result.exit_code == 9


async def test_cancellation_ends_the_whole_tree_before_it_goes_on(tmp_path: Path) -> None:
    pid_file = tmp_path / "pid"
    child = 0
    async with create_task_group() as tasks:

        async def run() -> None:
            await run_command(f"(sleep 600 & echo $! > {pid_file}; wait)", cwd=tmp_path, environ=ENVIRON)

        tasks.start_soon(run)
        child = await pid_in(pid_file)
        assert alive(child)
        tasks.cancel_scope.cancel()
    assert not alive(child)


async def test_a_command_whose_start_is_cancelled_is_ended_however_soon(tmp_path: Path) -> None:
    await run_command("true", cwd=tmp_path, environ=ENVIRON)
    for _ in range(30):
        with CancelScope() as scope:
            scope.cancel()
            await RunningCommand.start(order_of("exec sleep 600", tmp_path))
    await run_command("true", cwd=tmp_path, environ=ENVIRON)  # all of them had been started by then

    assert await to_thread.run_sync(are_gone, tmp_path)


def are_gone(folder: Path) -> bool:
    """Return True if no process works in a folder any more, after waiting up to 10 s."""
    deadline = time.monotonic() + 10
    while at_work_in(folder) and time.monotonic() < deadline:
        time.sleep(0.01)
    return not at_work_in(folder)


def at_work_in(folder: Path) -> list[str]:
    """Return the ids of the processes whose working folder it is."""
    found: list[str] = []
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if (process / "cwd").readlink() == folder:
                found.append(process.name)
    return found


async def test_when_the_caller_is_killed_the_command_dies_too(tmp_path: Path) -> None:
    pid_file = tmp_path / "pid"
    program = (
        "import anyio, os, pathlib, sys\n"
        "from vibe.shell.process.runner import run_command\n"
        "async def main():\n"
        "    await run_command(sys.argv[1], cwd=pathlib.Path(sys.argv[2]), environ=dict(os.environ))\n"
        "anyio.run(main)\n"
    )
    command = f"bash -c 'trap \"\" TERM; sleep 600 & echo $! > {pid_file}; wait'; echo never"
    root = Path(__file__).parents[4]
    caller = subprocess.Popen([sys.executable, "-c", program, command, str(tmp_path)], cwd=root)  # noqa: ASYNC220  a real process to kill
    try:
        child = await pid_in(pid_file)
        assert alive(child)
    finally:
        caller.kill()
        caller.wait()
    assert await gone(child)


async def test_fifty_megabytes_are_kept_as_head_tail_and_count(tmp_path: Path) -> None:
    script = "echo first; head -c 50000000 /dev/zero | tr '\\0' x | fold -w 99; echo; echo last"
    limit = OutputLimit(shown=1_000, keep_in=tmp_path / "out", name="call/../1")
    result = await run_command(script, cwd=tmp_path, environ=ENVIRON, limit=limit)
    assert result.stdout.startswith("first\nxxx")
    assert result.stdout.endswith("xxx\nlast\n")
    assert len(result.stdout) < 1_100
    (kept,) = result.output_files
    assert kept.parent == tmp_path / "out"
    whole = kept.stat().st_size
    assert whole == 50_000_000 + 50_000_000 // 99 + len("first\n\nlast\n")
    assert f"[... {result.stdout_dropped} bytes left out ...]" in result.stdout
    note = len(f"\n[... {result.stdout_dropped} bytes left out ...]\n")
    assert whole - result.stdout_dropped == pytest.approx(len(result.stdout) - note, abs=1)


async def test_what_is_kept_on_disk_is_bounded_too(tmp_path: Path) -> None:
    limit = OutputLimit(shown=1_000, keep_in=tmp_path, kept=200_000)
    result = await run_command("head -c 3000000 /dev/zero", cwd=tmp_path, environ=ENVIRON, limit=limit)
    (kept,) = [file.read_bytes() for file in result.output_files]
    assert kept[200_000:] == b"\n[... the rest was not kept ...]\n"
    assert not kept[:200_000].strip(b"\0")


async def test_output_that_fits_leaves_no_file(tmp_path: Path) -> None:
    limit = OutputLimit(shown=1_000, keep_in=tmp_path)
    result = await run_command("head -c 1000 /dev/zero", cwd=tmp_path, environ=ENVIRON, limit=limit)
    assert (result.output_files, result.stdout_dropped, len(result.stdout)) == ((), 0, 1_000)
    assert os.listdir(tmp_path) == []  # noqa: PTH208  nothing at all


async def test_a_cut_never_splits_a_character(tmp_path: Path) -> None:
    limit = OutputLimit(shown=1_001)
    result = await run_command("printf 'é%.0s' {1..5000}", cwd=tmp_path, environ=ENVIRON, limit=limit)
    assert "\ufffd" not in result.stdout
    assert result.stdout_dropped > 8_900


async def test_invalid_utf8_is_replaced(tmp_path: Path) -> None:
    result = await run_command(r"printf 'a\xff\xfeb'", cwd=tmp_path, environ=ENVIRON)
    assert result.stdout == "a\ufffd\ufffdb"


async def test_output_is_shown_while_it_runs_in_whole_lines(tmp_path: Path) -> None:
    shown: list[str] = []
    go = anyio.Path(tmp_path / "go")

    async def show(piece: OutputPiece) -> None:
        shown.append(str(piece))
        await go.touch()

    script = f"printf 'one\\ntw'; until [ -e {go} ]; do sleep 0.02; done; echo o; printf 'end'"
    with fail_after(120):
        result = await run_command(script, cwd=tmp_path, environ=ENVIRON, on_output=show)
    assert shown[0] == "one\n"
    assert "".join(shown) == result.stdout == "one\ntwo\nend"


async def test_a_flood_is_shown_as_its_end(tmp_path: Path) -> None:
    shown: list[str] = []

    async def show(piece: OutputPiece) -> None:
        shown.append(str(piece))

    await run_command("seq 1000000", cwd=tmp_path, environ=ENVIRON, on_output=show)
    assert shown[-1].endswith("\n1000000\n")
    assert sum(map(len, shown)) < 1_000_000


async def test_stopping_twice_is_harmless_and_ends_the_output(tmp_path: Path) -> None:
    running = await RunningCommand.start(order_of("sleep 600", tmp_path))
    await running.stop()
    await running.stop()
    assert await running.next_output() is None
    assert running.result().exit_code == 128 + signal.SIGTERM


async def test_many_commands_run_side_by_side_and_leak_no_descriptor(tmp_path: Path) -> None:
    await run_command("true", cwd=tmp_path, environ=ENVIRON)
    before = len(os.listdir("/proc/self/fd"))  # noqa: PTH208  a count
    async with create_task_group() as tasks:
        for number in range(10):

            async def run(number: int = number) -> None:
                result = await run_command(f"echo {number}; sleep 0.2", cwd=tmp_path, environ=ENVIRON)
                assert result.stdout == f"{number}\n"

            tasks.start_soon(run)
    assert len(os.listdir("/proc/self/fd")) <= before  # noqa: PTH208  a count


def test_secrets_stay_out_of_a_childs_environment() -> None:
    given = {
        "PATH": "/bin",
        "MISTRAL_API_KEY": "1",
        "gh_token": "2",
        "DB_PASSWORD_FILE": "3",
        "MY_SECRETS": "4",
        "CI": "no",
    }
    given |= dict.fromkeys(("API_KEY", "APIKEY", "STRIPE_KEY", "MYSQL_PWD", "AWS_CREDENTIAL_FILE"), "5") | {
        "OLDPWD": "/"
    }
    kept = child_environ(given)
    assert "OLDPWD" in kept
    assert not {"CDPATH", "RIPGREP_CONFIG_PATH"} & set(
        child_environ({"CDPATH": "..", "RIPGREP_CONFIG_PATH": "/home/me/rc"})
    )
    assert not {"API_KEY", "APIKEY", "STRIPE_KEY", "MYSQL_PWD", "AWS_CREDENTIAL_FILE"} & set(kept)
    assert kept["PATH"] == "/bin"
    assert kept["CI"] == "true"
    assert kept["PAGER"] == "cat"
    assert not {"MISTRAL_API_KEY", "gh_token", "DB_PASSWORD_FILE", "MY_SECRETS"} & set(kept)
