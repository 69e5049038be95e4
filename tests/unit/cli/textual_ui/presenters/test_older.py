"""Log entries older than those shown, from saved messages and from journals."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from ipc import events as e
from ipc.bus import EventBus
from ipc.errors import UnknownSourceError
from ipc.registry import Registry, RunInfo
from vibe.cli.textual_ui.presenters.chat_presenter import (
    CHUNK,
    JournalPart,
    SavedPart,
    SavedTalk,
    history_entries,
    journals_of,
    read_entries,
)
from vibe.core.messages import AssistantMessage, Message, ToolCall, ToolMessage, UserMessage
from vibe.view.agent_view import MOST_ENTRIES, CallView, EntryView


def test_a_resumed_conversation_is_shown_from_its_messages() -> None:
    messages: list[Message] = [
        UserMessage("go"),
        AssistantMessage(
            "I look",
            tool_calls=(ToolCall("1", "bash", '{"command": "ls"}'), ToolCall("2", "grep", "{broken")),
            reasoning="hm",
        ),
        ToolMessage("a.py", "1", "bash"),
        AssistantMessage("", tool_calls=(ToolCall("3", "read", "{}"),)),
        ToolMessage("no", "3", "read", status="denied"),
        AssistantMessage("done", interrupted=True),
    ]
    entries = list(history_entries(messages))
    assert [(entry.kind, entry.title or entry.text, entry.status, entry.message_index) for entry in entries] == [
        ("user", "go", "done", 0),
        ("reasoning", "thought", "done", 1),
        ("answer", "I look", "done", 1),
        ("call", "bash ls", "ok", 1),
        ("call", "grep {broken", "cancelled", 1),
        ("call", "read", "denied", 3),
        ("answer", "done", "interrupted", 5),
    ]
    assert entries[3].text == "a.py"
    assert entries[3].folded


def test_a_call_comes_with_its_result_wherever_the_messages_are_parted() -> None:
    call = AssistantMessage("", tool_calls=(ToolCall("1", "bash", "{}"),))
    messages = [UserMessage("go"), call, ToolMessage("out", "1", "bash"), *[UserMessage("x")] * (CHUNK - 1)]
    talk = SavedTalk(SavedPart(messages))

    entries = talk.newest()
    assert (entries[0].kind, entries[0].text, entries[0].message_index) == ("call", "out", 1)
    assert [entry.text for entry in talk.newest()] == ["go"]
    assert not talk.is_left
    assert talk.newest() == []


SOURCE = "run-1"


def written(home: Path, *events: e.Event) -> list[e.Event]:
    """Write the journal of a run that has ended, and return its events with their numbers."""
    numbered = [
        msgspec.structs.replace(event, seq=seq, source=SOURCE, ts=1.0 * seq) for seq, event in enumerate(events, 1)
    ]
    with EventBus(home, source=SOURCE, info=RunInfo(cwd="/", title="a test")) as bus:
        for event in numbered:
            bus.publish(event)
    return numbered


def read(home: Path, first: int, last: int, before: int) -> list[EntryView]:
    return read_entries(Registry(home), "chat", [JournalPart(SOURCE, first, last, before)])


def test_the_entries_of_an_agent_are_read_from_a_part_of_a_journal(vibe_home: Path) -> None:
    other = e.UserMessageEvent(text="not this one", session_id="chat", subagent_id="helper")
    told = [e.UserMessageEvent(text=f"message {number}", session_id="chat") for number in range(2 * MOST_ENTRIES)]
    call = e.ToolCallEvent(tool_call_id="1", tool="bash", arguments={}, summary="bash ls", session_id="chat")
    ended = e.ToolResultEvent(tool_call_id="1", tool="bash", status="ok", content="a.py", session_id="chat")
    shown = e.UserMessageEvent(text="shown already", session_id="chat")
    open_call = msgspec.structs.replace(call, tool_call_id="2")
    events = written(vibe_home, *told, other, call, open_call, shown, ended)

    entries = read(vibe_home, 11, len(events), before=events[-2].seq)

    assert [entry.text for entry in entries[: 2 * MOST_ENTRIES - 10]] == [event.text for event in told[10:]]
    calls = entries[2 * MOST_ENTRIES - 10 :]
    assert [(entry.status, entry.text) for entry in calls if isinstance(entry, CallView)] == [
        ("ok", "a.py"),  # its end came after the part that is shown
        ("cancelled", ""),
    ]
    assert len(calls) == 2


def test_what_was_taken_back_or_cleared_is_not_among_them(vibe_home: Path) -> None:
    told = [e.UserMessageEvent(text=f"message {n}", message_index=n, session_id="chat") for n in range(4)]
    back = e.ConversationRewoundEvent(message_index=2, session_id="chat", prompt="message 2")
    anew = e.ConversationClearedEvent(session_id="chat")
    events = written(vibe_home, *told[:2], anew, *told, back, e.UserMessageEvent(text="again", session_id="chat"))

    entries = read(vibe_home, 1, len(events), before=len(events) + 1)

    assert [entry.text for entry in entries] == [
        *("new conversation; the old one is under /resume", "message 0", "message 1"),
        *('back to before "message 2"', "again"),
    ]


def test_a_conversation_that_was_taken_back_to_its_beginning_has_nothing_older(vibe_home: Path) -> None:
    told = [e.UserMessageEvent(text=f"message {n}", message_index=n, session_id="chat") for n in range(4)]
    back = e.ConversationRewoundEvent(message_index=0, session_id="chat")
    events = written(vibe_home, *told, back)

    assert read(vibe_home, 1, len(events), before=len(events)) == []


def test_what_a_summary_stands_in_for_is_counted_as_it_is_since(vibe_home: Path) -> None:
    told = [e.UserMessageEvent(text=f"{n}", message_index=n, session_id="chat") for n in range(2 * MOST_ENTRIES)]
    kept = MOST_ENTRIES // 2
    summary = e.CompactEndEvent(
        tokens_before=9, tokens_after=2, messages_before=len(told), messages_after=kept + 1, session_id="chat"
    )
    events = written(vibe_home, *told, summary)

    entries = read(vibe_home, 1, len(events), before=len(events))

    assert [entry.message_index for entry in entries] == [*[None] * (len(told) - kept), *range(1, kept + 1)]


async def test_a_run_that_is_unknown_by_now_is_an_error_in_words(vibe_home: Path) -> None:
    with pytest.raises(UnknownSourceError, match="run-1 is not a run"):
        await journals_of(vibe_home, None)("chat", (JournalPart(SOURCE, 1, 9, 9),))
