"""One readable line for each event, safe to print: nothing a file or a tool said can move the cursor."""

from __future__ import annotations

from typing import TypeAlias

from ipc import events as e
from vibe.system.plain_text import plain_line, shortened

LINE_LENGTH = 160

_Conversation: TypeAlias = (
    e.UserMessageEvent
    | e.AssistantDeltaEvent
    | e.ReasoningDeltaEvent
    | e.AssistantEvent
    | e.ConversationConfiguredEvent
    | e.ConversationClearedEvent
    | e.ConversationRewoundEvent
)
_Bounds: TypeAlias = e.PromptStartedEvent | e.PromptEndedEvent | e.ModelStartedEvent | e.ModelEndedEvent
_Tools: TypeAlias = (
    e.ToolCallEvent
    | e.ToolArgumentsEvent
    | e.ToolQueuedEvent
    | e.ToolStreamEvent
    | e.ToolResultEvent
    | e.BackgroundStartedEvent
    | e.BackgroundEndedEvent
)
_Requests: TypeAlias = (
    e.ApprovalRequestEvent | e.ApprovalDecisionEvent | e.QuestionEvent | e.AnswerEvent | e.RequestWithdrawnEvent
)
_Plans: TypeAlias = e.PlanProposedEvent | e.PlanWaitingEvent | e.WorktreeEvent
_Stopping: TypeAlias = e.PlanStoppingEvent | e.PlanActEvent | e.PlanPausedEvent | e.PlanCompletedEvent | e.PlanLeftEvent
_Redone: TypeAlias = e.PlanAttemptEvent | e.PlanRetryEvent | e.PlanEditedEvent | e.PlanResetEvent | e.PlanReusedEvent
_Work: TypeAlias = (
    e.SubAgentStartedEvent | e.SubAgentFinishedEvent | e.MemoryEntryEvent | e.CompactStartEvent | e.CompactEndEvent
)
_Session: TypeAlias = (
    e.SessionStartedEvent | e.SessionEndedEvent | e.ToolServerEvent | e.UsageEvent | e.WarningEvent | e.ErrorEvent
)


def describe(event: e.Event, limit: int = LINE_LENGTH) -> str:
    """Return the event in one line of at most ``limit`` characters."""
    if isinstance(event, _Conversation):
        text = _conversation(event)
    elif isinstance(event, _Bounds):
        text = _bounds(event)
    elif isinstance(event, _Tools):
        text = _tools(event)
    elif isinstance(event, _Requests):
        text = _requests(event)
    elif isinstance(event, _Plans):
        text = _around_plans(event)
    elif isinstance(event, _Work):
        text = _work(event)
    elif isinstance(event, _Session):
        text = _session(event)
    else:
        text = _planning(event)
    return one_line(text, limit)


def trouble(event: e.WarningEvent | e.ErrorEvent) -> str:
    """Return a warning or an error as people read it: without its code, which is for programs."""
    return f"{'warning' if isinstance(event, e.WarningEvent) else 'error'}: {event.message}"


def one_line(text: str, limit: int = LINE_LENGTH) -> str:
    """Text without escape sequences, control and direction characters or line breaks, cut to ``limit`` characters."""
    if len(text) > limit * 8:
        text = text[: limit * 8]
    return shortened(plain_line(text), limit)


