"""Every command, actually started: the installed command prints what its command line prints inside this process.

Covers ``vibe.cli``.
"""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.e2e.conftest import Finished, VibeCommand
from tests.e2e.test_prompt import turns
from vibe.cli.grammar import COMMANDS

EXECUTES = True  # the start itself is what these are about
LINES = (
    ["agents", "list"],
    ["config", "show"],
    ["dashboard"],
    ["doctor"],
    ["events", "list"],
    ["events", "tail", "nobody"],
    ["mcp", "list"],
    ["memory", "list"],
    ["migrate", "--dry-run"],
    ["permissions", "explain", "bash", "ls"],
    ["models"],
    ["cluster", "status"],
    ["completions", "bash"],
    ["help", "plan"],
    ["plam", "run"],
    ["plan", "list"],
    ["plan", "show", "none.json"],
    ["plan", "schema"],
    ["session", "list"],
    ["setup", "--provider", "nobody"],
    ["skills", "list"],
    ["tools", "list"],
    ["trust", "list"],
    ["usage"],
    ["-p", "go"],
    ["--hlep"],
    ["--version"],
    ["--help"],
)


def test_every_command_is_started_here() -> None:
    assert {words[0] for words in LINES} >= set(COMMANDS)


@pytest.mark.parametrize("words", LINES, ids=" ".join)
def test_the_installed_command_says_what_its_command_line_says(vibe: VibeCommand, words: list[str]) -> None:
    vibe.replay(turns({"text": "fine"}, {"text": "fine"}))

    assert vibe.process(*words) == vibe(*words)


HEAVY = (
    "acp",
    "anyio",
    "asyncio",
    "httpx2",
    "mcp",
    "mistralai",
    "networkx",
    "pydantic",
    "pynng",
    "rich",
    "vibe.app.conversation.runtime",
)


HELP = [["--version"], ["--help"], *([name, "--help"] for name in COMMANDS), ["help", "config"], ["completions", "zsh"]]


@pytest.mark.parametrize("words", HELP, ids=" ".join)
def test_help_loads_nothing_that_only_work_needs(vibe: VibeCommand, words: list[str]) -> None:
    vibe.environ["PYTHONPROFILEIMPORTTIME"] = "1"

    ended = vibe.process(*words)

    imported = {line.rpartition("|")[2].strip() for line in ended.err.splitlines() if "|" in line}
    assert "vibe.cli.main" in imported
    assert imported.isdisjoint(HEAVY)


@pytest.mark.parametrize("words", [["-p", "go"], ["tools", "list"], ["mcp", "serve"]], ids=" ".join)
def test_what_only_editors_need_is_on_no_other_path(vibe: VibeCommand, words: list[str]) -> None:
    vibe.replay(turns({"text": "fine"}))
    vibe.environ["PYTHONPROFILEIMPORTTIME"] = "1"

    ended = vibe.process(*words)

    imported = {line.rpartition("|")[2].strip().partition(".")[0] for line in ended.err.splitlines() if "|" in line}
    assert "anyio" in imported
    assert "acp" not in imported


def test_the_package_is_a_program(vibe: VibeCommand) -> None:
    ended = subprocess.run(
        [sys.executable, "-m", "vibe", "plan", "list", "--output", "json"],
        cwd=vibe.workdir,
        env=vibe.variables(),
        capture_output=True,
        text=True,
        check=False,
    )

    assert Finished(ended.returncode, ended.stdout, ended.stderr) == Finished(0, "[]\n", "")
