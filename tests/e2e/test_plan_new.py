"""``vibe plan new`` ends with a plan that can run, or with one sentence. A model's commands wait for approval.

Covers ``planner.author``.
"""

from __future__ import annotations

import json
import signal
import subprocess
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from planner.plan.loader import read_plan_file
from tests.e2e.conftest import VibeCommand, command_step, snapshot
from tests.fakes.terminal import Terminal

ASK = {"questions": [{"question": "Which database?", "options": [{"label": "Postgres"}, {"label": "SQLite"}]}]}
GOOD = {
    "context": "Assumption: a file is enough.",
    "steps": [
        {"id": "write", "title": "Write it", "mode": "code", "writes": ["a.txt"], "verify": ["test -e a.txt"]},
        {"id": "show", "title": "Show it", "mode": "run", "command": "cat a.txt", "depends_on": ["write"]},
    ],
}


def call(name: str, **arguments: Any) -> dict[str, Any]:
    return {"tool_calls": [{"name": name, "arguments": arguments}]}


def hand_in(value: Any) -> dict[str, Any]:
    return call("hand_in_plan", value=value)


def planner(vibe: VibeCommand, *turns: dict[str, Any], **others: list[dict[str, Any]]) -> None:
    agents = {"planner": {"turns": list(turns)}, **{name: {"turns": given} for name, given in others.items()}}
    vibe.replay({"agents": agents})


def test_a_good_plan_is_written_and_explained_and_nothing_is_run(vibe: VibeCommand) -> None:
    planner(vibe, call("list_dir", path="."), hand_in(GOOD))
    ended = vibe("plan", "new", "Write", "a.txt", "-o", "plan.json")
    assert ended.code == 0, ended.err
    plan = read_plan_file(vibe.workdir / "plan.json").plan
    assert (plan.goal, plan.context, [step.id for step in plan.steps]) == (
        "Write a.txt",
        "Assumption: a file is enough.",
        ["write", "show"],
    )
    assert plan.metadata == {"origin": "model", "model": "replay"}
    assert sorted(path.name for path in vibe.workdir.iterdir()) == ["plan.json"]
    assert vibe.plan_ids() == []
    assert "  show: cat a.txt" in ended.out
    assert "vibe plan run" in ended.out
    assert "note: the plan is a chain: 2 of 2 steps" in ended.err
    assert "note: at most 1,000,000 tokens" in ended.err
    assert "planning took " in ended.err.splitlines()[-1]


def test_stdout_is_the_plan_and_nothing_else(vibe: VibeCommand) -> None:
    planner(vibe, hand_in(GOOD))
    ended = vibe("plan", "new", "-", stdin="Write a.txt\n")
    assert ended.document["goal"] == "Write a.txt"
    assert vibe("plan", "validate", "-", stdin=ended.out).code == 0


def test_the_json_record_holds_the_plan_its_notes_and_what_it_took(vibe: VibeCommand) -> None:
    planner(vibe, hand_in(GOOD))
    record = vibe("plan", "new", "g", "--output", "json").document
    assert (record["type"], record["outcome"], record["exit_code"], record["file"]) == ("result", "completed", 0, None)
    assert [step["id"] for step in record["plan"]["steps"]] == ["write", "show"]
    assert any("chain" in note for note in record["notes"])
    assert record["usage"]["calls"] == 1
    assert [agent["agent_id"] for agent in record["agents"]] == [record["session_id"]]


def test_a_circle_unknown_steps_and_bad_ids_are_mended_and_each_is_told(vibe: VibeCommand) -> None:
    steps = [
        {"id": "Step One", "title": "1", "mode": "research", "depends_on": ["two", "ghost"]},
        {"id": "two", "title": "2", "mode": "research", "depends_on": ["Step One"]},
        {"id": "two", "title": "3", "mode": "research"},
    ]
    planner(vibe, hand_in({"steps": steps}))
    ended = vibe("plan", "new", "g", "-o", "plan.json")
    assert ended.code == 0, ended.err
    loaded = read_plan_file(vibe.workdir / "plan.json")
    assert loaded.dag.dependencies == {"step-one": (), "two": ("step-one",), "two-2": ()}
    told = loaded.plan.metadata["repairs"]
    assert len(told) == 4
    assert [line.partition(": ")[2] for line in ended.err.splitlines() if line.startswith("warning")] == told


