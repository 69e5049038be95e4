"""Every event a run announces: frozen msgspec structs in one tagged union.

Names, tags and fields are public: fields are only ever added, and a new one has a default. Values are plain data (names
and numbers), so that any language can read them. ``ipc.sink.StampingSink`` fills in the header (``event_id`` to
``ts``), and ``ipc.sink.TaggingSink`` the identity (``session_id`` to ``subagent_step_id``). Code that announces an
event fills in only the event's own fields.
"""

from __future__ import annotations

from typing import Any, TypeAlias

from msgspec import Raw, Struct


class BaseEvent(Struct, frozen=True, kw_only=True, tag_field="type", gc=False):
    """Base of every event.

    ``source`` names the publisher, which is one run of one process. ``seq`` counts 1, 2, 3 ... per ``source`` without
    gaps. ``ts`` is in unix seconds. ``subagent_id`` and ``subagent_step_id`` are set on everything a subagent does.
    """

    event_id: str = ""
    seq: int = 0
    source: str = ""
    ts: float = 0.0
    session_id: str = ""
    plan_id: str | None = None
    subagent_id: str | None = None
    subagent_step_id: str | None = None

    @property
    def type(self) -> str:
        """The kind of event, such as ``tool.call``; in JSON it is the field of this name."""
        return str(self.__struct_config__.tag)


class UsageSum(Struct, frozen=True, gc=False):
    """The tokens and number of several model calls, added up."""

    prompt_tokens: int = 0
    completion_tokens: int = 0
    cached_tokens: int = 0
    calls: int = 0

    @property
    def total_tokens(self) -> int:
        """Prompt tokens plus completion tokens."""
        return self.prompt_tokens + self.completion_tokens


# --- conversation ---------------------------------------------------------------------------------------------


class PromptStartedEvent(BaseEvent, frozen=True, kw_only=True, tag="prompt.started"):
    """An agent started work on a prompt; everything until ``prompt.ended`` belongs to it.

    ``conversation_id`` stays the same while a conversation continues under other session ids. ``origin`` is ``user``,
    ``resume`` (an interrupted conversation continues) or ``shell`` (the user's own command line, without a model).
    """

    prompt_id: str
    conversation_id: str = ""
    origin: str = "user"


class PromptEndedEvent(BaseEvent, frozen=True, kw_only=True, tag="prompt.ended"):
    """The work on a prompt ended. ``outcome``, ``reason`` and ``detail`` are as in the result record.

    ``usage``, ``cost_usd`` (None if unknown) and ``turns`` cover this prompt only; the first two include its subagents.
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
    """A message from the user or the program went to an agent.

    ``message_index`` is its place in the conversation, from 0 (None if unknown). ``images`` counts the pictures in it.
    ``origin`` is ``prompt`` (it begins the work), ``steer`` (it arrived while the agent worked) or ``host`` (a notice
    from the program). ``by`` names who steered from elsewhere, as their command gave it (otherwise blank).
    """

    text: str
    message_index: int | None = None
    images: int = 0
    origin: str = "prompt"
    by: str = ""


class AssistantDeltaEvent(BaseEvent, frozen=True, kw_only=True, tag="assistant.delta"):
    """A piece of an answer, as it streams.

    A higher ``attempt`` for the same ``message_id`` replaces everything that lower attempts showed: the stream broke,
    and the request was repeated.
    """

    message_id: str
    text: str
    attempt: int = 1


class ReasoningDeltaEvent(BaseEvent, frozen=True, kw_only=True, tag="assistant.reasoning"):
    """A piece of the model's reasoning, as it streams; ``attempt`` is as in ``assistant.delta``."""

    message_id: str
    text: str
    attempt: int = 1


class AssistantEvent(BaseEvent, frozen=True, kw_only=True, tag="assistant.message"):
    """A complete answer of the model, as it was added to the history.

    ``message_index`` is as in ``user.message``. ``interrupted`` says that the user stopped the answer here.
    """

    message_id: str
    text: str
    tool_calls: int = 0
    finish_reason: str = "stop"
    message_index: int | None = None
    interrupted: bool = False


class ConversationConfiguredEvent(BaseEvent, frozen=True, kw_only=True, tag="conversation.configured"):
    """A conversation continues with another agent, model, thinking or approval mode from its next turn on.

    All four are given; ``changed`` names those that changed. ``by`` names who changed them.
    """

    agent: str
    model: str
    thinking: str = ""
    approvals: str = ""
    changed: tuple[str, ...] = ()
    conversation_id: str = ""
    by: str = ""


