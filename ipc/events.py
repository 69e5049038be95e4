"""Every fact a run announces: frozen msgspec structs in one tagged union.

Names, tags and fields are public: fields are only ever added, with a default. Values are plain data (names and
numbers), so that any language can read them. The header (``event_id`` ... ``ts``) is filled in by
``ipc.sink.StampingSink``; the identity (``session_id`` ... ``subagent_step_id``) by ``ipc.sink.TaggingSink``.
Whoever announces a fact only fills in the fields below them.
"""

from __future__ import annotations

from typing import Any, TypeAlias

from msgspec import Struct

from ipc.facts import (
    BaseEvent,
    Fact,
    PlanActEvent,
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
    UsageSum,
    WorkDone,
    WorkOrder,
    shortened,
)
from ipc.tool_events import (
    AnswerEvent,
    ApprovalDecisionEvent,
    ApprovalRequestEvent,
    BackgroundEndedEvent,
    BackgroundStartedEvent,
    CommandDisplay,
    DiffDisplay,
    Display,
    FilesDisplay,
    ImageDisplay,
    QuestionEvent,
    RequestWithdrawnEvent,
    TodoDisplay,
    TodoEntry,
    ToolArgumentsEvent,
    ToolCallEvent,
    ToolQueuedEvent,
    ToolResultEvent,
    ToolStreamEvent,
    WrittenFile,
)

__all__ = [
    "AnswerEvent",
    "ApprovalDecisionEvent",
    "ApprovalRequestEvent",
    "AssistantDeltaEvent",
    "AssistantEvent",
    "BackgroundEndedEvent",
    "BackgroundStartedEvent",
    "BaseEvent",
    "CommandDisplay",
    "CompactEndEvent",
    "CompactStartEvent",
    "ConversationClearedEvent",
    "ConversationConfiguredEvent",
    "ConversationRewoundEvent",
    "DiffDisplay",
    "Display",
    "ErrorEvent",
    "Event",
    "Fact",
    "FilesDisplay",
    "ImageDisplay",
    "MemoryEntryEvent",
    "ModelEndedEvent",
    "ModelStartedEvent",
    "PlanActEvent",
    "PlanAttemptEvent",
    "PlanBounds",
    "PlanCompletedEvent",
    "PlanDecisionEvent",
    "PlanEditedEvent",
    "PlanLeftEvent",
    "PlanPausedEvent",
    "PlanProposedEvent",
    "PlanResetEvent",
    "PlanResumedEvent",
    "PlanRetryEvent",
    "PlanReusedEvent",
    "PlanRevisedEvent",
    "PlanStartedEvent",
    "PlanStepUpdateEvent",
    "PlanStoppingEvent",
    "PlanWaitingEvent",
    "PlannedCommand",
    "PromptEndedEvent",
    "PromptStartedEvent",
    "QuestionEvent",
    "ReasoningDeltaEvent",
    "RequestWithdrawnEvent",
    "SessionEndedEvent",
    "SessionStartedEvent",
    "StepOutline",
    "SubAgentFinishedEvent",
    "SubAgentStartedEvent",
    "TodoDisplay",
    "TodoEntry",
    "ToolArgumentsEvent",
    "ToolCallEvent",
    "ToolQueuedEvent",
    "ToolResultEvent",
    "ToolServerEvent",
    "ToolStreamEvent",
    "UsageEvent",
    "UsageSum",
    "UserMessageEvent",
    "WarningEvent",
    "WorkDone",
    "WorkOrder",
    "WorktreeEvent",
    "WrittenFile",
    "shortened",
]

# --- conversation ---------------------------------------------------------------------------------------------


class PromptStartedEvent(BaseEvent, frozen=True, kw_only=True, tag="prompt.started"):
    """An agent set to work on a prompt; all until ``prompt.ended`` is for it.

    ``conversation_id`` stays while a conversation goes on under other session ids. ``origin``: ``user``, ``resume`` (a
    conversation that was cut off goes on) or ``shell`` (the user's own command line, no model).
    """

    prompt_id: str
    conversation_id: str = ""
    origin: str = "user"


