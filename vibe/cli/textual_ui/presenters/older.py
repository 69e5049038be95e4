"""Older: log entries from before those that are shown, out of messages that were saved and of journals of runs."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import chain, takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeAlias

import msgspec
from anyio import to_thread

from vibe.cli.textual_ui.log.entry import LogEntry
from vibe.core.messages import AssistantMessage, Message, ToolCall, ToolMessage, UserMessage
from vibe.front.event_text import one_line
from vibe.view.agent_view import AgentView
from vibe.view.transcript import EntryView, index_after_summary
from vibe.view.view import CLEARED, COMPACTED, REWOUND, View, apply

if TYPE_CHECKING:  # long after the first frame
    from ipc.events import Event
    from ipc.registry import Registry

CHUNK: Final = 200
"""Messages or entries that are shown at a time."""
TITLE_LENGTH: Final = 400
NOTICE_LENGTH: Final = 1_000
"""Characters of a notice of the host to the agent."""
SUMMARISED: Final = "the conversation was summarised here"
_arguments = msgspec.json.Decoder(dict[str, object])


@dataclass(frozen=True, slots=True)
class SavedPart:
    """Messages of a saved conversation; ``read_earlier`` reads those for which a summary at their beginning stands in.

    None: there is no summary.
    """

    messages: Sequence[Message]
    read_earlier: ReadEarlier | None = None


ReadEarlier: TypeAlias = Callable[[], Awaitable[SavedPart]]
"""Raises a VibeError if they can't be read."""


class SavedTalk:
    """The messages of a conversation that is resumed, from the newest to the oldest, also those before summaries."""

    def __init__(self, saved: SavedPart) -> None:
        self._saved = saved
        self._part, self._end = saved, len(saved.messages)
        self._kept_from, self._offset = 0, 0
        """The first message for which no summary stands in by now, and by how much the index of each is lower."""

    @property
    def is_left(self) -> bool:
        """There are messages that were not shown."""
        return self._end > 0 or self._part.read_earlier is not None

    def newest(self) -> list[LogEntry]:
        """The entries of the newest messages that were not shown yet; none of those that must be read first."""
        messages, end = self._part.messages, self._end
        start = max(0, end - CHUNK)
        while start and isinstance(messages[start], ToolMessage):
            start -= 1  # with the call that it answers
        self._end = start
        entries = history_entries(messages[start:end], start)
        for entry in entries:
            entry.message_index = self._index(entry.message_index)
        return entries

    async def older(self) -> list[LogEntry]:
        """As ``newest``; reads those before a summary.

        Raises:
            VibeError: they can't be read, and count as shown.
        """
        part = self._part
        if not self._end and part.read_earlier is not None:
            self._part = SavedPart(())
            earlier = await part.read_earlier()
            self._part, self._end = earlier, len(earlier.messages)
        return self.newest()

    def cut(self, index: int) -> None:
        """Have none from that message on."""
        messages = self._saved.messages[: index + self._offset]
        saved = SavedPart(messages, self._saved.read_earlier)
        if self._part is self._saved:
            self._part, self._end = saved, min(self._end, len(messages))
        self._saved = saved

    def summarise(self, kept_from: int) -> None:
        """A summary took the place of all messages before that one."""
        if kept_from:
            self._kept_from = self._offset + kept_from
            self._offset += kept_from - 1

    def take_back(self) -> None:
        """Count all messages as not shown."""
        self._part, self._end = self._saved, len(self._saved.messages)

    def _index(self, index: int | None) -> int | None:
        is_known = index is not None and index >= self._kept_from and self._part is self._saved
        return index - self._offset if is_known and index is not None else None


@dataclass(frozen=True, slots=True)
class JournalPart:
    """Events of a run, from ``first`` to ``last``; entries that begin at event ``before`` or later are known."""

    source: str
    first: int
    last: int
    before: int


ReadJournals: TypeAlias = Callable[[str, tuple[JournalPart, ...]], Awaitable[list[EntryView]]]
"""Returns the entries of an agent in parts of journals."""


def journals_of(home: Path, runtime_dir: Path | None) -> ReadJournals:
    """Return how the journals that a vibe folder knows are read; it raises what ``read_entries`` does."""

    async def read(agent_id: str, parts: tuple[JournalPart, ...]) -> list[EntryView]:
        from ipc.registry import Registry  # noqa: PLC0415  long after the first frame

        return await to_thread.run_sync(read_entries, Registry(home, runtime_dir), agent_id, parts)

    return read


def read_entries(registry: Registry, agent_id: str, parts: Iterable[JournalPart]) -> list[EntryView]:
    """The entries of an agent in parts of journals, oldest first; reads files.

    Raises:
        IpcError: a run is unknown by now, or its journal can't be read.
    """
    view = View()
    found: dict[int, EntryView] = {}
    for part in parts:
        for event in _events(registry, part):
            agent = view.agents.get(agent_id)
            kept = 0 if agent is None else agent.first
            apply(view, event)
            agent = view.agents.get(agent_id)
            if agent is not None:
                _collect(agent, found, kept)
        for number in [entry.number for entry in found.values() if entry.first >= part.before]:
            if found[number].source == part.source:
                del found[number]
    for agent in view.agents.values():
        agent.rest()
    return list(found.values())


