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


def _with_one_line_descriptions(schema: dict[str, Any]) -> None:
    for field in schema.get("properties", {}).values():
        if "description" in field:
            field["description"] = " ".join(field["description"].split())


class PlanModel(BaseModel):
    """The base of every part of a plan document: immutable, no unknown fields, and the words of the schema."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        use_attribute_docstrings=True,
        json_schema_extra=_with_one_line_descriptions,
    )


class Dependency(PlanModel):
    """An edge. ``on`` says which end of the other step lets this one go on."""

    step: Slug
    """The other step."""
    on: Literal["completed", "finished", "failed"] = "completed"
    """The end it must have had: finished is any end."""


class StepSettings(PlanModel):
    """The fields a step may set and ``defaults`` may set for all steps. Times in seconds, prices in USD."""

    command: NonBlank | None = None
    """Modes run and test only: run this shell command, with no model at all."""
    decision: Slug | None = None
    """The decision this step waits for."""
    when: dict[Slug, list[Slug]] | None = None
    """Run only if these decisions fell so, else the step is skipped: decision id to option ids."""
    verify: list[NonBlank] = []
    """Commands that must exit 0 after the subagent says it is done; it may not change the files they consist of or
    are configured by."""
    max_repairs: Count = 2
    """The times a failing verification goes back to the same subagent."""
    output_schema: dict[str, Any] | None = None
    """A JSON Schema: the step must end by handing in a value that fits; what depends on it gets the value."""
    writes: list[NonBlank] | None = None
    """Globs below the workspace's root that this step may write; null: unknown, so it writes alone."""
    workspace: Literal["shared", "worktree"] = "shared"
    """The place the step works in: in the user's own files, or in a git worktree of its own that is merged back."""
    network: Literal["loopback", "on"] | None = None
    """Reach of its confined commands: servers of their own on localhost, or everything; null: as the settings
    say."""
    allowed_tools: list[NonBlank] | None = None
    """The tools it may use: names, globs or re: patterns; null: those of its mode."""
    denied_tools: list[NonBlank] = []
    """Tools it may not use: names, globs or re: patterns."""
    agent: NonBlank | None = None
    """The agent profile."""
    model: NonBlank | None = None
    """The model."""
    max_tokens: PositiveInt | None = None
    """Budget of the step, prompt and completion tokens together; not set: what is configured for its mode."""
    max_turns: PositiveInt | None = None
    """Budget of the step in model calls; not set: what is configured for its mode."""
    max_price: PositiveNumber | None = None
    """Budget of the step in USD."""
    timeout_seconds: PositiveNumber | None = None
    """The time one attempt may take, in seconds."""
    retries: Count = 0
    """Fresh attempts after a failure, with growing pauses between."""
    on_failure: Literal["stop", "continue", "replan", "ask"] = "stop"
    """stop: what depends on the step stays blocked; continue: it runs, told of the failure; ask: a person decides
    (retry, skip or stop); replan: a model changes the plan, else as stop."""
    idle_seconds: PositiveNumber = 300
    """Without any event for so long, the step is stuck and fails."""
    side_effects: bool = False
    """It acts outside the workspace (deploys, sends): never run again by itself."""
    priority: Annotated[int, Field(ge=-MAX_NUMBER, le=MAX_NUMBER)] = 0
    """The higher, the earlier, among steps that could start."""
    tags: list[Slug] = []
    """Names to choose steps by, as with `vibe plan run --only tag:NAME`."""


LIMITS = frozenset({
    "idle_seconds", "max_price", "max_repairs", "max_tokens", "max_turns", "on_failure", "priority", "retries",
    "tags", "timeout_seconds",
})  # fmt: skip
"""Fields that decide when and how long a step is tried, not what it does: its result stands if they change."""


class Step(StepSettings):
    """One node of the DAG."""

    id: Slug
    """Unique in the plan."""
    title: OneLine
    """One line for people."""
    mode: ExecutionMode
    """The kind of work: picks guidance, tools and icon."""
    prompt: NonBlank | None = None
    """The task as the subagent reads it; the title if left out."""
    depends_on: list[Slug | Dependency] = []
    """Steps that come first; `on` says how they must have ended, completed if left out."""

    @property
    def instructions(self) -> str:
        """The task of its agent."""
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
        """Return a copy with some fields changed; what is worked out from them is worked out again."""
        copy = super().model_copy(update=update, deep=deep)
        vars(copy).pop("dependencies", None)
        return copy
