"""The plan as data: Plan, its inputs and its decisions. Steps are defined in ``subagents``, statuses in ``status``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypeVar

from pydantic import Field

from planner.plan.diagnostics import UnfilledError
from planner.plan.placeholders import INPUT_VARIABLE, INPUTS, MAX_FILLED, as_text, escape, fill, variable_of
from planner.plan.status import OPEN_STATUSES, PlanStatus, StepStatus
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
    "OPEN_STATUSES",
    "Child",
    "Decision",
    "Dependency",
    "Input",
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

StepT = TypeVar("StepT", bound=Step)

MAX_STEPS = 10_000
MAX_INPUTS = 64
FORMAT_VERSION = 1
MAX_TITLE_VALUE = 80
"""The most characters of an input's value in a title."""
MAX_GOAL_VALUE = 4_000
"""The most characters of an input's value in a goal or a question."""
MAX_TEXTS = 16 * 1024 * 1024
"""The most characters of all prompts of a plan, with the values filled in."""


LONGEST_IN_PROMPT = 4_000
"""The most characters of an item in a prompt."""


class Child(Step):
    """The step for one item of a list, with the settings of its ``pattern``; ``number`` counts from 0.

    ``waves`` is the least number of rounds in which the list's steps run, given how many may run at once.
    """

    pattern: Slug = Field(exclude=True)
    key: str = Field(exclude=True)
    number: int = Field(exclude=True)
    item: Any = Field(exclude=True)
    waves: int = Field(default=1, exclude=True)

    @property
    def is_long(self) -> bool:
        """True if its prompt can't hold the whole item."""
        return len(as_text(self.item)) > LONGEST_IN_PROMPT


def own_ids(step: Step) -> frozenset[str]:
    """Return the ids that may refer to a step: its own, and for an item the id of the step with the list."""
    return frozenset({step.id, step.pattern} if isinstance(step, Child) else {step.id})


class Option(PlanModel):
    """One way a decision can fall."""

    id: Slug
    """Unique in its decision."""
    label: NonBlank
    """The words a person reads."""
    description: str = ""
    """More about it."""


class Input(PlanModel):
    """A value that is given when the plan is run: ``--with NAME=VALUE``."""

    name: Slug
    """Unique among the inputs; `${inputs.NAME}` in a text, `$VIBE_INPUT_NAME` in a command."""
    type: Literal["string", "integer", "number", "boolean", "list"] = "string"
    """The kind of value."""
    choices: Annotated[list[Any], Field(min_length=1, max_length=256)] | None = None
    """The values it may have (a list: its members); null: any."""
    default: Any = None
    """The value if none is given; null: one must be given."""
    description: str = ""
    """Words for the person who is asked for it."""


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
    inputs: Annotated[list[Input], Field(max_length=MAX_INPUTS)] = Field(default=[])
    """Values that are given when it is run."""
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
        """Return the plan with its ``defaults`` written into steps that do not set them; the defaults are kept."""
        if self.defaults is None:
            return self
        common = {name: getattr(self.defaults, name) for name in self.defaults.model_fields_set}
        return self.model_copy(update={"steps": [step.filled(common) for step in self.steps]})

    def values(self) -> dict[str, Any]:
        """Return the known values of its inputs: those it was begun with, else the defaults."""
        return {given.name: given.default for given in self.inputs if given.default is not None}

    def variables(self) -> dict[str, str]:
        """Return the environment variables in which its commands find the values of its inputs."""
        return {variable_of(INPUT_VARIABLE, name): as_text(value) for name, value in self.values().items()}

    def filled(self) -> Plan:
        """Return the plan with the values of its inputs in its texts, or unchanged while a value is unknown.

        To be called only once for a plan: values that were filled in are text like any other.

        Raises:
            UnfilledError: a placeholder names no input, or the texts become too long.
        """
        values = self.values()
        if not values or len(values) < len(self.inputs):
            return self
        plan = self._with_texts({INPUTS: values})
        if sum(len(step.instructions) for step in plan.steps) > MAX_TEXTS:
            raise UnfilledError(f"the prompts take more than {MAX_TEXTS:,} characters with the values of the inputs")
        return plan

    def escaped(self) -> Plan:
        """Return the plan from which ``filled`` makes this one."""
        return self._with_texts(None) if self.inputs and len(self.values()) == len(self.inputs) else self

    def _with_texts(self, values: Mapping[str, object] | None) -> Plan:
        """Return the plan with its texts filled in, or escaped if ``values`` is None."""

        def asked(decision: Decision) -> Decision:
            return decision.model_copy(update={"question": _filled(decision.question, values, MAX_GOAL_VALUE)})

        return self.model_copy(
            update={
                "goal": _filled(self.goal, values, MAX_GOAL_VALUE),
                "context": _filled(self.context, values),
                "steps": [step if step.for_each else with_texts(step, values) for step in self.steps],  # for each item
                "decisions": [asked(decision) for decision in self.decisions],
            }
        )


def with_texts(step: StepT, values: Mapping[str, object] | None) -> StepT:
    """Return the step with its texts filled in, or escaped if ``values`` is None."""
    title = " ".join(_filled(step.title, values, MAX_TITLE_VALUE).splitlines()) or step.id
    return step.model_copy(update={"title": title, "prompt": step.prompt and _filled(step.prompt, values)})


def _filled(text: str, values: Mapping[str, object] | None, longest: int = MAX_FILLED) -> str:
    return escape(text) if values is None else fill(text, values, longest=longest)
