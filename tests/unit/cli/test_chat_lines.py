"""Lines of a conversation without a screen."""

from __future__ import annotations

import pytest

from ipc import events as e
from vibe.cli.plain.chat import ChatLines


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("[stderr]\ncat: x: No such file or directory\n[exit code 3]", "  exit 3: cat: x: No such file or directory\n"),
        ("ran 2\nAssertionError: 1 != 2\n[exit code 3]\n[cut]", "  exit 3: AssertionError: 1 != 2\n"),
        ("[exit code 3]", "  exit 3\n"),
    ],
)
def test_a_command_that_failed_is_told_with_its_reason(content: str, told: str) -> None:
    said: list[str] = []
    display = e.CommandDisplay(command="run", exit_code=3)
    ended = e.ToolResultEvent(tool_call_id="1", tool="bash", status="ok", content=content, display=display)
    ChatLines(said.append).publish(ended)
    assert said == [told]
