"""AgentView: one agent of a run as an observer sees it, with what it was told, said and did."""

from __future__ import annotations

from msgspec import Struct, field

from ipc import events as e
from vibe.view.transcript import CallView, EntryView, Key, TranscriptView

LINE_CHARACTERS = 400
"""Of a line of what an agent does: more than a line of a terminal shows."""


class Totals(Struct, kw_only=True):
    """Tokens and calls, added up. ``cost_usd`` is None once the price of a call is unknown."""

    prompt_tokens: int = 0
    completion_tokens: int = 0
    cached_tokens: int = 0
    calls: int = 0
    cost_usd: float | None = 0.0

    @property
    def tokens(self) -> int:
        """Prompt plus completion."""
        return self.prompt_tokens + self.completion_tokens

    def add(self, event: e.UsageEvent) -> None:
        """A model call was settled."""
        self.prompt_tokens += event.prompt_tokens
        self.completion_tokens += event.completion_tokens
        self.cached_tokens += event.cached_tokens
        self.calls += 1
        self.cost_usd = None if self.cost_usd is None or event.cost_usd is None else self.cost_usd + event.cost_usd


class RequestView(Struct, kw_only=True, eq=False):
    """Something that a person is asked; it leaves once it is answered, withdrawn or of no use any more.

    ``kind``: ``approval``, ``question`` or ``decision``; ``event`` is what opened it. ``id`` is its own, for a decision
    with its plan's before it.
    """

    id: str
    kind: str
    event: e.ApprovalRequestEvent | e.QuestionEvent | e.PlanDecisionEvent
    agent_id: str | None
    plan_id: str | None
    key: Key

    @property
    def words(self) -> str:
        """The state of who asks."""
        if isinstance(self.event, e.ApprovalRequestEvent):
            return f"waits for your approval of {self.event.tool}"
        return "waits for your answer"


class AgentView(Struct, kw_only=True, eq=False):
    """One agent: the one a person talks to, a subagent, or the host where it carries out a step's commands itself.

    ``id`` is the subagent's, else the session's, else the step's with its plan's before it. ``budget_used`` of
    ``max_tokens`` are its own; ``context_tokens`` of ``context_limit`` is what its model was last sent. ``prompt`` is
    the one that it works on. ``background`` are its commands that run on, by handle.
    """

    id: str
    key: Key
    transcript: TranscriptView
    source: str = ""
    session_id: str = ""
    plan_id: str | None = None
    step_id: str | None = None
    parent_id: str | None = None
    title: str = ""
    mode: str = ""
    model: str = ""
    profile: str = ""
    thinking: str = ""
    approvals: str = ""
    folder: str = ""
    pid: int = 0
    started_at: float | None = None
    ended_at: float | None = None
    outcome: str | None = None
    reason: str | None = None
    max_tokens: int | None = None
    max_turns: int | None = None
    turns: int = 0
    spent: Totals = field(default_factory=Totals)
    context_tokens: int | None = None
    context_limit: int | None = None
    prompt: e.PromptStartedEvent | None = None
    todo: tuple[e.TodoEntry, ...] = ()
    background: dict[str, e.BackgroundStartedEvent] = field(default_factory=dict[str, e.BackgroundStartedEvent])
    activity: str = ""
    is_asking: bool = False
    """A call to its model is open."""
    open_calls: dict[str, CallView] = field(default_factory=dict[str, CallView])
    requests: dict[str, RequestView] = field(default_factory=dict[str, RequestView])
    writing: EntryView | None = None

    @property
    def entries(self) -> dict[str, EntryView]:
        """The newest entries of its transcript, by number."""
        return self.transcript.entries

    @property
    def first(self) -> int:
        """The number of the first of them."""
        return self.transcript.first

    @property
    def older(self) -> dict[str, tuple[int, int]]:
        """The first and last event of those before them, by source."""
        return self.transcript.older

    def doing(self) -> str:
        """Return what it does, in a line: a request to a person first, then a running tool, then the model."""
        if self.requests:
            return next(reversed(self.requests.values())).words
        if self.open_calls:
            call = next(reversed(self.open_calls.values()))
            more = f" (+{len(self.open_calls) - 1} more)" if len(self.open_calls) > 1 else ""
            waits = "waits its turn: " if call.status == "queued" else ""
            words = waits + call.words[:LINE_CHARACTERS] + more
            return f"{words} › {call.last_line}" if call.last_line else words  # noqa: RUF001  a mark
        if self.writing is not None:
            lines = self.writing.text[-LINE_CHARACTERS:].rstrip().splitlines()
            return f"writes: {lines[-1]}" if lines else "writes"
        return self.activity

    def does(self, activity: str) -> None:
        """It does something else now."""
        self.activity, self.writing = activity, None

    def rest(self) -> list[Key]:
        """It does nothing any more; returns the keys of what that changed."""
        self.does("")
        self.is_asking = False
        self.open_calls.clear()
        keys = [entry.key for entry in self.transcript.rest()]
        return [self.key, *keys]

    # --- what happens to it

    def told(self, event: e.UserMessageEvent) -> EntryView:
        """It was told something; returns the entry."""
        self.does("waiting for the model")
        return self.transcript.told(event)

    def printed(self, event: e.ToolStreamEvent) -> EntryView | None:
        """A call printed something; returns its entry."""
        return self.transcript.printed(event)

    def piece(self, event: e.AssistantDeltaEvent | e.ReasoningDeltaEvent) -> EntryView | None:
        """A piece of an answer or a reasoning came; returns the entry it belongs to."""
        entry = self.transcript.piece(event)
        if entry is None:
            return None
        if entry.kind == "answer":
            self.writing = entry
        else:
            self.does("thinking")
        return entry

    def answered(self, event: e.AssistantEvent) -> EntryView | None:
        """A whole answer came; returns its entry."""
        self.turns += 1
        self.does("calling tools" if event.tool_calls else "has answered")
        return self.transcript.answered(event)

    def tool(self, event: e.ToolCallEvent | e.ToolQueuedEvent | e.ToolArgumentsEvent) -> EntryView | None:
        """A call is written, waits or runs; returns its entry."""
        self.writing = None
        if isinstance(event, e.ToolArgumentsEvent):
            call = self.transcript.writes_call(event)
            if call is not None:
                self.activity = f"writes: {call.tool}"
            return call
        call = self.transcript.waits(event) if isinstance(event, e.ToolQueuedEvent) else self.transcript.called(event)
        if isinstance(event, e.ToolCallEvent):
            self.open_calls.pop(event.tool_call_id, None)
            self.open_calls[event.tool_call_id] = call
        return call

    def result(self, event: e.ToolResultEvent) -> EntryView | None:
        """A call ended; returns its entry."""
        call = self.transcript.ended(event)
        self.open_calls.pop(event.tool_call_id, None)
        words = (call.words if call is not None else event.tool)[:LINE_CHARACTERS]
        self.does(f"{words}: {'done' if event.status == 'ok' else event.status}")
        if isinstance(event.display, e.TodoDisplay):
            self.todo = event.display.items
        return call
