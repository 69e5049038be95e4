"""A step as the plan file says it: what the planner orders, and what an executor is given to do."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from vibe.core.modes import ExecutionMode

Slug = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9_-]{0,63}$")]
NonBlank = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)]
OneLine = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, pattern=r"^[^\r\n]*$")]
MAX_NUMBER = 10**12
"""No limit, count or priority is larger: every reader of an event can hold it, and every timer can wait for it."""
Count = Annotated[int, Field(ge=0, le=MAX_NUMBER)]
PositiveInt = Annotated[int, Field(ge=1, le=MAX_NUMBER)]
PositiveNumber = Annotated[float, Field(gt=0, le=MAX_NUMBER)]


class PlanModel(BaseModel):
    """What every part of a plan document shares: immutable, and no unknown fields."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Dependency(PlanModel):
    """An edge. ``on`` says which end of the other step lets this one go on."""

    step: Slug
    on: Literal["completed", "finished", "failed"] = "completed"


class StepSettings(PlanModel):
    """The fields a step may set and ``defaults`` may set for all steps. Times in seconds, prices in USD."""

    command: NonBlank | None = None
    decision: Slug | None = None
    when: dict[Slug, list[Slug]] | None = None
    verify: list[NonBlank] = []
    max_repairs: Count = 2
    output_schema: dict[str, Any] | None = None
    writes: list[NonBlank] | None = None
    workspace: Literal["shared", "worktree"] = "shared"
    network: Literal["loopback", "on"] | None = None
    allowed_tools: list[NonBlank] | None = None
    denied_tools: list[NonBlank] = []
    agent: NonBlank | None = None
    model: NonBlank | None = None
    max_tokens: PositiveInt | None = None
    max_turns: PositiveInt | None = None
    max_price: PositiveNumber | None = None
    timeout_seconds: PositiveNumber | None = None
    retries: Count = 0
    on_failure: Literal["stop", "continue", "replan", "ask"] = "stop"
    idle_seconds: PositiveNumber = 300
    side_effects: bool = False
    priority: Annotated[int, Field(ge=-MAX_NUMBER, le=MAX_NUMBER)] = 0


class Step(StepSettings):
    """One node of the DAG."""

    id: Slug
    title: OneLine
    mode: ExecutionMode
    prompt: NonBlank | None = None
    depends_on: list[Slug | Dependency] = []

    @property
    def instructions(self) -> str:
        """What its agent is told to do."""
        return self.prompt or self.title

    @cached_property
    def dependencies(self) -> tuple[Dependency, ...]:
        """The edges into this step, each spelled out."""
        return tuple(d if isinstance(d, Dependency) else Dependency(step=d) for d in self.depends_on)

    def filled(self, common: Mapping[str, Any]) -> Self:
        """The step with these fields where it does not set them itself; the same one if it sets them all."""
        missing = {name: value for name, value in common.items() if name not in self.model_fields_set}
        return self.model_copy(update=missing) if missing else self

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """A copy with some fields changed; what is worked out from them is worked out anew."""
        copy = super().model_copy(update=update, deep=deep)
        vars(copy).pop("dependencies", None)
        return copy
