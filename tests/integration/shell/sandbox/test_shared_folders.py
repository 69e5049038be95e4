"""Folders that programs share, such as /tmp: only what was granted is visible there, and no socket answers."""

from __future__ import annotations

import shlex
import shutil
import socket
import tempfile
import venv
from collections.abc import Iterator
from pathlib import Path

import pytest
from anyio import to_thread

from tests.integration.shell.sandbox.cell import Cell
from tests.integration.shell.sandbox.lab import tried
from tests.integration.shell.sandbox.plain import run_plain
from vibe.shell.sandbox.settings import Network, SandboxConfig

CONNECT = (
    "import socket, sys\n"
    "for path in sys.argv[1:]:\n"
    " for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):\n"
    "  try: socket.socket(socket.AF_UNIX, kind).connect(path.replace('@', '\\0')); print('REACHED', path)\n"
    "  except OSError: pass"
)


def connecting(*paths: object) -> str:
    return f"python3 -I -c {shlex.quote(CONNECT)} {shlex.join(map(str, paths))}"


@pytest.fixture(params=["/tmp", "/var/tmp", "/dev/shm"])  # noqa: S108  shared on purpose
def shared(request: pytest.FixtureRequest) -> Iterator[Path]:
    """Make the user a folder in each shared one, with a private file and a socket that listens."""
    try:
        folder = Path(tempfile.mkdtemp(prefix="vibe-test-", dir=request.param))
    except OSError as error:
        pytest.skip(str(error))
    (folder / "private").write_text("SECRET")
    (folder / "private").chmod(0o600)
    (folder / "granted").mkdir()
    with socket.socket(socket.AF_UNIX) as agent:
        agent.bind(str(folder / "agent"))
        agent.listen()
        yield folder
    shutil.rmtree(folder)


@pytest.mark.parametrize("how", ["workspace", "writable", "readable", "nothing"])
async def test_what_lies_beside_a_granted_place_is_out_of_reach(cell: Cell, shared: Path, how: str) -> None:
    if how == "workspace":
        cell.folder = shared / "granted"
    elif how != "nothing":
        cell.configure(SandboxConfig.model_validate({how: [str(shared / "granted")]}))
    if cell.backend == "landlock" and shared.parent.name == "shm":
        pytest.skip("there shared memory is shared")
    (shared / "granted" / "given").write_text("given")

    ended = await cell.run(f"cat {shared}/private; cat {shared}/granted/given; {connecting(shared / 'agent')}")

    assert ended.stdout == ("given" if how != "nothing" else ""), ended.stderr
    assert (await cell.run(f"echo x > {shared}/new")).exit_code != 0
    wrote = await cell.run(f"echo x > {shared}/granted/new")
    assert (wrote.exit_code == 0) is (how in {"workspace", "writable"})


async def test_the_read_only_sandbox_sees_the_workspace_alone(bubblewrap: Cell, shared: Path) -> None:
    bubblewrap.folder = shared / "granted"
    (shared / "granted" / "given").write_text("given")
    ended = await bubblewrap.run(f"cat given {shared}/private; {connecting(shared / 'agent')}", read_only=True)
    assert ended.stdout == "given"


async def test_a_private_tmp_can_be_written_though_the_workspace_lies_in_tmp(bubblewrap: Cell) -> None:
    name = f"vibe-{bubblewrap.base.name}"
    ended = await bubblewrap.run(f"cd /tmp && echo x > {name} && cat {name} && touch {bubblewrap.base}/beside")
    assert ended.stdout == "x\n"
    assert "Read-only file system" in ended.stderr
    assert await to_thread.run_sync(lambda: [*Path(tempfile.gettempdir()).glob(name)]) == []


async def test_a_worktree_in_tmp_comes_with_its_repository_and_no_more(cell: Cell) -> None:
    main = cell.base / "main"
    main.mkdir()
    cell.root.rmdir()
    (cell.base / "other").write_text("SECRET")
    run_plain("git init -q . && git commit -q --allow-empty -m one && git worktree add -q ../work", main, cell.environ)
    ended = await cell.run(f"git log --format=%s; echo t > $TMPDIR/t; cat $TMPDIR/t {cell.base}/other")
    assert ended.stdout == "one\nt\n"


async def test_a_socket_is_reached_neither_in_the_home_nor_by_a_name_without_a_file(cell: Cell) -> None:
    with socket.socket(socket.AF_UNIX) as agent, socket.socket(socket.AF_UNIX) as nameless:
        agent.bind(str(cell.base / "home" / "s"))
        nameless.bind(f"\0vibe-{cell.base.name}-{cell.backend}")
        agent.listen()
        nameless.listen()
        line = connecting(cell.base / "home" / "s", f"@vibe-{cell.base.name}-{cell.backend}")
        for network in (Network.LOOPBACK, Network.ON):
            ended = await cell.run(line, network=network)
            assert (ended.exit_code, ended.stdout) == (0, "")


