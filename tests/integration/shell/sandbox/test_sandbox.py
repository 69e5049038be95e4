from __future__ import annotations

import os
import shutil
import socket
from pathlib import Path

import pytest

from tests.integration.shell.sandbox.cell import Cell
from vibe.shell.sandbox.confinement import Confinement
from vibe.shell.sandbox.records import records_of
from vibe.shell.sandbox.settings import Network, SandboxConfig, SandboxMode
from vibe.system.errors import EnvironmentFailure


def _at_home(cell: Cell) -> list[Path]:
    """Return everything in the home except vibe's own records."""
    home = cell.base / "home"
    return sorted(path for path in home.rglob("*") if path != records_of(home / ".vibe"))


async def test_the_workspace_and_temporary_files_can_be_written(cell: Cell) -> None:
    ended = await cell.run(
        'echo hi > a && mkdir -p b/c && echo t > "$TMPDIR/t" && cat a "$TMPDIR/t" && f=$(mktemp) && echo x > $f'
    )
    assert (ended.exit_code, ended.stdout) == (0, "hi\nt\n")
    assert (cell.root / "a").read_text() == "hi\n"


@pytest.mark.parametrize(
    "line",
    ["touch ../outside", "echo x > ../home/.bashrc", "rm -rf ../home", "ln ../home/.gitconfig hard", "mkdir ../d"],
)
async def test_nothing_else_can_be_and_the_setting_is_named(cell: Cell, line: str) -> None:
    before = _at_home(cell)
    ended = await cell.run(line)
    assert ended.exit_code != 0
    assert _at_home(cell) == before
    assert not (cell.base / "outside").exists()
    assert "may have refused" in ended.stderr
    assert "[sandbox] writable" in ended.stderr


async def test_secrets_can_not_be_read(cell: Cell) -> None:
    ended = await cell.run(
        "cat ~/.ssh/* ~/.netrc ~/.npmrc ~/.vibe/* ~/.config/gcloud/*; env; cat /proc/[0-9]*/environ | tr '\\0' '\\n' | grep ^MISTRAL; "
        "cat ~/.gitconfig"
    )
    assert "SECRET" not in ended.stdout
    assert "name = me" in ended.stdout


async def test_any_number_of_files_may_lie_beside_a_secret(cell: Cell) -> None:
    for number in range(1_500):
        (cell.base / "home" / f"{number}-{'x' * 200}").touch()

    result = await cell.run("cat ../home/.gitconfig; cat ../home/.netrc")

    assert "name = me" in result.stdout, result.stderr
    assert "SECRET" not in result.stdout


async def test_variables_that_lead_to_agents_are_gone(cell: Cell) -> None:
    ended = await cell.run("env")
    assert not {"SSH_AUTH_SOCK", "MISTRAL_API_KEY"} & {line.split("=")[0] for line in ended.stdout.splitlines()}


async def test_a_readable_setting_shows_one_secret_and_no_other(cell: Cell) -> None:
    cell.configure(SandboxConfig(readable=(str(cell.base / "home" / ".npmrc"),)))
    ended = await cell.run("cat ~/.npmrc; cat ~/.netrc")
    assert ended.stdout.count("SECRET") == 1


async def test_a_writable_setting_opens_one_folder(cell: Cell) -> None:
    (cell.base / "shared").mkdir()
    cell.configure(SandboxConfig(writable=(str(cell.base / "shared"),)))
    assert (await cell.run("touch ../shared/x")).exit_code == 0
    assert (await cell.run("touch ../y")).exit_code != 0


async def test_no_server_of_the_machine_is_reached(cell: Cell) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        script = f"import socket; socket.create_connection(('127.0.0.1', {port}), 2)"
        assert (await cell.run(f'python3 -c "{script}"')).exit_code != 0
        cell.configure(SandboxConfig(network=Network.ON))
        assert (await cell.run(f'python3 -c "{script}"')).exit_code == 0


async def test_a_place_may_have_a_network_of_its_own_choice(cell: Cell) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        line = f"echo > /dev/tcp/127.0.0.1/{server.getsockname()[1]}"
        assert (await cell.run(line, network=Network.ON)).exit_code == 0
        cell.configure(SandboxConfig(network=Network.ON))
        assert (await cell.run(line, network=Network.LOOPBACK)).exit_code != 0
        assert (await cell.run(line)).exit_code == 0


