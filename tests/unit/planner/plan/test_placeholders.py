"""Placeholders: found, checked, filled in once, and never a part of a shell line."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from planner.plan.diagnostics import UnfilledError
from planner.plan.placeholders import (
    MAX_FILLED,
    Placeholder,
    as_text,
    escape,
    fill,
    find,
    problems_in_commands,
    problems_in_text,
    variable_of,
)

VALUES = {"inputs": {"n": 3, "who": "Ann", "all": ["a", "ö"]}, "item": {"path": "a.py", "at": {"line": 7}}, "index": 0}


@pytest.mark.parametrize(
    ("text", "filled"),
    [
        ("no placeholder, $n, $(x), ${HOME} and ${{ x }}", "no placeholder, $n, $(x), ${HOME} and ${{ x }}"),
        ("${inputs.n} for ${inputs.who}", "3 for Ann"),
        ("${inputs.all}", '["a","ö"]'),
        ("${inputs.all.1}", "ö"),
        ("${item.path}:${item.at.line} is ${index}", "a.py:7 is 0"),
        ("${item}", '{"path":"a.py","at":{"line":7}}'),
        ("$${inputs.n}, $${HOME}, $$${inputs.n}", "${inputs.n}, ${HOME}, $${inputs.n}"),
        ("${items} ${item_path} ${item-x} ${inputs_n} ${indexed}", "${items} ${item_path} ${item-x} ${inputs_n} ${indexed}"),
    ],
)  # fmt: skip
def test_a_text_is_filled_in(text: str, filled: str) -> None:
    assert fill(text, VALUES) == filled


@pytest.mark.parametrize("value", ["${inputs.n}", "$${", "$(touch x)", "a;b", "${item}", "\\1", "🎉", "$"])
def test_what_is_filled_in_is_not_looked_into_again(value: str) -> None:
    assert fill("<${item}{inputs.n}>", {"item": value, "inputs": {"n": 1}}) == f"<{value}{{inputs.n}}>"


@given(st.text(alphabet="${}inputs.tem \n") | st.text())
def test_an_escaped_text_is_filled_back(text: str) -> None:
    assert fill(escape(text), {}) == text
    assert list(find(escape(text))) == []


@pytest.mark.parametrize(
    "text", ["${inputs.no}", "${item.path.x}", "${item.at.line.0}", "${item path}", "${inputs.all.2}"]
)
def test_what_has_no_value_is_an_error(text: str) -> None:
    with pytest.raises(UnfilledError, match="has no value"):
        fill(text, VALUES)


def test_a_long_value_is_cut_and_says_so() -> None:
    assert fill("<${item}>", {"item": "x" * 1_500}, longest=500) == f"<{'x' * 500}[... 1,000 characters more]>"


def test_a_text_does_not_grow_without_bound() -> None:
    with pytest.raises(UnfilledError, match="takes more than 262,144 characters"):
        fill("${item}" * 10_000, {"item": "x" * 60_000})
    assert fill("y" * MAX_FILLED * 2 + "$${", {}).endswith("y${")


def test_placeholders_are_found_with_their_names() -> None:
    found = list(find("${inputs.a} $${item} ${item.b.c} ${index} ${item b}"))
    assert found == [
        Placeholder("inputs", ("a",)), Placeholder("item", ("b", "c")), Placeholder("index"), Placeholder("item", (), " b")
    ]  # fmt: skip


def test_a_name_becomes_a_variable() -> None:
    assert variable_of("VIBE_INPUT", "max-files") == "VIBE_INPUT_MAX_FILES"
    assert variable_of("VIBE_ITEM") == "VIBE_ITEM"
    assert as_text("a") == "a"
    assert as_text(True) == "true"  # noqa: FBT003  a value


@pytest.mark.parametrize(
    ("text", "items", "said"),
    [
        ("${inputs.nn}", False, "p: unknown input 'nn'; add it to `inputs`; the plan's inputs: n; $${ is ${ itself"),
        ("${inputs}", False, "p: ${inputs} names no input; write ${inputs.NAME}; the plan's inputs: n"),
        ("${inputs.n.x}", False, "p: ${inputs.n.x} names no input; write ${inputs.NAME}; the plan's inputs: n"),
        ("${item.a}", False, 'p: ${item.a} stands only in a step with for_each; give the step "for_each"; $${ is ${ itself'),
        ("${index.a}", True, "p: ${index.a}: an index is a number; write ${index}"),
        ("${item a}", True, "p: '${item a}' is not a placeholder; write ${inputs.NAME}, ${item.FIELD} or ${index}; $${ is ${ itself"),
    ],
)  # fmt: skip
def test_a_placeholder_that_can_never_be_filled_is_told(text: str, items: object, said: str) -> None:
    assert [str(problem) for problem in problems_in_text("p", text, inputs=["n"], items=bool(items))] == [said]


def test_placeholders_that_fit_are_no_problem() -> None:
    text = "${inputs.n} ${item.a.b} ${index} $${inputs.no} ${HOME}"
    assert list(problems_in_text("p", text, inputs=["n"], items=True)) == []
    assert list(problems_in_text("p", None, inputs=["n"], items=True)) == []


def test_a_command_is_told_which_variable_to_write() -> None:
    found = list(problems_in_commands("verify", ["ls ${HOME} ${items}", 'x ${item.path} "${inputs.max-n}" ${item}']))
    assert [(problem.path, problem.fix) for problem in found] == [
        ("verify[1]", 'write "$VIBE_ITEM_PATH"'),
        ("verify[1]", 'write "$VIBE_INPUT_MAX_N"'),
        ("verify[1]", 'write "$VIBE_ITEM"'),
    ]
    assert [problem.path for problem in problems_in_commands("command", "x ${inputs.n}")] == ["command"]
    assert list(problems_in_commands("command", None)) == []


def test_a_long_text_is_read_in_a_moment() -> None:
    text = "${item" * 200_000
    assert len(list(find(text))) <= 200_000
