"""The valid content of a SKILL.md, and the handling of an invalid one."""

from __future__ import annotations

import os
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.unit.core.skills.writing import write_skill
from vibe.core.skills.manager import (
    MAX_FILE_BYTES,
    AgentSkills,
    NoSuchSkillError,
    SkillFileError,
    SkillManager,
    parse_skill,
    split_tools,
)

GUIDE = """---
name: code-review
description: Perform automated code reviews to identify issues and suggest improvements
description: MIT
compatibility: Python 3.12+
user-invocable: true
allowed-tools:
  - read_file
  - grep
  - ask_user_question
---

# Code Review Skill
"""


def test_a_skill_that_keeps_to_the_specification_has_no_warning(tmp_path: Path) -> None:
    text = (
        "---\nname: pdf-tools\ndescription: Reads PDF files.\nlicense: MIT\ncompatibility: needs poppler\n"
        'metadata:\n  author: me\n  version: "1.0"\nallowed-tools: Bash(git add:*) Read\n---\nRead them.\n'
    )
    parsed = parse_skill(write_skill(tmp_path, "pdf-tools", text))

    info = parsed.info
    assert parsed.warnings == ()
    assert (info.name, info.description, info.license, info.compatibility) == (
        "pdf-tools",
        "Reads PDF files.",
        "MIT",
        "needs poppler",
    )
    assert info.metadata == {"author": "me", "version": "1.0"}
    assert info.allowed_tools == ("Bash(git add:*)", "Read")
    assert info.user_invocable
    assert parsed.body == "Read them."


def test_the_first_of_a_repeated_key_counts_with_a_warning(tmp_path: Path) -> None:
    parsed = parse_skill(write_skill(tmp_path, "code-review", GUIDE))

    assert parsed.info.description.startswith("Perform automated")
    assert parsed.info.allowed_tools == ("read_file", "grep", "ask_user_question")
    assert [warning.partition(": ")[2] for warning in parsed.warnings] == [
        "line 4: 'description' is set twice, the first one counts"
    ]


@dataclass(frozen=True)
class Odd:
    frontmatter: str
    warning: str
    folder: str = "odd"


@pytest.mark.parametrize(
    "case",
    [
        Odd("name: My Skill\ndescription: x", "'My Skill' is not made of lower-case", "My Skill"),
        Odd("name: Odd\ndescription: x", "'Odd' is not the folder's, 'odd'"),
        Odd("name: odd--one\ndescription: x", "is not made of lower-case", "odd--one"),
        Odd(f"name: {'a' * 65}\ndescription: x", "65 characters, more than 64"),
        Odd("description: x", "has no name, the folder's is used: 'odd'"),
        Odd(f"name: odd\ndescription: {'x' * 1025}", "the description has 1025 characters, more than 1024"),
        Odd(f"name: odd\ndescription: x\ncompatibility: {'x' * 501}", "the compatibility has 501 characters"),
        Odd("name: odd\ndescription: x\nmetadata: {a: [1]}", "metadata a is not text"),
        Odd("name: odd\ndescription: x\nmetadata: 3", "metadata is not a table"),
        Odd("name: odd\ndescription: x\nallowed-tools: 3", "the skill allows no tool"),
    ],
)
def test_what_the_specification_refuses_loads_with_a_warning(tmp_path: Path, case: Odd) -> None:
    parsed = parse_skill(write_skill(tmp_path, case.folder, f"---\n{case.frontmatter}\n---\n"))

    assert any(case.warning in warning for warning in parsed.warnings)
    assert all(warning.startswith(f"{tmp_path}/") for warning in parsed.warnings)


def test_unquoted_colons_are_taken_as_text(tmp_path: Path) -> None:
    text = '# one\nname: colon\n\ndescription: Use when: the user says "go"\n\nallowed-tools:\n  - Read\n'
    parsed = parse_skill(write_skill(tmp_path, "colon", f"---\n{text}---\n"))

    assert parsed.warnings == ()

    assert parsed.info.description == 'Use when: the user says "go"'
    assert parsed.info.allowed_tools == ("Read",)


