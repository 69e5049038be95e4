"""What a revision does to the steps that are watched: plain operations in, changed StepViews out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from vibe.cli.render.step_view import StepView

Operation = Mapping[str, Any]


def revise_views(steps: dict[str, StepView], operations: Sequence[Operation]) -> None:
    """Carry out the operations of a PlanRevisedEvent; what a later version means by others is passed over."""
    for operation in operations:
        step = steps.get(str(operation.get("id" if operation.get("op") == "update_step" else "step", "")))
        match operation:
            case {"op": "add_step", "step": {"id": str(step_id), **fields}}:
                steps[step_id] = _added(step_id, cast("Mapping[str, Any]", fields))
            case {"op": "remove_step", "id": str(step_id)}:
                steps.pop(step_id, None)
            case {"op": "update_step", "changes": {**changes}} if step is not None:
                step.title = str(changes.get("title", step.title))
                step.mode = str(changes.get("mode", step.mode))
            case {"op": "add_edge", "depends_on": edge} if step is not None:
                step.depends_on = (*step.depends_on, _above(edge))
            case {"op": "remove_edge", "depends_on": str(above)} if step is not None:
                step.depends_on = tuple(each for each in step.depends_on if each != above)
            case _:
                pass


def revision_text(operations: Sequence[Operation], reason: str) -> str:
    """A revision in a line: why, and which steps it is about."""
    verbs = {"add_step": "added", "remove_step": "removed", "update_step": "changed"}
    said: dict[str, dict[str, None]] = {}
    for operation in operations:
        verb = verbs.get(str(operation.get("op")), "reordered")
        step = operation.get("step")
        named = cast("Mapping[str, Any]", step).get("id") if isinstance(step, Mapping) else operation.get("id", step)
        said.setdefault(verb, {})[str(named)] = None
    parts = [f"{verb} {', '.join(names)}" for verb, names in said.items()]
    return f"the plan was revised{f' ({reason})' if reason else ''}: {'; '.join(parts)}"


def _added(step_id: str, fields: Mapping[str, Any]) -> StepView:
    edges = cast("Sequence[object]", fields.get("depends_on") or ())
    return StepView(
        id=step_id,
        title=str(fields.get("title", step_id)),
        mode=str(fields.get("mode", "")),
        depends_on=tuple(_above(edge) for edge in edges),
        status="pending",
        level=0,
    )


def _above(edge: object) -> str:
    return str(cast("Mapping[str, Any]", edge).get("step", "")) if isinstance(edge, Mapping) else str(edge)
