"""A plan's graph as text: a tree for terminals, Mermaid for documents, DOT for Graphviz; pure."""

from __future__ import annotations

from collections.abc import Mapping

from planner.plan.dag import Dag
from planner.plan.diagnostics import listed
from planner.plan.model import Plan, Step, StepStatus
from vibe.core.modes import MODE_CATALOG
from vibe.system.plain_text import shortened

DEEPEST_INDENT = 16
"""Steps further down are drawn at this depth: a chain of ten thousand must not be a triangle of text."""

LONGEST_TITLE = 160
MOST_NAMED = 12
"""The most steps a line of the tree names, beside the one it hangs below."""

_MERMAID_CODES = str.maketrans({'"': "#quot;", "<": "#lt;", ">": "#gt;", "#": "#35;", "&": "#amp;", "`": "#96;"})
_DOT_CODES = str.maketrans({'"': '\\"', "\\": "\\\\"})

Statuses = Mapping[str, StepStatus]


def tree(plan: Plan, dag: Dag, statuses: Statuses | None = None) -> str:
    """Each step once, below the deepest step it depends on; what else it comes after is named behind it."""
    steps = {step.id: step for step in plan.steps}
    parents = {
        step_id: max(needed, key=dag.depth.__getitem__) for step_id, needed in dag.dependencies.items() if needed
    }
    children: dict[str, list[str]] = {step_id: [] for step_id in steps}
    for step_id, parent in parents.items():
        children[parent].append(step_id)
    roots = [step_id for step_id in steps if step_id not in parents]
    stack = [(step_id, "", "") for step_id in reversed(roots)]
    lines: list[str] = []
    while stack:
        step_id, lead, indent = stack.pop()
        others = [other for other in dag.dependencies[step_id] if other != parents[step_id]]
        lines.append(lead + _line(steps[step_id], others, statuses))
        below = children[step_id]
        is_deep = len(indent) >= DEEPEST_INDENT * 3
        for child in reversed(below):
            is_last = child == below[-1]
            further = indent if is_deep else indent + ("   " if is_last else "│  ")
            stack.append((child, indent + ("└─ " if is_last else "├─ "), further))
    return "\n".join(lines)


def _line(step: Step, others: list[str], statuses: Statuses | None) -> str:
    line = f"{MODE_CATALOG[step.mode].icon} {step.id}  {shortened(step.title, LONGEST_TITLE)}"
    if others:
        line += f"  (also after {listed(others, MOST_NAMED)})"
    return line if statuses is None else f"{line}  [{statuses.get(step.id, StepStatus.PENDING)}]"


def mermaid(plan: Plan, statuses: Statuses | None = None) -> str:
    """A Mermaid flowchart, top down; an edge says on which end of its step it waits, if not on its success."""
    names = {step.id: f"s{number}" for number, step in enumerate(plan.steps)}
    lines = ["flowchart TD"]
    for step in plan.steps:
        label = f"{step.id}: {shortened(step.title, LONGEST_TITLE)}".translate(_MERMAID_CODES)
        kind = "" if statuses is None else f":::{statuses.get(step.id, StepStatus.PENDING)}"
        lines.append(f'    {names[step.id]}["{label}"]{kind}')
    for step in plan.steps:
        for edge in step.dependencies:
            on = "" if edge.on == "completed" else f"|{edge.on}|"
            lines.append(f"    {names[edge.step]} -->{on} {names[step.id]}")
    if statuses is not None:
        lines.append("    classDef completed fill:#dff5e1,stroke:#2e7d32,color:#1b1b1b")
        lines.append("    classDef failed fill:#fde0e0,stroke:#c62828,color:#1b1b1b")
        lines.append("    classDef in_progress fill:#e0ecfd,stroke:#1565c0,color:#1b1b1b")
    return "\n".join(lines)


def dot(plan: Plan, statuses: Statuses | None = None) -> str:
    """A Graphviz digraph, top down; an edge says on which end of its step it waits, if not on its success."""
    lines = ["digraph plan {", "    rankdir=TB;", "    node [shape=box];"]
    for step in plan.steps:
        title = shortened(step.title, LONGEST_TITLE).translate(_DOT_CODES)
        state = "" if statuses is None else f"\\n{statuses.get(step.id, StepStatus.PENDING)}"
        lines.append(f'    "{step.id}" [label="{step.id}\\n{title}{state}"];')
    for step in plan.steps:
        for edge in step.dependencies:
            on = "" if edge.on == "completed" else f' [label="{edge.on}"]'
            lines.append(f'    "{edge.step}" -> "{step.id}"{on};')
    return "\n".join([*lines, "}"])
