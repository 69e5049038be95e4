"""``vibe dashboard --web`` as a process: its address, its answers about real plans, and its end.

Covers ``vibe.dashboard``, ``vibe.cli``.
"""

from __future__ import annotations

import json
import resource
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Generator
from contextlib import ExitStack, contextmanager, suppress
from itertools import count
from pathlib import Path
from typing import Any

import httpx
import pytest
from anyio import to_thread
from anyio.from_thread import start_blocking_portal
from msgspec import structs

from tests.architecture.project import ROOT
from tests.e2e.conftest import VIBE, VibeCommand
from tests.fakes.runs import ASKED, running
from tests.fakes.waiting import until
from tests.integration.core.session.repository import repository

GUIDE = ROOT / "docs" / "guide" / "dashboards.md"
CART = "def total(items):\n    return sum(items)\n"
TURNS = [
    {"tool_calls": [{"name": "bash", "arguments": {"command": "sed -i s/sum/max/ cart.py; echo new > made.txt"}}]},
    {"tool_calls": [{"name": "bash", "arguments": {"command": "echo again > made.txt"}}]},
    {"text": "done"},
]


@contextmanager
def dashboard(vibe: VibeCommand, *words: str) -> Generator[tuple[dict[str, Any], httpx.Client]]:
    """Serve a page, and yield its output with a client that has its token."""
    process = vibe.start("dashboard", "--web", "--output", "json", *words)
    assert process.stdout is not None
    said = json.loads(process.stdout.readline())
    assert said["pid"] == process.pid
    headers = {"authorization": f"Bearer {said['token']}"}
    with httpx.Client(base_url=said["url"].partition("#")[0], headers=headers, timeout=60) as client:
        yield said, client
    began = time.monotonic()
    process.send_signal(signal.SIGTERM)
    assert process.wait(10) == 0
    assert time.monotonic() - began < 2
    assert process.communicate()[1] == b""


def prepare(vibe: VibeCommand, write_plan: Any, workspace: str) -> str:
    vibe.workdir.rmdir()
    repository(vibe.workdir, {"cart.py": CART})
    vibe.replay({"agents": {"fix": {"turns": TURNS}}})
    return write_plan({"id": "fix", "title": "Fix it", "mode": "code", "workspace": workspace})


def waiting(client: httpx.Client) -> dict[str, Any]:
    return client.get("/api/runs").json()["requests"]


@pytest.mark.parametrize("workspace", ["shared", "worktree"])
def test_a_plan_is_answered_by_the_page_and_its_changes_are_shown(
    vibe: VibeCommand, write_plan: Any, workspace: str
) -> None:
    plan = prepare(vibe, write_plan, workspace)
    process = vibe.start("plan", "run", plan, "--wait", "--allow-dirty")
    with dashboard(vibe, "--control", "--name", "Ana") as (said, client):
        for count in (1, 2):
            until(lambda: waiting(client))
            ((request_id, request),) = waiting(client).items()
            run, diff = request["run"], f"/api/runs/{request['run']}/steps/fix/diff"
            assert (request["step"], request["tool"]) == ("fix", "bash")
            assert client.get(diff).status_code == 200
            if count == 2 and workspace == "worktree":  # while it runs, its own folder is compared
                files = {file["path"]: file for file in client.get(diff).json()["files"]}
                assert {name: file["status"] for name, file in files.items()} == {
                    "cart.py": "modified",
                    "made.txt": "added",
                }
                assert files["made.txt"]["hunks"][0]["lines"] == [["+", "new"]]
            view = {"authorization": f"Bearer {said['view_url'].partition('#')[2]}"}
            refused = client.post(f"/api/requests/{request_id}", json={"allow": True}, headers=view)
            assert refused.json()["error"] == "control"
            assert client.post(f"/api/requests/{request_id}", json={"allow": True}).status_code == 200
            until(lambda last=request_id: last not in waiting(client))
        assert process.wait(60) == 0
        until(lambda: client.get(f"/api/runs/{run}").json()["head"]["status"] == "completed")
        shown = client.get(f"/api/runs/{run}").json()
        assert [one["by"] for one in shown["answered"].values()] == ["Ana", "Ana"]
        files = {file["path"]: file for file in client.get(diff).json()["files"]}
        assert (files["cart.py"]["added"], files["cart.py"]["removed"]) == (1, 1)
        assert files["made.txt"]["hunks"][0]["lines"][0] == ["+", "again"]
        report = client.get(f"/api/runs/{run}/report")
        assert "Fix it" in report.text
        assert report.headers["content-security-policy"].startswith("sandbox; default-src 'none'")
        assert client.get("/api/runs/nothing/report").status_code == 404
        assert client.get(f"/api/runs/{run}/steps/nothing/diff").status_code == 404
        for kind in ("[]", "{}", '"shutdown"'):
            body = f'{{"type": {kind}}}'
            headers = {"content-type": "application/json"}
            refused = client.post(f"/api/runs/{run}/commands", content=body, headers=headers)
            assert (refused.status_code, refused.json()["error"]) == (400, "invalid")


