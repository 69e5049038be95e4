"""A revision is applied as a whole or refused with every reason, and never touches what is done."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given, strategies as st

from planner.plan.diagnostics import Problem
from planner.plan.loader import LoadedPlan, load_plan
from planner.plan.model import Plan, StepSettings
from planner.plan.operations import RevisionInvalidError, operation_text, plain_operations, read_operations
from planner.plan.revision import operations_between, revise
from tests.unit.planner.scripted_run import choice, make_plan, step

BASE = make_plan(
    [step("a"), step("b", "a"), step("c", "b", {"step": "a", "on": "finished"}), step("d", "c")],
    [choice("which", "x", "y")],
)


def by_id(plan: Plan) -> dict[str, Any]:
    return {s.id: {**s.model_dump(exclude={"depends_on"}), "edges": s.dependencies} for s in plan.steps}


def test_a_failed_step_is_split_into_two_and_its_dependant_waits_for_both() -> None:
    operations = read_operations([
        {"op": "remove_edge", "step": "c", "depends_on": "b"},
        {"op": "add_edge", "step": "c", "depends_on": {"step": "b2"}},
        {"op": "remove_step", "id": "b"},
        {"op": "add_step", "step": step("b1", "a", title="first half")},
        {"op": "add_step", "step": step("b2", "b1")},
        {"op": "update_step", "id": "d", "changes": {"max_turns": 30}},
    ])
    revised = revise(BASE, operations, fixed={"a"})
    assert revised.dag.dependencies == {"a": (), "c": ("a", "b2"), "d": ("c",), "b1": ("a",), "b2": ("b1",)}
    assert {s.id: s.max_turns for s in revised.plan.steps}["d"] == 30
    assert load_plan(revised.source_bytes, where="again").plan == revised.plan


@dataclass(frozen=True)
class Refused:
    operations: list[dict[str, Any]]
    said: tuple[str, ...]


REFUSED = {
    "a cycle": Refused(
        [{"op": "add_edge", "step": "b", "depends_on": {"step": "d"}}],
        ("the steps form a cycle", "step 'b'.depends_on"),
    ),
    "a loose edge": Refused(
        [{"op": "remove_step", "id": "c"}], ("step 'd': depends on 'c', which the revision removes; remove this edge",)
    ),
    "a completed step changed": Refused(
        [{"op": "update_step", "id": "a", "changes": {"title": "else"}}],
        ("operations[0]: step 'a' is running or completed and can't be changed",),
    ),
    "a completed step removed": Refused([{"op": "remove_step", "id": "a"}], ("step 'a' is running or completed",)),
    "an edge into a completed step": Refused(
        [{"op": "add_step", "step": step("z")}, {"op": "add_edge", "step": "a", "depends_on": {"step": "z"}}],
        ("operations[1]: step 'a' is running or completed",),
    ),
    "an unknown step": Refused(
        [{"op": "update_step", "id": "bb", "changes": {"title": "x"}}], ("unknown step 'bb'", "a, b, c, d")
    ),
    "an unknown dependency": Refused(
        [{"op": "add_step", "step": step("z", "aa")}], ("step 'z'.depends_on[0].step: unknown step 'aa'",)
    ),
    "an id that is taken": Refused(
        [{"op": "add_step", "step": step("b")}], ("operations[0].step.id: step 'b' already exists",)
    ),
    "a new id": Refused(
        [{"op": "update_step", "id": "b", "changes": {"id": "bee"}}], ("a step keeps its id; remove the step",)
    ),
    "edges as a field": Refused(
        [{"op": "update_step", "id": "b", "changes": {"depends_on": []}}], ("use add_edge and remove_edge",)
    ),
    "an unknown field": Refused(
        [{"op": "update_step", "id": "b", "changes": {"promt": "x"}}],
        ("step 'b'.promt: is not a field; did you mean 'prompt'?",),
    ),
    "a wrong value": Refused(
        [{"op": "update_step", "id": "b", "changes": {"max_turns": "ten"}}],
        ("step 'b'.max_turns: must be a whole number, not 'ten'",),
    ),
    "an unknown decision": Refused(
        [{"op": "update_step", "id": "b", "changes": {"decision": "who"}}], ("step 'b'.decision: unknown decision",)
    ),
    "an edge twice": Refused(
        [{"op": "add_edge", "step": "c", "depends_on": {"step": "a"}}],
        ("step 'c' already depends on 'a'; to change `on`, remove that edge as well",),
    ),
    "no such edge": Refused(
        [{"op": "remove_edge", "step": "d", "depends_on": "a"}], ("step 'd' does not depend on 'a'",)
    ),
    "removed twice": Refused(
        [{"op": "remove_step", "id": "d"}, {"op": "remove_step", "id": "d"}], ("step 'd' is removed twice",)
    ),
    "nothing left": Refused(
        [{"op": "remove_step", "id": name} for name in "bcd"] + [{"op": "remove_step", "id": "a"}],
        ("step 'a' is running or completed",),
    ),
    "several at once": Refused(
        [{"op": "remove_step", "id": "q"}, {"op": "update_step", "id": "b", "changes": {"mode": "cook"}}],
        ("2 problems", "unknown step 'q'", "step 'b'.mode: 'cook' is not one of"),
    ),
}


@pytest.mark.parametrize("case", REFUSED.values(), ids=REFUSED)
def test_a_revision_that_cannot_be_carried_out_says_why(case: Refused) -> None:
    with pytest.raises(RevisionInvalidError) as caught:
        revise(BASE, read_operations(case.operations), fixed={"a"})
    for words in case.said:
        assert words in str(caught.value)


def test_a_plan_keeps_at_least_one_step() -> None:
    operations = read_operations([{"op": "remove_step", "id": name} for name in "abcd"])
    with pytest.raises(RevisionInvalidError, match="steps: must have at least 1 entry"):
        revise(BASE, operations)


def test_an_edge_changes_its_condition_when_it_is_removed_and_added() -> None:
    operations = read_operations([
        {"op": "add_edge", "step": "b", "depends_on": {"step": "a", "on": "failed"}},
        {"op": "remove_edge", "step": "b", "depends_on": "a"},
    ])
    assert by_id(revise(BASE, operations).plan)["b"]["edges"][0].on == "failed"


WITH_DEFAULTS = make_plan([step("a"), step("z", max_turns=10)]).model_copy(
    update={"defaults": StepSettings(max_turns=44, retries=1)}
)


def test_steps_that_are_added_have_the_plans_own_defaults_and_the_others_stay_as_they_are() -> None:
    once = revise(WITH_DEFAULTS, read_operations([{"op": "add_step", "step": step("b", "a")}]))
    added = step("c", "b", max_turns=3)
    twice = revise(once.plan, read_operations([{"op": "add_step", "step": added}])).plan
    assert [(s.id, s.max_turns, s.retries) for s in twice.steps] == [
        ("a", 44, 1),
        ("z", 10, 1),
        ("b", 44, 1),
        ("c", 3, 1),
    ]
    assert load_plan(once.source_bytes, where="again").plan == once.plan


def test_a_step_that_another_document_adds_is_what_that_document_says() -> None:
    new = make_plan([step("a", max_turns=44, retries=1), step("z", retries=1), step("b")])
    for defaults in (None, StepSettings(max_turns=5)):
        wanted = new.model_copy(update={"defaults": defaults})
        operations = read_operations(list(plain_operations(operations_between(WITH_DEFAULTS, wanted))))
        assert by_id(revise(WITH_DEFAULTS, operations).plan) == by_id(wanted.resolved())


UNREADABLE: dict[str, tuple[object, str]] = {
    "no list": ({"op": "add_step"}, "operations: must be a list"),
    "no object": (["add_step"], "operations[0]: must be an object"),
    "no kind": ([{"id": "a"}], 'operations[0].op: is required; add "op"'),
    "an unknown kind": ([{"op": "move_step"}], "operations[0].op: 'move_step' is not one of add_step, remove_step"),
    "a field too many": (
        [{"op": "remove_step", "id": "a", "force": True}],
        "operations[0].force: is not a field of remove_step; the fields are id",
    ),
    "a field missing": ([{"op": "remove_step"}], "operations[0].id: is required; add 'id'"),
    "no change": ([{"op": "update_step", "id": "a", "changes": {}}], "operations[0].changes: must have at least 1"),
    "a bad step": (
        [{"op": "add_step", "step": {"id": "A b", "title": "t", "mode": "code"}}],
        "operations[0].step.id: 'A b' is not an id",
    ),
    "no number": (
        [{"op": "update_step", "id": "a", "changes": {"max_price": float("nan")}}],
        "is not a finite number",
    ),
    "no data": ([object()], "is not plain JSON data"),
}


@pytest.mark.parametrize(("raw", "said"), UNREADABLE.values(), ids=UNREADABLE)
def test_operations_that_cannot_be_read_say_why(raw: object, said: str) -> None:
    with pytest.raises(RevisionInvalidError) as caught:
        read_operations(raw)
    assert said in str(caught.value)


def test_a_difference_no_operation_can_express_is_named() -> None:
    other = BASE.model_copy(update={"goal": "another", "max_parallel_steps": 2})
    with pytest.raises(RevisionInvalidError) as caught:
        operations_between(BASE, other)
    assert [problem.path for problem in caught.value.problems] == ["goal", "max_parallel_steps"]


def test_every_operation_is_one_line_for_people() -> None:
    operations = read_operations([
        {"op": "add_step", "step": step("z", "a", title="look\x1b[2J at it", mode="docs")},
        {"op": "remove_step", "id": "d"},
        {"op": "update_step", "id": "b", "changes": {"prompt": "do\nit " + "x" * 100, "max_turns": 3}},
        {"op": "add_edge", "step": "c", "depends_on": {"step": "z", "on": "finished"}},
        {"op": "remove_edge", "step": "c", "depends_on": "a"},
    ])
    lines = [operation_text(operation) for operation in operations]
    assert lines[0] == r"add step z (docs) after a: look\x1b[2J at it"
    assert lines[1] == "remove step d"
    assert lines[2].startswith("change step b: prompt = 'do\\nit xxx")
    assert lines[2].endswith("..., max_turns = 3")
    assert lines[3:] == ["make c depend on z (finished)", "c no longer depends on a"]


IDS = [f"s{n}" for n in range(7)]
SOME_ID = st.sampled_from(IDS)
ODD_CHANGES: st.SearchStrategy[dict[str, Any]] = st.dictionaries(
    st.sampled_from(["max_turns", "title", "depends_on", "id"]),
    st.one_of(st.integers(-1, 5), st.text(max_size=3)),
    min_size=1,
    max_size=2,
)


@st.composite
def edges(draw: st.DrawFn) -> dict[str, str]:
    return {"step": draw(SOME_ID), "on": draw(st.sampled_from(["completed", "failed"]))}


@st.composite
def any_operation(draw: st.DrawFn) -> dict[str, Any]:
    step_id = draw(SOME_ID)
    match draw(st.sampled_from(["add_step", "remove_step", "update_step", "add_edge", "remove_edge"])):
        case "add_step" as op:
            needs = draw(st.lists(edges(), max_size=3))
            return {"op": op, "step": step(step_id, *needs, max_turns=draw(st.integers(0, 3)))}
        case "remove_step" as op:
            return {"op": op, "id": step_id}
        case "update_step" as op:
            return {"op": op, "id": step_id, "changes": draw(ODD_CHANGES)}
        case "add_edge" as op:
            return {"op": op, "step": step_id, "depends_on": draw(edges())}
        case op:
            return {"op": op, "step": step_id, "depends_on": draw(SOME_ID)}


@st.composite
def plans(draw: st.DrawFn) -> Plan:
    ids = draw(st.permutations(IDS))[: draw(st.integers(1, len(IDS)))]
    steps: list[dict[str, Any]] = []
    for number, name in enumerate(ids):
        earlier = draw(st.sets(st.sampled_from(ids[:number]), max_size=3)) if number else set[str]()
        needs = [{**draw(edges()), "step": needed} for needed in sorted(earlier)]
        steps.append(step(name, *needs, max_turns=draw(st.integers(1, 3))))
    return make_plan(steps)


@given(plan=plans(), raw=st.lists(any_operation(), max_size=6), fixed=st.sets(st.sampled_from(IDS), max_size=4))
def test_any_operations_give_a_valid_plan_or_reasons_and_never_touch_a_fixed_step(
    plan: Plan, raw: list[dict[str, Any]], fixed: set[str]
) -> None:
    before = by_id(plan)
    problems: list[Problem] = []
    revised: LoadedPlan | None = None
    try:
        operations = read_operations(raw)
        assert read_operations(list(plain_operations(operations))) == operations
        revised = revise(plan, operations, fixed=fixed)
    except RevisionInvalidError as refused:
        problems += refused.problems
    assert by_id(plan) == before
    if revised is None:
        assert problems
        assert all(problem.path and problem.message for problem in problems)
        return
    assert load_plan(revised.source_bytes, where="again").plan == revised.plan
    after = by_id(revised.plan)
    assert {step_id: after.get(step_id) for step_id in fixed & before.keys()} == {
        step_id: before[step_id] for step_id in fixed & before.keys()
    }


@given(old=plans(), new=plans())
def test_what_lies_between_two_plans_turns_one_into_the_other(old: Plan, new: Plan) -> None:
    operations = read_operations(list(plain_operations(operations_between(old, new))))
    assert by_id(revise(old, operations).plan) == by_id(new)


@given(plan=plans())
def test_nothing_lies_between_a_plan_and_itself(plan: Plan) -> None:
    assert operations_between(plan, plan) == ()
