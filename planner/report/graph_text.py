"""A plan's graph as text: Mermaid for documents, DOT for Graphviz. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from planner.plan.model import Plan, StepStatus
from planner.plan.status import readable_title
from vibe.system.plain_text import plain_line, shortened

LONGEST_TITLE = 160
"""The most characters of a step's title."""

_MERMAID_CODES = str.maketrans({'"': "#quot;", "<": "#lt;", ">": "#gt;", "#": "#35;", "&": "#amp;", "`": "#96;"})
_DOT_CODES = str.maketrans({'"': '\\"', "\\": "\\\\"})

Statuses = Mapping[str, StepStatus]


def mermaid(plan: Plan, statuses: Statuses | None = None) -> str:
    """Return a Mermaid flowchart, top down; an edge that doesn't require success is labelled with what it requires."""
    names = {step.id: f"s{number}" for number, step in enumerate(plan.steps)}
    lines = ["flowchart TD"]
    for step in plan.steps:
        title = shortened(plain_line(readable_title(step.title)), LONGEST_TITLE)
        label = f"{step.id}: {title}".translate(_MERMAID_CODES)
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
    """Return a Graphviz digraph, top down; an edge that doesn't require success is labelled with what it requires."""
    lines = ["digraph plan {", "    rankdir=TB;", "    node [shape=box];"]
    for step in plan.steps:
        title = shortened(plain_line(readable_title(step.title)), LONGEST_TITLE).translate(_DOT_CODES)
        state = "" if statuses is None else f"\\n{statuses.get(step.id, StepStatus.PENDING)}"
        lines.append(f'    "{step.id}" [label="{step.id}\\n{title}{state}"];')
    for step in plan.steps:
        for edge in step.dependencies:
            on = "" if edge.on == "completed" else f' [label="{edge.on}"]'
            lines.append(f'    "{edge.step}" -> "{step.id}"{on};')
    return "\n".join([*lines, "}"])
