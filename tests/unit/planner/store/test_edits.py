"""The effects of commands on a plan that nobody runs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest

from ipc.commands import Act, Cancel, Decide, Revise, Steer, StepAction
from ipc.events import Fact, PlanStoppingEvent
from planner.plan.diagnostics import DecisionInvalidError, PlanEndedError, UnknownStepError
from planner.plan.model import PlanBudget, PlanStatus, StepStatus
from planner.plan.operations import RevisionInvalidError
from planner.state.commands import Retry, Tell
from planner.state.decide import preview_next_run
from planner.state.state import ONLY_REASON, Left, State, StepState
from planner.store.current_plan import current_state
from planner.store.errors import BrokenPlanError
from planner.store.folder import RunSettings
from planner.store.store import PlanStore
from subagents.executor import StepResult
from tests.fakes.executor import completed, failed
from tests.unit.planner import facts as made
from tests.unit.planner.facts import began, finished, moved, retrying, took_up
from vibe.core.messages import Outcome
from vibe.system.errors import UsageError

P, B = StepStatus.PENDING, StepStatus.BLOCKED
CHOICE = {"id": "d", "question": "Which?", "options": [{"id": "x", "label": "X"}, {"id": "y", "label": "Y"}]}
STEPS: Mapping[str, Mapping[str, Any]] = {
    "a": {"on_failure": "ask"},
    "b": {"depends_on": ["a"]},
    "c": {"depends_on": ["b"], "decision": "d"},
    "e": {"side_effects": True},
    "w": {"decision": "d"},
}


def make(tmp_path: Path, *facts: Fact, steps: Mapping[str, Mapping[str, Any]] = STEPS) -> PlanStore:
    documents = [{"id": step_id, "title": step_id, "mode": "research", **fields} for step_id, fields in steps.items()]
    source = msgspec.json.encode({"version": 1, "goal": "a goal", "steps": documents, "decisions": [CHOICE]})
    store = PlanStore.create(tmp_path, RunSettings(workspace="/w"), source)
    for fact in facts:
        store.append(fact)
    return store


def ended(step_id: str, *, ok: bool = True, left: Left | None = None) -> tuple[Fact, ...]:
    attempt = made.ended(step_id, completed() if ok else failed(detail="no luck"), left=left)
    if left is not None:
        return (attempt,)
    return attempt, moved(step_id, StepStatus.COMPLETED if ok else StepStatus.FAILED)


STARTED = (took_up(1.0, None, *STEPS),)
ASKING = (*STARTED, began("a"), *ended("a", ok=False, left=Left.ASKING))
DONE = (*STARTED, began("a"), *ended("a"), began("b"), *ended("b"))


def looked_at(store: PlanStore) -> State:
    return preview_next_run(store.folder.state(), store.effective())


def step_of(store: PlanStore, step_id: str) -> tuple[StepStatus, int]:
    step: StepState = looked_at(store).steps[step_id]
    return step.status, step.attempt


def statuses(store: PlanStore) -> dict[str, str]:
    return {step_id: step.status.value for step_id, step in looked_at(store).steps.items()}


def snapshot(store: PlanStore) -> tuple[PlanStatus, str | None]:
    seen = store.folder.snapshot()
    assert seen is not None
    return seen.status, seen.reason


def test_what_a_step_waits_for_is_told_from_the_journal(tmp_path: Path) -> None:
    with make(tmp_path, *ASKING, began("e")) as store:
        state = looked_at(store)
        assert statuses(store) == {
            "a": "needs_decision",
            "b": "blocked",
            "c": "blocked",
            "e": "needs_decision",
            "w": "needs_decision",
        }
        assert list(state.open) == ["failed:a:1", "interrupted:e:1", "d"]
        _, live = current_state(store.folder)
        assert live.steps["e"].status is StepStatus.IN_PROGRESS
        assert state.counted() == {"needs_decision": 3, "blocked": 2}


def test_a_reset_takes_whatever_depends_on_the_step_along(tmp_path: Path) -> None:
    with make(tmp_path, *DONE) as store:
        store.reset(retrying("a"))
        assert statuses(store) == {
            "a": "pending",
            "b": "blocked",
            "c": "blocked",
            "e": "pending",
            "w": "needs_decision",
        }
        assert step_of(store, "b") == (B, 2)
        assert snapshot(store) == (PlanStatus.PAUSED, "reset")
        with pytest.raises(UnknownStepError, match="no step 'x'"):
            store.reset(retrying("x"))


def test_an_answer_given_before_a_reset_counts_no_more(tmp_path: Path) -> None:
    with make(tmp_path, *ASKING) as store:
        store.take(Decide(decision_id="failed:a:1", selections=("skip",)))
        store.reset(retrying("a"))
        assert store.state().decisions == {}


def test_a_decision_must_be_open_and_offer_what_is_chosen(tmp_path: Path) -> None:
    with make(tmp_path, *ASKING) as store:
        for decision_id, chosen in (("failed:a:1", "again"), ("failed:a:2", "retry"), ("interrupted:e:1", "again")):
            with pytest.raises(DecisionInvalidError):
                store.take(Decide(decision_id=decision_id, selections=(chosen,)))
        store.take(Decide(decision_id="failed:a:1", selections=("retry",)))
        store.take(Decide(decision_id="d", selections=("x",)))
        with pytest.raises(DecisionInvalidError, match="already decided: x"):
            store.take(Decide(decision_id="d", selections=("y",)))
        assert store.state().answers() == {"failed:a:1": ("retry",), "d": ("x",)}
        assert snapshot(store) == (PlanStatus.PAUSED, "decided")
        assert statuses(store)["a"] == "pending"


def test_a_cancelled_plan_is_given_up_for_good(tmp_path: Path) -> None:
    with make(tmp_path, *DONE) as store:
        store.take(Cancel(by="no more"))
        assert statuses(store) == {
            "a": "completed",
            "b": "completed",
            "c": "cancelled",
            "e": "cancelled",
            "w": "cancelled",
        }
        assert snapshot(store) == (PlanStatus.CANCELLED, "no more")
        for command in (Cancel(), Retry(retrying("a")), Decide(decision_id="d", selections=("x",))):
            with pytest.raises(PlanEndedError):
                store.take(command)


def test_a_plan_whose_process_died_while_it_was_given_up_is_revived_by_no_command(tmp_path: Path) -> None:
    with make(tmp_path, *ASKING, PlanStoppingEvent(ts=4.0, status="cancelled", reason="user")) as store:
        before = store.folder.journal().facts
        title = {"op": "update_step", "id": "w", "changes": {"title": "Other"}}
        for command in (
            Decide(decision_id="d", selections=("x",)),
            Decide(decision_id="failed:a:1", selections=("retry",)),
            Revise(operations=(title,)),
            Retry(retrying("a")),
            Act(step_id="w", action=StepAction.SKIP),
            Tell(Steer(step_id="w", text="hello")),
        ):
            with pytest.raises(UsageError, match="cancelled"):
                store.take(command)
        assert store.folder.journal().facts == before
        store.take(Cancel())
        assert snapshot(store) == (PlanStatus.CANCELLED, "user")


def test_revisions_are_part_of_the_plan_from_then_on(tmp_path: Path) -> None:
    with make(tmp_path, *DONE, began("e")) as store:
        store.take(Revise(operations=({"op": "update_step", "id": "e", "changes": {"title": "other"}},), reason="so"))
        store.take(Revise(operations=({"op": "remove_step", "id": "w"},), by="me"))
        with pytest.raises(RevisionInvalidError, match="running or completed"):
            store.take(Revise(operations=({"op": "remove_step", "id": "b"},)))
        plan = store.effective().plan
        assert [(step.id, step.title) for step in plan.steps] == [("a", "a"), ("b", "b"), ("c", "c"), ("e", "other")]
        assert step_of(store, "e") == (P, 2), "what was begun is no longer what is wanted"
        assert [(r.reason, r.by) for r in store.state().revisions] == [("so", "user"), ("", "me")]
        assert snapshot(store) == (PlanStatus.PAUSED, "revised")


def test_a_failed_plan_can_be_mended_by_a_revision(tmp_path: Path) -> None:
    lost = (took_up(1.0, None, "b"), began("b"), *ended("b", ok=False), finished(PlanStatus.FAILED))
    with make(tmp_path, *lost, steps={"b": {}}) as store:
        store.take(Revise(operations=({"op": "update_step", "id": "b", "changes": {"title": "other"}},)))
        assert (store.state().status, step_of(store, "b")) == (PlanStatus.PAUSED, (P, 2))


def test_a_revision_in_the_journal_that_no_longer_fits_is_said_with_its_place(tmp_path: Path) -> None:
    with make(tmp_path) as store:
        store.take(Revise(operations=({"op": "remove_step", "id": "w"},)))
        (store.folder.path / "plan.json").write_bytes(
            b'{"version": 1, "goal": "g", "steps": [{"id": "z", "title": "z", "mode": "research"}]}'
        )
        with pytest.raises(BrokenPlanError, match=r"journal\.jsonl: revision 1 does not fit"):
            store.effective()


def test_what_a_run_left_out_is_done_again_only_if_it_is_named(tmp_path: Path) -> None:
    left_out = moved("c", StepStatus.SKIPPED, previous=P, reason=ONLY_REASON)
    with make(tmp_path, *DONE, left_out) as store:
        store.reset(retrying("a"))
        assert step_of(store, "b") == (B, 2)
        assert step_of(store, "c")[0] is StepStatus.SKIPPED
        store.reset(retrying("c"))
        assert step_of(store, "c")[0] is StepStatus.BLOCKED


def test_what_a_command_does_costs_the_plan_no_time(tmp_path: Path) -> None:
    times = iter([1_000_000.0] * 20)
    with make(tmp_path, *DONE) as store:
        store._now = lambda: next(times)  # pyright: ignore[reportPrivateUsage]  its clock
        before = store.state().active_seconds
        store.reset(retrying("b"))
        assert store.state().active_seconds == before > 0


@pytest.mark.parametrize(
    "out",
    [
        StepResult(outcome=Outcome.LIMIT, reason="budget", detail="the budget of the plan is used up"),
        StepResult(outcome=Outcome.BLOCKED, reason="blocked", detail="model 'm' was not tried", any_model=True),
    ],
    ids=lambda out: out.reason,
)
def test_with_another_budget_what_ran_out_of_the_old_one_is_done_again(tmp_path: Path, out: StepResult) -> None:
    ran_out = (made.ended("a", out), moved("a", StepStatus.FAILED, reason="budget"))
    end = finished(PlanStatus.FAILED, outcome="limit")
    with make(tmp_path, *STARTED, began("a"), *ran_out, began("e"), *ended("e", ok=False), end) as store:
        assert statuses(store)["a"] == "failed"

        store.take(Revise(operations=({"op": "set_budget", "budget": {"max_tokens": 5_000}},)))

        assert store.effective().plan.budget == PlanBudget(max_tokens=5_000)
        assert (statuses(store)["a"], statuses(store)["e"]) == ("pending", "failed")
        assert snapshot(store) == (PlanStatus.PAUSED, "revised")
        store.take(Revise(operations=({"op": "set_budget", "budget": None},)))
        assert store.effective().plan.budget is None
