"""ChatPresenter: keeps a chat log in step with the transcript of one agent; and the log of messages that were saved."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from vibe.app.view.agent_view import AgentView
from vibe.app.view.transcript import CallView, EntryView, Key
from vibe.app.view.view import CLEARED, REWOUND, View
from vibe.cli.render.event_text import counted, one_line
from vibe.cli.textual_ui.log.chat_log import ChatLog
from vibe.cli.textual_ui.log.entry import LogEntry
from vibe.core.messages import AssistantMessage, Message, ToolCall, ToolMessage, UserMessage

SHELL = "shell"
"""The tool that events name for the user's own command line."""
TITLE_LENGTH = 400
NOTICE_LENGTH = 1_000
"""Characters of a notice of the host to the agent."""
_arguments = msgspec.json.Decoder(dict[str, object])


class ChatPresenter:
    """Has a log show what an agent was told, said and did; entries that the view drops stay in the log.

    ``agent_id`` is the agent; blank: the one that the view takes for the person's, and then the log has notices of all
    that runs as well. Entries that others put into the log stay where they are, until a rewind cuts them off or a clear
    drops all.
    """

    def __init__(self, log: ChatLog, agent_id: str = "") -> None:
        self.agent_id = agent_id
        self._log = log
        self._agent: AgentView | None = None
        self._seen = 0
        self._noticed = 0
        self._live: dict[str, LogEntry] = {}
        """Entries of the log that may still change, by the number of the view's."""
        self._streamed: dict[str, tuple[int, int]] = {}
        """Of an answer or reasoning that streams: its attempt, and the characters that the log has of it."""

    def show(self, view: View, agent_id: str) -> None:
        """Show another agent from now on."""
        self.agent_id = agent_id
        self._forget()
        self._log.reset()
        self.present(view, frozenset())

    def present(self, view: View, changed: frozenset[Key]) -> None:
        """Show what changed in the view: new entries, and those that went on."""
        agent = view.agents.get(self.agent_id) if self.agent_id else view.main
        if agent is not None:
            self._follow(agent, changed)
        if not self.agent_id:
            self._add_notices(view, agent)

    def _follow(self, agent: AgentView, changed: frozenset[Key]) -> None:
        if self._agent is not agent:
            if self._agent is not None:
                self._forget()
                self._log.reset()
            self._agent = agent
        for number, shown in list(self._live.items()):
            entry = agent.entries.get(number)
            if entry is None:
                self._live.pop(number)
            elif entry.key in changed or entry.status != shown.status:
                self._update(entry, shown)
        self._add_new(agent)

    def _forget(self) -> None:
        self._agent, self._seen = None, 0
        self._live.clear()
        self._streamed.clear()

    def _add_new(self, agent: AgentView) -> None:
        new = list(_after(agent, self._seen))
        if new and new[0].number > self._seen + 1 and new[0].name != REWOUND and agent.older:
            self._log.append(LogEntry("note", _where_older_is(agent)))
        waiting: list[LogEntry] = []
        for entry in new:
            self._seen = entry.number
            if entry.kind == "note" and entry.name in {CLEARED, REWOUND}:
                self._log.extend(waiting)
                waiting = []
                self._cut(entry)
            waiting.append(self._made(entry))
        if waiting:
            self._log.extend(waiting)

    def _add_notices(self, view: View, agent: AgentView | None) -> None:
        """Say what is to be said once and is no note of the agent's own."""
        if view.noticed == self._noticed:
            return
        after = self._noticed if view.noticed > self._noticed else 0
        entries: Iterable[EntryView] = () if agent is None else agent.entries.values()
        own = {(entry.ts, entry.text) for entry in entries if entry.kind == "note"}
        for notice in view.notices_after(after):
            if (notice.ts, notice.message) not in own:
                where = f"{notice.step_id}: " if notice.step_id else ""
                self._log.append(LogEntry("note", where + notice.message, status=notice.kind))
        self._noticed = view.noticed

    def _cut(self, note: EntryView) -> None:
        """Take out of the log what the conversation lost."""
        self._live.clear()
        self._streamed.clear()
        if note.name == CLEARED:
            self._log.reset()
            return
        first = note.message_index or 0
        entries = self._log.entries
        lost = (index for index, entry in enumerate(entries) if (entry.message_index or 0) >= first)
        behind = next((index for index in lost if entries[index].message_index is not None), None)
        if behind is not None:
            self._log.cut(behind)

    def _made(self, entry: EntryView) -> LogEntry:
        """The log's entry for one of the view."""
        shown = LogEntry(
            _kind(entry),
            images=entry.images,
            key="/".join(entry.key),
            message_index=entry.message_index if entry.kind != "note" else None,
        )
        self._fill(entry, shown)
        shown.folded = _is_folded(entry)
        if _may_change(entry):
            self._live[entry.key[-1]] = shown
        return shown

    def _update(self, entry: EntryView, shown: LogEntry) -> None:
        was_open = shown.is_open
        self._fill(entry, shown)
        shown.images, shown.message_index = entry.images, entry.message_index
        if was_open and not shown.is_open:
            shown.folded = _is_folded(entry)
        if not _may_change(entry):
            self._live.pop(entry.key[-1], None)
            self._streamed.pop(entry.key[-1], None)
        self._log.changed(shown)

    def _fill(self, entry: EntryView, shown: LogEntry) -> None:
        shown.status = entry.status
        if isinstance(entry, CallView):
            shown.title, shown.diff = _title(entry), entry.diff
            above = f"… {counted(entry.cut, 'character')} above\n" if entry.cut and entry.is_open else ""
            below = f"\n… {counted(entry.cut, 'more character')}" if entry.cut and not entry.is_open else ""
            shown.set_text(f"{above}{entry.text}{below}")
        elif entry.kind == "reasoning":
            shown.title = "thinking" if entry.status == "streaming" else "thought"
            self._stream(entry, shown)
        elif entry.kind == "answer":
            self._stream(entry, shown)
        else:
            more = f"\n… {counted(entry.cut, 'more character')}" if entry.cut else ""
            text = entry.text if entry.name != "host" else one_line(entry.text, NOTICE_LENGTH)
            shown.set_text(text + more)

    def _stream(self, entry: EntryView, shown: LogEntry) -> None:
        """Have the whole text of an answer in the log, also where the view keeps but its end."""
        number, size = entry.key[-1], entry.cut + len(entry.text)
        attempt, had = self._streamed.get(number, (entry.attempt, 0))
        if attempt != entry.attempt or not entry.cut:
            shown.set_text(entry.text)
        elif 0 <= size - had <= len(entry.text) and entry.status == "streaming":
            shown.add_text(entry.text[len(entry.text) - (size - had) :])
        elif size != had:
            shown.set_text(f"{entry.text}\n\n… {counted(entry.cut, 'more character')}")
        self._streamed[number] = (entry.attempt, size)