def test_three_hopeless_plans_end_in_one_sentence(vibe: VibeCommand) -> None:
    same = hand_in({"steps": [{"id": "a", "title": "a", "mode": "research", "decision": "who"}]})
    planner(vibe, same, same, same, hand_in(GOOD))
    ended = vibe("plan", "new", "g", "-o", "plan.json")
    assert (ended.code, ended.out) == (1, "")
    *sent_back, sentence, spent = ended.err.splitlines()
    assert sent_back, "why the first tries were sent back"
    assert all("unknown decision 'who'" in line for line in sent_back)
    assert sentence.startswith("vibe: no plan: ")
    assert "unknown decision 'who'" in sentence
    assert spent.startswith("planning took ")
    assert not (vibe.workdir / "plan.json").exists()


def test_a_planner_cannot_change_anything_whatever_it_is_allowed(vibe: VibeCommand) -> None:
    (vibe.workdir / "a.py").write_text("x = 1\n")
    tries = [
        ("write_file", {"path": "b.py", "content": "x"}),
        ("search_replace", {"path": "a.py", "content": "x"}),
        ("bash", {"command": "touch c.py"}),
        ("task", {"agent": "explore", "task": "touch c.py"}),
    ]
    planner(vibe, {"tool_calls": [{"name": name, "arguments": given} for name, given in tries]}, hand_in(GOOD))
    config = (vibe.home / "config.toml").read_text()
    vibe.configure('auto_approve = true\nenabled_tools = ["*"]\n' + config + '[tools.bash]\npermission = "always"\n')
    before = snapshot(vibe.workdir)
    ended = vibe("plan", "new", "g", "--output", "json")
    assert ended.code == 0, ended.err
    assert [step["id"] for step in ended.document["plan"]["steps"]] == ["write", "show"]
    assert snapshot(vibe.workdir) == before


def test_nobody_to_ask_means_no_question(vibe: VibeCommand) -> None:
    planner(vibe, call("ask_user_question", **ASK), hand_in(GOOD))
    ended = vibe("plan", "new", "g", "-o", "plan.json")
    assert ended.code == 0, ended.err
    assert read_plan_file(vibe.workdir / "plan.json").plan.context.startswith("Assumption:")


@contextmanager
def on_terminal(vibe: VibeCommand, *words: str) -> Generator[tuple[Terminal, subprocess.Popen[bytes]]]:
    with Terminal(columns=120, rows=50) as terminal, vibe.on(terminal, *words) as process:
        yield terminal, process


def test_a_person_at_the_terminal_is_asked_once(vibe: VibeCommand) -> None:
    planner(vibe, call("ask_user_question", **ASK), call("ask_user_question", **ASK), hand_in(GOOD))
    with on_terminal(vibe, "plan", "new", "g", "-o", "plan.json") as (terminal, process):
        terminal.wait_for("Which database?")
        terminal.wait_for("]  >")
        terminal.type("2\n")
        assert process.wait(120) == 0
        assert "\n".join(terminal.screen()).count("a question to you") == 1
    assert (vibe.workdir / "plan.json").exists()


def test_an_interrupt_withdraws_the_question(vibe: VibeCommand) -> None:
    planner(vibe, call("list_dir", path="."), call("ask_user_question", **ASK), hand_in(GOOD))
    with on_terminal(vibe, "plan", "new", "g", "-o", "plan.json") as (terminal, process):
        terminal.wait_for("list_dir")
        terminal.wait_for("]  >")
        process.send_signal(signal.SIGINT)
        assert process.wait(120) == 130
        terminal.wait_for("no plan: stopped before the plan was done")
    assert not (vibe.workdir / "plan.json").exists()


def test_a_models_commands_wait_for_a_yes(vibe: VibeCommand) -> None:
    steps = [command_step("go", "touch done"), command_step("see", "test -e done", depends_on=["go"])]
    planner(vibe, hand_in({"steps": steps}))
    assert vibe("plan", "new", "g", "-o", "plan.json").code == 0
    refused = vibe("plan", "run", "plan.json")
    assert refused.code == 5
    assert refused.err.startswith("vibe: ")
    assert "its commands have not been accepted (go: 'touch done', see: 'test -e done')" in refused.err
    assert vibe.plan_ids() == []
    assert vibe("plan", "run", "plan.json", "--dry-run").code == 0
    assert not (vibe.workdir / "done").exists()
    assert vibe("plan", "run", "plan.json", "--accept-commands").code == 0
    assert (vibe.workdir / "done").exists()


