"""AgentView: one agent of a run as an observer sees it, with what it was told, said and did."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import dropwhile
from typing import Any, TypeAlias, TypeVar, cast

from msgspec import Struct, field

from ipc import events as e
from ipc.events import CommandDisplay
from vibe.view.figures import dollars, short, took

MOST_ENTRIES = 400
"""Of one agent."""
MOST_CHARACTERS = 256 * 1024
"""Of one agent's entries together."""
TEXT_CHARACTERS = 32 * 1024
"""Of one text: of what streams the end is kept, of what comes whole the beginning."""
ARGUMENT_CHARACTERS = 8 * 1024
"""Of a call's arguments; of larger ones, each text is shortened."""
PLAN_TOOL, PLAN_CHARACTERS = "hand_in_plan", 256 * 1024
"""The call by which a planner hands a plan in; of its arguments, what streams is kept as the draft that it is."""
_SHORT, _FEW = 1_000, 50
_OVERHEAD = 200
"""Characters that an entry counts for besides its texts."""

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
}
"""Our tools in words a person would use."""
HOST_TOOL = "command"
"""The host's own commands: a step's ``command`` and its checks."""
CHECK = "verify"

Key: TypeAlias = tuple[str, ...]
"""The way from a view to a part of it, as ``("agents", ID, "entries", "7")``."""

_Piece: TypeAlias = e.AssistantDeltaEvent | e.ReasoningDeltaEvent


class EntryView(Struct, kw_only=True, eq=False):
    """One entry. The whole of it is in the journal of ``source``, from event ``first`` to ``last``.

    ``kind``: ``user`` (told to the agent), ``answer``, ``reasoning``, ``call`` or ``note``. ``name`` is the origin of
    what it was told, or the code of a note; ``status`` is ``streaming``, ``done``, ``interrupted``, for a note
    ``note``, ``warning`` or ``error``, and for a call as ``CallView`` says. ``cut`` characters of it are not kept.
    ``until`` is when the last piece of what streams came, or when a call ended. ``kept_from``, in the note on a
    summary, is the first message that was kept word for word, as counted before it. ``by`` is
    who told it from elsewhere.
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
    """A call of a tool. ``text`` is what it printed so far, then its result; ``written`` its arguments so far.

    ``status``: ``writing``, ``queued``, ``running``, and in the end ``ok``, ``error``, ``denied`` or ``cancelled``.
    ``began_at`` is when it was called, or allowed by a person (unix seconds).
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
        """It has not ended."""
        return self.status in _OPEN

    @property
    def exit_code(self) -> int | None:
        """That of a command; None: the call was none, or has not ended."""
        return self.display.exit_code if isinstance(self.display, CommandDisplay) else None

    @property
    def outcome(self) -> str:
        """``status``, or ``failed`` for a command that ran and whose exit code says that its work failed."""
        return "failed" if self.status == "ok" and self.exit_code else self.status

    @property
    def last_line(self) -> str:
        """The last line it printed."""
        lines = self.text[-_SHORT:].rstrip().splitlines()
        return lines[-1] if lines else ""


_OPEN = frozenset({"writing", "queued", "running"})
_Entry = TypeVar("_Entry", EntryView, CallView)


def index_after_summary(index: int | None, kept_from: int) -> int | None:
    """Return the index of a message once a summary, at 0, stands in for those before ``kept_from`` (0: it is unknown).

    None: the summary stands in for this one, too.
    """
    if not kept_from or index is None:
        return index
    return index - kept_from + 1 if index >= kept_from else None


class KeptCharacters(Struct):
    """The characters of all transcripts of a view together."""

    count: int = 0


