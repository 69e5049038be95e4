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

from vibe.app.view.agent_view import AgentView
from vibe.app.view.transcript import EntryView
from vibe.app.view.view import CLEARED, REWOUND, View, apply
from vibe.cli.render.event_text import one_line
from vibe.cli.textual_ui.log.entry import LogEntry
from vibe.core.messages import AssistantMessage, Message, ToolCall, ToolMessage, UserMessage

if TYPE_CHECKING:  # long after the first frame
    from ipc.events import Event
    from ipc.registry import Registry

CHUNK: Final = 200
"""Messages or entries that are shown at a time."""
TITLE_LENGTH: Final = 400
_arguments = msgspec.json.Decoder(dict[str, object])


class SavedTalk:
    """The messages of a conversation that is taken up, from the newest to the oldest."""

    def __init__(self, messages: Sequence[Message]) -> None:
        self._messages = tuple(messages)
        self._end = len(self._messages)

    @property
    def is_left(self) -> bool:
        """There are messages that were not shown."""
        return self._end > 0

    def newest(self) -> list[LogEntry]:
        """The entries of the newest messages that were not shown yet."""
        end = self._end
        start = max(0, end - CHUNK)
        while start and isinstance(self._messages[start], ToolMessage):
            start -= 1  # with the call that it answers
        self._end = start
        return history_entries(self._messages[start:end], start)

    def cut(self, index: int) -> None:
        """Show none from that message on."""
        self._end = min(self._end, index)


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
            apply(view, event)
            agent = view.agents.get(agent_id)
            if agent is not None:
                _collect(agent, found)
        for number in [entry.number for entry in found.values() if entry.first >= part.before]:
            if found[number].source == part.source:
                del found[number]
    for agent in view.agents.values():
        agent.rest()
    return list(found.values())


def _collect(agent: AgentView, found: dict[int, EntryView]) -> None:
    """Take the newest entry of an agent, before the view drops it for others; the event may have brought none."""
    entry = next(reversed(agent.entries.values()), None)
    if entry is None or entry.number in found:
        return
    if entry.kind == "note" and entry.name in {CLEARED, REWOUND}:
        index = entry.message_index or 0
        lost = next((known.number for known in found.values() if (known.message_index or -1) >= index), entry.number)
        for number in [number for number in found if entry.name == CLEARED or number >= lost]:
            del found[number]
    found[entry.number] = entry


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
            images = len(message.images)
            shown.append(LogEntry("user", message.content, images=images, message_index=index))
        elif isinstance(message, AssistantMessage):
            shown += _answered(message, index, calls)
        elif isinstance(message, ToolMessage):
            call = calls.pop(message.tool_call_id, None)
            if call is not None:
                call.status, call.images = _ended(message), len(message.images)
                call.set_text(message.content)
    return shown


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
