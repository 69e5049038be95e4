"""Covers ``vibe.shell.process``."""

from __future__ import annotations

from typing import Any

from tests.e2e.conftest import VibeCommand
from tests.e2e.test_subagents import a_long_time, agents, results_of, running_with
from tests.fakes.waiting import until


def bash(command: str, **more: Any) -> dict[str, Any]:
    return {"name": "bash", "arguments": {"command": command, **more}}


def look(**more: Any) -> dict[str, Any]:
    return {"name": "background", "arguments": {"handle": "bg1", **more}}


def test_a_background_command_is_read_and_stopped(vibe: VibeCommand) -> None:
    seconds = a_long_time()
    vibe.replay(
        agents(
            main=[
                {"tool_calls": [bash(f"echo serving; sleep {seconds}; :", background=True)]},
                {"tool_calls": [look(wait=30)]},
                {"tool_calls": [look(stop=True)]},
                {"text": "done"},
            ]
        )
    )

    lines = vibe("--yolo", "--output", "streaming", "-p", "go").lines

    assert "in the background as bg1" in results_of(lines, "bash")[0]["content"]
    reading, stopping = (result["content"] for result in results_of(lines, "background"))
    assert reading.startswith("serving\n[bg1: still running after")
    assert stopping.startswith("[bg1: ended with exit code 143 after")
    assert not running_with(seconds)


def test_what_runs_in_the_background_ends_with_the_agent(vibe: VibeCommand) -> None:
    seconds = a_long_time()
    vibe.replay(
        agents(
            main=[
                {"tool_calls": [bash(f"(echo up > up; exec sleep {seconds}) & exec sleep {seconds}", background=True)]},
                {"tool_calls": [bash("until [ -e up ]; do sleep 0.05; done")]},
                {"text": "done"},
            ]
        )
    )

    assert vibe.process("--yolo", "-p", "go").code == 0
    assert not running_with(seconds)


def test_a_killed_vibe_takes_its_background_commands_along(vibe: VibeCommand) -> None:
    seconds = a_long_time()
    vibe.replay(
        agents(
            main=[
                {"tool_calls": [bash(f"echo up > up; exec sleep {seconds}", background=True)]},
                {"tool_calls": [bash(f"exec sleep {seconds}")]},
            ]
        )
    )
    process = vibe.start("--yolo", "-p", "go")
    until((vibe.workdir / "up").exists)

    process.kill()
    process.wait()

    until(lambda: not running_with(seconds))


def test_the_rules_of_bash_hold_in_the_background(vibe: VibeCommand) -> None:
    vibe.replay(agents(main=[{"tool_calls": [bash("vim a.txt", background=True)]}, {"text": "no"}]))
    denied = vibe("--yolo", "--output", "streaming", "-p", "go").lines
    assert results_of(denied, "bash")[0]["status"] == "denied"

    vibe.replay(agents(main=[{"tool_calls": [bash("touch made", background=True)]}, {"text": "no"}]))
    assert vibe("-p", "go").code == 5
    assert not (vibe.workdir / "made").exists()


def test_waiting_for_a_command_in_the_background_is_no_loop(vibe: VibeCommand) -> None:
    start = {"tool_calls": [bash("exec sleep 600", background=True)]}
    vibe.replay(agents(main=[start, *[{"tool_calls": [look(wait=0)]}] * 8, {"text": "waited"}]))

    record = vibe("--yolo", "--output", "json", "-p", "go").document

    assert (record["outcome"], record["result"], record["warnings"]) == ("completed", "waited", [])
