"""Describes each event and tool call in one readable line that is safe to print.

Text from files and tools is cleaned first, so that nothing in it can move the cursor.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from ipc import events as e
from planner.plan.status import readable_title
from vibe.system.plain_text import LINE_LENGTH, counted, one_line, plus_minus
from vibe.view.agent_view import CallView, in_verbs
from vibe.view.figures import dollars, roughly, short, took

TITLE_LENGTH = 400


def describe(event: e.Event, limit: int = LINE_LENGTH) -> str:
    """Return a one-line description of the event, at most ``limit`` characters long."""
    return one_line(_WORDS[type(event)](event), limit)


def problem_text(event: e.WarningEvent | e.ErrorEvent) -> str:
    """Return a warning or an error as people read it, without its code, which is for programs."""
    return f"{'warning' if isinstance(event, e.WarningEvent) else 'error'}: {event.message}"


def step_title(title: str) -> str:
    """Return a step's title as people read it, on one line."""
    return one_line(readable_title(title), TITLE_LENGTH)


def forecast(expected: e.PlanExpectation) -> str:
    """Return the time, and any tokens and price, expected of a plan: ``about 3 min · 12k tok · $0.04``."""
    price = "" if expected.cost_usd is None else f" · {dollars(expected.cost_usd)}"
    return f"about {roughly(expected.seconds)}" + f" · {tokens_of(expected.tokens)} tok{price}" * bool(expected.tokens)


def bounds(found: e.PlanBounds) -> str:
    """Return the upper bounds of a plan: ``never more than 200k tok, $5``."""
    if not found.max_tokens:
        return "asks no model"
    return f"never more than {tokens_of(found.max_tokens)} tok, {price_limit(found)}"


def price_limit(found: e.PlanBounds) -> str:
    """Return the most that a plan can cost, or ``no price limit``."""
    price = found.max_price if found.worst_price is None else found.worst_price
    return "no price limit" if price is None else price_of(price)


def tokens_of(count: int) -> str:
    """Return a short token count without a trailing zero decimal: ``1k``, ``1.9k``."""
    return short(count).replace(".0", "")


def price_of(amount: float) -> str:
    """Return a price without trailing zero cents: ``$5``, ``$0.04``."""
    return dollars(amount).removesuffix(".00")


def step_of(event: e.Event) -> str:
    """Return the id of the step whose agent published the event, as a line prefix, or ``""`` if there is none."""
    return f"[{one_line(event.subagent_step_id)}] " if event.subagent_step_id else ""


def _answer(event: e.AssistantEvent) -> str:
    calls = f" [{event.tool_calls} tool calls]" if event.tool_calls else ""
    return f"assistant{calls}{' (interrupted)' if event.interrupted else ''}: {event.text}"


def _configured(event: e.ConversationConfiguredEvent) -> str:
    modes = ", ".join(filter(None, (event.thinking, event.approvals)))
    return f"conversation continues: {event.agent} with {event.model}{_because(modes)}"


def _prompt_ended(event: e.PromptEndedEvent) -> str:
    tokens = event.usage.total_tokens
    used = f"{tokens} tokens, {event.turns} turns, {took(event.duration_s)}{_cost(event.cost_usd)}"
    return f"prompt {event.prompt_id} {event.outcome} ({used}){_because(event.reason)}"


def _model_started(event: e.ModelStartedEvent) -> str:
    room = f" of {event.context_limit}" if event.context_limit else ""
    return f"{event.model} asked ({event.purpose}): about {event.context_tokens}{room} tokens"


def _model_ended(event: e.ModelEndedEvent) -> str:
    first = "" if event.first_token_s is None else f", first token after {took(event.first_token_s)}"
    again = f", attempt {event.attempt}" if event.attempt > 1 else ""
    return f"{event.model} {event.status} after {took(event.duration_s)}{first}{again}"


def _result(event: e.ToolResultEvent) -> str:
    files = f", changed {', '.join(event.files_changed)}" if event.files_changed else ""
    return f"{event.tool} {event.status} after {took(event.duration_s)}{files}: {event.content}"


