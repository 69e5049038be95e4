"""The plan as data: Plan, Decision, statuses and the table of legal transitions; the steps come from below."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Annotated, Any, Literal

from pydantic import Field

from subagents.step_model import (
    MAX_NUMBER,
    Count,
    Dependency,
    NonBlank,
    OneLine,
    PlanModel,
    PositiveInt,
    PositiveNumber,
    Slug,
    Step,
    StepSettings,
)

__all__ = [
    "MAX_NUMBER",
    "Count",
    "Decision",
    "Dependency",
    "NonBlank",
    "OneLine",
    "Option",
    "Plan",
    "PlanBudget",
    "PlanModel",
    "PlanStatus",
    "PositiveInt",
    "PositiveNumber",
    "Sample",
    "Slug",
    "Step",
    "StepSettings",
    "StepStatus",
]

MAX_STEPS = 10_000
FORMAT_VERSION = 1


class StepStatus(StrEnum):
    """Status of a step. COMPLETED, FAILED, SKIPPED and CANCELLED are final."""

    PENDING = "pending"
    BLOCKED = "blocked"
    """A dependency is not done."""
    NEEDS_DECISION = "needs_decision"
    IN_PROGRESS = "in_progress"
    COMPLETED = "completed"
    FAILED = "failed"
    SKIPPED = "skipped"
    CANCELLED = "cancelled"

    @property
    def is_final(self) -> bool:
        """True if nothing but a person's retry or a revision changes it any more."""
        return self in FINAL_STATUSES


class PlanStatus(StrEnum):
    """Status of a whole plan."""

    IDLE = "idle"
    ACTIVE = "active"
    PAUSED = "paused"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"


FINAL_STATUSES = frozenset({StepStatus.COMPLETED, StepStatus.FAILED, StepStatus.SKIPPED, StepStatus.CANCELLED})

STEP_TRANSITIONS: Mapping[StepStatus, frozenset[StepStatus]] = MappingProxyType({
    StepStatus.PENDING: frozenset({
        StepStatus.BLOCKED,
        StepStatus.NEEDS_DECISION,
        StepStatus.IN_PROGRESS,
        StepStatus.FAILED,  # no better plan was found, or an answer given before a sudden end says so
        StepStatus.SKIPPED,
        StepStatus.CANCELLED,
    }),
    StepStatus.BLOCKED: frozenset({
        StepStatus.PENDING,
        StepStatus.NEEDS_DECISION,
        StepStatus.IN_PROGRESS,
        StepStatus.SKIPPED,
        StepStatus.CANCELLED,
    }),
    StepStatus.NEEDS_DECISION: frozenset({
        StepStatus.PENDING,
        StepStatus.BLOCKED,
        StepStatus.IN_PROGRESS,
        StepStatus.FAILED,  # it had failed before, and that is how it was to stay
        StepStatus.SKIPPED,
        StepStatus.CANCELLED,
    }),
    StepStatus.IN_PROGRESS: frozenset({
        StepStatus.PENDING,  # interrupted, or waiting for its next attempt or a better plan
        StepStatus.NEEDS_DECISION,  # it failed or was cut off, and somebody must say what becomes of it
        StepStatus.COMPLETED,
        StepStatus.FAILED,
        StepStatus.CANCELLED,
    }),
    StepStatus.COMPLETED: frozenset(),
    StepStatus.FAILED: frozenset({StepStatus.PENDING}),  # revised
    StepStatus.SKIPPED: frozenset(),
    StepStatus.CANCELLED: frozenset(),
})

PLAN_TRANSITIONS: Mapping[PlanStatus, frozenset[PlanStatus]] = MappingProxyType({
    PlanStatus.IDLE: frozenset({PlanStatus.ACTIVE, PlanStatus.CANCELLED}),
    PlanStatus.ACTIVE: frozenset({
        PlanStatus.PAUSED,
        PlanStatus.COMPLETED,
        PlanStatus.FAILED,
        PlanStatus.CANCELLED,
    }),
    PlanStatus.PAUSED: frozenset({PlanStatus.ACTIVE, PlanStatus.CANCELLED}),
    PlanStatus.COMPLETED: frozenset({PlanStatus.PAUSED}),  # a person has a step done again
    PlanStatus.FAILED: frozenset({PlanStatus.PAUSED}),  # likewise, or changes the plan
    PlanStatus.CANCELLED: frozenset(),
})


class Option(PlanModel):
    """One way a decision can fall."""

    id: Slug
    """Unique in its decision."""
    label: NonBlank
    """What a person reads."""
    description: str = ""
    """More about it."""


class Decision(PlanModel):
    """A choice a person (or a flag) must make. ``timeout_seconds`` 0: wait for ever."""

    id: Slug
    """Unique among the decisions."""
    question: NonBlank
    """What is asked."""
    options: Annotated[list[Option], Field(min_length=2, max_length=8)]
    """The answers to choose from."""
    multi_select: bool = False
    """Whether several may be chosen."""
    default: list[Slug] | Slug | None = None
    """The option, or options, taken when nobody answers in time."""
    timeout_seconds: Annotated[float, Field(ge=0, le=MAX_NUMBER)] = 0
    """How long to wait for an answer; 0: for ever."""


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
    """What the whole plan must achieve."""
    context: str = ""
    """Background that every step's subagent is given."""
    steps: Annotated[list[Step], Field(min_length=1, max_length=MAX_STEPS)]
    """The work, as a directed acyclic graph."""
    decisions: list[Decision] = Field(default=[])
    """Choices a person or a flag must make."""
    max_parallel_steps: PositiveInt | None = None
    """How many steps may run side by side."""
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
