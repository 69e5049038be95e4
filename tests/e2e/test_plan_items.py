"""Lists under hard conditions: hostile items through every channel, conflicts, lost workers and killed runs.

Covers ``planner.plan``, ``planner.state``, ``planner.store``.
"""

from __future__ import annotations

import json
import os
import random
import signal
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.conftest import Finished, VibeCommand, command_step
from tests.e2e.test_plan_lists import child_of, log
from tests.e2e.test_worktrees import CODE, editing, git, plan_file, worktree_step
from tests.fakes.model_server import ModelServer, Received, Reply
from tests.fakes.waiting import until

WritePlan = Callable[..., str]

HOSTILE = ["$(touch made)", "../x", "a;touch made", "${item}", "`touch made`", "🎉", "-rf", "two\nlines", '"', "'"]
MEGABYTE = "m" * 1_000_000
DOORS = ["written", "handed in", "given"]


class Door:
    """A way in which a list enters a plan."""

    def __init__(self, vibe: VibeCommand, write_plan: WritePlan, name: str) -> None:
        self._vibe = vibe
        self._write_plan = write_plan
        self._name = name

    def run(self, items: list[Any], *, at_most: int | None = None, **fields: Any) -> Finished:
        """Run a plan with a step for each of these items, and one after them."""
        each = {"title": "Do ${item}", **command_step("each", 'printf "%s\\0" "$VIBE_ITEM" >> log', writes=["log"])}
        each |= {"title": "Do ${item}", **fields}
        source: dict[str, Any] = {"at_most": at_most} if at_most else {}
        steps, more, words = (
            [each, command_step("end", "touch ended", depends_on=["each"])],
            dict[str, Any](),
            list[str](),
        )
        if self._name == "written":
            each["for_each"] = {**source, "items": items}
        elif self._name == "given":
            each["for_each"] = {**source, "in": {"input": "files"}}
            more = {"inputs": [{"name": "files", "type": "list"}]}
            words = ["--with", f"files={json.dumps(items)}"]
        else:
            value = {"name": "hand_in", "arguments": {"value": {"files": items}, "summary": "found"}}
            self._vibe.replay({"agents": {"find": {"turns": [{"tool_calls": [value]}]}}})
            schema = {"type": "object", "properties": {"files": {"type": "array"}}}
            steps.insert(0, {"id": "find", "title": "Find", "mode": "research", "output_schema": schema})
            each |= {"depends_on": ["find"], "for_each": {**source, "in": "find", "at": "/files"}}
        return self._vibe("plan", "run", "--output", "json", *words, self._write_plan(*steps, **more))


@pytest.fixture
def door(vibe: VibeCommand, write_plan: WritePlan, request: pytest.FixtureRequest) -> Door:
    return Door(vibe, write_plan, request.param)


@pytest.mark.parametrize("door", DOORS, indirect=True)
def test_a_hostile_item_is_data_by_whatever_way_it_comes(vibe: VibeCommand, door: Door) -> None:
    ended = door.run(HOSTILE)

    assert (ended.code, ended.document["outcome"]) == (0, "completed"), ended.err
    assert sorted((vibe.workdir / "log").read_text().split("\0")[:-1]) == sorted(HOSTILE)
    assert {path.name for path in vibe.workdir.iterdir()} == {"log", "ended", "plan.json"}


@pytest.mark.parametrize("door", DOORS, indirect=True)
def test_an_empty_list_completes_and_what_follows_runs(vibe: VibeCommand, door: Door) -> None:
    ended = door.run([])

    assert (ended.code, (vibe.workdir / "ended").exists(), (vibe.workdir / "log").exists()) == (0, True, False)


@pytest.mark.parametrize(
    ("door", "items", "said"),
    [
        *((door, ["a", "b", "a"], "items 0 and 2 have the same key, 'a'") for door in DOORS),
        ("written", [MEGABYTE], "item 0 has a key of 1,000,000 characters"),
        ("given", [MEGABYTE], "is 1,000,004 bytes long; the limit is 64,000"),
        ("written", list(range(2_001)), "must have at most 256 entries, not 2001"),
        (
            "handed in",
            list(range(2_001)),
            "2,001 items are more than `at_most` allows, 2,000: have a shorter list made",
        ),
        ("given", list(range(2_001)), "2,001 items are more than `at_most` allows, 2,000: have a shorter list made"),
    ],
    indirect=["door"],
)
def test_a_list_that_can_not_be_done_is_one_sentence_by_whatever_way_it_comes(
    vibe: VibeCommand, door: Door, items: list[Any], said: str
) -> None:
    ended = door.run(items, at_most=2_000)

    assert ended.code in {1, 2}
    assert said in ended.err + ended.out
    assert not (vibe.workdir / "log").exists()
    assert not (vibe.workdir / "ended").exists()