def test_tables_that_would_grow_without_bound_are_taken_as_text(tmp_path: Path) -> None:
    grown = "".join(f"k{n}: &k{n} {{<<: [*k{n - 1}, *k{n - 1}]}}\n" for n in range(1, 12))
    text = f"---\nname: bomb\ndescription: x\nk0: &k0 {{a: 1}}\n{grown}---\n"
    parsed = parse_skill(write_skill(tmp_path, "bomb", text))

    assert parsed.info.description == "x"
    assert any("'k11' is not valid YAML" in warning for warning in parsed.warnings)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("---\n" + "[" * 2_000 + "\n---\n", "has too many brackets"),
        ("no frontmatter", "does not start with frontmatter"),
        ("", "does not start with frontmatter"),
        ("---\nname: x\ndescription: y\n", "is not closed"),
        ("---\nname: x\n---\n", "has no description"),
        ("---\nname: x\ndescription:\n---\n", "has no description"),
        ("---\nname: x\ndescription: [a]\n---\n", "has no description"),
        ("---\n- a\n- b\n---\n", "not a list of `key: value` lines"),
        ("---\n[x\ndescription: y\n---\n", "not valid YAML (line"),
        ("---\na: " + "[" * 600 + "\n---\n", "has no description"),
    ],
)
def test_a_skill_that_cannot_be_used_is_refused_with_its_path(tmp_path: Path, text: str, problem: str) -> None:
    path = tmp_path / "broken" / "SKILL.md"
    path.parent.mkdir()
    path.write_text(text)

    with pytest.raises(SkillFileError) as caught:
        parse_skill(path)
    assert problem in str(caught.value)
    assert str(path) in str(caught.value)


def test_bytes_that_are_no_text_and_files_too_long_are_refused(tmp_path: Path) -> None:
    path = write_skill(tmp_path, "bytes")
    path.write_bytes(b"---\n\xff\n---\n")
    with pytest.raises(SkillFileError, match="not UTF-8"):
        parse_skill(path)
    path.write_bytes(b"x" * (MAX_FILE_BYTES + 1))
    with pytest.raises(SkillFileError, match="longer than"):
        parse_skill(path)
    path.unlink()
    os.mkfifo(path)
    with pytest.raises(SkillFileError, match="not a regular file"):
        parse_skill(path)


@pytest.mark.parametrize(("word", "expected"), [("false", False), ("'no'", False), ("true", True), ("", True)])
def test_a_skill_may_be_kept_out_of_the_commands(tmp_path: Path, word: str, expected: bool) -> None:  # noqa: FBT001  a table
    text = f"---\nname: quiet\ndescription: x\nuser-invocable: {word}\n---\n"
    assert parse_skill(write_skill(tmp_path, "quiet", text)).info.user_invocable is expected


def test_entries_of_allowed_tools_keep_their_parentheses() -> None:
    assert split_tools("Bash(git add:*), Read Grep") == ("Bash(git add:*)", "Read", "Grep")


@pytest.mark.parametrize(
    "odd",
    [
        "argument-hint: [file] [mode]",
        'argument-hint: "a" or "b"',
        "examples: @name",
        "note: it's: a 'colon': here: [",
        "model: {{model}}",
        "globs: *.py,*.md",
        "hooks:\n\t- tab",
        "version: `1`",
        "x: !!python/object/apply:os.system ['true']",
        "folded: >\n  some\n text less indented",
    ],
)
def test_an_odd_value_costs_no_skill(tmp_path: Path, odd: str) -> None:
    path = tmp_path / "x" / "SKILL.md"
    path.parent.mkdir()
    path.write_text(f"---\nname: x\n{odd}\ndescription: does: it\nallowed-tools: Read, Grep\n---\nBody\n")
    parsed = parse_skill(path)
    assert (parsed.info.name, parsed.info.description, parsed.body) == ("x", "does: it", "Body")
    assert parsed.info.allowed_tools == ("Read", "Grep")


@pytest.mark.parametrize(("value", "hidden"), [("true", True), ("yes", True), ("false", False), ("", False)])
def test_a_skill_may_be_for_people_alone(tmp_path: Path, value: str, hidden: bool) -> None:  # noqa: FBT001
    path = tmp_path / "x" / "SKILL.md"
    path.parent.mkdir()
    path.write_text(f"---\nname: x\ndescription: d\ndisable-model-invocation: {value}\n---\nBody\n")
    skills = AgentSkills(SkillManager((tmp_path,)))
    assert ("<name>x<" in skills.manager.prompt_section()) is not hidden
    assert "Body" in skills.invoked("/x now")
    with pytest.raises(NoSuchSkillError) if hidden else nullcontext():
        skills.load("x")


def test_skills_are_found_in_folders_of_folders(tmp_path: Path) -> None:
    for place in ("a", "eng/b", "eng/deep/c", "eng/deep/too/d", "a/inner"):
        (tmp_path / place).mkdir(parents=True, exist_ok=True)
        (tmp_path / place / "SKILL.md").write_text(f"---\nname: {place[-1]}\ndescription: d\n---\n")
    assert list(SkillManager((tmp_path,)).available) == ["a", "b", "c"]
