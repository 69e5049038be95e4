"""Covers ``vibe.core.tools.builtins``."""

from __future__ import annotations

import pytest

from tests.e2e.conftest import VibeCommand
from tests.e2e.test_subagents import agents, results_of
from tests.fakes.web_server import Page, WebServer


def fetching(vibe: VibeCommand, url: str) -> None:
    call = {"name": "web_fetch", "arguments": {"url": url}}
    vibe.replay(agents(main=[{"tool_calls": [call]}, {"text": "done"}]))


HERE = ["127.0.0.1", "[::1]", "[::ffff:127.0.0.1]", "0.0.0.0", "localhost", "2130706433"]  # noqa: S104  nothing is bound


@pytest.mark.parametrize("host", HERE)
def test_nothing_lifts_the_ban_on_this_machine(vibe: VibeCommand, host: str) -> None:
    with WebServer({"/": Page(b"secret", headers={"Content-Type": "text/plain"})}).running() as server:
        fetching(vibe, f"http://{host}:{server.port}/")
        with (vibe.home / "config.toml").open("a") as file:
            file.write('[tools.web_fetch]\npermission = "always"\nallowlist = ["*"]\n')

        result = results_of(vibe("--yolo", "--output", "streaming", "-p", "go").lines, "web_fetch")[0]

        assert result["status"] == "error"
        assert "secret" not in result["content"]
        assert server.hosts == []


def test_without_anybody_to_ask_nothing_is_fetched(vibe: VibeCommand) -> None:
    fetching(vibe, "https://example.com/")

    ended = vibe("--output", "json", "-p", "go")

    assert ended.code == 5
    assert ended.document["denied"][0]["summary"] == "web_fetch https://example.com/"
    assert "it reaches example.com" in ended.document["denied"][0]["reason"]


def test_questions_are_not_offered_where_nobody_can_answer(vibe: VibeCommand) -> None:
    options = [{"label": "a"}, {"label": "b"}]
    call = {"name": "ask_user_question", "arguments": {"questions": [{"question": "Which?", "options": options}]}}
    vibe.replay(agents(main=[{"tool_calls": [call]}, {"text": "then not"}]))

    lines = vibe("--output", "streaming", "-p", "go").lines

    result = results_of(lines, "ask_user_question")[0]
    assert result["status"] == "error"
    assert "unknown tool 'ask_user_question'" in result["content"]
    assert lines[-1]["outcome"] == "completed"
