from __future__ import annotations

import json
import time
from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st

from planner.plan.diagnostics import PlanInvalidError, Problem
from planner.plan.loader import LoadedPlan, load_plan, read_plan_file, yaml_form
from planner.plan.strict_yaml import yaml_as_json

PLAN = """
version: 1
goal: Test it  # as it is
steps:
  - id: a
    title: Begin
    mode: run
    command: |
      echo one
      echo two
  - id: "no"
    title: "Clean up: always"
    mode: code
    writes: &sources ["src/**"]
    depends_on:
      - {step: a, on: finished}
  - {id: c, title: C, mode: code, writes: *sources, depends_on: [no], verify: ["test -f x"]}
"""


def load(text: str) -> LoadedPlan:
    return load_plan(text, where="plan.yaml", form=yaml_form())


def refused(text: str) -> tuple[Problem, ...]:
    with pytest.raises(PlanInvalidError) as caught:
        load(text)
    return caught.value.problems


@pytest.mark.parametrize("name", ["plan.yaml", "plan.yml", "PLAN.YAML"])
def test_a_plan_in_yaml_is_the_plan_that_json_would_be(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text(PLAN, encoding="utf-8")
    loaded = read_plan_file(tmp_path / name)
    a, no, c = loaded.plan.steps
    assert a.command == "echo one\necho two"
    assert (no.id, no.title) == ("no", "Clean up: always")
    assert [(edge.step, edge.on) for edge in no.dependencies] == [("a", "finished")]
    assert c.writes == no.writes
    assert [edge.step for edge in c.dependencies] == ["no"]
    assert load_plan(loaded.source_bytes, where="again").plan == loaded.plan  # it is kept as JSON


@pytest.mark.parametrize(
    ("written", "says"),
    [
        ("side_effects: yes", "must be true or false, not 'yes'"),
        ("side_effects: off", "must be true or false, not 'off'"),
        ("max_turns: 010", "must be a whole number, not '010'"),
        ("max_turns: 0x10", "must be a whole number, not '0x10'"),
        ("max_tokens: 50_000", "must be a whole number, not '50_000'"),
        ("timeout_seconds: 1:30", "must be a number, not '1:30'"),
        ("timeout_seconds: .inf", "must be a number, not '.inf'"),
        ("prompt: 12", "must be text, not 12"),
        ("title:", "must be text, not null"),
    ],
)
def test_what_other_readers_of_yaml_would_turn_into_something_else_is_refused(written: str, says: str) -> None:
    problems = refused(
        f"version: 1\ngoal: g\nsteps:\n  - id: a\n    {'' if 'title' in written else 'title: t'}\n    mode: code\n    {written}\n"
    )
    assert [(problem.message, problem.at) for problem in problems] == [(says, (7, 5))]


def test_a_date_is_the_text_that_was_written() -> None:
    plan = load("version: 1\ngoal: 2026-01-31\nsteps: [{id: a, title: 12:30:45, mode: code}]").plan
    assert (plan.goal, plan.steps[0].title) == ("2026-01-31", "12:30:45")


@pytest.mark.parametrize(
    ("text", "at", "says"),
    [
        ("goal: a: b", (1, 8), "is not YAML: mapping values are not allowed in this context; put a value that holds"),
        ("version: 1\n\tgoal: a", (2, 1), "is not YAML: "),
        ("goal: a\ngoal: b", (2, 1), "goal: is given twice; keep one of them"),
        ("steps:\n- <<: {id: a}", (2, 3), "steps[0]: has a merge key (<<), which is not read; put what steps have in"),
        ("!!python/object/apply:os.system ['id']", (1, 1), "has the tag '!!python/object/apply:os.system'"),
        ("goal: !!binary aGk=", (1, 7), "goal: has the tag '!!binary', and tags are not read; leave it out"),
        ("{}\n---\n{}", (2, 1), "has several documents"),
        ("? [a]\n: b", (1, 3), "has a list or an object as a key"),
        ("&x a: b\n*x : c", (2, 1), "has the alias *x as a key"),
        ("steps: &s [*s]", (1, 12), "steps[0]: *s refers to no anchor before it"),
        ("steps: " + "[" * 5_000, (1, 71), "is nested deeper than 64 levels"),
        ("- " * 5_000, (1, 129), "is nested deeper than 64 levels"),
        ("goal: " + "1" * 5_000, (1, 7), "goal: has a number with thousands of digits"),
        ("goal: 1e999", (1, 7), "goal: is not a finite number"),
        (f"version: {10**400}", (1, 1), f"version: {'1' + '0' * 59}... is not a plan format"),
        ('goal: "\\0"', (1, 1), "goal: has a NUL character"),
        ("", None, "a plan must be an object, not null"),
        ("- a", None, "a plan must be an object, not a list"),
    ],
)
def test_what_is_no_plan_is_refused_where_it_is(text: str, at: tuple[int, int] | None, says: str) -> None:
    found = refused(text)
    assert len(found) == 1, found
    assert says in str(found[0])
    assert found[0].at == at


def test_aliases_of_aliases_grow_into_nothing() -> None:
    lines = ["metadata:", "  a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"  a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 30)]
    begun = time.process_time()
    found = refused("\n".join(lines))
    assert "has aliases that expand to too much text" in found[0].message
    assert time.process_time() - begun < 2


def test_an_alias_in_a_deep_place_does_not_pass_the_limit_of_depth() -> None:
    deep = "[" * 40 + "]" * 40
    assert "nested deeper" in refused(f"goal: &d {deep}\nmetadata: {'[' * 40}*d{']' * 40}")[0].message


TEXT = st.text(st.characters(min_codepoint=32, max_codepoint=0x1F600, exclude_categories=("C", "Z")), max_size=6)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=10,
)


@settings(max_examples=200, deadline=None)
@given(value=VALUES, indent=st.sampled_from([None, 2]))
def test_json_is_read_as_the_same_thing(value: object, indent: int | None) -> None:
    assert json.loads(yaml_as_json(json.dumps(value, indent=indent, ensure_ascii=False))) == value


@settings(max_examples=200, deadline=None)
@given(text=st.text("{}[]-:?&*!|>'\"%@`#, \n\tab01~<", max_size=40))
def test_any_text_is_a_plan_or_refused_with_reasons(text: str) -> None:
    assert refused(text)
