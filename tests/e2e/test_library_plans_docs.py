"""The guide's programs with plans do what it says.

Covers ``vibe.sdk``.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.conftest import Finished, VibeCommand, command_step
from tests.e2e.test_docs import blocks
from tests.fakes.waiting import until

PARTS = ["api", "auth", "cache", "cli", "docs", "jobs", "mail", "search", "store", "web"]
SHIP = {
    "id": "ship",
    "question": "Ship it?",
    "options": [{"id": "yes", "label": "Yes"}, {"id": "no", "label": "No"}],
}


@pytest.fixture
def program(vibe: VibeCommand, request: pytest.FixtureRequest) -> Path:
    """Return a program of the guide, by the name that a test is marked with."""
    name: str = request.param
    [block] = [one for one in blocks("docs/guide/library.md", "python") if one.opening == name]
    path = vibe.workdir / name
    path.write_text(block.text)
    return path


def ran(vibe: VibeCommand, program: Path, *words: str, stdin: str = "") -> Finished:
    ended = vibe.run([sys.executable, str(program), *words], stdin=stdin)
    assert (ended.code, ended.err) == (0, "")
    return ended


@pytest.mark.parametrize("program", ["split.py"], indirect=True)
def test_ten_python_steps_and_an_agent_killed_at_the_fifth_and_resumed(vibe: VibeCommand, program: Path) -> None:
    vibe.replay({"agents": {"report": {"turns": [{"text": "Split mail."}]}}})
    (vibe.workdir / "src").mkdir()
    for number, name in enumerate(["api", "auth", "cache", "cli", "docs", "jobs", "mail", "search", "store", "web"]):
        (vibe.workdir / "src" / f"{name}.py").write_text("pass\n" * number)
    fifth = vibe.workdir / "src" / "docs.py"
    fifth.unlink()
    os.mkfifo(fifth)  # its reader waits
    process = subprocess.Popen([sys.executable, program], cwd=vibe.workdir, env=vibe.variables())
    vibe.running.append(process)
    until(lambda: process.poll() is not None or is_at_fifth(vibe))
    assert process.poll() is None
    process.send_signal(signal.SIGKILL)
    process.wait()
    fifth.unlink()
    fifth.write_text("pass\n" * 4)
    [plan_id] = vibe.plan_ids()

    refused = vibe("plan", "resume", plan_id)
    said = next(block.text for block in blocks("docs/guide/library.md", "text") if "a program does" in block.text)
    assert refused.code == 2
    assert refused.err.split("step")[0] == f"vibe: {said}".replace("4f1c2a-20260214", plan_id).split("step")[0]
    assert refused.err.rstrip().endswith(said.rstrip().partition("'jobs'")[2])
    ended = ran(vibe, program, plan_id)

    assert ended.out == "completed: Split mail.\n"
    events = (vibe.home / "plans" / plan_id / "journal.jsonl").read_text().splitlines()
    begun = [one["step_id"] for one in map(json.loads, events) if one.get("status") == "in_progress"]
    assert sorted(begun) == sorted([*PARTS, "docs", "report"])


def is_at_fifth(vibe: VibeCommand) -> bool:
    """Return True if at least four steps are done, and the fifth is running alone."""
    begun = vibe.plan_ids()
    if not begun:
        return False
    steps = vibe("plan", "status", begun[0], "--output", "json").document["steps"]
    status = {step["id"]: step["status"] for step in steps}
    at_work = [step_id for step_id, each in status.items() if each == "in_progress"]
    return at_work == ["docs"] and list(status.values()).count("completed") >= 4


@pytest.mark.parametrize("program", ["ship.py"], indirect=True)
@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("yes\n", "Ship it? yes no\ncompleted completed\n"),
        ("\n", "Ship it? yes no\nblocked: paused: decision ['ship']\ncompleted completed\n"),
    ],
)
def test_a_decision_is_taken_at_the_keyboard_or_later(vibe: VibeCommand, program: Path, said: str, told: str) -> None:
    document: dict[str, Any] = {"version": 1, "goal": "g", "decisions": [SHIP]}
    steps = [command_step("build", "true"), command_step("deploy", "true", depends_on=["build"], decision="ship")]
    (vibe.workdir / "plan.json").write_text(json.dumps({**document, "steps": steps}))

    assert ran(vibe, program, stdin=said).out == told


@pytest.mark.parametrize("program", ["elsewhere.py"], indirect=True)
def test_an_executor_of_the_program_does_the_steps(vibe: VibeCommand, program: Path) -> None:
    assert ran(vibe, program).out == "Greet: done elsewhere\n"


@pytest.mark.parametrize("program", ["planned.py"], indirect=True)
def test_a_model_writes_the_plan(vibe: VibeCommand, program: Path) -> None:
    steps = [{"id": "count", "title": "Count", "mode": "run", "command": "wc -l *.py"}]
    planned = {"tool_calls": [{"name": "hand_in_plan", "arguments": {"value": {"steps": steps}}}]}
    vibe.replay({"agents": {"*": {"turns": [planned]}}})

    assert ran(vibe, program).out == "count Count wc -l *.py\ncompleted\n"
