"""Slash commands in files: the content of their bodies and headers takes effect, or is reported."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.fakes.unprivileged import folder_of_nobody
from vibe.core.skills.command_files import CommandFiles, NoSuchCommandError


def commands(folder: Path, text: str) -> CommandFiles:
    (folder / "go.md").write_text(text)
    return CommandFiles([folder])


def test_a_line_whose_output_belongs_into_the_prompt_is_run_by_the_agent(tmp_path: Path) -> None:
    filled = commands(tmp_path, "Review !`git diff $1` and !`ls`.").expanded("/go main")
    assert filled == (
        "Review (run `git diff main` first: its output belongs here) and (run `ls` first: its output belongs here)."
    )


@pytest.mark.parametrize("key", ["model", "agent", "allowed-tools"])
def test_a_key_of_the_header_without_effect_is_named(tmp_path: Path, key: str) -> None:
    warnings: list[str] = []
    (found,) = commands(tmp_path, f"---\n{key}: x\ndescription: d\n---\nGo.").listed(warnings)
    assert found.description == "d"
    assert [f"{key} in its header has no effect" in warning for warning in warnings] == [True]


@pytest.mark.parametrize("fence", ["---", "--- ", "-----"])
def test_a_header_is_no_part_of_the_prompt(tmp_path: Path, fence: str) -> None:
    (tmp_path / "go.md").write_text(f"{fence}\ndescription: Goes\n{fence}\nGo now\n")
    commands = CommandFiles([tmp_path])
    assert commands.expanded("/go") == "Go now"
    assert [command.description for command in commands.listed([])] == ["Goes"]


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "go.md")
    warnings: list[str] = []
    assert CommandFiles([tmp_path]).listed(warnings) == []
    assert all("not a regular file" in warning for warning in warnings)


def test_a_closed_folder_is_named_where_a_command_is_missing() -> None:
    with folder_of_nobody() as folder:
        (folder / "go.md").write_text("Go.")
        folder.chmod(0)
        with pytest.raises(NoSuchCommandError, match="can't be read, correct its permissions"):
            CommandFiles([folder]).expanded("/go")


@pytest.mark.parametrize(("name", "way"), [("thinking", "/model ALIAS"), ("loop", "cron")])
def test_a_command_of_mistral_vibe_names_the_way_here(tmp_path: Path, name: str, way: str) -> None:
    with pytest.raises(NoSuchCommandError, match=way):
        commands(tmp_path, "Go.").expanded(f"/{name}")
