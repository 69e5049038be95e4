"""The shape of a plan: every step once, every edge traceable, and never wider than asked for."""

from __future__ import annotations

import random
from collections.abc import Sequence
from time import process_time

import pytest
from hypothesis import given, settings, strategies as st

from ipc.events import StepOutline, WorkOrder
from planner.plan.model import StepStatus
from planner.state.schedule import outline_of
from planner.state.state import StepState
from tests.unit.planner.scripted_run import make_plan, step as planned
from vibe.front.cells import cells_of, text_of
from vibe.front.plan_graph import MANY, GraphLook, Shape, columns, doing, grouped, plan_text, rails, shape, sign

UP, RIGHT, DOWN, LEFT = 8, 4, 2, 1
SIDES = {"─": 5, "│": 10, "╭": 6, "╮": 3, "╰": 12, "╯": 9, "├": 14, "┤": 11, "┬": 7, "┴": 13, "┼": 15, "▸": 5}
WAYS = {UP: (-1, 0, DOWN), RIGHT: (0, 1, LEFT), DOWN: (1, 0, UP), LEFT: (0, -1, RIGHT)}


def step(step_id: str, *above: str, mode: str = "code", **order: object) -> StepOutline:
    return StepOutline(
        id=step_id,
        title=f"Do {step_id}",
        mode=mode,
        depends_on=above,
        order=WorkOrder(**order),  # pyright: ignore[reportArgumentType]
    )


SHOP = (
    step("survey", mode="research"),
    step("totals", "survey", writes=("shop/cart.py",)),
    step("receipt", "survey", writes=("shop/report.py",)),
    step("export", "survey", decision="format"),
    step("check", "totals", "receipt", "export", mode="test", command="make test"),
    step("docs", "check", writes=("README.md",)),
)
LOOK = GraphLook(chosen="totals", questions={"format": "CSV or JSON?"})


@st.composite
def plans(draw: st.DrawFn, most: int = 30) -> list[StepOutline]:
    """Draw steps of any shape, each after some of those drawn before it, in any order."""
    count = draw(st.integers(1, most))
    names = [f"{'x' * draw(st.integers(0, 9))}{number}" for number in range(count)]
    found: list[StepOutline] = []
    for number, name in enumerate(names):
        above = draw(st.sets(st.sampled_from(names[:number]), max_size=3)) if number else set[str]()
        found.append(step(name, *sorted(above), writes=("a.py",)))
    return draw(st.permutations(found)) if draw(st.booleans()) else found


def text(drawn: Shape) -> list[str]:
    return [text_of(line) for line in drawn.lines]


def reached(
    rows: Sequence[str], start: tuple[int, int], ways: Sequence[int], *, signs: bool = False
) -> set[tuple[int, int]]:
    """Return the cells that lines reach from ``start`` in these directions. With ``signs``, steps end lines too."""

    def sides(row: int, cell: int) -> int:
        char = rows[row][cell] if 0 <= row < len(rows) and 0 <= cell < len(rows[row]) else " "
        return 15 if signs and char == "◆" else SIDES.get(char, 0)

    found, ahead = {start}, [start]
    while ahead:
        row, cell = ahead.pop()
        if (row, cell) != start and sides(row, cell) == 15 and rows[row][cell] == "◆":
            continue
        for way in ways:
            down, right, back = WAYS[way]
            there = (row + down, cell + right)
            if sides(row, cell) & way and sides(*there) & back and there not in found:
                found.add(there)
                ahead.append(there)
    return found


@settings(deadline=None)
@given(plans(), st.integers(20, 200))
def test_columns_show_each_step_once_and_each_edge_whole(steps: list[StepOutline], width: int) -> None:
    drawn = columns(steps, width)
    if drawn is None:
        return
    rows = text(drawn)

    assert {cells_of(line) for line in drawn.lines} == {width}
    assert sorted(drawn.places) == sorted(each.id for each in steps)
    assert "\n".join(rows).count("◆") == len(steps)
    for each in steps:
        place = drawn.places[each.id]
        assert rows[place.row][place.first :].startswith(f"◆ {each.id}")
        for above in each.depends_on:
            source = drawn.places[above]
            start = (source.row, source.first + 3 + len(above))
            assert (place.row, place.first - 2) in reached(rows, start, (UP, RIGHT, DOWN))


