"""Covers ``vibe.mcp_server``."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.conftest import VIBE, VibeCommand, command_step, leftovers
from tests.e2e.mcp_scene import Scene, scene, text, tool
from tests.fakes.mcp_client import RawClient, connected
from tests.fakes.waiting import until

pytestmark = pytest.mark.xdist_group("mcp_plans")

WAIT = 60_000
AGENT = {"id": "w", "title": "Write", "mode": "code", "prompt": "Go."}
WRITES = [tool("write_file", path="a.txt", content="new"), {"text": "It is written."}]
CHOICE = {
    "id": "which",
    "question": "Which one?",
    "options": [{"id": "left", "label": "The left one"}, {"id": "right", "label": "The right one"}],
}


@pytest.fixture(scope="module")
def unasked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    """Start a server that approves everything."""
    yield from scene(tmp_path_factory.mktemp("unasked"), "--auto-approve")


@pytest.fixture(scope="module")
def silent(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    """Start a server whose client can ask nobody."""
    yield from scene(tmp_path_factory.mktemp("silent"))


@pytest.fixture(scope="module")
def asking(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    """Start a server whose client can ask a person."""
    yield from scene(tmp_path_factory.mktemp("asking"), can_ask=True)


@pytest.fixture
def raw(vibe: VibeCommand) -> Iterator[Callable[..., RawClient]]:
    """Return a function that starts servers for raw messages."""
    started: list[RawClient] = []

    def start(*flags: str) -> RawClient:
        client = RawClient([str(VIBE), "mcp", "serve", *flags], vibe.variables(), str(vibe.workdir))
        started.append(client)
        return client

    yield start
    for client in started:
        client.close()


def plan(*steps: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {"version": 1, "goal": "Try something", "steps": list(steps), **fields}


def planned(*steps: dict[str, Any]) -> list[dict[str, Any]]:
    return [tool("hand_in_plan", value={"steps": list(steps)})]


def request(result: Any) -> dict[str, Any]:
    """Return the one open request."""
    (found,) = result.structured_content["requests"]
    return found


# --- from the goal to the result ---


def test_a_goal_is_planned_run_and_told_of(unasked: Scene, workdir: Path) -> None:
    show = command_step("show", "cat a.txt; sleep 0.2", depends_on=["w"])
    unasked.script(planner=planned({**AGENT, "writes": ["a.txt"]}, show), w=WRITES)

    begun = unasked.served.call("plan_run", goal="Write a.txt", cwd=str(workdir))
    plan_id = begun.structured_content["plan_id"]
    heard: list[str] = []
    ended = unasked.served.start("plan_status", heard.append, plan_id=plan_id, wait_ms=WAIT).result(60)
    result = unasked.served.call("plan_result", plan_id=plan_id)

    assert begun.structured_content["running"]
    assert (ended.structured_content["status"], ended.structured_content["steps_done"]) == ("completed", 2)
    assert heard
    assert (workdir / "a.txt").read_text() == "new"
    assert not result.is_error
    assert "It is written." in text(result)
    assert "2/2 steps" in text(result)
    assert [step["id"] for step in result.structured_content["steps"]] == ["w", "show"]
    assert result.structured_content["files_changed"] == ["a.txt"]
    assert unasked.vibe("plan", "status", plan_id).code == 0


def test_the_id_comes_at_once_and_calls_go_on_beside_the_plan(unasked: Scene, workdir: Path) -> None:
    unasked.script({"text": "beside it"})
    step = command_step("s", "touch begun; while [ ! -e go ]; do sleep 0.05; done")

    started = time.monotonic()
    begun = unasked.served.call("plan_run", plan=plan(step), cwd=str(workdir))
    took = time.monotonic() - started
    beside = unasked.served.call("call_vibe", prompt="go", cwd=str(workdir))
    plan_id = begun.structured_content["plan_id"]
    until((workdir / "begun").is_file)
    running = unasked.served.call("plan_status", plan_id=plan_id)
    so_far = unasked.served.call("plan_result", plan_id=plan_id)
    (workdir / "go").touch()
    ended = unasked.served.call("plan_status", plan_id=plan_id, wait_ms=WAIT)

    assert took < 60
    assert text(beside) == "beside it"
    assert (running.structured_content["status"], running.structured_content["steps_done"]) == ("active", 0)
    assert "0/1 steps are done, 1 in_progress" in text(running)
    assert not so_far.is_error
    assert ended.structured_content["status"] == "completed"


def test_a_long_result_is_cut_between_characters(unasked: Scene, workdir: Path) -> None:
    unasked.script(w=[{"text": "🙂" * 400}])

    begun = unasked.served.call("plan_run", plan=plan(AGENT), cwd=str(workdir), wait_ms=WAIT)
    plan_id = begun.structured_content["plan_id"]
    whole = text(unasked.served.call("plan_result", plan_id=plan_id, max_response_chars=0))
    cut = unasked.served.call("plan_result", plan_id=plan_id, max_response_chars=200)

    assert "🙂" * 400 in whole
    assert text(cut) == f"{whole[:200]}...\n\n[TRUNCATED: Response was {len(whole)} chars, limit is 200]"


def test_a_plan_that_fails_says_which_step_and_why(unasked: Scene, workdir: Path) -> None:
    begun = unasked.served.call(
        "plan_run", plan=plan(command_step("bad", "echo no luck; exit 3")), cwd=str(workdir), wait_ms=WAIT
    )
    result = unasked.served.call("plan_result", plan_id=begun.structured_content["plan_id"])

    assert begun.structured_content["status"] == "failed"
    assert (result.is_error, result.structured_content["outcome"]) == (True, "failed")
    assert "bad" in text(result)
    assert "no luck" in text(result)


def test_a_goal_nobody_can_plan_for_ends_with_the_reason(unasked: Scene, workdir: Path) -> None:
    unasked.script(planner=[{"text": "I would rather not."}] * 5)

    ended = unasked.served.call("plan_run", goal="Fly", cwd=str(workdir), wait_ms=WAIT)
    result = unasked.served.call("plan_result", plan_id=ended.structured_content["plan_id"])

    assert not ended.structured_content["running"]
    assert "no plan" in text(ended)
    assert (result.is_error, "no plan" in text(result)) == (True, True)


def test_the_budget_of_the_call_holds_for_the_plan(unasked: Scene, workdir: Path) -> None:
    steps = [AGENT, {**AGENT, "id": "x", "depends_on": ["w"]}]
    turn = {"text": "done", "usage": {"prompt_tokens": 900, "completion_tokens": 200}}
    unasked.script(w=[turn], x=[turn])

    begun = unasked.served.call("plan_run", plan=plan(*steps), cwd=str(workdir), wait_ms=WAIT, max_tokens=1_000)
    result = unasked.served.call("plan_result", plan_id=begun.structured_content["plan_id"])

    assert (begun.structured_content["status"], result.structured_content["outcome"]) == ("failed", "limit")
    assert "is failed: the budget is used up; " in text(begun)


# --- what fails ---

BAD: dict[str, tuple[dict[str, Any], str]] = {
    "nothing": ({}, "give a goal, a plan or a plan_id"),
    "both": ({"goal": "g", "plan": plan(AGENT)}, "one of them only"),
    "no folder": ({"goal": "g", "cwd": None}, "cwd is missing"),
    "relative": ({"goal": "g", "cwd": "src"}, "is relative"),
    "missing": ({"goal": "g", "cwd": "/nowhere/at/all"}, "is not a folder"),
    "empty": ({"goal": " "}, "goal is empty"),
    "long": ({"goal": "x" * 10_000_000}, "10,000,000 characters"),
    "wait": ({"goal": "g", "wait_ms": -1}, "wait_ms"),
    "no plan": ({"plan": {"version": 1}}, "steps"),
    "circle": ({"plan": plan({**AGENT, "depends_on": ["w"]})}, "depends"),
    "no JSON": ({"plan": "{{"}, "the plan"),
    "model": ({"plan": plan(AGENT), "model": "nobody"}, "nobody"),
    "mode": ({"plan": plan({**AGENT, "mode": "fly"})}, "mode"),
    "resume": ({"plan_id": "ffffff-20000101", "cwd": None}, "no plan"),
    "resume there": ({"plan_id": "ffffff-20000101"}, "leave that out"),
}


@pytest.mark.parametrize(("arguments", "said"), BAD.values(), ids=BAD)
def test_bad_input_is_answered_with_a_sentence(
    unasked: Scene, workdir: Path, arguments: dict[str, Any], said: str
) -> None:
    unasked.script(planner=planned(AGENT))
    given = {name: value for name, value in {"cwd": str(workdir), **arguments}.items() if value is not None}

    result = unasked.served.call("plan_run", **given)

    assert result.is_error
    assert said in text(result)
    assert len(text(result)) < 2_000


@pytest.mark.parametrize(
    ("name", "more"),
    [("plan_status", {}), ("plan_result", {}), ("plan_decide", {"request_id": "x", "answers": ["yes"]})],
)
def test_a_plan_there_is_not_is_named(unasked: Scene, name: str, more: dict[str, Any]) -> None:
    result = unasked.served.call(name, plan_id="ffffff-20000101", **more)

    assert (result.is_error, "no plan" in text(result)) == (True, True)


# --- what needs approval ---


def test_the_commands_of_a_plan_wait_for_a_yes_and_so_do_calls(silent: Scene, workdir: Path) -> None:
    silent.script(w=WRITES)
    document = plan(AGENT, command_step("make", "touch made", depends_on=["w"]))

    waits = silent.served.call("plan_run", plan=json.dumps(document), cwd=str(workdir), wait_ms=WAIT)
    plan_id, commands = waits.structured_content["plan_id"], request(waits)
    assert (waits.structured_content["status"], commands["kind"]) == ("waiting", "approval")
    assert "make: touch made" in commands["summary"]
    assert silent.vibe.plan_ids().count(plan_id) == 0
    silent.served.call("plan_decide", plan_id=plan_id, request_id=commands["request_id"], answers=["yes"])
    waits = silent.served.call("plan_status", plan_id=plan_id, wait_ms=WAIT)
    call = request(waits)
    assert (call["step_id"], call["tool"], call["arguments"]["path"]) == ("w", "write_file", "a.txt")
    assert not (workdir / "a.txt").exists()
    wrong = silent.served.call("plan_decide", plan_id=plan_id, request_id=call["request_id"], answers=["perhaps"])
    unknown = silent.served.call("plan_decide", plan_id=plan_id, request_id="ffff", answers=["yes"])
    said = silent.served.call("plan_decide", plan_id=plan_id, request_id=call["request_id"], answers=["yes"])
    again = silent.served.call("plan_decide", plan_id=plan_id, request_id=call["request_id"], answers=["no"])
    ended = silent.served.call("plan_status", plan_id=plan_id, wait_ms=WAIT)

    assert (wrong.is_error, "yes" in text(wrong)) == (True, True)
    assert (unknown.is_error, "no request 'ffff' is open" in text(unknown)) == (True, True)
    assert (said.is_error, said.structured_content["message"]) == (False, "allowed")
    assert again.is_error
    assert ended.structured_content["status"] == "completed"
    assert (workdir / "a.txt").exists()
    assert (workdir / "made").exists()


def test_a_no_to_the_commands_runs_nothing(silent: Scene, workdir: Path) -> None:
    waits = silent.served.call(
        "plan_run", plan=plan(command_step("make", "touch made")), cwd=str(workdir), wait_ms=WAIT
    )
    plan_id = waits.structured_content["plan_id"]

    ended = silent.served.call(
        "plan_decide", plan_id=plan_id, request_id=request(waits)["request_id"], answers=["no"], reason="not today"
    )
    result = silent.served.call("plan_result", plan_id=plan_id)

    until(lambda: not silent.served.call("plan_status", plan_id=plan_id).structured_content["running"])
    assert not ended.is_error
    assert result.structured_content["outcome"] == "blocked"
    assert "not today" in text(result)
    assert not (workdir / "made").exists()


def test_the_clients_person_is_asked_while_a_call_waits(asking: Scene, workdir: Path) -> None:
    asking.script(w=WRITES)
    asking.served.answers[:] = ["yes", "right", "yes"]
    chosen = command_step("make", "touch made", when={"which": ["right"]})
    left_out = command_step("other", "touch other", when={"which": ["left"]})
    steps = [chosen, left_out, {**AGENT, "depends_on": ["make"]}]

    ended = asking.served.call("plan_run", plan=plan(*steps, decisions=[CHOICE]), cwd=str(workdir), wait_ms=WAIT)

    assert ended.structured_content["status"] == "completed"
    assert "touch made" in asking.served.asked[0]
    assert asking.served.asked[1] == "Which one?"
    assert "a.txt" in asking.served.asked[2]
    assert (workdir / "made").exists()
    assert not (workdir / "other").exists()


def test_what_the_clients_person_does_not_decide_stays_open(asking: Scene, workdir: Path) -> None:
    asking.served.answers[:] = ["yes"]
    step = command_step("make", "touch made", decision="which")

    waits = asking.served.call("plan_run", plan=plan(step, decisions=[CHOICE]), cwd=str(workdir), wait_ms=WAIT)
    plan_id, choice = waits.structured_content["plan_id"], request(waits)
    wrong = asking.served.call("plan_decide", plan_id=plan_id, request_id="which", answers=["up"])
    asking.served.call("plan_decide", plan_id=plan_id, request_id="which", answers=["left"])
    ended = asking.served.call("plan_status", plan_id=plan_id, wait_ms=WAIT)

    assert (choice["kind"], choice["answers"]) == ("decision", {"left": "The left one", "right": "The right one"})
    assert wrong.is_error
    assert ended.structured_content["status"] == "completed"


# --- pausing and resuming ---


def test_a_plan_is_paused_and_goes_on(unasked: Scene, workdir: Path) -> None:
    steps = [
        command_step("a", "echo a >> log"),
        command_step("b", "echo b >> log; [ -e go ] || sleep 600", depends_on=["a"]),
    ]
    begun = unasked.served.call("plan_run", plan=plan(*steps), cwd=str(workdir))
    plan_id = begun.structured_content["plan_id"]
    until(lambda: (workdir / "log").exists() and "b" in (workdir / "log").read_text())
    twice = unasked.served.call("plan_run", plan_id=plan_id)

    paused = unasked.served.call("plan_decide", plan_id=plan_id[:6], stop="pause")
    assert not leftovers(workdir)
    (workdir / "go").touch()
    ended = unasked.served.call("plan_run", plan_id=plan_id, wait_ms=WAIT)

    assert (twice.is_error, "is at work" in text(twice)) == (True, True)
    assert (paused.structured_content["status"], paused.structured_content["running"]) == ("paused", False)
    assert ended.structured_content["status"] == "completed"
    assert (workdir / "log").read_text().split() == ["a", "b", "b"]


def test_a_plan_is_given_up(unasked: Scene, workdir: Path) -> None:
    begun = unasked.served.call("plan_run", plan=plan(command_step("s", "touch on; sleep 600")), cwd=str(workdir))
    plan_id = begun.structured_content["plan_id"]
    until((workdir / "on").exists)

    ended = unasked.served.call("plan_decide", plan_id=plan_id, stop="cancel")
    again = unasked.served.call("plan_run", plan_id=plan_id)

    assert ended.structured_content["status"] == "cancelled"
    assert not leftovers(workdir)
    assert (again.is_error, "cancelled" in text(again)) == (True, True)


def test_a_cancelled_call_pauses_the_plan_it_began(unasked: Scene, workdir: Path) -> None:
    step = command_step("s", "touch on; [ -e go ] || sleep 600")
    call = unasked.served.start("plan_run", plan=plan(step), cwd=str(workdir), wait_ms=WAIT)
    until((workdir / "on").exists)

    call.cancel()

    until(lambda: not leftovers(workdir))
    plan_id = unasked.vibe.plan_ids()[-1]
    stands = unasked.served.call("plan_status", plan_id=plan_id, wait_ms=WAIT)
    assert (stands.structured_content["status"], "plan_run with this plan_id" in text(stands)) == ("paused", True)


def test_when_the_client_is_gone_its_plans_are_paused_and_can_be_resumed(
    vibe: VibeCommand, raw: Callable[..., RawClient]
) -> None:
    vibe.configure("")
    client = raw("--auto-approve")
    client.greet()
    step = command_step("s", "trap '' TERM; touch on; [ -e go ] || sleep 600")
    client.call(1, "plan_run", plan=plan(step), cwd=str(vibe.workdir))
    plan_id = client.hear()["result"]["structuredContent"]["plan_id"]
    until((vibe.workdir / "on").exists)

    client.leave()
    left = time.monotonic()
    until(lambda: not leftovers(vibe.workdir))
    took = time.monotonic() - left

    assert client.process.wait(60) == 0
    (vibe.workdir / "go").touch()
    assert took < 30, took
    status = vibe("plan", "status", plan_id, "--output", "json").document["status"]
    assert status in {"paused", "active"}  # on a slow machine its last word is not written
    assert vibe("plan", "resume", plan_id).code == 0


def test_a_session_over_http_that_is_ended_pauses_its_own_plans(vibe: VibeCommand, workdir: Path) -> None:
    import httpx2  # noqa: PLC0415  slow to load, and one test needs it
    from mcp.client.streamable_http import streamable_http_client  # noqa: PLC0415  as above

    vibe.configure("")
    process = vibe.start("mcp", "serve", "--http", "0", "--auto-approve")
    assert process.stdout is not None
    url, words = (process.stdout.readline().decode().strip() for _ in range(2))
    name, _, token = words.partition(": ")
    document = plan(command_step("s", "touch $$.on; sleep 600"))
    clients = [httpx2.AsyncClient(headers={name: token}, timeout=60) for _ in range(2)]

    with connected(streamable_http_client(url, http_client=clients[0]), http=clients[0]) as stays:
        kept = stays.call("plan_run", plan=document, cwd=str(workdir)).structured_content["plan_id"]
        with connected(streamable_http_client(url, http_client=clients[1]), http=clients[1]) as leaves:
            left = leaves.call("plan_run", plan=document, cwd=str(workdir)).structured_content["plan_id"]
            until(lambda: len(list(workdir.glob("*.on"))) == 2)
        gone = stays.call("plan_status", plan_id=left, wait_ms=WAIT)
        on = stays.call("plan_status", plan_id=kept)
    process.terminate()

    assert (gone.structured_content["status"], on.structured_content["status"]) == ("paused", "active")
    assert process.wait(60) == 143
    until(lambda: not leftovers(workdir))


def test_a_plan_of_another_process_is_told_of_and_not_meddled_with(unasked: Scene, workdir: Path) -> None:
    vibe = VibeCommand(home=unasked.vibe.home, workdir=workdir, environ=unasked.vibe.environ)
    (workdir / "plan.json").write_text(json.dumps(plan(command_step("s", "touch on; sleep 600"))))
    process = vibe.start("plan", "run", "plan.json")
    try:
        until((workdir / "on").exists)
        plan_id = vibe.plan_ids()[-1]

        stands = unasked.served.call("plan_status", plan_id=plan_id)
        stopped = unasked.served.call("plan_decide", plan_id=plan_id, stop="cancel")
    finally:
        process.kill()
        process.communicate()

    assert stands.structured_content["status"] == "active"
    assert f"process {process.pid}" in text(stands)
    assert (stopped.is_error, f"process {process.pid}" in text(stopped)) == (True, True)
