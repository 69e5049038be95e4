"""A model's plan is repaired only in its wording, every repair is reported, and the rest is refused with reasons."""

from __future__ import annotations

import json
from typing import Any, cast

import pytest
from hypothesis import given, strategies as st

from planner.author.output_repair import RepairedPlan, mended, repaired_plan, slug
from planner.author.structured_output import plan_schema
from planner.plan.diagnostics import PlanInvalidError
from planner.plan.loader import load_plan
from tests.unit.planner.scripted_run import choice, step


def repaired(*steps: dict[str, Any], **fields: Any) -> RepairedPlan:
    value = {"steps": list(steps), **fields}
    before = json.dumps(value)
    document, repairs = mended(value, plan_schema())
    done = repaired_plan(document, goal="the goal", metadata={"model": "m"}, repairs=repairs)
    assert json.dumps(value) == before
    return done


def edges(done: RepairedPlan) -> dict[str, tuple[str, ...]]:
    return dict(done.loaded.dag.dependencies)


def test_a_good_plan_is_taken_as_it_is() -> None:
    done = repaired(step("a"), step("b", {"step": "a", "on": "finished"}), context="known")
    assert done.repairs == ()
    assert edges(done) == {"a": (), "b": ("a",)}
    plan = done.loaded.plan
    assert (plan.version, plan.goal, plan.context) == (1, "the goal", "known")
    assert plan.metadata == {"origin": "model", "model": "m"}
    assert load_plan(done.loaded.source_bytes, where="file").plan == plan


def test_ids_become_ids_and_unique_and_references_follow() -> None:
    done = repaired(
        step("Read Code"),
        step("read-code"),
        step("b", "Read Code"),
        step("b", "b"),
        {"title": "Über alles!", "mode": "docs", "depends_on": ["read-code", "b"]},
        {"id": "!!!", "title": "???", "mode": "docs"},
    )
    assert edges(done) == {
        "read-code-2": (),
        "read-code": (),
        "b": ("read-code-2",),
        "b-2": ("b",),
        "uber-alles": ("read-code", "b"),
        "step-6": (),
    }
    assert done.repairs == (
        "the step id 'Read Code' became 'read-code-2'",
        "the step id 'b' became 'b-2'",
        "the missing step id became 'uber-alles'",
        "the step id '!!!' became 'step-6'",
    )
    assert done.loaded.plan.metadata["repairs"] == list(done.repairs)


def test_dependencies_on_nothing_on_oneself_and_given_twice_are_dropped() -> None:
    done = repaired(step("a", "a", "ghost"), step("b", "a", "a", {"step": "A", "on": "failed"}))
    assert edges(done) == {"a": (), "b": ("a",)}
    assert done.repairs == (
        "step 'a' depended on itself: dropped",
        "step 'a' depended on 'ghost', which is not a step: dropped",
    )


def test_of_a_circle_the_edge_against_the_written_order_is_dropped() -> None:
    done = repaired(step("a", "c"), step("b", "a"), step("c", "b"), step("d", "e"), step("e", "d"))
    assert edges(done) == {"a": (), "b": ("a",), "c": ("b",), "d": (), "e": ("d",)}
    assert "step 'a' depended on 'c', a cycle: dropped" in done.repairs


def test_decisions_options_and_what_names_them_are_mended_together() -> None:
    done = repaired(
        step("a", decision="Which DB", when={"Which DB": ["Post Gres"]}),
        decisions=[
            choice("Which DB", "Post Gres", "lite", default="Post Gres"),
        ],
    )
    decision = done.loaded.plan.decisions[0]
    assert (decision.id, decision.default) == ("which-db", "post-gres")
    assert done.loaded.plan.steps[0].when == {"which-db": ["post-gres"]}
    assert done.loaded.plan.steps[0].decision == "which-db"


def test_numbers_serve_as_ids() -> None:
    done = repaired({"id": 1, "title": "a", "mode": "docs"}, {"id": 2, "title": "b", "mode": "docs", "depends_on": [1]})
    assert edges(done) == {"1": (), "2": ("1",)}


def test_a_step_may_be_named_by_its_title_and_several_in_one_text() -> None:
    done = repaired(step("a", title="Learn it"), step("b", "Learn it"), step("c", depends_on="a, b"))
    assert edges(done) == {"a": (), "b": ("a",), "c": ("a", "b")}
    assert done.repairs == ()


