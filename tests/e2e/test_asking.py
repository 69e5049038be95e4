"""Questions and decisions on the terminal, as a person meets them in ``vibe plan run``.

Covers ``vibe.cli.terminal``, ``vibe.app.plan``.
"""

from __future__ import annotations

import json
import termios
from typing import Any

import pytest

from tests.e2e.conftest import VibeCommand, command_step, interrupt
from tests.fakes.terminal import Terminal
from tests.fakes.waiting import until

DATABASE = {
    "id": "db",
    "question": "Which database?",
    "options": [{"id": "pg", "label": "PostgreSQL"}, {"id": "files", "label": "Plain files"}],
}
ASKS = {"id": "login", "title": "Log people in", "mode": "research"}
QUESTION = {"question": "Which one?", "header": "Auth", "options": [{"label": "JWT"}, {"label": "Cookies"}]}
PROMPT = "]  >"
MOMENTS = (2, 10, 50)
"""Seconds for which something waits. If a busy machine is not ready within one, the test tries the next."""


@pytest.fixture
def asking(vibe: VibeCommand) -> None:
    """Script the agent of ``login`` to ask its question and then end."""
    call = {"name": "ask_user_question", "arguments": {"questions": [QUESTION]}}
    vibe.replay({"agents": {"login": {"turns": [{"tool_calls": [call]}, {"text": "as you wish"}]}}})


def told_the_model(vibe: VibeCommand) -> str:
    """Return what the model of ``login`` read as the answer to its question."""
    (path,) = (vibe.home / "plans").glob("*/steps/login/messages.jsonl")
    messages = [json.loads(line) for line in path.read_text().splitlines()]
    return next(message["content"] for message in messages if message["role"] == "tool")


@pytest.mark.usefixtures("asking")
@pytest.mark.parametrize("executor", ["local", "process"])
def test_an_agent_asks_and_the_answer_reaches_its_model(vibe: VibeCommand, write_plan: Any, executor: str) -> None:
    plan = write_plan(ASKS)
    with Terminal(100, 40) as terminal:
        before = termios.tcgetattr(terminal.slave)
        with vibe.on(terminal, "plan", "run", plan, "--executor", executor) as process:
            terminal.wait_for("? a question to you  for step login")
            terminal.wait_for(PROMPT)
            terminal.type("a magic link\n")
            assert process.wait(timeout=120) == 0
        assert termios.tcgetattr(terminal.slave) == before
    assert told_the_model(vibe) == "Which one?\n→ a magic link (own words)"


@pytest.mark.usefixtures("asking")
def test_nobody_at_a_terminal_means_no_such_tool(vibe: VibeCommand, write_plan: Any) -> None:
    assert vibe("plan", "run", write_plan(ASKS)).code == 0
    assert "unknown tool 'ask_user_question'" in told_the_model(vibe)


@pytest.mark.usefixtures("asking")
def test_a_question_is_withdrawn_when_its_step_runs_out_of_time(vibe: VibeCommand, write_plan: Any) -> None:
    for seconds in MOMENTS:
        (vibe.workdir / "go").unlink(missing_ok=True)
        wait = "while [ ! -e go ]; do sleep 0.05; done; echo went on"
        plan = write_plan({**ASKS, "timeout_seconds": seconds}, command_step("next", wait))
        with Terminal(100, 40) as terminal, vibe.on(terminal, "plan", "run", plan) as process:
            terminal.wait_for("✗ ")
            asked = PROMPT in terminal.sent()
            (vibe.workdir / "go").touch()
            assert process.wait(timeout=120) == 4
            screen = terminal.screen()
            assert not any("/2 · " in line for line in screen), "the picture was drawn again, and taken away"
        if asked:
            return
    pytest.fail("it never came to the question in time")


@pytest.mark.usefixtures("asking")
def test_interrupts_at_a_question_pause_and_then_stop(vibe: VibeCommand, write_plan: Any) -> None:
    with Terminal(100, 40) as terminal:
        before = termios.tcgetattr(terminal.slave)
        with vibe.on(terminal, "plan", "run", write_plan(ASKS)) as process:
            terminal.wait_for(PROMPT)
            interrupt(process)
            interrupt(process)
            assert process.wait(timeout=120) == 130
            terminal.wait_for("vibe plan resume")
        assert termios.tcgetattr(terminal.slave) == before


def test_a_decision_is_taken_while_other_steps_go_on(vibe: VibeCommand, write_plan: Any) -> None:
    plan = write_plan(
        command_step("other", "sleep 1; echo done > other.txt"),
        command_step("setup", "echo pg > choice.txt", decision="db", when={"db": ["pg"]}),
        command_step("files", "echo files > choice.txt", decision="db", when={"db": ["files"]}),
        decisions=[DATABASE],
    )
    with Terminal(100, 40) as terminal, vibe.on(terminal, "plan", "run", plan) as process:
        terminal.wait_for("? db: Which database?")
        terminal.wait_for(PROMPT)
        until(lambda: (vibe.workdir / "other.txt").exists() or process.poll() is not None)
        terminal.type("1\n")
        assert process.wait(timeout=120) == 0
    assert (vibe.workdir / "choice.txt").read_text() == "pg\n"


def test_nobody_answers_in_time_and_the_default_is_taken(vibe: VibeCommand, write_plan: Any) -> None:
    for seconds in MOMENTS:
        decision = {**DATABASE, "default": "files", "timeout_seconds": seconds}
        plan = write_plan(command_step("one", "echo $0 > done.txt", decision="db"), decisions=[decision])
        with Terminal(100, 40) as terminal, vibe.on(terminal, "plan", "run", plan) as process:
            assert process.wait(timeout=120) == 0
            asked = "choosing Plain files" in terminal.sent()
        assert (vibe.workdir / "done.txt").exists()
        (vibe.workdir / "done.txt").unlink()
        if asked:
            return
    pytest.fail("it never came to the question in time")


def test_not_now_leaves_the_plan_paused_and_a_resume_asks_again(vibe: VibeCommand, write_plan: Any) -> None:
    plan = write_plan(command_step("one", "touch done.txt", decision="db"), decisions=[DATABASE])
    with Terminal(100, 40) as terminal, vibe.on(terminal, "plan", "run", plan) as process:
        terminal.wait_for(PROMPT)
        terminal.type("\x1b")
        assert process.wait(timeout=120) == 5
        terminal.wait_for("paused (waits for a decision)")
    (plan_id,) = vibe.plan_ids()
    with Terminal(100, 40) as terminal, vibe.on(terminal, "plan", "resume", plan_id) as process:
        terminal.wait_for(PROMPT)
        terminal.type("2\n")
        assert process.wait(timeout=120) == 0
    assert (vibe.workdir / "done.txt").exists()


def test_what_becomes_of_a_failed_step_is_asked_in_the_same_way(vibe: VibeCommand, write_plan: Any) -> None:
    plan = write_plan(
        command_step("flaky", "test -e again || { touch again; exit 3; }", on_failure="ask"),
        command_step("then", "touch done.txt", depends_on=["flaky"]),
    )
    with Terminal(100, 40) as terminal, vibe.on(terminal, "plan", "run", plan) as process:
        terminal.wait_for("? failed:flaky:1:")
        terminal.wait_for("1) Retry it from the start")
        terminal.wait_for(PROMPT)
        terminal.type("1\n")
        assert process.wait(timeout=120) == 0
    assert (vibe.workdir / "done.txt").exists()