def counted(number: int, noun: str) -> str:
    """A number and what it counts: ``1 call``, ``1,200 calls``."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def step_of(event: e.Event) -> str:
    """The step whose agent announced an event, as the beginning of a line; blank: none did."""
    return f"[{one_line(event.subagent_step_id)}] " if event.subagent_step_id else ""


def _conversation(event: _Conversation) -> str:
    match event:
        case e.UserMessageEvent():
            return f"user: {event.text}"
        case e.AssistantDeltaEvent():
            return f"… {event.text}"
        case e.ReasoningDeltaEvent():
            return f"(thinking) {event.text}"
        case e.AssistantEvent():
            calls = f" [{event.tool_calls} tool calls]" if event.tool_calls else ""
            return f"assistant{calls}{' (interrupted)' if event.interrupted else ''}: {event.text}"
        case e.ConversationConfiguredEvent():
            modes = ", ".join(filter(None, (event.thinking, event.approvals)))
            return f"conversation continues: {event.agent} with {event.model}{_because(modes)}"
        case e.ConversationClearedEvent():
            return "conversation cleared"
        case e.ConversationRewoundEvent():
            return f"conversation rewound to message {event.message_index}{_because(', '.join(event.files))}"


def _bounds(event: _Bounds) -> str:
    match event:
        case e.PromptStartedEvent():
            return f"prompt {event.prompt_id} started ({event.origin})"
        case e.PromptEndedEvent():
            tokens = event.usage.total_tokens
            used = f"{tokens} tokens, {event.turns} turns, {event.duration_s:.1f} s{_cost(event.cost_usd)}"
            return f"prompt {event.prompt_id} {event.outcome} ({used}){_because(event.reason)}"
        case e.ModelStartedEvent():
            room = f" of {event.context_limit}" if event.context_limit else ""
            return f"{event.model} asked ({event.purpose}): about {event.context_tokens}{room} tokens"
        case e.ModelEndedEvent():
            first = "" if event.first_token_s is None else f", first token after {event.first_token_s:.1f} s"
            again = f", attempt {event.attempt}" if event.attempt > 1 else ""
            return f"{event.model} {event.status} after {event.duration_s:.1f} s{first}{again}"


def _tools(event: _Tools) -> str:
    match event:
        case e.ToolCallEvent():
            return f"{event.tool} called: {event.summary or event.raw or event.arguments}"
        case e.ToolArgumentsEvent():
            return f"{event.tool} … {event.text}"
        case e.ToolQueuedEvent():
            return f"{event.tool} queued ({event.waits_for}): {event.summary}"
        case e.ToolStreamEvent():
            return f"{event.tool}: {event.text}"
        case e.ToolResultEvent():
            files = f", changed {', '.join(event.files_changed)}" if event.files_changed else ""
            return f"{event.tool} {event.status} after {event.duration_s:.1f} s{files}: {event.content}"
        case e.BackgroundStartedEvent():
            return f"background command {event.handle} started: {event.command}"
        case e.BackgroundEndedEvent():
            how = f"{event.status} with exit code {event.exit_code} after {event.duration_s:.1f} s"
            return f"background command {event.handle} {how}: {event.command}"


def _requests(event: _Requests) -> str:
    match event:
        case e.ApprovalRequestEvent():
            call = event.summary or event.arguments
            return f"approval needed for {event.tool} ({event.rule}): {call}{_because(event.reason)}"
        case e.ApprovalDecisionEvent():
            return (
                f"approval {event.request_id}: {event.decision} by {event.by} ({event.scope}){_because(event.reason)}"
            )
        case e.QuestionEvent():
            return "question: " + " / ".join(str(item.get("question", "")) for item in event.questions)
        case e.AnswerEvent():
            return "question cancelled" if event.cancelled else f"answered: {list(event.answers)}"
        case e.RequestWithdrawnEvent():
            return f"{event.kind} {event.request_id} withdrawn{_because(event.reason)}"


def _around_plans(event: _Plans) -> str:
    match event:
        case e.PlanProposedEvent():
            draft = f" (draft {event.draft})" if event.draft > 1 else ""
            return f"plan proposed{draft}: {event.goal} ({counted(len(event.steps), 'step')})"
        case e.PlanWaitingEvent():
            whom = f" of {', '.join(event.step_ids)}" if event.step_ids else ""
            still = "" if event.seconds is None else f" for {event.seconds:.1f} s"
            return f"step {event.step_id} waits: {event.waits_for}{whom}{still}"
        case e.WorktreeEvent():
            files = f" ({counted(len(event.files), 'file')})" if event.files else ""
            return f"worktree {event.branch} {event.status}{files}{_because(event.detail)}"


def _planning(event: e.Fact) -> str:
    match event:
        case e.PlanStartedEvent():
            note = f"; {event.note}" if event.note else ""
            return f"plan started: {event.goal} ({len(event.steps)} steps, {event.max_parallel_steps} at once){note}"
        case e.PlanStepUpdateEvent():
            again = f" (attempt {event.attempt})" if event.attempt > 1 else ""
            why = _because(": ".join(filter(None, (event.reason, event.detail))))
            return f"step {event.step_id} {event.previous} → {event.status}{again}: {event.title}{why}"
        case e.PlanDecisionEvent():
            return _decision(event)
        case e.PlanRevisedEvent():
            number = f" (revision {event.number})" if event.number else ""
            return f"plan revised{number}: {counted(len(event.operations), 'change')}{_because(event.reason)}"
        case e.PlanResumedEvent():
            return f"plan resumed: {event.goal} ({event.done} of {len(event.steps)} steps done)"
        case _:
            return _stopping(event) if isinstance(event, _Stopping) else _redone(event)


def _decision(event: e.PlanDecisionEvent) -> str:
    if event.selections:
        return f"decision {event.decision_id} {', '.join(event.selections)} (by {event.by}): {event.question}"
    if event.by:
        return f"decision {event.decision_id}: timed out, and it has no default: {event.question}"
    return f"decision {event.decision_id} open: {event.question} ({', '.join(event.options)})"


def _stopping(event: _Stopping) -> str:
    match event:
        case e.PlanStoppingEvent():
            return f"plan is being {event.status}{_because(event.reason)}"
        case e.PlanActEvent():
            return f"step {event.step_id} is being {event.status} (by {event.by}): its attempt is stopped"
        case e.PlanPausedEvent():
            return f"plan paused{_because(event.reason)}"
        case e.PlanCompletedEvent():
            counts = ", ".join(f"{count} {status}" for status, count in event.counts.items())
            return f"plan {event.status} after {event.duration_s:.1f} s: {counts}{_because(event.reason)}"
        case e.PlanLeftEvent():
            return f"plan left its workspace at commit {event.commit}"


def _redone(event: _Redone) -> str:
    match event:
        case e.PlanAttemptEvent():
            return f"step {event.step_id} attempt {event.attempt} ended{_because(event.left)}"
        case e.PlanRetryEvent():
            return f"step {event.step_id} starts attempt {event.attempt}"
        case e.PlanEditedEvent():
            return "plan changed by a command"
        case e.PlanResetEvent():
            return f"steps will run again: {', '.join(event.step_ids)}"
        case e.PlanReusedEvent():
            return f"step {event.step_id} reused from plan {event.from_plan}"


def _work(event: _Work) -> str:
    match event:
        case e.SubAgentStartedEvent():
            limits = f"{event.max_tokens} tokens, {event.max_turns} turns"
            return f"subagent started ({event.mode}, {event.model}, {limits}): {event.title}"
        case e.SubAgentFinishedEvent():
            used = f"{event.tokens} tokens, {event.turns} turns, {event.duration_s:.1f} s{_cost(event.cost_usd)}"
            return f"subagent {event.outcome} ({used}){_because(event.reason)}"
        case e.MemoryEntryEvent():
            return f"memory {event.entry_id} {event.action}: {event.text}"
        case e.CompactStartEvent():
            return f"compacting {event.context_tokens} tokens (threshold {event.threshold})"
        case e.CompactEndEvent():
            return f"compacted {event.tokens_before} to {event.tokens_after} tokens"


def _session(event: _Session) -> str:
    match event:
        case e.SessionStartedEvent():
            return f"session started: {event.agent} with {event.model} in {event.workspace}"
        case e.SessionEndedEvent():
            return f"session {event.outcome} (exit code {event.exit_code})"
        case e.UsageEvent():
            cached = f", {event.cached_tokens} cached" if event.cached_tokens else ""
            tokens = f"{event.prompt_tokens} + {event.completion_tokens} tokens{cached}"
            return f"{event.model}: {tokens}{_cost(event.cost_usd)}"
        case e.ToolServerEvent():
            detail = event.detail or counted(event.tools, "tool")
            said = "" if event.status == "starting" else f": {detail}"
            return f"MCP server {event.server} ({event.transport}) {event.status}{said}"
        case e.WarningEvent():
            return f"warning {event.code}: {event.message}"
        case e.ErrorEvent():
            return f"error {event.code}: {event.message}"


def _because(reason: str | None) -> str:
    return f" ({reason})" if reason else ""


def _cost(cost_usd: float | None) -> str:
    return "" if cost_usd is None else f", ${cost_usd:.4f}"
