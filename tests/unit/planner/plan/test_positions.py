from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import cast

import pytest
from hypothesis import given, settings, strategies as st

from planner.plan.diagnostics import PlanInvalidError, Position
from planner.plan.loader import JSON, load_plan, read_plan_file
from planner.plan.positions import json_tokens, positions_in
from planner.plan.strict_json import JsonPath, shown_path

PLAN = """{
  "version": 1,
  "goal": "g",
  "steps": [
    {"id": "a", "title": "A", "mode": "code"},
    {
      "id": "b",
      "title": "B",
      "mode":
        "codee",
      "depends_on": ["a",
                     "nope"],
      "metadata \\u00e9": {}
    }
  ]
}
"""

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=12,
)


def test_each_problem_names_line_and_column_of_its_field(tmp_path: Path) -> None:
    file = tmp_path / "plan.json"
    file.write_text(PLAN, encoding="utf-8")
    with pytest.raises(PlanInvalidError) as caught:
        read_plan_file(file)
    assert {problem.path: problem.at for problem in caught.value.problems} == {
        "steps[1].mode": (9, 7),
        "steps[1].depends_on[1]": (12, 22),
        "steps[1]['metadata é']": (13, 7),
    }
    first, *others = str(caught.value).splitlines()
    assert first == f"{file}: 3 problems:"
    assert [line.partition(": ")[0] for line in others] == ["  9:7", "  12:22", "  13:7"]


def test_a_field_that_is_missing_is_placed_at_what_lacks_it(tmp_path: Path) -> None:
    file = tmp_path / "plan.json"
    file.write_text('{"version": 1, "goal": "g", "steps": [\n  {"id": "a", "mode": "code"}]}', encoding="utf-8")
    with pytest.raises(PlanInvalidError) as caught:
        read_plan_file(file)
    assert str(caught.value).startswith(f"{file}:2:3: steps[0].title: is required")


@pytest.mark.parametrize(
    ("text", "at"),
    [
        ('{\n  "version": 1,\n', (3, 1)),
        ('{"version": 1,\n "goal": "g",\n "goal": "h"}', (3, 2)),
        ('{"version": 1,\n "goal": "\\u0000"}', (2, 2)),
    ],
)
def test_text_that_is_no_plain_json_is_placed_too(text: str, at: tuple[int, int]) -> None:
    with pytest.raises(PlanInvalidError) as caught:
        load_plan(text, where="plan.json", form=JSON)
    assert [problem.at for problem in caught.value.problems] == [at]


def test_a_document_that_a_program_wrote_has_no_lines_to_name() -> None:
    with pytest.raises(PlanInvalidError) as caught:
        load_plan(PLAN, where="the plan")
    assert [problem.at for problem in caught.value.problems] == [None] * 3


def _paths(value: object, path: JsonPath = ()) -> list[tuple[JsonPath, object]]:
    below: list[tuple[JsonPath, object]] = [(path, value)]
    children: Iterable[tuple[str | int, object]] = ()
    if isinstance(value, dict):
        children = cast("dict[str | int, object]", value).items()
    elif isinstance(value, list):
        children = enumerate(cast("list[object]", value))
    for part, child in children:
        below += _paths(child, (*path, part))
    return below


@settings(max_examples=200, deadline=None)
@given(value=VALUES, indent=st.sampled_from([None, 0, 3]), ascii_only=st.booleans())
def test_every_part_of_any_document_is_found_where_it_is(
    value: object, indent: int | None, *, ascii_only: bool
) -> None:
    text = json.dumps(value, indent=indent, ensure_ascii=ascii_only)
    lines = text.split("\n")
    paths = _paths(value)
    found = positions_in(json_tokens(text), [shown_path(path) for path, _ in paths])
    for path, part in paths:
        line, column = found[shown_path(path)]
        key = path[-1] if path and isinstance(path[-1], str) else None
        written = json.dumps(part if key is None else key, ensure_ascii=ascii_only)[:1]
        assert lines[line - 1][column - 1 :].startswith(written)
        if key is not None:
            assert lines[line - 1][column - 1 :].startswith(json.dumps(key, ensure_ascii=ascii_only))


def test_a_position_is_told_as_line_and_column() -> None:
    assert str(Position(3, 14)) == "3:14"
