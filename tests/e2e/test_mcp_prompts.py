"""The prompts of a server are slash commands of a conversation."""

from __future__ import annotations

import json
import time
from pathlib import Path

from tests.e2e.conftest import VIBE, VibeCommand
from tests.fakes.mcp_peers import PEN
from tests.fakes.tmux import SECONDS, Tmux


def test_a_servers_prompt_is_listed_and_sent_and_never_taken_for_a_command(vibe: VibeCommand, tmp_path: Path) -> None:
    vibe.replay({"agents": {"main": {"turns": [{"text": "Reviewed."}]}}})
    with (vibe.home / "config.toml").open("a") as file:
        entry = (
            f'name = "pen"\ntransport = "stdio"\ncommand = {json.dumps([*PEN, "stdio"])}\nstartup_timeout_sec = 60.0\n'
        )
        file.write(f"\n[[mcp_servers]]\n{entry}")
    with Tmux(tmp_path) as tmux:
        tmux.start([VIBE, "--plain"], cwd=vibe.workdir, env=vibe.variables())
        tmux.wait_for("Ctrl-D leaves")
        deadline = time.monotonic() + SECONDS
        while not any("/pen:review PLACE [TONE]: Ask for a review." in line for line in tmux.screen()):
            assert time.monotonic() < deadline
            tmux.wait_for_last("> ")
            tmux.type("/help")
        tmux.type("/pen:review")
        tmux.wait_for("review needs place: type PLACE [TONE] behind it")
        tmux.type("/pen:review src very frank")
        tmux.wait_for("Reviewed.")
        tmux.wait_for_last("> ")
        tmux.press("C-d")
        tmux.wait_for("EXIT 0")

    sessions = "".join(path.read_text() for path in vibe.home.rglob("*.jsonl"))
    assert "/exit is what a very frank review of src does not say" in sessions