class PromptEndedEvent(BaseEvent, frozen=True, kw_only=True, tag="prompt.ended"):
    """The work on a prompt ended. ``outcome``, ``reason`` and ``detail`` as in the result record.

    ``usage`` and ``cost_usd`` (None: unknown) are this prompt's alone, its subagents' among them.
    """

    prompt_id: str
    outcome: str
    conversation_id: str = ""
    reason: str | None = None
    detail: str = ""
    usage: UsageSum = UsageSum()
    cost_usd: float | None = None
    turns: int = 0
    duration_s: float = 0.0


class UserMessageEvent(BaseEvent, frozen=True, kw_only=True, tag="user.message"):
    """A prompt went to an agent.

    ``message_index`` is its place in the conversation, from 0 (None: unknown); ``images`` counts the pictures in it.
    ``origin``: ``prompt`` begins the work, ``steer`` came while it went on, ``host`` is a notice of the program's own.
    """

    text: str
    message_index: int | None = None
    images: int = 0
    origin: str = "prompt"


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
    """A whole answer of the model, as it went into the history.

    ``message_index`` as in ``user.message``. ``interrupted``: it is as far as it had come when a person stopped it.
    """

    message_id: str
    text: str
    tool_calls: int = 0
    finish_reason: str = "stop"
    message_index: int | None = None
    interrupted: bool = False


class ConversationConfiguredEvent(BaseEvent, frozen=True, kw_only=True, tag="conversation.configured"):
    """A conversation goes on with another agent, model, thinking or approval mode, from its next turn on.

    All of them are told; ``changed`` names those that are others now. ``by`` says who changed them.
    """

    agent: str
    model: str
    thinking: str = ""
    approvals: str = ""
    changed: tuple[str, ...] = ()
    conversation_id: str = ""
    by: str = ""


class ConversationClearedEvent(BaseEvent, frozen=True, kw_only=True, tag="conversation.cleared"):
    """A conversation goes on without a message: the next has index 0. ``new_session_id`` is where it goes on."""

    conversation_id: str = ""
    new_session_id: str = ""


class ConversationRewoundEvent(BaseEvent, frozen=True, kw_only=True, tag="conversation.rewound"):
    """A conversation was taken back: messages from ``message_index`` on are gone, ``files`` are as they were then."""

    message_index: int
    files: tuple[str, ...] = ()
    conversation_id: str = ""
    new_session_id: str = ""


# --- models ---------------------------------------------------------------------------------------------------


class ModelStartedEvent(BaseEvent, frozen=True, kw_only=True, tag="model.started"):
    """A model is asked. ``message_id`` is its answer's, and that of ``model.ended``.

    ``context_tokens`` estimates what it is sent, ``context_limit`` is what its window holds (None: not configured).
    ``purpose``: ``turn``, or ``compact`` for a summary of the conversation.
    """

    message_id: str
    model: str
    context_tokens: int = 0
    context_limit: int | None = None
    purpose: str = "turn"


class ModelEndedEvent(BaseEvent, frozen=True, kw_only=True, tag="model.ended"):
    """A model has answered (``ok``), could not be had (``failed``) or was stopped (``cancelled``).

    ``first_token_s`` is how long it took until the last ``attempt`` said something (None: it streamed nothing),
    ``duration_s`` how long all attempts took. ``usage`` tells the tokens.
    """

    message_id: str
    model: str
    status: str = "ok"
    attempt: int = 1
    first_token_s: float | None = None
    duration_s: float = 0.0


# --- planning -------------------------------------------------------------------------------------------------


class PlannedCommand(Struct, frozen=True, kw_only=True):
    """A command line that a plan would have run. ``purpose``: ``command``, or ``verify`` for a check."""

    step_id: str
    command: str
    purpose: str = "command"


