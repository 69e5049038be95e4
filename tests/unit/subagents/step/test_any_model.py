"""Which ends of an attempt another model would have met, too."""

from __future__ import annotations

from pathlib import Path

import pytest

from subagents.agent.budget import Limits
from tests.fakes.steps import StepBench
from tests.fakes.tasks import task_of
from vibe.core.llm.errors import ModelError, ModelOverloadedError, ModelRequestError


@pytest.mark.parametrize(("plan", "own", "is_any"), [(100, 100_000, True), (100_000, 100, False), (100, 100, False)])
async def test_the_budget_of_the_plan_is_used_up_for_any_model_and_the_steps_own_is_not(
    tmp_path: Path, plan: int, own: int, is_any: object
) -> None:
    result = await StepBench(home=tmp_path, limits=Limits(max_tokens=plan)).run(task_of(max_tokens=own))

    assert (result.outcome, result.reason, result.any_model) == ("limit", "budget", is_any)


@pytest.mark.parametrize(
    ("error", "is_any"),
    [
        (ModelRequestError("HTTP 400: temperature is out of range; check the model name", status=400), True),
        (ModelRequestError("HTTP 400: this model has no tools; check the settings", status=400), False),
        (ModelRequestError("HTTP 404: not found; check the address", status=404), False),
        (ModelOverloadedError("HTTP 503: busy", status=503), False),
    ],
)
async def test_a_request_that_the_provider_refuses_is_refused_whatever_the_model_unless_it_blames_that(
    tmp_path: Path, error: ModelError, is_any: object
) -> None:
    result = await StepBench(home=tmp_path, answers=[error]).run(task_of())

    assert (result.outcome, result.reason, result.any_model) == ("failed", "model", is_any)
