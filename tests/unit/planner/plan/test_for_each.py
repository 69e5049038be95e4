"""Plans with lists: what is refused before anything runs, and steps made for items, whatever the items hold."""

from __future__ import annotations

import json
from typing import Any

import pytest

from planner.plan.diagnostics import PlanInvalidError
from planner.plan.for_each import ItemsInvalidError, children_of, items_of, variables_of
from planner.plan.loader import LoadedPlan, load_plan
from planner.plan.model import Child, Step

SCHEMA = {"type": "object", "properties": {"files": {"type": "array"}, "n": {"type": "integer"}}}


def load(each: object = None, find: dict[str, Any] | None = None, **fields: Any) -> LoadedPlan:
    """Return a plan that finds files and fixes each of them."""
    first = {"id": "find", "title": "Find", "mode": "research", "output_schema": SCHEMA, **(find or {})}
    fix = {"id": "fix", "title": "Fix ${item}", "mode": "code", "depends_on": ["find"], "for_each": each, **fields}
    plan = {"version": 1, "goal": "g", "steps": [first, fix, {"id": "end", "title": "End", "mode": "docs"}]}
    return load_plan(json.dumps(plan | fields.pop("plan", {})), where="p")


FILES = {"in": "find", "at": "/files"}


@pytest.mark.parametrize("each", [{"items": "abc"}, 3, "x"])
def test_what_is_no_list_at_all_is_one_problem(each: object) -> None:
    with pytest.raises(PlanInvalidError) as refused:
        load(each)
    assert len(refused.value.problems) == 1


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"each": {"in": "fnd"}}, "for_each.in: the step does not depend on 'fnd'; add that to its `depends_on`"),
        ({"each": FILES, "depends_on": [{"step": "find", "on": "finished"}]}, "for_each.in: 'find' need not complete"),
        ({"each": FILES, "find": {"output_schema": None}}, "for_each.in: step 'find' has no `output_schema`; give it one"),
        ({"each": {"in": "find"}}, "for_each.in: the `output_schema` of 'find' says 'object', not a list"),
        ({"each": FILES | {"at": "/n"}}, "for_each.at: the `output_schema` of 'find' says 'integer' at /n, not a list"),
        ({"each": FILES | {"at": "/m"}}, "for_each.at: the `output_schema` of 'find' has no 'm'; its properties: files, n"),
        ({"each": FILES | {"at": "/n/x"}}, "for_each.at: the `output_schema` of 'find' has no part 'x' where it says 'integer'"),
        ({"each": {"items": [1, 2], "enough": 3}}, "for_each.enough: 3 can't complete of 2; use 2 at most"),
        ({"each": {"items": [1], "enough": -1}}, "for_each.enough: must be at least 0, not -1"),
        ({"each": {"items": [1], "enough": True}}, "for_each.enough: must be a whole number, not a truth value"),
        ({"each": {"items": [1], "enough": "most"}}, "for_each.enough: 'most' is not one of 'all'"),
        ({"each": {"in": "find"}, "find": {"output_schema": {"type": 5}}}, "output_schema"),
        ({"each": FILES | {"at": "files"}}, "for_each.at: 'files' is not a JSON pointer; begin it with /, as in /files"),
        ({"each": FILES | {"items": [1]}}, "for_each: has both `in` and `items`; keep one of them"),
        ({"each": {}}, 'for_each: names no list; add "in", the step that hands it in, or "items"'),
        ({"each": {"input": "x"}}, "for_each.input: 'x' is not an input of type list"),
        ({"each": FILES | {"width": 0}}, "for_each.width: must be at least 1, not 0"),
        ({"each": FILES | {"at_most": 2001}}, "for_each.at_most: must be at most 2000, not 2001"),
        ({"each": FILES | {"inn": 1}}, "for_each.inn: is not a field; did you mean 'in'?"),
        ({"each": [*range(257)]}, "for_each: must have at most 256 entries, not 257"),
        ({"each": ["a", "a"]}, "for_each: items 0 and 1 have the same key, 'a'"),
        ({"each": {"items": [["a"]], "key": f"/{'9' * 5000}"}}, "for_each: item 0 has nothing at /999"),
        ({}, "title: ${item} stands only in a step with for_each; give the step \"for_each\""),
        ({"title": "t", "prompt": "p ${item.a}"}, "prompt: ${item.a} stands only in a step with for_each"),
        ({"title": "t", "writes": ["a", "${item}"]}, "writes[1]: ${item} stands only in a step with for_each"),
        ({"each": FILES, "verify": ["ls ${HOME}", "t ${item.path}"]}, "verify[1]: ${item.path} can't stand in a command"),
        ({"each": FILES, "mode": "run", "command": "t ${item}"}, 'by the shell; write "$VIBE_ITEM"'),
        ({"each": FILES, "id": "x" * 56}, "id: is 56 characters long, and a step with for_each has at most 55"),
        ({"each": FILES, "side_effects": True, "retries": 1}, "retries: a step with side effects is never retried"),
    ],
)  # fmt: skip
def test_a_list_that_can_never_be_done_is_refused_with_its_place(fields: dict[str, Any], said: str) -> None:
    with pytest.raises(PlanInvalidError) as refused:
        load(**fields)
    assert any(f"steps[1].{said}" in str(problem) or said in str(problem) for problem in refused.value.problems)
    assert not ("enough" in said and len(refused.value.problems) > 1)