class TranscriptView:
    """Entries by their numbers, as text; these count from 1 and are never used twice.

    ``first`` is that of the first which is kept. ``older`` says where those before it are: by source, the first and the
    last event.
    """

    __slots__ = ("_answers", "_calls", "_kept", "_key", "_live", "_next", "_reasonings", "entries", "older", "size")

    def __init__(self, key: Key, kept: KeptCharacters) -> None:
        self.entries: dict[str, EntryView] = {}
        self.older: dict[str, tuple[int, int]] = {}
        self.size = 0
        self._key = (*key, "entries")
        self._kept = kept
        self._next = 1
        self._answers: dict[str, EntryView] = {}
        self._reasonings: dict[str, EntryView] = {}
        self._calls: dict[str, CallView] = {}
        self._live: dict[int, EntryView] = {}

    @property
    def first(self) -> int:
        """The number of the first entry that is kept, or of the next if none is."""
        entry = next(iter(self.entries.values()), None)
        return self._next if entry is None else entry.number

    def told(self, event: e.UserMessageEvent) -> EntryView:
        """The agent was told something."""
        entry = self._begun("user", event, event.text)
        entry.name, entry.message_index, entry.images = event.origin, event.message_index, event.images
        entry.by = event.by
        return entry

    def noted(self, event: e.Event, text: str, *, name: str = "", status: str = "note") -> EntryView:
        """Something is to be said between what the agent did."""
        entry = self._begun("note", event, text)
        entry.name, entry.status = name, status
        return entry

    def piece(self, event: _Piece) -> EntryView | None:
        """A piece of an answer or a reasoning came; None if it is of an attempt that was given up, or too late."""
        is_answer = type(event) is e.AssistantDeltaEvent
        kind, known = ("answer", self._answers) if is_answer else ("reasoning", self._reasonings)
        entry = known.get(event.message_id)
        if entry is None:
            entry = known[event.message_id] = self._begun(kind, event, "")
            entry.ref, entry.attempt, entry.status = event.message_id, event.attempt, "streaming"
            self._live[entry.number] = entry
        elif entry.status != "streaming" or event.attempt < entry.attempt:
            return None
        elif event.attempt > entry.attempt:
            self._set(entry, "", 0)
            entry.attempt = event.attempt
        entry.last, entry.until = event.seq, event.ts
        self._stream(entry, event.text)
        return entry

    def answered(self, event: e.AssistantEvent) -> EntryView | None:
        """The whole answer came; None if there is nothing in it to be read."""
        reasoning = self._reasonings.get(event.message_id)
        if reasoning is not None:
            reasoning.status = "done"
            self._live.pop(reasoning.number, None)
        entry = self._answers.get(event.message_id)
        if entry is None:
            if not event.text and not event.interrupted:
                return None
            entry = self._answers[event.message_id] = self._begun("answer", event, "")
            entry.ref = event.message_id
        self._set(entry, event.text[:TEXT_CHARACTERS], max(0, len(event.text) - TEXT_CHARACTERS))
        entry.last, entry.message_index = event.seq, event.message_index
        entry.status = "interrupted" if event.interrupted else "done"
        self._live.pop(entry.number, None)
        return entry

    def writes_call(self, event: e.ToolArgumentsEvent) -> CallView | None:
        """A piece of a call's arguments came; None if it is of an attempt that was given up, or too late."""
        ref = f"{event.message_id}/{event.index}"
        call = self._calls.get(ref)
        if call is None:
            call = self._calls[ref] = self._begun_call(event, "writing")
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

    def waits(self, event: e.ToolQueuedEvent) -> CallView:
        """A call waits its turn."""
        call = self._known_call(event.tool_call_id, event.tool) or self._begun_call(event, "queued")
        call.status, call.waits_for, call.last = "queued", event.waits_for, event.seq
        call.words = in_verbs(event.tool, event.summary) or call.words or event.tool
        return call

    def called(self, event: e.ToolCallEvent) -> CallView:
        """A tool was called."""
        call = self._known_call(event.tool_call_id, event.tool) or self._begun_call(event, "running")
        call.status, call.last, call.waits_for, call.began_at = "running", event.seq, "", event.ts
        call.words = called(event)[:_SHORT]
        self._write(call, "")
        call.arguments, size = _bounded(event.arguments)
        self._resize(call, size)
        return call

    def printed(self, event: e.ToolStreamEvent) -> CallView | None:
        """A call printed something; None if it is unknown or has ended."""
        call = self._calls.get(event.tool_call_id)
        if call is None or not call.is_open:
            return None
        call.last, call.until = event.seq, event.ts
        if call.status == "queued":
            call.status, call.waits_for = "running", ""
        call.cut += event.dropped_bytes
        self._stream(call, event.text)
        return call

    def ended(self, event: e.ToolResultEvent) -> CallView | None:
        """A call ended; None if it is unknown or has ended before."""
        call = self._calls.get(event.tool_call_id)
        if call is None or not call.is_open:
            return None
        call.last, call.status, call.duration_s, call.until = event.seq, event.status, event.duration_s, event.ts
        self._live.pop(call.number, None)
        call.display, call.files_changed, call.images = event.display, event.files_changed, event.images
        self._set(call, event.content[:TEXT_CHARACTERS], max(0, len(event.content) - TEXT_CHARACTERS))
        call.diff = event.diff[:TEXT_CHARACTERS]
        self._resize(call, len(call.diff))
        return call

    def call(self, call_id: str) -> CallView | None:
        """The newest call of that id."""
        return self._calls.get(call_id)

    def forget_all(self) -> None:
        """Keep no entry, only where they are."""
        while self.entries:
            self._drop_first()

    def rest(self) -> list[EntryView]:
        """Nothing goes on any more; returns what had not come to its end."""
        changed = list(self._live.values())
        self._live.clear()
        for entry in changed:
            entry.status = "cancelled" if isinstance(entry, CallView) else "interrupted"
        return changed

    def take_back(self, message_index: int) -> None:
        """Take the message of that index out, and all behind it."""
        entries = list(self.entries.values())
        gone = dropwhile(lambda entry: entry.message_index is None or entry.message_index < message_index, entries)
        for entry in gone:
            self._drop(entry)

    def _begun(self, kind: str, event: e.Event, text: str) -> EntryView:
        shown, cut = text[:TEXT_CHARACTERS], max(0, len(text) - TEXT_CHARACTERS)
        return self._add(EntryView, event, kind=kind, text=shown, cut=cut, size=_OVERHEAD + len(shown))

    def _begun_call(self, event: e.ToolArgumentsEvent | e.ToolQueuedEvent | e.ToolCallEvent, status: str) -> CallView:
        tool, call_id = event.tool, event.tool_call_id
        call = self._add(CallView, event, kind="call", status=status, tool=tool, call_id=call_id, words=tool)
        self._live[call.number] = call
        if call.call_id:
            self._calls[call.call_id] = call
        return call

    def _add(self, shape: type[_Entry], event: e.Event, **fields: Any) -> _Entry:
        number = self._next
        self._next += 1
        entry = shape(
            number=number,
            source=event.source,
            first=event.seq,
            last=event.seq,
            ts=event.ts,
            key=(*self._key, str(number)),
            **fields,
        )
        self.entries[entry.key[-1]] = entry
        self._grow(entry.size)
        while len(self.entries) > MOST_ENTRIES or (self.size > MOST_CHARACTERS and len(self.entries) > 1):
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
        self._live.pop(entry.number, None)
        for known in (self._answers, self._reasonings):
            if known.get(entry.ref) is entry:
                del known[entry.ref]
        if isinstance(entry, CallView):
            for name in (entry.ref, entry.call_id):
                if self._calls.get(name) is entry:
                    del self._calls[name]

    def _known_call(self, call_id: str, tool: str) -> CallView | None:
        """The call that was being written or waited, or ran already under this id."""
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
        over = len(whole) - TEXT_CHARACTERS
        if over > 0:
            self._set(entry, whole[over:], entry.cut + over)
        else:
            self._set(entry, whole, entry.cut)

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
    """A call in words that begin with a verb in place of the tool's name."""
    return VERBS[tool] + words.removeprefix(tool) if tool in VERBS and words.startswith(tool) else words


