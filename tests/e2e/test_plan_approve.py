"""Approvals that a run waits for, given from another terminal.

Covers ``vibe.app.plan``, ``ipc``.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable

import pytest

from tests.e2e.conftest import VibeCommand
from tests.fakes.terminal import Terminal
from tests.fakes.waiting import until

WritePlan = Callable[..., str]

STEP = {"id": "w", "title": "Write", "mode": "code", "prompt": "Go."}
CALL = {"name": "bash", "arguments": {"command": "touch made"}}


@pytest.fixture
def plan(vibe: VibeCommand, write_plan: WritePlan) -> str:
    """Write a plan whose agent wants to run a command that needs approval."""
    vibe.replay({"agents": {"w": {"turns": [{"tool_calls": [CALL]}, {"text": "done"}]}}})
    return write_plan(STEP)


def asked(process: subprocess.Popen[bytes]) -> str:
    """Return the command that answers the request, as the run prints it."""
    assert process.stdout is not None
    for line in process.stdout:
        match = re.search(rb"answer with: vibe (plan approve \S+ \S+) \[--deny\]", line)
        if match:
            return match.group(1).decode()
    raise AssertionError("it never asked")


@pytest.mark.parametrize("executor", ["local", "process"])
def test_a_run_that_waits_is_answered_from_another_terminal(vibe: VibeCommand, plan: str, executor: str) -> None:
    process = vibe.start("plan", "run", plan, "--wait", "--executor", executor)
    command = asked(process).split()

    assert "open: " in vibe("plan", "approve", command[2], "ffffffff").err
    said = vibe(*command)
    again = vibe(*command)

    assert (said.code, said.out) == (0, f"plan {command[2]}: allowed\n")
    assert process.wait(timeout=120) == 0
    assert again.code in (0, 2)  # the run may be over by then
    assert (vibe.workdir / "made").exists()


def test_a_no_is_what_the_model_is_told(vibe: VibeCommand, plan: str) -> None:
    process = vibe.start("plan", "run", plan, "--wait")
    command = asked(process).split()

    said = vibe(*command, "--deny", "--reason", "not today", "--output", "json")

    assert said.document["message"] == "denied"
    process.wait(timeout=120)
    assert not (vibe.workdir / "made").exists()
    (path,) = (vibe.home / "plans").glob("*/steps/w/messages.jsonl")
    assert "not today" in path.read_text()


def test_without_wait_nobody_is_asked(vibe: VibeCommand, plan: str) -> None:
    assert vibe("plan", "run", plan).code == 5
    refused = vibe("plan", "approve", "latest", "abcd")
    assert (refused.code, refused.out) == (2, "")
    assert "is not running" in refused.err
    assert "nothing to approve" in refused.err


def test_a_question_at_the_terminal_is_withdrawn_when_it_is_answered_elsewhere(vibe: VibeCommand, plan: str) -> None:
    with Terminal(100, 40) as terminal, vibe.on(terminal, "plan", "run", plan) as process:
        terminal.wait_for("touch made")
        until(lambda: bool(vibe.plan_ids()))
        open_ones = vibe("plan", "approve", "latest", "ffffffff").err
        match = re.search(r"open: (\w{8}) ", open_ones)
        assert match, open_ones
        assert vibe("plan", "approve", "latest", match.group(1)).code == 0
        assert process.wait(timeout=120) == 0
    assert (vibe.workdir / "made").exists()
