"""Defines the tools of this server as clients see them, the arguments and answers of calls, and their caller."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self, cast

from anyio import Event
from msgspec import Struct, field
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from vibe.core.tools.schema import parameter_schema
from vibe.system.errors import UsageError

if TYPE_CHECKING:
    from mcp.server import ServerRequestContext

DEFAULT_TIMEOUT_MS = 60_000
LONGEST_MS = 24 * 3600 * 1000
DEFAULT_RESPONSE_CHARS = 100_000
MOST_AT_ONCE = 64
BUDGET = ("max_tokens", "max_price", "max_seconds")
PLAN_FORM = (
    'A plan document instead of a goal: {"version": 1, "goal": "...", "steps": [{"id": "a", "title": "...", "mode": '
    '"code", "prompt": "...", "depends_on": []}]}; a step of mode "run" has a "command" and no prompt. What else there '
    "is: `vibe plan schema`."
)
ANSWER = {"status": {"type": "string"}, "detail": {"type": "string", "description": "Why a call was refused."}}
"""The fields that the structured answers of all tools share."""

ResponseChars = Annotated[
    int,
    AfterValidator(lambda limit: DEFAULT_RESPONSE_CHARS if limit < 0 else limit),
    Field(description="A longer response is cut after so many characters; 0: never."),
]
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


CHOICE = "answer"
SESSION_HEADER = "mcp-session-id"
GONE = "vibe.gone"
"""The key in the scope of an HTTP request of an event that is set when its client has hung up."""


class CallRefusedError(UsageError):
    """The call can't be carried out as requested, and nothing was done."""


