"""Attempts that step up to the next model, which continues what the previous one could not do, and nothing else."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from planner.plan.dag import Dag
from planner.plan.diagnostics import PlanInvalidError
from planner.plan.estimate import estimate
from planner.plan.loader import load_plan
from planner.plan.status import PlanStatus
from planner.run.step_runner import DispatchOptions
from subagents.agent.budget import Account, Limits
from subagents.executor import StepResult
from subagents.step.prompts import first_message
from tests.fakes.clock import SleepyClock
from tests.fakes.executor import ScriptedExecutor, completed, failed
from tests.unit.planner.plan_bench import Bench, plan_of
from vibe.core.config.models import ModelConfig
from vibe.core.messages import Outcome, Usage

LADDER = {"a": {"model": ["small", "large"], "writes": []}}


def models(executor: ScriptedExecutor) -> list[object]:
    return [task.step.model for task in executor.tasks]


@pytest.mark.parametrize(
    ("first", "climbs"),
    [
        (failed(), True),
        (StepResult(outcome=Outcome.BLOCKED, reason="blocked"), True),
        (StepResult(outcome=Outcome.LIMIT, reason="turns"), True),
        (StepResult(outcome=Outcome.LIMIT, reason="budget"), True),
        (StepResult(outcome=Outcome.LIMIT, reason="timeout"), False),
        (StepResult(outcome=Outcome.LIMIT, reason="model", provider_refused=True), False),
        (StepResult(outcome=Outcome.FAILED, reason="model", provider_refused=True), False),
        (StepResult(outcome=Outcome.INTERRUPTED), False),
        (StepResult(outcome=Outcome.FAILED, reason="lost"), False),
        (StepResult(outcome=Outcome.FAILED, reason="model", any_model=True), False),
        (StepResult(outcome=Outcome.LIMIT, reason="budget", any_model=True), False),
    ],
)
async def test_the_next_model_takes_over_what_the_first_could_not_do(
    tmp_path: Path, first: StepResult, climbs: object
) -> None:
    executor = ScriptedExecutor({"a": [first, completed()]})
    clock = SleepyClock()
    outcome = await Bench(tmp_path, plan_of(LADDER)).run(executor, clock=clock)
    assert models(executor)[: 1 + bool(climbs)] == ["small", "large"][: 1 + bool(climbs)]
    if climbs:
        assert outcome.status is PlanStatus.COMPLETED
        assert clock.slept == []
    else:
        assert "large" not in models(executor)


async def test_the_next_model_is_told_what_the_one_before_came_to(tmp_path: Path) -> None:
    last = StepResult(
        outcome=Outcome.FAILED, reason="verify", detail="`pytest` exited with 1", printed="E  1 != 2", branch="b1"
    )
    executor = ScriptedExecutor({"a": [last, completed()]})
    await Bench(tmp_path, plan_of(LADDER)).run(executor)
    first, second = (first_message(task) for task in executor.tasks)
    assert "before this one" not in first
    for told in ("reason verify", "`pytest` exited with 1", "E  1 != 2", "on the branch b1"):
        assert told in second
    executor = ScriptedExecutor({"a": [StepResult(outcome=Outcome.FAILED, printed="x" * 9_000), completed()]})
    await Bench(tmp_path, plan_of(LADDER)).run(executor)
    assert len(executor.tasks[1].before) <= 2_000


async def test_a_retry_by_the_same_model_is_told_what_the_attempt_before_came_to(tmp_path: Path) -> None:
    strayed = StepResult(outcome=Outcome.FAILED, reason="merge", detail="it changed 'b.py'", branch="b1")
    executor = ScriptedExecutor({"a": [strayed, completed()]})
    await Bench(tmp_path, plan_of({"a": {"retries": 1, "writes": []}})).run(executor, clock=SleepyClock())
    first, second = (first_message(task) for task in executor.tasks)
    assert "before this one" not in first
    for told in ("did not get this step done", "reason merge", "it changed 'b.py'", "on the branch b1"):
        assert told in second


async def test_retries_count_beyond_the_last_model_and_wait(tmp_path: Path) -> None:
    executor = ScriptedExecutor({"a": [failed(), failed(), completed()]})
    clock = SleepyClock()
    bench = Bench(tmp_path, plan_of({"a": {**LADDER["a"], "retries": 1}}))
    outcome = await bench.run(executor, clock=clock)
    assert outcome.status is PlanStatus.COMPLETED
    assert models(executor) == ["small", "large", "large"]
    assert clock.slept == [1.0]
    journal = (tmp_path / "plans" / bench.plan_id / "journal.jsonl").read_text()
    said = [json.loads(line) for line in journal.splitlines() if '"plan.attempt"' in line]
    assert [fact["model"] for fact in said] == ["small", "large", "large"]


async def test_a_process_killed_between_two_models_goes_on_with_the_second(tmp_path: Path) -> None:
    bench = Bench(tmp_path, plan_of(LADDER))
    await bench.run(ScriptedExecutor({"a": [failed(), completed()]}))
    await bench.forget(b'"plan.retry"')
    executor = ScriptedExecutor()
    assert (await bench.run(executor)).status is PlanStatus.COMPLETED
    assert models(executor) == ["large"]
    assert executor.tasks[0].before


MODEL = ModelConfig(name="m", provider="p", alias="m", input_price=1.0, output_price=2.0)


@pytest.mark.parametrize(
    ("reserved", "lacks"), [(20, ""), (21, "max_tokens 1000 of the plan leaves 98, and it needs 100")]
)
def test_a_model_must_find_all_that_its_step_allows_it_beside_what_others_reserved(reserved: int, lacks: str) -> None:
    account = Account("the plan", Limits(max_tokens=1_000))
    account.book(Usage(800, 60, 0, 1), None)
    account.hold(reserved, 0.0)
    assert account.shortage(MODEL, 10, Limits(max_tokens=100)) == lacks


@pytest.mark.parametrize(
    ("limits", "prompt", "wanted", "lacks"),
    [
        (Limits(max_tokens=1_000), 36, Limits(), ""),
        (Limits(max_tokens=1_000), 37, Limits(), "max_tokens 1000 of the plan leaves 100, and it needs 101"),
        (Limits(max_price=0.03), 9_872, Limits(), ""),
        (Limits(max_price=0.03), 9_873, Limits(), "max_price 0.03 of the plan leaves 0.01, and it needs 0.010001"),
        (Limits(max_price=0.03), 10, Limits(max_price=0.01), ""),
        (
            Limits(max_price=0.03),
            10,
            Limits(max_price=0.02),
            "max_price 0.03 of the plan leaves 0.01, and it needs 0.02",
        ),
        (Limits(), 10**9, Limits(max_tokens=10**9, max_price=9.0), ""),
    ],
)
def test_another_attempt_needs_room_for_a_call_like_those_of_the_one_before(
    limits: Limits, prompt: int, wanted: Limits, lacks: str
) -> None:
    account = Account("the plan", limits)
    account.book(Usage(800, 100, 0, 1), 0.02)
    assert account.shortage(MODEL, prompt, wanted) == lacks


@pytest.mark.parametrize(
    ("fields", "first", "ended"),
    [
        (LADDER["a"], failed(), ("limit", "budget", "model 'large' was not tried: 98 left")),
        ({"retries": 1, "writes": []}, failed(), ("limit", "budget", "it was not tried again: 98 left")),
        (LADDER["a"], StepResult(outcome=Outcome.BLOCKED, reason="blocked"), ("blocked", "blocked", "model 'large'")),
    ],
)
async def test_an_attempt_that_can_do_nothing_is_not_begun_and_the_step_says_so(
    tmp_path: Path, fields: dict[str, object], first: StepResult, ended: tuple[str, str, str]
) -> None:
    executor = ScriptedExecutor({"a": [first, completed()]})
    asked: list[tuple[int, StepResult]] = []

    def shortage(_step: object, attempt: int, result: StepResult) -> str:
        asked.append((attempt, result))
        return "98 left"

    bench = Bench(tmp_path, plan_of({"a": fields}), options=DispatchOptions(shortage=shortage))
    outcome = await bench.run(executor, clock=SleepyClock())
    assert len(executor.tasks) == 1
    assert asked == [(1, first)]
    (step,) = outcome.steps
    assert (step.last_result.outcome, step.reason) == ended[:2]
    assert ended[2] in step.detail
    assert step.detail.startswith(first.detail)
    assert outcome.outcome == ended[0]


async def test_a_plan_is_revised_after_the_last_model_only(tmp_path: Path) -> None:
    executor = ScriptedExecutor({"a": failed()})
    outcome = await Bench(tmp_path, plan_of({"a": {**LADDER["a"], "on_failure": "replan"}})).run(executor)
    assert models(executor) == ["small", "large"]
    assert "no planner to revise the plan" in outcome.steps[0].detail


def test_a_step_that_acts_outside_has_one_model() -> None:
    step = {"id": "a", "title": "t", "mode": "code", "side_effects": True}
    plan = {"version": 1, "goal": "g", "steps": [step], "defaults": {"model": ["x", "y"]}}
    with pytest.raises(PlanInvalidError, match=r"steps\[0\].model: a step with side effects is never retried"):
        load_plan(json.dumps(plan), where="p")
    with pytest.raises(PlanInvalidError, match="must have at most 4 entries, not 5"):
        load_plan(json.dumps(plan | {"defaults": {"model": list("abcde")}}), where="p")


def test_the_bounds_of_a_plan_count_every_model_and_every_item() -> None:
    one = estimate(plan := plan_of({"a": {"max_tokens": 10}}), Dag.build(plan.steps))
    more = estimate(
        plan := plan_of({"a": {"max_tokens": 10, "model": ["x", "y"], "retries": 1}}), Dag.build(plan.steps)
    )
    many = estimate(plan := plan_of({"a": {"max_tokens": 10, "for_each": [1, 2, 3, 4]}}), Dag.build(plan.steps))
    assert (one.max_tokens, more.max_tokens, many.max_tokens, many.model_steps) == (10, 30, 40, 4)