OWN = (
    "import socket, os, tempfile\n"
    "for folder in (os.environ['TMPDIR'], '/tmp', '.'):\n"
    " path = os.path.join(folder, 'own'); s = socket.socket(socket.AF_UNIX); s.bind(path); s.listen()\n"
    " socket.socket(socket.AF_UNIX).connect(path); print('own')"
)


async def test_a_setting_lets_programs_use_sockets_of_their_own_and_not_those_of_others(cell: Cell) -> None:
    refused = await cell.run(f"python3 -I -c {shlex.quote(OWN)}")
    assert refused.exit_code != 0
    if cell.backend == "landlock":
        return
    assert "[sandbox] unix_sockets" in refused.stderr
    cell.configure(SandboxConfig(unix_sockets=True))
    assert (await cell.run(f"python3 -I -c {shlex.quote(OWN)}")).stdout == "own\n" * 3
    with socket.socket(socket.AF_UNIX) as agent:
        agent.bind(str(cell.base / "home" / "s"))
        agent.listen()
        assert (await cell.run(connecting(cell.base / "home" / "s"))).stdout == ""


ELSEWHERE = (
    "import os, socket, time\n"
    "for path in ('/mnt/opt/s', '/mnt/home/s'):\n os.makedirs(os.path.dirname(path), exist_ok=True)\n"
    " s = socket.socket(socket.AF_UNIX); s.bind(path); s.listen(); os.dup(s.fileno())\n"
    "if os.fork(): os._exit(0)\n"
    "os.setsid(); os.close(1); os.close(2)\n"
    "time.sleep(1.5); s = socket.socket(socket.AF_UNIX); s.bind('/mnt/opt/later'); s.listen(); time.sleep(600)"
)


@pytest.mark.parametrize("backend", ["bubblewrap", "landlock"])
def test_sockets_of_another_network_and_ones_made_meanwhile_do_not_answer(backend: str) -> None:
    before = f"touch /mnt/mounted; unshare -n python3 -I -c {shlex.quote(ELSEWHERE)} </dev/null; mount --bind /mnt/opt/s /mnt/mounted"
    paths = ("/mnt/opt/s", "/mnt/home/s", "/mnt/mounted")
    wait = f"until [ -e /mnt/opt/later ]; do sleep 0.1; done; {connecting('/mnt/opt/later')}; echo tried"
    result = tried(backend, "root", [connecting(*paths), f"timeout 20 bash -c {shlex.quote(wait)}"], before=before)
    assert result.outputs == ["", "tried\n"]


async def test_a_command_does_not_choose_what_stands_where_a_later_one_sees_nothing(cell: Cell) -> None:
    await cell.run("cd $TMPDIR && rm -rf .empty cache && ln -s ~/.netrc .empty && ln -s ~/.ssh cache")
    (cell.base / "home" / ".ssh" / "id_ed25519").write_text("SECRET")
    ended = await cell.run("cat ~/.npmrc ~/.netrc ~/.ssh/* $TMPDIR/.empty $TMPDIR/cache/*")
    assert "SECRET" not in ended.stdout


async def test_what_is_hidden_is_not_named_by_the_processes_of_the_sandbox(cell: Cell) -> None:
    line = "for f in /proc/[0-9]*/cmdline; do tr '\\0' ' ' < $f; done; ls $TMPDIR/.. 2>/dev/null; cat $TMPDIR/../*/* 2>/dev/null"
    ended = await cell.run(line)
    assert ".netr" not in ended.stdout.replace(line, "")
    assert "gcloud" not in ended.stdout


async def test_a_virtual_environment_in_a_shared_folder_runs_and_shows_nothing_beside_it(
    cell: Cell, shared: Path
) -> None:
    if cell.backend == "landlock" and shared.parent.name == "shm":
        pytest.skip("there shared memory is shared")
    own = shared / "venv"
    await to_thread.run_sync(lambda: venv.create(own))
    cell.environ["PATH"] = f"{own}/bin:{cell.environ['PATH']}"

    ended = await cell.run(f"python -c 'import sys; print(sys.prefix)'; cat {shared}/private; echo > {own}/new")

    assert ended.stdout == f"{own}\n", ended.stderr
    assert not (own / "new").exists()


async def test_a_link_that_a_command_laid_in_a_folder_of_programs_shows_nothing(cell: Cell, shared: Path) -> None:
    if cell.backend == "landlock" and shared.parent.name == "shm":
        pytest.skip("there shared memory is shared")
    cell.environ["PATH"] = f"{cell.root}/bin:{cell.root}/own/bin:{cell.environ['PATH']}"
    (cell.root / "own").symlink_to(shared)
    (shared / "bin").mkdir()
    (shared / "pyvenv.cfg").touch()

    assert (await cell.run(f"ln -s {shared} bin")).exit_code == 0
    cell.configure(cell.settings)  # as the next run would be

    assert "SECRET" not in (await cell.run(f"cat {shared}/private bin/private own/private")).stdout
