"""The scheduler's handling of steps that failed or were cut off, by itself."""

from __future__ import annotations

from typing import Any

import pytest

from planner.plan.diagnostics import DecisionInvalidError
from planner.plan.status import PlanStatus, StepStatus
from planner.state.state import Left
from tests.unit.planner.scripted_run import ScriptedRun, choice, make_plan, started, step
from tests.unit.planner.told import (
    AskReviser,
    CancelRequested,
    DecisionTaken,
    MoveStep,
    OpenDecision,
    PauseRequested,
    PlanReplaced,
    RevisionRefused,
    StartStep,
    StepEnded,
    Was,
)
from vibe.core.messages import Outcome

ASK = {"on_failure": "ask"}
REPLAN = {"on_failure": "replan"}
EFFECTS = {"side_effects": True}


def run_of(*steps: dict[str, object], **options: Any) -> ScriptedRun:
    return ScriptedRun(make_plan(steps), wait_for_decisions=True, **options)


def answer(run: ScriptedRun, decision_id: str, *selections: str) -> list[str]:
    return started(run.send(DecisionTaken(decision_id, selections, "user")))


def replaced(*steps: dict[str, object], changed: str = "", answers: str | None = None) -> PlanReplaced:
    other = ScriptedRun(make_plan(steps))
    return PlanReplaced(other.plan, other.dag, frozenset(changed.split()), answers)


def test_a_limit_and_a_denial_are_asked_about_too() -> None:
    run = run_of(step("a", **ASK, retries=3), step("b", **ASK, retries=3))
    run.start()
    assert OpenDecision("failed:a:1") in run.end("a", outcome=Outcome.LIMIT)
    assert OpenDecision("failed:b:1") in run.end("b", outcome=Outcome.BLOCKED)


def test_an_answer_must_be_one_of_those_offered_and_wanted() -> None:
    run = run_of(step("a", **ASK))
    run.start()
    run.fail("a")
    for decision_id, chosen in (
        ("failed:a:1", ("again",)),
        ("failed:a:1", ("retry", "skip")),
        ("failed:a:2", ("skip",)),
    ):
        with pytest.raises(DecisionInvalidError):
            run.send(DecisionTaken(decision_id, chosen, "user"))
    assert answer(run, "failed:a:1", "retry") == ["a"]
    assert run.attempt("a") == 2


def test_what_was_waived_counts_as_done_and_as_failed() -> None:
    run = run_of(
        step("a", **ASK),
        step("then", "a"),
        step("instead", {"step": "a", "on": "failed"}),
        step("anyway", {"step": "a", "on": "finished"}),
    )
    run.start()
    run.fail("a", reason="verify")
    assert sorted(answer(run, "failed:a:1", "skip")) == ["anyway", "instead", "then"]
    run.end("then", "instead", "anyway")
    assert run.ended == (PlanStatus.COMPLETED, None)


def test_what_was_waived_in_an_earlier_run_still_lets_others_run() -> None:
    waived = Was(StepStatus.SKIPPED, 1, waived=True)
    assert started(run_of(step("a"), step("b", "a"), restored={"a": waived}).start()) == ["b"]
    skipped = Was(StepStatus.SKIPPED, 1)
    assert started(run_of(step("a"), step("b", "a"), restored={"a": skipped}).start()) == []


@pytest.mark.parametrize(("chosen", "status"), [("retry", "in_progress"), ("skip", "skipped"), ("stop", "failed")])
def test_an_answer_that_had_no_effect_before_the_process_ended_has_it_now(chosen: str, status: str) -> None:
    asking = Was(StepStatus.PENDING, 1, Left.ASKING, reason="verify")
    run = run_of(step("a", **ASK), restored={"a": asking}, decisions={"failed:a:1": (chosen,)})
    run.start()
    assert run.statuses() == {"a": status}
    assert run.asked == []
    assert run.attempt("a") == (2 if chosen == "retry" else 1)


def test_retries_of_a_step_with_side_effects_count_for_nothing() -> None:
    run = run_of(step("a", **EFFECTS, retries=3))
    run.start()
    run.fail("a")
    assert run.ended == (PlanStatus.FAILED, "failed")


def test_what_was_cut_off_goes_on_unless_it_has_side_effects() -> None:
    cut = {step_id: Was(StepStatus.PENDING, 2, Left.CUT) for step_id in ("plain", "effects")}
    run = run_of(step("plain"), step("effects", **EFFECTS), restored=cut)
    assert started(run.start()) == ["plain"]
    assert run.asked == ["interrupted:effects:2"]
    said = run.send(DecisionTaken("interrupted:effects:2", ("again",), "user"))
    assert StartStep("effects", 2) in said, "the same attempt goes on"


