"""AgentView: one agent of a run as an observer sees it, with what it was told, what it said and what it did."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import dropwhile
from typing import Any, TypeAlias, TypeVar, cast

from msgspec import Struct, field

from ipc import events as e
from vibe.view.figures import spending, took

MOST_ENTRIES = 400
"""The most entries kept of one agent."""
MOST_CHARACTERS = 256 * 1024
"""The most characters kept of one agent's entries together."""
TEXT_CHARACTERS = 32 * 1024
"""The most characters kept of one text: the end of a text that streams, the beginning of one that arrives whole."""
ARGUMENT_CHARACTERS = 8 * 1024
"""The most characters kept of a call's arguments. If they are longer, each text in them is shortened."""
PLAN_TOOL, PLAN_CHARACTERS = "hand_in_plan", 256 * 1024
"""The tool by which a planner hands in its plan. The end of its streamed arguments is kept in this length, as a draft.
"""
_MAX_TEXT, _MAX_ITEMS = 1_000, 50
_OVERHEAD = 200
"""The characters that an entry counts for in addition to its texts."""

VERBS = {
    "read_file": "read",
    "write_file": "write",
    "search_replace": "edit",
    "grep": "search",
    "glob": "find",
    "list_dir": "list",
    "web_fetch": "fetch",
    "ask_user_question": "ask",
    "propose_plan": "propose",
    PLAN_TOOL: "propose",
}
"""Verbs that people would use for our tools, by the tool's name."""
HOST_TOOL, ASKING_TOOL = "command", "ask_user_question"
"""The name under which the host runs commands itself: a step's ``command`` and its checks."""
CHECK = "verify"

RETRY = "model.retry"
"""The name of the note on a model call that failed and is tried again."""

Key: TypeAlias = tuple[str, ...]
"""The path from a view to a part of it, such as ``("agents", ID, "entries", "7")``."""

_Piece: TypeAlias = e.AssistantDeltaEvent | e.ReasoningDeltaEvent


class EntryView(Struct, kw_only=True, eq=False):
    """One entry of a transcript. All of it is in the journal of ``source``, from event ``first`` to event ``last``.

    ``kind`` is ``user`` (said to the agent), ``answer``, ``reasoning``, ``call`` or ``note``. ``name`` is the origin of
    a ``user`` entry or the code of a note. ``status`` is ``streaming``, ``done`` or ``interrupted``; for a note it is
    ``note``, ``warning`` or ``error``; for a call see ``CallView``. ``cut`` is the number of characters that are not
    kept. ``until`` is when the last piece of a streaming entry arrived, or when a call ended. ``kept_from``, in the
    note about a summary, is the index of the first message that was kept word for word, as counted before the summary.
    ``by`` is who said it, if that was from elsewhere.
    """

    number: int
    kind: str
    source: str
    first: int
    last: int
    ts: float
    key: Key
    until: float = 0.0
    text: str = ""
    cut: int = 0
    name: str = ""
    status: str = "done"
    ref: str = ""
    attempt: int = 1
    message_index: int | None = None
    images: int = 0
    kept_from: int = 0
    by: str = ""
    size: int = _OVERHEAD


class CallView(EntryView, kw_only=True, eq=False):
    """A tool call. ``text`` is its output so far, and its result at the end; ``written`` is its arguments so far.

    ``status`` is ``writing``, ``queued`` or ``running``, and at the end ``ok``, ``error``, ``denied`` or ``cancelled``.
    ``began_at`` is when it was called, or when a person allowed it (unix seconds).
    """

    tool: str
    began_at: float = 0.0
    call_id: str = ""
    words: str = ""
    written: str = ""
    arguments: dict[str, Any] = {}
    waits_for: str = ""
    diff: str = ""
    display: e.Display | None = None
    files_changed: tuple[str, ...] = ()
    duration_s: float | None = None
    background: str = ""

    @property
    def is_open(self) -> bool:
        """True until the call has ended."""
        return self.status in _OPEN

    @property
    def will_ask(self) -> bool:
        """True while it asks a person something, or waits for its turn to ask."""
        return self.waits_for == "request" or (self.tool == ASKING_TOOL and self.status == "running")

    @property
    def exit_code(self) -> int | None:
        """The exit code of a command. None for any other call, and until the command has ended."""
        return self.display.exit_code if isinstance(self.display, e.CommandDisplay) else None

    @property
    def outcome(self) -> str:
        """``status``, except that a command that ran and reported failure by its exit code is ``failed``."""
        return "failed" if self.status == "ok" and self.exit_code else self.status

    @property
    def last_line(self) -> str:
        """The last line of its output."""
        lines = self.text[-_MAX_TEXT:].rstrip().splitlines()
        return lines[-1] if lines else ""


