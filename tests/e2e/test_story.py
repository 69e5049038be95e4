"""The whole life of a plan on the screen: proposed, changed, run, answered, opened, steered, paused and finished.

Covers ``vibe.cli.textual_ui``.
"""

from __future__ import annotations

import json
import os
import re
import time
from pathlib import Path
from typing import Any

from tests.e2e.conftest import VibeCommand, command_step, leftovers
from tests.e2e.test_events_answer import DATABASE, QUESTION
from tests.e2e.test_plain_chat import SCREENS
from tests.fakes.model_server import ModelServer, Received, Reply, ServedCall
from tests.fakes.tmux import SECONDS, Tmux
from tests.fakes.waiting import until

WINDOW = (120, 36)
SENTENCE = "check it, too"
WORDS = "call it ember"
EDITOR = """import sys
from pathlib import Path
plan = Path(sys.argv[1])
plan.write_text(plan.read_text().replace("Write it", "Write it well"))
"""
READY = command_step("ready", "until test -e ready; do sleep 0.1; done", title="Wait until all are ready")
PREFER: dict[str, Any] = {
    "id": "prefer",
    "title": "Ask what is preferred",
    "mode": "research",
    "prompt": "Ask for a preference.",
    "depends_on": ["ready"],
}
WRITE: dict[str, Any] = {"id": "write", "title": "Write it", "mode": "code", "prompt": "Write what is wanted."}
STORE = command_step("store", "echo pg > store.txt", depends_on=["prefer"], decision="db", when={"db": ["pg"]})
PLAIN = command_step("plain", "echo files > store.txt", depends_on=["prefer"], decision="db", when={"db": ["files"]})
CHECK = command_step("check", "test -s made.txt", title="Check it", depends_on=["write"])


def call(name: str, **arguments: Any) -> Reply:
    return Reply(tool_calls=(ServedCall(name=name, arguments=json.dumps(arguments)),))


def respond(request: Received) -> Reply:
    """Play the planner, the agent that asks, the one that writes, and the one that the person talks to."""
    said = json.dumps(request.body["messages"])
    results = sum(message["role"] == "tool" for message in request.body["messages"])
    if "hand_in_plan" in json.dumps(request.body.get("tools", [])):
        checked = [{**WRITE, "title": "Write it well"}, CHECK] if SENTENCE in said else [WRITE]
        return call("hand_in_plan", value={"steps": [READY, PREFER, *checked, STORE, PLAIN], "decisions": [DATABASE]})
    if PREFER["prompt"] in said:
        return call("ask_user_question", questions=[QUESTION]) if not results else Reply(text="Cookies are preferred.")
    if WRITE["prompt"] in said:
        if not results:
            return call("bash", command="until test -e gate; do sleep 0.1; done; echo made > made.txt")
        return Reply(text="It is called ember." if WORDS in said else "It has no name.")
    return Reply(text="All is well.")


def normal(screen: list[str]) -> str:
    """Return a screen without what differs from run to run: times, ids, folders and empty lines."""
    lines = [re.sub(r"[⠁-⣿▁-█]", " ", line).rstrip() for line in screen if line.strip(" │")]
    text = re.sub(r"(?s)▌ (no )?sandbox: .*?(?=\n asks · )", "▌ FOOT", "\n".join(lines))
    text = re.sub(r"(?m)^   vibe [\d.]+", "   vibe VERSION", text)
    text = re.sub(r"(?m)^   /.*?(?=  +│|$)", "   FOLDER", text)
    text = re.sub(r"\b[0-9a-f]{6}-\d{8}\b", "PLAN", text)
    text = re.sub(r" *[━╍╸┄]+[━╍╸┄✗ ]*", " BAR ", text)
    text = re.sub(r"(?m)^ +0( +[\d:]+( s)?)*(?=  |$)", " SCALE", text)
    text = re.sub(r" side by side; \S+( s)? in a row", "", text)
    text = re.sub(r"\b(\d+:\d\d|[\d.]+ ?m?s)\b", "TIME", text)
    return re.sub(r"(?<=\S) {2,}", "  ", text) + "\n"


