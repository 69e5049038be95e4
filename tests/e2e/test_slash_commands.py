"""Prompts kept in files: ``-p "/name words"``.

Covers ``vibe.front.slash.commands``, ``vibe.core.skills``.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.e2e.conftest import VibeCommand
from tests.e2e.test_prompt import turns


def command(folder: Path, name: str, text: str) -> None:
    (folder / "commands").mkdir(parents=True, exist_ok=True)
    (folder / "commands" / f"{name}.md").write_text(text)


def told(vibe: VibeCommand, prompt: str, *flags: str) -> str:
    """Return what the model receives for a prompt."""
    vibe.replay(turns({"text": "fine"}))
    record = vibe(*flags, "--output", "json", "-p", prompt).document
    transcript = vibe.home / "logs" / "session" / record["session_id"] / "messages.jsonl"
    return json.loads(transcript.read_text().splitlines()[0])["content"]


@pytest.mark.parametrize(
    ("text", "prompt", "expected"),
    [
        ("Review $1 for $2.", "/review app.py style more", "Review app.py for style."),
        ("Review: $ARGUMENTS", "/review app.py\nand  the rest", "Review: app.py\nand  the rest"),
        ("Review everything.", "/review", "Review everything."),
        ("Review.", "/review only a.py", "Review.\n\nonly a.py"),
        ("---\ndescription: looks\n---\nReview.\n---\nmore", "/review", "Review.\n---\nmore"),
        ("Cost: $10 $0 $X", "/review a", "Cost:  $0 $X"),
        ("Say $ARGUMENTS", "/review $1 twice", "Say $1 twice"),
    ],
)
def test_a_command_is_the_prompt_in_its_file(vibe: VibeCommand, text: str, prompt: str, expected: str) -> None:
    command(vibe.home, "review", text)

    assert told(vibe, prompt) == expected


def test_a_projects_commands_are_there_where_it_is_trusted_and_win(vibe: VibeCommand) -> None:
    command(vibe.home, "review", "mine")
    command(vibe.workdir / ".vibe", "review", "the project's")
    command(vibe.workdir / ".vibe", "release", "ship it")

    assert told(vibe, "/review") == "mine"
    assert told(vibe, "/review", "--trust") == "the project's"
    assert vibe("-p", "/release").code == 2


def test_a_command_that_is_not_there_does_not_go_to_the_model(vibe: VibeCommand) -> None:
    vibe.replay(turns({"text": "fine"}))
    assert "unknown command '/reveiw': none are defined here" in vibe("-p", "/reveiw app.py").err
    command(vibe.home, "review", "Review.")

    ended = vibe("-p", "/reveiw app.py")

    assert (ended.code, ended.out, ended.err.count("\n")) == (2, "", 1)
    assert "unknown command '/reveiw': did you mean '/review'?" in ended.err
    assert not (vibe.home / "logs" / "session").exists()


@pytest.mark.parametrize("prompt", ["/etc is broken", "/usr/bin/env fails", "/", "// a comment", "what is /reveiw?"])
def test_a_path_is_no_command(vibe: VibeCommand, prompt: str) -> None:
    assert told(vibe, prompt) == prompt


def test_an_empty_command_is_told_by_its_file(vibe: VibeCommand) -> None:
    command(vibe.home, "review", "---\ndescription: x\n---\n")
    vibe.replay(turns({"text": "fine"}))

    assert vibe("-p", "/review").err.endswith("review.md: it has no prompt, write one\n")