class PlanBounds(Struct, frozen=True, kw_only=True):
    """Bounds on a plan, not guesses; tokens are prompt plus completion.

    ``width`` steps at most can run side by side; ``max_price`` None: there is no limit. ``worst_price`` is what
    ``max_tokens`` cost at most, within that limit; None: a price is unknown. ``notes`` say what a person should know, a
    sentence each.
    """

    steps: int
    model_steps: int = 0
    width: int = 1
    critical_path: tuple[str, ...] = ()
    max_turns: int = 0
    max_tokens: int = 0
    max_price: float | None = None
    worst_price: float | None = None
    notes: tuple[str, ...] = ()


class PlanProposedEvent(BaseEvent, frozen=True, kw_only=True, tag="plan.proposed"):
    """A plan was written for a goal; nothing of it runs before a person says so.

    ``document`` is the plan as its file would say it, ``commands`` all that it would have run. ``draft`` counts the
    proposals for one goal, ``repairs`` say what was put right in the model's own.
    """

    goal: str
    document: dict[str, Any]
    steps: tuple[StepOutline, ...] = ()
    estimate: PlanBounds | None = None
    commands: tuple[PlannedCommand, ...] = ()
    draft: int = 1
    repairs: tuple[str, ...] = ()


class PlanWaitingEvent(BaseEvent, frozen=True, kw_only=True, tag="plan.waiting"):
    """A step that could start waits for something.

    ``waits_for``: ``files`` (``step_ids`` write there), ``retry`` (for ``seconds``), ``revision`` (a better plan is
    looked for) or ``slot`` (as many steps run as may; a pending step of which nothing is said waits for that, too). Its
    next ``plan.step`` ends that. Where many wait for files it is told of some.
    """

    step_id: str
    waits_for: str
    step_ids: tuple[str, ...] = ()
    seconds: float | None = None


class WorktreeEvent(BaseEvent, frozen=True, kw_only=True, tag="worktree.state"):
    """The worktree of a step changed state; ``subagent_step_id`` names the step.

    ``status``: ``created`` (or taken up again), ``conflict`` (in ``files``; a subagent resolves it, the ``round``-th
    one), ``resolved``, ``merged`` (``files`` were changed in the workspace) or ``kept`` (on its branch: it was not
    merged, ``detail`` says why). ``left_out``: files that were merged but not committed.
    """

    status: str
    attempt: int = 1
    folder: str = ""
    branch: str = ""
    files: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()
    round: int = 0
    detail: str = ""


# --- subagents ------------------------------------------------------------------------------------------------


class SubAgentStartedEvent(BaseEvent, frozen=True, kw_only=True, tag="subagent.started"):
    """A subagent took a step. ``max_tokens`` and ``max_turns`` are its budget.

    ``agent`` is its profile (blank: none), ``folder`` where it works, ``pid`` its process.
    """

    title: str
    mode: str
    model: str
    tools: tuple[str, ...]
    max_tokens: int
    max_turns: int
    parent_id: str | None = None
    agent: str = ""
    folder: str = ""
    pid: int = 0


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
    """The history was summarised; sizes in tokens. ``messages_after`` of ``messages_before`` messages are left.

    A conversation goes on under another session id from here on, and under its ``conversation_id``.
    """

    tokens_before: int
    tokens_after: int
    messages_before: int | None = None
    messages_after: int | None = None
    conversation_id: str = ""


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
    """A server of tools is in another state. ``status``: ``starting``, ``ready`` or ``failed``, ``detail`` says why.

    ``tools`` counts what it offers; that may change while it is ``ready``.
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
    PromptStartedEvent
    | PromptEndedEvent
    | UserMessageEvent
    | AssistantDeltaEvent
    | ReasoningDeltaEvent
    | AssistantEvent
    | ConversationConfiguredEvent
    | ConversationClearedEvent
    | ConversationRewoundEvent
    | ModelStartedEvent
    | ModelEndedEvent
    | ToolCallEvent
    | ToolArgumentsEvent
    | ToolQueuedEvent
    | ToolStreamEvent
    | ToolResultEvent
    | ApprovalRequestEvent
    | ApprovalDecisionEvent
    | QuestionEvent
    | AnswerEvent
    | RequestWithdrawnEvent
    | BackgroundStartedEvent
    | BackgroundEndedEvent
    | PlanProposedEvent
    | PlanWaitingEvent
    | WorktreeEvent
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
