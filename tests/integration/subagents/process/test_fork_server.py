"""A fork server and what it forks, in a program of their own: to fork the tests' process would not be safe."""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

PROGRAM = """
import json, os, signal, socket
import anyio
from vibe.system.process import die_with

def main(arguments):
    link, server = socket.socket(fileno=int(arguments[0])), int(arguments[1])
    die_with(server)
    own = {"pid": os.getpid(), "leader": os.getsid(0), "server": server, "parent": os.getppid()}
    link.sendall(json.dumps({**own, "environ": dict(os.environ)}).encode())
    print("printed", flush=True)
    return int(link.recv(10))

async def ask(server, **environ):
    ours, theirs = socket.socketpair()
    links.append(ours)
    with theirs:
        process = await ask_for_fork(server, environ, written, [theirs.fileno()])
    return process, ours, json.loads(ours.recv(100_000)) if process else {}

if __name__ == "__main__":
    from subagents.process.fork_server import ask_for_fork, start_fork_server
    links = []
    server = start_fork_server("program")
    read, written = os.pipe()

    async def work():
        with anyio.fail_after(60):
SCENE

    print(json.dumps(anyio.run(work)))
"""


def shown(tmp_path: Path, scene: str) -> Any:
    """Return what the program shows of a scene."""
    program = tmp_path / "program.py"
    program.write_text(PROGRAM.replace("SCENE", textwrap.indent(textwrap.dedent(scene), " " * 12)))
    ended = subprocess.run([sys.executable, program], capture_output=True, text=True, check=True, timeout=90)
    return json.loads(ended.stdout)


def test_a_forked_process_has_a_session_an_environment_an_output_and_a_link(tmp_path: Path) -> None:
    scene = """
    process, link, own = await ask(server, ODD="a=b\\nc", BYTES="\\udcff")
    before = process.returncode
    link.sendall(b"3")
    await process.wait()
    return {**own, "known": process.pid, "codes": [before, process.returncode], "output": os.read(read, 100).decode()}
    """

    own = shown(tmp_path, scene)

    assert own["environ"] == {"ODD": "a=b\nc", "BYTES": "\udcff"}
    assert (own["pid"], own["leader"], own["server"]) == (own["known"], own["known"], own["parent"])
    assert (own["codes"], own["output"]) == ([None, 0], "printed\n")


def test_a_process_that_is_killed_is_noticed_and_others_are_forked_after_it(tmp_path: Path) -> None:
    scene = """
    first, _, _ = await ask(server, A="b")
    second, _, _ = await ask(server, A="b")
    os.killpg(first.pid, signal.SIGKILL)
    await first.wait()
    third, _, _ = await ask(server, A="b")
    return [first.returncode, second.returncode, third.returncode]
    """

    assert shown(tmp_path, scene) == [0, None, None]


def test_without_the_server_or_with_too_large_an_environment_nothing_is_forked(tmp_path: Path) -> None:
    scene = """
    large, _, _ = await ask(server, LARGE="x" * 1_000_000)
    running, _, own = await ask(server, A="b")
    os.kill(own["server"], signal.SIGKILL)
    await running.wait()
    gone, _, _ = await ask(server, A="b")
    return [large is None, running.pid == own["pid"], gone is None]
    """

    assert shown(tmp_path, scene) == [True, True, True]


def test_a_server_that_is_stuck_stops_nobody_who_asks_and_forks_later_what_it_was_asked_for(tmp_path: Path) -> None:
    scene = """
    first, link, own = await ask(server, A="b")
    os.kill(own["server"], signal.SIGSTOP)
    forked = []

    async def one():
        forked.append(await ask_for_fork(server, {"LARGE": "x" * 50_000}, written, [link.fileno()]))

    async def go_on():
        os.kill(own["server"], signal.SIGCONT)

    async with anyio.create_task_group() as group:
        for _ in range(50):
            group.start_soon(one)
        group.start_soon(go_on)
    return [len(forked), any(forked), all(forked)]
    """

    assert shown(tmp_path, scene) == [50, True, False]


def test_a_server_that_nobody_can_ask_any_more_ends_and_what_it_forked_stays(tmp_path: Path) -> None:
    scene = """
    process, link, own = await ask(server, A="b")
    server.close()
    _, status = await anyio.to_thread.run_sync(os.waitpid, own["server"], 0)
    return os.WIFEXITED(status)
    """

    assert shown(tmp_path, scene) is True