def _background_ended(event: e.BackgroundEndedEvent) -> str:
    ended = f"exit {event.exit_code}" if event.status == "exited" else event.status
    return f"{'✗' if event.exit_code else '✓'} {event.command} · {ended}, in the background · {took(event.duration_s)}"


def _approval(event: e.ApprovalRequestEvent) -> str:
    call = event.summary or event.arguments
    return f"approval needed for {event.tool} ({event.rule}): {call}{_because(event.reason)}"


def _approval_decided(event: e.ApprovalDecisionEvent) -> str:
    return f"approval {event.request_id}: {event.decision} by {event.by} ({event.scope}){_because(event.reason)}"


def _proposed(event: e.PlanProposedEvent) -> str:
    draft = f" (draft {event.draft})" if event.draft > 1 else ""
    return f"plan proposed{draft}: {event.goal} ({counted(len(event.steps), 'step')})"


def _waiting(event: e.PlanWaitingEvent) -> str:
    whom = f" of {', '.join(event.step_ids)}" if event.step_ids else ""
    still = "" if event.seconds is None else f" for {took(event.seconds)}"
    return f"step {event.step_id} waits: {event.waits_for}{whom}{still}"


def _place(event: e.PlacementEvent) -> str:
    return f"step {event.subagent_step_id} {event.status}: {event.worker}{_because(event.detail)}"


def _worktree(event: e.WorktreeEvent) -> str:
    files = f" ({counted(len(event.files), 'file')})" if event.files else ""
    return f"worktree {event.branch} {event.status}{files}{_because(event.detail)}"


def _started(event: e.PlanStartedEvent) -> str:
    note = f"; {event.note}" if event.note else ""
    return f"plan started: {event.goal} ({counted(len(event.steps), 'step')}, {event.max_parallel_steps} at once){note}"


def _step(event: e.PlanStepUpdateEvent) -> str:
    again = f" (attempt {event.attempt})" if event.attempt > 1 else ""
    why = _because(": ".join(filter(None, (event.reason, event.detail))))
    return f"step {event.step_id} {event.previous} → {event.status}{again}: {event.title}{why}"


def _decision(event: e.PlanDecisionEvent) -> str:
    if event.selections:
        return f"decision {event.decision_id} {', '.join(event.selections)} (by {event.by}): {event.question}"
    if event.by:
        return f"decision {event.decision_id}: timed out, and it has no default: {event.question}"
    return f"decision {event.decision_id} open: {event.question} ({', '.join(event.options)})"


def _revised(event: e.PlanRevisedEvent) -> str:
    number = f" (revision {event.number})" if event.number else ""
    return f"plan revised{number}: {counted(len(event.operations), 'change')}{_because(event.reason)}"


def _completed(event: e.PlanCompletedEvent) -> str:
    counts = ", ".join(f"{count} {status}" for status, count in event.counts.items())
    return f"plan {event.status} after {took(event.duration_s)}: {counts}{_because(event.reason)}"


def _subagent_started(event: e.SubAgentStartedEvent) -> str:
    limits = f"{event.max_tokens} tokens, {event.max_turns} turns"
    return f"subagent started ({event.mode}, {event.model}, {limits}): {event.title}"


def _subagent_finished(event: e.SubAgentFinishedEvent) -> str:
    used = f"{event.tokens} tokens, {event.turns} turns, {took(event.duration_s)}{_cost(event.cost_usd)}"
    return f"subagent {event.outcome} ({used}){_because(event.reason)}"


def _usage(event: e.UsageEvent) -> str:
    cached = f", {event.cached_tokens} cached" if event.cached_tokens else ""
    tokens = f"{event.prompt_tokens} + {event.completion_tokens} tokens{cached}"
    return f"{event.model}: {'about ' if event.estimated else ''}{tokens}{_cost(event.cost_usd)}"


