"""Programs of the guide, each holding a conversation in which it answers questions.

Covers ``vibe.cli.commands``.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from ipc.registry import Registry
from tests.e2e.conftest import VibeCommand, command_step
from tests.e2e.test_docs import blocks
from tests.fakes.npm_peers import NODE
from tests.fakes.waiting import until

GUIDE = "docs/guide/programs.md"
WRITE = {"name": "write_file", "arguments": {"path": "hello.txt", "content": "hello\n"}}


@pytest.mark.parametrize(
    ("language", "interpreter", "typed"), [("sh", "sh", ""), ("js", NODE, ""), ("python", sys.executable, "y\n")]
)
def test_a_program_holds_a_conversation(
    vibe: VibeCommand, tmp_path: Path, language: str, interpreter: str, typed: str
) -> None:
    lines = "two\N{LINE SEPARATOR}lines"
    turns = [{"text": lines, "tool_calls": [WRITE]}, {"text": "Written."}, {"text": "It says hello."}]
    vibe.replay({"agents": {"main": {"turns": turns}}})
    block = blocks(GUIDE, language)[0]
    program = tmp_path / block.opening.partition(":")[0]
    program.write_text(block.text)

    ended = vibe.run([interpreter, str(program)], stdin=typed)

    assert ended.code == 0, ended.err
    assert "Written." in ended.out.splitlines()[0], ended
    assert "It says hello." in ended.out.splitlines()[-1]
    assert (vibe.workdir / "hello.txt").read_text() == "hello\n"
    if language == "sh":
        assert [json.loads(line)["outcome"] for line in ended.out.splitlines()] == ["completed", "completed"]


def test_the_lines_for_work_without_a_terminal_leave_its_ids(vibe: VibeCommand, write_plan: Callable[..., str]) -> None:
    vibe.replay({"agents": {"main": {"turns": [{"text": "Fixed."}]}}})
    write_plan(command_step("a", "true"))
    lines = blocks(GUIDE, "sh")[1].text

    ended = vibe.run(["sh", "-c", f"{lines}echo $id $plan"])

    session_id, plan_id = ended.out.split()
    assert ((vibe.home / "logs" / "session" / session_id).is_dir(), vibe.plan_ids()) == (True, [plan_id])
    until(lambda: not Registry(vibe.home).running())