def called(event: e.ToolCallEvent) -> str:
    """Return the call in words; the host's own commands as a shell shows them."""
    command = event.arguments.get("command") if event.tool == HOST_TOOL else None
    if command is None:
        return in_verbs(event.tool, event.summary or event.tool)
    return f"{'check' if event.arguments.get('purpose') == CHECK else '$'} {command}"


def _bounded(arguments: dict[str, Any]) -> tuple[dict[str, Any], int]:
    """Return arguments of a bounded size, and about how many characters they take."""
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
        return value if len(value) <= _SHORT else value[:_SHORT] + "…"
    if isinstance(value, Mapping) and depth:
        fields = cast("Mapping[str, object]", value)
        return {name[:_SHORT]: _shortened(each, depth - 1) for name, each in list(fields.items())[:_FEW]}
    if isinstance(value, Sequence) and depth:
        return [_shortened(each, depth - 1) for each in cast("Sequence[object]", value)[:_FEW]]
    return value if isinstance(value, int | float | None) else "…"


MOST_CHANGED = 1_000
"""Files of an agent."""
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


class DoneView(Struct, frozen=True, kw_only=True):
    """A call that ended: ``about`` is a file, a pattern or the call in words, ``found`` the lines that it brought.

    ``why`` is what was wrong, in a line, if it did not end well.
    """

    tool: str
    status: str
    about: str = ""
    found: int = 0
    seconds: float = 0.0
    why: str = ""