@settings(deadline=None)
@given(plans(), st.integers(20, 200))
def test_rails_show_each_step_once_and_each_edge_whole(steps: list[StepOutline], width: int) -> None:
    drawn = rails(steps, width)
    rows = text(drawn)

    assert {cells_of(line) for line in drawn.lines} == {width}
    assert sorted(drawn.places) == sorted(each.id for each in steps)
    assert "\n".join(rows).count("◆") == len(steps)
    at = {name: (place.row, rows[place.row].index("◆")) for name, place in drawn.places.items()}
    if len(rows) == len(steps) and any("after" in row for row in rows):  # there were too many rails
        return
    for each in steps:
        for above in each.depends_on:
            assert at[each.id] in reached(rows, at[above], (RIGHT, DOWN, LEFT), signs=True)


@settings(deadline=None)
@given(plans(90), st.integers(20, 200), st.integers(1, 60))
def test_any_plan_has_a_shape_of_exactly_the_width(steps: list[StepOutline], width: int, rows: int) -> None:
    drawn = shape(steps, width, rows)

    assert {cells_of(line) for line in drawn.lines} == {width}
    assert (len(drawn.places) == len(steps)) == (len(steps) <= MANY or len(drawn.lines) == len(steps))


def test_columns_stand_side_by_side_with_one_lane_for_a_set_of_targets() -> None:
    drawn = columns(SHOP, 80, LOOK)
    assert drawn is not None
    assert text(drawn) == [
        "            ╭▸ ◆ totals ──────────────╮",
        "            │    edits shop/cart.py   │",
        "            │                         │",
        "◇ survey ───┼▸ ◆ receipt ─────────────┼▸ ◉ check ─────────▸ ◆ docs",
        "  read only │    edits shop/report.py │    runs make test     edits README.md",
        "            │                         │",
        "            ╰▸ ? export ──────────────╯",
        "                 asks: CSV or JSON?",
    ]


def test_rails_stand_beside_a_row_a_step() -> None:
    assert text(rails(SHOP, 76, LOOK)) == [
        "◇      survey   Do survey                                          read only",
        "├─┬─╮",
        "◆ │ │  totals   Do totals                                 edits shop/cart.py",
        "│ ◆ │  receipt  Do receipt                              edits shop/report.py",
        "│ │ ?  export   Do export                                 asks: CSV or JSON?",
        "├─┴─╯",
        "◉      check    Do check                                      runs make test",
        "◆      docs     Do docs                                      edits README.md",
    ]


def test_a_long_edge_passes_through_free_rows() -> None:
    steps = (step("a"), step("b", "a"), step("c", "a", "b"))
    drawn = columns(steps, 80)
    assert drawn is not None
    assert text(drawn) == [
        "                 ╭▸ ◆ b ─────────────╮",
        "◆ a ─────────────┤    edits any file ├▸ ◆ c",
        "  edits any file │                   │    edits any file",
        "                 ╰───────────────────╯",
    ]


def test_lines_that_lead_elsewhere_never_share_a_row() -> None:
    steps = (step("a"), step("b"), step("x", "a"), step("y", "a", "b"), step("z", "b"))
    drawn = columns(steps, 80)
    assert drawn is not None
    rows = text(drawn)
    z = drawn.places["z"]
    a = drawn.places["a"]
    assert (z.row, z.first - 2) not in reached(rows, (a.row, a.first + 4), (RIGHT,))


@pytest.mark.parametrize(
    ("steps", "width"),
    [
        (SHOP, 50),
        ([step(f"s{number}", *([f"s{number - 1}"] if number else [])) for number in range(13)], 300),
        ([step(f"a{n}") for n in range(5)] + [step(f"b{n}", f"a{n}", f"a{(n + 2) % 5}") for n in range(5)], 300),
    ],
)
def test_what_would_not_fit_in_columns_has_rails(steps: Sequence[StepOutline], width: int) -> None:
    assert columns(steps, width) is None
    assert text(shape(steps, width, 99)) == text(rails(steps, width))


def test_a_shape_higher_than_the_room_has_rails() -> None:
    assert len(shape(SHOP, 118, 8).places) == 6
    assert text(shape(SHOP, 118, 7)) == text(rails(SHOP, 118))


