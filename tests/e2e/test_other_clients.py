"""Clients written by others: the Inspector for the Model Context Protocol, and acpx for the Agent Client Protocol.

Covers ``vibe.mcp_server``, ``vibe.acp``.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from tests.architecture.project import ROOT
from tests.e2e.conftest import VIBE, Finished, VibeCommand, leftovers
from tests.e2e.mcp_scene import bash, tool
from tests.fakes.npm_peers import NODE, PACKAGES, install_peers

INSPECTOR = (NODE, str(PACKAGES / ".bin" / "inspector"), "--cli")
ACPX = (NODE, str(PACKAGES / ".bin" / "acpx"), "--agent", str(VIBE.with_name("vibe-acp")))
TOOL_FAILED = 5
EMOJI = "\N{GRINNING FACE}"


@pytest.fixture(autouse=True)
def peers(vibe: VibeCommand) -> None:
    """Install the clients, and put their home beside the test's workspace."""
    install_peers()
    vibe.environ["HOME"] = str(vibe.workdir.parent)


def script(vibe: VibeCommand, *turns: dict[str, Any]) -> None:
    vibe.replay({"agents": {"main": {"turns": list(turns)}}})


# --- the Inspector ---


@pytest.fixture
def address(vibe: VibeCommand) -> Iterator[list[str]]:
    """Run a server over HTTP, and yield the Inspector's arguments for it."""
    script(vibe)
    process = vibe.start("mcp", "serve", "--http", "0", "--auto-approve")
    assert process.stdout is not None
    url, header = (process.stdout.readline().decode().strip() for _ in range(2))
    yield [url, "--transport", "http", "--header", header]
    process.terminate()
    assert process.wait(60) == 143


def inspected(vibe: VibeCommand, server: list[str], *words: str) -> Finished:
    return vibe.run([*INSPECTOR, *server, *words])


def test_the_inspector_lists_the_tools_of_a_server_that_it_starts(vibe: VibeCommand) -> None:
    script(vibe)
    given = [word for name in ("VIBE_HOME", "PATH", "TMPDIR") for word in ("-e", f"{name}={vibe.variables()[name]}")]

    listed = inspected(vibe, [str(VIBE), "mcp", "serve", *given], "--method", "tools/list", "--strict")

    tools = {one["name"]: one for one in listed.document["tools"]}
    assert listed.code == 0, listed.err  # with a schema that other clients may not understand it would be 6
    assert tools["call_vibe"]["inputSchema"]["required"] == ["prompt", "cwd"]
    assert {"status", "detail", "response", "value", "metadata"} == tools["call_vibe"]["outputSchema"][
        "properties"
    ].keys()
    assert all(tool["outputSchema"]["required"] == ["status"] for tool in tools.values())


def test_the_inspector_calls_vibe(vibe: VibeCommand, address: list[str]) -> None:
    def called(*arguments: str) -> tuple[int, dict[str, Any]]:
        words = ("--method", "tools/call", "--tool-name", "call_vibe", "--tool-arg", "prompt=go", f"cwd={vibe.workdir}")
        ended = inspected(vibe, address, *words, *arguments)
        return ended.code, ended.document["structuredContent"]

    script(vibe, bash("touch ran"), {"text": EMOJI * 10})
    code, cut = called("max_response_chars=3")
    assert (code, cut["status"]) == (0, "completed")
    assert cut["response"] == f"{EMOJI * 3}...\n\n[TRUNCATED: Response was 10 chars, limit is 3]"
    assert (vibe.workdir / "ran").exists()

    script(vibe, tool("write_file", path="new.txt", content="hello"), {"text": "seen"})
    code, observed = called("mode=observe")
    assert (code, observed["response"]) == (0, "seen")
    assert [one["tool"] for one in observed["metadata"]["denied"]] == ["write_file"]
    assert not (vibe.workdir / "new.txt").exists()

    script(vibe, bash("exec sleep 600"), {"text": "never"})
    code, late = called("timeout_ms=700")
    assert (code, late["status"]) == (TOOL_FAILED, "timed_out")
    assert not [line for line in leftovers(vibe.workdir) if "sleep" in line]


# --- acpx ---


