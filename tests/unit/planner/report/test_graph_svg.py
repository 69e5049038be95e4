"""A plan as an SVG drawing, and the places of its steps in it."""

from __future__ import annotations

import re
import time
from itertools import pairwise
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given, settings, strategies as st

from planner.plan.dag import Dag
from planner.plan.diagnostics import TooLargeToDrawError
from planner.plan.model import Plan, StepStatus
from planner.report.graph_svg import MAX_DRAWN, GraphLayout, Shown, lay_out, svg
from tests.unit.planner.scripted_run import make_plan, step

SVG = "{http://www.w3.org/2000/svg}"


def drawn(plan: Plan, shown: Shown | None = None) -> ET.Element:
    return ET.fromstring(svg(plan, Dag.build(plan.steps), shown))  # noqa: S314  our own drawing


def texts(root: ET.Element) -> list[str]:
    return ["".join(element.itertext()) for element in root.iter(f"{SVG}text")]


def overlaps(layout: GraphLayout) -> list[tuple[str, str]]:
    """Return pairs of neighbours in a row that touch each other."""
    rows: dict[int, list[tuple[float, str]]] = {}
    for step_id, (middle, row) in layout.centres.items():
        rows.setdefault(row, []).append((middle, step_id))
    return [
        (one, other)
        for row in rows.values()
        for (left, one), (right, other) in pairwise(sorted(row))
        if right - left < 1 - 1e-6
    ]


@st.composite
def graphs(draw: st.DrawFn) -> Dag:
    size = draw(st.integers(1, 40))
    steps = [
        step(f"s{n}", *(f"s{d}" for d in draw(st.sets(st.integers(0, n - 1), max_size=3)))) if n else step("s0")
        for n in range(size)
    ]
    return Dag.build(make_plan(steps).steps)


@settings(max_examples=60, deadline=None)
@given(graphs())
def test_steps_never_overlap_and_every_edge_goes_down(dag: Dag) -> None:
    layout = lay_out(dag)

    assert set(layout.centres) == set(dag.dependencies)
    assert overlaps(layout) == []
    for step_id, needed in dag.dependencies.items():
        for above in needed:
            stations = [layout.centres[above], *layout.routes[above, step_id], layout.centres[step_id]]
            assert [row for _, row in stations] == list(range(stations[0][1], stations[-1][1] + 1))
    assert all(0.5 - 1e-6 <= middle <= layout.width - 0.5 + 1e-6 for middle, _ in layout.centres.values())


def test_lines_that_need_not_cross_do_not() -> None:
    plan = make_plan([step("a"), step("b"), step("c", "b"), step("d", "a"), step("e", "d"), step("f", "c")])
    at = lay_out(Dag.build(plan.steps)).centres

    assert (at["a"][0] < at["b"][0]) == (at["d"][0] < at["c"][0]) == (at["e"][0] < at["f"][0])


def test_a_chain_is_drawn_straight_down() -> None:
    plan = make_plan([step("s0"), *(step(f"s{n}", f"s{n - 1}") for n in range(1, 20))])
    layout = lay_out(Dag.build(plan.steps))

    assert {middle for middle, _ in layout.centres.values()} == {0.5}
    assert layout.rows == 20


def test_a_wide_fan_is_broken_into_rows() -> None:
    plan = make_plan([step("root"), *(step(f"s{n}", "root") for n in range(60))])

    assert lay_out(Dag.build(plan.steps)).width < 30


def test_what_a_plan_says_is_text_in_the_drawing_and_nothing_else() -> None:
    hostile = '</text><script>alert(1)</script> \u202e\x1b[31m\x07"'
    plan = make_plan([step("a", title=hostile), step("b", "a", title="界" * 60)])
    root = drawn(plan)

    assert root.findall(f".//{SVG}script") == []
    assert not re.search(r"[\x00-\x08\x0b-\x1f\u202e]", svg(plan, Dag.build(plan.steps)))
    assert any(text.startswith("</text><script>") for text in texts(root))
    assert ("界" * 12 + "…") in texts(root)


def test_the_drawing_loads_nothing_and_runs_nothing() -> None:
    plan = make_plan([step("a"), step("b", "a")])
    text = svg(plan, Dag.build(plan.steps))

    assert set(re.findall(r"(?:https?|//)[^\s\"')]*", text)) == {"http://www.w3.org/2000/svg"}
    assert not re.search(r"<(script|image|foreignObject|use)|\bon[a-z]+=|@import", text)


def test_each_step_is_coloured_by_how_it_stands() -> None:
    plan = make_plan([step("a"), step("b", "a"), step("c", "b")])
    shown = Shown(statuses={"a": StepStatus.COMPLETED, "b": StepStatus.FAILED}, reused={"a"})
    root = drawn(plan, shown)

    classes = [element.get("class") for element in root.iter(f"{SVG}svg")]
    assert classes == ["vibe-graph", "is-completed is-reused", "is-failed", "is-pending"]
    assert texts(root)[-1] == "· 1 pending   ✓ 1 completed   ✗ 1 failed   ↺ 1 of them reused"


def test_edges_say_on_which_end_they_wait() -> None:
    plan = make_plan([step("a"), step("b", {"step": "a", "on": "failed"}), step("c", "a")])

    edges = [element.get("class") for element in drawn(plan).iter(f"{SVG}path") if element.get("d", "").startswith("M")]
    assert sorted(filter(None, edges)) == ["edge on-completed", "edge on-failed", "head"]


def test_a_plan_too_large_to_be_read_is_refused_in_one_sentence() -> None:
    plan = make_plan([step(f"s{n}") for n in range(MAX_DRAWN + 1)])

    with pytest.raises(TooLargeToDrawError, match="2,001 steps; a drawing shows at most 2,000: use format tree"):
        svg(plan, Dag.build(plan.steps))


def test_the_largest_drawing_takes_seconds_at_most() -> None:
    steps = [step(f"s{n}", *({f"s{n * 7 // 11}", f"s{n // 2}", f"s{n - 1}"} if n else ())) for n in range(MAX_DRAWN)]
    dag = Dag.build(make_plan(steps).steps)
    began = time.process_time()
    layout = lay_out(dag)

    assert time.process_time() - began < 10
    assert overlaps(layout) == []
