"""Covers ``subagents.agent``."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from tests.e2e.conftest import VibeCommand
from tests.fakes.waiting import until

USAGE = {"prompt_tokens": 100, "completion_tokens": 20}
LOOK = {"name": "grep", "arguments": {"pattern": "needle"}}
WRITE = {"name": "write_file", "arguments": {"path": "a.txt", "content": "x"}}


def delegate(task: str, **more: Any) -> dict[str, Any]:
    return {"name": "task", "arguments": {"task": task, **more}}


def agents(**turns: list[dict[str, Any]]) -> dict[str, Any]:
    return {"agents": {name: {"turns": given} for name, given in turns.items()}}


def subagent(vibe: VibeCommand, name: str, text: str) -> None:
    folder = vibe.home / "agents"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.toml").write_text(f'agent_type = "subagent"\ndescription = "helps"\n{text}')


def results_of(lines: list[dict[str, Any]], tool: str) -> list[dict[str, Any]]:
    return [line for line in lines if line["type"] == "tool.result" and line["tool"] == tool]


def test_an_agent_delegates_and_gets_the_report(vibe: VibeCommand) -> None:
    (vibe.workdir / "hay.txt").write_text("a needle\n")
    vibe.replay(
        agents(
            main=[
                {"tool_calls": [delegate("find the needle")], "usage": USAGE},
                {"text": "It is there.", "usage": USAGE},
            ],
            explore=[{"tool_calls": [LOOK], "usage": USAGE}, {"text": "hay.txt:1", "usage": USAGE}],
        )
    )

    lines = vibe("--output", "streaming", "-p", "go").lines

    record = lines[-1]
    assert (record["outcome"], record["result"], record["usage"]["calls"]) == ("completed", "It is there.", 4)
    main, child = record["agents"]
    assert (main["usage"]["calls"], child["usage"]["calls"]) == (2, 2)
    assert (child["parent_id"], main["parent_id"]) == (main["agent_id"], None)
    assert results_of(lines, "task")[0]["content"] == "hay.txt:1\n[explore completed in 2 turns]"
    started = next(line for line in lines if line["type"] == "subagent.started")
    assert started["parent_id"] == main["agent_id"]
    assert (started["agent"], started["folder"]) == ("explore", str(vibe.workdir))
    assert "write_file" not in started["tools"]
    assert not {"bash", "task", "web_fetch", "ask_user_question"} & set(started["tools"])
    inner = results_of(lines, "grep")[0]
    assert (inner["subagent_id"], inner["status"]) == (child["agent_id"], "ok")
    folder = next((vibe.home / "logs/session" / record["session_id"] / "subagents").iterdir())
    saved = json.loads((folder / "result.json").read_text())
    assert (saved["outcome"], saved["response"], saved["parent_id"]) == ("completed", "hay.txt:1", main["agent_id"])
    assert "hay.txt:1" in (folder / "messages.jsonl").read_text()


def test_several_in_one_answer_run_side_by_side(vibe: VibeCommand) -> None:
    vibe.replay(
        agents(
            main=[{"tool_calls": [delegate(f"part {number}") for number in range(3)]}, {"text": "done"}],
            explore=[{"text": "found", "delay_seconds": 1.0, "chunk_size": 1}],
        )
    )

    lines = vibe("--output", "streaming", "-p", "go").lines

    kinds = [line["type"] for line in lines if line["type"].startswith("subagent.")]
    assert kinds == ["subagent.started"] * 3 + ["subagent.finished"] * 3


def test_a_subagent_starts_no_subagent_and_hears_why(vibe: VibeCommand) -> None:
    subagent(vibe, "helper", 'safety = "neutral"')
    vibe.replay(
        agents(
            main=[{"tool_calls": [delegate("go", agent="helper")]}, {"text": "done"}],
            helper=[{"tool_calls": [delegate("deeper", agent="helper")]}, {"text": "could not"}],
        )
    )

    lines = vibe("--yolo", "--output", "streaming", "-p", "go").lines

    inner, outer = results_of(lines, "task")
    assert (inner["status"], outer["status"]) == ("error", "ok")
    assert "unknown tool 'task'" in inner["content"]
    assert len([line for line in lines if line["type"] == "subagent.started"]) == 1


def test_there_is_a_cap_on_how_many_a_run_starts(vibe: VibeCommand) -> None:
    vibe.replay(
        agents(main=[{"tool_calls": [delegate(f"part {n}") for n in range(4)]}, {"text": "x"}], explore=[{"text": "y"}])
    )
    with (vibe.home / "config.toml").open("a") as file:
        file.write("[subagents]\nmax_spawned = 2\n")

    lines = vibe("--output", "streaming", "-p", "go").lines

    assert sorted(result["status"] for result in results_of(lines, "task")) == ["error", "error", "ok", "ok"]
    refused = next(result for result in results_of(lines, "task") if result["status"] == "error")
    assert "max_spawned" in refused["content"]


def test_the_cap_counts_what_earlier_runs_of_a_plan_started(vibe: VibeCommand, write_plan: Callable[..., str]) -> None:
    delegates = [{"tool_calls": [delegate("look")]}, {"text": "x"}]
    vibe.replay(agents(first=delegates, second=delegates, explore=[{"text": "y"}]))
    with (vibe.home / "config.toml").open("a") as file:
        file.write("[subagents]\nmax_spawned = 1\n")
    common = {"title": "A step", "mode": "code", "prompt": "Do it."}
    plan = write_plan(
        {"id": "first", **common},
        {"id": "second", **common, "depends_on": ["first"], "decision": "go"},
        decisions=[
            {"id": "go", "question": "Go?", "options": [{"id": "y", "label": "Yes"}, {"id": "n", "label": "No"}]}
        ],
    )
    vibe("plan", "run", plan)

    lines = vibe("plan", "resume", vibe.plan_ids()[0], "--decide", "go=y", "--output", "streaming").lines

    assert [result["status"] for result in results_of(lines, "task")] == ["error"]
    assert "has started 1 subagents" in results_of(lines, "task")[0]["content"]


def test_a_child_has_no_more_rights_than_its_parent(vibe: VibeCommand) -> None:
    subagent(vibe, "writer", 'safety = "yolo"\nauto_approve = true\n[tools.write_file]\npermission = "always"\n')
    script = agents(
        main=[{"tool_calls": [delegate("write", agent="writer")]}, {"text": "done"}],
        writer=[{"tool_calls": [WRITE]}, {"text": "I tried."}],
    )
    vibe.replay(script)
    with (vibe.home / "config.toml").open("a") as file:
        file.write('[tools.task]\npermission = "always"\n')

    ended = vibe("--output", "json", "-p", "go")

    assert (ended.code, ended.document["outcome"]) == (5, "blocked")
    assert [(denial["tool"], denial["by"]) for denial in ended.document["denied"]] == [("write_file", "headless")]
    assert not (vibe.workdir / "a.txt").exists()

    planning = vibe("--agent", "plan", "--yolo", "--output", "streaming", "-p", "go").lines
    assert results_of(planning, "write_file")[0]["status"] == "error"
    assert not (vibe.workdir / "a.txt").exists()

    assert vibe("--yolo", "-p", "go").code == 0
    assert (vibe.workdir / "a.txt").exists()


def test_a_subagent_other_than_explore_needs_a_yes(vibe: VibeCommand) -> None:
    subagent(vibe, "helper", 'safety = "safe"')
    vibe.replay(
        agents(main=[{"tool_calls": [delegate("go", agent="helper")]}, {"text": "no"}], helper=[{"text": "hi"}])
    )

    assert vibe("-p", "go").code == 5
    assert vibe("--yolo", "-p", "go").code == 0


def test_agents_that_are_no_subagents_are_refused_with_the_names_that_are(vibe: VibeCommand) -> None:
    vibe.replay(agents(main=[{"tool_calls": [delegate("go", agent="default")]}, {"text": "ok"}]))

    lines = vibe("--yolo", "--output", "streaming", "-p", "go").lines

    assert "'default' is not a subagent" in results_of(lines, "task")[0]["content"]


def test_what_a_child_uses_counts_for_the_run(vibe: VibeCommand) -> None:
    used = {"prompt_tokens": 3_000, "completion_tokens": 100}
    turns = [{"tool_calls": [{"name": "grep", "arguments": {"pattern": f"n{n}"}}], "usage": used} for n in range(30)]
    vibe.replay(agents(main=[{"tool_calls": [delegate("go")], "usage": USAGE}, {"text": "x"}], explore=turns))

    lines = vibe("--max-tokens", "20000", "--output", "streaming", "-p", "go").lines

    content = results_of(lines, "task")[0]["content"]
    assert "explore did not complete" in content
    assert "limit: budget: the budget of this run is used up" in content
    usage = lines[-1]["usage"]
    assert 9_000 < usage["prompt_tokens"] + usage["completion_tokens"] < 24_000


@pytest.mark.parametrize("at_once", [1, 3])
def test_the_turns_of_a_run_are_those_of_its_children_too(vibe: VibeCommand, at_once: int) -> None:
    turns = [{"tool_calls": [{"name": "grep", "arguments": {"pattern": f"n{n}"}}], "usage": USAGE} for n in range(30)]
    orders = [delegate(f"go {number}") for number in range(at_once)]
    vibe.replay(agents(main=[{"tool_calls": orders, "usage": USAGE}, {"text": "x"}], explore=turns))

    ended = vibe("--max-turns", "5", "--output", "json", "-p", "go")

    record = ended.document
    assert (ended.code, record["outcome"], record["usage"]["calls"]) == (4, "limit", 5)
    assert record["detail"] == "the limit of 5 turns is reached: 5 model calls of this run"


def test_a_cancelled_run_leaves_no_subagent_behind(vibe: VibeCommand) -> None:
    seconds = a_long_time()
    script = agents(
        main=[{"tool_calls": [delegate("go", agent="helper")]}, {"text": "x"}],
        helper=[{"tool_calls": [{"name": "bash", "arguments": {"command": f"echo up > up; exec sleep {seconds}"}}]}],
    )
    subagent(vibe, "helper", 'safety = "neutral"')
    vibe.replay(script)
    process = vibe.start("--yolo", "--output", "json", "-p", "go")
    until((vibe.workdir / "up").exists)

    process.send_signal(signal.SIGTERM)
    out, _ = process.communicate(timeout=120)

    assert process.returncode == 143
    assert json.loads(out)["outcome"] == "interrupted"
    assert not running_with(seconds)
    saved = next((vibe.home / "logs/session").glob("*/subagents/*/result.json"))
    assert json.loads(saved.read_text())["outcome"] == "interrupted"


def test_a_step_of_a_plan_delegates_too(vibe: VibeCommand, write_plan: Callable[..., str]) -> None:
    (vibe.workdir / "hay.txt").write_text("a needle\n")
    vibe.replay(
        agents(
            one=[{"tool_calls": [delegate("find it")], "usage": USAGE}, {"text": "found", "usage": USAGE}],
            explore=[{"tool_calls": [LOOK], "usage": USAGE}, {"text": "hay.txt:1", "usage": USAGE}],
        )
    )
    plan = write_plan({"id": "one", "title": "Find", "mode": "research", "prompt": "find"})

    lines = vibe("plan", "run", plan, "--output", "streaming").lines

    record = lines[-1]
    assert (record["outcome"], record["usage"]["calls"]) == ("completed", 4)
    own, child = record["agents"]
    assert (own["step_id"], child["step_id"], child["parent_id"]) == ("one", "one", own["agent_id"])
    inner = results_of(lines, "grep")[0]
    assert (inner["subagent_id"], inner["subagent_step_id"]) == (child["agent_id"], "one")
    assert record["steps"][0]["usage"]["calls"] == 4


def test_the_turns_of_a_step_are_those_of_its_children_too(vibe: VibeCommand, write_plan: Callable[..., str]) -> None:
    turns = [{"tool_calls": [{"name": "grep", "arguments": {"pattern": f"n{n}"}}], "usage": USAGE} for n in range(30)]
    vibe.replay(agents(s=[{"tool_calls": [delegate("go")], "usage": USAGE}, {"text": "x"}], explore=turns))
    step = {"id": "s", "title": "S", "mode": "research", "prompt": "Go.", "max_turns": 4}

    ended = vibe("plan", "run", write_plan(step), "--output", "json")

    (result,) = ended.document["steps"]
    assert (ended.code, ended.document["outcome"], result["reason"], result["usage"]["calls"]) == (
        4,
        "limit",
        "turns",
        4,
    )
    assert result["detail"] == "the limit of 4 turns is reached: 4 model calls of step 's'"


def a_long_time() -> str:
    """Return seconds to sleep: a number that no other process sleeps, by which the process can be found."""
    return f"600.{uuid4().int}"


def running_with(word: str) -> list[str]:
    """Return the ids of processes that have a word on their command line."""
    found: list[str] = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            words = (entry / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if word.encode() in words:
            found.append(entry.name)
    return found
