"""The guide to permissions shows what really happens.

Covers ``vibe.core.tools``, ``vibe.app.inspect``.
"""

from __future__ import annotations

import re
import shlex
import tomllib

import pytest

from tests.e2e.conftest import REPOSITORY, VibeCommand

GUIDE = (REPOSITORY / "docs" / "guide" / "permissions.md").read_text(encoding="utf-8")
CONSOLE = re.compile(r"^```console\n(.*?)^```$", re.DOTALL | re.MULTILINE)
SETTINGS = re.compile(r"^```toml\n# config.toml\n(.*?)^```$", re.DOTALL | re.MULTILINE)


def examples() -> list[tuple[str, str]]:
    """Return each command of the guide with the output that it shows."""
    return [
        (command, shown)
        for block in CONSOLE.findall(GUIDE)
        for command, shown in re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", block, re.MULTILINE)
    ]


@pytest.mark.parametrize(("command", "shown"), examples())
def test_an_example_prints_what_the_guide_shows(vibe: VibeCommand, command: str, shown: str) -> None:
    program, *words = shlex.split(command)
    assert program == "vibe"
    ended = vibe(*words)
    assert ended.err == ""
    assert ended.out
    if shown:
        assert ended.out == shown


def test_there_are_examples() -> None:
    assert len([shown for _, shown in examples() if shown]) >= 6


def test_the_settings_of_the_guide_are_valid_and_do_what_it_says(vibe: VibeCommand) -> None:
    vibe.configure("\n".join(SETTINGS.findall(GUIDE)))
    assert tomllib.loads((vibe.home / "config.toml").read_text())["sandbox"]["mode"] == "auto"
    for line, decision in (
        ("npm test -- -u", "allow"),
        ("npm publish", "deny"),
        ("git push --force", "deny"),
        ("ls", "allow"),
    ):
        assert vibe("permissions", "explain", "bash", line).out.startswith(decision), line
