"""Arguments of the tools about plans, as clients are told them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from vibe.mcp_server.call_vibe import DEFAULT_RESPONSE_CHARS, LONGEST_MS, ResponseChars
from vibe.mcp_server.tool import CallArguments

MOST_AT_ONCE = 64
PLAN_FORM = (
    'A plan document instead of a goal: {"version": 1, "goal": "...", "steps": [{"id": "a", "title": "...", "mode": '
    '"code", "prompt": "...", "depends_on": []}]}; a step of mode "run" has a "command" and no prompt. What else there '
    "is: `vibe plan schema`."
)

PlanId = Annotated[str, Field(min_length=1, max_length=100, description="The id that plan_run returned.")]
WaitMs = Annotated[
    float,
    Field(
        ge=0,
        le=LONGEST_MS,
        allow_inf_nan=False,
        description="Wait so long for the plan to end, or to wait for an answer, before saying how it stands.",
    ),
]


class PlanRunArguments(CallArguments):
    """A plan to run: its aim, its place and its limits."""

    goal: Annotated[
        str | None, Field(description="What the plan must achieve; it is written by a model that reads the folder.")
    ] = None
    plan: Annotated[dict[str, Any] | str | None, Field(description=PLAN_FORM)] = None
    plan_id: Annotated[
        str | None,
        Field(min_length=1, max_length=100, description="Go on with a plan that was paused or broken off, by its id."),
    ] = None
    cwd: Annotated[
        str | None, Field(description="The folder to work in, as an absolute path; a plan that goes on has its own.")
    ] = None
    wait_ms: WaitMs = 0
    model: Annotated[str | None, Field(description="The model's name; as configured if left out.")] = None
    max_tokens: Annotated[int | None, Field(gt=0, description="For all of it, planning included.")] = None
    max_price: Annotated[
        float | None, Field(gt=0, allow_inf_nan=False, description="In USD, for all of it, planning included.")
    ] = None
    max_seconds: Annotated[
        float | None, Field(gt=0, allow_inf_nan=False, description="From the start of the first step.")
    ] = None
    max_parallel: Annotated[
        int | None, Field(gt=0, le=MOST_AT_ONCE, description="So many steps may run side by side.")
    ] = None

    @model_validator(mode="after")
    def _one_thing(self) -> Self:
        given = [name for name in ("goal", "plan", "plan_id") if getattr(self, name) is not None]
        if len(given) != 1:
            said = f"{' and '.join(given)} were given" if given else "none was given"
            raise ValueError(f"give a goal, a plan or a plan_id, and one of them only: {said}")
        if self.plan_id is None and self.cwd is None:
            raise ValueError("cwd is missing: give the absolute path of the folder to work in")
        limits = [name for name in ("max_tokens", "max_price", "max_seconds", "cwd") if getattr(self, name) is not None]
        if self.plan_id is not None and limits:
            raise ValueError(f"a plan that goes on keeps its own {', '.join(limits)}: leave that out")
        return self

    @property
    def budget(self) -> Mapping[str, float]:
        """The limits of all of it."""
        limits = {"max_tokens": self.max_tokens, "max_price": self.max_price, "max_seconds": self.max_seconds}
        return {name: limit for name, limit in limits.items() if limit is not None}


class PlanStatusArguments(CallArguments):
    """The plan."""

    plan_id: PlanId
    wait_ms: WaitMs = 0


class PlanDecideArguments(CallArguments):
    """An answer to a request, or an end to the plan."""

    plan_id: PlanId
    request_id: Annotated[str | None, Field(description="The request that is answered, as plan_status lists it.")] = (
        None
    )
    answers: Annotated[
        tuple[Annotated[str, Field(min_length=1)], ...],
        Field(
            description="Of an approval: yes, session, edits or no. Of a decision: the ids of the options chosen. Of a "
            "question: an answer to each of its questions; none: you would rather not."
        ),
    ] = ()
    reason: Annotated[str, Field(max_length=4_000, description="Told to the agent with a no.")] = ""
    stop: Annotated[
        Literal["pause", "cancel"] | None,
        Field(description="Instead of an answer: pause the plan, to go on later, or give it up."),
    ] = None

    @model_validator(mode="after")
    def _one_act(self) -> Self:
        if (self.request_id is None) == (self.stop is None):
            raise ValueError("give a request_id with answers, or stop, and one of them only")
        return self


class PlanResultArguments(CallArguments):
    """The plan."""

    plan_id: PlanId
    max_response_chars: ResponseChars = DEFAULT_RESPONSE_CHARS
