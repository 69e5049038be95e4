"""The handshake of an editor and its agent.

Covers ``vibe.acp``.
"""

from __future__ import annotations

import json
import subprocess
import time
from typing import Any

from tests.e2e.acp.acp_scene import VIBE_ACP, Scene
from tests.e2e.conftest import VibeCommand
from tests.fakes.waiting import until

EXECUTES = True  # what is loaded, and when, is what these are about


def test_initialize_is_answered_before_the_library_is_loaded(vibe: VibeCommand) -> None:
    started = time.monotonic()
    # Python tells on standard error what it has loaded, here in one order with the answers.
    process = subprocess.Popen(
        [str(VIBE_ACP)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env=vibe.variables() | {"PYTHONPROFILEIMPORTTIME": "1"},
        cwd=vibe.workdir,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    hello = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {"protocolVersion": 1}}
    process.stdin.write(b"no json\n" + json.dumps(hello).encode() + b"\n")
    process.stdin.flush()
    loaded: list[bytes] = []
    answers: list[Any] = []
    while len(answers) < 2:
        line = process.stdout.readline()
        if line.startswith(b"{"):
            answers.append(json.loads(line))
        else:
            loaded.append(line)
    refused, answer = answers
    took = time.monotonic() - started
    process.stdin.close()
    process.stdout.read()

    assert refused["error"]["code"] == -32700
    assert answer["result"]["agentInfo"]["name"] == "vibe"
    assert any(b"vibe.acp.server" in line for line in loaded)
    assert not any(b"pydantic_core" in line for line in loaded)
    assert took < 60
    assert process.wait(30) == 0
    process.stdout.close()


def test_initialize_tells_what_the_agent_can_do(scene: Scene) -> None:
    told = scene.editing.introduction

    assert told.protocol_version == 1
    assert told.agent_capabilities.load_session
    assert told.agent_capabilities.prompt_capabilities.image
    assert [method.id for method in told.auth_methods] == ["setup"]


def test_an_editor_that_leaves_while_a_server_starts_ends_the_agent_in_order(vibe: VibeCommand) -> None:
    vibe.replay({"agents": {"main": {"turns": [{"text": "one"}]}}})
    command = json.dumps(["/bin/sh", "-c", "read line; touch started; exec cat >/dev/null"])
    config = vibe.home / "config.toml"
    server = f'[[mcp_servers]]\nname = "slow"\ntransport = "stdio"\ncommand = {command}\n'
    config.write_text(f"{config.read_text()}{server}")
    requests: dict[str, Any] = {
        "initialize": {"protocolVersion": 1},
        "session/new": {"cwd": str(vibe.workdir), "mcpServers": []},
    }
    process = subprocess.Popen(
        [str(VIBE_ACP)],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        env=vibe.variables(),
        cwd=vibe.workdir,
    )
    assert process.stdin is not None
    for number, (method, params) in enumerate(requests.items()):
        message = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
        process.stdin.write(json.dumps(message).encode() + b"\n")
        process.stdin.flush()
    until((vibe.workdir / "started").exists)

    _, said = process.communicate(timeout=30)

    assert (process.returncode, said) == (0, b"")


def test_it_is_not_for_people() -> None:
    version = subprocess.run([str(VIBE_ACP), "--version"], capture_output=True, text=True, check=True)
    wrong = subprocess.run([str(VIBE_ACP), "--nonsense"], capture_output=True, text=True, check=False)

    assert version.stdout.startswith("vibe-acp ")
    assert (wrong.returncode, "--nonsense" in wrong.stderr) == (2, True)
