"""The word to complete, and the references that mentions understand."""

from __future__ import annotations

from pathlib import Path

import pytest

from vibe.app.conversation.mentions import with_mentioned_files
from vibe.cli.textual_ui.input.prompt_input import CompletedWord, mention_of, word_at
from vibe.core.tools.workspace import Workspace


def word(line: str, *, is_first: bool = True, is_shell: bool = False) -> CompletedWord | None:
    return word_at(line, is_first=is_first, is_shell=is_shell)


@pytest.mark.parametrize(
    ("line", "typed", "length"),
    [
        ("@", "", 1),
        ("see @src/ma", "src/ma", 7),
        ('see @"my fi', "my fi", 7),
        ("/plan do @x", "x", 2),
        ("\t@x", "x", 2),
    ],
)
def test_a_file_is_completed(line: str, typed: str, length: int) -> None:
    assert word(line) == CompletedWord(typed=typed, length=length, is_file=True)


@pytest.mark.parametrize("line", ["me@host", "@a b", '@"a b" c', "", "text", "a /b", '@"done"', "/plan show st"])
def test_other_words_are_not_completed(line: str) -> None:
    assert word(line) is None


def test_a_command_is_completed_at_the_very_beginning_only() -> None:
    assert word("/pl") == CompletedWord(typed="pl", length=3)
    assert word("/pl", is_first=False) is None


def test_a_shell_line_has_no_completion() -> None:
    assert word("!git log @", is_shell=True) is None


@pytest.mark.parametrize("name", ["plain.py", "with blank.py", "ends).", "dir/ü.md", "a@b", "(x)", "-dash"])
def test_what_is_put_in_is_read_as_a_mention(name: str, tmp_path: Path) -> None:
    file = tmp_path / name
    file.parent.mkdir(exist_ok=True)
    file.write_text("what it says")

    prompt = with_mentioned_files(f"see {mention_of(name)} please", Workspace(root=tmp_path))

    assert f'<file path="{name}">\nwhat it says' in prompt