class TurnView(Struct, kw_only=True):
    """The work on a prompt, added up. ``did`` are its first calls; ``seconds`` and ``outcome`` are known at its end.

    Of the seconds, ``waited`` for a person do not count, the last of them since ``waits_since`` (unix seconds; None: it
    does not wait). ``cost_usd`` None: unknown. ``why`` says why it did not end well.
    """

    calls: int = 0
    did: list[DoneView] = field(default_factory=list[DoneView])
    files: dict[str, None] = field(default_factory=dict[str, None])
    added: int = 0
    removed: int = 0
    seconds: float | None = None
    waited: float = 0.0
    waits_since: float | None = None
    tokens: int = 0
    cost_usd: float | None = None
    outcome: str = ""
    why: str = ""

    def waits(self, at: float, *, for_a_person: bool) -> None:
        """A person is waited for from then on (unix seconds), or no more."""
        if self.waits_since is not None:
            self.waited += max(0.0, at - self.waits_since)
        self.waits_since = at if for_a_person else None

    def add(self, event: e.ToolResultEvent, call: CallView | None) -> None:
        """A call ended."""
        self.calls += 1
        if call is not None and len(self.did) < MOST_ENTRIES:
            self.did.append(_done(event, call))
        self.files.update(dict.fromkeys(event.files_changed))
        for file in event.display.files if isinstance(event.display, e.DiffDisplay) else ():
            self.added, self.removed = self.added + file.added, self.removed + file.removed

    def spend(self, event: e.UsageEvent) -> None:
        """A model call was settled."""
        known = None if event.cost_usd is None or (self.tokens and self.cost_usd is None) else event.cost_usd
        self.cost_usd = None if known is None else known + (self.cost_usd or 0.0)
        self.tokens += event.prompt_tokens + event.completion_tokens

    def end(self, event: e.PromptEndedEvent) -> None:
        """The work is over."""
        self.outcome, self.why = event.outcome, event.detail or event.reason or ""
        self.waits(event.ts, for_a_person=False)
        self.seconds, self.cost_usd = max(0.0, event.duration_s - self.waited), event.cost_usd
        self.tokens = event.usage.total_tokens

    @property
    def words(self) -> str:
        """All of it in a line, as ``36 s · 4 calls · 12k tok · $0.03``."""
        files = f"{len(self.files)} file{'s' * (len(self.files) != 1)} (+{self.added} −{self.removed})"  # noqa: RUF001
        parts = [
            took(self.seconds or 0.0),
            f"{self.calls} call{'s' * (self.calls != 1)}" if self.calls else "",
            files if self.files else "",
            f"{short(self.tokens)} tok" if self.tokens else "",
            dollars(self.cost_usd) if self.cost_usd is not None else "",
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
    def asked(self) -> str:
        """The thing asked in a few words: ``run make test``, ``edit shop/cart.py?``, or the question."""
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
        """The state of who asks."""
        return f"asks: {self.asked.rstrip('?')}" if isinstance(self.event, e.ApprovalRequestEvent) else "asks you"


def waiting(agent: AgentView) -> str:
    """Return words for an agent that waits for its model."""
    return f"waiting for {agent.model or 'the model'}"


class AgentView(Struct, kw_only=True, eq=False):
    """One agent: the one a person talks to, a subagent, or the host where it carries out a step's commands itself.

    ``id`` is the subagent's, else the session's, else the step's with its plan's before it. ``budget_used`` of
    ``max_tokens`` are its own; ``context_tokens`` of ``context_limit`` is what its model was last sent. ``prompt`` is
    the one that it works on, ``turn`` the sum of the work on it, or on the last. ``background`` are its commands that
    run on, by handle, ``changed`` the files it changed, by name. Its model was asked last at ``asked_at``, and
    ``streamed`` that many characters from ``first_byte_at`` to ``last_byte_at`` (unix seconds; None: not yet).
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
            waits = "queued: " if call.status == "queued" else ""
            words = waits + call.words[:LINE_CHARACTERS] + more
            return f"{words} › {call.last_line}" if call.last_line else words  # noqa: RUF001  a mark
        if self.writing is not None:
            lines = self.writing.text[-LINE_CHARACTERS:].rstrip().splitlines()
            return lines[-1] if lines else "writing"
        return self.activity

    @property
    def heard_at(self) -> float | None:
        """The time its command or its model was heard of last, in unix seconds; None: it waits for neither."""
        running = [call for call in self.open_calls.values() if call.status == "running"]
        if running:
            return max(max(call.until, call.began_at) for call in running)
        return (self.last_byte_at or self.asked_at) if self.is_asking else None

    def asks(self, event: e.ModelStartedEvent | e.ModelEndedEvent) -> None:
        """Its model is asked, or has answered."""
        self.is_asking = isinstance(event, e.ModelStartedEvent)
        if isinstance(event, e.ModelStartedEvent):
            self.model = event.model
            self.asked_at, self.first_byte_at, self.last_byte_at, self.streamed = event.ts, None, None, 0
            if event.purpose == "turn":
                self.context_tokens, self.context_limit = event.context_tokens, event.context_limit
                self.does(waiting(self))

    def _streams(self, text: str, ts: float) -> None:
        self.first_byte_at = self.first_byte_at or ts
        self.last_byte_at = ts
        self.streamed += len(text)

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

    def _changes(self, event: e.ToolResultEvent) -> None:
        """Count the lines of files that a call wrote."""
        for path in event.files_changed[: max(0, MOST_CHANGED - len(self.changed))]:
            self.changed.setdefault(path, e.WrittenFile(path=path))
        for file in event.display.files if isinstance(event.display, e.DiffDisplay) else ():
            if known := self.changed.get(file.path):
                added, removed = known.added + file.added, known.removed + file.removed
                self.changed[file.path] = e.WrittenFile(path=file.path, added=added, removed=removed)

    # --- what happens to it

    def summarised(self, kept_from: int) -> None:
        """A summary took the place of the messages before that one."""
        for entry in self.entries.values():
            entry.message_index = index_after_summary(entry.message_index, kept_from)

    def told(self, event: e.UserMessageEvent) -> EntryView:
        """It was told something; returns the entry."""
        self.does(waiting(self))
        return self.transcript.told(event)

    def piece(self, event: e.AssistantDeltaEvent | e.ReasoningDeltaEvent) -> EntryView | None:
        """A piece of an answer or a reasoning came; returns the entry it belongs to."""
        entry = self.transcript.piece(event)
        self._streams(event.text, event.ts)
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
        self.does("" if event.tool_calls else "answered")
        return self.transcript.answered(event)

    def tool(self, event: e.ToolCallEvent | e.ToolQueuedEvent | e.ToolArgumentsEvent) -> EntryView | None:
        """A call is written, waits or runs; returns its entry."""
        self.writing = None
        if isinstance(event, e.ToolArgumentsEvent):
            call = self.transcript.writes_call(event)
            self._streams(event.text, event.ts)
            if call is not None:
                self.activity = "writing a call"
            return call
        call = self.transcript.waits(event) if isinstance(event, e.ToolQueuedEvent) else self.transcript.called(event)
        if isinstance(event, e.ToolCallEvent):
            self.open_calls.pop(event.tool_call_id, None)
            self.open_calls[event.tool_call_id] = call
        return call

    def result(self, event: e.ToolResultEvent) -> EntryView | None:
        """A call ended; returns its entry."""
        call = self.transcript.ended(event)
        if self.turn is not None:
            self.turn.add(event, call)
        self.open_calls.pop(event.tool_call_id, None)
        self._changes(event)
        words = (call.words if call is not None else event.tool)[:LINE_CHARACTERS]
        self.does(f"{words}: {'done' if event.status == 'ok' else event.status}")
        if isinstance(event.display, e.TodoDisplay):
            self.todo = event.display.items
        return call
