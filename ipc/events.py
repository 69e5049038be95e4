"""Every fact a run announces: frozen msgspec structs in one tagged union.

Names, tags and fields are public: fields are only ever added, with a default. Values are plain data (names and
numbers), so that any language can read them. The header (``event_id`` ... ``ts``) is filled in by
``ipc.sink.StampingSink``; the identity (``session_id`` ... ``subagent_step_id``) by ``ipc.sink.TaggingSink``.
The announcer of a fact only fills in the fields below them.
"""

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


class UsageSum(Struct, frozen=True, gc=False):
    """Tokens and number of model calls, added up."""

    prompt_tokens: int = 0
    completion_tokens: int = 0
    cached_tokens: int = 0
    calls: int = 0

    @property
    def total_tokens(self) -> int:
        """Prompt plus completion."""
        return self.prompt_tokens + self.completion_tokens


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
    program. ``by`` says who steered from elsewhere, as their command did (blank: nobody did).
    """

    text: str
    message_index: int | None = None
    images: int = 0
    origin: str = "prompt"
    by: str = ""


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
    ``purpose``: ``turn``, or ``compact`` for a summary of the conversation. ``provider`` is the configured one's name.
    """

    message_id: str
    model: str
    context_tokens: int = 0
    context_limit: int | None = None
    purpose: str = "turn"
    provider: str = ""


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


# --- tools ----------------------------------------------------------------------------------------------------


class _Display(Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="kind"):
    """The base of every display; a field that is left out has its default."""