def _where_older_is(agent: AgentView) -> str:
    """A line that stands for entries that the view dropped before they were shown."""
    source, (first, _) = next(iter(agent.older.items()))
    shown_by = f"vibe plan logs {agent.plan_id} {agent.step_id}" if agent.step_id else ""
    return f"more was said and done here: `{shown_by or f'vibe events tail {source} --from {first}'}` shows it"


def _after(agent: AgentView, number: int) -> list[EntryView]:
    """The entries behind one, in order."""
    new: list[EntryView] = []
    for entry in reversed(agent.entries.values()):
        if entry.number <= number:
            break
        new.append(entry)
    return new[::-1]


def _kind(entry: EntryView) -> str:
    if isinstance(entry, CallView):
        return SHELL if entry.tool == SHELL else "call"
    return "note" if entry.kind == "user" and entry.name == "host" else entry.kind


def _may_change(entry: EntryView) -> bool:
    return entry.is_open if isinstance(entry, CallView) else entry.status == "streaming"


def _is_folded(entry: EntryView) -> bool:
    """Return True for reasoning, and for a call that ended and changed nothing."""
    if isinstance(entry, CallView):
        return not entry.is_open and not entry.diff and entry.tool != SHELL
    return entry.kind == "reasoning"


def _title(call: CallView) -> str:
    """A call in a line."""
    if call.status == "writing":
        return one_line(f"{call.tool} {call.written[-TITLE_LENGTH:]}", TITLE_LENGTH)
    words = one_line(f"$ {call.words}" if call.tool == SHELL else call.words or call.tool, TITLE_LENGTH)
    if call.status == "queued":
        return f"{words}  (waits its turn)"
    if call.is_open:
        return words
    took = f"  {call.duration_s:.1f} s" if call.duration_s and call.duration_s >= 0.1 else ""
    if call.status in {"denied", "cancelled"}:
        return f"{words}  ({'stopped' if call.status == 'cancelled' else call.status})"
    why = f"  {one_line(call.text, 120)}" if call.status == "error" and call.tool != SHELL else ""
    return f"{words}{took}{why}"


# --- what was saved


def history_entries(messages: Iterable[Message]) -> list[LogEntry]:
    """The log of a conversation that is resumed, from its messages."""
    shown: list[LogEntry] = []
    calls: dict[str, LogEntry] = {}
    for index, message in enumerate(messages):
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
