"""StepView: one step of a run as an observer sees it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias, assert_never

from ipc.events import PlanStepUpdateEvent, ToolCallEvent, ToolResultEvent, ToolStreamEvent
from planner.state.state import REUSED_REASON, StepState
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


@dataclass(slots=True, kw_only=True)  # noqa: PLR0904  what the plan has of it, and what its agent does
class StepView:
    """One step, changed in place by ``RunView``. Nothing here is safe to print as it is.

    Tokens, calls and price are of all attempts of this run.
    """

    state: StepState
    """The step as the plan has it."""
    level: int = 0
    """Its depth in the outline."""
    started_at: float | None = None
    """In unix seconds."""
    duration_s: float | None = None
    """Set when the step stops running."""
    activity: str = ""
    tokens: int = 0
    """Prompt plus completion."""
    calls: int = 0
    cost_usd: float | None = 0.0
    """None once the price of a call is unknown."""
    turns: int = 0
    budget_used: int = 0
    """Tokens of the present subagent, of its ``max_tokens``."""
    max_tokens: int | None = None
    """None before a subagent has started."""
    replanning: bool = False
    """It failed, and the replanner is asked for a patch."""
    requests: dict[str, str] = field(default_factory=dict[str, str])
    open_calls: dict[str, str] = field(default_factory=dict[str, str])
    _output: str = ""
    _message: tuple[str, int] = ("", 0)
    _said: str = ""

    @property
    def id(self) -> str:
        """Its id."""
        return self.state.outline.id

    @property
    def title(self) -> str:
        """Its title."""
        return self.state.outline.title

    @property
    def mode(self) -> str:
        """Its mode."""
        return self.state.outline.mode

    @property
    def depends_on(self) -> tuple[str, ...]:
        """The steps it comes after."""
        return self.state.outline.depends_on

    @property
    def status(self) -> str:
        """Its status."""
        return self.state.status.value

    @property
    def attempt(self) -> int:
        """The attempt that runs, has ended or comes next."""
        return self.state.attempt

    @property
    def reason(self) -> str:
        """The reason of its status."""
        return ": ".join(filter(None, (self.state.reason, self.state.detail)))

    @property
    def reused(self) -> bool:
        """Another plan did it."""
        return self.state.reason == REUSED_REASON

    @property
    def merges(self) -> bool:
        """Its changes are merged at its end."""
        return self.state.outline.workspace == "worktree"

    def elapsed(self, now: float) -> float | None:
        """Seconds it ran or has been running for; None if it never started in this run."""
        if self.duration_s is not None:
            return self.duration_s
        return None if self.started_at is None else max(0.0, now - self.started_at)

    def doing(self) -> str:
        """Return the step's activity: a question to a person first, then a running tool, then the model."""
        if self.requests:
            return next(reversed(self.requests.values()))
        if self.open_calls:
            call = next(reversed(self.open_calls.values()))
            more = f" (+{len(self.open_calls) - 1} more)" if len(self.open_calls) > 1 else ""
            return f"{call}{more} › {self._output}" if self._output else call + more  # noqa: RUF001  a mark
        return self.activity

    def move(self, event: PlanStepUpdateEvent) -> None:
        """It changed status."""
        self.activity = self._output = self._said = ""
        self.replanning = False
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
    """Return the call in words; the host's own commands as a shell shows them."""
    command = event.arguments.get("command") if event.tool == HOST_TOOL else None
    if command is None:
        return event.summary or event.tool
    return f"{'check' if event.arguments.get('purpose') == CHECK else '$'} {command}"