_OPEN = frozenset({"writing", "queued", "running"})
_UNFINISHED = _OPEN | {"streaming"}
_Entry = TypeVar("_Entry", EntryView, CallView)


def index_after_summary(index: int | None, kept_from: int) -> int | None:
    """Return the index that a message has once a summary, at index 0, replaces those before ``kept_from``.

    Returns None if the summary replaces this message too. A ``kept_from`` of 0 means it is unknown.
    """
    if not kept_from or index is None:
        return index
    return index - kept_from + 1 if index >= kept_from else None


class KeptCharacters(Struct):
    """The number of characters kept in all transcripts of a view together."""

    count: int = 0


class TranscriptView:
    """The entries of an agent, by their numbers as text. Numbers count from 1 and are never reused.

    ``first`` is the number of the first entry that is kept. ``older`` says where those before it are: by source, the
    first and the last event. Unless it ``is_whole``, only the newest entries are kept.
    """

    __slots__ = ("_calls", "_kept", "_key", "_next", "_texts", "entries", "is_whole", "older", "size")

    def __init__(self, key: Key, kept: KeptCharacters, *, is_whole: bool) -> None:
        self.entries: dict[str, EntryView] = {}
        self.older: dict[str, tuple[int, int]] = {}
        self.size = 0
        self.is_whole = is_whole
        self._key = (*key, "entries")
        self._kept = kept
        self._next = 1
        self._texts: dict[tuple[str, str], EntryView] = {}  # by kind and message id
        self._calls: dict[str, CallView] = {}

    @property
    def first(self) -> int:
        """The number of the first entry that is kept, or of the next one if none is."""
        entry = next(iter(self.entries.values()), None)
        return self._next if entry is None else entry.number

    def add_user_message(self, event: e.UserMessageEvent) -> EntryView:
        """Add something that was said to the agent."""
        entry = self._new_entry("user", event, event.text)
        entry.name, entry.message_index, entry.images = event.origin, event.message_index, event.images
        entry.by = event.by
        return entry

    def add_note(self, event: e.Event, text: str, *, name: str = "", status: str = "note") -> EntryView:
        """Add a note between the things the agent did; the next try of a model call takes the place of the last one."""
        last = next(reversed(self.entries.values()), None)
        if last is not None and last.name == name == RETRY:
            self._set(last, text[:TEXT_CHARACTERS], 0)
            last.last = event.seq
            return last
        entry = self._new_entry("note", event, text)
        entry.name, entry.status = name, status
        return entry

    def add_piece(self, event: _Piece) -> EntryView | None:
        """Add a piece of an answer or of reasoning.

        Returns None if it is late, or of an attempt that was given up.
        """
        kind = "answer" if type(event) is e.AssistantDeltaEvent else "reasoning"
        entry = self._texts.get((kind, event.message_id))
        if entry is None:
            entry = self._texts[kind, event.message_id] = self._new_entry(kind, event, "")
            entry.ref, entry.attempt, entry.status = event.message_id, event.attempt, "streaming"
        elif entry.status != "streaming" or event.attempt < entry.attempt:
            return None
        elif event.attempt > entry.attempt:
            self._set(entry, "", 0)
            entry.attempt = event.attempt
        entry.last, entry.until = event.seq, event.ts
        self._stream(entry, event.text)
        return entry

    def add_answer(self, event: e.AssistantEvent) -> EntryView | None:
        """Add the whole answer; return None if there is nothing to read in it."""
        reasoning = self._texts.get(("reasoning", event.message_id))
        if reasoning is not None:
            reasoning.status = "done"
        entry = self._texts.get(("answer", event.message_id))
        if entry is None:
            if not event.text and not event.interrupted:
                return None
            entry = self._texts["answer", event.message_id] = self._new_entry("answer", event, "")
            entry.ref = event.message_id
        self._set(entry, event.text[:TEXT_CHARACTERS], max(0, len(event.text) - TEXT_CHARACTERS))
        entry.last, entry.message_index = event.seq, event.message_index
        entry.status = "interrupted" if event.interrupted else "done"
        return entry

    def add_arguments(self, event: e.ToolArgumentsEvent) -> CallView | None:
        """Add a piece of a call's arguments; return None if it is late, or of an attempt that was given up."""
        ref = f"{event.message_id}/{event.index}"
        call = self._calls.get(ref)
        if call is None:
            call = self._calls[ref] = self._new_call(event, "writing")
            call.ref, call.attempt = ref, event.attempt
        elif call.status != "writing" or event.attempt < call.attempt:
            return None
        elif event.attempt > call.attempt:
            self._write(call, "")
            call.attempt = event.attempt
        if event.tool_call_id and not call.call_id:
            call.call_id = event.tool_call_id
            self._calls[call.call_id] = call
        call.tool, call.last = event.tool or call.tool, event.seq
        most = PLAN_CHARACTERS if call.tool == PLAN_TOOL else ARGUMENT_CHARACTERS
        self._write(call, (call.written + event.text)[-most:])
        return call

    def queue_call(self, event: e.ToolQueuedEvent) -> CallView:
        """Mark a call as waiting for its turn."""
        call = self._find_call(event.tool_call_id, event.tool) or self._new_call(event, "queued")
        call.status, call.waits_for, call.last = "queued", event.waits_for, event.seq
        call.words = in_verbs(event.tool, event.summary) or call.words or event.tool
        return call

    def start_call(self, event: e.ToolCallEvent) -> CallView:
        """Mark a call as running."""
        call = self._find_call(event.tool_call_id, event.tool) or self._new_call(event, "running")
        call.status, call.last, call.waits_for, call.began_at = "running", event.seq, "", event.ts
        call.words = call_label(event)[:_MAX_TEXT]
        self._write(call, "")
        call.arguments, size = _bounded(event.arguments)
        self._resize(call, size)
        return call

    def add_output(self, event: e.ToolStreamEvent) -> CallView | None:
        """Add output of a call; return None if the call is unknown or has ended."""
        call = self._calls.get(event.tool_call_id)
        if call is None or not call.is_open:
            return None
        call.last, call.until = event.seq, event.ts
        if call.status == "queued":
            call.status, call.waits_for = "running", ""
        call.cut += event.dropped_bytes
        self._stream(call, event.text)
        return call

    def end_call(self, event: e.ToolResultEvent) -> CallView | None:
        """Add the result of a call; return None if the call is unknown or has ended before."""
        call = self._calls.get(event.tool_call_id)
        if call is None or not call.is_open:
            return None
        call.last, call.status, call.duration_s, call.until = event.seq, event.status, event.duration_s, event.ts
        call.display, call.files_changed, call.images = event.display, event.files_changed, event.images
        self._set(call, event.content[:TEXT_CHARACTERS], max(0, len(event.content) - TEXT_CHARACTERS))
        call.diff = event.diff[:TEXT_CHARACTERS]
        self._resize(call, len(call.diff))
        return call

    def call(self, call_id: str) -> CallView | None:
        """Return the newest call of an id."""
        return self._calls.get(call_id)

    def forget_all(self) -> None:
        """Drop all entries and keep only where in the journals they are."""
        while self.entries:
            self._drop_first()

    def close_open(self) -> list[EntryView]:
        """Close whatever had not come to its end, and return it."""
        changed = [entry for entry in self.entries.values() if entry.status in _UNFINISHED]
        for entry in changed:
            entry.status = "cancelled" if isinstance(entry, CallView) else "interrupted"
        return changed

    def drop_from(self, message_index: int) -> None:
        """Drop the message of an index and everything after it."""
        entries = list(self.entries.values())
        gone = dropwhile(lambda entry: entry.message_index is None or entry.message_index < message_index, entries)
        for entry in gone:
            self._drop(entry)

    def _new_entry(self, kind: str, event: e.Event, text: str) -> EntryView:
        shown, cut = text[:TEXT_CHARACTERS], max(0, len(text) - TEXT_CHARACTERS)
        return self._add(EntryView, event, kind=kind, text=shown, cut=cut, size=_OVERHEAD + len(shown))

    def _new_call(self, event: e.ToolArgumentsEvent | e.ToolQueuedEvent | e.ToolCallEvent, status: str) -> CallView:
        tool, call_id = event.tool, event.tool_call_id
        call = self._add(CallView, event, kind="call", status=status, tool=tool, call_id=call_id, words=tool)
        if call.call_id:
            self._calls[call.call_id] = call
        return call

    def _add(self, shape: type[_Entry], event: e.Event, **fields: Any) -> _Entry:
        number = self._next
        self._next += 1
        key = (*self._key, str(number))
        entry = shape(
            number=number, source=event.source, first=event.seq, last=event.seq, ts=event.ts, key=key, **fields
        )
        self.entries[entry.key[-1]] = entry
        self._grow(entry.size)
        while not self.is_whole and (
            len(self.entries) > MOST_ENTRIES or (self.size > MOST_CHARACTERS and len(self.entries) > 1)
        ):
            self._drop_first()
        return entry

    def _drop_first(self) -> None:
        entry = self.entries[next(iter(self.entries))]
        first, last = self.older.get(entry.source, (entry.first, entry.last))
        self.older[entry.source] = (min(first, entry.first), max(last, entry.last))
        self._drop(entry)

    def _drop(self, entry: EntryView) -> None:
        del self.entries[entry.key[-1]]
        self._grow(-entry.size)
        if self._texts.get((entry.kind, entry.ref)) is entry:
            del self._texts[entry.kind, entry.ref]
        if isinstance(entry, CallView):
            for name in (entry.ref, entry.call_id):
                if self._calls.get(name) is entry:
                    del self._calls[name]

    def _find_call(self, call_id: str, tool: str) -> CallView | None:
        """Return the open call that an id stands for: one still being written, waiting, or already running under it."""
        call = self._calls.get(call_id)
        if call is not None:
            return call if call.is_open else None
        nameless = (each for each in self._calls.values() if each.status == "writing" and not each.call_id)
        call = next((each for each in nameless if each.tool == tool), None)
        if call is not None:
            call.call_id = call_id
            self._calls[call_id] = call
        return call

    def _stream(self, entry: EntryView, text: str) -> None:
        whole = entry.text + text
        over = max(0, len(whole) - TEXT_CHARACTERS)
        self._set(entry, whole[over:], entry.cut + over)

    def _set(self, entry: EntryView, text: str, cut: int) -> None:
        self._resize(entry, len(text) - len(entry.text))
        entry.text, entry.cut = text, cut

    def _write(self, call: CallView, written: str) -> None:
        self._resize(call, len(written) - len(call.written))
        call.written = written

    def _resize(self, entry: EntryView, more: int) -> None:
        entry.size += more
        self._grow(more)

    def _grow(self, more: int) -> None:
        self.size += more
        self._kept.count += more


