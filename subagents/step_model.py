"""A step as the plan file says it: what the planner orders, and what an executor is given to do."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self, cast

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StringConstraints
from pydantic_core import PydanticCustomError

from vibe.core.modes import ExecutionMode, ModeName

Slug = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9_-]{0,63}$")]
NonBlank = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)]
OneLine = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, pattern=r"^[^\r\n]*$")]
MAX_NUMBER = 10**12
"""No limit, count or priority is larger: every reader of an event can hold it, and every timer can wait for it."""
Count = Annotated[int, Field(ge=0, le=MAX_NUMBER)]
PositiveInt = Annotated[int, Field(ge=1, le=MAX_NUMBER)]
PositiveNumber = Annotated[float, Field(gt=0, le=MAX_NUMBER)]


def _need(value: object) -> object:
    is_number = isinstance(value, int | float) and not isinstance(value, bool) and 0 < value <= MAX_NUMBER
    if not is_number and not (isinstance(value, str) and value.strip()):
        raise PydanticCustomError("need", "must be an amount above 0, or the text of a label")
    return value


Need = Annotated[float | OneLine, BeforeValidator(_need)]
Pointer = Annotated[str, StringConstraints(pattern=r"^(/.*)?$")]


def _with_one_line_descriptions(schema: dict[str, Any]) -> None:
    for field in schema.get("properties", {}).values():
        if "description" in field:
            field["description"] = " ".join(field["description"].split())


if TYPE_CHECKING:

    class GivenMode:
        """A mode that may be given by its name: pydantic takes both, and a type checker is told so here."""

        def __get__(self, instance: object, owner: object) -> ExecutionMode: ...
        def __set__(self, instance: object, value: ExecutionMode | ModeName) -> None: ...

else:
    GivenMode = ExecutionMode


class PlanModel(BaseModel):
    """The base of every part of a plan document: immutable, no unknown fields, and the words of the schema."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", use_attribute_docstrings=True, json_schema_extra=_with_one_line_descriptions
    )


class Dependency(PlanModel):
    """An edge. ``on`` says which end of the other step lets this one go on."""

    step: Slug
    """The other step."""
    on: Literal["completed", "finished", "failed"] = "completed"
    """The end it must have had: finished is any end."""


MAX_WRITTEN_ITEMS = 256
MAX_ITEMS = 2_000


class ForEach(PlanModel):
    """The list of whose items a step is done, once for each. Pointers are JSON pointers (RFC 6901)."""

    model_config = ConfigDict(serialize_by_alias=True)

    source: Slug | None = Field(default=None, alias="in")
    """The step in whose output the list is: one that this step depends on, with an `output_schema`."""
    items: Annotated[list[Any], Field(max_length=MAX_WRITTEN_ITEMS)] | None = None
    """The list itself, in place of `in`; a bare list in place of the object is that."""
    input: Slug | None = None
    """The input of the plan that is the list, in place of `in`; `"in": {"input": NAME}` is that."""
    at: Pointer = ""
    """Pointer to the list in that output, as /files; blank: the whole of it."""
    key: Pointer = ""
    """Pointer to what names an item in it, a text or a number of at most 200 characters; blank: the whole item."""
    width: PositiveInt | None = None
    """The most of them that run side by side; null: as the plan's `max_parallel_steps` says."""
    at_most: Annotated[int, Field(ge=1, le=MAX_ITEMS)] = MAX_WRITTEN_ITEMS
    """The most items; a longer list fails the step."""
    enough: Literal["all"] | Count = "all"
    """The number that must complete for the step to be completed; 0: it is completed however they end."""


def spelled_out(value: Any) -> Any:
    """Return ``for_each`` as an object with ``items`` or ``input`` for what may stand for these in short."""
    if isinstance(value, list):
        return {"items": cast("list[Any]", value)}
    match value:
        case {"in": {"input": name}, **rest} if len(value["in"]) == 1:
            return {**rest, "input": name}
        case _:
            return value


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
    needs: dict[Slug, Need] = {}
    """Resources, at least so much of each, and labels of the machine that does it, such as
    `{"gpu": 1, "os": "linux"}`."""
    network: Literal["loopback", "on"] | None = None
    """Reach of its confined commands: servers of their own on localhost, or everything; null: as the settings
    say."""
    allowed_tools: list[NonBlank] | None = None
    """The tools it may use: names, globs or re: patterns; null: those of its mode."""
    denied_tools: list[NonBlank] = []
    """Tools it may not use: names, globs or re: patterns."""
    agent: NonBlank | None = None
    """The agent profile."""
    model: NonBlank | Annotated[list[NonBlank], Field(min_length=1, max_length=4)] | None = None
    """The model; of a list, the first makes the first attempt, and each other the next once one failed."""
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
    mode: GivenMode
    """The kind of work: picks guidance, tools and icon."""
    prompt: NonBlank | None = None
    """The task as the subagent reads it; the title if left out."""
    depends_on: list[Slug | Dependency] = []
    """Steps that come first; `on` says how they must have ended, completed if left out."""
    for_each: Annotated[ForEach, BeforeValidator(spelled_out, json_schema_input_type=ForEach | list[Any])] | None = None
    """Do it once for each item of a list."""

    @property
    def instructions(self) -> str:
        """The task of its agent."""
        return self.prompt or self.title

    @property
    def models(self) -> tuple[str, ...]:
        """The models of its attempts, first to last; empty: the usual one, or none as a command has."""
        if self.command is not None:
            return ()
        return tuple(self.model) if isinstance(self.model, list) else (self.model,) if self.model else ()

    @property
    def rungs(self) -> list[Self]:
        """The step with each of its models; itself, if it has no more than one."""
        return [self.rung(number) for number in range(1, max(1, len(self.models)) + 1)]

    def rung(self, attempt: int) -> Self:
        """Return the step as that attempt does it: with the one model whose turn it is."""
        models = self.models if isinstance(self.model, list) else ()
        return self.model_copy(update={"model": models[min(attempt, len(models)) - 1]}) if len(models) > 1 else self

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
