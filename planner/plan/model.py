"""The plan as data: Plan and Decision; the steps come from below, the statuses from beside."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from planner.plan.status import PlanStatus, StepStatus
from subagents.step_model import (
    MAX_NUMBER,
    Dependency,
    NonBlank,
    PlanModel,
    PositiveInt,
    PositiveNumber,
    Slug,
    Step,
    StepSettings,
)

__all__ = [
    "Decision",
    "Dependency",
    "Option",
    "Plan",
    "PlanBudget",
    "PlanModel",
    "PlanStatus",
    "Sample",
    "Slug",
    "Step",
    "StepSettings",
    "StepStatus",
]

MAX_STEPS = 10_000
FORMAT_VERSION = 1


class Option(PlanModel):
    """One way a decision can fall."""

    id: Slug
    """Unique in its decision."""
    label: NonBlank
    """The words a person reads."""
    description: str = ""
    """More about it."""


class Decision(PlanModel):
    """A choice a person (or a flag) must make. ``timeout_seconds`` 0: wait for ever."""

    id: Slug
    """Unique among the decisions."""
    question: NonBlank
    """The question, as a person reads it."""
    options: Annotated[list[Option], Field(min_length=2, max_length=8)]
    """The answers to choose from."""
    multi_select: bool = False
    """Several may be chosen."""
    default: list[Slug] | Slug | None = None
    """The option, or options, taken without an answer in time."""
    timeout_seconds: Annotated[float, Field(ge=0, le=MAX_NUMBER)] = 0
    """The time to wait for an answer, in seconds; 0: for ever."""


class PlanBudget(PlanModel):
    """Limits of the whole plan: tokens (prompt plus completion), USD, seconds."""

    max_tokens: PositiveInt | None = None
    """Prompt and completion tokens of all steps together."""
    max_price: PositiveNumber | None = None
    """USD, all steps together."""
    max_seconds: PositiveNumber | None = None
    """From the first step's start."""


class Sample(PlanModel):
    """A demonstration's surroundings, as paths relative to the plan file and below its folder.

    The plan runs on a fresh temporary copy of ``project``; unless the user names a model, its model turns are
    replayed from ``replay``, a script of the scripted backend.
    """

    project: NonBlank
    """A folder below the plan's; the plan runs on a fresh copy of it."""
    replay: NonBlank | None = None
    """A script of model turns that are replayed unless the user names a model."""


class Plan(PlanModel):
    """A whole plan document."""

    version: Literal[1]
    """The format's version."""
    goal: NonBlank
    """The aim of the whole plan."""
    context: str = ""
    """Background that every step's subagent is given."""
    steps: Annotated[list[Step], Field(min_length=1, max_length=MAX_STEPS)]
    """The work, as a directed acyclic graph."""
    decisions: list[Decision] = Field(default=[])
    """Choices a person or a flag must make."""
    max_parallel_steps: PositiveInt | None = None
    """The most steps that may run side by side."""
    budget: PlanBudget | None = None
    """Limits of the whole plan."""
    defaults: StepSettings | None = None
    """Fields for every step that does not set them itself."""
    sample: Sample | None = None
    """A demonstration's surroundings."""
    metadata: dict[str, Any] = Field(default={})
    """Anything; carried through untouched."""

    def resolved(self) -> Plan:
        """Return the plan with ``defaults``, which are kept, written into steps that do not set them."""
        if self.defaults is None:
            return self
        common = {name: getattr(self.defaults, name) for name in self.defaults.model_fields_set}
        return self.model_copy(update={"steps": [step.filled(common) for step in self.steps]})