def _server(event: e.ToolServerEvent) -> str:
    detail = event.detail or counted(event.tools, "tool")
    about = "" if event.status == "starting" else f": {detail}"
    return f"MCP server {event.server} ({event.transport}) {event.status}{about}"


def _steered(event: e.PlanToldEvent) -> str:
    comments = [f"{one.file}:{one.first}: {one.text}" for one in event.comments]
    return f"step {event.step_id} told: {'; '.join(filter(None, (event.text, *comments)))}"


def _because(reason: str | None) -> str:
    return f" ({reason})" if reason else ""


def _cost(cost_usd: float | None) -> str:
    return "" if cost_usd is None else f", ${cost_usd:.4f}"


_WORDS: Final[Mapping[type[e.BaseEvent], Callable[[Any], str]]] = {
    e.UserMessageEvent: lambda event: f"{event.by or 'user'}: {event.text}",
    e.AssistantDeltaEvent: lambda event: f"… {event.text}",
    e.ReasoningDeltaEvent: lambda event: f"(thinking) {event.text}",
    e.AssistantEvent: _answer,
    e.ConversationConfiguredEvent: _configured,
    e.ConversationClearedEvent: lambda _: "conversation cleared",
    e.ConversationRewoundEvent: lambda event: (
        f"conversation rewound to message {event.message_index}{_because(', '.join(event.files))}"
    ),
    e.PromptStartedEvent: lambda event: f"prompt {event.prompt_id} started ({event.origin})",
    e.PromptEndedEvent: _prompt_ended,
    e.ModelStartedEvent: _model_started,
    e.ModelEndedEvent: _model_ended,
    e.ToolCallEvent: lambda event: f"{event.tool} called: {event.summary or event.raw or event.arguments}",
    e.ToolArgumentsEvent: lambda event: f"{event.tool} … {event.text}",
    e.ToolQueuedEvent: lambda event: f"{event.tool} queued ({event.waits_for}): {event.summary}",
    e.ToolStreamEvent: lambda event: f"{event.tool}: {event.text}",
    e.ToolResultEvent: _result,
    e.BackgroundStartedEvent: lambda event: f"background command {event.handle} started: {event.command}",
    e.BackgroundEndedEvent: _background_ended,
    e.ApprovalRequestEvent: _approval,
    e.ApprovalDecisionEvent: _approval_decided,
    e.QuestionEvent: lambda event: "question: " + " / ".join(str(one.get("question", "")) for one in event.questions),
    e.AnswerEvent: lambda event: (
        f"question cancelled{_because(event.by)}" if event.cancelled else f"answered: {list(event.answers)}"
    ),
    e.RequestWithdrawnEvent: lambda event: f"{event.kind} {event.request_id} withdrawn{_because(event.reason)}",
    e.PlanProposedEvent: _proposed,
    e.PlanWaitingEvent: _waiting,
    e.PlacementEvent: _place,
    e.WorktreeEvent: _worktree,
    e.PlanStartedEvent: _started,
    e.PlanResumedEvent: lambda event: f"plan resumed: {event.goal} ({event.done} of {len(event.steps)} steps done)",
    e.PlanStepUpdateEvent: _step,
    e.PlanDecisionEvent: _decision,
    e.PlanRevisedEvent: _revised,
    e.PlanStoppingEvent: lambda event: f"plan is being {event.status}{_because(event.reason)}",
    e.PlanActEvent: lambda event: (
        f"step {event.step_id} is being {event.status} (by {event.by}): its attempt is stopped"
    ),
    e.PlanPausedEvent: lambda event: f"plan paused{_because(event.reason)}",
    e.PlanCompletedEvent: _completed,
    e.PlanLeftEvent: lambda event: f"plan left its workspace at commit {event.commit}",
    e.PlanUnfoldedEvent: lambda event: f"step {event.step_id} has {counted(len(event.children), 'item')}",
    e.PlanAttemptEvent: lambda event: f"step {event.step_id} attempt {event.attempt} ended{_because(event.left)}",
    e.PlanRetryEvent: lambda event: f"step {event.step_id} starts attempt {event.attempt}",
    e.PlanToldEvent: _steered,
    e.PlanEditedEvent: lambda _: "plan changed by a command",
    e.PlanResetEvent: lambda event: f"steps will run again: {', '.join(event.step_ids)}",
    e.PlanReusedEvent: lambda event: f"step {event.step_id} reused from plan {event.from_plan}",
    e.SubAgentStartedEvent: _subagent_started,
    e.SubAgentFinishedEvent: _subagent_finished,
    e.MemoryEntryEvent: lambda event: f"memory {event.entry_id} {event.action}: {event.text}",
    e.CompactStartEvent: lambda event: f"compacting {event.context_tokens} tokens (threshold {event.threshold})",
    e.CompactEndEvent: lambda event: f"compacted {event.tokens_before} to {event.tokens_after} tokens",
    e.SessionStartedEvent: lambda event: f"session started: {event.agent} with {event.model} in {event.workspace}",
    e.SessionEndedEvent: lambda event: f"session {event.outcome} (exit code {event.exit_code})",
    e.UsageEvent: _usage,
    e.ToolServerEvent: _server,
    e.WarningEvent: lambda event: f"warning {event.code}: {event.message}",
    e.ErrorEvent: lambda event: f"error {event.code}: {event.message}",
}
"""How each kind of event is described."""