@pytest.mark.parametrize("way", ["--auto-approve", "auto_run"])
def test_whoever_lets_everything_run_is_not_asked(vibe: VibeCommand, way: str) -> None:
    planner(vibe, hand_in({"steps": [command_step("go", "touch done")]}))
    assert vibe("plan", "new", "g", "-o", "plan.json").code == 0
    if way == "auto_run":
        vibe.configure((vibe.home / "config.toml").read_text() + "[planner]\nauto_run = true\n")
    flags = [way] if way.startswith("--") else []
    assert vibe("plan", "run", "plan.json", *flags).code == 0
    assert (vibe.workdir / "done").exists()


@pytest.mark.parametrize(("answer", "code"), [("y", 0), ("\r", 5)])
def test_the_commands_are_shown_at_the_terminal_and_asked_about(vibe: VibeCommand, answer: str, code: int) -> None:
    planner(vibe, hand_in({"steps": [command_step("go", "touch done")]}))
    assert vibe("plan", "new", "g", "-o", "plan.json").code == 0
    with on_terminal(vibe, "plan", "run", "plan.json") as (terminal, process):
        terminal.wait_for("go: touch done")
        terminal.wait_for("Run them? [y/N]")
        terminal.type(f"{answer}\n")
        assert process.wait(120) == code, terminal.sent()
    assert (vibe.workdir / "done").exists() == (code == 0)


REFUSED = {
    "no goal": (["plan", "new", " "], "the goal is empty"),
    "a file that is there": (["plan", "new", "g", "-o", "there.json"], "-o there.json: already exists"),
    "no such folder": (["plan", "new", "g", "-o", "no/plan.json"], "-o no/plan.json: no folder"),
    "no such model": (["plan", "new", "g", "--model", "nix"], "no model 'nix'"),
}


@pytest.mark.parametrize(("words", "said"), REFUSED.values(), ids=REFUSED)
def test_what_cannot_be_done_is_said_before_anything_is_spent(vibe: VibeCommand, words: list[str], said: str) -> None:
    planner(vibe)
    (vibe.workdir / "there.json").write_text("{}")
    ended = vibe(*words)
    assert (ended.code, ended.out) == (2, "")
    assert said in ended.err


def test_no_key_is_the_environments_fault(vibe: VibeCommand) -> None:
    ended = vibe("plan", "new", "g")
    assert (ended.code, ended.out) == (3, "")
    assert "MISTRAL_API_KEY" in ended.err


def test_the_budget_ends_the_planning(vibe: VibeCommand) -> None:
    planner(vibe, *[call("list_dir", path=".") for _ in range(5)])
    ended = vibe("plan", "new", "g", "--max-tokens", "3000")
    assert (ended.code, ended.out) == (4, "")
    assert "max_tokens 3000" in ended.err


def test_planning_can_be_switched_off(vibe: VibeCommand) -> None:
    planner(vibe, hand_in(GOOD))
    vibe.configure((vibe.home / "config.toml").read_text() + "[planner]\nenabled = false\n")
    ended = vibe("plan", "new", "g")
    assert ended.code == 2
    assert "planner.enabled is false" in ended.err
    plan = {"version": 1, "goal": "g", "steps": [{**command_step("a", "true"), "on_failure": "replan"}]}
    (vibe.workdir / "plan.json").write_text(json.dumps(plan))
    ended = vibe("plan", "run", "plan.json")
    assert ended.code == 2
    assert "step 'a' has on_failure: replan: planner.enabled is false" in ended.err


@pytest.mark.parametrize(("own", "code"), [({}, 0), ({"timeout_seconds": 0}, 5)], ids=["none named", "for ever"])
def test_decisions_that_name_no_time_wait_as_long_as_configured(
    vibe: VibeCommand, own: dict[str, Any], code: int
) -> None:
    options = [{"id": name, "label": name} for name in ("yes", "no")]
    decision = {"id": "go", "question": "Go?", "options": options, "default": "yes", **own}
    plan = {"version": 1, "goal": "g", "decisions": [decision], "steps": [command_step("a", "true", decision="go")]}
    (vibe.workdir / "plan.json").write_text(json.dumps(plan))
    vibe.configure("[planner]\ndecision_timeout_seconds = 0.25\n")
    ended = vibe("plan", "run", "plan.json", "--output", "streaming")
    assert ended.code == code
    opened, *made = [line for line in ended.lines if line["type"] == "plan.decision"]
    assert [(line["selections"], line["by"]) for line in made] == [(["yes"], "timeout")] * (not own)
    assert all(line["ts"] - opened["ts"] >= 0.25 for line in made)


