"""``vibe -p`` on a terminal: the person there is asked, and standard output holds only the answer.

Covers ``vibe.app.conversation``.
"""

from __future__ import annotations

import subprocess
import termios
from typing import Any

import pytest

from tests.e2e.conftest import VibeCommand
from tests.fakes.terminal import Terminal

WRITE = {"name": "write_file", "arguments": {"path": "a.txt", "content": "hello\n"}}
QUESTION = {"question": "Which one?", "header": "Auth", "options": [{"label": "JWT"}, {"label": "Cookies"}]}
APPROVAL = "n WHY  >"


def turns(*given: dict[str, Any]) -> dict[str, Any]:
    return {"agents": {"main": {"turns": list(given)}}}


@pytest.mark.parametrize(
    ("typed", "written", "said"), [("y\n", True, '"name":"write_file"}'), ("n not here\n", False, "not here")]
)
def test_a_call_that_needs_a_yes_is_asked_about(vibe: VibeCommand, typed: str, *, written: bool, said: str) -> None:
    vibe.replay(turns({"tool_calls": [WRITE]}, {"text": "That was it."}))
    with Terminal(100, 40) as terminal:
        before = termios.tcgetattr(terminal.slave)
        with vibe.on(terminal, "-p", "write a.txt", "--output-dir", "out", stdout=subprocess.PIPE) as process:
            terminal.wait_for("? new a.txt?")
            terminal.wait_for(APPROVAL)
            terminal.type(typed)
            out, _ = process.communicate(timeout=120)
        assert termios.tcgetattr(terminal.slave) == before

    assert (process.returncode, out) == (0, b"That was it.\n")
    assert (vibe.workdir / "a.txt").exists() is written
    assert said in (vibe.workdir / "out" / "messages.jsonl").read_text()


def test_an_agent_may_ask(vibe: VibeCommand) -> None:
    call = {"name": "ask_user_question", "arguments": {"questions": [QUESTION]}}
    vibe.replay(turns({"tool_calls": [call]}, {"text": "As you wish."}))
    with (
        Terminal(100, 40) as terminal,
        vibe.on(terminal, "-p", "go", "--output-dir", "out", stdout=subprocess.PIPE) as process,
    ):
        terminal.wait_for("? a question to you")
        terminal.wait_for("]  >")
        terminal.type("2\n")
        out, _ = process.communicate(timeout=120)

    assert (process.returncode, out) == (0, b"As you wish.\n")
    assert "Cookies" in (vibe.workdir / "out" / "messages.jsonl").read_text()


@pytest.mark.parametrize("output", ["json", "streaming"])
def test_programs_are_not_asked(vibe: VibeCommand, output: str) -> None:
    vibe.replay(turns({"tool_calls": [WRITE]}, {"text": "I was not allowed to."}))
    with (
        Terminal(100, 40) as terminal,
        vibe.on(terminal, "-p", "go", "--output", output, stdout=subprocess.PIPE) as process,
    ):
        out, _ = process.communicate(timeout=120)
        assert "? new" not in terminal.sent()

    assert process.returncode == 5
    assert b"blocked" in out


def test_a_signal_withdraws_the_question(vibe: VibeCommand) -> None:
    vibe.replay(turns({"tool_calls": [WRITE]}, {"text": "never"}))
    with Terminal(100, 40) as terminal:
        before = termios.tcgetattr(terminal.slave)
        with vibe.on(terminal, "-p", "go", stdout=subprocess.PIPE) as process:
            terminal.wait_for(APPROVAL)
            process.terminate()
            process.communicate(timeout=120)
        assert termios.tcgetattr(terminal.slave) == before

    assert process.returncode == 143
    assert not (vibe.workdir / "a.txt").exists()
