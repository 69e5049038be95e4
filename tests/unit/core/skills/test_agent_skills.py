"""The effects of loading a skill on the agent that loads it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.unit.core.skills.writing import write_skill
from vibe.core.skills.manager import AgentSkills, SkillManager, permits


@pytest.fixture
def desk(tmp_path: Path) -> AgentSkills:
    write_skill(tmp_path, "free", body="Anything goes.")
    write_skill(tmp_path, "look", tools="Read Grep", body="Look around.")
    write_skill(tmp_path, "read", tools="read_file bash")
    (tmp_path / "look" / "scripts").mkdir()
    return AgentSkills(SkillManager((tmp_path,)))


def test_loading_gives_the_instructions_and_where_they_are(desk: AgentSkills, tmp_path: Path) -> None:
    told = desk.load("look")
    assert "Look around." in told
    assert str(tmp_path / "look" / "SKILL.md") in told
    assert "Files beside it: scripts/" in told


def test_a_skill_without_allowed_tools_restricts_nothing(desk: AgentSkills) -> None:
    desk.load("free")
    assert desk.refusal("bash", {"command": "ls"}) is None


def test_a_restriction_holds_from_then_on(desk: AgentSkills) -> None:
    assert desk.refusal("bash", {"command": "ls"}) is None
    desk.load("look")
    assert desk.refusal("read_file", {"path": "a"}) is None
    assert desk.refusal("bash", {"command": "ls"}) == "the skill 'look' restricts this agent to Read, Grep"


def test_a_second_skill_never_widens_what_the_first_left(desk: AgentSkills) -> None:
    desk.load("look")
    desk.load("read")
    desk.load("free")
    assert desk.refusal("bash", {"command": "ls"}) is not None
    assert desk.refusal("grep", {"pattern": "x"}) is not None
    assert desk.refusal("read_file", {"path": "a"}) is None


def test_a_resumed_conversation_is_restricted_again(desk: AgentSkills) -> None:
    assert desk.refusal("bash", {"command": "ls"}) is None
    desk.restore(["look", "gone"])
    assert desk.refusal("bash", {"command": "ls"}) == "the skill 'look' restricts this agent to Read, Grep"
    assert desk.refusal("read_file", {"path": "a"}) is None


def test_a_slash_command_becomes_the_skill_and_the_request(desk: AgentSkills) -> None:
    told = desk.invoked("/look at the tests")
    assert told.endswith("at the tests")
    assert "Look around." in told
    assert desk.refusal("bash", {}) is not None


@pytest.mark.parametrize("prompt", ["look at it", "/unknown thing", "/", "/usr/bin is full"])
def test_other_prompts_stay_as_they_are(desk: AgentSkills, prompt: str) -> None:
    assert desk.invoked(prompt) == prompt


@pytest.mark.parametrize(
    ("entry", "tool", "arguments", "expected"),
    [
        ("Read", "read_file", {"path": "a"}, True),
        ("read_file", "read_file", {"path": "a"}, True),
        ("Edit", "search_replace", {"file_path": "a"}, True),
        ("WebFetch", "web_fetch", {"url": "u"}, True),
        ("Read", "write_file", {"path": "a"}, False),
        ("re*", "read_file", {"path": "a"}, True),
        ("mcp__docs__find", "docs_find", {}, True),
        ("Bash", "bash", {"command": "rm -r x"}, True),
        ("Bash(*)", "bash", {"command": "rm -r x"}, True),
        ("Bash(git add:*)", "bash", {"command": "git add -A"}, True),
        ("Bash(git add *)", "bash", {"command": "git add -A"}, True),
        ("Bash(git add:*)", "bash", {"command": "git push"}, False),
        ("Bash(git:*)", "bash", {"command": "gitk"}, False),
        ("Bash(git:*)", "bash", {"command": "git status; rm x"}, False),
        ("Bash(git:*)", "bash", {"command": "git log $(rm x)"}, False),
        ("Bash(git:*)", "bash", {"command": "git log\nrm x"}, False),
        ("Bash(npm test)", "bash", {"command": "npm test"}, True),
        ("Bash(npm test)", "bash", {"command": "npm test -- --watch"}, False),
        ("Bash(git:*)", "bash", {"command": "git 'log"}, False),
        ("Read(docs/*)", "read_file", {"path": "docs/a.md"}, True),
        ("Read(docs/*)", "read_file", {"path": "src/a.py"}, False),
        ("Read(docs/*)", "read_file", {"path": "./docs/a.md"}, True),
        ("Read(docs/*)", "read_file", {"path": "docs/../src/a.py"}, False),
        ("Grep", "skill", {"name": "other"}, True),
        ("", "bash", {"command": "ls"}, False),
    ],
)
def test_entries_cover_calls(entry: str, tool: str, arguments: dict[str, Any], expected: bool) -> None:  # noqa: FBT001  a table
    assert permits((entry,), tool, arguments) is expected
