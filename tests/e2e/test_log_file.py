from __future__ import annotations

from typing import Any

import pytest

from tests.e2e.conftest import VibeCommand

BROKEN_TOOL = """
from vibe.core.tools.base import BaseTool, BaseToolConfig

class Breaks(BaseTool[BaseToolConfig]):
    description = "breaks"

    async def run(self) -> str:
        raise RuntimeError("no \\x1b[31mway, says MY_API_KEY=tell-nobody-1")
"""


def breaks(vibe: VibeCommand, times: int = 1) -> None:
    (vibe.home / "tools").mkdir(parents=True)
    (vibe.home / "tools" / "breaks.py").write_text(BROKEN_TOOL)
    call: dict[str, Any] = {"name": "breaks", "arguments": {}}
    turns = [{"tool_calls": [call, {"name": "todo", "arguments": {"action": "read", "n": n}}]} for n in range(times)]
    vibe.replay({"agents": {"main": {"turns": [*turns, {"text": "done"}]}}})


def test_what_went_wrong_inside_is_in_the_log_and_not_on_the_terminal(vibe: VibeCommand) -> None:
    breaks(vibe)
    vibe.environ["MY_API_KEY"] = "tell-nobody-1"

    ended = vibe("--yolo", "-p", "go")

    assert (ended.code, ended.err) == (0, "")
    log = vibe.home / "logs" / "vibe.log"
    text = log.read_text()
    assert "ERROR vibe.core.tools.executor: tool breaks failed\nTraceback" in text
    assert "\\x1b[31mway" in text
    assert "\x1b" not in text
    assert "tell-nobody" not in text
    assert log.stat().st_mode & 0o777 == 0o600


def test_a_full_log_begins_anew_and_the_last_one_stays(vibe: VibeCommand) -> None:
    breaks(vibe, times=2)
    vibe.environ["VIBE_LOG_MAX_BYTES"] = "100"

    assert vibe("--yolo", "-p", "go").code == 0

    logs = vibe.home / "logs"
    assert [path.name for path in sorted(logs.glob("vibe.log*"))] == ["vibe.log", "vibe.log.1"]
    assert all(path.read_text().count("tool breaks failed") == 1 for path in logs.glob("vibe.log*"))


def test_a_log_that_cannot_be_written_stops_nothing(vibe: VibeCommand) -> None:
    breaks(vibe)
    (vibe.home / "logs" / "vibe.log").mkdir(parents=True)

    ended = vibe("--yolo", "-p", "go")
    assert (ended.code, ended.out, ended.err) == (0, "done\n", "")


@pytest.mark.parametrize(
    ("variable", "value", "said"),
    [
        ("VIBE_LOG_LEVEL", "loud", "VIBE_LOG_LEVEL is 'loud': it must be one of DEBUG, INFO, WARNING, ERROR"),
        ("VIBE_LOG_MAX_BYTES", "5MB", "VIBE_LOG_MAX_BYTES is '5MB': it must be a number of bytes"),
    ],
)
def test_a_setting_of_the_log_that_cannot_be_meant_is_refused(
    vibe: VibeCommand, variable: str, value: str, said: str
) -> None:
    vibe.environ[variable] = value
    ended = vibe("config", "show")
    assert (ended.code, ended.err) == (2, f"vibe: {said}\n")
