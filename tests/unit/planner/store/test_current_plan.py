"""Reading a plan back from a folder that somebody has changed by hand."""

from __future__ import annotations

from pathlib import Path

import pytest

from ipc.events import Fact
from planner.store.current_plan import effective_plan
from planner.store.errors import BrokenPlanError
from planner.store.folder import RunSettings, find_plan
from planner.store.store import PlanStore
from tests.unit.planner.facts import decision, ended, revised
from tests.unit.planner.plan_bench import CHOICE, plan_of

PLAN = plan_of({"a": {"decision": "choice"}, "b": ["a"]}, decisions=[CHOICE])


def folder_with(home: Path, *records: Fact) -> str:
    source = PLAN.model_dump_json(exclude_unset=True).encode()
    with PlanStore.create(home, RunSettings(workspace="/w"), source) as store:
        for record in records:
            store.append(record)
        return store.plan_id


@pytest.mark.parametrize(
    ("record", "says"),
    [
        (revised({"op": "remove_step", "id": "zz"}), "unknown step 'zz'"),
        (revised({"id": "a"}), 'is required; add "op"'),
        (revised({"op": ["remove_step"], "id": ["a"]}), "is not one of"),
        (
            revised({"op": "update_step", "id": {}, "changes": {"title": "x"}}),
            "operations[0]",
        ),
        (decision("nope", "left"), "the plan has no such decision"),
        (decision("choice", "up"), "unknown option 'up'"),
        (decision("choice", "left", "right"), "exactly one option"),
    ],
)
def test_records_that_do_not_fit_the_plan_break_it_in_one_sentence(tmp_path: Path, record: Fact, says: str) -> None:
    plan_id = folder_with(tmp_path, record)
    with pytest.raises(BrokenPlanError) as caught:
        effective_plan(find_plan(tmp_path, plan_id))
    assert says in str(caught.value)
    assert "journal.jsonl: " in str(caught.value)
    assert "\n" not in str(caught.value)


def test_answers_about_attempts_and_results_of_steps_that_are_gone_do_no_harm(tmp_path: Path) -> None:
    answer = decision("failed:gone:1", "retry")
    result = ended("gone")
    plan_id = folder_with(tmp_path, answer, result)
    assert [step.id for step in effective_plan(find_plan(tmp_path, plan_id)).plan.steps] == ["a", "b"]


@pytest.mark.parametrize("step_id", ["../../out", "a/../../../out", "..", "", "a\nb"])
def test_a_result_is_written_nowhere_but_in_the_plans_folder(tmp_path: Path, step_id: str) -> None:
    plan_id = folder_with(tmp_path, ended(step_id))
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(BrokenPlanError, match="not a step id"):
        PlanStore.open(tmp_path, plan_id)
    assert sorted(tmp_path.rglob("*")) == before
