"""A run of one process, watched, answered and steered from the screen of another."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.conftest import VibeCommand, command_step
from tests.e2e.test_events_answer import STEP, WritePlan, printed, shell
from tests.e2e.test_screen import start
from tests.fakes.tmux import Tmux


@pytest.fixture
def tmux(tmp_path: Path) -> Iterator[Tmux]:
    with Tmux(tmp_path, columns=120, rows=36) as terminal:
        yield terminal


def test_a_plan_run_elsewhere_is_answered_and_seen_to_its_end(
    vibe: VibeCommand, write_plan: WritePlan, tmux: Tmux
) -> None:
    vibe.replay({"agents": {"w": {"turns": [shell("touch made"), shell("touch more"), {"text": "done"}]}}})
    process = vibe.start("plan", "run", write_plan(STEP), "--wait")
    plan, _ = printed(process, r"answer with: vibe plan approve (\S+) (\S+)")
    start(tmux, vibe, "--attach", plan)
    tmux.wait_for("touch made")
    tmux.wait_for("1 once")
    tmux.press("1")
    tmux.wait_for("touch more")
    _, request = printed(process, r"answer with: vibe plan approve (\S+) (\S+)")
    assert vibe.process("events", "answer", plan, request, "yes").code == 0  # and so withdrawn on the screen
    tmux.wait_for("has ended")
    tmux.wait_for("1/1 steps")
    assert not any("1 once" in line for line in tmux.screen())
    tmux.type("/exit")
    tmux.wait_for("EXIT 0")
    process.communicate(timeout=120)

    assert process.returncode == 0
    assert (vibe.workdir / "made").exists()
    assert (vibe.workdir / "more").exists()


def test_what_cannot_be_attached_to_is_a_sentence(vibe: VibeCommand, tmux: Tmux) -> None:
    start(tmux, vibe, "--attach", "nothing")
    tmux.wait_for("vibe: ")
    tmux.wait_for("nothing")
    tmux.wait_for("EXIT ")

    assert vibe("--attach", "x", "-p", "hi").code == 2


def test_commands_to_a_run_elsewhere(vibe: VibeCommand, write_plan: WritePlan, tmux: Tmux) -> None:
    hold = command_step("hold", "while [ ! -e go ]; do sleep 0.05; done")
    process = vibe.start("plan", "run", write_plan(hold, command_step("after", "true", depends_on=["hold"])), "--wait")
    plan, _ = printed(process, r"plan (\S+) started(.*)")
    start(tmux, vibe, "--attach", plan)
    tmux.wait_for("0/2 steps")
    tmux.type("/skip after")
    tmux.wait_for("skip")
    tmux.type("/nonsense")
    tmux.wait_for("/nonsense is no command to a run elsewhere")
    (vibe.workdir / "go").touch()
    tmux.wait_for("has ended")
    process.communicate(timeout=120)

    steps = {step["id"]: step["status"] for step in vibe("plan", "status", plan, "--output", "json").document["steps"]}
    assert steps == {"hold": "completed", "after": "skipped"}