def acpx(vibe: VibeCommand, *words: str) -> subprocess.Popen[bytes]:
    """Start acpx, which prints every message of both sides."""
    argv = [*ACPX, "--cwd", str(vibe.workdir), "--format", "json", "--json-strict", *words, "exec", "go"]
    process = subprocess.Popen(
        argv,
        cwd=vibe.workdir,
        env=vibe.variables(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    vibe.running.append(process)
    return process


def updates(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [one["params"]["update"] for one in messages if one.get("method") == "session/update"]


def test_acpx_lets_an_edit_pass_and_refuses_a_command(vibe: VibeCommand) -> None:
    notes = vibe.workdir / "notes.txt"
    notes.write_text("first\nsecond\n")
    change = "<<<<<<< SEARCH\nsecond\n=======\nthird\n>>>>>>> REPLACE"
    script(
        vibe,
        tool("read_file", path="notes.txt"),
        tool("search_replace", file_path="notes.txt", content=change),
        bash("touch ran"),
        {"text": "done"},
    )
    policy = {"autoApprove": ["edit", "search_replace"], "autoDeny": ["execute"]}

    process = acpx(vibe, "--approve-all", "--permission-policy", json.dumps(policy))
    messages = [json.loads(line) for line in process.communicate(timeout=120)[0].split(b"\n") if line]

    asked = [one["params"]["toolCall"] for one in messages if one.get("method") == "session/request_permission"]
    calls = [one for one in updates(messages) if one["sessionUpdate"] == "tool_call_update" and "status" in one]
    assert [one["kind"] for one in asked] == ["edit", "execute"]
    assert [one["status"] for one in calls if one["status"] != "in_progress"] == ["completed", "completed", "failed"]
    assert {"fs/read_text_file", "fs/write_text_file"} <= {one.get("method") for one in messages}
    assert messages[-1]["result"]["stopReason"] == "end_turn"
    assert notes.read_text() == "first\nthird\n"
    assert not (vibe.workdir / "ran").exists()


def test_acpx_creates_new_files_in_two_sessions_of_one_folder_at_once(vibe: VibeCommand) -> None:
    script(
        vibe,
        bash("mktemp open-XXXXXX"),
        tool("write_file", path="made.txt", content="made\n", overwrite=True),
        {"text": "done"},
    )
    both = [acpx(vibe, "--approve-all") for _ in range(2)]
    ends = [process.communicate(timeout=120)[0].splitlines()[-1] for process in both]

    assert [json.loads(line)["result"]["stopReason"] for line in ends] == ["end_turn"] * 2
    assert len(list(vibe.workdir.glob("open-*"))) == 2
    assert (vibe.workdir / "made.txt").read_text() == "made\n"


def test_acpx_sees_the_prompts_of_mcp_servers_as_commands(vibe: VibeCommand) -> None:
    script(vibe, {"text": "slowly " * 400, "delay_seconds": 60, "chunk_size": 7})
    program = str(ROOT / "tests" / "fakes" / "mcp_server.py")
    config = vibe.home / "config.toml"
    server = f'[[mcp_servers]]\nname = "own"\ntransport = "stdio"\ncommand = [{json.dumps(sys.executable)}, '
    config.write_text(f'{config.read_text()}\n{server}{json.dumps(program)}, "stdio"]\n')

    process = acpx(vibe, "--approve-all")
    assert process.stdout is not None
    offered: list[str] = []
    while not any(name.startswith("own:") for name in offered):
        line = process.stdout.readline()
        assert line, f"it has ended, and offered {offered}"
        for one in updates([json.loads(line)]):
            if one["sessionUpdate"] == "available_commands_update":
                offered = [command["name"] for command in one["availableCommands"]]

    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)


def test_acpx_stops_a_turn(vibe: VibeCommand) -> None:
    script(vibe, {"text": "never " * 100, "delay_seconds": 60, "chunk_size": 6})
    process = acpx(vibe, "--approve-all")
    assert process.stdout is not None
    heard: list[dict[str, Any]] = []
    while not any(one["sessionUpdate"] == "agent_message_chunk" for one in updates(heard)):
        heard.append(json.loads(process.stdout.readline()))

    process.send_signal(signal.SIGINT)
    heard += [json.loads(line) for line in process.stdout]

    assert [one["method"] for one in heard if one.get("method") == "session/cancel"]
    assert heard[-1]["result"]["stopReason"] == "cancelled"
    process.wait(60)
    assert not [line for line in leftovers(vibe.workdir) if "vibe-acp" in line]


def test_acpx_makes_a_new_file(vibe: VibeCommand) -> None:
    script(vibe, tool("write_file", path="new.txt", content="hello\n"), {"text": "done"})
    process = acpx(vibe, "--approve-all")
    messages = [json.loads(line) for line in process.communicate(timeout=120)[0].split(b"\n") if line]

    assert (vibe.workdir / "new.txt").read_text() == "hello\n"
    assert [one for one in updates(messages) if one["sessionUpdate"] == "available_commands_update"]


def test_acpx_holds_two_sessions_in_one_folder(vibe: VibeCommand) -> None:
    def say(*words: str) -> str:
        argv = [*ACPX, "--cwd", str(vibe.workdir), "--approve-all", *words]
        ended = vibe.run(argv)
        assert ended.code == 0, ended.err
        return ended.out

    script(vibe, {"text": "one and only"})
    for name in ("left", "right"):
        say("sessions", "new", "--name", name)
    answers = [say("prompt", "-s", name, "go") for name in ("left", "right")]
    for name in ("left", "right"):
        say("sessions", "close", name)

    assert ["one and only" in answer for answer in answers] == [True, True]