def test_the_model_cannot_set_the_goal_or_hide_where_the_plan_comes_from() -> None:
    done = repaired(step("a"), goal="mine", metadata={"origin": "person"})
    assert done.loaded.plan.goal == "the goal"
    assert done.loaded.plan.metadata["origin"] == "model"


@pytest.mark.parametrize(
    ("steps", "said"),
    [
        ([], "steps: must have at least 1 entry"),
        ([{"id": "a", "title": "a"}], "steps[0].mode: is required"),
        ([step("a", promt="x")], "steps[0].promt: is not a field; did you mean 'prompt'?"),
        ([step("a", command="make")], "steps[0].command: a command can't run in mode 'research'"),
        ([step("a", decision="who")], "unknown decision 'who'"),
        ([{"id": ["a"], "title": "a", "mode": "code"}], "steps[0].id: must be text"),
        ([step("a", depends_on={"a": 1})], "steps[0].depends_on: must be a list"),
        ([step("a"), step("b", "step 1")], "steps[1].depends_on[0]: unknown step 'step 1'"),
        ([step("a", for_each="b"), step("b")], "steps[0].for_each: must be an object"),
        ([{**step("a"), "depends_on": [[1]]}], "steps[0].depends_on[0]: must be a step id or an object"),
    ],
)
def test_what_only_the_model_can_mend_is_refused(steps: list[Any], said: str) -> None:
    with pytest.raises(PlanInvalidError) as caught:
        repaired(*steps)
    assert said in str(caught.value)


def test_a_slug_keeps_what_it_can() -> None:
    assert slug("  Réfactor: the API (v2)  ") == "refactor-the-api-v2"
    assert slug("x" * 70) == "x" * 64
    assert slug("日本") == ""


NAMES = st.one_of(st.sampled_from(["a", "b", "A", "a b", "a-b", "", "日本", "x" * 80]), st.integers(0, 2), st.none())


@st.composite
def odd_steps(draw: st.DrawFn) -> dict[str, Any]:
    named: list[str | int | None] = draw(st.lists(NAMES, max_size=3))
    as_object: set[int] = draw(st.sets(st.integers(0, 2)))
    entries = [{"step": name} if number in as_object else name for number, name in enumerate(named)]
    return {**step("x"), "id": draw(NAMES), "depends_on": entries}


@given(steps=st.lists(odd_steps(), min_size=1, max_size=6))
def test_any_ids_and_edges_give_a_plan_or_reasons(steps: list[dict[str, Any]]) -> None:
    entries: list[Any] = [entry for raw in steps for entry in raw["depends_on"]]
    entries = [cast("dict[str, Any]", entry)["step"] if isinstance(entry, dict) else entry for entry in entries]
    by_place = {entry for entry in entries if isinstance(entry, int)} - {raw["id"] for raw in steps}
    if None in entries or by_place:
        with pytest.raises(PlanInvalidError, match="depends_on"):
            repaired(*steps)
    else:
        assert len(repaired(*steps).loaded.plan.steps) == len(steps)


SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(-2, 3), st.text(max_size=3), st.sampled_from(["a", "code", "A b"])
)
KEYS = st.sampled_from([
    "id",
    "title",
    "mode",
    "depends_on",
    "decision",
    "when",
    "steps",
    "options",
    "default",
    "step",
    "on",
])
ANYTHING = st.recursive(
    SCALARS,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(KEYS, inner, max_size=4)),
    max_leaves=12,
)


@given(steps=ANYTHING, decisions=ANYTHING, more=st.dictionaries(KEYS, ANYTHING, max_size=2))
def test_anything_is_a_plan_or_a_problem(steps: Any, decisions: Any, more: dict[str, Any]) -> None:
    value = {**more, "steps": steps, "decisions": decisions}
    problems: list[str] = []
    try:
        document, repairs = mended(value, plan_schema())
        done = repaired_plan(document, goal="g", metadata={}, repairs=repairs)
    except PlanInvalidError as refused:
        problems = [str(problem) for problem in refused.problems]
    else:
        assert done.loaded.plan.steps
        return
    assert problems
