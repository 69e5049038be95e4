"""Folders that disappear while a plan runs.

Covers ``vibe.app.plan``, ``vibe.system``.
"""

from __future__ import annotations

import json

from tests.e2e.conftest import VibeCommand


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
