"""The drawing: each step has one place, and many steps are folded."""

from __future__ import annotations

from random import Random

from vibe.dashboard.drawing import MOST_BOXES, boxes_of, layout_row


def members(row: dict[str, list[object]]) -> list[object]:
    return [one for box, place in row.items() for one in (place[4] if len(place) > 4 else [box])]  # type: ignore[attr-defined]


def test_a_small_plan_has_a_box_a_step_and_its_lines() -> None:
    row = layout_row({"a": (), "b": ("a",), "c": ("a", "b")})
    assert list(row["boxes"]) == ["a", "b", "c"]
    assert [edge[:2] for edge in row["edges"]] == [["a", "b"], ["a", "c"], ["b", "c"]]
    assert all(edge[2].startswith("M") for edge in row["edges"])
    for x, y, width, height in row["boxes"].values():
        assert 0 <= x <= row["width"] - width
        assert 0 <= y <= row["height"] - height


def test_steps_with_the_same_before_and_after_are_one_box() -> None:
    many = [f"m{number}" for number in range(100)]
    row = layout_row({"first": (), **dict.fromkeys(many, ("first",)), "last": tuple(many)})
    assert list(row["boxes"]) == ["first", "m0", "last"]
    assert row["boxes"]["m0"][4] == many
    assert [edge[:2] for edge in row["edges"]] == [["first", "m0"], ["m0", "last"]]


def test_thousands_of_steps_that_all_differ_are_folded_by_layers() -> None:
    random = Random(1)
    ids = [f"s{number}" for number in range(3_000)]
    parents = {one: tuple(random.sample(ids[:at], min(at, random.randrange(3)))) for at, one in enumerate(ids)}
    groups = boxes_of(parents)
    assert len(groups) <= MOST_BOXES
    row = layout_row(parents)
    assert sorted(map(str, members(row["boxes"]))) == sorted(ids)


def test_what_is_no_graph_has_no_places() -> None:
    assert layout_row({"a": ("b",), "b": ("a",)})["boxes"] == {}
    assert layout_row({})["boxes"] == {}
    assert list(layout_row({"a": ("gone",)})["boxes"]) == ["a"]
