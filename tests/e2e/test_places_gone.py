"""Folders that disappear or become read-only while a plan runs.

Covers ``vibe.app.plan``, ``vibe.system``.
"""

from __future__ import annotations

import json
import os
import time

import pytest

from planner.store.folder import find_plan, list_plans
from tests.e2e.conftest import VibeCommand
from tests.e2e.kill_lab import Kind, Lab


def test_a_workspace_that_a_step_removed_is_what_the_next_step_is_told(vibe: VibeCommand) -> None:
    steps = [
        {"id": "a", "title": "a", "mode": "run", "command": 'cd / && rm -rf "$OLDPWD"'},
        {"id": "b", "title": "b", "mode": "run", "command": "true", "depends_on": ["a"]},
    ]
    plan = vibe.workdir.parent / "plan.json"
    plan.write_text(json.dumps({"version": 1, "goal": "g", "steps": steps}))
    vibe.configure('[sandbox]\nmode = "off"\n')

    ended = vibe("plan", "run", "--auto-approve", "--output", "json", str(plan))

    failed = ended.document["steps"][1]
    assert (ended.code, failed["reason"]) == (1, "workspace"), ended.out
    assert f"the folder {str(vibe.workdir)!r} is gone" in failed["detail"]


BOUND_BY_MODES = ("setpriv", "--bounding-set=-dac_override,-dac_read_search") if os.geteuid() == 0 else ()
"""Words before a command with which the modes of files hold for the superuser, too."""


@pytest.mark.timeout(300)
def test_work_that_can_not_be_merged_into_a_read_only_repository_is_merged_by_the_resume() -> None:
    calls = [{"name": "write_file", "arguments": {"path": "made.txt", "content": "made\n"}}]
    turns = [{"tool_calls": calls}, {"text": "done", "delay_seconds": 2}]
    step = {"id": "tree", "title": "Tree", "mode": "code", "workspace": "worktree"}
    with Lab(Kind(), BOUND_BY_MODES) as lab:
        lab.plan.write_text(json.dumps({"version": 1, "goal": "Merge", "steps": [step]}))
        script = lab.root / "script.json"
        script.write_text(json.dumps({"version": 1, "agents": {"tree": {"turns": turns}}}))
        repository = lab.workdir / ".git"
        with lab.start("run", str(lab.plan)) as process:
            while not any(lab.home.rglob("made.txt")):
                assert process.poll() is None, lab.said()
                time.sleep(0.01)
            repository.chmod(0o555)
        assert process.returncode == 3, lab.said()
        (plan,) = list_plans(lab.home)
        tree = find_plan(lab.home, plan.plan_id).state().steps["tree"]
        assert (tree.status.value, tree.reason) == ("pending", "environment")
        assert "vibe.lock' can't be locked (Permission denied): is it writable?" in tree.detail
        repository.chmod(0o755)
        script.write_text(json.dumps({"version": 1, "agents": {}}))  # no model is asked for it again
        assert lab.go_on() == 0, lab.said()
        assert (lab.workdir / "made.txt").read_text() == "made\n"
        assert lab.left_behind() == []