def test_the_page_opens_at_the_run_that_is_meant(vibe: VibeCommand, write_plan: Any) -> None:
    for _ in range(2):
        vibe("plan", "run", write_plan({"id": "a", "title": "A", "mode": "run", "command": "true"}))
    first, second = vibe.plan_ids()

    for name, key in ((first[:6], first), (second, second), ("latest", second), ("gone", "gone")):
        with dashboard(vibe, name) as (said, _):
            assert f"/?run={key}#" in said["url"]


def test_facts_missing_from_a_plan_of_which_only_its_folder_is_left_are_told(
    vibe: VibeCommand, write_plan: Any
) -> None:
    vibe("plan", "run", write_plan(*({"id": each, "title": each, "mode": "run", "command": "true"} for each in "ab")))
    [plan_id] = vibe.plan_ids()
    shutil.rmtree(vibe.home / "run")
    journal = vibe.home / "plans" / plan_id / "journal.jsonl"
    lines = journal.read_bytes().splitlines(keepends=True)
    journal.write_bytes(b"".join([*lines[:2], *lines[3:]]))

    with dashboard(vibe) as (_, client):
        head = client.get(f"/api/runs/{plan_id}").json()["head"]
    assert "fact 4 is where fact 3 belongs" in head["problem"]
    assert head["status"] == "completed"


def test_it_ends_in_time_though_a_page_never_reads(vibe: VibeCommand) -> None:
    with dashboard(vibe) as (said, client), socket.create_connection(("127.0.0.1", client.base_url.port or 0)) as deaf:
        deaf.sendall(
            f"GET /api/stream HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {said['token']}\r\n\r\n".encode()
        )
        assert deaf.recv(12) == b"HTTP/1.1 200"


def test_pages_that_come_all_at_once_are_all_answered(vibe: VibeCommand) -> None:
    with dashboard(vibe) as (said, client), ExitStack() as held:
        place = client.base_url.host, client.base_url.port
        pages = [held.enter_context(socket.create_connection(place, timeout=60)) for _ in range(60)]
        for page in pages:
            page.sendall(
                f"GET /api/stream HTTP/1.1\r\nHost: {place[0]}:{place[1]}\r\n"
                f"Authorization: Bearer {said['token']}\r\n\r\n".encode()
            )

        assert {page.recv(12) for page in pages} == {b"HTTP/1.1 200"}


def test_connections_that_ask_nothing_keep_nobody_out(vibe: VibeCommand) -> None:
    with dashboard(vibe) as (said, client), ExitStack() as held:
        resource.prlimit(said["pid"], resource.RLIMIT_NOFILE, (256, 256))
        place = client.base_url.host, client.base_url.port
        for _ in range(600):
            silent = held.enter_context(socket.create_connection(place, timeout=60))
            with suppress(ConnectionError):  # it is one of too many already
                silent.sendall(b"GET / HTTP/1.1\r\nHost: 127")

        assert client.get("/").status_code == client.get("/api/runs").status_code == 200


def test_a_port_that_is_taken_says_by_whom(vibe: VibeCommand) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        refused = vibe("dashboard", "--web", "--port", str(port))
    assert refused.code == 3
    assert f"127.0.0.1:{port} can't be listened on (Address already in use" in refused.err
    if sys.platform == "linux":
        assert "process" in refused.err