def test_a_pointer_into_an_output_schema_leads_through_a_name_with_a_slash() -> None:
    schema = {"type": "object", "properties": {"a/b": {"type": ["array", "null"]}}}
    assert load({"in": "find", "at": "/a~1b"}, {"output_schema": schema}).plan.steps[1].for_each


def test_a_step_for_an_item_is_no_dependency() -> None:
    steps = [{"id": "fix", "title": "t", "mode": "code", "for_each": ["a"]}]
    steps.append({"id": "end", "title": "t", "mode": "code", "depends_on": ["fix-01234567"]})
    with pytest.raises(PlanInvalidError, match=r"'fix-01234567' is made for an item of step 'fix'.*name 'fix'"):
        load_plan(json.dumps({"version": 1, "goal": "g", "steps": steps}), where="p")


def test_a_bare_list_is_the_items_and_a_list_of_a_list_is_allowed() -> None:
    loaded = load(["a", 1])
    assert loaded.plan.steps[1].for_each is not None
    assert loaded.plan.steps[1].for_each.items == ["a", 1]
    second = {"id": "again", "title": "t", "mode": "code", "depends_on": ["fix"], "for_each": {"in": "fix"}}
    steps = [{"id": "fix", "title": "t", "mode": "code", "for_each": ["a"]}, second]
    assert load_plan(json.dumps({"version": 1, "goal": "g", "steps": steps}), where="p").plan.steps[1].for_each


def test_an_input_can_be_the_list_and_stands_in_its_texts() -> None:
    step = {"id": "fix", "title": "${inputs.how} ${item}", "mode": "code", "for_each": {"input": "files"}}
    inputs = [{"name": "files", "type": "list", "default": ["a", "${item}"]}, {"name": "how", "default": "Fix ${item}"}]
    plan = load_plan(json.dumps({"version": 1, "goal": "g", "steps": [step], "inputs": inputs}), where="p").plan
    items = items_of(plan.steps[0], None, plan.values())
    assert [one.title for one in children_of(plan.steps[0], items, plan.values())] == [
        "Fix ${item} a",
        "Fix ${item} ${item}",
    ]


def pattern(**fields: Any) -> Step:
    return Step.model_validate({"id": "s", "title": "Do ${item}", "mode": "code", "for_each": {"in": "find"}} | fields)


def made(item: object, **fields: Any) -> Child:
    return children_of(pattern(**fields), [item], {})[0]


@pytest.mark.parametrize(
    "item", ["$(touch x)", "a;b", "${item}", "${inputs.x}", "🎉", "`x`", "a\nb", '"', "../x", "--rm"]
)
def test_an_item_is_data_wherever_it_stands(item: str) -> None:
    child = made(item, prompt="<${item}>", verify=['test "$VIBE_ITEM"'])
    assert (child.prompt, child.verify) == (f"<{item}>", ['test "$VIBE_ITEM"'])
    assert child.title == f"Do {' '.join(item.split())}"
    assert variables_of(item) == {"VIBE_ITEM": item}


def test_a_long_item_is_cut_in_texts_and_refused_by_commands() -> None:
    text = "x" * 1_000_000
    child = made({"k": 1, "text": text}, for_each={"in": "f", "key": "/k"}, title="${item.text}", prompt="${item.text}")
    assert child.title.startswith("x" * 80 + "[...")
    assert child.prompt is not None
    assert child.prompt.startswith("x" * 4_000 + "[... 996,000 characters more]")
    assert child.is_long
    with pytest.raises(ItemsInvalidError, match=r"item 0 \('1'\): is more than a command can be given, 100,000 bytes"):
        made({"k": 1, "text": text}, for_each={"in": "f", "key": "/k"}, title="t", verify=["true"])
    with pytest.raises(ItemsInvalidError, match=r"a key of 1,000,000 characters.*name a shorter part of the item"):
        made(text)


def test_the_fields_of_an_item_are_variables_of_its_commands() -> None:
    item = {"path": "a b.py", "n": 3, "ok": True, "no": None, "lines": [1], "a-b": "x", "PATH": "y"}
    assert variables_of(item) == {
        "VIBE_ITEM": json.dumps(item, separators=(",", ":")),
        "VIBE_ITEM_PATH": "a b.py",
        "VIBE_ITEM_N": "3",
        "VIBE_ITEM_OK": "true",
        "VIBE_ITEM_NO": "null",
        "VIBE_ITEM_A_B": "x",
    }


def test_ids_come_of_the_keys_and_not_of_places() -> None:
    first = [one.id for one in children_of(pattern(), ["a", "b"], {})]
    assert first == [one.id for one in children_of(pattern(), ["b", "c", "a"], {}) if one.key != "c"][::-1]
    assert all(len(one) == len("s-") + 8 for one in first)
    with pytest.raises(ItemsInvalidError, match=r"item 0 \('a'\) would be step '.*', which exists already"):
        children_of(pattern(), ["a"], {}, known=first)