def in_verbs(tool: str, words: str) -> str:
    """Return the words for a call with a verb in place of the tool's name."""
    return VERBS[tool] + words.removeprefix(tool) if tool in VERBS and words.startswith(tool) else words


def call_label(event: e.ToolCallEvent) -> str:
    """Return a call in words. The host's own commands read as in a shell."""
    command = event.arguments.get("command") if event.tool == HOST_TOOL else None
    if command is None:
        return in_verbs(event.tool, event.summary or event.tool)
    return f"{'check' if event.arguments.get('purpose') == CHECK else '$'} {command}"


def _bounded(arguments: dict[str, Any]) -> tuple[dict[str, Any], int]:
    """Return arguments cut down to a bounded size, and roughly how many characters they take."""
    size = _size(arguments)
    if size > ARGUMENT_CHARACTERS:
        arguments = cast("dict[str, Any]", _shortened(arguments))
        size = _size(arguments)
    return arguments, size


def _size(value: object, depth: int = 8) -> int:
    if isinstance(value, str):
        return len(value)
    if not depth:
        return ARGUMENT_CHARACTERS
    if isinstance(value, Mapping):
        fields = cast("Mapping[str, object]", value)
        return sum(len(name) + _size(each, depth - 1) for name, each in fields.items())
    if isinstance(value, Sequence):
        return sum(_size(each, depth - 1) for each in cast("Sequence[object]", value))
    return 8


