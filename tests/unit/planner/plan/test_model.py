from __future__ import annotations

from planner.plan.model import Dependency, Step
from vibe.core.modes import ExecutionMode


def test_a_copy_with_other_edges_has_those_and_stays_equal_to_a_step_made_so() -> None:
    step = Step(id="c", title="C", mode=ExecutionMode.RESEARCH, depends_on=["a"])
    fresh = Step(id="c", title="C", mode=ExecutionMode.RESEARCH, depends_on=["b"])
    assert step.dependencies == (Dependency(step="a"),)
    copy = step.model_copy(update={"depends_on": ["b"]})
    assert copy.dependencies == (Dependency(step="b"),)
    assert copy == fresh
    assert copy.model_dump() == fresh.model_dump()