def _collect(agent: AgentView, found: dict[int, EntryView], kept: int) -> None:
    """Take the newest entry of an agent, before the view drops it for others; the event may have brought none.

    ``kept`` is the number of the first entry that the view had before the event.
    """
    entry = next(reversed(agent.entries.values()), None)
    if entry is None or entry.number in found:
        return
    if entry.kind == "note" and entry.name == COMPACTED:
        for known in found.values():
            if known.number < kept:  # the view has seen to the others
                known.message_index = index_after_summary(known.message_index, entry.kept_from)
    elif entry.kind == "note" and entry.name in {CLEARED, REWOUND}:
        left = 0 if entry.name == CLEARED else len(before_message(list(found.values()), entry.message_index or 0))
        for number in list(found)[left:]:
            del found[number]
    found[entry.number] = entry


def before_message(entries: Sequence[EntryView], index: int) -> Sequence[EntryView]:
    """The entries before the first that is of a message of that index, or of a later one."""
    places = (place for place, entry in enumerate(entries) if entry.message_index is not None)
    return entries[: next((place for place in places if (entries[place].message_index or 0) >= index), len(entries))]


def _events(registry: Registry, part: JournalPart) -> Iterator[Event]:
    """The events of a part, but for the facts of plans: no transcript has them."""
    from ipc.codec import decode_event  # noqa: PLC0415  long after the first frame
    from ipc.errors import UnknownSourceError  # noqa: PLC0415  as above
    from ipc.events import Fact  # noqa: PLC0415  as above
    from ipc.journal import JournalReader  # noqa: PLC0415  as above

    journal = registry.resolve(part.source).journal
    if journal is None:
        raise UnknownSourceError(part.source, "has no journal on this machine", ())
    with closing(JournalReader(journal, part.first)) as reader:
        batches = chain.from_iterable(iter(reader.read_batch, []))
        for _, body in takewhile(lambda numbered: numbered[0] <= part.last, batches):
            event = decode_event(body)
            if event is not None and not isinstance(event, Fact):
                yield event


def history_entries(messages: Iterable[Message], first: int = 0) -> list[LogEntry]:
    """The log of a conversation that is resumed, from its messages; ``first`` is the index of the first of them."""
    shown: list[LogEntry] = []
    calls: dict[str, LogEntry] = {}
    for index, message in enumerate(messages, first):
        if isinstance(message, UserMessage):
            shown.append(_told(message, index))
        elif isinstance(message, AssistantMessage):
            shown += _answered(message, index, calls)
        elif isinstance(message, ToolMessage):
            call = calls.pop(message.tool_call_id, None)
            if call is not None:
                call.status, call.images = _ended(message), len(message.images)
                call.set_text(message.content)
    return shown


def _told(message: UserMessage, index: int) -> LogEntry:
    """The entry for what an agent was told: by a person, by the host, or by itself in a summary."""
    from vibe.core.compactor import summary_in  # noqa: PLC0415  long after the first frame
    from vibe.core.middleware.port import HOST_NOTICE  # noqa: PLC0415  as above

    if not message.content.startswith(HOST_NOTICE):
        return LogEntry("user", message.content, images=len(message.images), message_index=index)
    summary = summary_in(message)
    if summary:
        return LogEntry("reasoning", summary, title=SUMMARISED, message_index=index)
    return LogEntry("note", one_line(message.content, NOTICE_LENGTH), message_index=index)


def _answered(message: AssistantMessage, index: int, calls: dict[str, LogEntry]) -> Iterator[LogEntry]:
    if message.reasoning:
        yield LogEntry("reasoning", message.reasoning, title="thought", message_index=index)
    if message.content.strip():
        status = "interrupted" if message.interrupted else "done"
        yield LogEntry("answer", message.content, status=status, message_index=index)
    for call in message.tool_calls:
        calls[call.id] = LogEntry("call", title=_called(call), status="cancelled", message_index=index)
        yield calls[call.id]


def _ended(message: ToolMessage) -> str:
    return "cancelled" if message.status == "interrupted" else message.status


def _called(call: ToolCall) -> str:
    """A call in a line, as far as its arguments tell."""
    try:
        arguments = _arguments.decode(call.arguments)
    except msgspec.DecodeError:
        return one_line(f"{call.name} {call.arguments[:TITLE_LENGTH]}", TITLE_LENGTH)
    said = " ".join(value[:TITLE_LENGTH] for value in list(arguments.values())[:2] if isinstance(value, str))
    return one_line(f"{call.name} {said}", TITLE_LENGTH)
