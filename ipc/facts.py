"""Fields of every event, and the facts: the events that change a plan's state, and the lines of its journal."""

from __future__ import annotations

from typing import Any, TypeAlias

from msgspec import Raw, Struct


class BaseEvent(Struct, frozen=True, kw_only=True, tag_field="type", gc=False):
    """Base of every event.

    ``seq`` counts 1, 2, 3 ... per ``source`` without holes; ``source`` names one publisher: one process run.
    ``ts`` is in unix seconds. ``subagent_id`` and ``subagent_step_id`` are set on everything a subagent does.
    """

    event_id: str = ""
    seq: int = 0
    source: str = ""
    ts: float = 0.0
    session_id: str = ""
    plan_id: str | None = None
    subagent_id: str | None = None
    subagent_step_id: str | None = None


# --- planning -------------------------------------------------------------------------------------------------


MOST_CHARACTERS = 4_000
"""Of a text that may be long, such as a step's prompt or summary, events tell so much."""


def shortened(text: str) -> str:
    """The text, or its first characters and a sign that there are more."""
    return text if len(text) <= MOST_CHARACTERS else text[: MOST_CHARACTERS - 1] + "…"


class WorkOrder(Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """A step's task and its bounds, as the plan says it; a field that is left out has its default.

    ``prompt`` is what its agent is told, its first characters if that is long; a step with a ``command`` has no agent.
    ``verify`` are its checks. ``on`` names the dependencies whose required end is not completion: ``finished`` or
    ``failed``. ``when`` are decisions and their required options. ``writes`` None: it may write anything;
    ``allowed_tools`` None: those of its mode. A limit of None is the one that is configured.
    """

    prompt: str = ""
    command: str | None = None
    verify: tuple[str, ...] = ()
    agent: str | None = None
    model: str | None = None
    decision: str | None = None
    when: dict[str, list[str]] = {}
    on: dict[str, str] = {}
    writes: tuple[str, ...] | None = None
    allowed_tools: tuple[str, ...] | None = None
    denied_tools: tuple[str, ...] = ()
    network: str | None = None
    max_tokens: int | None = None
    max_turns: int | None = None
    max_price: float | None = None
    timeout_seconds: float | None = None
    retries: int = 0
    on_failure: str = "stop"
    side_effects: bool = False
    priority: int = 0
    tags: tuple[str, ...] = ()


class UsageSum(Struct, frozen=True, kw_only=True, gc=False):
    """Tokens and number of model calls, added up."""

    prompt_tokens: int = 0
    completion_tokens: int = 0
    cached_tokens: int = 0
    calls: int = 0


class WorkDone(Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """The outcome of an attempt at a step; a field that is left out has its default.

    ``summary`` is the agent's own, its first characters if that is long. ``usage`` and ``cost_usd`` (None: unknown)
    count the subagents that its agent started, too. ``folder`` is where it worked if not in the workspace itself,
    ``branch`` the one that holds its work there, ``pid`` the process it ran in if not the plan's own.
    """

    summary: str = ""
    files_changed: tuple[str, ...] = ()
    usage: UsageSum = UsageSum()
    cost_usd: float | None = None
    turns: int = 0
    folder: str = ""
    branch: str = ""
    pid: int = 0


class StepOutline(Struct, frozen=True, kw_only=True, gc=False):
    """A step as a plan announces it.

    ``reason`` explains its initial status. ``reused``: the result of another plan is used; ``only``: left out of this
    run. ``workspace`` is ``shared``, or ``worktree`` if its work is merged at the end. ``attempt`` is the one that
    comes next, or was the last. ``order`` is all the rest of it.
    """

    id: str
    title: str
    mode: str
    depends_on: tuple[str, ...] = ()
    status: str = "pending"
    reason: str | None = None
    workspace: str = "shared"
    attempt: int = 1
    order: WorkOrder | None = None


class PlanStartedEvent(BaseEvent, frozen=True, kw_only=True, tag="plan.started"):
    """A plan began to run; ``steps`` outlines the whole DAG.

    ``note`` says which steps the run is about, if not all; ``reused_from`` is the plan whose results were reused.
    ``max_tokens`` is the whole plan's budget (None: no limit). ``pid`` and ``version`` are those of the process.
    """

    goal: str
    steps: tuple[StepOutline, ...]
    max_parallel_steps: int = 1
    note: str = ""
    reused_from: str | None = None
    max_tokens: int | None = None
    pid: int = 0
    version: str = ""


class PlanStepUpdateEvent(BaseEvent, frozen=True, kw_only=True, tag="plan.step"):
    """A step changed status. Durations in seconds; ``reason`` says why it ended, if not by completing.

    ``attempt`` is the one that runs, has ended or comes next. ``tolerated``: it failed, or was cancelled, and the plan
    continues as if it had not. ``work`` is the result of the attempt that ended; the plan's journal has it in
    ``plan.attempt``.
    """

    step_id: str
    title: str
    status: str
    previous: str
    reason: str | None = None
    detail: str = ""
    attempt: int = 1
    duration_s: float | None = None
    tolerated: bool = False
    work: WorkDone | None = None


class PlanAttemptEvent(BaseEvent, frozen=True, kw_only=True, tag="plan.attempt"):
    """An attempt at a step ended. It is recorded in the plan's journal.

    ``plan.step`` has the step's new status.

    ``result`` is the whole result, one JSON object. ``left`` says how the attempt was left if the step is not final by
    it: ``retrying`` (another one follows), ``asking`` (the user is asked), ``revising`` (the plan is being replanned),
    ``stopped`` (at a turn's end) or ``cut`` (in the middle of something). ``tolerated`` as in ``plan.step``.
    """

    step_id: str
    attempt: int
    result: Raw
    left: str | None = None
    tolerated: bool = False


class PlanActEvent(BaseEvent, frozen=True, kw_only=True, tag="plan.act"):
    """A running step was stopped for good, by ``by``: it is ``status`` once its attempt has ended.

    That is ``cancelled`` or ``skipped``; it is ``completed`` if the attempt ended first.
    """

    step_id: str
    attempt: int
    status: str
    by: str = ""


class PlanRetryEvent(BaseEvent, frozen=True, kw_only=True, tag="plan.retry"):
    """The wait before the next attempt at a step is over."""

    step_id: str
    attempt: int


class PlanDecisionEvent(BaseEvent, frozen=True, kw_only=True, tag="plan.decision"):
    """A decision opened (no ``selections``) or was made.

    ``by``: ``user``, ``flag``, ``default``, ``timeout`` or ``reuse``. One of the plan's own has no ``kind``; one about
    an ``attempt`` at a step says how that ended: ``failed`` or ``interrupted``. Without ``selections`` and by
    ``timeout``: it timed out, and has no default.

    ``options`` are ids; ``labels`` and ``descriptions`` describe them. ``default`` is taken when ``timeout_seconds``
    (0: never) have passed since it opened.
    """

    decision_id: str
    question: str
    options: tuple[str, ...] = ()
    selections: tuple[str, ...] = ()
    by: str = ""
    labels: tuple[str, ...] = ()
    descriptions: tuple[str, ...] = ()
    multi_select: bool = False
    default: tuple[str, ...] = ()
    timeout_seconds: float = 0.0
    kind: str = ""
    step_id: str | None = None
    attempt: int = 0


class PlanRevisedEvent(BaseEvent, frozen=True, kw_only=True, tag="plan.revised"):
    """The plan's steps or edges changed; each operation is one entry of the diff.

    ``by`` is ``replan`` if the failure of ``step_id`` led to it, else who asked. ``number`` counts the plan's revisions
    from 1 (0: by a version that did not count).
    """

    operations: tuple[dict[str, Any], ...]
    reason: str = ""
    by: str = ""
    step_id: str | None = None
    number: int = 0


class PlanStoppingEvent(BaseEvent, frozen=True, kw_only=True, tag="plan.stopping"):
    """Nothing more is started; once nothing runs the plan is ``status``: ``paused``, ``cancelled`` or ``failed``.

    ``outcome``: that of a provider's refusal, if that is the cause.
    """

    status: str
    reason: str
    outcome: str | None = None


class PlanPausedEvent(BaseEvent, frozen=True, kw_only=True, tag="plan.paused"):
    """Nothing more is started; the plan can be resumed. ``outcome``: that of the run that ended here."""

    reason: str
    outcome: str | None = None


class PlanResumedEvent(BaseEvent, frozen=True, kw_only=True, tag="plan.resumed"):
    """A plan was resumed after a pause or the end of its process; ``done`` counts the steps already final.

    ``tokens`` of ``max_tokens`` (None: no limit) were recorded as spent before. ``pid`` and ``version`` are the
    process's.
    """

    goal: str
    steps: tuple[StepOutline, ...]
    done: int
    tokens: int = 0
    max_tokens: int | None = None
    pid: int = 0
    version: str = ""


class PlanCompletedEvent(BaseEvent, frozen=True, kw_only=True, tag="plan.completed"):
    """The plan ended. ``status``: ``completed``, ``failed`` or ``cancelled``; ``counts``: steps per status.

    ``outcome``: that of the run that ended here.
    """

    status: str
    counts: dict[str, int]
    duration_s: float
    reason: str | None = None
    outcome: str | None = None


class PlanEditedEvent(BaseEvent, frozen=True, kw_only=True, tag="plan.edited"):
    """A command changed the plan while it was not running; the facts up to the next process are its changes."""

    pid: int = 0


class PlanResetEvent(BaseEvent, frozen=True, kw_only=True, tag="plan.reset"):
    """Steps will run again; their attempts keep counting."""

    step_ids: tuple[str, ...]


class PlanReusedEvent(BaseEvent, frozen=True, kw_only=True, tag="plan.reused"):
    """The step's result was reused from another plan, at no cost."""

    step_id: str
    from_plan: str
    result: Raw


class PlanLeftEvent(BaseEvent, frozen=True, kw_only=True, tag="plan.left"):
    """A process released the plan with the workspace's repository at this commit."""

    commit: str


Fact: TypeAlias = (
    PlanStartedEvent
    | PlanResumedEvent
    | PlanStepUpdateEvent
    | PlanAttemptEvent
    | PlanActEvent
    | PlanRetryEvent
    | PlanDecisionEvent
    | PlanRevisedEvent
    | PlanStoppingEvent
    | PlanPausedEvent
    | PlanCompletedEvent
    | PlanEditedEvent
    | PlanResetEvent
    | PlanReusedEvent
    | PlanLeftEvent
)
"""Everything that changes how a plan stands; the plan's journal holds these and nothing else."""
