"""Opening the network to confined commands: the user may for a run, and a plan for a step.

Covers ``vibe.shell.sandbox``.
"""

from __future__ import annotations

import socket
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.e2e.conftest import VibeCommand

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="there is a sandbox for Linux only")


@pytest.fixture
def knock() -> Iterator[str]:
    """Yield a line that leaves a file, and another if it reaches a server of this machine. If confined, it does not."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"touch knocked; echo > /dev/tcp/127.0.0.1/{server.getsockname()[1]} && touch reached"


def script(vibe: VibeCommand, caller: str, knock: str) -> None:
    call = {"name": "bash", "arguments": {"command": knock}}
    vibe.replay({"agents": {caller: {"turns": [{"tool_calls": [call]}, {"text": "done"}]}}})


@pytest.mark.parametrize("words", [(), ("--network",)], ids=["closed", "open"])
def test_a_flag_opens_it_for_a_prompt(vibe: VibeCommand, knock: str, words: tuple[str, ...]) -> None:
    script(vibe, "main", knock)

    assert vibe("--auto-approve", *words, "-p", "go").code == 0

    assert (vibe.workdir / "knocked").exists()
    assert (vibe.workdir / "reached").exists() is bool(words)


CASES: dict[str, tuple[dict[str, Any], tuple[str, ...], bool]] = {
    "closed": ({}, (), False),
    "flag": ({}, ("--network",), True),
    "step": ({"network": "on"}, (), True),
    "step closes": ({"network": "loopback"}, ("--network",), False),
}


@pytest.mark.parametrize("executor", ["local", "process"])
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_a_flag_opens_it_for_a_plan_and_a_step_for_itself(
    vibe: VibeCommand,
    write_plan: Callable[..., str],
    knock: str,
    case: tuple[dict[str, Any], tuple[str, ...], bool],
    executor: str,
) -> None:
    fields, words, reached = case
    script(vibe, "a", knock)
    plan = write_plan({"id": "a", "title": "Knock", "mode": "code", **fields})

    assert vibe("plan", "run", plan, "--auto-approve", "--executor", executor, *words).code == 0

    assert (vibe.workdir / "knocked").exists()
    assert (vibe.workdir / "reached").exists() is reached


def test_a_check_has_the_network_of_its_step(vibe: VibeCommand, write_plan: Callable[..., str], knock: str) -> None:
    vibe.replay({"agents": {"*": {"turns": [{"text": "done"}, {"text": "done"}, {"text": "done"}]}}})
    steps = [
        {"id": "a", "title": "A", "mode": "code", "verify": [knock], "max_repairs": 0, "network": "on"},
        {"id": "b", "title": "B", "mode": "code", "verify": [knock], "max_repairs": 0},
    ]

    ended = vibe("plan", "run", write_plan(*steps), "--auto-approve", "--output", "json")

    assert [step["status"] for step in ended.document["steps"]] == ["completed", "failed"]


def test_a_resume_keeps_it(vibe: VibeCommand, write_plan: Callable[..., str], knock: str) -> None:
    script(vibe, "a", knock)
    decision = {"id": "now", "question": "Now?", "options": [{"id": "y", "label": "Yes"}, {"id": "n", "label": "No"}]}
    plan = write_plan({"id": "a", "title": "Knock", "mode": "code", "decision": "now"}, decisions=[decision])
    assert vibe("plan", "run", plan, "--auto-approve", "--network").code == 5

    assert vibe("plan", "resume", *vibe.plan_ids(), "--decide", "now=y").code == 0

    assert (vibe.workdir / "reached").exists()