def test_an_item_of_a_megabyte_is_a_file_to_an_agent_and_refused_to_a_command(
    vibe: VibeCommand, write_plan: WritePlan
) -> None:
    vibe.replay({"agents": {"*": {"turns": [{"text": "read"}]}}})
    each = {"items": [{"name": "long", "text": MEGABYTE}], "key": "/name"}
    agent = {"id": "each", "title": "Read", "mode": "research", "prompt": "Read ${item.text}", "for_each": each}
    command = command_step("each", "touch made", for_each=each)

    read = vibe("plan", "run", "--output", "json", write_plan(agent))
    refused = vibe("plan", "run", write_plan(command))

    assert read.code == 0, read.err
    (vibe_item,) = vibe.home.glob("plans/*/steps/each-*/item.txt")
    assert MEGABYTE in vibe_item.read_text()
    said = (vibe_item.parent / "messages.jsonl").read_text()
    assert str(vibe_item) in said
    assert len(said) < 20_000
    assert refused.code == 2
    assert "item 0 ('long'): is more than a command can be given, 100,000 bytes" in refused.err
    assert not (vibe.workdir / "made").exists()


@pytest.mark.parametrize(("bad", "code"), [(2, 0), (3, 1)])
def test_three_of_five_are_enough(vibe: VibeCommand, write_plan: WritePlan, bad: int, code: int) -> None:
    each = command_step("each", f'test "$VIBE_ITEM" -ge {bad}', for_each={"items": [0, 1, 2, 3, 4], "enough": 3})
    ended = vibe("plan", "run", "--output", "json", write_plan(each, command_step("end", "true", depends_on=["each"])))

    assert ended.code == code
    steps = {step["id"]: step["status"] for step in ended.document["steps"]}
    assert (steps["each"], steps["end"]) == (("completed", "completed") if bad == 2 else ("failed", "blocked"))


def test_an_item_that_clashes_with_another_is_merged_by_an_agent(vibe: VibeCommand) -> None:
    root = vibe.workdir
    git(root, "init", "-q", "-b", "main")
    git(root, "config", "user.name", "Ada")
    git(root, "config", "user.email", "ada@example.org")
    (root / "app.py").write_text(CODE)
    git(root, "add", "-A")
    git(root, "commit", "-qm", "start")
    both = CODE.replace("hello", "hi, hey")
    agents = {child_of("each", word): editing("app.py", CODE.replace("hello", word)) for word in ("hi", "hey")}
    vibe.replay({"agents": {**agents, "*:merge1": editing("app.py", both)}})
    each = worktree_step("each", title="Say ${item}", prompt="Say ${item}.", for_each=["hi", "hey"])

    ended = vibe("plan", "run", "--auto-approve", "--output", "json", plan_file(vibe, each))

    assert ended.code == 0, ended.err
    assert (root / "app.py").read_text() == both
    assert git(root, "status", "--porcelain") == ""
    assert git(root, "log", "--merges", "--oneline").count("\n") == 2


def test_a_list_on_two_workers_of_which_one_is_killed_is_done_as_here(vibe: VibeCommand) -> None:
    root, items = vibe.workdir, [f"n{number:02}" for number in range(8)]
    git(root, "init", "-q", "-b", "main")
    git(root, "-c", "user.name=n", "-c", "user.email=e@e", "commit", "-qm", "one", "--allow-empty")
    command = 'sleep 0.5; echo "$VIBE_ITEM" > "$VIBE_ITEM.txt"'
    plan = plan_file(vibe, worktree_step("each", command, for_each=items))
    run = vibe.start("plan", "run", "--cluster", "local:2x2", "--auto-approve", "--output", "json", plan)
    until(lambda: len(list(root.glob("n*.txt"))) >= 2 or run.poll() is not None)
    os.kill(_worker_of(run.pid), signal.SIGKILL)
    out, err = run.communicate(timeout=300)

    assert run.returncode == 0, err
    record = json.loads(out)
    assert [step["status"] for step in record["steps"]] == ["completed"] * 9
    assert sorted(path.read_text() for path in root.glob("*.txt")) == [f"{item}\n" for item in items]
    assert git(root, "log", "--merges", "--oneline").count("\n") == len(items)
    assert [entry["key"] for entry in _output_of(vibe)] == items


def _worker_of(run: int) -> int:
    """Return the process of a run that is a worker of its cluster."""
    found = [
        int(stat.parent.name)
        for stat in Path("/proc").glob("[0-9]*/stat")
        if stat.read_text().rpartition(")")[2].split()[1] == str(run)
        and b"subagents.cluster.node" in (stat.parent / "cmdline").read_bytes()
    ]
    return max(found)


