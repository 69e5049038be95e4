"""ChatPresenter: keeps a chat log up to date with the transcript of one agent."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeAlias

from anyio import Lock, to_thread
from anyio.lowlevel import checkpoint
from msgspec import DecodeError, Struct, json, structs

from ipc.errors import IpcError
from ipc.events import AnswerEvent, Event, Fact, PlanDecisionEvent
from vibe.cli.textual_ui.log.chat_log import ChatLog, has_text
from vibe.cli.textual_ui.log.entry import LogEntry
from vibe.core.messages import AssistantMessage, Message, ToolCall, ToolMessage, UserMessage
from vibe.front.event_text import QUESTION, SHELL, TITLE_LENGTH, call_facts, call_title, printed
from vibe.front.request_text import answered_lines, answers_in, answers_of
from vibe.system.errors import VibeError
from vibe.system.plain_text import counted, one_line
from vibe.view.agent_view import RETRY, AgentView, CallView, EntryView, Key, in_verbs, index_after_summary
from vibe.view.view import CLEARED, COMPACTED, ENDED, REWOUND, View, apply

if TYPE_CHECKING:
    from ipc.registry import Registry


CHUNK: Final = 200
"""The number of messages or entries added to the log at a time."""
NOTICE_LENGTH: Final = 1_000
"""The most characters shown of a notice from the host to the agent."""
SUMMARISED: Final = "the conversation was summarised here"
_arguments = json.Decoder(dict[str, object])


class SavedPart(Struct, frozen=True):
    """Messages of a saved conversation.

    ``read_earlier`` reads the messages that the summary at their beginning replaced; it is None without a summary.
    """

    messages: Sequence[Message]
    read_earlier: ReadEarlier | None = None


PlacedRecord: TypeAlias = tuple[int | None, LogEntry]
"""A log entry for something that was done, and the index of the message it precedes; None puts it after them all."""
ReadEarlier: TypeAlias = Callable[[], Awaitable[SavedPart]]
"""Reads earlier messages; raises a ``VibeError`` if they can't be read."""


class SavedTalk:
    """Hands out the messages of a resumed conversation as log entries, from the newest to the oldest.

    The messages that summaries replaced are included, and ``records`` are placed among them.
    """

    def __init__(self, saved: SavedPart, records: Sequence[PlacedRecord] = ()) -> None:
        self._saved = saved
        self._records = records
        self._part, self._end = saved, len(saved.messages)
        self._kept_from, self._offset = 0, 0
        """The first message that no summary has replaced since, and how much lower the index of each one is now."""

    @property
    def is_left(self) -> bool:
        """True if there are messages that were not shown yet."""
        return self._end > 0 or self._part.read_earlier is not None

    def newest(self) -> list[LogEntry]:
        """Return entries for the newest messages not shown yet, without reading any from before a summary."""
        messages, end = self._part.messages, self._end
        start = max(0, end - CHUNK)
        while start and isinstance(messages[start], ToolMessage):
            start -= 1  # a result is shown together with its call
        self._end = start
        entries = list(history_entries(messages[start:end], start))
        for place, record in self._records if self._part is self._saved else ():
            before = len(messages) if place is None else min(place, len(messages))
            if start <= before < end or before == end == len(messages):
                known = ((number, each.message_index) for number, each in enumerate(entries))
                behind = (number for number, index in known if index is not None and index >= before)
                entries.insert(next(behind, len(entries)), record)
        for entry in entries:
            entry.message_index = self._index(entry.message_index)
        return entries

    async def older(self) -> list[LogEntry]:
        """Return entries as ``newest`` does, but read the messages from before a summary if need be.

        Raises:
            VibeError: they can't be read. They count as shown then.
        """
        part = self._part
        if not self._end and part.read_earlier is not None:
            self._part = SavedPart(())
            earlier = await part.read_earlier()
            self._part, self._end = earlier, len(earlier.messages)
        return self.newest()

    def cut(self, index: int) -> None:
        """Drop the messages from an index on."""
        messages = self._saved.messages[: index + self._offset]
        self._records = [each for each in self._records if each[0] is not None and each[0] <= len(messages)]
        saved = SavedPart(messages, self._saved.read_earlier)
        if self._part is self._saved:
            self._part, self._end = saved, min(self._end, len(messages))
        self._saved = saved

    def summarise(self, kept_from: int) -> None:
        """Renumber the messages after a summary has replaced all those before ``kept_from``."""
        if kept_from:
            self._kept_from = self._offset + kept_from
            self._offset += kept_from - 1

    def take_back(self) -> None:
        """Mark all messages as not shown."""
        self._part, self._end = self._saved, len(self._saved.messages)

    def _index(self, index: int | None) -> int | None:
        if index is None or index < self._kept_from or self._part is not self._saved:
            return None
        return index - self._offset