class ConversationClearedEvent(BaseEvent, frozen=True, kw_only=True, tag="conversation.cleared"):
    """A conversation was cleared: its next message has index 0, in the session ``new_session_id``."""

    conversation_id: str = ""
    new_session_id: str = ""


class ConversationRewoundEvent(BaseEvent, frozen=True, kw_only=True, tag="conversation.rewound"):
    """A conversation was rewound: messages from ``message_index`` on were removed and ``files`` were restored.

    ``prompt`` is the text of the first message that was removed, if that was a prompt.
    """

    message_index: int
    files: tuple[str, ...] = ()
    conversation_id: str = ""
    new_session_id: str = ""
    prompt: str = ""


# --- models ---------------------------------------------------------------------------------------------------


class ModelStartedEvent(BaseEvent, frozen=True, kw_only=True, tag="model.started"):
    """A model call started. Its answer and its ``model.ended`` have the same ``message_id``.

    ``context_tokens`` estimates the size of the request, ``context_limit`` is what the model's window holds (None if
    not configured). ``purpose`` is ``turn``, or ``compact`` for a summary of the conversation. ``provider`` is the name
    of the provider in the configuration.
    """

    message_id: str
    model: str
    context_tokens: int = 0
    context_limit: int | None = None
    purpose: str = "turn"
    provider: str = ""


class ModelEndedEvent(BaseEvent, frozen=True, kw_only=True, tag="model.ended"):
    """A model call ended: it was answered (``ok``), could not reach the model (``failed``) or was ``cancelled``.

    ``first_token_s`` is the time until the last ``attempt`` streamed its first token (None if it streamed nothing).
    ``duration_s`` is the time of all attempts together. The ``usage`` event counts the tokens.
    """

    message_id: str
    model: str
    status: str = "ok"
    attempt: int = 1
    first_token_s: float | None = None
    duration_s: float = 0.0


# --- tools ----------------------------------------------------------------------------------------------------


class _Display(Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="kind"):
    """Base of every display; a field that is left out has its default."""