class CallArguments(BaseModel):
    """The arguments of a tool as models write them, where null means that an argument is left out."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    @model_validator(mode="before")
    @classmethod
    def _without_nulls(cls, given: Any) -> Any:
        if not isinstance(given, dict):
            return given
        table = cast("dict[str, Any]", given)
        return {name: value for name, value in table.items() if value is not None or name not in cls.model_fields}


class ToolAnswer(Struct, frozen=True, kw_only=True):
    """The answer to a call: ``text`` for the model that called, and ``data`` for programs."""

    text: str
    data: Mapping[str, Any] = field(default_factory=dict[str, Any])
    is_error: bool = False


class Caller:
    """The client that made a call, for as long as the call lasts."""

    def __init__(self, context: ServerRequestContext[Any, Any]) -> None:
        self._context, self._session = context, context.session

    @property
    def gone(self) -> Event | None:
        """An event that is set when the client hangs up, or None if the connection itself ends then."""
        request: Any = self._context.request
        return None if request is None else request.scope.get(GONE)

    @property
    def can_be_asked(self) -> bool:
        """True if the client shows forms to a person and the connection can carry our requests."""
        capabilities = self._session.client_capabilities
        elicitation = capabilities.elicitation if capabilities is not None else None
        by_form = elicitation is not None and (elicitation.form is not None or elicitation.url is None)
        return by_form and self._session.can_send_request

    @property
    def connection(self) -> str:
        """The name of its connection, or "" if the server has only one."""
        request: Any = self._context.request
        return "" if request is None else request.headers.get(SESSION_HEADER, "")

    async def ask(self, message: str, choices: Mapping[str, str]) -> str | None:
        """Ask a person to choose one of ``choices``, labels by key, and return its key, or None if they decline.

        Cancelling the call withdraws the question. A client that can't ask after all counts as declining.
        """
        from mcp import MCPError

        schema: dict[str, Any] = {
            "type": "object",
            "properties": {
                CHOICE: {"type": "string", "title": "Answer", "enum": [*choices], "enumNames": [*choices.values()]}
            },
            "required": [CHOICE],
        }
        try:
            result = await self._session.elicit_form(message, schema, self._context.request_id)
        except (MCPError, ValueError):
            return None
        chosen = (result.content or {}).get(CHOICE) if result.action == "accept" else None
        return chosen if isinstance(chosen, str) and chosen in choices else None

    async def report(self, count: int, message: str) -> None:
        """Report progress of the call, if the client wants it. ``count`` must grow with each report."""
        await self._session.report_progress(count, None, message)


class CallVibeArguments(CallArguments):
    """The prompt, the place and how far to go."""

    prompt: Annotated[str, Field(description="The task, with everything the agent must know: it starts afresh.")]
    cwd: Annotated[str, Field(description="The folder to work in, as an absolute path.")]
    agent: Annotated[str | None, Field(description="The agent profile; as configured if left out.")] = None
    mode: Annotated[
        Literal["execute", "observe"],
        BeforeValidator(lambda given: (given.strip() or "execute") if isinstance(given, str) else given),
        Field(
            description="execute: may change files and run commands, as far as it is allowed to. observe: only looks; "
            "writing, commands that change something and the network are impossible."
        ),
    ] = "execute"
    timeout_ms: Annotated[
        float,
        Field(gt=0, le=LONGEST_MS, allow_inf_nan=False, description="It is stopped with all it started after that."),
    ] = DEFAULT_TIMEOUT_MS
    max_response_chars: ResponseChars = DEFAULT_RESPONSE_CHARS
    output_schema: Annotated[
        dict[str, Any] | None,
        Field(description="A JSON Schema: the answer is a value that fits it, in `value`, and as JSON in the text."),
    ] = None


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
            problem = f"{' and '.join(given)} were given" if given else "none was given"
            raise ValueError(f"give a goal, a plan or a plan_id, and one of them only: {problem}")
        if self.plan_id is None and self.cwd is None:
            raise ValueError("cwd is missing: give the absolute path of the folder to work in")
        fixed = [name for name in (*BUDGET, "cwd") if getattr(self, name) is not None]
        if self.plan_id is not None and fixed:
            raise ValueError(f"a plan that goes on keeps its own {', '.join(fixed)}: leave that out")
        return self

    @property
    def budget(self) -> Mapping[str, float]:
        """The limits of the plan as a whole."""
        return {name: limit for name in BUDGET if (limit := getattr(self, name)) is not None}


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


class ServedTool(Struct, frozen=True, kw_only=True):
    """A tool. The function of the same name in ``calls`` carries it out.

    ``answer`` holds the JSON schemas of fields of the answer's ``data``, by name. All answers have a ``status``, and
    refusals a ``detail``.
    """

    name: str
    title: str
    description: str
    arguments: type[CallArguments]
    answer: Mapping[str, Any] = field(default_factory=dict[str, Any])
    only_reads: bool = False

    def listed(self) -> dict[str, Any]:
        """Return the tool as clients see it."""
        return {
            "name": self.name,
            "title": self.title,
            "description": self.description,
            "inputSchema": parameter_schema(self.arguments),
            "outputSchema": {"type": "object", "properties": {**ANSWER, **self.answer}, "required": ["status"]},
            "annotations": {"readOnlyHint": self.only_reads},
        }


TOOLS = (
    ServedTool(
        name="call_vibe",
        title="Call Vibe",
        description="Delegate a task to vibe, a coding agent with its own tools (files, search, shell, subagents), and "
        "get its final answer. Each call is a conversation of its own; calls may run side by side.",
        arguments=CallVibeArguments,
        answer=MappingProxyType({
            "response": {"type": "string", "description": "The agent's final answer."},
            "value": {"description": "The answer as a value, where output_schema wants one."},
            "metadata": {"type": "object", "description": "Session, usage, cost, time, and what was denied."},
        }),
    ),
    ServedTool(
        name="plan_run",
        title="Run a plan",
        description="Have a larger task done by several agents of vibe: a plan of steps is written for the goal (or "
        "given), and carried out in the background, side by side where it can be. Returns its id at once; plan_status "
        "says how it stands, plan_decide answers what it waits for, plan_result tells what it came to.",
        arguments=PlanRunArguments,
    ),
    ServedTool(
        name="plan_status",
        title="Status of a plan",
        description="Say how a plan stands: how many of its steps are done, what each is at, and what it waits for. "
        "With wait_ms it answers once the plan has ended or waits for somebody.",
        arguments=PlanStatusArguments,
        only_reads=True,
    ),
    ServedTool(
        name="plan_decide",
        title="Decide for a plan",
        description="Answer something a plan waits for, by its request_id: an approval of a call or of the plan's "
        "commands, a decision, an agent's question. Or stop the plan. Ask the person you work for, unless they said "
        "how to decide.",
        arguments=PlanDecideArguments,
    ),
    ServedTool(
        name="plan_result",
        title="Result of a plan",
        description="Tell what a plan came to: its outcome, what each step says of its work, the files changed, what "
        "it took. Of a plan that still runs: what there is so far.",
        arguments=PlanResultArguments,
        only_reads=True,
    ),
)
"""All tools of this server."""