def _output_of(vibe: VibeCommand) -> list[dict[str, Any]]:
    """Return the results of the items of ``each``, from its file."""
    (result,) = vibe.home.glob("plans/*/steps/each/result.json")
    return json.loads(result.read_text())["output"]


def test_quota_that_is_used_up_is_no_reason_for_a_larger_model(
    vibe: VibeCommand, server: ModelServer, write_plan: WritePlan
) -> None:

    def refuse(_: Received) -> Reply:
        return Reply(status=429, body='{"error": {"message": "quota exhausted"}}')

    server.responder = refuse
    settings = (vibe.home / "config.toml").read_text()
    vibe.configure(f'{settings}retry_max_seconds = 0\n[[models]]\nname = "m2"\nalias = "large"\nprovider = "served"\n')
    step = {"id": "a", "title": "A", "mode": "research", "model": ["first", "large"]}

    ended = vibe("plan", "run", "--output", "json", write_plan(step))

    assert (ended.code, ended.document["steps"][0]["status"]) == (4, "pending")
    assert {request.body["model"] for request in server.requests} == {"m1"}


def test_a_run_killed_between_two_models_goes_on_with_the_second(
    vibe: VibeCommand, server: ModelServer, write_plan: WritePlan
) -> None:
    asked = threading.Event()

    def answer(request: Received) -> Reply:
        if request.body["model"] == "m2":
            asked.set()
            return Reply(silent_after=0) if len(server.requests) == 2 else Reply(text="done")
        return Reply(text="can't")

    server.responder = answer
    settings = (vibe.home / "config.toml").read_text()
    vibe.configure(f'{settings}[[models]]\nname = "m2"\nalias = "large"\nprovider = "served"\n')
    step = {"id": "a", "title": "A", "mode": "code", "model": ["first", "large"], "max_repairs": 0}
    plan = write_plan({**step, "verify": ["test -e go"]})
    run = vibe.start("plan", "run", plan)
    assert asked.wait(60)
    run.kill()
    run.communicate()
    (vibe.workdir / "go").touch()

    ended = vibe("plan", "resume", "latest", "--output", "json")

    assert ended.code == 0, ended.err
    assert [request.body["model"] for request in server.requests] == ["m1", "m2", "m2"]


def test_a_long_list_killed_five_times_is_done_once_and_in_order(vibe: VibeCommand, write_plan: WritePlan) -> None:
    count, width = 500, 16
    items = [f"i{number:03}" for number in range(count)]
    (vibe.workdir / "items.json").write_text(json.dumps(items))
    each = {"in": {"input": "items"}, "width": width, "at_most": count}
    step = command_step("each", 'echo "$VIBE_ITEM" >> log', writes=[], for_each=each)
    plan = write_plan(step, inputs=[{"name": "items", "type": "list"}])
    words = ["plan", "run", "--max-parallel", "24", "--with", f"items={json.dumps(items)}", "--output", "json", plan]
    chance, done = random.Random(7), 0
    for _ in range(5):
        done = _killed(vibe, words, done + chance.randint(20, 80))
        words = ["plan", "resume", "latest", "--output", "json"]
    ended = vibe(*words)

    assert ended.code == 0, ended.err
    facts = [json.loads(line) for line in _journal(vibe).splitlines()]
    ends = Counter(fact["step_id"] for fact in facts if fact["type"] == "plan.attempt")
    assert sum(fact["type"] == "plan.unfolded" for fact in facts) == 1
    assert len(ends) == count
    assert set(ends.values()) == {1}
    assert _most_at_once(facts) <= width
    assert [(entry["key"], entry["status"]) for entry in _output_of(vibe)] == [(item, "completed") for item in items]
    assert set(log(vibe)) == set(items)


def _killed(vibe: VibeCommand, words: list[str], wanted: int) -> int:
    """Kill a run once ``wanted`` attempts at its plan are recorded, and return their number at that point."""
    run = vibe.start(*words)
    until(lambda: _journal(vibe).count(b'"plan.attempt"') >= wanted or run.poll() is not None)
    run.kill()
    run.communicate()
    return _journal(vibe).count(b'"plan.attempt"')


def _journal(vibe: VibeCommand) -> bytes:
    return b"".join(path.read_bytes() for path in vibe.home.glob("plans/*/journal.jsonl"))


def _most_at_once(facts: list[dict[str, Any]]) -> int:
    """Return the largest number of items that ran side by side."""
    running, most = set[str](), 0
    for fact in facts:
        if fact["type"] in {"plan.started", "plan.resumed"}:
            running.clear()
        elif fact["type"] == "plan.step" and fact["step_id"] != "each":
            (running.add if fact["status"] == "in_progress" else running.discard)(fact["step_id"])
        most = max(most, len(running))
    return most