class JournalPart(Struct, frozen=True):
    """A range of a run's events, from ``first`` to ``last``.

    Entries that begin at event ``before`` or later are in the log already.
    """

    source: str
    first: int
    last: int
    before: int


ReadJournals: TypeAlias = Callable[[str, tuple[JournalPart, ...]], Awaitable[list[EntryView]]]
"""Returns the entries of an agent from parts of journals."""


def journals_of(home: Path, runtime_dir: Path | None) -> ReadJournals:
    """Return a function that reads the journals a vibe folder knows, and raises as ``read_entries`` does."""

    async def read(agent_id: str, parts: tuple[JournalPart, ...]) -> list[EntryView]:
        from ipc.registry import Registry  # noqa: PLC0415  long after the first frame

        return await to_thread.run_sync(read_entries, Registry(home, runtime_dir), agent_id, parts)

    return read


def read_entries(registry: Registry, agent_id: str, parts: Sequence[JournalPart]) -> list[EntryView]:
    """Return the entries of an agent from parts of journals, oldest first; reads files.

    Raises:
        IpcError: a run is no longer known, or its journal can't be read.
    """
    view = View(whole=agent_id)
    for part in parts:
        for event in _events(registry, part):
            apply(view, event)
    agent = view.agents.get(agent_id)
    if agent is None:
        return []
    agent.rest()
    known = {part.source: part.before for part in parts}
    return [entry for entry in agent.entries.values() if entry.first < known[entry.source]]


def before_message(entries: Sequence[EntryView], index: int) -> Sequence[EntryView]:
    """Return the entries before the first one that belongs to the message of that index or a later one."""
    places = (place for place, entry in enumerate(entries) if entry.message_index is not None)
    return entries[: next((place for place in places if (entries[place].message_index or 0) >= index), len(entries))]


def _events(registry: Registry, part: JournalPart) -> Iterator[Event]:
    """Yield the events of a part, except the facts of plans, which are in no transcript."""
    from ipc.journal import recorded_events  # noqa: PLC0415  long after the first frame

    journal = Path(registry.resolve(part.source).journal)
    for event in takewhile(lambda event: event.seq <= part.last, recorded_events(journal, part.first)):
        if not isinstance(event, Fact):
            yield event


def history_entries(messages: Iterable[Message], first: int = 0) -> Iterator[LogEntry]:
    """Yield log entries for the messages of a resumed conversation; ``first`` is the index of the first message."""
    calls: dict[str, LogEntry] = {}
    for index, message in enumerate(messages, first):
        if isinstance(message, UserMessage):
            yield _user_entry(message, index)
        elif isinstance(message, AssistantMessage):
            yield from _assistant_entries(message, index, calls)
        elif isinstance(message, ToolMessage):
            call = calls.pop(message.tool_call_id, None)
            if call is not None:
                call.status = "cancelled" if message.status == "interrupted" else message.status
                call.images = len(message.images)
                call.set_text(message.content)


