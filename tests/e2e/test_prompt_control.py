"""Commands that a run which answers a prompt accepts.

Covers ``vibe.app.conversation``.
"""

from __future__ import annotations

import json

import anyio

from ipc.commands import Cancel, Command, Pause, Ping, Reply
from ipc.control import send_command
from ipc.registry import Entry, Registry
from tests.e2e.conftest import VibeCommand
from tests.fakes.waiting import until


async def ask(entry: Entry, command: Command) -> Reply:
    with anyio.fail_after(60):
        return await send_command(entry, command)


def test_a_prompt_can_be_cancelled_and_nothing_else(vibe: VibeCommand) -> None:
    call = {"name": "bash", "arguments": {"command": "echo $$ > pid; touch started; sleep 600"}}
    vibe.replay({"agents": {"main": {"turns": [{"tool_calls": [call]}, {"text": "done"}]}}})
    run = vibe.start("--auto-approve", "--output", "json", "-p", "go")
    until(lambda: (vibe.workdir / "started").exists() or run.poll() is not None)
    [entry] = Registry(vibe.home).running()

    assert anyio.run(ask, entry, Ping()).data["pid"] == run.pid
    refused = anyio.run(ask, entry, Pause())
    assert (refused.ok, refused.reason) == (False, "refused")
    assert run.poll() is None
    assert anyio.run(ask, entry, Cancel()).ok
    out, err = run.communicate(timeout=120)

    record = json.loads(out)
    assert (run.returncode, record["outcome"], record["exit_code"]) == (130, "interrupted", 130), err
