"""Every fact a run announces: frozen msgspec structs in one tagged union.

Names, tags and fields are public: fields are only ever added, with a default. Values are plain data (names and
numbers), so that any language can read them. The header (``event_id`` ... ``ts``) is filled in by
``ipc.sink.StampingSink``; the identity (``session_id`` ... ``subagent_step_id``) by ``ipc.sink.TaggingSink``.
The announcer of a fact only fills in the fields below them.
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
    """An agent started on a prompt; everything until ``prompt.ended`` belongs to it.

    ``conversation_id`` stays the same while a conversation continues under other session ids. ``origin``: ``user``,
    ``resume`` (an interrupted conversation continues) or ``shell`` (the user's own command line, no model).
    """

    prompt_id: str
    conversation_id: str = ""
    origin: str = "user"


class PromptEndedEvent(BaseEvent, frozen=True, kw_only=True, tag="prompt.ended"):
    """The work on a prompt ended. ``outcome``, ``reason`` and ``detail`` as in the result record.

    ``usage`` and ``cost_usd`` (None: unknown) are for this prompt only, its subagents included.
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
    ``origin``: ``prompt`` begins the work, ``steer`` came while the agent worked, ``host`` is a notice from the
    program.
    """

    text: str
    message_index: int | None = None
    images: int = 0
    origin: str = "prompt"


class AssistantDeltaEvent(BaseEvent, frozen=True, kw_only=True, tag="assistant.delta"):
    """A piece of an answer, as it streams.

    A higher ``attempt`` for the same ``message_id`` replaces everything lower attempts showed (the stream broke and the
    request was repeated).
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

    ``message_index`` as in ``user.message``. ``interrupted``: the user stopped it here.
    """

    message_id: str
    text: str
    tool_calls: int = 0
    finish_reason: str = "stop"
    message_index: int | None = None
    interrupted: bool = False


class ConversationConfiguredEvent(BaseEvent, frozen=True, kw_only=True, tag="conversation.configured"):
    """A conversation continues with another agent, model, thinking or approval mode, from its next turn on.

    All of them are given; ``changed`` names those that changed. ``by`` says who changed them.
    """

    agent: str
    model: str
    thinking: str = ""
    approvals: str = ""
    changed: tuple[str, ...] = ()
    conversation_id: str = ""
    by: str = ""


class ConversationClearedEvent(BaseEvent, frozen=True, kw_only=True, tag="conversation.cleared"):
    """A conversation was cleared: the next message has index 0, in the session ``new_session_id``."""

    conversation_id: str = ""
    new_session_id: str = ""


class ConversationRewoundEvent(BaseEvent, frozen=True, kw_only=True, tag="conversation.rewound"):
    """A conversation was rewound: messages from ``message_index`` on are gone, ``files`` are restored."""

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
    """A model has answered (``ok``), could not be reached (``failed``) or was stopped (``cancelled``).

    ``first_token_s`` is the time until the last ``attempt`` streamed its first token (None: it streamed nothing),
    ``duration_s`` that of all attempts. ``usage`` counts the tokens.
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

    At most ``width`` steps can run in parallel; ``max_price`` None: there is no limit. ``worst_price`` is what
    ``max_tokens`` cost at most, within that limit; None: a price is unknown. ``notes`` are sentences for the user.
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
    """A plan was written for a goal; nothing runs before the user accepts it.

    ``document`` is the plan as in a file, ``commands`` are all it would run.
    ``draft`` counts the proposals for one goal, ``repairs`` say what was fixed in the model's output.
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

    ``waits_for``: ``files`` (``step_ids`` write there), ``retry`` (for ``seconds``), ``revision`` (the plan is being
    replanned) or ``slot`` (the maximum number of steps is running; a pending step without this event waits for that
    too). Its next ``plan.step`` ends the wait. Where many wait for files, only some are announced.
    """

    step_id: str
    waits_for: str
    step_ids: tuple[str, ...] = ()
    seconds: float | None = None


class WorktreeEvent(BaseEvent, frozen=True, kw_only=True, tag="worktree.state"):
    """The worktree of a step changed state; ``subagent_step_id`` names the step.

    ``status``: ``created`` (or resumed), ``conflict`` (in ``files``; a subagent resolves it, the ``round``-th one),
    ``resolved``, ``merged`` (``files`` were changed in the workspace) or ``kept`` (on its branch: it was not merged,
    ``detail`` says why). ``left_out``: files that were merged but not committed.
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
    """A subagent started a step. ``max_tokens`` and ``max_turns`` are its budget.

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

    A conversation continues under another session id from here on, with the same ``conversation_id``.
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
    """A tool server changed state. ``status``: ``starting``, ``ready`` or ``failed``, ``detail`` says why.

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
    """Something the user should know that stopped nothing; ``code`` is stable, ``message`` is for people.

    ``wait_seconds``: how long until something happens again, if known.
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
