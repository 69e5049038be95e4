"""``vibe dashboard`` on a terminal: answered from the list, attached to a run and back.

Covers ``vibe.cli.textual_ui``, ``vibe.app.watch``.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from tests.e2e.conftest import VibeCommand
from tests.e2e.test_events_answer import STEP, WritePlan, printed, shell
from tests.fakes.tmux import Tmux

LOADED = "import sys; print(*(name for name in sys.modules if name.startswith(('vibe.', 'planner.', 'ipc.'))))"


def test_a_plan_is_answered_from_the_list_and_the_list_comes_back(
    vibe: VibeCommand, write_plan: WritePlan, tmux: Tmux
) -> None:
    vibe.replay({"agents": {"w": {"turns": [shell("touch made"), shell("touch more"), {"text": "done"}]}}})
    process = vibe.start("plan", "run", write_plan(STEP), "--wait")
    plan, _ = printed(process, r"answer with: vibe plan approve (\S+) (\S+)")
    vibe.at(tmux, "dashboard")
    tmux.wait_for("command: touch made")
    tmux.press("o")
    tmux.wait_for("no browser here")
    tmux.wait_for("http://127.0.0.1:")
    while not (vibe.workdir / "made").exists():  # for the first half second it takes no key
        tmux.press("1")
        tmux.wait_for("command: touch")
    _, request = printed(process, r"answer with: vibe plan approve (\S+) (\S+)")
    tmux.wait_for("command: touch more")
    tmux.press("Enter")
    tmux.wait_for("/help lists what you can send it")
    tmux.wait_for("y yes")
    tmux.press("Escape")  # two at once may be read as one key
    tmux.wait_for("1 waits for you")
    tmux.press("Escape")
    tmux.wait_for("command: touch more")
    assert vibe("events", "answer", plan, request, "y").code == 0  # so it is gone from the list
    tmux.wait_for("answered by control: run touch more")
    tmux.wait_for("completed")
    assert not any("command: touch more" in line for line in tmux.screen())
    tmux.press("q")
    tmux.wait_for("EXIT 0")
    process.communicate(timeout=120)

    assert process.returncode == 0
    assert (vibe.workdir / "more").exists()


@pytest.mark.parametrize("is_attached", [True, False])
@pytest.mark.parametrize("sign", [signal.SIGTERM, signal.SIGHUP, None])
def test_a_signal_or_ctrl_d_ends_it_attached_or_not(
    vibe: VibeCommand, write_plan: WritePlan, tmux: Tmux, sign: signal.Signals | None, *, is_attached: bool
) -> None:
    vibe.replay({"agents": {"w": {"turns": [shell("touch made"), {"text": "done"}]}}})
    printed(vibe.start("plan", "run", write_plan(STEP), "--wait"), r"answer with: vibe plan approve (\S+) (\S+)")
    vibe.at(tmux, "dashboard")
    tmux.wait_for("command: touch made")
    if is_attached:
        tmux.press("Enter")
        tmux.wait_for("/help lists what you can send it")  # the list shows the answers as well
        tmux.wait_for("y yes")
        tmux.press("Escape")
        tmux.wait_for("tells a step's agent something")
    if sign is None:
        tmux.press("C-d")
    else:
        os.kill(tmux.program, sign)
    tmux.wait_for(f"EXIT {0 if sign is None else 128 + sign}")


def test_the_first_frame_loads_what_the_chat_does_but_for_the_list_itself() -> None:
    def loaded(*names: str) -> set[str]:
        words = [sys.executable, "-c", f"import {', '.join(names)}; {LOADED}"]
        return {*subprocess.run(words, capture_output=True, text=True, check=True).stdout.split()}

    chat = loaded("vibe.cli.commands.prompt", "vibe.cli.textual_ui.app")
    runs = loaded("vibe.cli.commands.dashboard", "vibe.cli.textual_ui.runs_hold")
    assert runs - chat == {
        "vibe.cli.commands.dashboard",
        "vibe.cli.textual_ui.runs_hold",
        "vibe.cli.textual_ui.screens",
        "vibe.cli.textual_ui.screens.runs_screen",
        "vibe.front.run_list",
        "vibe.system.loopback",
    }
