"""Content keys: what a step's result hangs on, as a digest; equal keys mean that the result would stand; pure.

A key covers the step's definition (with ``defaults`` written in, and the goal and context that its agent is told), the
keys of what it depends on, how the decisions it names fell, and the commit the plan began at. What only says how long
or how hard a step may try (``LIMITS``) is no part of it: a completed step has stayed within them.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from planner.plan.dag import Dag
from planner.plan.model import Plan, Step
from subagents.step_model import LIMITS

_EDGES = "depends_on"


@dataclass(frozen=True, kw_only=True)
class KeyedPlan:
    """A plan and what its results depend on besides: ``decisions`` taken, and the base commit (None: not known)."""

    plan: Plan
    dag: Dag
    decisions: Mapping[str, tuple[str, ...]]
    base_commit: str | None

    @cached_property
    def steps(self) -> Mapping[str, Step]:
        """The steps by id."""
        return {step.id: step for step in self.plan.steps}

    @cached_property
    def works(self) -> Mapping[str, str]:
        """Of each step a digest of everything but the commit."""
        works: dict[str, str] = {}
        for step_id in self.dag.order:
            step = self.steps[step_id]
            works[step_id] = _digest({
                "definition": self.definition(step_id),
                "dependencies": {edge.step: works[edge.step] for edge in step.dependencies},
                "decisions": self.reached(step_id),
            })
        return works

    @cached_property
    def keys(self) -> Mapping[str, str]:
        """The content key of each step."""
        return {step_id: _digest([work, self.base_commit]) for step_id, work in self.works.items()}

    def definition(self, step_id: str) -> dict[str, Any]:
        """Return the step as JSON: its fields but for LIMITS, and the plan's goal and context if an agent does it."""
        step = self.steps[step_id]
        fields = step.model_dump(mode="json", exclude={*LIMITS, _EDGES})
        fields[_EDGES] = sorted([edge.step, edge.on] for edge in step.dependencies)
        if step.command is None:
            fields |= {"goal": self.plan.goal, "context": self.plan.context}
        return fields

    def limits(self, step_id: str) -> dict[str, Any]:
        """The step's fields that its key leaves out."""
        return self.steps[step_id].model_dump(mode="json", include={*LIMITS})

    def reached(self, step_id: str) -> dict[str, list[str] | None]:
        """Return how the decisions fell that the step names (None: not taken)."""
        step = self.steps[step_id]
        named = {*(step.when or ()), *([step.decision] if step.decision else [])}
        return {name: sorted(self.decisions[name]) if name in self.decisions else None for name in sorted(named)}


def _digest(value: object) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True, separators=(",", ":")).encode()).hexdigest()
