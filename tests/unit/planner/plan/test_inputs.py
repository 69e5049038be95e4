"""Inputs of a plan: declared, given, filled in once and for all, and with all errors reported at once."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from planner.plan.diagnostics import InputsInvalidError, PlanInvalidError
from planner.plan.inputs import MAX_VALUE_BYTES, inputs_used
from planner.plan.loader import LoadedPlan, load_plan, with_inputs
from planner.plan.operations import read_operations
from planner.plan.revision import operations_between, revise
from tests.unit.planner.scripted_run import choice, step


def plan_of(*inputs: Mapping[str, Any], **fields: Any) -> LoadedPlan:
    document = {"version": 1, "goal": "a goal", "steps": [step("a")], "inputs": list(inputs), **fields}
    return load_plan(json.dumps(document), where="/x/tidy.json")


def refused(given: Mapping[str, object], *inputs: Mapping[str, Any]) -> InputsInvalidError:
    with pytest.raises(InputsInvalidError) as caught:
        with_inputs(plan_of(*inputs), given)
    return caught.value


def test_values_stand_in_goal_context_titles_prompts_and_questions_and_nowhere_else() -> None:
    loaded = plan_of(
        {"name": "n", "type": "integer"},
        {"name": "who"},
        goal="Do ${inputs.n}",
        context="for ${inputs.who}",
        steps=[
            step("a", title="By ${inputs.who}", prompt="$${inputs.n} is ${inputs.n}, ${HOME}"),
            step("b", mode="run", command='echo "$VIBE_INPUT_N" ${HOME}'),
        ],
        decisions=[choice("q", "x", "y", question="${inputs.n}?")],
    )
    assert loaded.plan.goal == "Do ${inputs.n}"

    plan = with_inputs(loaded, {"n": "3", "who": "Ann\nor ${inputs.n}"}).plan

    assert (plan.goal, plan.context) == ("Do 3", "for Ann\nor ${inputs.n}")
    assert [one.title for one in plan.steps] == ["By Ann or ${inputs.n}", "b"]
    assert plan.steps[0].prompt == "${inputs.n} is 3, ${HOME}"
    assert plan.steps[1].command == 'echo "$VIBE_INPUT_N" ${HOME}'
    assert plan.decisions[0].question == "3?"
    assert plan.values() == {"n": 3, "who": "Ann\nor ${inputs.n}"}
    assert plan.variables() == {"VIBE_INPUT_N": "3", "VIBE_INPUT_WHO": "Ann\nor ${inputs.n}"}


def test_the_document_that_is_kept_says_the_same_plan() -> None:
    kept = with_inputs(plan_of({"name": "n", "default": "x"}, goal="${inputs.n}"), {"n": "${inputs.n}$${"})
    again = load_plan(kept.source_bytes, where=kept.where)
    assert again.plan == kept.plan
    assert again.plan.goal == "${inputs.n}$${"


def test_a_revision_leaves_what_was_filled_in() -> None:
    value = "${inputs.n} $${x} ${index}"
    plan = with_inputs(plan_of({"name": "n"}, steps=[step("a", prompt="is ${inputs.n}"), step("b")]), {"n": value}).plan
    added = {"op": "add_step", "step": step("c", prompt="new ${inputs.n}")}

    revised = revise(plan, read_operations([added, {"op": "remove_step", "id": "b"}])).plan

    assert [one.prompt for one in revised.steps] == [f"is {value}", f"new {value}"]
    again = revise(plan, operations_between(plan, revised)).plan
    assert again == revised


@pytest.mark.parametrize(
    ("kind", "given", "value"),
    [
        ("string", "3", "3"),
        ("string", "", ""),
        ("integer", "-3", -3),
        ("integer", 3, 3),
        ("number", "1.5", 1.5),
        ("number", "2", 2),
        ("boolean", "true", True),
        ("boolean", False, False),
        ("list", '["a", 1]', ["a", 1]),
        ("list", [], []),
        ("list", ("a", 1), ["a", 1]),
    ],
)
def test_a_value_of_its_type_is_taken(kind: str, given: object, value: object) -> None:
    assert with_inputs(plan_of({"name": "n", "type": kind}), {"n": given}).plan.values() == {"n": value}


@pytest.mark.parametrize(
    ("kind", "given", "said"),
    [
        ("string", 3, "3 is not a text"),
        ("integer", "x", "'x' is not an integer; write a whole number, such as 3"),
        ("integer", "1.5", "1.5 is not an integer; write a whole number, such as 3"),
        ("integer", "true", "true is not an integer; write a whole number, such as 3"),
        ("number", "NaN", "'NaN' is not a number; write a number, such as 1.5"),
        ("number", float("inf"), "inf is not a number; write a number, such as 1.5"),
        ("boolean", "yes", "'yes' is not true or false; write true or false"),
        ("list", "x.py, y.py", "'x.py, y.py' is not a list; write a JSON list, such as [\"x.py\",\"y.py\"]"),
        ("list", [object], "[<class 'object'>] can't be written as JSON"),
        ("list", [float("nan")], "[nan] can't be written as JSON"),
        ("string", "x" * (MAX_VALUE_BYTES + 1), "is 64,001 bytes long; the limit is 64,000"),
        ("string", "a\0b", "has a NUL character"),
        ("string", "\udce4", "'\\udce4' can't be written as JSON"),
    ],
)  # fmt: skip
def test_a_value_of_another_type_is_refused(kind: str, given: object, said: str) -> None:
    assert str(refused({"n": given}, {"name": "n", "type": kind})) == f"plan tidy: input 'n': {said}"


def test_what_is_missing_is_told_all_at_once() -> None:
    error = refused({}, {"name": "n", "type": "integer"}, {"name": "who"}, {"name": "d", "default": "x"})
    assert str(error) == (
        "plan tidy: input 'n' (integer) is missing: give --with n=VALUE; "
        "input 'who' (string) is missing: give --with who=VALUE"
    )
    assert error.missing == ("n", "who")


def test_unknown_and_wrong_ones_are_told_with_it() -> None:
    error = refused({"m": "1", "who": "Eve"}, {"name": "n"}, {"name": "who", "choices": ["Ann", "Bob"]})
    assert str(error) == (
        "plan tidy: input 'n' (string) is missing: give --with n=VALUE; unknown input 'm'; its inputs: n, who; "
        "input 'who': 'Eve' is none of its choices: Ann, Bob"
    )
    assert error.missing == ()
    assert "the plan has no inputs" in str(refused({"n": "1"}))


def test_many_long_values_are_refused() -> None:
    inputs = [{"name": f"n{number}"} for number in range(9)]
    assert "longer than 512,000 bytes together" in str(refused({one["name"]: "x" * 60_000 for one in inputs}, *inputs))


@pytest.mark.parametrize(
    ("declared", "said"),
    [
        ([{"name": "a b"}], "inputs[0].name: 'a b' is not an id"),
        ([{"name": "a-b"}, {"name": "a_b"}], "inputs[1].name: 'a_b' has the same variable as the input 'a-b'"),
        ([{"name": "a"}, {"name": "a"}], "inputs[1].name: 'a' has the same variable as the input 'a'"),
        ([{"name": "a", "type": "int"}], "inputs[0].type: 'int' is not one of"),
        ([{"name": "a", "type": ["list"]}], """inputs[0].type: ["list"] is not one of"""),
        ([{"name": "a", "type": "integer", "default": "x"}], "inputs[0].default: 'x' is not an integer"),
        ([{"name": "a", "choices": ["x"], "default": "y"}], "inputs[0].default: 'y' is none of its choices: x"),
        ([{"name": "a", "choices": [1]}], "inputs[0].choices[0]: 1 is not a text"),
        ([{"name": "a", "typ": "list"}], "inputs[0].typ: is not a field; did you mean 'type'?"),
    ],
)
def test_a_declaration_that_is_wrong_is_told(declared: list[dict[str, Any]], said: str) -> None:
    with pytest.raises(PlanInvalidError, match=r".*") as caught:
        plan_of(*declared)
    assert said in str(caught.value)


def test_placeholders_that_can_not_be_filled_or_stand_in_a_command_are_told() -> None:
    with pytest.raises(PlanInvalidError) as caught:
        plan_of(
            {"name": "n"},
            goal="${inputs.m}",
            steps=[step("a", prompt="${item.x}"), step("b", mode="test", command="x ${inputs.n}", verify=["${item}"])],
            defaults={"verify": ["ls ${inputs.n}"]},
        )
    assert [problem.path for problem in caught.value.problems] == [
        "goal", "steps[0].prompt", "defaults.verify[0]", "steps[1].command", "steps[1].verify[0]"
    ]  # fmt: skip
    assert [problem.fix for problem in caught.value.problems][2:] == [
        'write "$VIBE_INPUT_N"', 'write "$VIBE_INPUT_N"', 'write "$VIBE_ITEM"'
    ]  # fmt: skip


def test_a_plan_of_before_is_left_as_it_is() -> None:
    prompt = "run $${make} and ${HOME} in ${{ matrix }}"
    assert plan_of(steps=[step("a", prompt=prompt)]).plan.steps[0].prompt == prompt


def test_a_step_uses_the_inputs_its_commands_name() -> None:
    loaded = plan_of(
        *({"name": name} for name in ("n", "nn", "m", "k")),
        steps=[step("a", mode="run", command="echo ${VIBE_INPUT_NN}", verify=['test "$VIBE_INPUT_M"'])],
    )
    plan = with_inputs(loaded, {"n": "1", "nn": "2", "m": "3", "k": "4"}).plan
    assert inputs_used(plan.steps[0], plan.values()) == {"nn": "2", "m": "3"}


def test_prompts_do_not_grow_without_bound() -> None:
    steps = [step(f"s{number}", prompt="${inputs.n}" * 4) for number in range(80)]
    with pytest.raises(PlanInvalidError, match="the prompts take more than 16,777,216 characters"):
        with_inputs(plan_of({"name": "n"}, steps=steps), {"n": "x" * 60_000})


@pytest.mark.parametrize("each", [{"input": "files", "width": 2}, {"in": {"input": "files"}, "width": 2}])
def test_a_list_is_the_items_of_a_step_in_either_spelling(each: dict[str, Any]) -> None:
    inputs = {"name": "files", "type": "list"}, {"name": "n"}
    loaded = plan_of(*inputs, steps=[step("a", title="${item} of ${inputs.n}", for_each=each)])
    plan = with_inputs(loaded, {"files": ["x"], "n": "${item}"}).plan
    assert plan.steps[0].for_each is not None
    assert (plan.steps[0].for_each.input, plan.steps[0].for_each.width) == ("files", 2)
    assert plan.steps[0].title == "${item} of ${inputs.n}"
    with pytest.raises(PlanInvalidError, match="'n' is not an input of type list"):
        plan_of(*inputs, steps=[step("a", for_each={"in": {"input": "n"}})])
