"""A plan's progress as lines, each of which names its step."""

from __future__ import annotations

from typing import TextIO

from ipc.events import (
    ErrorEvent,
    Event,
    PlanDecisionEvent,
    PlanResumedEvent,
    PlanRevisedEvent,
    PlanStartedEvent,
    PlanStepUpdateEvent,
    SubAgentFinishedEvent,
    SubAgentStartedEvent,
    ToolCallEvent,
    ToolResultEvent,
    ToolStreamEvent,
    WarningEvent,
)
from subagents.step.failing_lines import failing_line
from vibe.app.view.step_view import CHECK, HOST_TOOL, PASSING, SUMMARISED
from vibe.cli.render.event_text import LINE_LENGTH, counted, describe, one_line
from vibe.cli.render.output import SENTENCE_LENGTH, TROUBLE
from vibe.core.plain_text import plain


class ProgressLines:
    """Writes a line for each event of interest while a plan runs; the summary has the rest.

    ``output``: and what commands print, line by line.
    """

    def __init__(self, out: TextIO, *, output: bool = False) -> None:
        self._out = out
        self._output = output
        self._tokens: dict[str, int] = {}
        self._attempts: dict[str, int] = {}
        self._checks: set[str] = set()
        self._set_aside: set[str | None] = set()
        """Steps whose attempt is over, though they are not."""

    def publish(self, event: Event) -> None:
        """Write a line if the event is of interest."""
        if isinstance(event, ToolStreamEvent):
            self._stream(event)
            return
        line = self._line(event)
        if line:
            step_id = event.step_id if isinstance(event, PlanStepUpdateEvent) else event.subagent_step_id
            prefix = f"[{one_line(step_id)}] " if step_id else ""
            limit = SENTENCE_LENGTH if isinstance(event, (*TROUBLE, PlanStartedEvent)) else LINE_LENGTH
            self._out.write(f"{prefix}{one_line(line, limit)}\n")
            self._out.flush()

    def _stream(self, event: ToolStreamEvent) -> None:
        if self._output:
            prefix = f"[{one_line(event.subagent_step_id)}] " if event.subagent_step_id else ""
            self._out.writelines(f"{prefix}| {plain(line)}\n" for line in event.text.splitlines())
            self._out.flush()

    def _line(self, event: Event) -> str:
        match event:
            case PlanStartedEvent() | PlanResumedEvent():
                return _beginning(event)
            case PlanStepUpdateEvent():
                return self._step(event)
            case PlanDecisionEvent() | PlanRevisedEvent():
                return describe(event)
            case SubAgentStartedEvent() if event.subagent_step_id in self._set_aside:
                return f"replanning: {event.title}"
            case ToolCallEvent():
                return self._call(event)
            case ToolResultEvent():
                return self._result(event)
            case SubAgentFinishedEvent():
                self._tokens[event.subagent_step_id or ""] = event.tokens
                return ""
            case _:
                return _trouble(event)

    def _step(self, event: PlanStepUpdateEvent) -> str:
        """Return a transition in words; none for waiting, which most steps begin with."""
        tokens = self._tokens.get(event.step_id, 0)
        spent = f" after {event.duration_s:.1f} s" if event.duration_s is not None else ""
        spent += f", {tokens:,} tokens" if tokens else ""
        why = event.detail or event.reason or ""
        because = f": {why}" if why else ""
        self._set_aside.discard(event.step_id)
        match event.status:
            case "in_progress":
                self._attempts[event.step_id] = event.attempt
                again = f", attempt {event.attempt}" if event.attempt > 1 else ""
                return f"started{again}: {event.title}"
            case "completed":
                return f"completed{spent}"
            case "failed" | "cancelled" | "skipped":
                return f"{event.status}{spent}{because}"
            case "pending" if event.attempt > self._attempts.get(event.step_id, event.attempt):
                return f"failed{spent}{because}; retrying"
            case "pending" if event.previous == "in_progress":
                self._set_aside.add(event.step_id)
                return f"stopped{spent}{because}"
            case _:
                return ""

    def _call(self, event: ToolCallEvent) -> str:
        if event.tool == HOST_TOOL:
            command = event.arguments.get("command", "")
            if event.arguments.get("purpose") != CHECK:
                return f"$ {command}"
            self._checks.add(event.tool_call_id)
            return f"check: {command}"
        summary = event.summary or event.raw or str(event.arguments)
        return summary if summary.startswith(event.tool) else f"{event.tool}: {summary}"

    def _result(self, event: ToolResultEvent) -> str:
        """Failures only; that of a step's own command is told by the step's end."""
        if event.status == "ok":
            return ""
        if event.tool != HOST_TOOL:
            return f"{event.tool} {event.status}: {event.content.removeprefix('Denied: ')}"
        if event.tool_call_id not in self._checks:
            return ""
        return f"check failed: {failing_line(event.content) or '(no output)'}"


def _beginning(event: PlanStartedEvent | PlanResumedEvent) -> str:
    if isinstance(event, PlanStartedEvent):
        how = f"{counted(len(event.steps), 'step')}, at most {event.max_parallel_steps} side by side"
        note = f"; {event.note}" if event.note else ""
        return f"plan {event.plan_id} started: {event.goal} ({how}){note}"
    return f"plan {event.plan_id} resumed: {event.goal} ({event.done} of {len(event.steps)} steps done)"


def _trouble(event: Event) -> str:
    """Warnings, and errors that no step's end tells of."""
    match event:
        case WarningEvent(code=code, message=message) if code not in SUMMARISED | PASSING:
            return f"warning: {message}"
        case ErrorEvent(message=message) if event.subagent_step_id is None:
            return f"error: {message}"
        case _:
            return ""