def test_a_cancelled_plan_asks_nobody() -> None:
    run = run_of(step("a", **ASK), step("b", **REPLAN), step("c", **EFFECTS))
    run.start()
    run.send(CancelRequested("enough"))
    run.fail("a", "b")
    run.send(StepEnded("c", Outcome.INTERRUPTED, cut=True))
    assert (run.asked, run.revising) == ([], [])
    assert run.ended == (PlanStatus.CANCELLED, "enough")


def test_a_better_plan_is_waited_for_and_a_pause_is_not_kept_waiting_by_it() -> None:
    run = run_of(step("a", **REPLAN), step("b", "a"), step("c"))
    run.start()
    assert AskReviser("a", 1) in run.fail("a", detail="no luck")
    run.end("c")
    assert run.ended is None
    assert run.statuses() == {"a": "pending", "b": "blocked", "c": "completed"}
    run.send(PauseRequested("enough"))
    assert run.ended == (PlanStatus.PAUSED, "enough")


def test_without_a_better_plan_the_failure_stands_with_both_reasons() -> None:
    run = run_of(step("a", **REPLAN))
    run.start()
    run.fail("a", reason="verify", detail="no luck")
    moved = MoveStep("a", StepStatus.PENDING, StepStatus.FAILED, "verify", "no luck; nor any idea", 1)
    assert moved in run.send(RevisionRefused("a", "nor any idea"))
    assert run.ended == (PlanStatus.FAILED, "verify")


def test_a_revision_keeps_what_runs_and_blocks_what_now_has_to_wait() -> None:
    run = run_of(step("a"), step("b"), step("gone"), max_parallel=1)
    run.start()
    said = run.send(replaced(step("a"), step("b", "new"), step("new", "a"), changed="b"))
    assert started(said) == []
    assert run.statuses() == {"a": "in_progress", "b": "blocked", "new": "blocked"}
    assert started(run.end("a")) == ["new"]
    assert started(run.end("new")) == ["b"]
    run.end("b")
    assert run.ended == (PlanStatus.COMPLETED, None)


def test_files_that_are_being_written_stay_claimed_over_a_revision() -> None:
    writer = {"mode": "code", "writes": ["src/**"]}
    run = run_of(step("a", **writer), step("b", **writer))
    run.start()
    assert started(run.send(replaced(step("a", **writer), step("b", **writer), step("c", **writer)))) == []
    assert started(run.end("a")) == ["b"]


def test_an_attempt_that_was_begun_is_not_gone_on_with_once_its_step_has_changed() -> None:
    stopped = {"a": Was(StepStatus.PENDING, 1, Left.STOPPED)}
    resumed = run_of(step("w"), step("a", "w"), restored=stopped)
    resumed.start()
    resumed.send(replaced(step("w"), step("a", "w", priority=1), changed="a"))
    assert StartStep("a", 2) in resumed.end("w")

    run = run_of(step("a"), step("b"))
    run.start()
    run.send(PauseRequested("enough"))
    run.end("a", outcome=Outcome.INTERRUPTED)
    run.send(replaced(step("a", priority=1), step("b"), changed="a"))
    assert run.attempt("a") == 2


def test_a_failed_step_that_was_changed_is_tried_again_and_fails_the_plan_no_more() -> None:
    run = run_of(step("a"), step("b"), fail_fast=True)
    run.start()
    run.fail("a")
    assert started(run.send(replaced(step("a", priority=1), step("b"), changed="a"))) == ["a"]
    run.end("a", "b")
    assert run.ended == (PlanStatus.COMPLETED, None)


def test_a_decision_that_a_revision_brings_is_put_and_holds_up_nobody() -> None:
    def step_and(**fields: object) -> list[dict[str, object]]:
        return [step("a", **fields), step("b"), step("c", "b")]

    decisions = [choice("way", "x", "y"), choice("then", "x", "y")]
    run = ScriptedRun(make_plan(step_and(decision="way"), decisions), wait_for_decisions=True, max_parallel=1)
    run.start()
    other = ScriptedRun(make_plan(step_and(decision="way", when={"then": ["x"]}), decisions))
    run.send(PlanReplaced(other.plan, other.dag, frozenset({"a"})))
    assert run.asked == ["way", "then"]
    assert started(run.end("b")) == ["c"]
