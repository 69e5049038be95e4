"""A client's plan counts as a model's, and the limits of the call replace its own."""

from __future__ import annotations

import json
from typing import Any

import pytest

from planner.plan.diagnostics import PlanInvalidError
from vibe.app.plan.command_consent import is_by_model
from vibe.mcp_server.served_plan import read_document, remaining_budget

DOCUMENT: dict[str, Any] = {
    "version": 1,
    "goal": "g",
    "steps": [{"id": "a", "title": "A", "mode": "run", "command": "ls"}],
    "budget": {"max_tokens": 5, "max_seconds": 9},
    "metadata": {"origin": "me", "note": "kept"},
}


@pytest.mark.parametrize(
    "given",
    [DOCUMENT, json.dumps(DOCUMENT), "version: 1\ngoal: g\nsteps: [{id: a, title: A, mode: run, command: ls}]\n"],
)
def test_whatever_it_says_of_its_origin_a_model_wrote_it(given: dict[str, Any] | str) -> None:
    assert is_by_model(read_document(given, {}).plan)


def test_limits_of_the_call_stand_over_those_of_the_plan() -> None:
    plan = read_document(DOCUMENT, {"max_tokens": 100, "max_price": 0.5}).plan

    assert plan.budget is not None
    assert (plan.budget.max_tokens, plan.budget.max_price, plan.budget.max_seconds) == (100, 0.5, 9)
    assert plan.metadata["note"] == "kept"


def test_every_problem_is_told() -> None:
    with pytest.raises(PlanInvalidError) as raised:
        read_document({"version": 1, "steps": []}, {})

    assert {problem.path for problem in raised.value.problems} >= {"goal", "steps"}


@pytest.mark.parametrize("spent", [30, 400])
def test_planning_is_paid_for_out_of_the_budget(spent: int) -> None:
    left = remaining_budget({"max_tokens": 100, "max_price": 1.0, "max_seconds": 7}, spent, 0.25)

    assert left == {"max_tokens": max(1, 100 - spent), "max_price": 0.75, "max_seconds": 7}