def _shortened(value: object, depth: int = 4) -> object:
    if isinstance(value, str):
        return value if len(value) <= _MAX_TEXT else value[:_MAX_TEXT] + "…"
    if isinstance(value, Mapping) and depth:
        fields = cast("Mapping[str, object]", value)
        return {name[:_MAX_TEXT]: _shortened(each, depth - 1) for name, each in list(fields.items())[:_MAX_ITEMS]}
    if isinstance(value, Sequence) and depth:
        return [_shortened(each, depth - 1) for each in cast("Sequence[object]", value)[:_MAX_ITEMS]]
    return value if isinstance(value, int | float | None) else "…"


MOST_CHANGED = 1_000
"""The most changed files kept of an agent."""
LINE_CHARACTERS = 400
"""The most characters of a line about what an agent does, which is more than a line of a terminal shows."""


class Totals(Struct, kw_only=True):
    """Calls, added up with their prompt and completion tokens. ``cost_usd`` is None once any price is unknown."""

    tokens: int = 0
    calls: int = 0
    cost_usd: float | None = 0.0

    def add(self, event: e.UsageEvent) -> None:
        """Add a settled model call."""
        self.tokens += event.prompt_tokens + event.completion_tokens
        self.calls += 1
        self.cost_usd = None if self.cost_usd is None or event.cost_usd is None else self.cost_usd + event.cost_usd


