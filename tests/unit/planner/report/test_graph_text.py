"""A plan as a tree, as Mermaid and as DOT."""

from __future__ import annotations

from planner.plan.dag import Dag
from planner.plan.model import Plan, StepStatus
from planner.report.graph_text import dot, mermaid, tree
from tests.unit.planner.scripted_run import make_plan, step


def diamond() -> Plan:
    return make_plan([
        step("a", title="Survey"),
        step("b", "a", title='Say "hi" <now> #1', mode="code"),
        step("c", "a"),
        step("d", "b", {"step": "c", "on": "finished"}),
        step("x", mode="run", command="make"),
    ])


def test_the_tree_shows_each_step_once_and_names_the_other_dependencies() -> None:
    plan = diamond()
    assert tree(plan, Dag.build(plan.steps)).splitlines() == [
        "⌕ a  Survey",
        '├─ ◆ b  Say "hi" <now> #1',
        "│  └─ ⌕ d  d  (also after c)",
        "└─ ⌕ c  c",
        "▶ x  x",
    ]


def test_the_tree_shows_where_each_step_stands() -> None:
    plan = make_plan([step("a"), step("b", "a")])
    statuses = {"a": StepStatus.COMPLETED, "b": StepStatus.IN_PROGRESS}
    assert tree(plan, Dag.build(plan.steps), statuses).splitlines() == [
        "⌕ a  a  [completed]",
        "└─ ⌕ b  b  [in_progress]",
    ]


def test_a_long_chain_stays_narrow() -> None:
    plan = make_plan([step(f"s{n}", *([f"s{n - 1}"] if n else [])) for n in range(3_000)])
    lines = tree(plan, Dag.build(plan.steps)).splitlines()
    assert len(lines) == 3_000
    assert max(map(len, lines)) < 80


def test_mermaid_quotes_titles_and_labels_edges() -> None:
    assert mermaid(diamond()).splitlines() == [
        "flowchart TD",
        '    s0["a: Survey"]',
        '    s1["b: Say #quot;hi#quot; #lt;now#gt; #35;1"]',
        '    s2["c: c"]',
        '    s3["d: d"]',
        '    s4["x: x"]',
        "    s0 --> s1",
        "    s0 --> s2",
        "    s1 --> s3",
        "    s2 -->|finished| s3",
    ]


def test_mermaid_marks_steps_with_their_status() -> None:
    text = mermaid(make_plan([step("a")]), {"a": StepStatus.FAILED})
    assert 's0["a: a"]:::failed' in text
    assert "classDef failed" in text


def test_dot_quotes_titles_and_labels_edges() -> None:
    text = dot(diamond(), dict.fromkeys("abcdx", StepStatus.PENDING))
    assert r'    "b" [label="b\nSay \"hi\" <now> #1\npending"];' in text
    assert '    "c" -> "d" [label="finished"];' in text
    assert text.startswith("digraph plan {")
    assert text.endswith("\n}")


def test_no_title_and_no_join_makes_a_line_endless() -> None:
    roots = [step(f"r{n}", title="long " * 500) for n in range(300)]
    plan = make_plan([*roots, step("join", *(f"r{n}" for n in range(300)))])
    loaded = Dag.build(plan.steps)
    for text in (tree(plan, loaded), mermaid(plan), dot(plan)):
        assert max(map(len, text.splitlines())) < 300
    assert "and 287 more)" in tree(plan, loaded)