def test_more_rails_than_there_is_room_for_are_told_in_words() -> None:
    steps = [step("a"), *(step(f"b{number}", "a") for number in range(9)), step("c", "b1", "b2")]
    told = text(rails(steps, 40))

    assert told[1].split() == ["◆", "b0", "Do", "b0", "after", "a"]
    assert told[-1].endswith("after b1, b2")


def test_steps_that_come_after_nothing_never_look_like_a_chain() -> None:
    assert [row.index("◆") for row in text(rails([step("a"), step("b"), step("c")], 60))] == [0, 2, 0]


def test_over_forty_steps_have_a_row_for_each_group() -> None:
    tagged = [step(f"m{number}", tags=("models",)) for number in range(48)]
    rest = [step(f"c{number}", "m1") for number in range(3)]

    drawn = shape([*tagged, *rest], 80, 99)

    assert list(drawn.places) == ["models", "level 2"]
    assert [row.split() for row in text(drawn)] == [
        ["models", "■" * 48, "48", "steps"],
        ["level", "2", "■" * 3, "3", "steps"],
    ]
    assert text(grouped([*tagged, *rest], 40))[0].count("■") == 16


@pytest.mark.parametrize(
    ("given_step", "mark", "told"),
    [
        (step("a", mode="design"), "◇", "read only"),
        (step("a", writes=()), "◇", "read only"),
        (step("a"), "◆", "edits any file"),
        (step("a", writes=("x.py", "y.py")), "◆", "edits x.py, y.py"),
        (step("a", mode="run"), "◆", "runs commands"),
        (step("a", mode="run", command="make\x1b[2J all"), "◉", "runs make\\x1b[2J all"),
        (step("a", mode="test", writes=("t.py",)), "◉", "edits t.py"),
        (step("a", decision="format"), "?", "asks: CSV or JSON?"),
        (step("a", decision="other"), "?", "asks: other"),
        (step("a", writes=("x.py",), side_effects=True), "◆", "acts outside this folder"),
        (StepOutline(id="a", title="", mode="elsewhere"), "◆", "edits any file"),
    ],
)
def test_a_step_has_a_sign_and_says_what_it_does(given_step: StepOutline, mark: str, told: str) -> None:
    assert sign(given_step)[0] == mark
    assert doing(given_step, LOOK.questions)[0] == told


def test_changed_steps_are_marked_in_both_shapes() -> None:
    look = GraphLook(marks={"totals": "~", "docs": "+"})
    for drawn in (columns(SHOP, 118, look), rails(SHOP, 80, look)):
        assert drawn is not None
        seen = "\n".join(text(drawn))
        assert "◆ totals ~" in seen or "totals ~" in seen
        assert "docs +" in seen


def test_columns_of_thirty_steps_take_no_time() -> None:
    chance = random.Random(7)
    steps = [step(f"step-{n}", *{f"step-{chance.randrange(n)}" for _ in range(2)} if n else ()) for n in range(30)]
    chains = [step(f"s{n}", *([f"s{n - 3}"] if n >= 3 else [])) for n in range(30)]

    def took(plan: Sequence[StepOutline]) -> float:
        begun = process_time()
        shape(plan, 200, 99)
        return process_time() - begun

    assert columns(chains, 400) is not None
    assert min(took(steps) for _ in range(5)) < 0.01
    assert min(took(chains) for _ in range(5)) < 0.01


def test_steps_that_wait_for_each_other_are_drawn_as_rows() -> None:
    steps = [StepOutline(id=one, title=one, mode="code", depends_on=(other,)) for one, other in ("ab", "ba")]
    assert columns(steps, 80) is None
    assert set(shape(steps, 80, 20).places) == {"a", "b"}


def test_as_text_a_plan_says_how_each_step_stands() -> None:
    plan = make_plan([
        planned("survey", mode="research"),
        planned("left", "survey", mode="code", writes=["a.py"]),
        planned("right", "survey", mode="code"),
        planned("check", "left", "right", mode="run", command="make"),
    ])
    survey = StepState(outline=outline_of(plan.steps[0]), status=StepStatus.COMPLETED)

    assert [" ".join(row.split()) for row in plan_text(plan, {"survey": survey}).splitlines()] == [
        "◇ survey ✓ survey read only",
        "├─╮",
        "◆ │ left left edits a.py",
        "│ ◆ right right edits any file",
        "├─╯",
        "◉ check check runs make",
    ]
