"""The examples in the guide to plans in flight.

Covers ``vibe.app.plan``.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.conftest import VibeCommand, command_step
from tests.e2e.test_docs import blocks
from tests.e2e.test_plan_control import WAITS, ended, started
from tests.fakes.ports import ports_in_a_row

WritePlan = Callable[..., str]

GUIDE = "docs/guide/plans-in-flight.md"
NODE = shutil.which("node")


def ask(program: Path, run_file: Path, request: str) -> tuple[int, dict[str, Any]]:
    assert NODE is not None
    done = subprocess.run(
        [NODE, str(program), str(run_file), request], capture_output=True, text=True, check=False, timeout=120
    )
    assert done.stderr == ""
    return done.returncode, json.loads(done.stdout)


@pytest.mark.skipif(NODE is None, reason="node is not installed")
@pytest.mark.parametrize("bus", ["ipc", "tcp"])
def test_the_program_of_the_guide_asks_a_run(vibe: VibeCommand, write_plan: WritePlan, bus: str) -> None:
    [source] = blocks(GUIDE, "js")
    program = vibe.workdir / "ask.mjs"
    program.write_text(source.text)
    address = ("--bus", f"tcp://127.0.0.1:{ports_in_a_row()}") if bus == "tcp" else ()
    run, plan_id = started(
        vibe, write_plan(command_step("a", WAITS), command_step("b", "true", depends_on=["a"])), *address
    )
    [run_file] = (vibe.home / "run").glob("*.json")

    pinged = ask(program, run_file, '{"type": "ping"}')
    unknown = ask(program, run_file, '{"type": "fly"}')
    paused = ask(program, run_file, '{"type": "pause", "grace_seconds": 0}')
    _, record = ended(run)

    assert (pinged[0], pinged[1]["data"]["pid"]) == (0, run.pid)
    assert (unknown[0], unknown[1]["reason"]) == (1, "unknown")
    assert paused[0] == 0
    assert (record["plan_id"], record["reason"]) == (plan_id, "user")


def test_the_operations_of_the_guide_fit_a_plan(vibe: VibeCommand, write_plan: WritePlan) -> None:
    [operations] = blocks(GUIDE, "json")
    (vibe.workdir / "changes.json").write_text(operations.text)
    decision = {"id": "ok", "question": "OK?", "options": [{"id": "y", "label": "Y"}, {"id": "n", "label": "N"}]}
    vibe("plan", "run", write_plan(command_step("ship", "false", decision="ok"), decisions=[decision]))

    edited = vibe("plan", "edit", vibe.plan_ids()[0], "--operations", "changes.json", "--reason", "notes first")

    assert (edited.code, edited.err) == (0, "")
    assert "make ship depend on notes" in edited.out
