"""A server in a conversation on a terminal: its prompts are slash commands, and the person answers its questions.

Covers ``vibe.core.tools.mcp``, ``vibe.cli.plain``, ``vibe.front.slash``.
"""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.conftest import VIBE, VibeCommand
from tests.fakes.mcp_peers import PEN
from tests.fakes.tmux import SECONDS, Tmux
from tests.fakes.waiting import until

FORM: dict[str, Any] = {
    "type": "object",
    "properties": {"count": {"type": "integer", "minimum": 1}, "gift": {"type": "boolean", "title": "A gift"}},
    "required": ["count"],
}
ASK = {"tool_calls": [{"name": "pen_ask", "arguments": {"schema": json.dumps(FORM)}}]}


def offer(vibe: VibeCommand, *turns: dict[str, Any]) -> None:
    vibe.replay({"agents": {"main": {"turns": list(turns)}}})
    with (vibe.home / "config.toml").open("a") as file:
        command = json.dumps([*PEN, "stdio"])
        entry = f'name = "pen"\ntransport = "stdio"\ncommand = {command}\nstartup_timeout_sec = 60.0\n'
        file.write(f'\n[[mcp_servers]]\n{entry}[tools.pen_ask]\npermission = "always"\n')


def begin(tmux: Tmux, vibe: VibeCommand) -> None:
    """Start a conversation, and wait until the server is ready."""
    tmux.start([VIBE, "--plain"], cwd=vibe.workdir, env=vibe.variables())
    tmux.wait_for("Ctrl-D quits")
    deadline = time.monotonic() + SECONDS
    while not any("/pen:review PLACE [TONE]: Ask for a review." in line for line in tmux.screen()):
        assert time.monotonic() < deadline
        tmux.wait_for_last("> ")
        tmux.type("/help")


def leave(tmux: Tmux) -> None:
    tmux.wait_for_last("> ")
    tmux.press("C-d")
    tmux.wait_for("EXIT 0")


def sessions(vibe: VibeCommand) -> str:
    return "".join(path.read_text() for path in vibe.home.rglob("*.jsonl"))


def test_a_servers_prompt_is_listed_and_sent_and_never_taken_for_a_command(vibe: VibeCommand, tmp_path: Path) -> None:
    offer(vibe, {"text": "Reviewed."})
    with Tmux(tmp_path) as tmux:
        begin(tmux, vibe)
        tmux.type("/pen:review")
        tmux.wait_for("review needs place: type PLACE [TONE] after it")
        tmux.type("/pen:review src very frank")
        tmux.wait_for("Reviewed.")
        leave(tmux)

    assert "/exit is what a very frank review of src does not say" in sessions(vibe)


CALLS = {
    "in order": ("/pen:review src very frank", 0, "what a very frank review of src does not say"),
    "by name": ("/pen:review tone=mild place=src", 0, "what a mild review of src does not say"),
    "none given": ("/pen:review", 2, "review needs place: type PLACE [TONE] after it"),
    "no such prompt": ("/pen:reveiw src", 2, "unknown command '/pen:reveiw'"),
    "no such server": ("/pencil:review src", 2, "unknown command '/pencil:review'"),
}


@pytest.mark.parametrize(("prompt", "code", "said"), CALLS.values(), ids=CALLS)
def test_a_script_calls_a_servers_prompt(vibe: VibeCommand, prompt: str, code: int, said: str) -> None:
    offer(vibe, {"text": "Reviewed."})
    ended = vibe("-p", prompt)

    assert ended.code == code, ended.err
    assert said in (sessions(vibe) if code == 0 else ended.err)


def test_a_servers_prompt_may_be_the_first_of_a_conversation(vibe: VibeCommand, tmp_path: Path) -> None:
    offer(vibe, {"text": "Reviewed."})
    with Tmux(tmp_path) as tmux:
        tmux.start([VIBE, "--plain", "/pen:review src frank"], cwd=vibe.workdir, env=vibe.variables())
        tmux.wait_for("Reviewed.")
        leave(tmux)

    assert "what a frank review of src does not say" in sessions(vibe)


def begin_prompt(tmux: Tmux) -> None:
    """Type the beginning of the prompt's name until the server is ready and the prompt is offered."""
    deadline = time.monotonic() + SECONDS
    while not any("/pen:review PLACE [TONE]  Ask for a review." in line for line in tmux.screen()):
        assert time.monotonic() < deadline, "\n".join(tmux.screen())
        tmux.press("C-u")
        tmux.type("/pen", enter=False)
        time.sleep(0.3)


def test_on_the_screen_a_servers_prompt_is_offered_also_once_another_session_is_resumed(
    vibe: VibeCommand, tmp_path: Path
) -> None:
    offer(vibe, {"text": "Reviewed."})
    with Tmux(tmp_path) as tmux:
        tmux.start([VIBE], cwd=vibe.workdir, env=vibe.variables())
        tmux.wait_for("> Ask")
        begin_prompt(tmux)
        tmux.press("Enter", "Enter")  # the first accepts the offer
        tmux.wait_for("review needs place: type PLACE [TONE] after it")
        tmux.type(" src very frank")
        tmux.wait_for("Reviewed.")
        session = next((vibe.home / "logs" / "session").iterdir()).name
        tmux.type("/clear")
        tmux.wait_for("new conversation;")
        tmux.type(f"/resume {session[:8]}")
        tmux.wait_for("Reviewed.")
        until(lambda: not any("new conversation;" in line for line in tmux.screen()))
        begin_prompt(tmux)
        tmux.press("C-c", "C-d")
        tmux.wait_for("EXIT 0")

    assert "/exit is what a very frank review of src does not say" in sessions(vibe)


def test_a_servers_form_is_filled_in_and_what_does_not_fit_is_asked_again(vibe: VibeCommand, tmp_path: Path) -> None:
    offer(vibe, ASK, {"text": "Ordered."})
    with Tmux(tmp_path) as tmux:
        begin(tmux, vibe)
        tmux.type("order it")
        tmux.wait_for("MCP server 'pen' asks: About your order")
        tmux.wait_for("count (a whole number; at least 1)")
        tmux.type("none")
        tmux.wait_for("A gift (may be left blank)")
        tmux.type("1")
        tmux.wait_for("Not taken: 'none' is not a whole number")
        tmux.type("1")
        tmux.wait_for("Ordered.")
        leave(tmux)

    given = json.dumps(json.dumps({"action": "accept", "content": {"count": 1, "gift": True}}))
    assert given.strip('"') in sessions(vibe)


def test_where_nobody_can_answer_a_server_hears_so_and_the_run_goes_on(vibe: VibeCommand) -> None:
    offer(vibe, ASK, {"text": "Not ordered."})

    ended = vibe("-p", "order it")

    assert (ended.code, ended.out.strip()) == (0, "Not ordered.")
