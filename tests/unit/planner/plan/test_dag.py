"""The graph: order, paths, levels and cycles."""

from __future__ import annotations

import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st

from planner.plan.dag import Dag, find_cycles, shown_cycle
from planner.plan.diagnostics import GraphError
from tests.unit.planner.scripted_run import make_plan, step


def dag_of(edges: dict[str, list[str]]) -> Dag:
    return Dag.build(make_plan([step(step_id, *needs) for step_id, needs in edges.items()]).steps)


def test_a_diamond() -> None:
    dag = dag_of({"d": ["b", "c"], "b": ["a"], "c": ["a"], "a": [], "x": []})
    assert dag.order.index("a") < dag.order.index("b") < dag.order.index("d")
    assert dag.dependencies["d"] == ("b", "c")
    assert dag.dependants["a"] == ("b", "c")
    assert dag.remaining == {"a": 3, "b": 2, "c": 2, "d": 1, "x": 1}
    assert dag.critical_path() == ("a", "b", "d")
    assert dag.levels() == (("a", "x"), ("b", "c"), ("d",))


def test_a_dependency_given_twice_counts_once() -> None:
    plan = make_plan([step("a"), step("b", "a", {"step": "a", "on": "finished"})])
    assert Dag.build(plan.steps).dependencies["b"] == ("a",)


@settings(max_examples=50, deadline=None)
@given(st.lists(st.lists(st.integers(0, 30), max_size=4), min_size=1, max_size=30))
def test_any_graph_is_ordered_with_its_paths(raw: list[list[int]]) -> None:
    edges = {f"s{n}": sorted({f"s{m % n}" for m in needs}) if n else [] for n, needs in enumerate(raw)}
    dag = dag_of(edges)
    position = {step_id: number for number, step_id in enumerate(dag.order)}
    assert len(position) == len(edges)
    for step_id, needs in edges.items():
        assert all(position[other] < position[step_id] for other in needs)
        assert dag.depth[step_id] == max((dag.depth[other] + 1 for other in needs), default=0)
        assert all(dag.remaining[other] > dag.remaining[step_id] for other in needs)
    path = dag.critical_path()
    assert len(path) == max(dag.remaining.values()) == len(dag.levels())
    assert all(before in edges[step_id] for before, step_id in pairwise(path))


@pytest.mark.parametrize(
    ("edges", "says"),
    [
        ({"a": ["b"], "b": ["c"], "c": ["a"]}, "a -> b -> c -> a"),
        ({"a": ["gone"]}, "'gone', which is not a step"),
    ],
)
def test_what_is_no_dag_is_refused(edges: dict[str, list[str]], says: str) -> None:
    with pytest.raises(GraphError, match=says):
        dag_of(edges)


def test_two_steps_of_one_id_are_refused() -> None:
    with pytest.raises(GraphError, match="same id"):
        Dag.build(make_plan([step("a"), step("a")]).steps)


def test_every_knot_shows_one_cycle_each_step_depending_on_the_next() -> None:
    edges = {"x": [], "a": ["c", "x"], "b": ["a"], "c": ["b"], "q": ["p"], "p": ["q", "a"], "self": ["self"]}
    assert find_cycles(edges) == [("a", "c", "b"), ("q", "p")]
    assert find_cycles({"a": [], "b": ["a"]}) == []


def test_a_long_cycle_is_shown_without_its_middle() -> None:
    shown = shown_cycle([f"s{n}" for n in range(100)])
    assert shown.startswith("s0 -> s1 ->")
    assert "... 88 more ..." in shown
    assert shown.endswith("s99 -> s0")


def test_loading_a_plan_does_not_import_networkx() -> None:
    code = (
        "import sys; from planner.plan.loader import load_plan;"
        'load_plan(\'{"version": 1, "goal": "g", "steps": [{"id": "a", "title": "t", "mode": "code"}]}\', where="x");'
        "sys.exit('networkx' in sys.modules)"
    )
    root = Path(__file__).parents[4]
    done = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True, cwd=root)
    assert done.returncode == 0, done.stderr
