"""Every fact a run announces: frozen msgspec structs in one tagged union.

Names, tags and fields are public: fields are only ever added, with a default. Values are plain data (names and
numbers), so that any language can read them. The header (``event_id`` ... ``ts``) is filled in by
``ipc.sink.StampingSink``; the identity (``session_id`` ... ``subagent_step_id``) by ``ipc.sink.TaggingSink``.
Whoever announces a fact only fills in the fields below them.
"""

from __future__ import annotations

from typing import Any, TypeAlias

from ipc.facts import (
    BaseEvent,
    Fact,
    PlanAttemptEvent,
    PlanCompletedEvent,
    PlanDecisionEvent,
    PlanEditedEvent,
    PlanLeftEvent,
    PlanPausedEvent,
    PlanResetEvent,
    PlanResumedEvent,
    PlanRetryEvent,
    PlanReusedEvent,
    PlanRevisedEvent,
    PlanStartedEvent,
    PlanStepUpdateEvent,
    PlanStoppingEvent,
    StepOutline,
)

__all__ = [
    "AnswerEvent",
    "ApprovalDecisionEvent",
    "ApprovalRequestEvent",
    "AssistantDeltaEvent",
    "AssistantEvent",
    "BaseEvent",
    "CompactEndEvent",
    "CompactStartEvent",
    "ErrorEvent",
    "Event",
    "Fact",
    "MemoryEntryEvent",
    "PlanAttemptEvent",
    "PlanCompletedEvent",
    "PlanDecisionEvent",
    "PlanEditedEvent",
    "PlanLeftEvent",
    "PlanPausedEvent",
    "PlanResetEvent",
    "PlanResumedEvent",
    "PlanRetryEvent",
    "PlanReusedEvent",
    "PlanRevisedEvent",
    "PlanStartedEvent",
    "PlanStepUpdateEvent",
    "PlanStoppingEvent",
    "QuestionEvent",
    "ReasoningDeltaEvent",
    "SessionEndedEvent",
    "SessionStartedEvent",
    "StepOutline",
    "SubAgentFinishedEvent",
    "SubAgentStartedEvent",
    "ToolCallEvent",
    "ToolResultEvent",
    "ToolServerEvent",
    "ToolStreamEvent",
    "UsageEvent",
    "UserMessageEvent",
    "WarningEvent",
]

# --- conversation ---------------------------------------------------------------------------------------------


class UserMessageEvent(BaseEvent, frozen=True, kw_only=True, tag="user.message"):
    """A prompt went to an agent."""

    text: str


class AssistantDeltaEvent(BaseEvent, frozen=True, kw_only=True, tag="assistant.delta"):
    """A piece of an answer, as it streams.

    A higher ``attempt`` for the same ``message_id`` replaces everything that lower attempts showed (the stream was
    cut and the request repeated).
    """

    message_id: str
    text: str
    attempt: int = 1


class ReasoningDeltaEvent(BaseEvent, frozen=True, kw_only=True, tag="assistant.reasoning"):
    """A piece of the model's reasoning, as it streams; ``attempt`` as in AssistantDeltaEvent."""

    message_id: str
    text: str
    attempt: int = 1


class AssistantEvent(BaseEvent, frozen=True, kw_only=True, tag="assistant.message"):
    """A whole answer of the model, as it went into the history."""

    message_id: str
    text: str
    tool_calls: int = 0
    finish_reason: str = "stop"


# --- tools ----------------------------------------------------------------------------------------------------


class ToolCallEvent(BaseEvent, frozen=True, kw_only=True, tag="tool.call"):
    """The model asked for a tool.

    ``arguments`` are as parsed, or ``{}`` with ``raw`` set if they were no JSON object.
    """

    tool_call_id: str
    tool: str
    arguments: dict[str, Any]
    summary: str = ""
    raw: str | None = None


class ToolStreamEvent(BaseEvent, frozen=True, kw_only=True, tag="tool.stream"):
    """Output of a tool that is still running."""

    tool_call_id: str
    tool: str
    text: str


class ToolResultEvent(BaseEvent, frozen=True, kw_only=True, tag="tool.result"):
    """A tool call ended. ``status``: ``ok``, ``error``, ``denied`` or ``cancelled``.

    ``diff`` is what it changed in a file.
    """

    tool_call_id: str
    tool: str
    status: str
    content: str
    duration_s: float = 0.0
    files_changed: tuple[str, ...] = ()
    diff: str = ""


class ApprovalRequestEvent(BaseEvent, frozen=True, kw_only=True, tag="approval.requested"):
    """A call waits for a person's yes; ``diff`` is what it would change in a file."""

    request_id: str
    tool_call_id: str
    tool: str
    arguments: dict[str, Any]
    rule: str
    reason: str = ""
    diff: str = ""