class DoneView(Struct, frozen=True, kw_only=True):
    """A call that ended.

    ``about`` is a file, a pattern, or the call in words. ``found`` is the number of lines that it returned. ``why``
    says in one line what was wrong, if it did not end well.
    """

    tool: str
    status: str
    about: str = ""
    found: int = 0
    seconds: float = 0.0
    why: str = ""


class TurnView(Struct, kw_only=True):
    """The work on one prompt, added up.

    ``did`` holds its first calls. ``seconds`` and ``outcome`` are known at its end. ``seconds`` leaves out the time it
    ``waited`` for a person; the present wait began at ``waits_since`` (unix seconds, None while it waits for nobody).
    ``why`` says why the work did not end well.
    """

    calls: int = 0
    did: list[DoneView] = field(default_factory=list[DoneView])
    files: dict[str, None] = field(default_factory=dict[str, None])
    added: int = 0
    removed: int = 0
    seconds: float | None = None
    waited: float = 0.0
    waits_since: float | None = None
    spent: Totals = field(default_factory=Totals)
    outcome: str = ""
    why: str = ""

    def set_wait(self, at: float, *, for_a_person: bool) -> None:
        """Note that the work waits for a person from this moment on (unix seconds), or no longer does."""
        if self.waits_since is not None:
            self.waited += max(0.0, at - self.waits_since)
        self.waits_since = at if for_a_person else None

    def add(self, event: e.ToolResultEvent, call: CallView | None) -> None:
        """Add a call that ended."""
        self.calls += 1
        if call is not None and len(self.did) < MOST_ENTRIES:
            self.did.append(_done(event, call))
        self.files.update(dict.fromkeys(event.files_changed))
        for file in event.display.files if isinstance(event.display, e.DiffDisplay) else ():
            self.added, self.removed = self.added + file.added, self.removed + file.removed

    def end(self, event: e.PromptEndedEvent) -> None:
        """Note that the work is over."""
        self.outcome, self.why = event.outcome, event.detail or event.reason or ""
        self.set_wait(event.ts, for_a_person=False)
        self.seconds = max(0.0, event.duration_s - self.waited)
        self.spent = Totals(tokens=event.usage.total_tokens, calls=event.usage.calls, cost_usd=event.cost_usd)

    @property
    def words(self) -> str:
        """All of it in one line, such as ``36 s · 4 calls · 12k tok · $0.03``."""
        files = f"{len(self.files)} file{'s' * (len(self.files) != 1)} (+{self.added} −{self.removed})"  # noqa: RUF001
        parts = [
            "stopped after " * (self.outcome == "interrupted") + took(self.seconds or 0.0),
            f"{self.calls} call{'s' * (self.calls != 1)}" if self.calls else "",
            files if self.files else "",
            *spending(self.spent.tokens, self.spent.cost_usd if self.spent.tokens else None),
        ]
        return " · ".join(filter(None, parts))


def about(call: CallView) -> str:
    """Return the file or the pattern that a call is about, or else what it does in words."""
    named = (call.arguments.get(name) for name in ("pattern", "path", "file_path"))
    return next((text for text in named if isinstance(text, str)), call.words.partition(" ")[2])