def _user_entry(message: UserMessage, index: int) -> LogEntry:
    """Return the entry for a user message: a person's prompt, a notice of the host, or the agent's own summary."""
    from vibe.core.compactor import summary_in  # noqa: PLC0415  long after the first frame
    from vibe.core.middleware.port import HOST_NOTICE  # noqa: PLC0415  as above

    if not message.content.startswith(HOST_NOTICE):
        return LogEntry("user", message.content, images=len(message.images), message_index=index)
    summary = summary_in(message)
    if summary:
        return LogEntry("reasoning", summary, title=SUMMARISED, message_index=index)
    return LogEntry("note", one_line(message.content, NOTICE_LENGTH), message_index=index)


def _assistant_entries(message: AssistantMessage, index: int, calls: dict[str, LogEntry]) -> Iterator[LogEntry]:
    if message.reasoning:
        yield LogEntry("reasoning", message.reasoning, title="thought", message_index=index)
    if message.content.strip():
        status = "interrupted" if message.interrupted else "done"
        yield LogEntry("answer", message.content, status=status, message_index=index)
    for call in message.tool_calls:
        calls[call.id] = LogEntry("call", title=_call_line(call), status="cancelled", message_index=index)
        yield calls[call.id]


def _call_line(call: ToolCall) -> str:
    """Return a one-line title for a call, as far as its arguments allow."""
    try:
        arguments = _arguments.decode(call.arguments)
    except DecodeError:
        return one_line(f"{call.name} {call.arguments[:TITLE_LENGTH]}", TITLE_LENGTH)
    values = " ".join(value[:TITLE_LENGTH] for value in list(arguments.values())[:2] if isinstance(value, str))
    return one_line(in_verbs(call.name, f"{call.name} {values}"), TITLE_LENGTH)


MOST_LOGGED = 1_000
"""The number of log entries above which older ones are dropped and left to the journal."""
_NOTHING_SAVED: Final = SavedPart(())


