"""Plans that are run by their names, and the list of them.

Covers ``vibe.app.plan``, ``vibe.cli.commands``.
"""

from __future__ import annotations

import json
import shlex
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.conftest import VibeCommand, command_step
from tests.e2e.test_docs import blocks

GUIDE = "docs/guide/named-plans.md"
UNTRUSTED = "plan 'tidy' is in .vibe/plans of a folder that is not trusted: run with --trust, or vibe trust add"


def save(path: Path, command: str, **fields: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    document = {"version": 1, "goal": f"Do {command}", "steps": [command_step("a", command)], **fields}
    path.write_text(json.dumps(document))


def git(folder: Path, *words: str) -> None:
    identity = ("-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "commit.gpgSign=false")
    subprocess.run(["git", *identity, *words], cwd=folder, check=True, capture_output=True)


def test_a_name_means_the_file_here_then_the_project_then_the_library_then_what_is_built_in(vibe: VibeCommand) -> None:
    vibe.replay({"agents": {}})
    save(vibe.home / "library" / "review.json", "touch library")
    assert vibe("plan", "run", "review").code == 0
    (vibe.workdir / ".vibe" / "plans").mkdir(parents=True)
    (vibe.workdir / ".vibe" / "plans" / "review.yaml").write_text(
        "version: 1\ngoal: g\nsteps:\n  - {id: a, title: A, mode: run, command: touch project}\n"
    )
    assert vibe("plan", "run", "review", "--trust").code == 0
    save(vibe.workdir / "review", "touch here")
    assert vibe("plan", "run", "review").code == 0

    made = [(vibe.workdir / name).exists() for name in ("library", "project", "here")]
    assert made == [True, True, True]


@pytest.mark.parametrize("below", [".", "src"])
def test_a_plan_of_a_folder_that_is_not_trusted_is_named_and_not_run(vibe: VibeCommand, below: str) -> None:
    (vibe.workdir / ".git").mkdir()
    (vibe.workdir / below).mkdir(exist_ok=True)
    save(vibe.workdir / ".vibe" / "plans" / "tidy.json", "touch ran")
    save(vibe.home / "library" / "tidy.json", "touch ran")
    words = ("plan", "run", "tidy", "--workdir", below)

    refused = vibe(*words)

    assert (refused.code, refused.out, refused.err) == (2, "", f"vibe: {UNTRUSTED}\n")
    assert vibe(*words, "--dry-run").code == 2
    assert not list(vibe.workdir.rglob("ran"))
    [tidy] = [one for one in vibe("plan", "library", "--output", "json").document if one["name"] == "tidy"]
    assert (tidy["trusted"], tidy["source"], tidy["goal"]) == (False, "project", None)
    assert vibe("trust", "add").code == 0
    assert vibe(*words).code == 0


def test_a_folder_of_that_name_is_no_plan_file(vibe: VibeCommand) -> None:
    vibe.replay({"agents": {}})
    save(vibe.home / "library" / "tidy.json", "true")
    (vibe.workdir / "tidy").mkdir()
    assert vibe("plan", "run", "tidy").code == 0
    assert vibe("plan", "show", "tidy").code == 0


def test_a_name_that_no_plan_has_is_told_with_the_nearest(vibe: VibeCommand) -> None:
    ended = vibe("plan", "run", "reviwe")
    assert (ended.code, ended.err) == (
        2, "vibe: 'reviwe' is not a plan file, and no plan has that name; did you mean 'review'?\n"
    )  # fmt: skip
    assert "no such file" in vibe("plan", "run", "reviwe.json").err
    assert not (vibe.home / "plans").exists()


def test_the_list_tells_inputs_and_what_is_wrong(vibe: VibeCommand) -> None:
    inputs = [
        {"name": "n", "type": "integer", "description": "How many"},
        {"name": "d", "default": ["x"], "type": "list"},
    ]
    save(vibe.home / "library" / "tidy.json", "true", inputs=inputs)
    (vibe.home / "library" / "broken.yml").write_text("version: 2")
    (vibe.home / "library" / "no plan.json").write_text("{}")
    (vibe.home / "library" / ".hidden.json").write_text("{}")

    text = vibe("plan", "library")
    listed = {one["name"]: one for one in vibe("plan", "library", "--output", "json").document}

    assert list(listed) == ["broken", "tidy", "demo", "review"]
    assert listed["tidy"]["inputs"] == [
        {"name": "n", "type": "integer", "choices": None, "default": None, "description": "How many"},
        {"name": "d", "type": "list", "choices": None, "default": ["x"], "description": ""},
    ]
    assert "is not a plan format" in listed["broken"]["problem"]
    assert "tidy  (user)  Do true\n  --with n=VALUE  (integer): How many\n" in text.out
    assert '  --with d=VALUE  (list, ["x"] if not given)\n' in text.out


def test_names_are_completed(vibe: VibeCommand) -> None:
    save(vibe.home / "library" / "tidy.json", "true")
    assert vibe("completions", "--names", "library").out.split() == ["tidy", "demo", "review"]
    assert '"plan run") words="' in vibe("completions", "bash").out
    assert "_vibe_names library" in vibe("completions", "bash").out


def test_the_guide_shows_what_happens(vibe: VibeCommand) -> None:
    path = vibe.workdir / ".vibe" / "plans" / "greet.json"
    path.parent.mkdir(parents=True)
    path.write_text(blocks(GUIDE, "json")[0].text)
    trust, run, library = [shlex.split(line)[1:] for line in blocks(GUIDE, "sh")[0].text.splitlines()]

    assert vibe(*trust).code == 0
    ended = vibe(*run, "--output", "json")

    assert ended.document["steps"][0]["summary"] == "Hello, Ann\nHello, Ann"
    assert "greet  (project)" in vibe(*library).out


def test_review_reads_the_changes_checks_what_it_found_and_changes_nothing(vibe: VibeCommand) -> None:
    git(vibe.workdir, "init", "-q", "-b", "main")
    (vibe.workdir / "app.py").write_text("def half(n):\n    return n / 2\n")
    git(vibe.workdir, "add", ".")
    git(vibe.workdir, "commit", "-qm", "one")
    git(vibe.workdir, "switch", "-qc", "other")
    (vibe.workdir / "app.py").write_text("def half(n):\n    return n / 0\n")
    found = {"findings": [{"file": "app.py", "line": 2, "severity": "high", "claim": "divides by zero"}]}
    read = {"name": "bash", "arguments": {"command": "git diff main -- app.py"}}
    vibe.replay({
        "agents": {
            "find": {
                "turns": [{"tool_calls": [read]}, {"tool_calls": [{"name": "hand_in", "arguments": {"value": found}}]}]
            },
            "report": {"turns": [{"text": "app.py:2 divides by zero"}]},
        }
    })
    commands = [shlex.split(line)[1:] for line in blocks(GUIDE, "sh")[1].text.splitlines()]

    ended = vibe(*commands[0], "--output", "json")

    assert (ended.code, ended.document["result"], ended.document["denied"]) == (0, "app.py:2 divides by zero", [])
    steps = {step["id"]: step for step in ended.document["steps"]}
    assert "app.py | 2 +-" in steps["changes"]["summary"]
    assert steps["find"]["output"] == found
    [folder] = (vibe.home / "plans").glob("*-*")
    messages = [json.loads(line) for line in (folder / "steps/find/messages.jsonl").read_text().splitlines()]
    assert "Review what changed since main, for mistakes" in messages[0]["content"]
    assert any("return n / 0" in str(message["content"]) for message in messages if message["role"] == "tool")
    unknown = vibe("plan", "run", "review", "--with", "base=--output=x")
    assert unknown.code == 1
    assert not (vibe.workdir / "x").exists()
    dry = vibe(*commands[1], "--dry-run")
    assert (dry.code, "no report is written: --dry-run runs nothing" in dry.err) == (0, "--report" in commands[1])


def test_a_plan_is_read_before_it_is_run_by_its_name(vibe: VibeCommand) -> None:
    shown = vibe("plan", "show", "review", "--output", "json").document
    assert [one["name"] for one in shown["inputs"]] == ["base", "focus"]
    assert '\ninput base (string): "HEAD"\n' in vibe("plan", "show", "review").out
    assert vibe("plan", "graph", "review").code == 0
    assert vibe("plan", "validate", "review").code == 0
    save(vibe.workdir / ".vibe" / "plans" / "tidy.json", "true")
    assert vibe("plan", "show", "tidy").err == f"vibe: {UNTRUSTED}\n"
    assert "is neither a plan file nor a plan that has run" in vibe("plan", "show", "nosuch").err