@pytest.mark.parametrize("words", [["a-run"], ["--port", "8080"], ["--control"], ["--allow-host", "a"], ["--open"]])
def test_what_goes_with_the_page_alone_says_so(vibe: VibeCommand, words: list[str]) -> None:
    refused = vibe("dashboard", *words)
    assert refused.code == 2
    assert "add it" in refused.err


@pytest.mark.parametrize(
    "words", [["--follow"], ["--plain"], ["--allow-host", "http://laptop"], ["--allow-host", "laptop:80"]]
)
def test_what_a_page_can_not_be_served_with_says_so(vibe: VibeCommand, words: list[str]) -> None:
    refused = vibe("dashboard", "--web", *words)
    assert refused.code == 2
    assert words[-1] in refused.err


def test_a_list_is_printed_once_or_followed(vibe: VibeCommand) -> None:
    refused = vibe("dashboard", "--follow", "--plain")
    assert refused.code == 2
    assert "--plain" in refused.err
    assert "--follow" in refused.err


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no full disk to write to")
def test_an_address_that_can_not_be_told_is_no_success(vibe: VibeCommand) -> None:
    with Path("/dev/full").open("wb") as full:
        words = [VIBE, "dashboard", "--web"]
        process = subprocess.run(words, stdout=full, stderr=-1, env=vibe.variables(), timeout=60, check=False)
    assert process.returncode == 3
    assert process.stderr.decode().startswith("vibe: standard output can't be written")


def example(language: str, beginning: str) -> str:
    """Return a program of the guide."""
    blocks = GUIDE.read_text(encoding="utf-8").split(f"```{language}\n")[1:]
    return next(block.partition("```")[0] for block in blocks if block.startswith(beginning))


def test_a_program_hears_what_changes_and_another_answers(vibe: VibeCommand, write_plan: Any, tmp_path: Path) -> None:
    node = shutil.which("node")
    plan = prepare(vibe, write_plan, "shared")
    process = vibe.start("plan", "run", plan, "--wait", "--allow-dirty")
    with dashboard(vibe, "--control") as (said, client):
        where = [said["url"].replace("/#", "/?run=other#"), said["token"]]
        until(lambda: waiting(client))
        if node is not None:
            board = [node, _written(tmp_path / "board.mjs", example("js", "// board.mjs")), *where]
            with subprocess.Popen(board, stdout=subprocess.PIPE, text=True, env=vibe.variables()) as program:
                assert program.stdout is not None
                assert program.stdout.readline().split()[0] in client.get("/api/runs").json()["runs"]
                program.kill()
        allow = [sys.executable, _written(tmp_path / "allow.py", example("python", "# allow.py")), *where]
        for _ in range(2):
            until(lambda: waiting(client))
            known = waiting(client).keys()
            ended = subprocess.run(allow, env=vibe.variables(), capture_output=True, text=True, timeout=60, check=False)
            assert ended.stdout.splitlines()[-1].startswith("200 "), ended.stderr
            until(lambda before=known: waiting(client).keys().isdisjoint(before))
        assert process.wait(60) == 0


def test_a_program_hears_what_waits_without_a_dashboard(vibe: VibeCommand, tmp_path: Path) -> None:
    program = _written(tmp_path / "waits.py", example("python", "# waits.py"))
    vibe.home.mkdir()
    with start_blocking_portal() as portal, portal.wrap_async_context_manager(running(vibe.home)) as run:
        words = [sys.executable, program]
        with subprocess.Popen(words, stdout=subprocess.PIPE, text=True, env=vibe.variables(), cwd=ROOT) as listening:
            assert listening.stdout is not None
            heard = portal.start_task_soon(to_thread.run_sync, listening.stdout.readline)
            numbers = count()

            def asks() -> bool:
                asked = structs.replace(ASKED, request_id=f"request-{next(numbers)}")
                portal.call(run.says, asked)
                return heard.done()

            until(asks)
            listening.kill()
        assert heard.result() == "one approval.requested|plan-1|-\n"


def _written(path: Path, text: str) -> str:
    path.write_text(text, encoding="utf-8")
    return str(path)