class WrittenFile(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A file that a call writes. ``added`` and ``removed`` count lines; ``created`` says that the file is new."""

    path: str
    added: int = 0
    removed: int = 0
    created: bool = False


class DiffDisplay(_Display, frozen=True, kw_only=True, tag="diff"):
    """The files written. The diff itself is in the event's ``diff``."""

    files: tuple[WrittenFile, ...]


class CommandDisplay(_Display, frozen=True, kw_only=True, tag="command"):
    """A command line. ``exit_code`` is None if it has not ended or was stopped.

    ``output_files`` hold the complete output where the result shows only a part of it. ``handle`` names a command that
    continues in the background.
    """

    command: str
    exit_code: int | None = None
    duration_s: float = 0.0
    timed_out: bool = False
    output_files: tuple[str, ...] = ()
    handle: str = ""


class TodoEntry(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One entry of a to-do list. ``status`` is ``pending``, ``in_progress``, ``completed`` or ``cancelled``."""

    id: str
    content: str
    status: str = "pending"
    priority: str = "medium"


class TodoDisplay(_Display, frozen=True, kw_only=True, tag="todo"):
    """The agent's complete to-do list, as it is now."""

    items: tuple[TodoEntry, ...] = ()


class FilesDisplay(_Display, frozen=True, kw_only=True, tag="files"):
    """The first of the files read or found. ``total`` counts all of them (None if there may be more)."""

    paths: tuple[str, ...] = ()
    total: int | None = None


class ImageDisplay(_Display, frozen=True, kw_only=True, tag="image"):
    """A picture. The event only points to the file."""

    path: str
    media_type: str = ""
    size_bytes: int = 0


Display: TypeAlias = DiffDisplay | CommandDisplay | TodoDisplay | FilesDisplay | ImageDisplay
"""Every kind of display; a renderer that matches on it ends in ``assert_never``."""


class ToolCallEvent(BaseEvent, frozen=True, kw_only=True, tag="tool.call"):
    """The model called a tool.

    ``arguments`` are the parsed arguments. If the model's text was not a JSON object, they are ``{}`` and ``raw`` holds
    the text.
    """

    tool_call_id: str
    tool: str
    arguments: dict[str, Any]
    summary: str = ""
    raw: str | None = None


class ToolArgumentsEvent(BaseEvent, frozen=True, kw_only=True, tag="tool.arguments"):
    """A piece of a call's arguments, as the model writes them; ``tool.call`` has all of them once they are complete.

    ``text`` is a part of a JSON text. The first piece names the tool and may be blank; the last pieces may be left out.
    ``index`` counts the calls of one answer. ``attempt`` is as in ``assistant.delta``.
    """

    message_id: str
    index: int
    tool: str
    text: str = ""
    tool_call_id: str = ""
    attempt: int = 1


class ToolQueuedEvent(BaseEvent, frozen=True, kw_only=True, tag="tool.queued"):
    """A call has to wait: for the ``calls`` before it in the same answer, or for another open ``request``."""

    tool_call_id: str
    tool: str
    summary: str = ""
    waits_for: str = "calls"


class ToolStreamEvent(BaseEvent, frozen=True, kw_only=True, tag="tool.stream"):
    """Output of a tool that is still running.

    ``stream`` is ``stdout`` or ``stderr``, or blank for both or neither. ``dropped_bytes`` counts the bytes before this
    text that were left out.
    """

    tool_call_id: str
    tool: str
    text: str
    stream: str = ""
    dropped_bytes: int = 0


class ToolResultEvent(BaseEvent, frozen=True, kw_only=True, tag="tool.result"):
    """A tool call ended. ``status`` is ``ok``, ``error``, ``denied`` or ``cancelled``.

    ``diff`` is what it changed in a file. ``display`` is the result as data (None if there is only the text).
    ``images`` counts the pictures that the model is shown.
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

    ``summary`` is the call on one line. ``preview`` is what it would do, as data (None if the arguments say it all).
    ``covers`` is what an approval for the ``session``, or for ``always``, would allow from then on; if it is empty,
    only ``once`` is offered. ``edits`` says that approving all edits would cover this call. ``cwd`` is where it would
    run. ``confined`` says whether it would run in a sandbox (None if it runs no command).
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
"""Values of ``by`` for a request that was answered at the run's terminal, or by nobody."""


class ApprovalDecisionEvent(BaseEvent, frozen=True, kw_only=True, tag="approval.decided"):
    """An approval request was answered.

    ``decision`` is ``allow`` or ``deny``, ``scope`` is ``once``, ``session`` or ``always``. ``by`` is ``user`` (at the
    run's terminal), ``control`` or another name (a program at the run's control address), ``timeout`` or ``nobody``.
    """

    request_id: str
    decision: str
    scope: str = "once"
    reason: str = ""
    by: str = "nobody"


class QuestionEvent(BaseEvent, frozen=True, kw_only=True, tag="question.asked"):
    """An agent asked the user something. Each question has ``question``, ``header``, ``options``, ``multi_select``."""

    request_id: str
    questions: tuple[dict[str, Any], ...]
    tool_call_id: str = ""


class AnswerEvent(BaseEvent, frozen=True, kw_only=True, tag="question.answered"):
    """The user answered, or ``cancelled`` the question; ``by`` is as in ``approval.decided``."""

    request_id: str
    answers: tuple[dict[str, Any], ...] = ()
    cancelled: bool = False
    by: str = ""


class RequestWithdrawnEvent(BaseEvent, frozen=True, kw_only=True, tag="request.withdrawn"):
    """A request needs no answer any more, because whoever asked is gone. ``kind`` is ``approval`` or ``question``."""

    request_id: str
    kind: str
    reason: str = ""


class BackgroundStartedEvent(BaseEvent, frozen=True, kw_only=True, tag="background.started"):
    """A command started to run in the background while its agent works; ``handle`` names it for that agent."""

    handle: str
    command: str
    tool_call_id: str = ""


class BackgroundEndedEvent(BaseEvent, frozen=True, kw_only=True, tag="background.ended"):
    """A background command ended.

    ``status`` is ``exited``, ``stopped``, ``timeout`` or ``lost`` (nobody knows how it ended). ``output`` is the end of
    its output; if that is long, ``output_files`` hold all of it.
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
    """A command line that a plan would run. ``purpose`` is ``command``, or ``verify`` for a check."""

    step_id: str
    command: str
    purpose: str = "command"


class PlanBounds(Struct, frozen=True, kw_only=True):
    """Upper bounds on what a plan can take; tokens are prompt plus completion.

    At most ``width`` steps can run in parallel. ``max_price`` is None if there is no limit. ``worst_price`` is the most
    that ``max_tokens`` can cost within that limit (None if a price is unknown). ``notes`` are sentences for the user.
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
    """The seconds, tokens and USD (None if unknown) that a step or plan will probably take.

    They are medians of what similar steps of earlier plans took, without the time spent waiting for a person.
    """

    seconds: float
    tokens: int = 0
    cost_usd: float | None = None


class PlanExpectation(Expectation, frozen=True, kw_only=True):
    """The expectation for a plan with ``at_once`` steps in parallel. ``steps`` has those that will run, by id."""

    at_once: int = 1
    steps: dict[str, Expectation] = {}


class PlanProposedEvent(BaseEvent, frozen=True, kw_only=True, tag="plan.proposed"):
    """A plan was written for a goal; nothing runs before the user accepts it.

    ``document`` is the plan as in a file, ``commands`` are all the command lines it would run. ``expected`` is None if
    not enough is known. ``draft`` counts the proposals for one goal. ``repairs`` says what was fixed in the model's
    output.
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

    ``waits_for`` is ``files`` (``step_ids`` are writing them), ``retry`` (for ``seconds``), ``revision`` (the plan is
    being replanned), ``worker`` (no machine of the cluster has room; ``step.place`` ends the wait) or ``slot`` (the
    maximum number of steps is running; a pending step without this event waits for that, too). The step's next
    ``plan.step`` ends the wait. If many steps wait for files, only some of them are announced.
    """

    step_id: str
    waits_for: str
    step_ids: tuple[str, ...] = ()
    seconds: float | None = None


class PlacementEvent(BaseEvent, frozen=True, kw_only=True, tag="step.place"):
    """An attempt runs on another machine; ``subagent_step_id`` names the step.

    ``status`` is ``placed`` (on ``worker``, a host and port) or ``lost`` (together with that worker; ``detail`` says
    how). Unless the step fails, a lost attempt continues on another worker.
    """

    status: str
    worker: str
    attempt: int = 1
    detail: str = ""


class WorktreeEvent(BaseEvent, frozen=True, kw_only=True, tag="worktree.state"):
    """The worktree of a step changed state; ``subagent_step_id`` names the step.

    ``status`` is ``created`` (or resumed), ``conflict`` (in ``files``; subagent number ``round`` resolves it),
    ``resolved``, ``merged`` (``files`` were changed in the workspace) or ``kept`` (on its branch, unmerged; ``detail``
    says why). ``left_out`` lists files that were merged but not committed. ``base`` is the commit the worktree began
    at, ``commit`` the one that holds its work, once there is one.
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
"""Characters of a long text, such as a step's prompt or summary, that an event carries."""


def shortened(text: str) -> str:
    """Return the text, cut to MOST_CHARACTERS with an ellipsis at the end if it is longer."""
    return text if len(text) <= MOST_CHARACTERS else text[: MOST_CHARACTERS - 1] + "…"


class WorkOrder(Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """A step's task and its limits, as the plan gives them; a field that is left out has its default.

    ``prompt`` is what its agent is told, or the beginning of that if it is long; a step with a ``command`` has no
    agent. ``verify`` are its checks. ``on`` names the dependencies that must end another way than by completing, with
    ``finished`` or ``failed``. ``when`` has decisions and the options they require. ``writes`` is None if the step may
    write anything. ``allowed_tools`` is None for the tools of its mode. A limit of None is the configured one.
    ``pattern`` is the step whose list this step does one item of (otherwise blank). If the attempts use several models,
    ``models`` lists them, first to last, and ``model`` is the first.
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

    ``summary`` is the agent's own, or the beginning of that if it is long. ``usage`` and ``cost_usd`` (None if unknown)
    include the subagents that its agent started. ``folder`` is where it worked, if outside the workspace itself, and
    ``branch`` the branch that holds its work there. ``pid`` is the process it ran in and ``worker`` the machine, by
    host and port, if another than the plan's own. ``lost`` counts how often it was lost with a worker. ``any_model``
    says that any model would have ended like that: the provider refused the request itself, or the plan's budget is
    used up.
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
    any_model: bool = False


class StepOutline(Struct, frozen=True, kw_only=True, gc=False):
    """A step as a plan announces it.

    ``reason`` explains its initial status: ``reused`` (it takes the result of another plan) or ``only`` (it is left out
    of this run), among others. ``workspace`` is ``shared``, or ``worktree`` if its work is merged at the end.
    ``attempt`` is the one that comes next, or was the last. ``order`` is the rest of the step.
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

    ``note`` says which steps the run is limited to, if any. ``reused_from`` is the plan whose results were reused.
    ``max_tokens`` is the budget of the whole plan (None if there is no limit). ``pid`` and ``version`` are those of the
    process, ``workspace`` is the folder it works in. ``expected`` is what the plan will probably take (None if not
    enough is known).
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
    """A step changed status. ``reason`` says why it ended, if not by completing.

    ``attempt`` is the one that runs, has ended or comes next. ``tolerated`` says that the step failed or was cancelled,
    and the plan continues as if it had completed. ``work`` is the result of the attempt that ended. The plan's journal
    has that result in ``plan.attempt``, or here for a step that had no attempt of its own and ended after the steps for
    its items.
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
    """An attempt at a step ended, as recorded in the plan's journal. ``plan.step`` has the step's new status.

    ``result`` is the complete result, one JSON object. If the step isn't final, ``left`` says what follows the attempt
    or how it was cut off: ``retrying`` (another one follows), ``asking`` (the user is asked), ``revising`` (the plan is
    being replanned), ``stopped`` (at the end of a turn) or ``cut`` (in the middle of something). ``tolerated`` is as in
    ``plan.step``. ``model`` is the one that the plan names for the attempt (otherwise blank).
    """

    step_id: str
    attempt: int
    result: Raw
    left: str | None = None
    tolerated: bool = False
    model: str = ""


class PlanActEvent(BaseEvent, frozen=True, kw_only=True, tag="plan.act"):
    """Somebody, named in ``by``, stopped a running step for good.

    The step becomes ``status``, which is ``cancelled`` or ``skipped``, once its attempt has ended. It becomes
    ``completed`` if the attempt completes first.
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
    """A person's comment on lines ``first`` to ``last``, counted from 1, of a file that a step changed.

    ``code`` is the text of those lines. ``stale`` says that they are no longer in the file.
    """

    file: str
    first: int
    last: int
    text: str
    code: str = ""
    stale: bool = False


class PlanToldEvent(BaseEvent, frozen=True, kw_only=True, tag="plan.told"):
    """A person sent a step's agent a message: ``text``, or ``comments`` on what it changed.

    The agent reads it before its next turn, if need be in a new attempt. The step can't complete until it has.
    """

    step_id: str
    text: str = ""
    comments: tuple[ReviewComment, ...] = ()
    by: str = ""


class PlanDecisionEvent(BaseEvent, frozen=True, kw_only=True, tag="plan.decision"):
    """A decision opened (without ``selections``) or was made.

    ``by`` is ``user``, ``flag``, ``default``, ``timeout`` or ``reuse``; ``timeout`` without ``selections`` means that
    the decision timed out and has no default. A decision that is written in the plan has no ``kind``. For one about an
    ``attempt`` at a step, ``kind`` says how that ended: ``failed`` or ``interrupted``.

    ``options`` are ids; ``labels`` and ``descriptions`` describe them. ``default`` is taken once ``timeout_seconds``
    have passed since the decision opened (never if 0).
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
        """The decision's id, under the name that other requests have for theirs."""
        return self.decision_id


class PlanRevisedEvent(BaseEvent, frozen=True, kw_only=True, tag="plan.revised"):
    """The plan's steps or edges changed; each operation is one entry of the diff.

    ``by`` is ``replan`` if the failure of ``step_id`` led to the revision, otherwise it names who asked for it.
    ``number`` counts the plan's revisions from 1 (0 if an older version of vibe recorded it).
    """

    operations: tuple[dict[str, Any], ...]
    reason: str = ""
    by: str = ""
    step_id: str | None = None
    number: int = 0


class PlanStoppingEvent(BaseEvent, frozen=True, kw_only=True, tag="plan.stopping"):
    """The plan is stopping: it starts nothing more, and takes ``status`` once nothing runs.

    ``status`` is ``paused``, ``cancelled`` or ``failed``. ``outcome`` is that of a provider's refusal, if that is the
    cause.
    """

    status: str
    reason: str
    outcome: str | None = None


class PlanPausedEvent(BaseEvent, frozen=True, kw_only=True, tag="plan.paused"):
    """The plan is paused and can be resumed. ``outcome`` is that of the run that ended here."""

    reason: str
    outcome: str | None = None


class PlanResumedEvent(BaseEvent, frozen=True, kw_only=True, tag="plan.resumed"):
    """A plan was resumed after a pause or the end of its process; ``done`` counts the steps completed already.

    ``tokens`` of ``max_tokens`` (None if there is no limit) had been spent before. ``pid``, ``version`` and
    ``workspace`` are as in ``plan.started``, and so is ``expected``, which is about the whole plan.
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
    """The plan ended. ``status`` is ``completed``, ``failed`` or ``cancelled``; ``counts`` has the steps per status.

    ``outcome`` is that of the run that ended here.
    """

    status: str
    counts: dict[str, int]
    duration_s: float
    reason: str | None = None
    outcome: str | None = None


class ItemOutline(Struct, frozen=True, kw_only=True, gc=False):
    """A step that was made for an item of a list; ``key`` names the item."""

    id: str
    key: str
    title: str


class PlanUnfoldedEvent(BaseEvent, frozen=True, kw_only=True, tag="plan.unfolded"):
    """The list of a step with ``for_each`` was read: from now on there is a step for each item, in the items' order.

    These steps are copies of that step, which ends after them. ``items`` is the digest of the list, which is kept in
    the plan's folder.
    """

    step_id: str
    children: tuple[ItemOutline, ...]
    items: str


class PlanEditedEvent(BaseEvent, frozen=True, kw_only=True, tag="plan.edited"):
    """A command changed the plan while nobody ran it; the facts up to the next process's first are its changes."""

    pid: int = 0


class PlanResetEvent(BaseEvent, frozen=True, kw_only=True, tag="plan.reset"):
    """Steps will run again; their attempts are numbered on from the last one."""

    step_ids: tuple[str, ...]


class PlanReusedEvent(BaseEvent, frozen=True, kw_only=True, tag="plan.reused"):
    """The step's result was reused from another plan, at no cost."""

    step_id: str
    from_plan: str
    result: Raw


class PlanLeftEvent(BaseEvent, frozen=True, kw_only=True, tag="plan.left"):
    """A process released the plan while the workspace's repository was at this commit."""

    commit: str


# --- subagents ------------------------------------------------------------------------------------------------


class SubAgentStartedEvent(BaseEvent, frozen=True, kw_only=True, tag="subagent.started"):
    """A subagent started work. ``max_tokens`` and ``max_turns`` are its budget.

    ``agent`` is its profile (blank if it has none), ``folder`` is where it works and ``pid`` its process.
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
    """A subagent ended. ``outcome`` is as in the result record; ``tokens`` are prompt plus completion."""

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
    """The history is about to be summarised; sizes are in tokens."""

    context_tokens: int
    threshold: int


class CompactEndEvent(BaseEvent, frozen=True, kw_only=True, tag="compact.end"):
    """The history was summarised; sizes are in tokens. ``messages_after`` of ``messages_before`` messages are left.

    From here on the conversation continues under another session id, with the same ``conversation_id``.
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
    """An agent's session ended; ``outcome`` and ``exit_code`` are as in the result record."""

    outcome: str
    exit_code: int


class ToolServerEvent(BaseEvent, frozen=True, kw_only=True, tag="server.state"):
    """A tool server changed state. ``status`` is ``starting``, ``ready`` or ``failed``; ``detail`` says why.

    ``tools`` counts the tools it offers, which may change while it is ``ready``.
    """

    server: str
    transport: str
    status: str
    tools: int = 0
    detail: str = ""


class UsageEvent(BaseEvent, frozen=True, kw_only=True, tag="usage"):
    """One model call was charged to the budget. ``cost_usd`` is None, rather than 0, if the price is unknown.

    ``estimated`` says that some of the tokens are estimates: an answer broke off, so the provider counted none for it.
    """

    model: str
    prompt_tokens: int
    completion_tokens: int
    cached_tokens: int = 0
    cost_usd: float | None = None
    estimated: bool = False


class WarningEvent(BaseEvent, frozen=True, kw_only=True, tag="warning"):
    """The user should know something that stopped nothing; ``code`` is stable, ``message`` is for people.

    ``wait_seconds`` is the time until something happens again, if known.
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
"""Every event that changes the state of a plan; the plan's journal holds these and nothing else."""


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
