"""The sources of prompts."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from vibe.core.instructions.system_prompt import (
    MAX_PROMPT_BYTES,
    PromptLibrary,
    builtin_prompts,
)
from vibe.system.errors import UsageError


def library(tmp_path: Path) -> PromptLibrary:
    for name in ("project", "user"):
        (tmp_path / name).mkdir()
    return PromptLibrary(folders=[tmp_path / "project", tmp_path / "user"])


def test_a_project_prompt_comes_before_the_users_and_that_before_ours(tmp_path: Path) -> None:
    found = library(tmp_path)
    ours = found.load("cli")
    assert "You are Vibe" in ours
    (tmp_path / "user" / "cli.md").write_text("the user's")
    assert found.load("cli") == "the user's"
    (tmp_path / "project" / "cli.md").write_text("the project's")
    assert found.load("cli") == "the project's"


def test_an_unknown_prompt_names_where_it_was_looked_for(tmp_path: Path) -> None:
    with pytest.raises(UsageError) as caught:
        library(tmp_path).load("mine")
    message = str(caught.value)
    assert f"{tmp_path}/project/mine.md, {tmp_path}/user/mine.md, the built-in" in message
    assert "system_prompt_id" in message
    assert "explore" in message


@pytest.mark.parametrize("prompt_id", ["", "../cli", "/etc/passwd", "a/b", ".hidden", "a\0b"])
def test_an_id_is_a_name_and_no_path(tmp_path: Path, prompt_id: str) -> None:
    (tmp_path / "cli.md").write_text("outside")
    with pytest.raises(UsageError, match="no prompt"):
        library(tmp_path).load(prompt_id)


def test_a_prompt_that_cannot_be_read_is_an_error(tmp_path: Path) -> None:
    found = library(tmp_path)
    file = tmp_path / "user" / "mine.md"
    file.write_bytes(b"\xff")
    with pytest.raises(UsageError, match="not UTF-8"):
        found.load("mine")
    file.write_bytes(b"x" * (MAX_PROMPT_BYTES + 1))
    with pytest.raises(UsageError, match="longer than"):
        found.load("mine")
    file.unlink()
    os.mkfifo(file)
    with pytest.raises(UsageError, match="not a regular file"):
        found.load("mine")


def test_the_built_in_prompts_are_short() -> None:
    assert {"cli", "explore", "tests", "project_context", "dangerous_directory"} <= set(builtin_prompts())
    for prompt_id in builtin_prompts():
        assert 0 < len(PromptLibrary().load(prompt_id)) < 4_000
