"""Steps done once for each item of a list, as a user runs them: items are data, and one more item costs one step.

Covers ``planner.plan``, ``planner.state``.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from hashlib import sha256
from typing import IO, Any, cast

import pytest

from tests.e2e.conftest import VibeCommand, command_step
from tests.fakes.waiting import until

WritePlan = Callable[..., str]


def over(*items: Any, **fields: Any) -> list[dict[str, object]]:
    """Return a step for each item, which writes down the item, and one after them."""
    each = command_step("each", fields.pop("command", 'printf "%s\\n" "$VIBE_ITEM" >> log'), writes=["log"])
    each |= {"title": "Do ${item}", "for_each": list(items), **fields}
    return [each, command_step("end", "echo end >> log", depends_on=["each"])]


def log(vibe: VibeCommand) -> list[str]:
    return (vibe.workdir / "log").read_text().splitlines()


def test_an_item_is_data_to_a_command(vibe: VibeCommand, write_plan: WritePlan) -> None:
    items = ["$(touch made)", "../x", "a;touch made", "${item}", "`touch made`", "🎉", "two words"]
    ended = vibe("plan", "run", "--output", "json", write_plan(*over(*items)))

    assert (ended.code, ended.document["outcome"]) == (0, "completed")
    assert sorted(log(vibe)[:-1]) == sorted(items)
    assert log(vibe)[-1] == "end"
    assert not (vibe.workdir / "made").exists()
    ids = [step["id"] for step in ended.document["steps"]]
    assert (ids[0], ids[-1], len(ids)) == ("each", "end", 9)


def test_one_more_item_costs_one_step_and_what_depends_on_the_list(vibe: VibeCommand, write_plan: WritePlan) -> None:
    assert vibe("plan", "run", write_plan(*over("a", "b", "c"))).code == 0
    [first] = vibe.plan_ids()
    before = log(vibe)

    ended = vibe("plan", "run", "--reuse", first, "--output", "json", write_plan(*over("new", "c", "b", "a")))

    assert ended.code == 0
    assert log(vibe)[len(before) :] == ["new", "end"]
    again = vibe("plan", "run", "--reuse", ended.document["plan_id"], write_plan(*over("new", "c", "b", "a")))
    assert "3 of 3 steps reused" not in again.out
    assert "2 of 2 steps reused" in again.out
    assert log(vibe)[len(before) :] == ["new", "end"]


def test_a_list_is_one_line_and_opens_in_pages(vibe: VibeCommand, write_plan: WritePlan) -> None:
    items = [f"i{number:02}" for number in range(60)]
    plan = write_plan(*over(*items, command='test "$VIBE_ITEM" != i07', for_each={"items": items, "enough": 59}))
    ended = vibe("plan", "run", plan)
    [plan_id] = vibe.plan_ids()

    assert ended.code == 0
    assert "59/60 1 failed" in ended.out
    status = vibe("plan", "status", plan_id).out.splitlines()
    assert status[1] == "✓ each: Do each item 59/60 1 failed (completed)"
    opened = vibe("plan", "status", plan_id, "each").out.splitlines()
    assert opened[0] == "each  59/60  1 failed  (page 1 of 2)"
    assert opened[1].startswith("✗ each-")
    assert (len(opened), len(vibe("plan", "status", plan_id, "each", "--page", "2").out.splitlines())) == (51, 11)
    assert vibe("plan", "status", plan_id, "each", "--page", "3").code == 2
    shown = vibe("plan", "show", plan_id).out
    assert "each: Do each item 59/60 1 failed [run]" in shown
    assert 'for each item of: {"items":["i00","i01"' in shown
    assert vibe("plan", "status", plan_id, "end").err.startswith("vibe: step 'end' has no steps for items")
    assert len(vibe("plan", "graph", plan_id).out.splitlines()) < 6
    report = json.loads(vibe("plan", "report", plan_id, "--format", "json").out)
    assert (report["steps"][0]["items"], len(report["steps"])) == ("59/60  1 failed", 62)
    assert vibe("plan", "report", plan_id, "--format", "junit").out.count("<testcase") == 62
    assert vibe("plan", "report", plan_id, "--format", "html").out.count('<details class="items">') == 2


def test_items_whose_title_names_none_are_told_by_their_keys_and_have_one_log(
    vibe: VibeCommand, write_plan: WritePlan
) -> None:
    first = command_step("first", "echo waits; until test -e go; do sleep 0.05; done")
    each = command_step("each", 'echo "did $VIBE_ITEM"', for_each=["x", "y"], depends_on=["first"])
    running = vibe.start("plan", "run", write_plan(first, each))
    until(vibe.plan_ids)
    [plan_id] = vibe.plan_ids()
    following = vibe.start("plan", "logs", plan_id, "--follow")
    printed = cast("IO[bytes]", following.stdout)
    until(lambda: b"waits" in printed.readline())  # printed before any item has a step
    (vibe.workdir / "go").touch()
    running.communicate()
    followed, _ = following.communicate()

    assert sorted(line for line in followed.decode().splitlines() if line.startswith("did")) == ["did x", "did y"]
    assert "did x" in vibe("plan", "logs", plan_id, "each").out
    status = vibe("plan", "status", plan_id, "each").out.splitlines()
    assert sorted(line.split(": ")[1] for line in status[1:]) == ["x (completed)", "y (completed)"]


def test_what_is_wrong_with_a_list_is_said_before_anything_runs(vibe: VibeCommand, write_plan: WritePlan) -> None:
    ended = vibe("plan", "run", write_plan(*over("a", "a")))
    assert ended.code == 2
    assert "steps[0].for_each: items 0 and 1 have the same key, 'a'" in ended.err
    assert vibe.plan_ids() == []


def test_a_list_fails_as_its_items_did_and_its_reports_say_so(vibe: VibeCommand, write_plan: WritePlan) -> None:
    looks = {"text": "looking", "tool_calls": [{"name": "list_dir", "arguments": {"path": "."}}]}
    vibe.replay({"agents": {"each-*": {"turns": [looks, looks, {"text": "done"}]}}})
    each = {"id": "each", "title": "Do ${item}", "mode": "research", "for_each": ["a", "b"], "max_turns": 1}

    assert vibe("plan", "run", write_plan(each)).code == 4  # as one such step without a list
    text = vibe("plan", "report", "latest").out
    assert text.count("**failed**") == 3
    assert "continued" not in text
    assert 'failures="3"' in vibe("plan", "report", "latest", "--format", "junit").out

    enough = {**each, "for_each": {"items": ["a", "b"], "enough": 0}}
    assert vibe("plan", "run", write_plan(enough)).code == 0
    assert vibe("plan", "report", "latest").out.count("(the plan continued because enough items of each may do)") == 2
    assert 'failures="0" errors="0" skipped="2"' in vibe("plan", "report", "latest", "--format", "junit").out


def child_of(pattern: str, key: str) -> str:
    """Return the id of the step for an item."""
    return f"{pattern}-{sha256(key.encode()).hexdigest()[:8]}"


def writes(path: str, text: str) -> dict[str, Any]:
    """Script an agent that writes a file."""
    call = {"name": "write_file", "arguments": {"path": path, "content": text}}
    return {"turns": [{"tool_calls": [call]}, {"text": "written"}]}


@pytest.mark.parametrize("executor", ["local", "process"])
def test_agents_do_the_items_that_an_agent_found(vibe: VibeCommand, write_plan: WritePlan, executor: str) -> None:
    value = {"files": [{"path": "b.txt"}, {"path": "a.txt"}]}
    hand_in = {"name": "hand_in", "arguments": {"value": value, "summary": "two"}}
    agents: dict[str, Any] = {"find": {"turns": [{"tool_calls": [hand_in]}]}}
    agents |= {child_of("fix", name): writes(name, f"ok {name}\n") for name in ("a.txt", "b.txt")}
    vibe.replay({"agents": agents})
    schema = {"type": "object", "properties": {"files": {"type": "array"}}}
    steps = [
        {"id": "find", "title": "Find", "mode": "research", "output_schema": schema},
        {
            "id": "fix",
            "title": "Write ${item.path}",
            "mode": "code",
            "depends_on": ["find"],
            "for_each": {"in": "find", "at": "/files", "key": "/path"},
            "writes": ["${item.path}"],
            "verify": ['grep -q "^ok $VIBE_ITEM_PATH$" "$VIBE_ITEM_PATH"'],
        },
    ]
    ended = vibe("plan", "run", "--executor", executor, "--output", "json", write_plan(*steps))

    assert (ended.code, ended.document["outcome"]) == (0, "completed"), ended.err
    assert (vibe.workdir / "a.txt").read_text() == "ok a.txt\n"
    [plan_id] = vibe.plan_ids()
    kept = json.loads((vibe.home / "plans" / plan_id / "steps" / "fix" / "result.json").read_text())
    assert [entry["key"] for entry in kept["output"]] == ["b.txt", "a.txt"]
    assert sorted(kept["files_changed"]) == ["a.txt", "b.txt"]


@pytest.mark.parametrize("where", ["step", "defaults", "agent"])
def test_a_larger_model_takes_over_what_a_small_one_could_not_do(
    vibe: VibeCommand, write_plan: WritePlan, where: str
) -> None:
    scripts = {"small": {"turns": [{"text": "I can't"}]}, "large": writes("made.txt", "ok\n")}
    settings = 'active_model = "small"\n'
    for name, agent in scripts.items():
        script = vibe.workdir.parent / f"{name}.json"
        script.write_text(json.dumps({"version": 1, "agents": {"*": agent}}))
        settings += f'[[providers]]\nname = "{name}"\nbackend = "scripted"\nscript = "{script}"\n'
        settings += f'[[models]]\nname = "{name}"\nprovider = "{name}"\n'
    vibe.configure(settings)
    step: dict[str, object] = {
        "id": "make",
        "title": "Make it",
        "mode": "code",
        "writes": ["made.txt"],
        "max_repairs": 0,
    }
    step |= {"verify": ["grep -q ok made.txt"]}
    models: dict[str, object] = {"model": ["small", "large"]}
    if where == "agent":
        (vibe.home / "agents").mkdir()
        (vibe.home / "agents" / "mender.toml").write_text('active_model = ["small", "large"]\n')
    if where != "defaults":
        step.update(models if where == "step" else {"agent": "mender"})
    plan = write_plan(step, **({"defaults": models} if where == "defaults" else {}))
    ended = vibe("plan", "run", "--output", "json", plan)

    assert (ended.code, ended.document["outcome"]) == (0, "completed"), ended.err
    [plan_id] = vibe.plan_ids()
    said = (vibe.home / "plans" / plan_id / "steps" / "make" / "messages.2.jsonl").read_text()
    assert "An attempt before this one" in said
    assert "grep -q ok made.txt" in said
    report = json.loads(vibe("plan", "report", plan_id, "--format", "json").out)
    came = [(each["model"], each["attempts"], each["completed"]) for each in report["models"]]
    assert came == [("small", 1, 0), ("large", 1, 1)]
    assert "large" in vibe("plan", "report", plan_id).out.partition("## Models")[2]


def test_models_that_step_up_are_no_further_attempts_of_a_command(vibe: VibeCommand, write_plan: WritePlan) -> None:
    deploy = command_step("deploy", "echo tried >> log; exit 1", side_effects=True)
    plan = write_plan(deploy, defaults={"model": ["small", "large"]})

    assert vibe("plan", "run", plan).code == 1
    assert log(vibe) == ["tried"]


def test_an_agent_with_several_models_does_no_step_with_side_effects(vibe: VibeCommand, write_plan: WritePlan) -> None:
    vibe.replay({"agents": {}})
    (vibe.home / "agents").mkdir()
    (vibe.home / "agents" / "mender.toml").write_text('active_model = ["replay", "replay"]\n')
    send = {"id": "send", "title": "Send", "mode": "code", "agent": "mender", "side_effects": True}

    ended = vibe("plan", "run", write_plan(send))

    assert ended.code == 2
    assert "step 'send': agent 'mender' has several models" in ended.err
    assert vibe.plan_ids() == []
