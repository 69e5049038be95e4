"""The examples in the guide to planning do what the guide says.

Covers ``vibe.app.plan``.
"""

from __future__ import annotations

import json
import shlex
import tomllib
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.conftest import VibeCommand
from tests.e2e.test_docs import blocks
from vibe.core.config.models import PlannerConfig

GUIDE = "docs/guide/planning.md"


def commands() -> list[list[str]]:
    return [shlex.split(line)[1:] for line in blocks(GUIDE, "sh")[0].text.splitlines()]


def shown_plan() -> dict[str, Any]:
    return json.loads(blocks(GUIDE, "json")[0].text)


def test_the_commands_of_the_guide_write_show_and_run_the_plan_it_shows(vibe: VibeCommand) -> None:
    steps = shown_plan()["steps"]
    flag = {"name": "write_file", "arguments": {"path": "app.py", "content": "print('1.0')\n"}}
    vibe.replay({
        "agents": {
            "planner": {
                "turns": [{"tool_calls": [{"name": "hand_in_plan", "arguments": {"value": {"steps": steps}}}]}]
            },
            "flag": {"turns": [{"tool_calls": [flag]}, {"text": "Done."}]},
            "tests": {"turns": [{"text": "Nothing to test."}]},
        }
    })
    new, dry, run = commands()
    planned = vibe(*new)
    assert planned.code == 0, planned.err
    assert [line for line in planned.err.splitlines(keepends=True) if line.startswith("note: ")] == blocks(
        GUIDE, "text"
    )[0].text.splitlines(keepends=True)
    written = json.loads((vibe.workdir / "plan.json").read_text())
    assert {name: written[name] for name in ("version", "goal", "steps")} == shown_plan()
    assert vibe(*dry).code == 0
    ended = vibe(*run, "--approve", "edits")
    assert ended.code == 0, ended.out + ended.err


def test_the_settings_of_the_guide_are_the_defaults(vibe: VibeCommand) -> None:
    settings = blocks(GUIDE, "toml")[0].text
    vibe.configure(settings)
    shown = vibe("config", "show")
    assert (shown.code, shown.err) == (0, "")
    given = tomllib.loads(settings)["planner"]
    assert all(f"{name} = " in shown.out for name in given)
    defaults = PlannerConfig().model_dump()
    assert given == {name: defaults[name] for name in given}


def test_the_program_of_the_guide_walks_the_plan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "plan.json").write_text(json.dumps(shown_plan()))
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    exec(blocks(GUIDE, "python")[0].text, names)  # noqa: S102  the guide's own program
    assert names["done"] == ["flag", "tests", "check"]
