"""Writes a plan's progress as lines, each with its time and step: ``[0:06] survey done, 6 s``."""

from __future__ import annotations

from typing import TextIO

from ipc import events as e
from vibe.front.event_text import describe, problem_text, step_of
from vibe.front.output import SENTENCE_LENGTH, TROUBLE, EventLines
from vibe.system.failing_lines import failing_line
from vibe.system.plain_text import LINE_LENGTH, counted, one_line, plain
from vibe.view.agent_view import CHECK, HOST_TOOL, in_verbs
from vibe.view.figures import counter, took
from vibe.view.view import PASSING, SUMMARISED, View, apply


class ProgressLines(EventLines):
    """Writes a line for each event of interest while a plan runs; the summary holds the rest.

    With ``output``, it also writes what commands print, line by line. ``view`` has what the lines, and who asks, depend
    on.
    """

    def __init__(self, out: TextIO, *, output: bool = False) -> None:
        super().__init__(out, self._text)
        self._output = output
        self.view = View()
        self._began: float | None = None
        self._broken = set[str]()
        """Steps whose check failed and whose agent has not acted since."""

    def _text(self, event: e.Event) -> str:
        """Return a whole line, or the lines that a command printed, or ``""`` if the event is of no interest."""
        if self._began is None:
            self._began = event.ts
        if isinstance(event, e.ToolStreamEvent):
            lines = event.text.splitlines() if self._output else ()
            return "".join(f"{step_of(event)}| {plain(line)}\n" for line in lines)
        apply(self.view, event)
        line = self._line(event)
        whose = f"{one_line(event.subagent_step_id)}: " if event.subagent_step_id else ""
        limit = SENTENCE_LENGTH if isinstance(event, (*TROUBLE, e.PlanStartedEvent)) else LINE_LENGTH
        return f"[{counter(event.ts - self._began)}] {whose}{one_line(line, limit)}\n" if line else ""

    def _line(self, event: e.Event) -> str:
        match event:
            case e.PlanStartedEvent() | e.PlanResumedEvent():
                return _beginning(event)
            case e.PlanStepUpdateEvent():
                return self._step(event)
            case e.PlanDecisionEvent() | e.PlanRevisedEvent():
                return describe(event)
            case e.SubAgentStartedEvent():
                step = self.view.step(event.plan_id, event.subagent_step_id)
                return f"revising the plan: {event.title}" if step is not None and step.replanning else ""
            case e.PlacementEvent(status="lost") | e.PlanWaitingEvent(waits_for="worker"):
                return _place(event)
            case e.ToolCallEvent():
                return self._call(event)
            case e.ToolResultEvent():
                return self._result(event)
            case _:
                return _trouble(event)

    def _step(self, event: e.PlanStepUpdateEvent) -> str:
        """Return a step's transition in words, or ``""`` for waiting, the state in which most steps begin."""
        step = self.view.step(event.plan_id, event.step_id)
        begun, fixed = (0, 0) if step is None else (step.state.begun, step.fixed)
        name = one_line(event.step_id)
        time = took(event.duration_s) if event.duration_s is not None else ""
        after = f" after {time}" if time else ""
        why = event.detail or event.reason or ""
        because = f": {why}" if why else ""
        match event.status:
            case "in_progress":
                model = "" if step is None else step.model
                again = f", {model}" if model else f", try {event.attempt}" if event.attempt > 1 else ""
                return f"{name} starts{again}: {event.title}"
            case "completed":
                itself = f", fixed itself, {fixed + 1} tries" if fixed else ""
                return f"{name} done{f', {time}' if time else ''}{itself}"
            case "failed" | "cancelled" | "skipped":
                return f"{name} {event.status}{after}{because}"
            case "pending" if 0 < begun < event.attempt:
                return f"{name} failed{after}{because}; trying again"
            case "pending" if event.previous == "in_progress":
                return f"{name} stopped{after}{because}"
            case _:
                return ""

    def _call(self, event: e.ToolCallEvent) -> str:
        if event.tool == HOST_TOOL:
            command = event.arguments.get("command", "")
            return f"check {command}" if event.arguments.get("purpose") == CHECK else f"run {command}"
        summary = event.summary or event.raw or str(event.arguments)
        words = in_verbs(event.tool, summary) if summary.startswith(event.tool) else f"{event.tool} {summary}"
        if event.subagent_step_id not in self._broken:
            return words
        self._broken.discard(event.subagent_step_id)
        return f"fixing it: {words}"

    def _result(self, event: e.ToolResultEvent) -> str:
        """Return a failed result in words; the end of a step reports the failure of the step's own command."""
        if event.status == "ok":
            return ""
        if event.tool != HOST_TOOL:
            return f"{event.tool} {event.status}: {event.content.removeprefix('Denied: ')}"
        agent = self.view.agent_of(event)
        call = None if agent is None else agent.transcript.call(event.tool_call_id)
        if call is None or call.arguments.get("purpose") != CHECK:
            return ""
        self._broken.add(event.subagent_step_id or "")
        return f"check failed ({failing_line(event.content) or 'no output'})"


def _beginning(event: e.PlanStartedEvent | e.PlanResumedEvent) -> str:
    if isinstance(event, e.PlanStartedEvent):
        how = f"{counted(len(event.steps), 'step')}, up to {event.max_parallel_steps} side by side"
        note = f"; {event.note}" if event.note else ""
        return f"plan {event.plan_id} starts: {event.goal} ({how}){note}"
    return f"plan {event.plan_id} goes on: {event.goal} ({event.done} of {len(event.steps)} steps done)"


def _place(event: e.PlacementEvent | e.PlanWaitingEvent) -> str:
    if isinstance(event, e.PlacementEvent):
        return f"lost with {event.worker}: {event.detail}"
    return f"{one_line(event.step_id)} waits for a worker"


def _trouble(event: e.Event) -> str:
    """Return a warning in words, or an error that no step's end reports."""
    if isinstance(event, e.WarningEvent):
        return "" if event.code in SUMMARISED | PASSING else problem_text(event)
    return problem_text(event) if isinstance(event, e.ErrorEvent) and event.subagent_step_id is None else ""
