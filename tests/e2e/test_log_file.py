"""Covers ``vibe.cli``."""

from __future__ import annotations

from typing import Any

import pytest

from tests.e2e.conftest import VibeCommand
from tests.fakes.model_server import ModelServer, Received, Reply, ServedCall

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


def served(vibe: VibeCommand, server: ModelServer) -> None:
    vibe.configure(
        f'active_model = "m"\n[[providers]]\nname = "local"\napi_base = "{server.api_base}"\nretry_max_seconds = 1\n'
        '[[models]]\nname = "m"\nprovider = "local"\n'
    )


@pytest.mark.parametrize(("level", "retries"), [("", False), ("INFO", True), ("DEBUG", True)])
def test_a_provider_that_failed_is_in_the_log(vibe: VibeCommand, level: str, *, retries: bool) -> None:
    vibe.environ["VIBE_LOG_LEVEL"] = level
    with ModelServer(responder=out_of_order) as server:
        served(vibe, server)
        assert vibe("-p", "go").code == 3

    text = (vibe.home / "logs" / "vibe.log").read_text()
    assert (
        "ERROR vibe.app.engine.event_publishing: model.provider: provider 'local' answered with an error (HTTP 500): out of order"
        in text
    )
    assert ("model.retry: " in text) is retries


def out_of_order(_request: Received) -> Reply:
    return Reply(status=500, body='{"error": {"message": "out of order"}}')


def test_at_debug_it_tells_the_course_of_a_run_but_not_what_was_said(vibe: VibeCommand) -> None:
    vibe.environ["VIBE_LOG_LEVEL"] = "DEBUG"
    with ModelServer() as server:
        served(vibe, server)
        call = ServedCall(name="bash", arguments='{"command": "echo a-private-word"}')
        refused = ServedCall(name="bash", arguments='{"command": "sudo a-private-program"}', id="call00002")
        server.enqueue(Reply(tool_calls=(call, refused)), Reply(text="a-private-answer"))
        assert vibe("--yolo", "-p", "a-private-question").code == 0

    text = (vibe.home / "logs" / "vibe.log").read_text()
    for told in (
        "session.started",
        "tool.call tool='bash'",
        "status='ok'",
        "usage",
        "completion_tokens=7",
        "session.ended",
    ):
        assert told in text
    assert "a-private" not in text
