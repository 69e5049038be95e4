"""ChatPresenter: keeps a chat log in step with the transcript of one agent."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final

from anyio import Lock
from anyio.lowlevel import checkpoint

from ipc.errors import IpcError
from vibe.cli.textual_ui.log.chat_log import ChatLog
from vibe.cli.textual_ui.log.entry import LogEntry
from vibe.cli.textual_ui.log.finder import has_text
from vibe.cli.textual_ui.presenters.older import (
    CHUNK,
    NOTICE_LENGTH,
    JournalPart,
    ReadJournals,
    SavedPart,
    SavedTalk,
    before_message,
)
from vibe.front.event_text import counted, one_line
from vibe.system.errors import VibeError
from vibe.view.agent_view import AgentView
from vibe.view.transcript import CallView, EntryView, Key, index_after_summary
from vibe.view.view import CLEARED, COMPACTED, REWOUND, View

SHELL = "shell"
"""The tool that events name for the user's own command line."""
QUESTION = "ask_user_question"
TITLE_LENGTH = 400
MOST_LOGGED = 1_000
"""Entries of the log from which on the older ones are left to the journal."""
_NO_TALK: Final = SavedPart(())


class ChatPresenter:
    """Has a log show what an agent was told, said and did; entries that the view drops stay in the log.

    ``agent_id`` is the agent; blank: the one that the view takes for the person's, and then the log has notices of all
    that runs as well. Entries that others put into the log stay where they are, until a rewind cuts them off or a clear
    drops all. What is older than the first entry comes with ``show_older``; ``read`` finds what the view dropped.
    """

    def __init__(self, log: ChatLog, agent_id: str = "", *, read: ReadJournals | None = None) -> None:
        self.agent_id = agent_id
        self._log = log
        self._read = read
        self._saved = SavedTalk(_NO_TALK)
        self._dropped: tuple[JournalPart, ...] = ()
        """Parts of journals with entries from before the first of the log."""
        self._unshown: Sequence[EntryView] | None = None
        """The entries in them that the log does not have; None: they were not read yet."""
        self._at_once = Lock()
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

    def resume(self, saved: SavedPart) -> None:
        """Show the newest of the messages that a conversation is resumed with; the others come as older ones."""
        self._saved = SavedTalk(saved)
        self._log.extend(self._saved.newest())
        self._log.prepend((), more=self.has_older)

    def say(self, text: str, status: str) -> None:
        """Put a sentence of ours behind what is shown; ``status`` is that of a note."""
        self._log.append(LogEntry("note", text, status=status))

    async def find(self, text: str) -> bool:
        """Scroll up to the next place of a text, also in what was not shown yet. False: it is nowhere."""
        log, wanted = self._log, text.casefold()
        if log.find(text, backwards=True, wraps=False):
            return True
        while self.has_older:
            known = len(log.entries)
            await self.show_older()
            await checkpoint()  # for keys
            if any(has_text(entry, wanted) for entry in log.entries[: len(log.entries) - known]):
                break
        return log.find(text, backwards=True)

    async def show_older(self) -> None:
        """Put some entries before the first of the log, or a line on why they can't be read."""
        async with self._at_once:
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
                return  # something else is shown by now
        before = [self._still(entry) for entry in unshown[-CHUNK:]]
        self._unshown = unshown[:-CHUNK]
        if not self._unshown:
            self._dropped = ()
        self._log.prepend([LogEntry("note", problem)] if problem else before, more=self.has_older)

    async def _show_saved(self) -> None:
        """Put some saved messages before the first of the log, those before a summary as well."""
        saved = self._saved
        try:
            before = await saved.older()
        except VibeError as error:
            before = [LogEntry("note", f"earlier messages can't be shown: {error}")]
        if self._saved is saved:
            self._log.prepend(before, more=self.has_older)

    @property
    def has_older(self) -> bool:
        """There are entries from before the first of the log."""
        return self._saved.is_left or bool(self._dropped)

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
            elif entry.key in changed or _status(entry) != shown.status:
                self._update(entry, shown)
        self._add_new(agent)

    def _forget(self) -> None:
        self._agent, self._seen = None, 0
        self._saved, self._dropped, self._unshown = SavedTalk(_NO_TALK), (), None
        self._live.clear()
        self._streamed.clear()

    def _add_new(self, agent: AgentView) -> None:
        new = list(_after(agent, self._seen))
        if self._read is not None and not self._seen and agent.older:
            if not self._dropped:
                self._dropped = _before(agent, new)
                self._log.prepend((), more=True)
        elif new and new[0].number > self._seen + 1 and new[0].name != REWOUND and agent.older:
            self._log.append(LogEntry("note", _where_older_is(agent)))
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
            waiting.append(self._made(entry))
        if waiting:
            self._log.extend(waiting)
            self._leave_older(agent)

    def _leave_older(self, agent: AgentView) -> None:
        """Take out of a long log what the view dropped: it comes again, and a long run would fill the memory."""
        entries, first = self._log.entries, next(iter(agent.entries.values()), None)
        if len(entries) <= MOST_LOGGED or first is None or not agent.older or self._read is None:
            return
        key = "/".join(first.key)
        index = next((index for index, entry in enumerate(entries) if entry.key == key), 0)
        if index and self._log.drop_before(index):
            self._dropped, self._unshown = _before(agent, [first]), None
            self._saved.take_back()
            self._log.prepend((), more=True)

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
            self._saved, self._dropped, self._unshown = SavedTalk(_NO_TALK), (), None
            self._log.reset()
            return
        first = note.message_index or 0
        self._saved.cut(first)
        if self._unshown is not None:
            self._unshown = before_message(self._unshown, first)
        self._dropped = () if self._unshown == [] else tuple(_as_far_as(part, note) for part in self._dropped)
        entries = self._log.entries
        lost = (index for index, entry in enumerate(entries) if (entry.message_index or 0) >= first)
        behind = next((index for index in lost if entries[index].message_index is not None), None)
        if behind is not None:
            self._log.cut(behind)

    def _renumber(self, agent: AgentView, note: EntryView) -> None:
        """Number the messages as they are once a summary stands in for the first."""
        known = {"/".join(entry.key): entry.message_index for entry in agent.entries.values() if entry.kind != "note"}
        for shown in self._log.entries:
            if shown.key in known:
                shown.message_index = known[shown.key]
            else:
                shown.message_index = index_after_summary(shown.message_index, note.kept_from)
        for entry in self._unshown or ():
            entry.message_index = index_after_summary(entry.message_index, note.kept_from)
        self._dropped = tuple(_as_far_as(part, note) for part in self._dropped)
        self._saved.summarise(note.kept_from)

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

    def _still(self, entry: EntryView) -> LogEntry:
        """The log's entry for one that does not change any more."""
        shown = self._made(entry)
        self._live.pop(entry.key[-1], None)
        self._streamed.pop(entry.key[-1], None)
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
        shown.status = _status(entry)
        if isinstance(entry, CallView):
            shown.title, shown.detail, shown.diff = _title(entry), _detail(entry), entry.diff
            above = f"… {counted(entry.cut, 'character')} above\n" if entry.cut and entry.is_open else ""
            below = f"\n… {counted(entry.cut, 'more character')}" if entry.cut and not entry.is_open else ""
            shown.set_text(f"{above}{entry.text}{below}")
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