class ChatPresenter:
    """Shows in a log what an agent was told, said and did; entries that the view drops stay in the log.

    A blank ``agent_id`` stands for the view's main agent until ``show`` names another, and the log also gets the
    notices of all runs. Entries that others put into the log stay where they are until a rewind cuts them off or a
    clear drops all entries. ``show_older`` adds what is older than the first entry, for which ``read`` finds what the
    view dropped.
    """

    def __init__(self, log: ChatLog, agent_id: str = "", *, read: ReadJournals | None = None) -> None:
        self.agent_id = agent_id
        self._log = log
        self._read = read
        self._saved = SavedTalk(_NOTHING_SAVED)
        self._dropped: tuple[JournalPart, ...] = ()
        """The parts of journals with entries older than the first one in the log."""
        self._unshown: Sequence[EntryView] | None = None
        """The entries read from them that are not in the log; None until they are read."""
        self._loading = Lock()
        self._agent: AgentView | None = None
        self._seen = 0
        self._has_notices = not agent_id
        self._noticed = 0
        self._told: set[float] = set()
        """The times of the answers to plans that are in the log."""
        self._live: dict[str, LogEntry] = {}
        """The log entries that may still change, by the number of the view's entry."""

    def show(self, view: View, agent_id: str) -> None:
        """Reset the log and show another agent."""
        self.agent_id, self._agent = agent_id, None
        self._empty()
        self.present(view, frozenset())

    def resume(self, saved: SavedPart, records: Sequence[PlacedRecord] = ()) -> None:
        """Show the newest messages of a resumed conversation, with ``records`` in their places among them.

        ``show_older`` adds the others.
        """
        self._saved = SavedTalk(saved, records)
        self._log.extend(self._saved.newest())
        self._log.prepend((), more=self.has_older)

    def say(self, text: str, status: str) -> None:
        """Append a message of vibe's own as a note of that status, unless the last entry says the same."""
        before = [(entry.kind, entry.text) for entry in self._log.entries[-1:]]
        if status == "typed" or before != [("note", text)]:
            self._log.append(LogEntry("note", text, status=status))

    def tell_answers(self, event: Event, own: str = "") -> None:
        """Append the answers that an event gives to a plan's questions, and who gave them unless that is ``own``."""
        if not isinstance(event, AnswerEvent | PlanDecisionEvent) or not event.plan_id:
            return
        if answers := answers_of(event):
            by = "" if event.by == own else event.by
            self._log.append(LogEntry("drawn", draw=partial(answered_lines, answers, by, event.ts)))
            self._told.add(event.ts)

    def show_diff(self, title: str, fact: str, diff: str) -> None:
        """Append a diff in the form of a tool call."""
        self._log.append(LogEntry("call", title=title, detail=fact, diff=diff, status="ok", folded=False))

    async def find(self, text: str) -> bool:
        """Scroll up to the next occurrence of a text, loading older entries; return False if there is none."""
        log, wanted = self._log, text.casefold()
        if log.find(text, wraps=False):
            return True
        while self.has_older:
            known = len(log.entries)
            await self.show_older()
            await checkpoint()  # lets keys be handled
            if any(has_text(entry, wanted) for entry in log.entries[: len(log.entries) - known]):
                break
        return log.find(text)

    async def show_older(self) -> None:
        """Put up to ``CHUNK`` older entries before the log's first, or a note on why they can't be read."""
        async with self._loading:
            await self._show_older()

    async def _show_older(self) -> None:
        if not self._dropped or self._read is None:
            await self._show_saved()
            return
        parts, unshown, problem = self._dropped, self._unshown, ""
        if unshown is None:
            try:
                unshown = await self._read("" if self._agent is None else self._agent.id, parts)
            except IpcError as error:
                unshown, problem = [], f"earlier messages can't be shown: {error}"
            if self._dropped is not parts:
                return  # the log shows something else by now
        before = [self._finished(entry) for entry in unshown[-CHUNK:]]
        self._unshown = unshown[:-CHUNK]
        if not self._unshown:
            self._dropped = ()
        self._log.prepend([LogEntry("note", problem)] if problem else before, more=self.has_older)

    async def _show_saved(self) -> None:
        """Put some saved messages before the log's first entry, including those that a summary replaced."""
        saved = self._saved
        try:
            before = await saved.older()
        except VibeError as error:
            before = [LogEntry("note", f"earlier messages can't be shown: {error}")]
        if self._saved is saved:
            self._log.prepend(before, more=self.has_older)

    @property
    def has_older(self) -> bool:
        """True if there are entries older than the first one in the log."""
        return self._saved.is_left or bool(self._dropped)

    def present(self, view: View, changed: frozenset[Key]) -> None:
        """Show what changed in the view: new entries, and those that went on since."""
        agent = view.agents.get(self.agent_id) if self.agent_id else view.main
        if agent is not None:
            self._follow(agent, changed)
        if self._has_notices:
            self._add_notices(view, agent)

    def _follow(self, agent: AgentView, changed: frozenset[Key]) -> None:
        if self._agent is not agent:
            if self._agent is not None:
                self._empty()
            self._agent, self._seen = agent, 0
        for number, shown in list(self._live.items()):
            entry = agent.entries.get(number)
            if entry is None:
                self._live.pop(number)
            elif entry.key in changed or _status(entry) != shown.status:
                self._update(entry, shown)
        self._add_new(agent)

    def _empty(self) -> None:
        """Drop all entries, and whatever could be put before them."""
        self._saved, self._dropped, self._unshown = SavedTalk(_NOTHING_SAVED), (), None
        self._live.clear()
        self._log.reset()

    def _add_new(self, agent: AgentView) -> None:
        new = _after(agent, self._seen)
        if self._read is not None and not self._seen and agent.transcript.older:
            if not self._dropped:
                self._dropped = _before(agent, new)
                self._log.prepend((), more=True)
        elif new and new[0].number > self._seen + 1 and new[0].name != REWOUND and agent.transcript.older:
            self._log.append(LogEntry("note", _older_hint(agent)))
        waiting: list[LogEntry] = []
        for entry in new:
            self._seen = entry.number
            if entry.kind == "note" and entry.name in {CLEARED, REWOUND, COMPACTED}:
                self._log.extend(waiting)
                waiting = []
                if entry.name == COMPACTED:
                    self._renumber(agent, entry)
                else:
                    self._cut(entry)
            waiting.append(self._new_entry(entry))
        if waiting:
            self._log.extend(waiting)
            self._leave_older(agent)

    def _leave_older(self, agent: AgentView) -> None:
        """Drop from a long log what the view dropped, as a long run would fill the memory; it can be shown again."""
        entries, first = self._log.entries, next(iter(agent.entries.values()), None)
        if len(entries) <= MOST_LOGGED or first is None or not agent.transcript.older or self._read is None:
            return
        key = "/".join(first.key)
        index = next((index for index, entry in enumerate(entries) if entry.key == key), 0)
        if index and self._log.drop_before(index):
            self._dropped, self._unshown = _before(agent, [first]), None
            self._saved.take_back()
            self._log.prepend((), more=True)

    def _add_notices(self, view: View, agent: AgentView | None) -> None:
        """Append the new notices of the view, except those that the log has in another form, and of model calls."""
        if view.noticed == self._noticed:
            return
        after = self._noticed if view.noticed > self._noticed else 0
        entries: Iterable[EntryView] = () if agent is None else agent.entries.values()
        own = {(entry.ts, entry.text) for entry in entries if entry.kind == "note"}
        for notice in view.notices_after(after):
            if notice.code != RETRY and notice.ts not in self._told and (notice.ts, notice.message) not in own:
                where = f"{notice.step_id}: " if notice.step_id else ""
                self._log.append(LogEntry("note", where + notice.message, status=notice.kind))
        self._noticed = view.noticed

    def _cut(self, note: EntryView) -> None:
        """Drop from the log what a clear or a rewind took out of the conversation."""
        if note.name == CLEARED:
            self._empty()
            return
        self._live.clear()
        first = note.message_index or 0
        self._saved.cut(first)
        if self._unshown is not None:
            self._unshown = before_message(self._unshown, first)
        self._dropped = () if self._unshown == [] else tuple(_including(part, note) for part in self._dropped)
        entries = self._log.entries
        lost = (index for index, entry in enumerate(entries) if (entry.message_index or 0) >= first)
        behind = next((index for index in lost if entries[index].message_index is not None), None)
        if behind is not None:
            self._log.cut(behind)

    def _renumber(self, agent: AgentView, note: EntryView) -> None:
        """Renumber the messages after a summary has replaced the first ones."""
        known = {"/".join(entry.key): entry.message_index for entry in agent.entries.values() if entry.kind != "note"}
        for shown in self._log.entries:
            if shown.key in known:
                shown.message_index = known[shown.key]
            else:
                shown.message_index = index_after_summary(shown.message_index, note.kept_from)
        for entry in self._unshown or ():
            entry.message_index = index_after_summary(entry.message_index, note.kept_from)
        self._dropped = tuple(_including(part, note) for part in self._dropped)
        self._saved.summarise(note.kept_from)

    def _new_entry(self, entry: EntryView) -> LogEntry:
        """Return a log entry for an entry of the view."""
        shown = LogEntry(
            _kind(entry),
            images=entry.images,
            attempt=entry.attempt,
            key="/".join(entry.key),
            message_index=entry.message_index if entry.kind != "note" else None,
        )
        self._fill(entry, shown)
        shown.folded = _is_folded(entry)
        if _may_change(entry):
            self._live[entry.key[-1]] = shown
        return shown

    def _finished(self, entry: EntryView) -> LogEntry:
        """Return a log entry for an entry that won't change any more."""
        shown = self._new_entry(entry)
        self._live.pop(entry.key[-1], None)
        return shown

    def _update(self, entry: EntryView, shown: LogEntry) -> None:
        was_open = shown.is_open
        self._fill(entry, shown)
        shown.images, shown.message_index = entry.images, entry.message_index
        if was_open and not shown.is_open:
            shown.folded = _is_folded(entry)
        if not _may_change(entry):
            self._live.pop(entry.key[-1], None)
        self._log.changed(shown)

    def _fill(self, entry: EntryView, shown: LogEntry) -> None:
        shown.status = _status(entry)
        if isinstance(entry, CallView):
            shown.title, shown.detail, shown.diff = call_title(entry), call_facts(entry), entry.diff
            above = f"… {counted(entry.cut, 'character')} above\n" if entry.cut and entry.is_open else ""
            below = f"\n… {counted(entry.cut, 'more character')}" if entry.cut and not entry.is_open else ""
            shown.set_text(f"{above}{printed(entry.text, entry.exit_code)}{below}")
            if entry.tool == QUESTION and entry.status == "ok" and (answers := answers_in(entry.text)):
                shown.draw = partial(answered_lines, answers, "", entry.until)
        elif entry.kind == "reasoning":
            seconds = int(entry.until - entry.ts)
            thought = f"thought for {seconds} s" if seconds > 0 else "thought"
            shown.title = "thinking" if entry.status == "streaming" else thought
            self._stream(entry, shown)
        elif entry.kind == "answer":
            self._stream(entry, shown)
        else:
            more = f"\n… {counted(entry.cut, 'more character')}" if entry.cut else ""
            text = entry.text if entry.name != "host" else one_line(entry.text, NOTICE_LENGTH)
            shown.set_text(text + more)
            shown.detail = f"{one_line(entry.by)} said" if entry.by else ""

    def _stream(self, entry: EntryView, shown: LogEntry) -> None:
        """Keep the whole text of an answer in the log, even if the view keeps only the end of it."""
        size, had = entry.cut + len(entry.text), shown.streamed
        if shown.attempt != entry.attempt or not entry.cut:
            shown.set_text(entry.text)
        elif 0 <= size - had <= len(entry.text) and entry.status == "streaming":
            shown.add_text(entry.text[len(entry.text) - (size - had) :])
        elif size != had:
            shown.set_text(f"{entry.text}\n\n… {counted(entry.cut, 'more character')}")
        shown.attempt, shown.streamed = entry.attempt, size


