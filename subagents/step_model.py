"""A step as the plan file describes it: what the planner orders and an executor carries out."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from functools import cached_property
from inspect import getsource
from itertools import pairwise
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self, cast

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StringConstraints
from pydantic_core import PydanticCustomError

from vibe.core.modes import ExecutionMode, ModeName

Slug = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9_-]{0,63}$")]
NonBlank = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)]
OneLine = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, pattern=r"^[^\r\n]*$")]
MAX_NUMBER = 10**12
"""The largest limit, count or priority: every reader of events can represent it, and every timer can wait for it."""
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


def _describe_properties(schema: dict[str, Any], model: type[BaseModel]) -> None:
    """Describe the properties of a model by the docstrings of its fields.

    Pydantic could do it, but would read the sources whenever a process starts, for a fifth of the start.
    """
    for base in model.__mro__[: model.__mro__.index(PlanModel)]:
        body = cast("ast.ClassDef", ast.parse(getsource(base)).body[0]).body
        for field, below in pairwise(body):
            if isinstance(field, ast.AnnAssign) and isinstance(below, ast.Expr):
                name = ast.unparse(field.target)
                text = ast.literal_eval(below.value)
                schema["properties"][model.model_fields[name].alias or name]["description"] = " ".join(text.split())


if TYPE_CHECKING:

    class GivenMode:
        """A mode that may be given by its name. Pydantic accepts both; this tells the type checker so."""

        def __get__(self, instance: object, owner: object) -> ExecutionMode: ...
        def __set__(self, instance: object, value: ExecutionMode | ModeName) -> None: ...

else:
    GivenMode = ExecutionMode


class PlanModel(BaseModel):
    """Base of every part of a plan document: immutable, without unknown fields, described by its docstrings."""

    model_config = ConfigDict(frozen=True, extra="forbid", json_schema_extra=_describe_properties)


class Dependency(PlanModel):
    """An edge. ``on`` says how the other step must end before this one may start."""

    step: Slug
    """The other step."""
    on: Literal["completed", "finished", "failed"] = "completed"
    """The way that step must have ended; finished means in any way."""


MAX_WRITTEN_ITEMS = 256
"""The most items of a list that is written in the plan."""
MAX_ITEMS = 2_000
"""The largest value of ``at_most``."""


class ForEach(PlanModel):
    """A list for whose items a step is done, once for each. Pointers are JSON pointers (RFC 6901)."""

    model_config = ConfigDict(serialize_by_alias=True)

    source: Slug | None = Field(default=None, alias="in")
    """The step whose output has the list. This step must depend on it, and it must have an `output_schema`."""
    items: Annotated[list[Any], Field(max_length=MAX_WRITTEN_ITEMS)] | None = None
    """The list itself, instead of `in`; a bare list instead of the object means the same."""
    input: Slug | None = None
    """The input of the plan that is the list, instead of `in`; `"in": {"input": NAME}` means the same."""
    at: Pointer = ""
    """Pointer to the list in that output, such as /files; blank: the whole output."""
    key: Pointer = ""
    """Pointer to what names an item, a text or number of at most 200 characters; blank: the whole item."""
    width: PositiveInt | None = None
    """The most items that are done at the same time; null: as many as the plan's `max_parallel_steps`."""
    at_most: Annotated[int, Field(ge=1, le=MAX_ITEMS)] = MAX_WRITTEN_ITEMS
    """The most items; a longer list fails the step."""
    enough: Literal["all"] | Count = "all"
    """The number of items that must complete for the step to complete; 0: however they end, except by the plan's
    budget."""


def spelled_out(value: Any) -> Any:
    """Return ``for_each`` as an object; a bare list becomes its ``items``, a short form of an input its ``input``."""
    if isinstance(value, list):
        return {"items": cast("list[Any]", value)}
    match value:
        case {"in": {"input": name}, **rest} if len(value["in"]) == 1:
            return {**rest, "input": name}
        case _:
            return value


