"""Messages on the pipes between editor and agent.

Covers ``vibe.acp``.
"""

from __future__ import annotations

import json
import subprocess
from typing import Any

from tests.e2e.acp.acp_scene import VIBE_ACP, tool
from tests.e2e.conftest import VibeCommand

NOISY = """
from vibe.core.tools.base import BaseTool, BaseToolConfig
from typing import ClassVar
import atexit, ctypes, os, subprocess, sys, warnings

print("noise as it is loaded", end="")

class Noisy(BaseTool[BaseToolConfig]):
    "Prints."
    description: ClassVar[str] = "Prints."

    async def run(self, count: int) -> str:
        print("noise on standard output")
        sys.__stdout__.write("more noise" * count)
        sys.stderr.write("more than a pipe holds" * count)
        os.write(1, b"and more")
        subprocess.run(["echo", "noise of a child"])
        ctypes.CDLL(None).printf(b"what a library prints at the very end")
        atexit.register(print, "last words", flush=True)
        warnings.warn("a warning")
        return "printed"
"""


def test_every_message_is_logged_where_that_is_wanted(vibe: VibeCommand) -> None:
    vibe.environ["VIBE_ACP_LOGGING_ENABLED"] = "1"
    line = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": 1}})
    vibe.run([str(VIBE_ACP)], stdin=f"{line}\n")
    log = (vibe.home / "logs" / "vibe.log").read_text()
    assert "received" in log
    assert "sent" in log
    assert "agentCapabilities" in log


def test_nothing_but_the_protocol_is_on_standard_output(vibe: VibeCommand) -> None:
    tools = vibe.home / "tools"
    tools.mkdir(parents=True)
    (tools / "noisy.py").write_text(NOISY)
    vibe.replay({"agents": {"main": {"turns": [tool("noisy", count=10_000), {"text": "done"}]}}})
    vibe.configure("auto_approve = true\n" + (vibe.home / "config.toml").read_text())
    pipe = subprocess.PIPE  # standard error is not read
    process = subprocess.Popen(
        [str(VIBE_ACP)], stdin=pipe, stdout=pipe, stderr=pipe, env=vibe.variables(), cwd=vibe.workdir
    )
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stderr is not None
    answers: dict[int, Any] = {}
    heard: list[Any] = []

    def ask(number: int, method: str, **params: Any) -> Any:
        assert process.stdin is not None
        assert process.stdout is not None
        message = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
        process.stdin.write(json.dumps(message).encode() + b"\n")
        process.stdin.flush()
        while number not in answers:
            heard.append(json.loads(process.stdout.readline()))
            answers.update({one["id"]: one["result"] for one in heard if "method" not in one})
        return answers[number]

    ask(0, "initialize", protocolVersion=1)
    session = ask(1, "session/new", cwd=str(vibe.workdir), mcpServers=[])["sessionId"]
    ended = ask(2, "session/prompt", sessionId=session, prompt=[{"type": "text", "text": "go"}])
    process.stdin.close()
    rest = process.stdout.read()
    process.wait(30)
    process.stdout.close()
    process.stderr.close()

    results = [one["params"]["update"] for one in heard if one.get("method") == "session/update"]
    assert ended["stopReason"] == "end_turn"
    assert [one["status"] for one in results if one["sessionUpdate"] == "tool_call_update"] == ["completed"]
    assert rest == b""


def test_an_editor_may_begin_again_and_leave_out_what_it_has_none_of(vibe: VibeCommand) -> None:
    odd: list[Any] = [None, [], "all", {"fs": []}, {"terminal": "yes"}]
    begun = [("initialize", {"protocolVersion": 1, "clientCapabilities": one}) for one in ({"terminal": True}, *odd)]
    here = {"cwd": str(vibe.workdir)}
    asked = [*begun, ("session/new", here), ("session/new", here | {"mcpServers": None})]
    lines = [
        json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": params})
        for number, (method, params) in enumerate(asked)
    ]
    vibe.replay({"agents": {}})

    pipe = subprocess.PIPE
    with subprocess.Popen(
        [str(VIBE_ACP)], stdin=pipe, stdout=pipe, env=vibe.variables(), cwd=vibe.workdir, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write("\n".join([*lines, ""]))
        process.stdin.flush()
        answers: dict[int, Any] = {}
        while len(answers) < len(asked):
            said = json.loads(process.stdout.readline())
            answers |= {} if "method" in said else {said["id"]: said.get("result", said)}
        process.stdin.close()

    opened = len(begun)
    assert all(answers[number]["protocolVersion"] == 1 for number in range(opened))
    assert all("sessionId" in answers[number] for number in range(opened, len(asked)))
