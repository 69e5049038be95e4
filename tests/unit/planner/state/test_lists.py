"""Lists under any events: unfolded once, never wider than allowed, and ended by the number of completed items."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import msgspec
from hypothesis import HealthCheck, given, settings, strategies as st

from ipc.commands import StepAction
from ipc.events import Fact, PlanUnfoldedEvent
from planner.plan.dag import Dag
from planner.plan.for_each import children_of, with_children, without_children
from planner.plan.model import Child, Plan
from planner.plan.status import PlanStatus, StepStatus
from planner.state.changes import StepActError
from tests.unit.planner.scripted_run import ScriptedRun, about_step, make_plan, step
from tests.unit.planner.told import Act, DecisionTaken, PauseRequested, RetryDue, RevisionRefused, StepEnded
from vibe.core.messages import Outcome
from vibe.system.errors import UsageError

ENDS = ("completed", "completed", "completed", "failed", "limit", "interrupted")


@st.composite
def plans(draw: st.DrawFn) -> Plan:
    each: dict[str, Any] = {
        "items": draw(st.lists(st.integers(0, 9), unique=True, max_size=6)),
        "enough": draw(st.sampled_from(["all", 0, 1, 3])),
    }
    if draw(st.booleans()):
        each["width"] = draw(st.integers(1, 3))
    fields = {
        "for_each": each,
        "retries": draw(st.sampled_from([0, 0, 1])),
        "on_failure": draw(st.sampled_from(["stop", "stop", "continue", "ask", "replan"])),
        "writes": draw(st.sampled_from([["a"], ["${item}.py"], None])),
        "mode": draw(st.sampled_from(["code", "research"])),
        "workspace": draw(st.sampled_from(["shared", "worktree"])),
    }
    return make_plan([
        step("before"),
        step("each", *draw(st.sampled_from([[], ["before"]])), **fields),
        step("beside", mode="code"),
        step("after", "each"),
    ])


def next_event(run: ScriptedRun, data: st.DataObject, patience: int) -> Any:
    about = [found for d in run.asked if (found := about_step(d))]
    kinds = ["end"] * 4 * bool(run.running) + ["retry"] * 2 * bool(run.open_retries)
    kinds += ["answer"] * 2 * bool(about) + ["revise"] * 2 * bool(run.revising)
    kinds += ["act"] * (patience > 0) + ["pause"] * (patience > 2 and len(kinds) > 3)
    match data.draw(st.sampled_from(kinds)):
        case "end":
            ends = ENDS if patience > 0 else ENDS[:5]
            return StepEnded(data.draw(st.sampled_from(run.running)), Outcome(data.draw(st.sampled_from(ends))))
        case "retry":
            return RetryDue(data.draw(st.sampled_from(run.open_retries)))
        case "answer":
            kind, step_id, attempt = data.draw(st.sampled_from(about))
            chosen = data.draw(st.sampled_from(["retry", "skip", "stop"] if patience > 0 else ["skip", "stop"]))
            chosen = "again" if kind == "interrupted" and chosen == "retry" else chosen
            return DecisionTaken(f"{kind}:{step_id}:{attempt}", (chosen,), "user")
        case "revise":
            return RevisionRefused(data.draw(st.sampled_from(run.revising)))
        case "act":
            step_id = data.draw(st.sampled_from([each.id for each in run.plan.steps]))
            return Act(step_id=step_id, action=data.draw(st.sampled_from(StepAction)))
        case _:
            return PauseRequested("asked")


def check(run: ScriptedRun) -> None:
    """Check what must hold of a list at any time."""
    facts = [msgspec.json.decode(line, type=Fact) for line in run.journal]
    assert sum(isinstance(fact, PlanUnfoldedEvent) for fact in facts) <= 1
    children = [each for each in run.plan.steps if isinstance(each, Child)]
    each = next(s for s in run.plan.steps if s.id == "each").for_each
    assert each is not None
    assert each.width is None or sum(child.id in run.running for child in children) <= each.width
    pattern = run.state.steps["each"]
    assert pattern.begun == 0
    waived = pattern.status in {StepStatus.SKIPPED, StepStatus.CANCELLED}
    if pattern.status.is_final and not waived:
        ended = [run.status(child.id) for child in children]
        assert all(status.is_final for status in ended)
        enough = len(children) if each.enough == "all" else each.enough
        assert (pattern.status is StepStatus.COMPLETED) == (ended.count(StepStatus.COMPLETED) >= enough)
    if run.status("after") is StepStatus.IN_PROGRESS:
        assert pattern.status.is_final


def go(run: ScriptedRun, data: st.DataObject, patience: int) -> int:
    run.start()
    check(run)
    while not run.ends:
        event = next_event(run, data, patience)
        patience -= not isinstance(event, StepEnded) or event.outcome is Outcome.INTERRUPTED
        with suppress(StepActError, UsageError):
            run.send(event)
        check(run)
    return patience


@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(plan=plans(), data=st.data(), max_parallel=st.integers(1, 4), fail_fast=st.booleans())
def test_a_list_ends_by_how_many_completed_however_often_its_process_is_killed(
    *, plan: Plan, data: st.DataObject, max_parallel: int, fail_fast: bool
) -> None:
    options: dict[str, Any] = {"max_parallel": max_parallel, "fail_fast": fail_fast, "wait_for_decisions": True}
    run = ScriptedRun(plan, **options)
    patience = go(run, data, 6)
    for _ in range(3):
        journal: Sequence[bytes] = run.journal[: data.draw(st.integers(1, len(run.journal)))]
        run = ScriptedRun(_as_read_back(plan, journal), journal=journal, **options)
        patience = go(run, data, min(patience, 1))
    assert run.ends[0].status in {PlanStatus.COMPLETED, PlanStatus.FAILED, PlanStatus.PAUSED}
    counts = run.state.counted()
    if run.ends[0].status is PlanStatus.COMPLETED:
        assert not counts.get("pending")
        assert not counts.get("blocked")


def _as_read_back(plan: Plan, journal: Sequence[bytes]) -> Plan:
    """Return the plan with the steps that the journal says were made from its list."""
    facts = [msgspec.json.decode(line, type=Fact) for line in journal]
    pattern = next(each for each in plan.steps if each.id == "each")
    if any(isinstance(fact, PlanUnfoldedEvent) for fact in facts):
        assert pattern.for_each is not None
        return with_children(plan, children_of(pattern, pattern.for_each.items, {}))
    return plan


def test_a_plan_is_the_same_without_the_steps_for_its_items() -> None:
    plan = make_plan([step("a"), step("each", "a", for_each=["x", "y", "z"]), step("z", "each")])
    whole = with_children(plan, children_of(plan.steps[1], ["x", "y", "z"], {}))
    assert len(whole.steps) == 6
    assert without_children(whole)[0] == plan


def test_the_way_to_the_end_counts_a_list_as_often_as_it_is_begun() -> None:
    plan = make_plan([step("a"), step("each", "a", for_each={"items": [*range(10)], "width": 4}), step("z", "each")])
    assert Dag.build(plan.steps).remaining["a"] == 3
    whole = with_children(plan, children_of(plan.steps[1], [*range(10)], {}))
    assert Dag.build(whole.steps).remaining["a"] == 1 + 3 + 1