class StepSettings(PlanModel):
    """The fields that a step may set, or ``defaults`` for all steps. Times are in seconds, prices in USD."""

    command: NonBlank | None = None
    """Only in modes run and test: run this shell command, without a model."""
    decision: Slug | None = None
    """The decision this step waits for."""
    when: dict[Slug, list[Slug]] | None = None
    """Decision ids to option ids: run the step only if each decision took one of its options, else skip it."""
    verify: list[NonBlank] = []
    """Commands that must exit with 0 once the subagent says it is done. The subagent may not change the files they
    consist of or are configured by."""
    max_repairs: Count = 2
    """The number of times the same subagent is asked to repair what a failing check found."""
    output_schema: dict[str, Any] | None = None
    """A JSON Schema: the step must end by handing in a value that fits it, which the steps that depend on it get."""
    writes: list[NonBlank] | None = None
    """Globs of the files below the workspace's root that this step may write; null: unknown, so it writes alone."""
    workspace: Literal["shared", "worktree"] = "shared"
    """The place where it works: the user's own files, or a git worktree of its own that is merged back."""
    needs: dict[Slug, Need] = {}
    """Requirements on the machine that does the step: the least amount of a resource, or a label, as in
    `{"gpu": 1, "os": "linux"}`."""
    network: Literal["loopback", "on"] | None = None
    """Reach of its confined commands: their own servers on localhost, or everything; null: as in the settings."""
    allowed_tools: list[NonBlank] | None = None
    """The tools it may use: names, globs or re: patterns; null: those of its mode."""
    denied_tools: list[NonBlank] = []
    """Tools it may not use: names, globs or re: patterns."""
    agent: NonBlank | None = None
    """The agent profile."""
    model: NonBlank | Annotated[list[NonBlank], Field(min_length=1, max_length=4)] | None = None
    """The model. If it is a list, the first makes the first attempt, and each further one the next after a failure."""
    max_tokens: PositiveInt | None = None
    """Budget of the step, prompt and completion tokens together; not set: what is configured for its mode."""
    max_turns: PositiveInt | None = None
    """Budget of the step in model calls; not set: what is configured for its mode."""
    max_price: PositiveNumber | None = None
    """Budget of the step in USD."""
    timeout_seconds: PositiveNumber | None = None
    """The time one attempt may take, in seconds."""
    retries: Count = 0
    """Fresh attempts after a failure, with growing pauses between them."""
    on_failure: Literal["stop", "continue", "replan", "ask"] = "stop"
    """stop: the steps that depend on this one stay blocked; continue: they run and are told of the failure,
    unless the plan's budget ended it; ask: a person decides (retry, skip or stop); replan: a model changes the plan,
    and if it can't, stop."""
    idle_seconds: PositiveNumber = 300
    """After so many seconds without any event the step counts as stuck and fails."""
    side_effects: bool = False
    """The step acts outside the workspace (deploys, sends), so it is never run again automatically."""
    priority: Annotated[int, Field(ge=-MAX_NUMBER, le=MAX_NUMBER)] = 0
    """Of the steps that could start, those with a higher priority start first."""
    tags: list[Slug] = []
    """Names by which to choose steps, as with `vibe plan run --only tag:NAME`."""


LIMITS = frozenset({
    "idle_seconds", "max_price", "max_repairs", "max_tokens", "max_turns", "on_failure", "priority", "retries",
    "tags", "timeout_seconds",
})  # fmt: skip
"""Fields that decide when and for how long a step is tried. Its result stays valid if they change."""


class Step(StepSettings):
    """One node of the DAG."""

    id: Slug
    """The step's id, unique in the plan."""
    title: OneLine
    """One line for people."""
    mode: GivenMode
    """The kind of work, which decides guidance, tools and icon."""
    prompt: NonBlank | None = None
    """The task as the subagent reads it; the title if left out."""
    depends_on: list[Slug | Dependency] = []
    """Steps that come first; `on` says how they must have ended, completed if left out."""
    for_each: Annotated[ForEach, BeforeValidator(spelled_out, json_schema_input_type=ForEach | list[Any])] | None = None
    """Do the step once for each item of a list."""

    @property
    def instructions(self) -> str:
        """The task that its agent is given."""
        return self.prompt or self.title

    @property
    def models(self) -> tuple[str, ...]:
        """The models of its attempts, first to last. Empty for the default model, and for a command, which has none."""
        if self.command is not None:
            return ()
        return tuple(self.model) if isinstance(self.model, list) else (self.model,) if self.model else ()

    @property
    def by_model(self) -> list[Self]:
        """A copy of the step for each of its models; only the step itself if it has at most one."""
        return [self.at_attempt(number) for number in range(1, max(1, len(self.models)) + 1)]

    def at_attempt(self, attempt: int) -> Self:
        """Return the step as attempt number ``attempt`` does it: with the one model of that attempt."""
        models = self.models if isinstance(self.model, list) else ()
        return self.model_copy(update={"model": models[min(attempt, len(models)) - 1]}) if len(models) > 1 else self

    @cached_property
    def dependencies(self) -> tuple[Dependency, ...]:
        """The edges into this step, each as a ``Dependency``."""
        return tuple(d if isinstance(d, Dependency) else Dependency(step=d) for d in self.depends_on)

    def filled(self, common: Mapping[str, Any]) -> Self:
        """Return the step with those fields of ``common`` that it does not set itself."""
        missing = {name: value for name, value in common.items() if name not in self.model_fields_set}
        return self.model_copy(update=missing) if missing else self

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """Return a copy with some fields changed, and without the cached values that depend on them."""
        copy = super().model_copy(update=update, deep=deep)
        vars(copy).pop("dependencies", None)
        return copy
