"""A plan as Mermaid and as DOT."""

from __future__ import annotations

from planner.plan.model import Plan, StepStatus
from planner.report.graph_text import dot, mermaid
from tests.unit.planner.scripted_run import make_plan, step


def diamond() -> Plan:
    return make_plan([
        step("a", title="Survey"),
        step("b", "a", title='Say "hi" <now> #1', mode="code"),
        step("c", "a"),
        step("d", "b", {"step": "c", "on": "finished"}),
        step("x", mode="run", command="make"),
    ])


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


def test_a_list_is_named_for_each_of_its_items() -> None:
    plan = make_plan([step("a", title="Fix ${item.path}", for_each=["x.py"])])

    assert '"a: Fix each path"' in mermaid(plan)
    assert '"a\\nFix each path"' in dot(plan)


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
    for text in (mermaid(plan), dot(plan)):
        assert max(map(len, text.splitlines())) < 300