def _before(agent: AgentView, new: list[EntryView]) -> tuple[JournalPart, ...]:
    """Return the parts of journals with what an agent did before the first of the new entries."""
    first = new[0] if new else None
    return tuple(
        JournalPart(source, since, last, first.first if first is not None and first.source == source else last + 1)
        for source, (since, last) in agent.transcript.older.items()
    )


def _including(part: JournalPart, note: EntryView) -> JournalPart:
    """Extend a part to include the event of a note that changes its entries."""
    return structs.replace(part, last=max(part.last, note.last)) if part.source == note.source else part


def _older_hint(agent: AgentView) -> str:
    """Return a line in place of entries that the view dropped before they were shown."""
    source, (first, _) = next(iter(agent.transcript.older.items()))
    shown_by = f"vibe plan logs {agent.plan_id} {agent.step_id}" if agent.step_id else ""
    return f"earlier entries are not shown: `{shown_by or f'vibe events tail {source} --from {first}'}` shows it"


def _after(agent: AgentView, number: int) -> list[EntryView]:
    """Return the entries after the one of that number, in order."""
    new = takewhile(lambda entry: entry.number > number, reversed(agent.entries.values()))
    return [*new][::-1]


def _kind(entry: EntryView) -> str:
    if isinstance(entry, CallView):
        return SHELL if entry.tool == SHELL else "call"
    if entry.kind == "note" and entry.name == ENDED:
        return "turn"
    return "note" if entry.kind == "user" and entry.name == "host" else entry.kind


def _status(entry: EntryView) -> str:
    return entry.outcome if isinstance(entry, CallView) else entry.status


def _may_change(entry: EntryView) -> bool:
    return entry.is_open if isinstance(entry, CallView) else entry.status == "streaming" or entry.name == RETRY


def _is_folded(entry: EntryView) -> bool:
    """Return whether an entry starts folded: reasoning does, and a call that ended without changing files."""
    if isinstance(entry, CallView):
        return not entry.is_open and not entry.diff and entry.tool != SHELL
    return entry.kind == "reasoning"