def _before(agent: AgentView, new: list[EntryView]) -> tuple[JournalPart, ...]:
    """The parts of journals with what an agent did before the first of the new entries."""
    first = new[0] if new else None
    return tuple(
        JournalPart(source, since, last, first.first if first is not None and first.source == source else last + 1)
        for source, (since, last) in agent.older.items()
    )


def _as_far_as(part: JournalPart, note: EntryView) -> JournalPart:
    """The part, with an event that says what became of its entries."""
    return replace(part, last=max(part.last, note.last)) if part.source == note.source else part


def _where_older_is(agent: AgentView) -> str:
    """A line that stands for entries that the view dropped before they were shown."""
    source, (first, _) = next(iter(agent.older.items()))
    shown_by = f"vibe plan logs {agent.plan_id} {agent.step_id}" if agent.step_id else ""
    return f"earlier entries are not shown: `{shown_by or f'vibe events tail {source} --from {first}'}` shows it"


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


def _status(entry: EntryView) -> str:
    return entry.outcome if isinstance(entry, CallView) else entry.status


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
    return one_line(f"$ {call.words}" if call.tool == SHELL else call.words or call.tool, TITLE_LENGTH)


def _detail(call: CallView) -> str:
    """The time that a call took, and the reason why it failed."""
    code = f"exit code {call.exit_code}" if call.exit_code else ""
    if call.tool == SHELL:
        return code or ("cancelled" if call.status == "cancelled" else "")
    if call.is_open or call.status in {"denied", "cancelled"}:
        return ""
    if call.tool == QUESTION and call.status == "ok":
        return one_line(" · ".join(line for line in call.text.splitlines() if line.startswith("→ ")), TITLE_LENGTH)
    took = f"{call.duration_s:.1f} s" if call.duration_s and call.duration_s >= 0.1 else ""
    why = one_line(call.text, 120) if call.status == "error" else ""
    return " · ".join(filter(None, (code, took, why)))
