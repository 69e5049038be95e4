"""What a command does to a plan that nobody runs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest

from planner.instructions import RestoredStep, Unfinished
from planner.journal import SyncPolicy
from planner.model import PlanBudget, PlanStatus, StepStatus
from planner.operations import RevisionInvalidError, read_operations
from planner.problems import DecisionInvalidError, PlanEndedError, UnknownStepError
from planner.records import (
    AttemptEnded,
    JournalRecord,
    PlanMoved,
    ProcessAttached,
    RunSettings,
    StepMoved,
)
from planner.reuse import ONLY_REASON
from planner.standing import standing_of
from planner.store import PlanStore
from planner.store_errors import BrokenPlanError
from subagents.executor import StepResult
from tests.fakes.executor import completed, failed
from vibe.core.outcome import Outcome

P, R = StepStatus.PENDING, StepStatus.IN_PROGRESS
CHOICE = {"id": "d", "question": "Which?", "options": [{"id": "x", "label": "X"}, {"id": "y", "label": "Y"}]}
STEPS: Mapping[str, Mapping[str, Any]] = {
    "a": {"on_failure": "ask"},
    "b": {"depends_on": ["a"]},
    "c": {"depends_on": ["b"], "decision": "d"},
    "e": {"side_effects": True},
    "w": {"decision": "d"},
}


def make(tmp_path: Path, *records: JournalRecord, steps: Mapping[str, Mapping[str, Any]] = STEPS) -> PlanStore:
    documents = [{"id": step_id, "title": step_id, "mode": "research", **fields} for step_id, fields in steps.items()]
    source = msgspec.json.encode({"version": 1, "goal": "a goal", "steps": documents, "decisions": [CHOICE]})
    store = PlanStore.create(tmp_path, RunSettings(workspace="/w"), source, sync_policy=SyncPolicy.NEVER)
    for record in records:
        store.append(record)
    return store


def began(step_id: str, attempt: int = 1) -> StepMoved:
    return StepMoved(at=2.0, step_id=step_id, previous=P, status=R, attempt=attempt)


def ended(step_id: str, *, ok: bool = True, unfinished: Unfinished | None = None) -> AttemptEnded:
    result = completed() if ok else failed(detail="no luck")
    return AttemptEnded(at=3.0, step_id=step_id, attempt=1, result=result, unfinished=unfinished)


STARTED = (ProcessAttached(at=1.0, pid=1), PlanMoved(at=1.0, status=PlanStatus.ACTIVE))
ASKING = (*STARTED, began("a"), ended("a", ok=False, unfinished=Unfinished.ASKING))
DONE = (*STARTED, began("a"), ended("a"), began("b"), ended("b"))


def statuses(store: PlanStore) -> dict[str, str]:
    standing = standing_of(store.effective().plan, store.replay())
    return {step_id: status.value for step_id, status in standing.statuses.items()}


def snapshot(store: PlanStore) -> tuple[PlanStatus, str | None]:
    seen = store.folder.snapshot()
    assert seen is not None
    return seen.status, seen.reason


def test_what_a_step_waits_for_is_told_from_the_journal(tmp_path: Path) -> None:
    with make(tmp_path, *ASKING, began("e")) as store:
        standing = standing_of(store.effective().plan, store.replay())
        assert statuses(store) == {
            "a": "needs_decision",
            "b": "blocked",
            "c": "blocked",
            "e": "needs_decision",
            "w": "needs_decision",
        }
        assert [decision.id for decision in standing.open_decisions] == ["failed:a:1", "interrupted:e:1", "d"]
        live = standing_of(store.effective().plan, store.replay(), running=True)
        assert live.statuses["e"] is R
        assert standing.counts() == {"needs_decision": 3, "blocked": 2}


def test_a_reset_takes_whatever_depends_on_the_step_along(tmp_path: Path) -> None:
    with make(tmp_path, *DONE) as store:
        store.reset(["a"])
        assert statuses(store) == {
            "a": "pending",
            "b": "blocked",
            "c": "blocked",
            "e": "pending",
            "w": "needs_decision",
        }
        assert store.replay().steps["b"] == RestoredStep(P, 2)
        assert snapshot(store) == (PlanStatus.PAUSED, "reset")
        with pytest.raises(UnknownStepError, match="no step 'x'"):
            store.reset(["x"])


def test_an_answer_given_before_a_reset_counts_no_more(tmp_path: Path) -> None:
    with make(tmp_path, *ASKING) as store:
        store.decide("failed:a:1", ["skip"])
        store.reset(["a"])
        assert store.replay().decisions == {}


def test_a_decision_must_be_open_and_offer_what_is_chosen(tmp_path: Path) -> None:
    with make(tmp_path, *ASKING) as store:
        for decision_id, chosen in (("failed:a:1", "again"), ("failed:a:2", "retry"), ("interrupted:e:1", "again")):
            with pytest.raises(DecisionInvalidError):
                store.decide(decision_id, [chosen])
        store.decide("failed:a:1", ["retry"])
        store.decide("d", ["x"])
        with pytest.raises(DecisionInvalidError, match="was taken already: x"):
            store.decide("d", ["y"])
        assert store.replay().decisions == {"failed:a:1": ("retry",), "d": ("x",)}
        assert snapshot(store) == (PlanStatus.PAUSED, "decided")
        assert statuses(store)["a"] == "pending"


def test_a_cancelled_plan_is_given_up_for_good(tmp_path: Path) -> None:
    with make(tmp_path, *DONE) as store:
        store.cancel("no more")
        assert statuses(store) == {
            "a": "completed",
            "b": "completed",
            "c": "cancelled",
            "e": "cancelled",
            "w": "cancelled",
        }
        assert snapshot(store) == (PlanStatus.CANCELLED, "no more")
        for again in (store.cancel, lambda: store.reset(["a"]), lambda: store.decide("d", ["x"])):
            with pytest.raises(PlanEndedError):
                again()


def test_revisions_are_part_of_the_plan_from_then_on(tmp_path: Path) -> None:
    with make(tmp_path, *DONE, began("e")) as store:
        store.revise(read_operations([{"op": "update_step", "id": "e", "changes": {"title": "other"}}]), reason="so")
        store.revise(read_operations([{"op": "remove_step", "id": "w"}]), by="me")
        with pytest.raises(RevisionInvalidError, match="is completed"):
            store.revise(read_operations([{"op": "remove_step", "id": "b"}]))
        plan = store.effective().plan
        assert [(step.id, step.title) for step in plan.steps] == [("a", "a"), ("b", "b"), ("c", "c"), ("e", "other")]
        assert store.replay().steps["e"] == RestoredStep(P, 2), "what was begun is no longer what is wanted"
        assert [(r.reason, r.by) for r in store.replay().revisions] == [("so", "user"), ("", "me")]
        assert snapshot(store) == (PlanStatus.PAUSED, "revised")


def test_a_failed_plan_can_be_mended_by_a_revision(tmp_path: Path) -> None:
    lost = (*STARTED, began("b"), ended("b", ok=False), PlanMoved(at=4.0, status=PlanStatus.FAILED))
    with make(tmp_path, *lost, steps={"b": {}}) as store:
        store.revise(read_operations([{"op": "update_step", "id": "b", "changes": {"title": "other"}}]))
        assert (store.replay().status, store.replay().steps["b"]) == (PlanStatus.PAUSED, RestoredStep(P, 2))


def test_a_revision_in_the_journal_that_no_longer_fits_is_said_with_its_place(tmp_path: Path) -> None:
    with make(tmp_path) as store:
        store.revise(read_operations([{"op": "remove_step", "id": "w"}]))
        (store.folder.path / "plan.json").write_bytes(
            b'{"version": 1, "goal": "g", "steps": [{"id": "z", "title": "z", "mode": "research"}]}'
        )
        with pytest.raises(BrokenPlanError, match=r"journal\.jsonl: revision 1 does not fit"):
            store.effective()


def test_what_a_run_left_out_is_done_again_only_if_it_is_named(tmp_path: Path) -> None:
    left_out = StepMoved(at=4.0, step_id="c", previous=P, status=StepStatus.SKIPPED, reason=ONLY_REASON)
    with make(tmp_path, *DONE, left_out) as store:
        store.reset(["a"])
        assert store.replay().steps["b"] == RestoredStep(P, 2)
        assert store.replay().steps["c"].status is StepStatus.SKIPPED
        store.reset(["c"])
        assert store.replay().steps["c"].status is P


def test_what_a_command_does_costs_the_plan_no_time(tmp_path: Path) -> None:
    times = iter([1_000_000.0] * 20)
    with make(tmp_path, *DONE) as store:
        store._now = lambda: next(times)  # pyright: ignore[reportPrivateUsage]  its clock
        before = store.replay().active_seconds
        store.reset(["b"])
        assert store.replay().active_seconds == before > 0


def test_with_another_budget_what_ran_out_of_the_old_one_is_done_again(tmp_path: Path) -> None:
    out = StepResult(outcome=Outcome.LIMIT, reason="budget", detail="the budget of the plan is used up")
    ran_out = AttemptEnded(at=3.0, step_id="a", attempt=1, result=out)
    end = PlanMoved(at=4.0, status=PlanStatus.FAILED, outcome=Outcome.LIMIT)
    with make(tmp_path, *STARTED, began("a"), ran_out, began("e"), ended("e", ok=False), end) as store:
        assert statuses(store)["a"] == "failed"

        store.revise(read_operations([{"op": "set_budget", "budget": {"max_tokens": 5_000}}]))

        assert store.effective().plan.budget == PlanBudget(max_tokens=5_000)
        assert (statuses(store)["a"], statuses(store)["e"]) == ("pending", "failed")
        assert snapshot(store) == (PlanStatus.PAUSED, "revised")
        store.revise(read_operations([{"op": "set_budget", "budget": None}]))
        assert store.effective().plan.budget is None
