"""Processes that a command leaves running are stopped with it, and this is reported."""

from __future__ import annotations

from pathlib import Path

import pytest

from vibe.shell.process.runner import run_command

ENVIRON = {"PATH": "/usr/bin:/bin"}
ONE = "1 process left running was stopped when the command ended: "
LEFT = {
    "sleep 600 & echo started": ONE,
    "nohup sleep 600 >/dev/null 2>&1 &": ONE,
    "for i in 1 2 3 4 5 6 7; do sleep 600 & done": "7 processes left running were stopped when the command ended: ",
    "sleep 600 & until grep -q sleep /proc/$!/comm; do :; done": f"{ONE}sleep",
    "sleep 600 & exit 3": ONE,
}
NOTHING = ("true", "sleep 600 & kill $!; wait", "sleep 0.01 & wait", "exit 3", "echo a | cat", "sleep 0 & sleep 0.3")


@pytest.mark.parametrize(("line", "said"), LEFT.items(), ids=LEFT)
async def test_what_a_command_left_running_is_said(line: str, said: str, tmp_path: Path) -> None:
    ended = await run_command(line, cwd=tmp_path, environ=ENVIRON, timeout=30)

    assert ended.left_running.startswith(said)
    assert ended.left_running.count(",") <= 5


@pytest.mark.parametrize("line", NOTHING)
async def test_nothing_is_said_where_nothing_was_left(line: str, tmp_path: Path) -> None:
    assert (await run_command(line, cwd=tmp_path, environ=ENVIRON, timeout=30)).left_running == ""


async def test_what_a_limit_ended_was_not_left(tmp_path: Path) -> None:
    ended = await run_command("sleep 600 & sleep 600", cwd=tmp_path, environ=ENVIRON, timeout=0.3)

    assert (ended.timed_out, ended.left_running) == (True, "")
