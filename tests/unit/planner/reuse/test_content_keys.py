"""Content keys, differences between two plans, and which results of an earlier plan a new one can reuse."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from ipc.events import Fact, PlanLeftEvent
from planner.plan.dag import Dag
from planner.plan.diagnostics import UnknownStepError
from planner.plan.model import Plan, StepSettings, StepStatus
from planner.reuse.reuse import (
    EarlierRun,
    KeyedPlan,
    Selection,
    StepChange,
    answers_taken_over,
    diff,
    note_of,
    reuse,
    same_base,
    select,
)
from planner.state.evolve import fold
from planner.state.state import ONLY_REASON
from subagents.executor import StepResult
from subagents.step_model import LIMITS
from tests.unit.planner.facts import began, decision, ended, moved, took_up
from tests.unit.planner.scripted_run import choice, make_plan, step
from vibe.core.messages import Outcome, Usage

Answers = Mapping[str, tuple[str, ...]]

STEPS = (step("a"), step("b", "a"), step("c", "b"), step("d"))


def key(plan: KeyedPlan, step_id: str) -> tuple[str, str | None]:
    """Return the content key of a step."""
    return plan.digests[step_id], plan.base_commit


def keyed(plan: Plan, decisions: Answers | None = None, base: str | None = "base") -> KeyedPlan:
    return KeyedPlan(plan=plan, dag=Dag.build(plan.steps), decisions=decisions or {}, base_commit=base)


def changed(old: Plan, new: Plan) -> dict[str, StepChange]:
    return dict(diff(keyed(old), keyed(new)).changed)


def with_step(step_id: str, **fields: object) -> Plan:
    return make_plan([{**each, **fields} if each["id"] == step_id else each for each in STEPS])


def earlier(plan: Plan, decisions: Answers | None = None, left_at: str | None = None, **ends: str) -> EarlierRun:
    """Return a plan whose steps all completed, except those in ``ends`` (``status`` or ``status:reason``)."""
    statuses = {each.id: StepStatus(ends.get(each.id, "completed").partition(":")[0]) for each in plan.steps}
    facts: list[Fact] = [took_up(1.0, plan)]
    for step_id, status in statuses.items():
        ended_as = {StepStatus.COMPLETED: Outcome.COMPLETED, StepStatus.FAILED: Outcome.COMPLETED}
        if status in ended_as:
            result = StepResult(outcome=Outcome.COMPLETED, summary=f"{step_id} done", usage=Usage(10, 5, 0, 1), turns=3)
            facts += [began(step_id), ended(step_id, result)]
        if status is not StepStatus.PENDING:
            facts.append(moved(step_id, status, reason=ends.get(step_id, "").partition(":")[2] or None))
    facts += [decision(name, *chosen) for name, chosen in (decisions or {}).items()]
    state = fold([*facts, PlanLeftEvent(commit=left_at)] if left_at else facts)
    return EarlierRun(plan_id="old", keyed=keyed(plan, decisions), state=state)


def chosen(was: EarlierRun, plan: Plan, *only: str, decisions: Answers | None = None, base: str = "base") -> Selection:
    new = keyed(plan, decisions, base)
    return reuse(was, new, select(plan, new.dag, only), only)


def test_the_same_plan_has_the_same_keys_whatever_the_order_of_its_steps() -> None:
    one, other = keyed(make_plan(STEPS)), keyed(make_plan(STEPS[::-1]))

    assert {each: key(one, each) for each in one.steps} == {each: key(other, each) for each in other.steps}
    assert len(set(one.digests.values())) == len(STEPS)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("prompt", "otherwise"),
        ("title", "otherwise"),
        ("mode", "code"),
        ("verify", ["true"]),
        ("writes", ["x"]),
        ("model", "m"),
        ("agent", "explore"),
        ("allowed_tools", ["grep"]),
        ("command", "make"),
        ("side_effects", True),
        ("output_schema", {"type": "object"}),
    ],
)
def test_a_changed_field_changes_the_step_and_all_that_comes_after_it(field: str, value: object) -> None:
    found = changed(make_plan(STEPS), with_step("b", **{field: value}))

    assert list(found) == ["b", "c"]
    assert field in found["b"].fields
    assert found["c"] == StepChange(dependencies=("b",))


@pytest.mark.parametrize("field", sorted(LIMITS))
def test_a_limit_changes_no_key_and_is_told_of(field: str) -> None:
    default = StepSettings.model_fields[field].default
    value: Any = {"on_failure": "continue", "tags": ["slow"]}.get(field) or (default or 0) + 7
    found = diff(keyed(make_plan(STEPS)), keyed(with_step("b", **{field: value})))

    assert not found.changed
    assert found.limits == {"b": (field,)}


def test_every_field_of_a_step_is_in_its_key_or_among_the_limits() -> None:
    plan = keyed(make_plan(STEPS))

    assert {*plan.definition("a"), *LIMITS} == {*plan.steps["a"].model_dump(), "goal", "context"}


def test_goal_and_context_matter_to_agents_only() -> None:
    steps = [step("agent"), step("command", command="make", mode="run")]
    old = make_plan(steps)
    new = old.model_copy(update={"context": "more is known"})

    assert changed(old, new) == {"agent": StepChange(fields=("context",))}


def test_edges_decisions_and_the_base_commit_are_reasons_of_their_own() -> None:
    plan = make_plan([step("a", decision="which"), step("b")], [choice("which", "x", "y")])
    moved = make_plan([step("a", decision="which"), step("b", "a")], [choice("which", "x", "y")])

    assert diff(keyed(plan, {"which": ("x",)}), keyed(plan, {"which": ("y",)})).changed == {
        "a": StepChange(decisions=("which",))
    }
    assert changed(plan, moved) == {"b": StepChange(fields=("depends_on",))}
    assert diff(keyed(plan), keyed(plan, base="later")).changed["b"].text == "different base commit"


def test_a_diff_names_what_was_added_and_removed() -> None:
    found = diff(keyed(make_plan(STEPS)), keyed(make_plan([*STEPS[:3], step("e")])))

    assert (found.unchanged, found.added, found.removed) == (("a", "b", "c"), ("e",), ("d",))


def test_unchanged_completed_steps_are_taken_over_without_what_they_cost() -> None:
    was = earlier(make_plan(STEPS), c="failed")
    selection = chosen(was, make_plan(STEPS))

    assert dict(selection.runs) == {"c": "failed there"}
    assert {step_id: result.summary for step_id, result in selection.taken.items()} == {
        "a": "a done",
        "b": "b done",
        "d": "d done",
    }
    assert {(result.usage.calls, result.turns, result.cost_usd) for result in selection.taken.values()} == {(0, 0, 0.0)}


def test_what_comes_after_a_step_that_runs_again_runs_again() -> None:
    was = earlier(with_step("a", on_failure="continue"), a="failed")

    assert dict(chosen(was, with_step("a", on_failure="continue")).runs) == {
        "a": "failed there",
        "b": "depends on a, which runs",
        "c": "depends on b, which runs",
    }


def test_a_step_that_was_never_done_is_run() -> None:
    assert dict(chosen(earlier(make_plan(STEPS), c="pending"), make_plan(STEPS)).runs) == {"c": "not done there"}


def test_what_a_decision_rules_out_again_holds_nothing_up() -> None:
    steps = [step("a"), step("b", "a", when={"which": ["y"]}), step("c", "b", "a")]
    plan = make_plan(steps, [choice("which", "x", "y")])
    was = earlier(plan, {"which": ("x",)}, b="skipped")

    assert list(chosen(was, plan, decisions={"which": ("x",)}).taken) == ["a", "c"]
    assert list(chosen(was, plan, decisions={"which": ("y",)}).taken) == ["a"]


@pytest.mark.parametrize("reason", [ONLY_REASON, "waived"])
def test_what_somebody_chose_to_leave_out_is_not_done(reason: str) -> None:
    was = earlier(make_plan(STEPS), b=f"skipped:{reason}")

    assert list(chosen(was, make_plan(STEPS)).runs) == ["b", "c"]


def test_answers_are_taken_over_where_the_question_is_the_same() -> None:
    old = make_plan(
        [step("a", decision="same"), step("b", decision="other")], [choice("same", "x", "y"), choice("other", "x", "y")]
    )
    new = make_plan(
        [step("a", decision="same"), step("b", decision="other")], [choice("same", "x", "y"), choice("other", "x", "z")]
    )
    was = earlier(old, {"same": ("x",), "other": ("x",)})

    assert answers_taken_over(was, new, {}) == {"same": ("x",)}
    assert answers_taken_over(was, new, {"same": ("y",)}) == {}


def test_only_runs_the_steps_named_and_what_they_depend_on() -> None:
    plan = make_plan(STEPS)
    selection = select(plan, Dag.build(plan.steps), ["b"])

    assert (list(selection.runs), selection.left_out) == (["a", "b"], ("c", "d"))
    assert note_of(selection, None, head=None) == "to run: a, b; left out: c, d"


def test_only_with_an_unknown_step_names_the_closest() -> None:
    plan = make_plan([step("survey"), step("test")])

    with pytest.raises(UnknownStepError, match="did you mean 'survey'"):
        select(plan, Dag.build(plan.steps), ["survy"])


def test_a_step_asked_for_by_name_runs_itself_on_results_taken_over() -> None:
    selection = chosen(earlier(make_plan(STEPS)), make_plan(STEPS), "b")

    assert dict(selection.runs) == {"b": ""}
    assert (list(selection.taken), selection.left_out) == (["a", "d"], ("c",))


def test_dependencies_that_can_not_be_taken_over_are_run() -> None:
    selection = chosen(earlier(make_plan(STEPS), a="failed"), make_plan(STEPS), "b")

    assert list(selection.runs) == ["a", "b"]


def test_the_note_says_what_is_taken_over_and_why_the_rest_is_not() -> None:
    was = earlier(make_plan(STEPS))

    assert note_of(chosen(was, with_step("c", prompt="new")), was, head="base") == (
        "3 of 4 steps reused from plan old; to run: c (prompt differs)"
    )
    assert note_of(chosen(was, make_plan(STEPS)), was, head="base") == (
        "4 of 4 steps reused from plan old; nothing left to run"
    )


def test_another_commit_keeps_everything_from_being_taken_over_and_says_so() -> None:
    was = earlier(make_plan(STEPS), left_at="merged")

    assert same_base(was, "base")
    assert same_base(was, "merged")
    assert not same_base(was, "later")
    selection = chosen(was, make_plan(STEPS), base="later")
    assert not selection.taken
    assert note_of(selection, was, head="later") == (
        "nothing reused from plan old: the repository is at commit later now, and that plan started at base and "
        "left it at merged"
    )


@st.composite
def edits(draw: st.DrawFn) -> tuple[Plan, Plan, dict[str, str], list[str]]:
    """Draw a plan, the same plan after some edits, how the first one ended, and steps asked for by name."""
    size = draw(st.integers(1, 9))
    needs = [sorted(draw(st.sets(st.integers(0, n - 1), max_size=3))) if n else [] for n in range(size)]
    steps = [step(f"s{n}", *(f"s{each}" for each in needs[n])) for n in range(size)]
    edited = draw(st.sets(st.integers(0, size - 1), max_size=2))
    changed_steps = [{**each, "prompt": "edited"} if n in edited else each for n, each in enumerate(steps)]
    ends = {f"s{n}": draw(st.sampled_from(["completed", "completed", "failed", "pending"])) for n in range(size)}
    only = draw(st.lists(st.sampled_from([f"s{n}" for n in range(size)]), max_size=2, unique=True))
    return make_plan(steps), make_plan(changed_steps), ends, only


@settings(max_examples=200, deadline=None)
@given(edits())
def test_nothing_is_taken_over_that_would_come_out_otherwise(
    case: tuple[Plan, Plan, dict[str, str], list[str]],
) -> None:
    plan, edited, ends, only = case
    was = earlier(plan, None, None, **ends)
    new = keyed(edited)
    selection = chosen(was, edited, *only)
    taken, runs, left_out = set(selection.taken), set(selection.runs), set(selection.left_out)

    assert sorted([*taken, *runs, *left_out]) == sorted(new.steps)
    for step_id in taken:
        assert ends[step_id] == "completed"
        assert key(was.keyed, step_id) == key(new, step_id)
        assert taken.issuperset(new.dag.dependencies[step_id])
        assert step_id not in only
    for step_id in runs:
        assert not left_out & set(new.dag.dependencies[step_id])
    if not only:
        standing = {each for each in new.steps if ends[each] == "completed" and key(was.keyed, each) == key(new, each)}
        assert {each for each in standing if taken.issuperset(new.dag.dependencies[each])} == taken
