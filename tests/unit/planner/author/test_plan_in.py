"""A plan is understood in whatever form a model writes it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest

from planner.author.structured_output import MAX_REFUSALS, PlanOffer, RevisionOffer, plan_schema
from planner.plan.operations import Operation, operation_text

STEPS = [{"id": "a", "title": "Do a", "mode": "code"}]
PLAN = {"goal": "Own goal", "steps": STEPS}
NO_DATA = "no data [at all"


def offer(*, with_goal: bool = True) -> PlanOffer:
    return PlanOffer("Asked for", {}, schema=plan_schema(with_goal=with_goal))


@pytest.mark.parametrize(
    "value",
    [
        PLAN,
        {**PLAN, "version": 1, "summary": "a plan"},
        json.dumps(PLAN),
        {"plan": PLAN},
        {"plan": json.dumps(PLAN)},
        {"goal": "Own goal", "plan": STEPS},
        {"goal": "Own goal", "steps": json.dumps(STEPS)},
        {"value": {"plan": PLAN}},
        f"Here is the plan:\n```json\n{json.dumps(PLAN)}\n```\n",
        {**PLAN, "steps": [{"id": "A", "title": "Do a", "mode": "Code", "depends_on": None, "verify": "make test"}]},
        {**PLAN, "steps": [{**STEPS[0], "retries": "2", "side_effects": "False", "command": "", "on_failure": None}]},
        {**PLAN, "max_parallel_steps": "4", "steps": json.dumps([{**STEPS[0], "writes": '["a.py"]', "verify": [""]}])},
    ],
    ids=[
        *("flat", "with more", "text", "in a field", "text in a field", "steps in a field", "steps as text", "deep"),
        *("prose", "loose lists", "loose values", "text in text"),
    ],
)
def test_a_plan_is_taken_in_any_form(value: Any) -> None:
    taken = offer()

    assert taken.offer(value) is None
    assert taken.plan is not None
    assert taken.plan.loaded.plan.goal == "Own goal"
    assert [step.id for step in taken.plan.loaded.plan.steps] == ["a"]


@pytest.mark.parametrize("value", [STEPS, json.dumps(STEPS), {"steps": STEPS}, {"value": STEPS}])
@pytest.mark.parametrize("with_goal", [True, False])
def test_a_plan_without_a_goal_is_for_what_was_asked(value: Any, *, with_goal: bool) -> None:
    taken = offer(with_goal=with_goal)

    assert taken.offer(value) is None
    assert taken.plan is not None
    assert taken.plan.loaded.plan.goal == "Asked for"


@pytest.mark.parametrize(
    "value", [NO_DATA, 7, None, {"plan": NO_DATA}, {"steps": NO_DATA}, {"steps": [], "plan": PLAN}]
)
def test_what_is_no_plan_is_refused_with_its_field(value: Any) -> None:
    taken = offer()

    assert "value" in (taken.offer(value) or "")
    assert taken.plan is None


def test_a_plan_is_repaired_before_it_is_held_against_the_schema() -> None:
    taken = offer()
    steps = [
        {"id": 1, "title": "Read it", "mode": "research"},
        {"title": "Write it", "mode": "code", "depends_on": ["Read it"], "verify": "make test"},
        {
            "id": "check",
            "title": "Check",
            "mode": "run",
            "command": "make",
            "depends_on": "1, write-it",
            "when": {"Go?": "Yes"},
        },
    ]
    decisions = [{"question": "Go?", "options": ["Yes", "No"]}]

    assert taken.offer({"steps": steps, "decisions": decisions}) is None
    assert taken.plan is not None
    plan = taken.plan.loaded.plan
    assert [(step.id, list(step.depends_on)) for step in plan.steps] == [
        ("1", []),
        ("write-it", ["1"]),
        ("check", ["1", "write-it"]),
    ]
    assert (plan.steps[1].verify, plan.steps[2].when) == (["make test"], {"go": ["yes"]})
    assert plan.metadata["repairs"] == [
        "the missing step id became 'write-it'",
        "the missing decision id became 'go'",
        "the missing option id became 'yes'",
        "the missing option id became 'no'",
    ]


def test_text_that_looks_like_data_stays_text() -> None:
    taken = offer()

    assert taken.offer({**PLAN, "context": "{}"}) is None
    assert taken.plan is not None
    assert taken.plan.loaded.plan.context == "{}"


def test_an_offer_without_a_bound_may_be_mended_for_ever() -> None:
    bounded, free = offer(), offer()
    free.tries = None
    for _ in range(MAX_REFUSALS):
        assert "more" in (bounded.offer(7) or "")
        assert "tries" not in (free.offer(7) or "")

    assert (bounded.given_up, free.given_up) == (True, False)


def test_a_goal_beside_the_steps_does_not_replace_the_one_that_was_asked_for() -> None:
    taken = offer(with_goal=False)
    assert taken.offer(PLAN) is None
    assert taken.plan is not None
    assert taken.plan.loaded.plan.goal == "Asked for"


def test_operations_are_taken_in_the_forms_that_models_write() -> None:
    taken: list[Operation] = []

    def check(operations: Sequence[Operation]) -> tuple[Operation, ...]:
        taken.extend(operations)
        return tuple(operations)

    step = {
        "id": "b",
        "title": "B",
        "mode": "Code",
        "depends_on": "a",
        "verify": "make",
        "retries": "1",
        "prompt": None,
    }
    operations = [
        {"op": "add_step", "step": json.dumps(step)},
        {"op": "add_edge", "step": "c", "depends_on": "b"},
        {"op": "remove_edge", "step": "c", "depends_on": "a"},
        {"op": "update_step", "id": "c", "changes": {"writes": "x.py", "max_turns": "7"}},
    ]

    assert RevisionOffer(check).offer({"reason": "why", "operations": json.dumps(operations)}) is None
    assert [operation_text(operation) for operation in taken] == [
        "add step b (code) after a: B",
        "make c depend on b",
        "c no longer depends on a",
        'change step c: writes = ["x.py"], max_turns = 7',
    ]
