"""What is known of one step while it is watched."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias, assert_never

from ipc.events import PlanStepUpdateEvent, ToolCallEvent, ToolResultEvent, ToolStreamEvent
from vibe.core.budget import WAITED as HAD_ROOM
from vibe.core.llm.announcing import WAIT, WAITED

KEPT_CHARACTERS = 400
"""Of a summary, a line of output or an answer: more than a line of a terminal shows."""

HOST_TOOL = "command"
"""The host's own commands: a step's ``command`` and its checks."""
CHECK = "verify"

FINAL = frozenset({"completed", "failed", "skipped", "cancelled"})
WAITING = frozenset({"pending", "blocked", "needs_decision"})

PASSING = frozenset({HAD_ROOM, WAIT, WAITED})
"""Codes of warnings that belong beside their step, not in lines that stay: agents side by side bring many."""

SUMMARISED = frozenset({"start", "journal.torn"})
"""Codes of warnings that the summary at the end tells."""

Tool: TypeAlias = ToolCallEvent | ToolStreamEvent | ToolResultEvent


@dataclass(slots=True, kw_only=True)
class StepView:
    """One step, changed in place by ``RunState``.

    ``tokens`` (prompt plus completion), ``calls`` and ``cost_usd`` are of all attempts of this run; ``cost_usd`` is
    None once the price of a call is unknown. ``budget_used`` of ``max_tokens`` is the present subagent's;
    ``max_tokens`` is None before one has started. ``started_at`` is in unix seconds, ``duration_s`` is set when the
    step stops running. ``level`` is its depth in the outline. ``reused``: another plan did it; ``merges``: what it does is
    merged at its end; ``replanning``: it failed, and a better plan is looked for. Nothing here is safe to print as it is.
    """

    id: str
    title: str
    mode: str
    depends_on: tuple[str, ...]
    status: str
    level: int
    attempt: int = 1
    started_at: float | None = None
    duration_s: float | None = None
    reason: str = ""
    activity: str = ""
    tokens: int = 0
    calls: int = 0
    cost_usd: float | None = 0.0
    turns: int = 0
    budget_used: int = 0
    max_tokens: int | None = None
    reused: bool = False
    merges: bool = False
    replanning: bool = False
    requests: dict[str, str] = field(default_factory=dict[str, str])
    open_calls: dict[str, str] = field(default_factory=dict[str, str])
    _output: str = ""
    _message: tuple[str, int] = ("", 0)
    _said: str = ""

    def elapsed(self, now: float) -> float | None:
        """Seconds it ran or has been running for; None if it never started in this run."""
        if self.duration_s is not None:
            return self.duration_s
        return None if self.started_at is None else max(0.0, now - self.started_at)

    def doing(self) -> str:
        """What it does now: a question to a person first, then a tool at work, then the model."""
        if self.requests:
            return next(reversed(self.requests.values()))
        if self.open_calls:
            call = next(reversed(self.open_calls.values()))
            more = f" (+{len(self.open_calls) - 1} more)" if len(self.open_calls) > 1 else ""
            return f"{call}{more} › {self._output}" if self._output else call + more  # noqa: RUF001  a mark
        return self.activity

    def move(self, event: PlanStepUpdateEvent) -> None:
        """It changed status."""
        self.status, self.attempt = event.status, event.attempt
        self.reason = ": ".join(filter(None, (event.reason, event.detail)))
        self.activity = self._output = self._said = ""
        self.reused = self.replanning = False
        self.open_calls.clear()
        self.requests.clear()
        if event.status == "in_progress":
            self.started_at, self.duration_s, self.activity = event.ts, None, "starting"
        elif event.duration_s is not None:
            self.duration_s = event.duration_s
        elif self.started_at is not None and self.duration_s is None:
            self.duration_s = max(0.0, event.ts - self.started_at)

    def subagent_started(self, max_tokens: int) -> None:
        """A subagent took it, with a budget of its own."""
        self.max_tokens, self.budget_used, self.turns = max_tokens, 0, 0
        self.replanning = self.status != "in_progress"
        self.activity = "waiting for the model"

    def subagent_finished(self, tokens: int) -> None:
        """Its subagent is done; the step may not be."""
        self.budget_used, self.replanning = tokens, False
        self.activity = "its work is being merged" if self.merges else "has answered"

    def says(self, message_id: str, attempt: int, text: str) -> None:
        """A piece of its model's answer; another message or a repeated one starts from nothing."""
        if self._message != (message_id, attempt):
            self._message, self._said = (message_id, attempt), ""
        self._said = (self._said + text)[-KEPT_CHARACTERS:]
        lines = self._said.rstrip().splitlines()
        self.activity = f"writes: {lines[-1]}" if lines else "writes"

    def tool(self, event: Tool) -> None:
        """A tool of its was called, said something or ended."""
        match event:
            case ToolCallEvent():
                self.open_calls[event.tool_call_id] = _called(event)[:KEPT_CHARACTERS]
                self._output = ""
            case ToolStreamEvent():
                tail = event.text[-KEPT_CHARACTERS:].rstrip()
                if tail:
                    self._output = tail.splitlines()[-1]
            case ToolResultEvent():
                call = self.open_calls.pop(event.tool_call_id, event.tool)
                self._output = ""
                verdict = "done" if event.status == "ok" else event.status
                self.activity = f"{call}: {verdict}"
            case _:
                assert_never(event)


def _called(event: ToolCallEvent) -> str:
    """What is at work; the host's own commands as a shell would show them."""
    command = event.arguments.get("command") if event.tool == HOST_TOOL else None
    if command is None:
        return event.summary or event.tool
    return f"{'check' if event.arguments.get('purpose') == CHECK else '$'} {command}"
