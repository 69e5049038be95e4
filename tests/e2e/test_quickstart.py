"""Covers ``vibe.cli.commands``, ``vibe.app.plan``."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import time
from pathlib import Path

import pytest

from tests.e2e.conftest import EXAMPLES, VibeCommand, leftovers, snapshot
from tests.fakes.waiting import until

KILLS = 12


def sample_of(vibe: VibeCommand, plan_id: str) -> Path:
    """Return the folder in which a plan did its work."""
    return Path(json.loads((vibe.home / "plans" / plan_id / "run.json").read_text())["workspace"])


@pytest.fixture
def brisk_quickstart(tmp_path: Path) -> Path:
    """Copy the quickstart without the pauses that let people watch."""
    folder = tmp_path / "examples"
    shutil.copytree(EXAMPLES, folder)
    script = folder / "quickstart" / "replay.yaml"
    script.write_text(re.sub(r"delay_seconds: [0-9.]+", "delay_seconds: 0.02", script.read_text()))
    return folder / "quickstart.json"


def test_the_quickstart_ends_with_changed_files_and_passing_tests_on_screen(vibe: VibeCommand) -> None:
    ended = vibe("plan", "run", "--approve", "edits", str(EXAMPLES / "quickstart.json"))

    assert ended.code == 0, ended.err
    assert "done: 6 of 6 steps, " in ended.out
    assert "Ran 10 tests" in ended.out
    for changed in ("README.md", "textkit/slugs.py", "textkit/short.py", "tests/test_slugs.py", "tests/test_short.py"):
        assert f"  {changed}\n" in ended.out
    assert "\x1b" not in ended.out
    project = sample_of(vibe, vibe.plan_ids()[0])
    subprocess.run(["python3", "-m", "doctest", "README.md"], cwd=project, check=True)
    assert not (EXAMPLES / "quickstart" / "project" / "textkit" / "slugs.py").exists()


def test_the_demonstration_is_the_quickstart(vibe: VibeCommand) -> None:
    record = vibe.process("plan", "run", "--demo", "--approve", "edits", "--output", "json").document

    assert (record["outcome"], record["exit_code"]) == ("completed", 0)
    assert {step["id"]: step["status"] for step in record["steps"]} == dict.fromkeys(
        ("survey", "design", "slugify", "shorten", "test", "docs"), "completed"
    )
    assert {agent["step_id"] for agent in record["agents"]} == {"survey", "design", "slugify", "shorten", "docs"}
    assert record["usage"]["calls"] == sum(agent["usage"]["calls"] for agent in record["agents"]) == 15


def test_the_files_it_names_are_edited_unasked(vibe: VibeCommand) -> None:
    record = vibe("plan", "run", "--demo", "--output", "json").document

    assert (record["outcome"], record["exit_code"], record["denied"]) == ("completed", 0, [])


@pytest.mark.parametrize("instant", range(KILLS))
def test_killed_at_any_instant_it_is_resumed_to_the_same_end(
    vibe: VibeCommand, brisk_quickstart: Path, instant: int
) -> None:
    undisturbed = 1.6  # seconds, about; kills after that find it finished, and must do no harm either
    moment = 0.1 + (undisturbed - 0.1) * instant / KILLS
    process = vibe.start("plan", "run", "--approve", "edits", str(brisk_quickstart))
    time.sleep(moment)  # the moment under test, not a wait for something
    process.kill()
    process.wait()
    if not vibe.plan_ids():
        assert vibe("plan", "run", "--approve", "edits", str(brisk_quickstart)).code == 0
    plan_id = vibe.plan_ids()[0]
    completed_before = completed_steps(vibe, plan_id)

    resumed = vibe("plan", "resume", plan_id)

    status = vibe("plan", "status", plan_id, "--output", "json").document
    assert status["status"] == "completed", (resumed.out, resumed.err)
    after = completed_steps(vibe, plan_id)
    assert after[: len(completed_before)] == completed_before
    assert sorted(after) == ["design", "docs", "shorten", "slugify", "survey", "test"]
    assert snapshot(sample_of(vibe, plan_id)) == finished_project(brisk_quickstart)
    until(lambda: not leftovers(vibe.home.parent))


def completed_steps(vibe: VibeCommand, plan_id: str) -> list[str]:
    """Return the step of each completed attempt in the journal, in order. A step that occurs twice was done twice."""
    journal = vibe.home / "plans" / plan_id / "journal.jsonl"
    lines = journal.read_bytes().splitlines(keepends=True)
    records = [json.loads(line) for line in lines if line.endswith(b"\n")]
    return [r["step_id"] for r in records if r["type"] == "plan.attempt" and r["result"]["outcome"] == "completed"]


def finished_project(plan: Path) -> dict[str, bytes]:
    """Return the files of the sample project after the replay, computed by applying its calls without any engine."""
    import yaml  # noqa: PLC0415  one test's reference

    files = snapshot(plan.parent / "quickstart" / "project")
    agents = yaml.safe_load((plan.parent / "quickstart" / "replay.yaml").read_text())["agents"]
    for agent in agents.values():
        for call in (call for turn in agent["turns"] for call in turn.get("tool_calls", ())):
            given = call["arguments"]
            if call["name"] == "write_file":
                files[given["path"]] = given["content"].encode()
            elif call["name"] == "search_replace":
                block = re.fullmatch(r"<+ SEARCH\n(.*)\n=+\n(.*)\n>+ REPLACE\n", given["content"], re.DOTALL)
                assert block is not None
                before = files[given["file_path"]].decode()
                files[given["file_path"]] = before.replace(block[1], block[2]).encode()
    return files


def test_without_a_plan_it_is_said_what_to_do_and_nothing_is_run(vibe: VibeCommand) -> None:
    ended = vibe("plan", "run")

    assert ended.code == 2
    assert "no plan given" in ended.err
    assert "vibe plan run --demo" in ended.err
    assert vibe.plan_ids() == []
    assert vibe("plan", "run", "--demo", "plan.json").code == 2
