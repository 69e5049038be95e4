"""Covers ``vibe.core.session``."""

from __future__ import annotations

import re
import shlex

from tests.e2e.conftest import REPOSITORY, VibeCommand

BLOCK = re.compile(r"^```(?P<language>\w+)\n(?P<text>.*?)^```$", re.DOTALL | re.MULTILINE)
GUIDE = REPOSITORY / "docs" / "guide" / "sessions.md"


def examples(language: str) -> list[str]:
    return [
        match["text"] for match in BLOCK.finditer(GUIDE.read_text(encoding="utf-8")) if match["language"] == language
    ]


def test_every_command_of_the_guide_does_what_it_should(vibe: VibeCommand) -> None:
    vibe.replay({"agents": {"main": {"turns": [{"text": "first"}, {"text": "second"}, {"text": "third"}]}}})
    session = vibe("--output", "json", "-p", "begin").document["session_id"]
    commands = [line for block in examples("sh") for line in block.splitlines()]

    ended = {line: vibe(*shlex.split(line.replace("3f2a", session))[1:]) for line in commands}

    assert len(commands) >= 8
    assert {line: command.err for line, command in ended.items() if command.code} == {}


def test_the_configuration_of_the_guide_is_valid(vibe: VibeCommand) -> None:
    (text,) = examples("toml")
    vibe.replay({"agents": {"main": {"turns": [{"text": "hello"}]}}})
    top, _, tables = text.partition("\n[[models]]")
    own = (vibe.home / "config.toml").read_text()
    vibe.configure(f"{top}\n{own}\n[[models]]{tables}")

    ended = vibe("-p", "hi")

    assert (ended.code, ended.out, ended.err) == (0, "hello\n", "")