def _done(event: e.ToolResultEvent, call: CallView) -> DoneView:
    good = event.status == "ok"
    nothing = not good or (isinstance(event.display, e.FilesDisplay) and not event.display.paths)
    return DoneView(
        tool=event.tool,
        status=event.status,
        about=about(call),
        found=0 if nothing else len(event.content.splitlines()),
        seconds=event.duration_s,
        why="" if good else event.content[:LINE_CHARACTERS],
    )


class RequestView(Struct, kw_only=True, eq=False):
    """Something that a person is asked. It goes once it is answered, withdrawn or no longer of use.

    ``kind`` is ``approval``, ``question`` or ``decision``, and ``event`` is what opened it. ``id`` is the request's own
    id; a decision's has the plan's id before it.
    """

    id: str
    kind: str
    event: e.ApprovalRequestEvent | e.QuestionEvent | e.PlanDecisionEvent
    agent_id: str | None
    plan_id: str | None
    key: Key

    @property
    def asked(self) -> str:
        """The thing that is asked, in a few words: ``run make test``, ``edit shop/cart.py?``, or the question."""
        event = self.event
        if isinstance(event, e.PlanDecisionEvent):
            return event.question
        if isinstance(event, e.QuestionEvent):
            return "; ".join(str(each.get("question", "")) for each in event.questions)
        if isinstance(event.preview, e.CommandDisplay):
            return f"run {event.preview.command}"
        if isinstance(event.preview, e.DiffDisplay):
            files = event.preview.files
            verb = "new" if all(each.created for each in files) else "edit"
            return f"{verb} {', '.join(each.path for each in files)}?"
        return f"{in_verbs(event.tool, event.summary or event.tool)}?"

    @property
    def words(self) -> str:
        """The state of the asking agent, in words."""
        return f"asks: {self.asked.rstrip('?')}" if isinstance(self.event, e.ApprovalRequestEvent) else "asks you"


def waiting(agent: AgentView) -> str:
    """Return the words for an agent that waits for its model."""
    return f"waiting for {agent.model or 'the model'}"