class ApprovalDecisionEvent(BaseEvent, frozen=True, kw_only=True, tag="approval.decided"):
    """A request was answered. ``decision``: ``allow`` or ``deny``; ``scope``: ``once``, ``session`` or ``always``.

    ``by``: ``user`` (at the run's terminal), ``control`` (a program, at its control address), ``timeout`` or
    ``nobody``.
    """

    request_id: str
    decision: str
    scope: str = "once"
    reason: str = ""
    by: str = "nobody"


class QuestionEvent(BaseEvent, frozen=True, kw_only=True, tag="question.asked"):
    """An agent asked the user something; each question: question, header, options, multi_select."""

    request_id: str
    questions: tuple[dict[str, Any], ...]


class AnswerEvent(BaseEvent, frozen=True, kw_only=True, tag="question.answered"):
    """The user answered, or ``cancelled``."""

    request_id: str
    answers: tuple[dict[str, Any], ...] = ()
    cancelled: bool = False


# --- subagents ------------------------------------------------------------------------------------------------


class SubAgentStartedEvent(BaseEvent, frozen=True, kw_only=True, tag="subagent.started"):
    """A subagent took a step. ``max_tokens`` and ``max_turns`` are its budget."""

    title: str
    mode: str
    model: str
    tools: tuple[str, ...]
    max_tokens: int
    max_turns: int
    parent_id: str | None = None


class SubAgentFinishedEvent(BaseEvent, frozen=True, kw_only=True, tag="subagent.finished"):
    """A subagent ended. ``outcome`` as in the result record; tokens are prompt plus completion."""

    outcome: str
    reason: str | None
    tokens: int
    turns: int
    duration_s: float
    cost_usd: float | None = None


# --- memory ---------------------------------------------------------------------------------------------------


class MemoryEntryEvent(BaseEvent, frozen=True, kw_only=True, tag="memory.entry"):
    """A memory entry was ``added``, ``changed`` or ``removed``."""

    entry_id: str
    action: str
    text: str = ""


class CompactStartEvent(BaseEvent, frozen=True, kw_only=True, tag="compact.start"):
    """The history is about to be summarised; sizes in tokens."""

    context_tokens: int
    threshold: int


class CompactEndEvent(BaseEvent, frozen=True, kw_only=True, tag="compact.end"):
    """The history was summarised; sizes in tokens."""

    tokens_before: int
    tokens_after: int


# --- session --------------------------------------------------------------------------------------------------


class SessionStartedEvent(BaseEvent, frozen=True, kw_only=True, tag="session.started"):
    """An agent's session began."""

    workspace: str
    model: str
    agent: str = "default"
    version: str = ""


class SessionEndedEvent(BaseEvent, frozen=True, kw_only=True, tag="session.ended"):
    """The session ended; ``outcome`` and ``exit_code`` as in the result record."""

    outcome: str
    exit_code: int


class ToolServerEvent(BaseEvent, frozen=True, kw_only=True, tag="server.state"):
    """A server of tools has settled, or offers others now. ``status``: ``ready`` or ``failed``, ``detail`` says why.

    ``tools`` counts what it offers.
    """

    server: str
    transport: str
    status: str
    tools: int = 0
    detail: str = ""


class UsageEvent(BaseEvent, frozen=True, kw_only=True, tag="usage"):
    """One model call was settled. ``cost_usd`` is None if the price is unknown, never 0 in its place."""

    model: str
    prompt_tokens: int
    completion_tokens: int
    cached_tokens: int = 0
    cost_usd: float | None = None


class WarningEvent(BaseEvent, frozen=True, kw_only=True, tag="warning"):
    """Something a person should know that stopped nothing; ``code`` is stable, ``message`` is for people.

    ``wait_seconds``: so long nothing more is to be expected of this, if that is known.
    """

    code: str
    message: str
    wait_seconds: float | None = None


class ErrorEvent(BaseEvent, frozen=True, kw_only=True, tag="error"):
    """Something failed; ``code`` is stable, ``message`` is for people."""

    code: str
    message: str


Event: TypeAlias = (
    UserMessageEvent
    | AssistantDeltaEvent
    | ReasoningDeltaEvent
    | AssistantEvent
    | ToolCallEvent
    | ToolStreamEvent
    | ToolResultEvent
    | ApprovalRequestEvent
    | ApprovalDecisionEvent
    | QuestionEvent
    | AnswerEvent
    | Fact
    | SubAgentStartedEvent
    | SubAgentFinishedEvent
    | MemoryEntryEvent
    | CompactStartEvent
    | CompactEndEvent
    | SessionStartedEvent
    | SessionEndedEvent
    | ToolServerEvent
    | UsageEvent
    | WarningEvent
    | ErrorEvent
)
"""Every event class; a renderer that matches on it ends in ``assert_never``."""