async def test_a_socket_of_an_agent_is_out_of_reach(cell: Cell) -> None:
    path = str(cell.base / "home" / "agent.sock")
    with socket.socket(socket.AF_UNIX) as agent:
        agent.bind(path)
        agent.listen()
        script = f"import socket; socket.socket(socket.AF_UNIX).connect({path!r})"
        assert (await cell.run(f'python3 -c "{script}"')).exit_code != 0


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("DBUS_SESSION_BUS_ADDRESS", "unix:path={},guid=0c6f4edb5709a741"),
        ("DBUS_SESSION_BUS_ADDRESS", "unix:abstract=/x,guid=0;unix:path={}"),
        ("TMUX", "{},4711,0"),
        ("DOCKER_HOST", "unix://{}"),
        ("VSCODE_GIT_IPC_HANDLE", "{}"),
    ],
)
async def test_a_socket_that_a_variable_names_is_out_of_reach(cell: Cell, variable: str, value: str) -> None:
    path = str(cell.base / "bus")  # beside the workspace, which is usually below /tmp
    with socket.socket(socket.AF_UNIX) as bus:
        bus.bind(path)
        bus.listen()
        cell.environ[variable] = value.format(path)
        cell.configure(cell.settings)
        script = f"import socket; socket.socket(socket.AF_UNIX).connect({path!r})"
        assert (await cell.run(f'python3 -c "{script}"')).exit_code != 0


async def test_the_network_is_refused_with_a_note(cell: Cell) -> None:
    ended = await cell.run("python3 -c \"import urllib.request; urllib.request.urlopen('http://example.invalid/')\"")
    assert ended.exit_code != 0
    assert '[sandbox] network = "on"' in ended.stderr


async def test_the_outputs_of_earlier_commands_are_readable_and_no_more(cell: Cell) -> None:
    outputs = cell.base / "home" / ".vibe" / "logs" / "outputs"
    outputs.mkdir(parents=True)
    (outputs / "one.txt").write_text("kept")
    cell.outputs = outputs
    ended = await cell.run("cat ~/.vibe/logs/outputs/one.txt; touch ~/.vibe/logs/outputs/two; cat ~/.vibe/config.toml")
    assert ended.stdout == "kept"
    assert not (outputs / "two").exists()


async def test_processes_of_others_can_not_be_signalled(cell: Cell) -> None:
    ended = await cell.run(f"kill -0 {os.getpid()}")
    assert ended.exit_code != 0


async def test_exit_codes_and_signals_come_through(cell: Cell) -> None:
    assert (await cell.run("exit 7")).exit_code == 7
    assert (await cell.run("kill -KILL $$")).exit_code == 137


async def test_a_timeout_leaves_nothing_behind(cell: Cell) -> None:
    mark = f"98{os.getpid()}.{len(cell.backend)}"
    ended = await cell.run(f"echo started; sleep {mark} & sleep {mark}", seconds=1)
    assert ended.timed_out
    assert _running(mark.encode()) == []


def _running(mark: bytes) -> list[Path]:
    return [path for path in Path("/proc").glob("[0-9]*/cmdline") if mark in _read(path)]


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""


def test_where_none_works_required_says_so_and_auto_goes_on(tmp_path: Path) -> None:
    auto = Confinement(SandboxConfig(), {}, tmp_path, backends=[])
    assert auto.choice().sandbox is None
    required = Confinement(SandboxConfig(mode=SandboxMode.REQUIRED), {}, tmp_path, backends=[])
    with pytest.raises(EnvironmentFailure, match="no sandbox works here"):
        required.choice()
    assert Confinement(SandboxConfig(mode=SandboxMode.OFF), {}, tmp_path).choice().sandbox is None


async def test_what_is_stopped_may_clean_up(cell: Cell) -> None:
    ended = await cell.run(
        "trap 'echo cleaned > mark; exit 3' TERM; echo on > mark; while :; do sleep 0.1; done", seconds=1
    )
    assert ended.timed_out
    assert (cell.root / "mark").read_text() == "cleaned\n"


@pytest.mark.parametrize("line", ["setsid {0} &", "setsid -f {0};", "(setsid setsid -f env -i {0} &);"])
async def test_a_session_of_its_own_outlives_nothing(cell: Cell, line: str) -> None:
    mark = f"97{os.getpid()}.{len(cell.backend)}"
    sleeper = f"{shutil.which('sleep')} {mark}"
    ended = await cell.run(f"{line.format(sleeper)} until pgrep -f '^{sleeper}'; do :; done")
    assert ended.exit_code == 0
    assert _running(mark.encode()) == []


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
async def test_root_does_not_write_the_files_of_another_and_is_told_what_to_do(cell: Cell) -> None:
    for path in (cell.root / "theirs", cell.root / "secret"):
        path.write_text("theirs")
        path.chmod(0o600 if path.name == "secret" else 0o644)
        os.chown(path, 12345, 12345)
    os.chown(cell.root, 12345, 12345)
    ended = await cell.run("echo mine > theirs || cat secret || chown 0 theirs || touch new")
    assert ended.exit_code
    assert "setpriv --reuid=12345" in ended.stderr
    assert (cell.root / "theirs").read_text() == "theirs"
    assert [path.name for path in cell.root.iterdir() if path.name == "new"] == []
