"""A run in one process, watched, answered and steered from the screen of another.

Covers ``vibe.cli.textual_ui``, ``ipc``.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.conftest import VibeCommand, command_step
from tests.e2e.test_events_answer import DATABASE, STEP, WritePlan, printed, shell
from tests.e2e.test_story import CHECK, PLAIN, PREFER, READY, STORE, WORDS, WRITE, respond
from tests.fakes.model_server import ModelServer
from tests.fakes.tmux import SECONDS, Tmux

WINDOW = (120, 36)
WITHDRAWN_SECONDS = 1.0
"""Seconds within which a question that is answered on one terminal disappears from another."""


def test_a_plan_run_elsewhere_is_answered_and_seen_to_its_end(
    vibe: VibeCommand, write_plan: WritePlan, tmux: Tmux
) -> None:
    vibe.replay({"agents": {"w": {"turns": [shell("touch made"), shell("touch more"), {"text": "done"}]}}})
    process = vibe.start("plan", "run", write_plan(STEP), "--wait")
    plan, _ = printed(process, r"answer with: vibe plan approve (\S+) (\S+)")
    vibe.at(tmux, "--attach", plan)
    tmux.wait_for("touch made")
    tmux.wait_for("y yes")
    tmux.press("1")
    tmux.wait_for("touch more")
    _, request = printed(process, r"answer with: vibe plan approve (\S+) (\S+)")
    assert vibe("events", "answer", plan, request, "y").code == 0  # so it is withdrawn on the screen
    tmux.wait_for("has ended")
    tmux.wait_for("1/1 · ")
    tmux.wait_for("vibe plan review ")  # a command of the screen can't be sent
    assert not any("y yes" in line for line in tmux.screen())
    tmux.type("/exit")
    tmux.wait_for("EXIT 0")
    process.communicate(timeout=120)

    assert process.returncode == 0
    assert (vibe.workdir / "made").exists()
    assert (vibe.workdir / "more").exists()


@pytest.fixture
def other(tmp_path: Path) -> Iterator[Tmux]:
    (tmp_path / "other").mkdir()
    with Tmux(tmp_path / "other", columns=120, rows=36) as terminal:
        yield terminal


def gone(terminal: Tmux, text: str) -> float:
    """Wait until the last lines no longer show a text, and return the unix time."""
    deadline = time.monotonic() + SECONDS
    while any(text in line for line in terminal.screen()[-8:]):
        assert time.monotonic() < deadline, "\n".join(terminal.screen())
        time.sleep(0.02)
    return time.time()


def announced(vibe: VibeCommand, kind: str) -> float:
    """Return the unix time of the first event of a kind."""
    journals = (vibe.home / "run").glob("*/journal.jsonl")
    lines = (json.loads(line) for path in journals for line in path.read_text().splitlines())
    return next(line["ts"] for line in lines if line["type"] == kind)


def test_one_plan_is_run_at_one_terminal_and_answered_and_steered_at_another_too(
    vibe: VibeCommand, server: ModelServer, write_plan: WritePlan, tmux: Tmux, other: Tmux
) -> None:
    vibe.environ["SERVED_KEY"] = "k"
    plan = write_plan(READY, PREFER, WRITE, CHECK, STORE, PLAIN, decisions=[DATABASE])
    server.responder = respond
    vibe.at(other, "plan", "run", plan, "--wait")
    other.wait_for("n WHY")
    vibe.at(tmux, "--attach", vibe.plan_ids()[0])
    tmux.wait_for("s this session")
    tmux.press("1")  # answered here, so withdrawn there
    assert gone(other, "n WHY") - announced(vibe, "approval.decided") < WITHDRAWN_SECONDS
    (vibe.workdir / "ready").touch()
    tmux.wait_for("1-3 answer")
    other.wait_for("2) Cookies")
    other.type("2")  # answered there, so withdrawn here
    assert gone(tmux, "1-3 answer") - announced(vibe, "question.answered") < WITHDRAWN_SECONDS
    tmux.wait_for("1-2 decide")
    tmux.press("1")
    tmux.wait_for("→ Which database?  PostgreSQL")
    tmux.wait_for("3/6 · ")
    tmux.press("F2", "Enter")
    tmux.wait_for("←→ agent")
    tmux.press("t")
    tmux.type(WORDS)
    tmux.wait_for("before its next")
    (vibe.workdir / "gate").touch()
    tmux.wait_for("It is called ember.")
    tmux.press("Escape", "Escape")
    tmux.wait_for("Plan completed · ")
    tmux.wait_for("has ended")
    other.wait_for("EXIT 0")
    [told] = [request for request in server.requests if WORDS in json.dumps(request.body["messages"])]

    assert told.body["messages"][-1]["content"] == WORDS
    assert [(vibe.workdir / name).read_text() for name in ("made.txt", "store.txt")] == ["made\n", "pg\n"]


def test_what_cannot_be_attached_to_is_a_sentence(vibe: VibeCommand, tmux: Tmux) -> None:
    vibe.at(tmux, "--attach", "nothing")
    tmux.wait_for("vibe: ")
    tmux.wait_for("nothing")
    tmux.wait_for("EXIT ")

    assert vibe("--attach", "x", "-p", "hi").code == 2
    vibe.at(tmux, "--attach", "nothing", "--model", "large", "--yolo")
    tmux.wait_for("--attach shows a run as it was begun: leave out --model, --yolo")


def test_commands_to_a_run_elsewhere(vibe: VibeCommand, write_plan: WritePlan, tmux: Tmux) -> None:
    hold = command_step("hold", "while [ ! -e go ]; do sleep 0.05; done")
    process = vibe.start("plan", "run", write_plan(hold, command_step("after", "true", depends_on=["hold"])), "--wait")
    plan, _ = printed(process, r"plan (\S+) starts(.*)")
    vibe.at(tmux, "--attach", plan)
    tmux.wait_for("0/2 · ")
    tmux.wait_for("> /steer STEP TEXT tells a step's agent something")
    tmux.type("just do it")
    tmux.wait_for("this run executes a plan; it takes no prompt, only pause")
    tmux.wait_for("> just do it")  # what was not taken is given back
    tmux.press("C-c")
    tmux.type("/skip after")
    tmux.wait_for("skip")
    tmux.type("/nonsense")
    tmux.wait_for("/nonsense can't be sent to an attached run")
    (vibe.workdir / "go").touch()
    tmux.wait_for("has ended")
    process.communicate(timeout=120)

    steps = {step["id"]: step["status"] for step in vibe("plan", "status", plan, "--output", "json").document["steps"]}
    assert steps == {"hold": "completed", "after": "skipped"}


def test_a_run_that_has_ended_offers_no_command_to_it(vibe: VibeCommand, write_plan: WritePlan, tmux: Tmux) -> None:
    hold = command_step("hold", "while [ ! -e go ]; do sleep 0.05; done; false")
    process = vibe.start("plan", "run", write_plan(hold), "--wait")
    plan, _ = printed(process, r"plan (\S+) starts(.*)")
    vibe.at(tmux, "--attach", plan)
    tmux.wait_for("0/1 · ")
    (vibe.workdir / "go").touch()
    tmux.wait_for("has ended")
    process.communicate(timeout=120)
    tmux.wait_for("o open   Esc later")
    assert not any("r retry" in line for line in tmux.screen())