class AgentView(Struct, kw_only=True, eq=False):
    """One agent: the one a person talks to, a subagent, or the host where it runs a step's commands itself.

    ``id`` is the id of the subagent, else of the session, else of the step with its plan's before it. ``budget_used``
    of ``max_tokens`` is its own budget. ``context_tokens`` of ``context_limit`` is what its model was last sent.
    ``prompt`` is the one it works on, and ``turn`` sums up the work on that one or the last. ``background`` holds its
    commands that run on, by handle, and ``changed`` the files it changed, by name. Its model was last asked at
    ``asked_at``, and has since streamed ``streamed`` characters between ``first_byte_at`` and ``last_byte_at`` (unix
    seconds, None until then).
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
    awaits_model: bool = False
    """True while a call to its model is open."""
    asked_at: float | None = None
    first_byte_at: float | None = None
    last_byte_at: float | None = None
    streamed: int = 0
    turn: TurnView | None = None
    changed: dict[str, e.WrittenFile] = field(default_factory=dict[str, e.WrittenFile])
    open_calls: dict[str, CallView] = field(default_factory=dict[str, CallView])
    requests: dict[str, RequestView] = field(default_factory=dict[str, RequestView])
    writing: EntryView | None = None

    @property
    def entries(self) -> dict[str, EntryView]:
        """The newest entries of its transcript, by number."""
        return self.transcript.entries

    @property
    def first(self) -> int:
        """The number of the first of these entries."""
        return self.transcript.first

    def doing(self) -> str:
        """Return what it does in one line: a request to a person first, then a running tool, then the model."""
        if self.requests:
            return next(reversed(self.requests.values())).words
        if self.open_calls:
            call = max(reversed(self.open_calls.values()), key=lambda each: each.will_ask)
            more = f" (+{len(self.open_calls) - 1} more)" if len(self.open_calls) > 1 else ""
            words = "will ask: " * call.will_ask + call.words.removeprefix("ask ")[:LINE_CHARACTERS] + more
            return f"{words} › {call.last_line}" if call.last_line else words  # noqa: RUF001  a separator
        if self.writing is not None:
            lines = self.writing.text[-LINE_CHARACTERS:].rstrip().splitlines()
            return lines[-1] if lines else "writing"
        return self.activity

    @property
    def waits_for_you(self) -> bool:
        """True while it asks a person something, or waits for its turn to ask."""
        return bool(self.requests) or any(call.will_ask for call in self.open_calls.values())

    @property
    def heard_at(self) -> float | None:
        """The time at which its command or its model was last heard from (unix seconds).

        None if it waits for neither.
        """
        running = [call for call in self.open_calls.values() if call.status == "running" and not call.will_ask]
        if running:
            return max(max(call.until, call.began_at) for call in running)
        return (self.last_byte_at or self.asked_at) if self.awaits_model else None

    def track_model_call(self, event: e.ModelStartedEvent | e.ModelEndedEvent) -> None:
        """Note that its model is asked, or has answered."""
        self.awaits_model = isinstance(event, e.ModelStartedEvent)
        if isinstance(event, e.ModelStartedEvent):
            self.model = event.model
            self.asked_at, self.first_byte_at, self.last_byte_at, self.streamed = event.ts, None, None, 0
            if event.purpose == "turn":
                self.context_tokens, self.context_limit = event.context_tokens, event.context_limit
                self.set_activity(waiting(self))

    def _count_streamed(self, text: str, ts: float) -> None:
        self.first_byte_at = self.first_byte_at or ts
        self.last_byte_at = ts
        self.streamed += len(text)

    def set_activity(self, activity: str) -> None:
        """Set what it does now, in words."""
        self.activity, self.writing = activity, None

    def rest(self) -> list[Key]:
        """Note that it does nothing any more; return the keys of what that changed."""
        self.set_activity("")
        self.awaits_model = False
        self.open_calls.clear()
        return [self.key, *(entry.key for entry in self.transcript.close_open())]

    def _count_changes(self, event: e.ToolResultEvent) -> None:
        """Count the lines of the files that a call wrote."""
        for path in event.files_changed[: max(0, MOST_CHANGED - len(self.changed))]:
            self.changed.setdefault(path, e.WrittenFile(path=path))
        for file in event.display.files if isinstance(event.display, e.DiffDisplay) else ():
            if known := self.changed.get(file.path):
                added, removed = known.added + file.added, known.removed + file.removed
                self.changed[file.path] = e.WrittenFile(path=file.path, added=added, removed=removed)

    # --- updates by events

    def add_user_message(self, event: e.UserMessageEvent) -> EntryView:
        """Add something that was said to it, and return the entry."""
        self.set_activity(waiting(self))
        return self.transcript.add_user_message(event)

    def add_piece(self, event: e.AssistantDeltaEvent | e.ReasoningDeltaEvent) -> EntryView | None:
        """Add a piece of an answer or of reasoning, and return the entry it belongs to."""
        entry = self.transcript.add_piece(event)
        self._count_streamed(event.text, event.ts)
        if entry is None:
            return None
        if entry.kind == "answer":
            self.writing = entry
        else:
            self.set_activity("thinking")
        return entry

    def add_answer(self, event: e.AssistantEvent) -> EntryView | None:
        """Add a whole answer, and return its entry."""
        self.turns += 1
        self.set_activity("" if event.tool_calls else "answered")
        return self.transcript.add_answer(event)

    def add_call(self, event: e.ToolCallEvent | e.ToolQueuedEvent | e.ToolArgumentsEvent) -> EntryView | None:
        """Note that a call is being written, waits or runs, and return its entry."""
        self.writing = None
        if isinstance(event, e.ToolArgumentsEvent):
            call = self.transcript.add_arguments(event)
            self._count_streamed(event.text, event.ts)
            if call is not None:
                self.activity = "writing a call"
            return call
        if isinstance(event, e.ToolQueuedEvent):
            return self.transcript.queue_call(event)
        self.open_calls.pop(event.tool_call_id, None)
        call = self.open_calls[event.tool_call_id] = self.transcript.start_call(event)
        return call

    def end_call(self, event: e.ToolResultEvent) -> EntryView | None:
        """Note that a call ended, and return its entry."""
        call = self.transcript.end_call(event)
        if self.turn is not None:
            self.turn.add(event, call)
        self.open_calls.pop(event.tool_call_id, None)
        self._count_changes(event)
        words = (call.words if call is not None else event.tool)[:LINE_CHARACTERS]
        self.set_activity(f"{words}: {'done' if event.status == 'ok' else event.status}")
        if isinstance(event.display, e.TodoDisplay):
            self.todo = event.display.items
        return call