def test_an_interrupt_ends_the_planning(vibe: VibeCommand) -> None:
    planner(vibe, {**hand_in(GOOD), "delay_seconds": 600, "text": "x" * 50, "chunk_size": 1})
    process = vibe.start("plan", "new", "g", "--output", "json")
    deadline = time.monotonic() + 120
    while not list((vibe.home / "run").glob("*.json")):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    while not any(b"session.started" in path.read_bytes() for path in Path(vibe.home / "run").glob("*/*.jsonl")):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    process.terminate()
    out, _ = process.communicate(timeout=120)
    assert process.returncode == 143
    record = json.loads(out)
    assert (record["outcome"], record["plan"]) == ("interrupted", None)


def test_a_failing_step_is_mended_and_the_plan_completes(vibe: VibeCommand) -> None:
    plan = {
        "version": 1,
        "goal": "write a.txt",
        "steps": [
            {
                "id": "write",
                "title": "Write it",
                "mode": "code",
                "verify": ["test -e a.txt"],
                "max_repairs": 0,
                "on_failure": "replan",
            },
            {**command_step("show", "cat a.txt"), "depends_on": ["write"]},
        ],
    }
    (vibe.workdir / "plan.json").write_text(json.dumps(plan))
    mended = {
        "reason": "it was not told which file",
        "operations": [
            {"op": "remove_step", "id": "write"},
            {"op": "add_step", "step": {"id": "hello", "title": "Write a.txt", "mode": "code", "verify": ["test -e a.txt"]}},
            {"op": "remove_edge", "step": "show", "depends_on": "write"},
            {"op": "add_edge", "step": "show", "depends_on": {"step": "hello"}},
        ],
    }  # fmt: skip
    written = call("write_file", path="a.txt", content="hello\n")
    planner(
        vibe,
        call("list_dir", path="."),
        call("hand_in_revision", value=mended),
        write=[{"text": "I did nothing."}],
        hello=[written, {"text": "Done."}],
    )
    record = vibe("plan", "run", "plan.json", "--approve", "edits", "--output", "json").document
    assert (record["outcome"], record["exit_code"]) == ("completed", 0), record
    assert {step["id"]: step["status"] for step in record["steps"]} == {"hello": "completed", "show": "completed"}
    assert record["usage"]["calls"] == 5
    assert [(agent["step_id"], agent["usage"]["calls"]) for agent in record["agents"]] == [("hello", 2), ("write", 2)]


def test_what_mending_took_counts_after_a_resume(vibe: VibeCommand) -> None:
    choice = {"id": "go", "question": "Go?", "options": [{"id": name, "label": name} for name in ("yes", "no")]}
    step = {"id": "a", "title": "A", "mode": "code", "verify": ["false"], "max_repairs": 0, "on_failure": "replan"}
    steps = [step, command_step("last", "true", decision="go")]
    plan = {"version": 1, "goal": "g", "decisions": [choice], "steps": steps}
    (vibe.workdir / "plan.json").write_text(json.dumps(plan))
    nothing = call("hand_in_revision", value={"reason": "no", "operations": []})
    planner(vibe, call("list_dir", path="."), nothing, a=[{"text": "I did nothing."}])
    first = vibe("plan", "run", "plan.json", "--output", "json").document
    assert (first["exit_code"], first["usage"]["calls"]) == (5, 3)
    second = vibe("plan", "resume", first["plan_id"], "--decide", "go=yes", "--output", "json").document
    assert second["usage"] == first["usage"]


def test_a_step_that_nobody_can_mend_has_failed(vibe: VibeCommand) -> None:
    step = {"id": "a", "title": "A", "mode": "code", "verify": ["false"], "max_repairs": 0, "on_failure": "replan"}
    (vibe.workdir / "plan.json").write_text(json.dumps({"version": 1, "goal": "g", "steps": [step]}))
    planner(
        vibe,
        call("hand_in_revision", value={"reason": "the check can't pass", "operations": []}),
        a=[{"text": "I did nothing."}],
    )
    ended = vibe("plan", "run", "plan.json", "--output", "json")
    assert ended.code == 1
    assert "no better plan found: the check can't pass" in ended.err
