"""Conversations line by line on a real terminal. The screens are compared with text files.

Covers ``vibe.cli.plain``.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

from tests.e2e.conftest import VIBE, VibeCommand, command_step, leftovers
from tests.fakes.model_server import ModelServer, Reply, ServedCall
from tests.fakes.tmux import Tmux
from tests.fakes.waiting import until

SCREENS = Path(__file__).parent / "screens"


def turns(*given: dict[str, Any]) -> dict[str, Any]:
    return {"agents": {"main": {"turns": list(given)}}}


def bash(command: str) -> dict[str, Any]:
    return {"tool_calls": [{"name": "bash", "arguments": {"command": command}}]}


def masked(screen: list[str]) -> str:
    """Return a screen without what differs from run to run, and without empty prompts."""
    text = "\n".join(line for line in screen if line not in {">", "(working) >"})
    text = re.sub(r"(?m)^\(working\) > ", "> ", text)
    text = re.sub(r"\b[0-9a-f]{6}-\d{8}\b", "PLAN", text)
    text = re.sub(r"\b[0-9a-f]{8}\b", "SESSION", text)
    text = re.sub(r" {2,}[\d.]+ s\b", "  TIME", text)  # a column of times is as wide as the longest one
    text = re.sub(r"\b[\d.]+ s\b", "TIME", text)
    text = re.sub(r"\([\d,]+ tokens(, \$[\d.]+)?, TIME\)", "(TOKENS, TIME)", text)
    return re.sub(r"[\d,]+ tokens? read \([\d,]+ cached\), [\d,]+ tokens? written", "N tokens", text) + "\n"


TALK = (
    ("make a file", "or: n WHY"),
    ("y", "It is there."),
    ("/approvals all", "thinking off, approvals all"),
    ("wait for long", "* bash sleep 6321"),
    (None, "interrupted: "),
    ("well?", "Stopped, as you wish."),
    ("!echo $((6*7))", "42"),
    ("!!echo $((6*8))", "48"),
    ("look at that", "I have seen it."),
    ("/agents plan", "plan with replay"),
    ("and now?", "A plan needs thought."),
    ("/rewind 2", 'back to before "'),
    ("/cost", " calls, "),
    ("/nonsense", "unknown command"),
    ("/exit", "EXIT 0"),
)
"""The lines to type (None is Ctrl-C), and the text that must be seen before more is typed."""


def test_a_conversation_by_lines_looks_as_it_should(vibe: VibeCommand, tmux: Tmux) -> None:
    vibe.replay(
        turns(
            {"text": "Hello there.\nWhat shall we do?"},
            bash("touch made.txt"),
            {"text": "It is there."},
            bash("sleep 6321"),
            {"text": "Stopped, as you wish."},
            {"text": "I have seen it."},
            {"text": "A plan needs thought."},
        )
    )
    vibe.at(tmux, "--plain", "hi")
    tmux.wait_for("What shall we do?")
    tmux.wait_for_last("> ")
    for typed, seen in TALK:
        if typed is None:
            tmux.press("C-c")
        else:
            tmux.type(typed)
        tmux.wait_for(seen)
        if seen not in {"* bash sleep 6321", "EXIT 0"}:
            tmux.wait_for_last("> ")

    screen = masked(tmux.screen())
    kept = SCREENS / "plain_chat.txt"
    assert screen == kept.read_text(encoding="utf-8"), screen
    assert not (vibe.workdir / "made.txt").exists()
    assert leftovers(vibe.workdir) == []
    told = "".join(path.read_text() for path in vibe.home.rglob("messages.jsonl"))
    assert "echo $((6*7))" in told
    assert "echo $((6*8))" not in told


def test_a_session_is_listed_and_gone_on_with(vibe: VibeCommand, tmux: Tmux) -> None:
    vibe.replay(turns({"text": "Hello."}, {"text": "Welcome back."}))
    vibe.process("-p", "first words")
    vibe.at(tmux, "--plain")
    tmux.wait_for("Ctrl-D quits")
    tmux.wait_for_last("> ")
    tmux.type("/resume")
    tmux.wait_for("first words")
    session = next(line.split()[0] for line in tmux.screen() if line.endswith("first words"))
    tmux.type(f"/resume {session}")
    tmux.wait_for(f"session {session}: 2 messages")
    tmux.type("again")
    tmux.wait_for("Welcome back.")
    tmux.press("C-d")
    tmux.wait_for("saved · vibe --plain -c goes on")
    tmux.wait_for("EXIT 0")


def test_a_terminal_that_can_do_nothing_is_enough(vibe: VibeCommand, tmux: Tmux) -> None:
    vibe.replay(turns(bash("sleep 6322"), {"text": "As you wish."}))
    tmux.start(["env", "TERM=dumb", VIBE, "--auto-approve", "wait"], cwd=vibe.workdir, env=vibe.variables())
    tmux.wait_for("* bash sleep 6322")
    tmux.press("C-c")
    tmux.wait_for("interrupted: ")
    tmux.type("stop")
    tmux.wait_for("As you wish.")
    tmux.press("C-d")
    tmux.wait_for("EXIT 0")

    assert leftovers(vibe.workdir) == []


def test_a_terminal_that_is_closed_leaves_a_saved_session_and_no_process(vibe: VibeCommand, tmux: Tmux) -> None:
    vibe.replay(turns(bash("sleep 6323"), {"text": "Back again."}))
    vibe.at(tmux, "--plain", "--auto-approve", "wait")
    tmux.wait_for("* bash sleep 6323")
    tmux.close()
    until(lambda: leftovers(vibe.workdir) == [])

    assert vibe("session", "list", "--output", "json").document[0]["outcome"] == "interrupted"
    assert vibe("-c", "-p", "go on").out == "Back again.\n"


def test_without_a_terminal_it_says_what_to_do(vibe: VibeCommand) -> None:
    ended = vibe.process("--plain")

    assert (ended.code, ended.out) == (2, "")
    assert "use `vibe -p PROMPT`" in ended.err


def hand_in(*steps: dict[str, Any]) -> Reply:
    value = json.dumps({"value": {"steps": list(steps)}})
    return Reply(tool_calls=(ServedCall(name="hand_in_plan", arguments=value),))


PREPARE = command_step("prepare", "echo ready > prepared.txt", title="Prepare the ground")
WAIT = command_step("wait", "until test -e gate; do sleep 0.1; done", title="Wait for the gate")
BUILD = command_step("build", "cp prepared.txt built.txt", title="Build it", depends_on=["prepare", "wait"])
CHECK = command_step("check", "test -s built.txt", title="Check it", depends_on=["build"])
NOTES = command_step("notes", "touch notes.txt", title="Write notes", depends_on=["wait"])

PLANNED_TALK = (
    ("hi", "What shall we do?"),
    ("/plan Build the thing", "Run it? [y] yes"),
    ("check it, write notes", "plan, version 2"),
    ("y", "wait: run until"),
    ("how far is it?", "The plan is at work."),
    ("/skip nowhere", "the plan has no step 'nowhere'"),
    ("/skip notes", "notes: skipped"),
    ("!touch gate", "done: "),
    ("and now?", "All is built."),
    ("/exit", "EXIT 0"),
)
"""Like ``TALK``."""


def test_a_plan_is_proposed_changed_run_and_steered_in_a_conversation(
    vibe: VibeCommand, server: ModelServer, tmux: Tmux
) -> None:
    server.enqueue(
        Reply(text="What shall we do?"),
        hand_in(PREPARE, WAIT, BUILD),
        hand_in(PREPARE, WAIT, BUILD, CHECK, NOTES),
        Reply(text="The plan is at work."),
        Reply(text="All is built."),
    )
    vibe.at(tmux, "--plain")
    tmux.wait_for("Ctrl-D quits")
    tmux.wait_for_last("> ")
    for typed, seen in PLANNED_TALK:
        tmux.type(typed)
        tmux.wait_for(seen)
        if seen != "EXIT 0":
            tmux.wait_for_last("> ")
    screen = tmux.screen()

    assert (vibe.workdir / "built.txt").read_text() == "ready\n", screen
    assert not (vibe.workdir / "notes.txt").exists()
    status = vibe("plan", "status", "latest", "--output", "json").document
    assert status["status"] == "completed"
    assert {step["id"]: step["status"] for step in status["steps"]}["notes"] == "skipped"
    seen = masked([line for line in screen if not line.startswith("[")])  # steps side by side have no fixed order
    assert seen == (SCREENS / "plain_plan.txt").read_text(encoding="utf-8"), seen


def test_a_plan_that_the_agent_proposes_is_answered_by_lines_and_runs_beside_the_talk(
    vibe: VibeCommand, server: ModelServer, tmux: Tmux
) -> None:
    def proposed(*names: str) -> Reply:
        steps = [command_step(name, f"touch {name}.txt") for name in names]
        plan = json.dumps({"goal": "Make files", "steps": steps})
        return Reply(tool_calls=(ServedCall(name="propose_plan", arguments=plan, id="-".join(names)),))

    server.enqueue(proposed("one"), proposed("one", "two"), Reply(text="It runs."), Reply(text="Still here."))
    vibe.at(tmux, "--plain")
    tmux.wait_for("Ctrl-D quits")
    for typed, seen in (
        ("make files", "Run it? [y] yes"),
        ("two of them", "plan, version 2: Make files"),
        ("y", "It runs."),
        ("", "done: 2 of 2 steps"),
        ("well?", "Still here."),
    ):
        tmux.wait_for_last("> ")
        tmux.type(typed)
        tmux.wait_for(seen)
    tmux.press("C-d")
    tmux.wait_for("EXIT 0")

    assert (vibe.workdir / "two.txt").exists()


EDITING = """import pathlib, sys
path = pathlib.Path(sys.argv[1])
text = path.read_text()
answer = input("really? ")
right = text.replace("{ my words", "{", 1)
path.write_text({"yes": right.replace("Build it", "Build all of it"), "wrong": "{ my words" + text[1:]}.get(answer, text))
"""


def test_a_proposal_is_saved_and_edited_by_lines(
    vibe: VibeCommand, server: ModelServer, tmux: Tmux, tmp_path: Path
) -> None:
    editor = tmp_path / "editor.py"
    editor.write_text(EDITING)
    vibe.environ |= {"SERVED_KEY": "k", "EDITOR": f"{sys.executable} {editor}"}
    server.enqueue(hand_in(PREPARE, command_step("build", "true", title="Build it", depends_on=["prepare"])))
    vibe.at(tmux, "--plain")
    tmux.wait_for("Ctrl-D quits")
    tmux.type("/plan Build the thing")
    tmux.wait_for("[e] edit  [s FILE] save")
    tmux.type("s kept.json")
    tmux.wait_for("written to ")
    tmux.type("s kept.json")
    tmux.wait_for("kept.json already exists")
    tmux.type("e")
    tmux.wait_for("really?")
    tmux.type("no")
    tmux.wait_for("[s FILE] save", 4)
    tmux.type("edit")
    tmux.wait_for("really?", 2)
    tmux.type("wrong")
    tmux.wait_for("what you wrote is in /")
    tmux.wait_for("[s FILE] save", 5)
    tmux.type("edit")
    tmux.wait_for("really?", 3)
    tmux.type("yes")
    tmux.wait_for("plan, version 2")
    tmux.wait_for("~ build: title differs")
    tmux.type("n")
    tmux.wait_for("dropped · /plan undo")
    tmux.press("C-d")
    tmux.wait_for("EXIT 0")

    assert json.loads((vibe.workdir / "kept.json").read_text())["goal"] == "Build the thing"
    assert [file.read_text() for file in tmp_path.glob("vibe-plan-*/plan.json")] != []


def test_a_step_that_asks_is_named_by_lines(vibe: VibeCommand, server: ModelServer, tmux: Tmux) -> None:
    ask = json.dumps({"questions": [{"question": "Which one?", "options": [{"label": "this"}, {"label": "that"}]}]})
    server.enqueue(
        hand_in({"id": "build", "title": "Build it", "mode": "code", "prompt": "Build it."}),
        Reply(tool_calls=(ServedCall(name="bash", arguments=json.dumps({"command": "echo yes > built.txt"})),)),
        Reply(tool_calls=(ServedCall(name="ask_user_question", arguments=ask, id="call00002"),)),
        Reply(text="It is built."),
    )
    vibe.at(tmux, "--plain")
    tmux.wait_for("Ctrl-D quits")
    tmux.type("/plan Build the thing")
    tmux.wait_for("Run it? [y] yes")
    tmux.type("y")
    tmux.wait_for("? run  for step build")
    tmux.wait_for("[n] no, or: n WHY")
    tmux.type("y")
    tmux.wait_for("? a question to you  for step build")
    tmux.type("1")
    tmux.wait_for("done: 1 of 1 step")
    tmux.press("C-d")
    tmux.wait_for("EXIT 0")


def test_trust_is_asked_for_once_by_lines_too(vibe: VibeCommand, server: ModelServer, tmux: Tmux) -> None:
    vibe.environ["SERVED_KEY"] = "k"
    server.enqueue(Reply(text="Hello there."), Reply(text="Hello again."))
    (vibe.workdir / "AGENTS.md").write_text("Be kind.\n")
    vibe.at(tmux, "--plain", "hi")
    tmux.wait_for("This project brings AGENTS.md. Load it?")
    tmux.wait_for_last("> ")
    tmux.type("1")
    tmux.wait_for("Hello there.")
    tmux.press("C-d")
    tmux.wait_for("EXIT 0")
    vibe.at(tmux, "--plain", "again")
    tmux.wait_for("Hello again.")
    tmux.press("C-d")

    assert all("Be kind." in json.dumps(request.body) for request in server.requests)
