"""The table of slash commands: cheap to import, and complete."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import cast

import pytest

from vibe.front.slash.command import SlashCommand, Talk, TypedCommand
from vibe.front.slash.table import SlashTable

ROOT = Path(__file__).resolve().parents[4]
NOBODY = cast("Talk", object())
"""A talk for commands that do not use it."""


async def _nothing(_talk: Talk, _typed: TypedCommand) -> None:
    """Do nothing."""


THEME = SlashCommand(name="theme", about="change the colours", usage="NAME", handler=_nothing)


def test_names_and_descriptions_cost_nothing_to_import() -> None:
    program = (
        "import sys\nfrom vibe.front.slash.table import SlashTable\nassert len(SlashTable()) > 10\n"
        "print(*(name for name in sys.modules if name.partition('.')[0] in"
        " {'anyio', 'httpx', 'ipc', 'msgspec', 'planner', 'pydantic', 'subagents', 'textual'}"
        " or name.startswith(('vibe.app', 'vibe.core'))))"
    )

    ended = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)

    assert ended.stdout.split() == []


@pytest.mark.parametrize("name", SlashTable())
def test_a_command_says_what_it_is_for(name: str) -> None:
    command = SlashTable()[name]

    assert command.name == name
    assert command.about
    assert command.line.startswith(f"/{name}")


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("/cost", TypedCommand(name="cost")),
        (" /plan  Build  the thing ", TypedCommand(name="plan", rest="Build  the thing")),
        ("/theme dark", TypedCommand(name="theme", rest="dark")),
        ("/costs", None),
        ("cost", None),
        ("/", TypedCommand(name="help")),
        (" / ", TypedCommand(name="help")),
        ("/ 2", None),
        ("", None),
        ("/etc/cost", None),
    ],
)
def test_a_line_calls_the_command_it_begins_with(line: str, expected: TypedCommand | None) -> None:
    called = SlashTable({"theme": THEME}).called(line)

    assert (called and called[1]) == expected


async def test_a_command_without_a_list_to_choose_from_has_no_picker() -> None:
    picker = SlashTable()["cost"].picker

    assert picker is not None
    assert await picker(NOBODY) is None
