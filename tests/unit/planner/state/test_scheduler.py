"""The scheduler's rules, one by one: events in, instructions out."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

from planner.plan.diagnostics import DecisionInvalidError, IllegalTransitionError
from planner.plan.status import PlanStatus, StepStatus
from planner.state.state import Left
from tests.unit.planner.scripted_run import ScriptedRun, choice, make_plan, started, step
from tests.unit.planner.told import (
    CancelRequested,
    CancelStep,
    DecisionTaken,
    EndPlan,
    MoveStep,
    OpenDecision,
    PauseRequested,
    RetryDue,
    StartStep,
    StepEnded,
    WaitForRetry,
    Was,
)
from vibe.core.messages import Outcome

DONE, FAILED, PAUSED = PlanStatus.COMPLETED, PlanStatus.FAILED, PlanStatus.PAUSED


def run_of(*steps: dict[str, Any], **options: Any) -> ScriptedRun:
    return ScriptedRun(make_plan(steps), **options)


def after(step_id: str, on: str) -> dict[str, str]:
    return {"step": step_id, "on": on}


def test_a_step_starts_when_all_it_depends_on_is_completed() -> None:
    run = run_of(step("a"), step("b"), step("c", "a", "b"))
    assert started(run.start()) == ["a", "b"]
    assert run.statuses()["c"] == "blocked"
    assert started(run.end("a")) == []
    assert started(run.end("b")) == ["c"]
    run.end("c")
    assert run.ended == (DONE, None)
    assert run.state.counted() == {"completed": 3}


def test_instructions_come_in_the_order_of_what_happens() -> None:
    run = run_of(step("a"), step("b", "a"))
    assert run.start() == [
        MoveStep("a", StepStatus.PENDING, StepStatus.IN_PROGRESS, None, "", 1),
        StartStep("a", 1),
        MoveStep("b", StepStatus.PENDING, StepStatus.BLOCKED, None, "", 1),
    ]
    assert run.end("a", detail="fine") == [
        MoveStep("a", StepStatus.IN_PROGRESS, StepStatus.COMPLETED, None, "fine", 1),
        MoveStep("b", StepStatus.BLOCKED, StepStatus.IN_PROGRESS, None, "", 1),
        StartStep("b", 1),
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class EdgeCase:
    name: str
    on: str
    end: Outcome | None
    """None means that the step was skipped."""
    on_failure: str = "stop"
    status: str


EDGE_CASES = [
    EdgeCase(name="completed, completed", on="completed", end=Outcome.COMPLETED, status="in_progress"),
    EdgeCase(name="completed, failed", on="completed", end=Outcome.FAILED, status="blocked"),
    EdgeCase(
        name="completed, failed, go on", on="completed", end=Outcome.FAILED, on_failure="continue", status="in_progress"
    ),
    EdgeCase(name="completed, skipped beside another", on="completed", end=None, status="in_progress"),
    EdgeCase(name="finished, completed", on="finished", end=Outcome.COMPLETED, status="in_progress"),
    EdgeCase(name="finished, failed", on="finished", end=Outcome.FAILED, status="in_progress"),
    EdgeCase(name="finished, limit", on="finished", end=Outcome.LIMIT, status="in_progress"),
    EdgeCase(name="finished, skipped beside another", on="finished", end=None, status="in_progress"),
    EdgeCase(name="failed, completed", on="failed", end=Outcome.COMPLETED, status="skipped"),
    EdgeCase(name="failed, failed", on="failed", end=Outcome.FAILED, status="in_progress"),
    EdgeCase(name="failed, blocked", on="failed", end=Outcome.BLOCKED, status="in_progress"),
    EdgeCase(
        name="failed, failed, go on", on="failed", end=Outcome.FAILED, on_failure="continue", status="in_progress"
    ),
    EdgeCase(name="failed, skipped beside another", on="failed", end=None, status="in_progress"),
]


@pytest.mark.parametrize("case", EDGE_CASES, ids=lambda case: case.name)
def test_an_edge_lets_its_step_go_on_as_it_says(case: EdgeCase) -> None:
    gate = {"when": {"q": ["yes"]}} if case.end is None else {}
    plan = make_plan(
        [
            step("a", on_failure=case.on_failure, **gate),
            step("other"),
            step("b", after("a", case.on), "other"),
        ],
        [choice("q", "yes", "no")],
    )
    run = ScriptedRun(plan, decisions={"q": ("no",)})
    run.start()
    run.end("other")
    if case.end is not None:
        run.end("a", outcome=case.end)
    assert run.statuses()["b"] == case.status


def test_an_edge_that_can_not_hold_any_more_skips_at_once_and_spreads() -> None:
    run = run_of(step("a"), step("slow"), step("rescue", after("a", "failed"), "slow"), step("more", "rescue"))
    run.start()
    run.end("a")
    assert run.statuses() == {"a": "completed", "slow": "in_progress", "rescue": "skipped", "more": "skipped"}
    run.end("slow")
    assert run.ended == (DONE, None)


@pytest.mark.parametrize("first", ["a", "b"])
def test_a_failure_and_an_impossible_edge_come_to_the_same_in_either_order(first: str) -> None:
    run = run_of(step("a"), step("b"), step("c", "a", after("b", "failed")))
    run.start()
    for step_id in (first, "b" if first == "a" else "a"):
        run.end(step_id, outcome=Outcome.FAILED if step_id == "a" else Outcome.COMPLETED)
    assert run.statuses()["c"] == "skipped"


def test_a_failure_strands_what_depends_on_it_while_other_branches_go_on() -> None:
    run = run_of(step("a"), step("b", "a"), step("c", "b"), step("x"), step("y", "x"))
    run.start()
    run.fail("a", reason="verify", detail="2 tests failed")
    assert started(run.end("x")) == ["y"]
    run.end("y")
    assert run.ended == (FAILED, "verify")
    assert run.state.open_steps() == ["b", "c"]
    assert run.state.counted() == {"blocked": 2, "completed": 2, "failed": 1}


def test_a_failure_that_may_be_passed_leaves_the_plan_completed() -> None:
    run = run_of(step("a", on_failure="continue"), step("b", "a"))
    run.start()
    assert started(run.fail("a")) == ["b"]
    run.end("b")
    assert run.ended == (DONE, None)


def test_a_clean_up_step_runs_after_a_failure_and_the_plan_still_failed() -> None:
    run = run_of(step("a"), step("clean", after("a", "finished")))
    run.start()
    assert started(run.fail("a")) == ["clean"]
    run.end("clean")
    assert run.ended == (FAILED, "failed")


def test_fail_fast_starts_nothing_after_the_first_failure_and_lets_running_steps_end() -> None:
    run = run_of(step("a"), step("b"), step("c"), step("d", "b"), max_parallel=2, fail_fast=True)
    run.start()
    assert started(run.fail("a")) == []
    assert run.ended is None
    assert started(run.end("b")) == []
    assert run.ended == (FAILED, "failed")
    assert run.state.open_steps() == ["c", "d"]


def test_fail_fast_passes_over_a_failure_the_plan_allows_and_over_an_attempt_with_another_to_come() -> None:
    run = run_of(step("a", on_failure="continue"), step("b", retries=1), step("c"), max_parallel=1, fail_fast=True)
    run.start()
    assert started(run.fail("a")) == ["b"]
    assert started(run.fail("b")) == ["c"]


def test_retries_back_off_and_are_counted() -> None:
    run = run_of(step("a", retries=9))
    run.start()
    delays: list[float] = []
    for attempt in range(2, 11):
        wait = run.fail("a")[-1]
        assert isinstance(wait, WaitForRetry)
        assert wait.attempt == attempt
        delays.append(wait.delay_seconds)
        assert run.send(RetryDue("a"))[-1] == StartStep("a", attempt)
    assert delays == [1, 2, 4, 8, 16, 32, 60, 60, 60]
    run.fail("a", reason="exit_code")
    assert run.ended == (FAILED, "exit_code")


def test_a_step_that_waits_for_its_retry_says_which_attempt_comes_next() -> None:
    run = run_of(step("a", retries=1))
    run.start()
    moved = run.fail("a", reason="exit_code", detail="exit code 1")[0]
    assert moved == MoveStep("a", StepStatus.IN_PROGRESS, StepStatus.PENDING, "exit_code", "exit code 1", 2)


@pytest.mark.parametrize(("outcome", "reason"), [(Outcome.LIMIT, "budget"), (Outcome.BLOCKED, "blocked")])
def test_a_limit_or_a_missing_approval_is_not_retried_and_keeps_its_reason(outcome: Outcome, reason: str) -> None:
    run = run_of(step("a", retries=3))
    run.start()
    moved = run.end("a", outcome=outcome)[0]
    assert isinstance(moved, MoveStep)
    assert (moved.status, moved.reason) == (StepStatus.FAILED, reason)
    assert run.ended == (FAILED, reason)


def test_a_reason_given_is_preserved() -> None:
    run = run_of(step("a"))
    run.start()
    run.end("a", outcome=Outcome.LIMIT, reason="timeout")
    assert run.ended == (FAILED, "timeout")


def test_a_provider_that_refuses_pauses_the_plan_once_running_steps_ended() -> None:
    run = run_of(step("a", retries=5), step("b"), step("c"), max_parallel=2)
    run.start()
    assert run.fail("a", reason="quota", provider_refused=True) == [
        MoveStep("a", StepStatus.IN_PROGRESS, StepStatus.PENDING, "quota", "", 1)
    ]
    run.end("b")
    assert run.ended == (PAUSED, "quota")
    assert run.statuses() == {"a": "pending", "b": "completed", "c": "pending"}


def test_a_pause_starts_nothing_more_and_a_step_comes_back_under_its_own_attempt() -> None:
    run = run_of(step("a"), step("b", "a"), step("c"), max_parallel=2)
    run.start()
    run.send(PauseRequested("user"))
    assert started(run.end("a")) == []
    run.end("c", outcome=Outcome.INTERRUPTED)
    assert run.ended == (PAUSED, "user")
    assert run.statuses() == {"a": "completed", "b": "pending", "c": "pending"}
    assert run.attempt("c") == 1


def test_a_pause_does_not_wait_for_a_retry() -> None:
    run = run_of(step("a", retries=1))
    run.start()
    run.fail("a")
    assert run.send(PauseRequested("user")) == [EndPlan(PAUSED, "user")]
    assert run.send(RetryDue("a")) == []


def test_a_pause_that_comes_when_all_is_done_but_the_last_step_completes_the_plan() -> None:
    run = run_of(step("a"))
    run.start()
    run.send(PauseRequested("user"))
    run.end("a")
    assert run.ended == (DONE, None)


def test_an_interrupted_step_goes_on_at_once_while_the_plan_is_active() -> None:
    run = run_of(step("a"))
    run.start()
    assert run.end("a", outcome=Outcome.INTERRUPTED)[-1] == StartStep("a", 1)


def test_a_cancel_gives_up_what_is_open_and_waits_for_what_runs() -> None:
    run = run_of(step("a"), step("b", "a"), step("c"), step("d"), max_parallel=2)
    run.start()
    said = run.send(CancelRequested("user"))
    assert [i for i in said if isinstance(i, CancelStep)] == [CancelStep("a"), CancelStep("c")]
    assert run.statuses() == {"a": "in_progress", "b": "cancelled", "c": "in_progress", "d": "cancelled"}
    run.end("a", outcome=Outcome.INTERRUPTED)
    assert run.ended is None
    run.fail("c")
    assert run.ended == (PlanStatus.CANCELLED, "user")
    assert run.statuses() == {"a": "cancelled", "b": "cancelled", "c": "failed", "d": "cancelled"}


def test_a_cancelled_step_is_not_tried_again() -> None:
    run = run_of(step("a", retries=3), step("b"))
    run.start()
    run.send(CancelRequested("user"))
    run.fail("a")
    run.end("b", outcome=Outcome.INTERRUPTED)
    assert run.statuses() == {"a": "failed", "b": "cancelled"}


def test_a_cancel_wins_over_a_pause() -> None:
    run = run_of(step("a"), step("b", "a"))
    run.start()
    run.send(PauseRequested("user"))
    run.send(CancelRequested("signal"))
    run.end("a", outcome=Outcome.INTERRUPTED)
    assert run.ended == (PlanStatus.CANCELLED, "signal")


def test_a_plan_that_was_being_given_up_when_its_process_died_is_given_up_whole() -> None:
    restored = {
        "a": Was(StepStatus.CANCELLED, reason="signal"),
        "b": Was(StepStatus.PENDING, left=Left.ASKING),
        "d": Was(StepStatus.COMPLETED),
    }
    run = run_of(step("a"), step("b", on_failure="ask"), step("c", "a"), step("d"), step("e"), restored=restored)
    assert started(run.start()) == []
    assert run.ended == (PlanStatus.CANCELLED, "signal")
    assert run.statuses() == dict.fromkeys("abce", "cancelled") | {"d": "completed"}
    assert run.asked == []


def decided(*steps: dict[str, Any], multi: bool = False, **options: Any) -> ScriptedRun:
    return ScriptedRun(make_plan(steps, [choice("q", "x", "y", "z", multi_select=multi)]), **options)


def test_a_decision_is_opened_once_when_a_step_first_needs_it() -> None:
    run = decided(step("a"), step("b", "a", decision="q"), step("c", "a", when={"q": ["x"]}), wait_for_decisions=True)
    assert not [i for i in run.start() if isinstance(i, OpenDecision)]
    run.end("a")
    assert run.asked == ["q"]
    assert run.statuses() == {"a": "completed", "b": "needs_decision", "c": "needs_decision"}
    assert run.ended is None
    assert started(run.send(DecisionTaken("q", ("y",), "user"))) == ["b"]
    assert run.statuses()["c"] == "skipped"


def test_a_plan_that_only_waits_for_a_decision_is_paused() -> None:
    run = decided(step("a"), step("b", decision="q"))
    run.start()
    run.end("a")
    assert run.ended == (PAUSED, "decision")


def test_a_when_that_does_not_hold_skips_before_the_dependencies_are_done() -> None:
    run = decided(step("a"), step("b", "a", when={"q": ["x"]}), step("c", "b"))
    run.start()
    run.send(DecisionTaken("q", ("y",), "flag"))
    assert run.statuses() == {"a": "in_progress", "b": "skipped", "c": "skipped"}


def test_a_skipped_step_says_why() -> None:
    run = decided(step("a"), step("b", "a", when={"q": ["x"]}), step("c", "b"), step("d", after("a", "failed")))
    run.start()
    moves = [*run.send(DecisionTaken("q", ("y",), "flag")), *run.end("a")]
    said = {move.step_id: move.detail for move in moves if isinstance(move, MoveStep) and move.status.is_final}
    assert said == {
        "a": "",
        "b": "y was chosen for 'q'",
        "c": "everything it depends on was skipped",
        "d": "step 'a' did not fail",
    }


def test_any_of_several_selections_satisfies_a_when() -> None:
    run = decided(step("a", when={"q": ["x", "z"]}), multi=True, decisions={"q": ("y", "z")})
    assert started(run.start()) == ["a"]
    assert run.asked == []


def test_where_several_may_be_chosen_none_is_no_answer() -> None:
    run = decided(step("a", when={"q": ["x"]}), multi=True, wait_for_decisions=True)
    run.start()
    with pytest.raises(DecisionInvalidError, match="at least one option"):
        run.send(DecisionTaken("q", (), "user"))
    assert run.statuses() == {"a": "needs_decision"}


def test_a_second_answer_changes_nothing() -> None:
    run = decided(step("a"), step("b", "a", when={"q": ["x"]}))
    run.start()
    run.send(DecisionTaken("q", ("x",), "user"))
    with pytest.raises(DecisionInvalidError, match="already decided: x"):
        run.send(DecisionTaken("q", ("y",), "user"))
    assert started(run.end("a")) == ["b"]


@pytest.mark.parametrize(
    ("decision_id", "selections", "says"),
    [
        ("p", ("x",), "not open; open decisions: q"),
        ("q", ("w",), "unknown option 'w'; choose from: x, y, z"),
        ("q", ("x", "y"), "exactly one option"),
        ("q", (), "exactly one option"),
    ],
)
def test_an_answer_nobody_offered_is_refused(decision_id: str, selections: tuple[str, ...], says: str) -> None:
    run = decided(step("a", decision="q"), wait_for_decisions=True)
    run.start()
    with pytest.raises(DecisionInvalidError, match=says):
        run.send(DecisionTaken(decision_id, selections, "user"))
    assert run.ended is None


def test_priority_goes_before_path_length_before_order() -> None:
    run = run_of(
        step("short"),
        step("long"),
        step("tail", "long"),
        step("short-2"),
        step("urgent", priority=1),
        step("never", priority=-1),
        max_parallel=1,
    )
    order = started(run.start())
    while not run.ended:
        order += started(run.end(run.running[0]))
    assert order == ["urgent", "long", "short", "tail", "short-2", "never"]


def test_never_more_than_max_parallel_run_and_waiting_steps_are_pending() -> None:
    run = run_of(step("root"), *[step(f"s{i}", "root") for i in range(5)], max_parallel=2)
    run.start()
    assert started(run.end("root")) == ["s0", "s1"]
    assert run.statuses()["s4"] == "pending"
    assert started(run.end("s0")) == ["s2"]


@dataclass(frozen=True, slots=True, kw_only=True)
class WritersCase:
    name: str
    one: dict[str, Any] = field(default_factory=dict[str, Any])
    other: dict[str, Any] = field(default_factory=dict[str, Any])
    together: bool


WRITERS_CASES = [
    WritersCase(name="both unknown", one={"mode": "code"}, other={"mode": "docs"}, together=False),
    WritersCase(name="unknown and named", one={"mode": "test"}, other={"writes": ["a"]}, together=False),
    WritersCase(name="unknown run by a model", one={"mode": "run"}, other={"mode": "code"}, together=False),
    WritersCase(name="a reader", one={"mode": "code"}, other={"mode": "design"}, together=True),
    WritersCase(
        name="a reader with a write tool",
        one={"mode": "code"},
        other={"allowed_tools": ["read_file", "write_*"]},
        together=False,
    ),
    WritersCase(
        name="a coder with read tools",
        one={"mode": "code"},
        other={"mode": "code", "allowed_tools": ["read_file"]},
        together=True,
    ),
    WritersCase(
        name="denied tools",
        one={"mode": "code"},
        other={"mode": "docs", "denied_tools": ["re:write_.*", "search_replace"]},
        together=True,
    ),
    WritersCase(
        name="a tool of the user's",
        one={"mode": "code"},
        other={"allowed_tools": ["read_file", "my_writer"]},
        together=False,
    ),
    WritersCase(
        name="two tools of the user's",
        one={"allowed_tools": ["my_writer"]},
        other={"allowed_tools": ["my_writer"]},
        together=False,
    ),
    WritersCase(
        name="a server's tools",
        one={"mode": "code"},
        other={"mode": "research", "allowed_tools": ["files_*"]},
        together=False,
    ),
    WritersCase(
        name="a tool of the user's that is denied",
        one={"mode": "code"},
        other={"allowed_tools": ["read", "my_writer"], "denied_tools": ["my_*"]},
        together=True,
    ),
    WritersCase(
        name="a pattern that is not denied for all it matches",
        one={"mode": "code"},
        other={"allowed_tools": ["w*"], "denied_tools": ["w?*"]},
        together=False,
    ),
    WritersCase(
        name="a pattern that is denied",
        one={"mode": "code"},
        other={"allowed_tools": ["grep", "w*"], "denied_tools": ["w*"]},
        together=True,
    ),
    WritersCase(
        name="a tool of the user's that writes nothing",
        one={"mode": "code"},
        other={"allowed_tools": ["my_reader"], "writes": []},
        together=True,
    ),
    WritersCase(
        name="all tools but the built-in writers",
        one={"mode": "code"},
        other={"mode": "code", "denied_tools": ["write_file", "search_replace", "bash"]},
        together=False,
    ),
    WritersCase(
        name="a writer by its other name, denied by its own",
        one={"mode": "code"},
        other={"allowed_tools": ["grep", "write"], "denied_tools": ["write_file"]},
        together=True,
    ),
    WritersCase(
        name="commands", one={"mode": "run", "command": "x"}, other={"mode": "run", "command": "y"}, together=True
    ),
    WritersCase(
        name="a command and a coder", one={"mode": "run", "command": "x"}, other={"mode": "code"}, together=True
    ),
    WritersCase(
        name="a command that names files",
        one={"mode": "run", "command": "x", "writes": ["out/**"]},
        other={"mode": "code", "writes": ["out/a"]},
        together=False,
    ),
    WritersCase(
        name="files apart",
        one={"mode": "code", "writes": ["src/a.py"]},
        other={"mode": "code", "writes": ["src/b.py"]},
        together=True,
    ),
    WritersCase(name="writes nothing", one={"mode": "code"}, other={"mode": "code", "writes": []}, together=True),
    WritersCase(
        name="a worktree", one={"mode": "code"}, other={"mode": "code", "workspace": "worktree"}, together=True
    ),
]


@pytest.mark.parametrize("case", WRITERS_CASES, ids=lambda case: case.name)
def test_writers_that_could_meet_do_not_run_side_by_side(case: WritersCase) -> None:
    for first, second in ((case.one, case.other), (case.other, case.one)):
        run = run_of(step("a", **first), step("b", **second))
        assert started(run.start()) == (["a", "b"] if case.together else ["a"])
        assert started(run.end("a")) == ([] if case.together else ["b"])


def test_a_writer_that_waits_holds_up_nobody_who_writes_elsewhere() -> None:
    run = run_of(
        step("a", writes=["src/**"]),
        step("b", writes=["src/x.py", "docs/x.md"], priority=5),
        step("c", writes=["src/y.py"]),
        step("d", writes=["docs/y.md"]),
        step("e"),
        max_parallel=3,
    )
    assert started(run.start()) == ["b", "c", "d"]
    assert started(run.end("c")) == ["e"]
    assert started(run.end("b")) == ["a"]


def test_what_was_restored_is_not_done_again() -> None:
    restored = {
        "a": Was(StepStatus.COMPLETED),
        "b": Was(StepStatus.FAILED, 2, reason="verify"),
        "c": Was(StepStatus.PENDING, 2),
        "s": Was(StepStatus.SKIPPED),
        "gone": Was(StepStatus.COMPLETED),
    }
    run = run_of(
        step("a"),
        step("b"),
        step("c", "a"),
        step("d", "b"),
        step("s"),
        step("t", "s"),
        step("u", "s", "a"),
        restored=restored,
    )
    said = run.start()
    assert [i for i in said if isinstance(i, StartStep)] == [StartStep("c", 2), StartStep("u", 1)]
    assert run.statuses()["t"] == "skipped"
    assert run.statuses()["d"] == "blocked"
    assert "b" not in {i.step_id for i in said if isinstance(i, MoveStep)}
    run.end("c", "u")
    assert run.ended == (FAILED, "verify")


def test_a_failure_of_this_run_is_named_before_one_of_a_run_before() -> None:
    run = run_of(step("a"), step("b"), restored={"a": Was(StepStatus.FAILED, reason="verify")})
    run.start()
    run.fail("b", reason="idle")
    assert run.ended == (FAILED, "idle")


def test_a_plan_restored_complete_ends_at_once() -> None:
    run = run_of(step("a"), restored={"a": Was(StepStatus.COMPLETED)})
    assert run.start() == [EndPlan(DONE, None)]


def test_defaults_of_a_plan_count() -> None:
    plan = make_plan([step("a"), step("b", "a")]).model_copy(
        update={"defaults": make_plan([step("x", on_failure="continue")]).steps[0]}
    )
    run = ScriptedRun(plan)
    run.start()
    assert started(run.fail("a")) == ["b"]


def test_what_can_not_happen_raises() -> None:
    run = run_of(step("a"), max_parallel=1)
    with pytest.raises(TypeError, match="no schedule"):
        run.send(DecisionTaken("q", ("x",), "user"))
    run.start()
    with pytest.raises(IllegalTransitionError, match="'nobody'"):
        run.send(StepEnded("nobody", Outcome.COMPLETED))
    run.end("a")
    with pytest.raises(IllegalTransitionError, match="step 'a'"):
        run.send(StepEnded("a", Outcome.COMPLETED))
    with pytest.raises(ValueError, match="at least 1"):
        run_of(step("a"), max_parallel=0).start()


@pytest.mark.parametrize("event", [PauseRequested("x"), CancelRequested("x"), RetryDue("a")])
def test_what_comes_after_the_end_changes_nothing(event: PauseRequested | CancelRequested | RetryDue) -> None:
    run = run_of(step("a"))
    run.start()
    run.end("a")
    assert run.send(event) == []
    assert run.state.status is DONE