class WrittenFile(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A file that a call writes: ``added`` and ``removed`` count lines; ``created``: there was none before."""

    path: str
    added: int = 0
    removed: int = 0
    created: bool = False


class DiffDisplay(_Display, frozen=True, kw_only=True, tag="diff"):
    """Files written; the diff itself is the ``diff`` of the event."""

    files: tuple[WrittenFile, ...]


class CommandDisplay(_Display, frozen=True, kw_only=True, tag="command"):
    """A command line. ``exit_code`` None: it has not ended, or was stopped.

    ``output_files`` hold the whole of an output that the result shows in part; ``handle`` names a command that
    continues in the background.
    """

    command: str
    exit_code: int | None = None
    duration_s: float = 0.0
    timed_out: bool = False
    output_files: tuple[str, ...] = ()
    handle: str = ""


class TodoEntry(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A thing to do. ``status``: ``pending``, ``in_progress``, ``completed`` or ``cancelled``."""

    id: str
    content: str
    status: str = "pending"
    priority: str = "medium"


class TodoDisplay(_Display, frozen=True, kw_only=True, tag="todo"):
    """The agent's whole list of things to do, as it is now."""

    items: tuple[TodoEntry, ...] = ()


class FilesDisplay(_Display, frozen=True, kw_only=True, tag="files"):
    """The first files read or found; ``total`` counts all (None: there may be more, uncounted)."""

    paths: tuple[str, ...] = ()
    total: int | None = None


class ImageDisplay(_Display, frozen=True, kw_only=True, tag="image"):
    """A picture; the bytes are in the file, not in the event."""

    path: str
    media_type: str = ""
    size_bytes: int = 0


Display: TypeAlias = DiffDisplay | CommandDisplay | TodoDisplay | FilesDisplay | ImageDisplay
"""Every kind of display; a renderer that matches on it ends in ``assert_never``."""


class ToolCallEvent(BaseEvent, frozen=True, kw_only=True, tag="tool.call"):
    """The model asked for a tool.

    ``arguments`` are as parsed, or ``{}`` with ``raw`` set if they were not a JSON object.
    """

    tool_call_id: str
    tool: str
    arguments: dict[str, Any]
    summary: str = ""
    raw: str | None = None


class ToolArgumentsEvent(BaseEvent, frozen=True, kw_only=True, tag="tool.arguments"):
    """A piece of a call's arguments, as the model writes them; ``tool.call`` has all of them, once they are whole.

    ``text`` is JSON, not yet all of it; the first piece names the tool and may be blank, the last ones may be left out.
    ``index`` counts the calls of one answer; ``attempt`` as in AssistantDeltaEvent.
    """

    message_id: str
    index: int
    tool: str
    text: str = ""
    tool_call_id: str = ""
    attempt: int = 1


class ToolQueuedEvent(BaseEvent, frozen=True, kw_only=True, tag="tool.queued"):
    """A call is queued: behind the ``calls`` before it in the same answer, or behind another open ``request``."""

    tool_call_id: str
    tool: str
    summary: str = ""
    waits_for: str = "calls"


class ToolStreamEvent(BaseEvent, frozen=True, kw_only=True, tag="tool.stream"):
    """Output of a tool that is still running.

    ``stream``: ``stdout`` or ``stderr``, blank if both or neither. ``dropped_bytes`` before this text are not shown.
    """

    tool_call_id: str
    tool: str
    text: str
    stream: str = ""
    dropped_bytes: int = 0


class ToolResultEvent(BaseEvent, frozen=True, kw_only=True, tag="tool.result"):
    """A tool call ended. ``status``: ``ok``, ``error``, ``denied`` or ``cancelled``.

    ``diff`` is what it changed in a file, ``display`` the result as data (None: there is only the text). ``images``
    counts the pictures that the model is shown.
    """

    tool_call_id: str
    tool: str
    status: str
    content: str
    duration_s: float = 0.0
    files_changed: tuple[str, ...] = ()
    diff: str = ""
    display: Display | None = None
    images: int = 0


class ApprovalRequestEvent(BaseEvent, frozen=True, kw_only=True, tag="approval.requested"):
    """A call waits for approval; ``diff`` is what it would change in a file.

    ``summary`` is the call on one line, ``preview`` what it would do as data (None: the arguments say it). ``covers``
    is what approval for the ``session``, or for ``always``, would allow from then on; if empty, only ``once`` is
    offered. ``edits``: approving all edits covers it. ``cwd`` is where it would run; ``confined`` says whether in a
    sandbox (None: it runs no command).
    """

    request_id: str
    tool_call_id: str
    tool: str
    arguments: dict[str, Any]
    rule: str
    reason: str = ""
    diff: str = ""
    summary: str = ""
    covers: tuple[str, ...] = ()
    edits: bool = False
    preview: Display | None = None
    cwd: str = ""
    confined: bool | None = None


OWN_ANSWERS = frozenset({"user", "timeout", "nobody", ""})
"""Values of ``by`` of a request that was not answered from elsewhere."""


class ApprovalDecisionEvent(BaseEvent, frozen=True, kw_only=True, tag="approval.decided"):
    """A request was answered. ``decision``: ``allow`` or ``deny``; ``scope``: ``once``, ``session`` or ``always``.

    ``by``: ``user`` (at the run's terminal), ``control`` or another name (a program, at its control address),
    ``timeout`` or ``nobody``.
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
    tool_call_id: str = ""


class AnswerEvent(BaseEvent, frozen=True, kw_only=True, tag="question.answered"):
    """The user answered, or ``cancelled``; ``by`` as in ``approval.decided``."""

    request_id: str
    answers: tuple[dict[str, Any], ...] = ()
    cancelled: bool = False
    by: str = ""


class RequestWithdrawnEvent(BaseEvent, frozen=True, kw_only=True, tag="request.withdrawn"):
    """No answer is needed any more: the asker is gone. ``kind`` of the request: ``approval`` or ``question``."""

    request_id: str
    kind: str
    reason: str = ""


class BackgroundStartedEvent(BaseEvent, frozen=True, kw_only=True, tag="background.started"):
    """A command runs in the background while its agent works; ``handle`` names it for that agent."""

    handle: str
    command: str
    tool_call_id: str = ""


class BackgroundEndedEvent(BaseEvent, frozen=True, kw_only=True, tag="background.ended"):
    """A background command ended.

    ``status``: ``exited``, ``stopped``, ``timeout`` or ``lost`` (unknown how). ``output`` is the end of its output;
    ``output_files`` hold all of it, if long.
    """

    handle: str
    command: str
    status: str
    exit_code: int | None = None
    duration_s: float = 0.0
    output: str = ""
    output_files: tuple[str, ...] = ()


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


class Expectation(Struct, frozen=True, kw_only=True):
    """The seconds, tokens and USD (None: unknown) that something is expected to take; no bounds.

    They are medians of what like steps of earlier plans took, without the waits for a person.
    """

    seconds: float
    tokens: int = 0
    cost_usd: float | None = None


class PlanExpectation(Expectation, frozen=True, kw_only=True):
    """The same of a plan, of which so many steps run ``at_once``. ``steps`` are those to be run, by id."""

    at_once: int = 1
    steps: dict[str, Expectation] = {}


class PlanProposedEvent(BaseEvent, frozen=True, kw_only=True, tag="plan.proposed"):
    """A plan was written for a goal; nothing runs before the user accepts it.

    ``document`` is the plan as in a file, ``commands`` are all it would run. ``expected`` None: not enough is known.
    ``draft`` counts the proposals for one goal, ``repairs`` say what was fixed in the model's output.
    """

    goal: str
    document: dict[str, Any]
    steps: tuple[StepOutline, ...] = ()
    estimate: PlanBounds | None = None
    expected: PlanExpectation | None = None
    commands: tuple[PlannedCommand, ...] = ()
    draft: int = 1
    repairs: tuple[str, ...] = ()


class PlanWaitingEvent(BaseEvent, frozen=True, kw_only=True, tag="plan.waiting"):
    """A step that could start waits for something.

    ``waits_for``: ``files`` (``step_ids`` write there), ``retry`` (for ``seconds``), ``revision`` (the plan is being
    replanned), ``worker`` (no machine of the cluster has room; ``step.place`` ends it) or ``slot`` (the maximum number
    of steps is running; a pending step without this event waits for that too). Its next ``plan.step`` ends the wait.
    Where many wait for files, only some are announced.
    """

    step_id: str
    waits_for: str
    step_ids: tuple[str, ...] = ()
    seconds: float | None = None


class PlacementEvent(BaseEvent, frozen=True, kw_only=True, tag="step.place"):
    """An attempt is done on another machine; ``subagent_step_id`` names the step.

    ``status``: ``placed`` on a ``worker`` (its host and port), or ``lost`` with it, as ``detail`` says: unless the step
    fails, the same attempt goes on with another.
    """

    status: str
    worker: str
    attempt: int = 1
    detail: str = ""


class WorktreeEvent(BaseEvent, frozen=True, kw_only=True, tag="worktree.state"):
    """The worktree of a step changed state; ``subagent_step_id`` names the step.

    ``status``: ``created`` (or resumed), ``conflict`` (in ``files``; a subagent resolves it, the ``round``-th one),
    ``resolved``, ``merged`` (``files`` were changed in the workspace) or ``kept`` (on its branch: it was not merged,
    ``detail`` says why). ``left_out``: files that were merged but not committed. ``base`` is the commit it began at,
    ``commit`` the one that holds its work, once there is one.
    """

    status: str
    attempt: int = 1
    folder: str = ""
    branch: str = ""
    files: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()
    round: int = 0
    detail: str = ""
    base: str = ""
    commit: str = ""


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
    ``allowed_tools`` None: those of its mode. A limit of None is the one that is configured. ``pattern`` is the step of
    whose list it does one item (blank: none). ``models`` are those of its attempts, first to last, if it has several;
    then ``model`` is the first.
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
    pattern: str = ""
    models: tuple[str, ...] = ()


class WorkDone(Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """The outcome of an attempt at a step; a field that is left out has its default.

    ``summary`` is the agent's own, its first characters if that is long. ``usage`` and ``cost_usd`` (None: unknown)
    count the subagents that its agent started, too. ``folder`` is where it worked if not in the workspace itself,
    ``branch`` the one that holds its work there, ``pid`` the process it ran in and ``worker`` the machine, by host and
    port, if not the plan's own. ``lost`` says how often it was lost with a worker.
    """

    summary: str = ""
    files_changed: tuple[str, ...] = ()
    usage: UsageSum = UsageSum()
    cost_usd: float | None = None
    turns: int = 0
    folder: str = ""
    branch: str = ""
    pid: int = 0
    worker: str = ""
    lost: int = 0


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
    ``max_tokens`` is the whole plan's budget (None: no limit). ``pid`` and ``version`` are those of the process,
    ``workspace`` the folder it works in. ``expected`` is what it will take, as far as can be told (None: it can't).
    """

    goal: str
    steps: tuple[StepOutline, ...]
    max_parallel_steps: int = 1
    note: str = ""
    reused_from: str | None = None
    max_tokens: int | None = None
    pid: int = 0
    version: str = ""
    workspace: str = ""
    expected: PlanExpectation | None = None


class PlanStepUpdateEvent(BaseEvent, frozen=True, kw_only=True, tag="plan.step"):
    """A step changed status. Durations in seconds; ``reason`` says why it ended, if not by completing.

    ``attempt`` is the one that runs, has ended or comes next. ``tolerated``: it failed, or was cancelled, and the plan
    continues as if it had not. ``work`` is the result of the attempt that ended; the plan's journal has it in
    ``plan.attempt``, or here if the step had no attempt and ended after those for its items.
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
    ``stopped`` (at a turn's end) or ``cut`` (in the middle of something). ``tolerated`` as in ``plan.step``. ``model``
    is the one that the plan names for the attempt (blank: none).
    """

    step_id: str
    attempt: int
    result: Raw
    left: str | None = None
    tolerated: bool = False
    model: str = ""


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


class ReviewComment(Struct, frozen=True, kw_only=True):
    """A person's comment on lines of a file that a step changed, from ``first`` to ``last``, counted from 1.

    ``code`` is what the lines were; ``stale``: they are not in the file any more.
    """

    file: str
    first: int
    last: int
    text: str
    code: str = ""
    stale: bool = False


class PlanToldEvent(BaseEvent, frozen=True, kw_only=True, tag="plan.told"):
    """A person told a step's agent something: words, or ``comments`` on what it changed.

    It reads that before its next turn, be it in a new attempt; the step does not complete without.
    """

    step_id: str
    text: str = ""
    comments: tuple[ReviewComment, ...] = ()
    by: str = ""


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

    @property
    def request_id(self) -> str:
        """The id by which the decision is made, as others are answered by theirs."""
        return self.decision_id


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

    ``tokens`` of ``max_tokens`` (None: no limit) were recorded as spent before. ``pid``, ``version``, ``workspace`` and
    ``expected``, which is of the whole plan, as in ``plan.started``.
    """

    goal: str
    steps: tuple[StepOutline, ...]
    done: int
    tokens: int = 0
    max_tokens: int | None = None
    pid: int = 0
    version: str = ""
    workspace: str = ""
    expected: PlanExpectation | None = None


class PlanCompletedEvent(BaseEvent, frozen=True, kw_only=True, tag="plan.completed"):
    """The plan ended. ``status``: ``completed``, ``failed`` or ``cancelled``; ``counts``: steps per status.

    ``outcome``: that of the run that ended here.
    """

    status: str
    counts: dict[str, int]
    duration_s: float
    reason: str | None = None
    outcome: str | None = None


class ItemOutline(Struct, frozen=True, kw_only=True, gc=False):
    """A step that is made for an item of a list; ``key`` names the item."""

    id: str
    key: str
    title: str


class PlanUnfoldedEvent(BaseEvent, frozen=True, kw_only=True, tag="plan.unfolded"):
    """The list of a step with ``for_each`` was read: there is a step for each item from now on, in the items' order.

    They are as that step is, and it ends after them. ``items`` is the digest of the list, which is kept in its folder.
    """

    step_id: str
    children: tuple[ItemOutline, ...]
    items: str


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


Fact: TypeAlias = (
    PlanStartedEvent
    | PlanResumedEvent
    | PlanStepUpdateEvent
    | PlanAttemptEvent
    | PlanActEvent
    | PlanRetryEvent
    | PlanToldEvent
    | PlanDecisionEvent
    | PlanRevisedEvent
    | PlanStoppingEvent
    | PlanPausedEvent
    | PlanCompletedEvent
    | PlanEditedEvent
    | PlanResetEvent
    | PlanReusedEvent
    | PlanLeftEvent
    | PlanUnfoldedEvent
)
"""Everything that changes how a plan stands; the plan's journal holds these and nothing else."""


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
    | PlacementEvent
)
"""Every event class; a renderer that matches on it ends in ``assert_never``."""
