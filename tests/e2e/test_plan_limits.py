"""Covers ``vibe.app.plan``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.e2e.conftest import VibeCommand, command_step
from tests.fakes.model_server import ModelServer, Reply

WritePlan = Callable[..., str]

SERVED = """active_model = "m"
[[providers]]
name = "here"
backend = "generic"
api_base = "{api_base}"
[[models]]
name = "m"
provider = "here"
input_price = 1.0
output_price = 1.0
"""

MODEL_STEP: dict[str, Any] = {"id": "w", "title": "Write", "mode": "code", "prompt": "Go."}


def test_limits_of_steps_are_configured_by_mode_and_the_steps_own_hold(
    vibe: VibeCommand, write_plan: WritePlan
) -> None:
    vibe.replay({"turns": []})
    config = vibe.home / "config.toml"
    config.write_text(config.read_text() + "\n[step_turns]\ncode = 7\n[step_tokens]\ncode = 70000\n")
    plan = write_plan(
        MODEL_STEP, {**MODEL_STEP, "id": "own", "max_turns": 3}, {**MODEL_STEP, "id": "r", "mode": "research"}
    )

    steps = vibe("plan", "run", "--dry-run", "--output", "json", plan).document["steps"]

    limits = {step["id"]: (step["max_tokens"], step["max_turns"]) for step in steps}
    assert limits == {"w": (70_000, 7), "own": (70_000, 3), "r": (500_000, 40)}


@pytest.mark.parametrize("field", ["allowed_tools", "denied_tools"])
@pytest.mark.parametrize(
    ("name", "hint"),
    [("serach_replace", "did you mean 'search_replace'"), ("gone_*", "available: "), ("re:gone_.*", "available: ")],
)
def test_a_tool_that_is_none_is_refused_before_anything_runs(
    vibe: VibeCommand, write_plan: WritePlan, field: str, name: str, hint: str
) -> None:
    vibe.replay({"turns": []})
    plan = write_plan({**MODEL_STEP, field: ["read_*", name]})

    ended, predicted = vibe("plan", "run", plan), vibe("plan", "run", "--dry-run", plan)

    assert (ended.code, predicted.code) == (2, 2)
    said = f"step 'w': {field} names {name!r}, which matches no tool; {hint}"
    assert said in ended.err
    assert said in predicted.out
    assert vibe.plan_ids() == []


@pytest.mark.parametrize("name", ["lazy_*", "l?zy_find", "re:l.*", "lazy_find"])
def test_a_tool_of_a_server_that_may_still_come_is_accepted(
    vibe: VibeCommand, write_plan: WritePlan, name: str
) -> None:
    vibe.replay({"turns": []})
    config = vibe.home / "config.toml"
    config.write_text(config.read_text() + '\n[[mcp_servers]]\nname = "lazy"\ntransport = "stdio"\ncommand = "false"\n')

    assert vibe("plan", "run", "--dry-run", write_plan({**MODEL_STEP, "allowed_tools": [name]})).code == 0


def test_a_plan_that_ran_out_of_its_budget_is_given_more_and_goes_on(vibe: VibeCommand, write_plan: WritePlan) -> None:
    slow = command_step("s", "sleep 30 & test -e go || wait", priority=1)
    ended = vibe("plan", "run", write_plan(slow, budget={"max_seconds": 0.2}))
    assert ended.code == 4
    assert "raise the plan's budget with: vibe plan edit" in ended.out
    (vibe.workdir / "go").touch()

    hint = f"raise the plan's budget with: vibe plan edit {vibe.plan_ids()[0]} --max-seconds S, then"
    assert (hint in ended.out, hint in vibe("plan", "status", "latest").out) == (True, True)
    again = vibe("plan", "resume", "latest")
    assert (again.code, f"`vibe plan status {vibe.plan_ids()[0]}` says how" in again.err) == (2, True)
    edited = vibe("plan", "edit", "latest", "--max-seconds", "600")
    resumed = vibe("plan", "resume", "latest")

    assert edited.code == 0
    assert "limits for the whole plan: max_seconds = 600.0" in edited.out
    assert resumed.code == 0


RESEARCH: dict[str, Any] = {"title": "Look", "mode": "research"}
FIRST = {**RESEARCH, "id": "first", "priority": 1}
LISTED = {**RESEARCH, "id": "cut", "title": "Look at ${item}", "for_each": {"items": ["x", "y", "z"], "enough": 1}}
TOLERANT = {
    "continue": [FIRST, {**RESEARCH, "id": "cut", "on_failure": "continue", "depends_on": ["first"]}],
    "ask": [FIRST, {**RESEARCH, "id": "cut", "on_failure": "ask", "depends_on": ["first"]}],
    "ask about an item": [{**LISTED, "on_failure": "ask"}],
    "enough": [LISTED],
    "enough and continue": [{**LISTED, "on_failure": "continue"}],
    "none of the items": [FIRST, {**LISTED, "for_each": {"items": ["x", "y"], "enough": 0}}],
}


@pytest.mark.parametrize("budget", [{"max_tokens": 4_000}, {"max_price": 0.004}], ids=["tokens", "price"])
@pytest.mark.parametrize("steps", TOLERANT.values(), ids=TOLERANT)
def test_no_tolerance_for_failures_covers_work_that_the_plan_has_no_budget_for(
    vibe: VibeCommand, write_plan: WritePlan, steps: list[dict[str, Any]], budget: dict[str, Any]
) -> None:
    usage = {"prompt_tokens": 3_000, "completion_tokens": 100}
    with ModelServer(responder=lambda _: Reply(text="done", usage=usage)) as server:
        vibe.configure(SERVED.format(api_base=server.api_base))
        after = command_step("after", "true", depends_on=["cut"])
        ended = vibe("plan", "run", write_plan(*steps, after, budget=budget, max_parallel_steps=1))
        plan_id = vibe.plan_ids()[0]
        ((limit, value),) = budget.items()
        flag, more = f"--{limit.replace('_', '-')}", str(1_000 * value)

        assert ended.code == 4
        assert f"the budget of the plan is used up: {limit}" in ended.out
        placeholder = {"max_tokens": "N", "max_price": "USD"}[limit]
        raise_it = f"raise the plan's budget with: vibe plan edit {plan_id} {flag} {placeholder}, then vibe plan resume"
        assert (raise_it in ended.out, raise_it in vibe("plan", "status", "latest").out) == (True, True)
        report = vibe("plan", "report", "latest", "--format", "json").document
        assert report["outcome"] == "limit"
        assert {step["id"]: step["status"] for step in report["steps"]}["after"] == "blocked"
        assert vibe("plan", "edit", "latest", flag, more).code == 0
        resumed = vibe("plan", "resume", "latest", "--output", "json")

    assert resumed.code == 0, resumed.err
    assert {step["status"] for step in resumed.document["steps"]} == {"completed"}
    assert resumed.document["warnings"] == []


def test_a_step_s_own_limit_is_tolerated_and_named_at_the_end(vibe: VibeCommand, write_plan: WritePlan) -> None:
    vibe.replay({"turns": []})
    own = {**RESEARCH, "id": "own", "on_failure": "continue", "max_tokens": 100}
    ended = vibe("plan", "run", write_plan(own, command_step("after", "true", depends_on=["own"])))

    assert ended.code == 0
    assert "warning: step 'own' failed (the budget of step 'own' is used up: max_tokens 100 leaves" in ended.out


def test_a_plan_out_of_time_says_which_steps_that_cut(vibe: VibeCommand, write_plan: WritePlan) -> None:
    steps = [command_step(name, "sleep 30", on_failure="continue") for name in ("a", "b")]
    record = vibe("plan", "run", "--output", "json", write_plan(*steps, budget={"max_seconds": 0.3})).document

    assert (record["exit_code"], record["outcome"]) == (4, "limit")
    assert record["result"] == "failed: budget (max_seconds), at work: a, b"