SHELL: Final = "shell"
"""The tool name that events use for a command line the user typed."""
QUESTION, PROPOSAL, READ = "ask_user_question", "propose_plan", "read_file"
WRITE, NEW = "write ", "new "
"""The verbs of a call that writes an existing file, and of one that creates a file."""


CALL_MARKS: Final = {
    "writing": ("…", "muted"),
    "queued": ("…", "muted"),
    "running": ("▸", "accent"),
    "ok": ("✓", "done"),
    "error": ("✗", "failed"),
    "failed": ("✗", "failed"),
    "denied": ("⊘", "muted"),
    "cancelled": ("⊘", "muted"),
}
"""The sign and style for a call, by its outcome."""


def call_title(call: CallView) -> str:
    """Return the title of a call in one line."""
    if call.status == "writing":
        return one_line(in_verbs(call.tool, f"{call.tool} {call.written[-TITLE_LENGTH:]}"), TITLE_LENGTH)
    words = f"$ {call.words}" if call.tool == SHELL else call.words or call.tool
    if isinstance(call.display, e.DiffDisplay) and all(file.created for file in call.display.files):
        words = words.replace(WRITE, NEW, 1) if words.startswith(WRITE) else words
    return one_line(words, TITLE_LENGTH)


def printed(text: str, code: int | None) -> str:
    """Return a command's output without the line on its exit code, which is for models: people read it elsewhere."""
    return f"\n{text}".replace(f"\n[exit code {code}]", "").removeprefix("\n") if code else text


def call_facts(call: CallView) -> str:
    """Return how a call failed, how much it changed or read, and how long it took."""
    code = f"exit {call.exit_code}" if call.exit_code else ""
    if call.tool == SHELL or call.is_open or call.status in {"denied", "cancelled"}:
        return code or {"cancelled": "stopped", "denied": "denied", "queued": "queued"}.get(call.status, "")
    if call.tool == QUESTION and call.status == "ok":
        answers = " · ".join(line for line in call.text.splitlines() if line.startswith("→ "))
        return one_line(answers or "skipped", TITLE_LENGTH)
    if call.tool == PROPOSAL and call.status == "ok":
        return one_line(f"→ {call.text.splitlines()[0]}", TITLE_LENGTH)
    if call.status == "ok" and isinstance(call.display, e.DiffDisplay):
        return plus_minus(call.display.files)
    lines = counted(call.text.count("\n"), "line") if call.tool == READ and call.status == "ok" else ""
    time = took(call.duration_s) if call.duration_s and call.duration_s >= 0.1 and not lines else ""
    return " · ".join(filter(None, ("failed" if call.status == "error" else code, lines, time)))