def seen(tmux: Tmux, station: str) -> None:
    """Wait until the screen is the kept one, or with ``KEEP_SCREENS`` in the environment, keep it."""
    kept = SCREENS / f"story_{station}.txt"
    keeps = "KEEP_SCREENS" in os.environ
    wanted, shown = "" if keeps else kept.read_text(encoding="utf-8"), normal(tmux.screen())
    deadline = time.monotonic() + (3.0 if keeps else SECONDS)
    while shown != wanted and time.monotonic() < deadline:
        time.sleep(0.05)
        shown = normal(tmux.screen())
    if keeps:
        kept.write_text(shown, encoding="utf-8")
    else:
        assert shown == wanted, f"{station}:\n{shown}"


def propose(tmux: Tmux) -> None:
    """Have a plan proposed, change it in the editor and by a sentence, and run it."""
    tmux.type("/plan Build the thing")
    tmux.wait_for("Proposed plan")
    seen(tmux, "proposed")
    tmux.press("e")
    tmux.wait_for("version 2")
    seen(tmux, "edited")
    tmux.press("r")
    tmux.type(SENTENCE)  # typed at once: all of it is the sentence
    tmux.wait_for("version 3")
    seen(tmux, "revised")
    tmux.press("a")


def answer(tmux: Tmux, workdir: Path) -> None:
    """Answer the requests of the steps that run side by side."""
    tmux.wait_for("Permission")
    tmux.wait_for("0/6 · ")
    seen(tmux, "permission")
    tmux.press("1")
    (workdir / "ready").touch()
    tmux.wait_for("Question")
    seen(tmux, "question")
    tmux.press("2")
    tmux.wait_for("Decision")
    seen(tmux, "decision")
    tmux.press("1")
    tmux.wait_for("3/6 · ")


def steer(tmux: Tmux) -> None:
    """Open the running step, and steer its agent."""
    tmux.press("F2", "Enter")
    tmux.wait_for("←→ agent")
    seen(tmux, "step")
    tmux.press("t")
    tmux.type(WORDS)
    tmux.wait_for("will be read before the next step")
    tmux.press("Escape", "Escape")
    tmux.wait_for("Ask anything ·")


def resume(tmux: Tmux) -> None:
    """Press Enter as a person does, and again if the first was ignored as too early."""
    pressed = [0.0]

    def resumed() -> bool:
        if time.monotonic() - pressed[0] > 1:
            tmux.press("Enter")
            pressed[0] = time.monotonic()
        return not any("Enter resume" in line for line in tmux.screen())

    until(resumed)


def test_a_plan_lives_on_the_screen(vibe: VibeCommand, server: ModelServer, tmux: Tmux, tmp_path: Path) -> None:
    editor = tmp_path / "editor.py"
    editor.write_text(EDITOR)
    vibe.environ |= {"SERVED_KEY": "k", "EDITOR": f"python {editor}"}
    server.responder = respond
    vibe.at(tmux)
    propose(tmux)
    answer(tmux, vibe.workdir)
    steer(tmux)
    tmux.type("/pause")
    tmux.wait_for("pausing")
    (vibe.workdir / "gate").touch()
    tmux.wait_for("Plan paused")
    tmux.wait_for("Enter resume")
    seen(tmux, "paused")
    resume(tmux)
    tmux.wait_for("Plan completed")
    seen(tmux, "finished")
    tmux.press("C-d")
    tmux.wait_for("EXIT 0")
    [told] = [request for request in server.requests if WORDS in json.dumps(request.body["messages"])]

    assert told.body["messages"][-1]["content"] == WORDS
    assert leftovers(vibe.workdir) == []
    assert [(vibe.workdir / name).read_text() for name in ("made.txt", "store.txt")] == ["made\n", "pg\n"]
    assert vibe("plan", "status", "latest", "--output", "json").document["status"] == "completed"
