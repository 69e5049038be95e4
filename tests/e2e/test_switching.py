"""A home of Mistral Vibe 2.x works unchanged: settings, agents, tools, hooks, skills and sessions.

Covers ``vibe.app.inspect``, ``vibe.core.config``.
"""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from ipc.journal import is_being_written
from tests.e2e.conftest import VibeCommand
from tests.e2e.test_prompt import turns
from tests.fakes.waiting import until

HOME = Path(__file__).with_name("mistral_vibe_home")
SESSION = "0f3c2a1b-5a1e-4b0e-9a57-3a1f2f1b7c11"


@pytest.fixture
def switched(vibe: VibeCommand) -> VibeCommand:
    """Copy such a home, and make a script its active model."""
    shutil.copytree(HOME, vibe.home)
    tool = vibe.home / "tools" / "word_count.py.txt"  # not one of our modules
    tool.rename(tool.with_suffix(""))
    settings = (vibe.home / "config.toml").read_text().replace('active_model = "devstral-2"', 'active_model = "replay"')
    script = vibe.home / "script.json"
    (vibe.home / "config.toml").write_text(
        f'{settings}\n[[providers]]\nname = "replay"\nbackend = "scripted"\nscript = "{script}"\n'
        '[[models]]\nname = "replay"\nprovider = "replay"\n'
    )
    answers(vibe, {"text": "fine"})
    return vibe


def answers(vibe: VibeCommand, *given: dict[str, Any]) -> None:
    (vibe.home / "script.json").write_text(json.dumps({"version": 1, **turns(*given)}))


def bash(command: str) -> dict[str, Any]:
    return {"tool_calls": [{"name": "bash", "arguments": {"command": command}}]}


def notices(text: str) -> list[str]:
    return [line for line in text.splitlines() if line.strip()]


def test_it_starts_with_one_line_of_notice(switched: VibeCommand) -> None:
    ended = switched("-p", "go")

    assert (ended.code, ended.out) == (0, "fine\n")
    said = "have no effect here: `vibe doctor` lists them, `vibe migrate` removes them"
    (notice,) = notices(ended.err)
    assert notice.endswith(said)
    doctor = switched("doctor").out
    assert "textual_theme is a setting of Mistral Vibe without effect here" in doctor
    assert "tools.exit_plan_mode is a setting of Mistral Vibe without effect here" in doctor


def test_its_tools_agents_and_skills_are_there(switched: VibeCommand) -> None:
    (switched.workdir / "a.txt").write_text("one two three")
    answers(switched, {"tool_calls": [{"name": "word_count", "arguments": {"path": "a.txt"}}]}, {"text": "counted"})

    record = switched.process("--agent", "reviewer", "--output", "json", "-p", "count").document

    assert (record["outcome"], record["result"]) == ("completed", "counted")
    told = switched("session", "export", record["session_id"], "--format", "json").document["messages"]
    assert "words: 3" in told[2]["content"]
    assert "review" in switched("skills", "list").out


def test_its_hook_changes_the_call(switched: VibeCommand) -> None:
    answers(switched, bash("echo hello"), {"text": "done"})

    record = switched("--output", "json", "-p", "go").document

    told = switched("session", "export", record["session_id"], "--format", "json").document["messages"]
    assert "hello --short" in told[2]["content"]
    assert "The hook 'no-secrets' changed the call" in told[2]["content"]


def test_its_sessions_are_listed_shown_and_continued(switched: VibeCommand) -> None:
    kept = {path.name: path.read_bytes() for path in (switched.home / "logs/session").glob("session_*/*")}
    answers(switched, {"text": "never"}, {"text": "never"}, {"text": "it still does"})  # two answers exist already

    listed = switched("session", "list").out
    shown = switched("session", "show", SESSION[:8]).out
    record = switched("--resume", SESSION[:8], "--output", "json", "-p", "and now?").document

    assert listed.startswith("0f3c2a1b")
    assert "What does the parser do?" in listed
    assert "5360 tokens" in shown
    assert 'read_file {"path": "parser.py"}' in shown
    assert (record["outcome"], record["result"]) == ("completed", "it still does")
    exported = switched("session", "export", record["session_id"], "--format", "json").document
    assert [message["role"] for message in exported["messages"]] == [
        "user",
        "assistant",
        "tool",
        "assistant",
        "user",
        "assistant",
    ]
    assert exported["parent_id"] == SESSION
    after = {path.name: path.read_bytes() for path in (switched.home / "logs/session").glob("session_*/*")}
    assert after == kept


def test_migrate_removes_what_has_no_effect_and_keeps_the_old_file(switched: VibeCommand) -> None:
    config = switched.home / "config.toml"
    before = config.read_text()

    dry = switched("migrate", "--dry-run")
    assert (dry.code, config.read_text()) == (0, before)
    done = switched("migrate")

    assert done.code == 0
    assert "textual_theme is removed" in dry.out
    assert done.out.splitlines()[1:] == dry.out.splitlines()[1:-1]
    assert (switched.home / "config.toml.bak").read_text() == before
    assert switched("-p", "go").err == ""
    assert switched("migrate").out == "nothing to migrate\n"
    after = config.read_text()
    assert 'active_model = "replay"' in after
    assert "textual_theme" not in after


def test_a_bypass_of_permissions_keeps_its_meaning(switched: VibeCommand) -> None:
    config = switched.home / "config.toml"
    text = config.read_text().replace("bypass_tool_permissions = false", "bypass_tool_permissions = true")
    config.write_text(text.replace("auto_approve = false\n", ""))

    assert "bypass_tool_permissions = true is now auto_approve = true" in switched("migrate").out
    assert "auto_approve = true" in config.read_text()
    assert switched("config", "show").code == 0


def test_conversations_that_are_not_to_be_kept_are_not(switched: VibeCommand) -> None:
    config = switched.home / "config.toml"
    config.write_text(config.read_text().replace("enabled = true\ngenerate_titles", "enabled = false\ngenerate_titles"))
    words = "the secret of the house"
    answers(
        switched,
        {"tool_calls": [{"name": "task", "arguments": {"task": words, "agent": "explore"}}]},
        {"text": words},
        {"text": words},
    )

    ended = switched("--output", "json", "-p", words)
    again = switched("--resume", SESSION[:8], "-p", words)

    assert (ended.code, again.code) == (0, 0)
    assert words in ended.out
    assert words in again.out
    kept = [path for path in switched.home.rglob("*") if path.is_file() and words.encode() in path.read_bytes()]
    assert kept == [switched.home / "script.json"]
    assert "secret" not in switched("session", "list").out


def test_what_a_killed_run_left_of_them_goes_with_the_next(switched: VibeCommand) -> None:
    config = switched.home / "config.toml"
    config.write_text(config.read_text().replace("enabled = true\ngenerate_titles", "enabled = false\ngenerate_titles"))
    words = "the secret of the house"
    answers(switched, bash("touch started; sleep 600"), {"text": "fine"})
    process = switched.start("--yolo", "-p", words)
    until((switched.workdir / "started").exists)
    process.kill()
    process.wait()
    # A child being started inherits the descriptors, and the lock with them, until it becomes another program.
    until(lambda: not any(map(is_being_written, switched.home.glob("run/*/journal.jsonl"))))
    for folder in (switched.home / "run" / "unlogged").iterdir():
        os.utime(folder, (0, 0))
    answers(switched, {"text": "fine"})

    assert switched("-p", "go").code == 0

    kept = [path for path in switched.home.rglob("*") if path.is_file() and words.encode() in path.read_bytes()]
    assert kept == []
