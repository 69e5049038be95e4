"""The chat log follows the transcript of an agent, however much the view keeps of it."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from time import process_time
from typing import Any

import pytest
from anyio import create_task_group, to_thread
from msgspec.structs import replace
from textual.app import App, ComposeResult

from ipc import events as e
from ipc.errors import UnknownSourceError
from ipc.events import CommandDisplay, Event
from tests.unit.cli.textual_ui.overview.views import HOSTILE, give
from tests.unit.cli.textual_ui.presenters.test_older import written
from vibe.cli.textual_ui.log.chat_log import ChatLog
from vibe.cli.textual_ui.log.entry import LogEntry
from vibe.cli.textual_ui.presenters.chat_presenter import (
    CHUNK,
    MOST_LOGGED,
    ChatPresenter,
    JournalPart,
    SavedPart,
    journals_of,
)
from vibe.core.compactor import summary_message
from vibe.core.messages import AssistantMessage, Message, ToolCall, ToolMessage, UserMessage
from vibe.front.event_text import QUESTION
from vibe.system.errors import UsageError
from vibe.view.agent_view import MOST_ENTRIES, TEXT_CHARACTERS, EntryView
from vibe.view.view import View

CHAT: dict[str, Any] = {"session_id": "chat"}
OTHER: dict[str, Any] = {"session_id": "chat", "subagent_id": "helper"}
CALL = e.ToolCallEvent(tool_call_id="1", tool="bash", arguments={}, summary="bash pytest -q", **CHAT)


def told(text: str, index: int | None = None) -> e.UserMessageEvent:
    return e.UserMessageEvent(text=text, message_index=index, **CHAT)


def answered(text: str, message_id: str = "m", index: int | None = None) -> e.AssistantEvent:
    return e.AssistantEvent(message_id=message_id, text=text, message_index=index, **CHAT)


def piece(text: str, attempt: int = 1) -> e.AssistantDeltaEvent:
    return e.AssistantDeltaEvent(message_id="m", text=text, attempt=attempt, **CHAT)


def ended(status: str = "ok", content: str = "", **fields: Any) -> e.ToolResultEvent:
    return e.ToolResultEvent(tool_call_id="1", tool="bash", status=status, content=content, **fields, **CHAT)


class LogApp(App[None]):
    def compose(self) -> ComposeResult:
        yield ChatLog()


class Shown:
    """A log, its presenter and the view that they follow."""

    def __init__(self, log: ChatLog) -> None:
        self.log = log
        self.view = View()
        self.presenter = ChatPresenter(log)

    def see(self, *events: Event) -> None:
        self.presenter.present(self.view, give(self.view, *events))

    @property
    def lines(self) -> list[str]:
        rows = (self.log.render_line(y).text.rstrip() for y in range(self.log.size.height))
        return [row for row in rows if row]

    @property
    def said(self) -> list[tuple[str, str]]:
        return [
            (entry.kind, "  ".join(filter(None, (entry.title or entry.text, entry.detail))))
            for entry in self.log.entries
        ]


@asynccontextmanager
async def shown() -> AsyncGenerator[Shown]:
    app = LogApp()
    async with app.run_test(size=(80, 24)):
        yield Shown(app.query_one(ChatLog))


async def test_what_was_told_said_and_done_is_in_the_log() -> None:
    async with shown() as chat:
        chat.see(told("go"), CALL, ended(content="3 passed", duration_s=4.25), answered("**done**"))
        assert chat.said == [("user", "go"), ("call", "bash pytest -q  4.2 s"), ("answer", "**done**")]
        call = chat.log.entries[1]
        assert (call.status, call.text, call.folded) == ("ok", "3 passed", True)


async def test_an_answer_streams_into_one_entry_and_begins_anew_with_another_attempt() -> None:
    async with shown() as chat:
        chat.see(piece("wro"))
        chat.see(piece("ng"))
        assert chat.said == [("answer", "wrong")]
        chat.see(piece("ri", attempt=2))
        chat.see(piece("ght", attempt=2))
        assert chat.said == [("answer", "right")]
        assert chat.log.entries[0].is_open
        chat.see(answered("right."))
        assert chat.said == [("answer", "right.")]
        assert not chat.log.entries[0].is_open


async def test_of_a_long_answer_the_log_has_all_that_streamed() -> None:
    async with shown() as chat:
        lines = [f"line {number} {'x' * 80}\n" for number in range(1_000)]
        for line in lines:
            chat.see(piece(line))
        assert len("".join(lines)) > 2 * TEXT_CHARACTERS
        assert chat.log.entries[0].text == "".join(lines)
        chat.see(answered("".join(lines)))
        assert chat.log.entries[0].text == "".join(lines)
        assert chat.log.entries[0].status == "done"


async def test_a_call_is_open_while_it_prints_and_folded_once_it_ended() -> None:
    async with shown() as chat:
        chat.see(CALL, e.ToolStreamEvent(tool_call_id="1", tool="bash", text="one\n", **CHAT))
        chat.see(e.ToolStreamEvent(tool_call_id="1", tool="bash", text="two\n", **CHAT))
        call = chat.log.entries[0]
        assert (call.status, call.text, call.folded) == ("running", "one\ntwo\n", False)
        chat.see(ended("error", "exit code 1"))
        assert (call.status, call.title, call.detail, call.folded) == ("error", "bash pytest -q", "failed", True)


async def test_questions_that_a_person_skipped_are_told_as_skipped() -> None:
    async with shown() as chat:
        asks = e.ToolCallEvent(tool_call_id="q", tool=QUESTION, arguments={}, summary="Which?", **CHAT)
        skipped = e.ToolResultEvent(
            tool_call_id="q", tool=QUESTION, status="ok", content="The user did not answer.", **CHAT
        )
        chat.see(asks, skipped)
        assert chat.log.entries[0].detail == "skipped"


async def test_a_change_of_files_shows_its_diff() -> None:
    async with shown() as chat:
        chat.see(CALL)
        chat.see(ended(diff="--- a\n+++ b\n@@ -1 +1 @@\n-x\n+y\n"))
        call = chat.log.entries[0]
        assert call.diff.endswith("+y\n")
        assert not call.folded


async def test_a_call_that_a_person_opened_is_left_open_by_what_else_happens() -> None:
    async with shown() as chat:
        chat.see(CALL, ended(content="text"))
        chat.log.toggle(chat.log.entries[0])
        chat.see(told("more"), answered("yes"))
        assert not chat.log.entries[0].folded


@pytest.mark.parametrize(("status", "code", "sign"), [("ok", 3, "✗"), ("ok", 0, "✓"), ("error", None, "✗")])
async def test_the_sign_of_a_call_is_that_of_its_work(status: str, code: int | None, sign: str) -> None:
    async with shown() as chat:
        display = CommandDisplay(command="make", exit_code=code)
        printed = "\n".join(f"line {number}" for number in range(9))
        chat.see(CALL, ended(status, printed + f"\n[exit code {code}]" * bool(code), display=display, duration_s=0.2))
        assert chat.log.entries[0].text == printed
        line = chat.lines[0]
        assert line.startswith(sign)
        assert ("exit 3 · 0.2 s" in line) is (code == 3)
        last = [line.strip("│ ") for line in chat.lines if "│ line" in line]
        if sign == "✓":
            assert last == []
        else:
            assert last[:2] == ["line 6", "line 7"]
            assert last[2].startswith("line 8 ")
            assert last[2].endswith(" 6 more lines · Enter")


async def test_how_a_command_of_the_person_ended_is_in_the_log() -> None:
    async with shown() as chat:
        call = e.ToolCallEvent(tool_call_id="1", tool="shell", arguments={}, summary="false", **CHAT)
        display = CommandDisplay(command="false", exit_code=3)
        chat.see(
            call, e.ToolResultEvent(tool_call_id="1", tool="shell", status="error", content="", display=display, **CHAT)
        )
        assert chat.said == [("shell", "$ false  exit 3")]


async def test_who_steered_from_elsewhere_is_named() -> None:
    async with shown() as on:
        on.see(e.UserMessageEvent(text="Mind the tests", origin="steer", by="Ana\x1b[31m", **CHAT), told("And mine"))
        assert [line for line in on.lines if line] == ["> Mind the tests", "  Ana said", "> And mine"]


async def test_what_was_mentioned_is_a_line_and_shows_by_a_key() -> None:
    async with shown() as chat:
        chat.see(told('look at @a.py\n\n<file path="a.py">\nsecret = 1\nb\n</file>'))
        assert chat.lines == ["> look at @a.py", "  [a.py: 2 lines]"]
        chat.log.entries[0].whole = True
        chat.log.changed(chat.log.entries[0])
        assert "  secret = 1" in chat.lines


async def test_reasoning_is_folded_and_notes_and_warnings_are_lines() -> None:
    async with shown() as chat:
        chat.see(
            told("go"),
            e.ReasoningDeltaEvent(message_id="m", text="hm", **CHAT),
            e.WarningEvent(code="x", message="careful", **CHAT),
            e.UserMessageEvent(text="budget is low", origin="host", **CHAT),
        )
        assert chat.said == [("user", "go"), ("reasoning", "thinking"), ("note", "careful"), ("note", "budget is low")]
        assert chat.log.entries[1].folded
        assert chat.log.entries[2].status == "warning"
        chat.see(answered("ok"))
        assert chat.said[1] == ("reasoning", "thought")


async def test_the_next_try_of_a_call_takes_the_place_of_the_last_one() -> None:
    async with shown() as chat:
        chat.see(told("go"), e.WarningEvent(code="model.retry", message="try 2 in 1.0 s", **CHAT))
        chat.see(e.WarningEvent(code="model.retry", message="try 3 in 2.0 s", **CHAT))
        assert chat.said == [("user", "go"), ("note", "try 3 in 2.0 s")]
        chat.see(answered("ok"), e.WarningEvent(code="model.retry", message="try 2 in 1.0 s", **CHAT))
        assert [text for _, text in chat.said] == ["go", "try 3 in 2.0 s", "ok", "try 2 in 1.0 s"]


async def test_what_is_said_of_plans_and_of_the_whole_is_in_the_chat_once() -> None:
    async with shown() as chat:
        chat.see(e.WarningEvent(code="x", message="before all", ts=1.0))
        assert chat.said == [("note", "before all")]
        chat.see(
            told("go"),
            e.WarningEvent(code="x", message="of the chat", ts=2.0, **CHAT),
            e.ErrorEvent(code="x", message="of a step", ts=3.0, plan_id="plan", subagent_step_id="one"),
        )
        chat.see(answered("ok"))
        assert [text for _, text in chat.said] == ["before all", "go", "of the chat", "one: of a step", "ok"]
        assert chat.log.entries[3].status == "error"
        chat.presenter.show(chat.view, "chat")
        assert [text for _, text in chat.said] == ["go", "of the chat", "ok"]


async def test_what_is_said_of_a_plan_is_in_a_chat_with_an_agent_of_its_own_and_an_answer_only_once() -> None:
    step: dict[str, Any] = {"plan_id": "plan", "subagent_step_id": "two"}
    answers = ({"question": "Which format?", "answer": "CSV"},)
    answer = e.AnswerEvent(request_id="r", answers=answers, by="ana", ts=6.0, **step)
    async with shown() as chat:
        chat.presenter.show(chat.view, "chat")
        chat.see(e.WarningEvent(code="x", message="the disk is full", ts=4.0, **step))
        chat.see(e.WarningEvent(code="model.retry", message="try 2 in 1.0 s", ts=4.5, **step))
        chat.see(e.QuestionEvent(request_id="r", questions=({"question": "Which format?"},), ts=5.0, **step))
        chat.presenter.tell_answers(answer)
        chat.see(answer)
        assert [entry.kind for entry in chat.log.entries] == ["note", "drawn"]
        assert chat.log.entries[0].text == "two: the disk is full"
        assert chat.log.entries[0].status == "warning"


async def test_other_agents_are_not_in_it_until_one_is_chosen() -> None:
    async with shown() as chat:
        chat.see(told("go"), e.UserMessageEvent(text="help", **OTHER))
        assert chat.said == [("user", "go")]
        chat.presenter.show(chat.view, "helper")
        assert chat.said == [("user", "help")]
        chat.see(told("more"), e.AssistantEvent(message_id="h", text="helped", **OTHER))
        assert chat.said == [("user", "help"), ("answer", "helped")]


async def test_entries_that_the_view_dropped_stay() -> None:
    async with shown() as chat:
        for batch in range(0, 3 * MOST_ENTRIES, 100):
            chat.see(*(told(f"message {number}") for number in range(batch, batch + 100)))
        assert len(chat.log.entries) == 3 * MOST_ENTRIES
        assert chat.said[0] == ("user", "message 0")


async def test_where_more_came_at_once_than_is_kept_a_line_says_so() -> None:
    async with shown() as chat:
        chat.see(told("first"))
        chat.see(*(told(f"message {number}") for number in range(2 * MOST_ENTRIES)))
        assert chat.said[1][0] == "note"
        assert "vibe events" in chat.said[1][1]
        assert len(chat.log.entries) == MOST_ENTRIES + 2


async def test_a_conversation_that_is_taken_back_loses_its_end() -> None:
    async with shown() as chat:
        chat.see(told("a", 0), answered("b", "1", 1), told("c", 2), CALL, ended(), answered("d", "2", 3))
        chat.see(e.ConversationRewoundEvent(message_index=2, prompt="c", **CHAT), told("e", 2))
        chat.presenter.say('back to before "c"', "note")
        assert [text for _, text in chat.said] == ["a", "b", 'back to before "c"', "e", 'back to before "c"']


async def test_what_the_view_has_just_noted_is_not_said_once_more() -> None:
    async with shown() as chat:
        chat.see(told("a", 0), e.ConversationRewoundEvent(message_index=0, prompt="a", **CHAT))
        chat.presenter.say('back to before "a"', "note")
        assert [text for _, text in chat.said] == ['back to before "a"']


async def test_the_same_problem_twice_in_a_row_is_said_once_and_a_command_as_often_as_it_is_typed() -> None:
    async with shown() as chat:
        for _ in range(2):
            chat.presenter.say("the session can't be written", "error")
        for _ in range(2):
            chat.presenter.say("/cost", "typed")
        assert [text for _, text in chat.said] == ["the session can't be written", "/cost", "/cost"]


async def test_what_was_resumed_can_be_taken_back_too() -> None:
    async with shown() as chat:
        chat.presenter.resume(SavedPart([UserMessage("old"), AssistantMessage("older"), UserMessage("x")]))
        chat.see(told("new", 3), e.ConversationRewoundEvent(message_index=1, **CHAT))
        assert [text for _, text in chat.said] == ["old", "back to an earlier prompt"]


async def test_of_what_was_resumed_and_is_taken_back_one_note_tells() -> None:
    async with shown() as chat:
        chat.presenter.resume(SavedPart([UserMessage("old"), AssistantMessage("older"), UserMessage("x")]))
        chat.see(e.ConversationRewoundEvent(message_index=2, prompt="x", **CHAT))
        chat.presenter.say('back to before "x"', "note")
        assert [text for _, text in chat.said] == ["old", "older", 'back to before "x"']


SUMMARY = e.CompactEndEvent(tokens_before=9, tokens_after=2, messages_before=6, messages_after=3, **CHAT)
"""Of messages 0 to 5, the last two have become 1 and 2."""


async def test_what_is_taken_back_after_a_summary_is_what_the_conversation_lost() -> None:
    async with shown() as chat:
        chat.presenter.resume(SavedPart([UserMessage("old"), AssistantMessage("older")]))
        chat.see(told("2", 2), told("3", 3), told("4", 4), told("5", 5), SUMMARY)
        chat.see(told("6", 3), told("7", 4), e.ConversationRewoundEvent(message_index=3, prompt="6", **CHAT))
        note = "summarised: 9 → 2 tok"
        kept = ["old", "older", "2", "3", "4"]
        assert [text for _, text in chat.said] == [*kept, "5", note, 'back to before "6"']

        chat.see(e.ConversationRewoundEvent(message_index=2, prompt="5", **CHAT))
        assert [text for _, text in chat.said] == [*kept, 'back to before "5"']


async def test_a_conversation_that_is_cleared_begins_anew() -> None:
    async with shown() as chat:
        chat.see(told("a", 0), answered("b", "1", 1))
        chat.see(e.ConversationClearedEvent(**CHAT), told("c", 0))
        assert [text for _, text in chat.said] == ["new conversation; the old one is under /resume", "c"]


async def test_what_comes_from_outside_moves_no_cursor() -> None:
    async with shown() as chat:
        call = e.ToolCallEvent(tool_call_id="1", tool="bash", arguments={}, summary=HOSTILE, **CHAT)
        chat.see(told(HOSTILE), answered(HOSTILE), call, ended(content=HOSTILE))
        for entry in chat.log.entries:
            assert not {"\x1b", "\u202e", "\x07"} & set(entry.text + entry.title)


async def test_records_stand_among_the_messages_where_they_belong() -> None:
    async with shown() as chat:
        messages = [UserMessage(f"message {number}") for number in range(CHUNK + 10)]
        places = (0, 5, 5, CHUNK + 2, CHUNK + 10, None, 9 * CHUNK)
        records = [(place, LogEntry("note", f"record {number}")) for number, place in enumerate(places)]
        chat.presenter.resume(SavedPart(messages), records)
        assert [each.text for each in chat.log.entries if "record" in each.text] == [f"record {n}" for n in range(3, 7)]
        await chat.presenter.show_older()
        texts = [each.text for each in chat.log.entries]
        assert [texts.index(f"record {n}") for n in range(7)] == [
            0,
            6,
            7,
            CHUNK + 5,
            CHUNK + 14,
            CHUNK + 15,
            CHUNK + 16,
        ]
        assert texts[8] == "message 5"


async def test_of_a_resumed_conversation_the_newest_are_shown_and_older_ones_come_when_asked_for() -> None:
    messages = [UserMessage(f"message {number}") for number in range(2 * CHUNK + 1)]
    async with shown() as chat:
        chat.presenter.resume(SavedPart(messages))
        assert [text for _, text in chat.said] == [f"message {number}" for number in range(CHUNK + 1, 2 * CHUNK + 1)]
        await chat.presenter.show_older()
        assert chat.said[0] == ("user", "message 1")
        await chat.presenter.show_older()
        assert chat.said[0] == ("user", "message 0")
        await chat.presenter.show_older()

        assert [entry.message_index for entry in chat.log.entries] == list(range(2 * CHUNK + 1))


async def test_words_are_found_in_what_was_not_shown_yet_and_nothing_comes_twice(vibe_home: Path) -> None:
    count = 3 * MOST_ENTRIES
    events = await to_thread.run_sync(written, vibe_home, *(told(f"message {number}.") for number in range(count)))
    async with shown() as chat:
        chat.presenter = ChatPresenter(chat.log, read=journals_of(vibe_home, None))
        chat.see(*events)
        async with create_task_group() as tasks:
            tasks.start_soon(chat.presenter.show_older)
            assert await chat.presenter.find("MESSAGE 555.")
        assert chat.log.screen.get_selected_text() == "message 555."
        texts = [text for _, text in chat.said]
        assert texts == [f"message {number}." for number in range(count - len(texts), count)]
        assert len(texts) < count
        assert not await chat.presenter.find("nowhere")
        assert len(chat.log.entries) == count


async def test_what_was_said_before_a_summary_comes_above_it() -> None:
    async def read() -> SavedPart:
        return SavedPart([UserMessage("first"), AssistantMessage("second")], gone)

    async def gone() -> SavedPart:
        raise UsageError("the session is gone")

    async with shown() as chat:
        messages = [summary_message("In short.", "", ()), UserMessage("third")]
        chat.presenter.resume(SavedPart(messages, read))
        assert chat.said == [("reasoning", "the conversation was summarised here"), ("user", "third")]
        for _ in range(3):
            await chat.presenter.show_older()

        assert [text for _, text in chat.said] == [
            "earlier messages can't be shown: the session is gone",
            *("first", "second", "the conversation was summarised here", "third"),
        ]
        assert [entry.message_index for entry in chat.log.entries] == [None, None, None, 0, 1]
        assert (chat.log.entries[3].folded, chat.log.entries[3].text) == (True, "In short.")


async def test_of_a_long_talk_that_was_resumed_the_log_keeps_the_end_too(vibe_home: Path) -> None:
    saved = [UserMessage(f"message {number}") for number in range(2 * CHUNK)]
    count = 2 * MOST_LOGGED
    told_since = [told(f"message {number}", number) for number in range(len(saved), count)]
    events = await to_thread.run_sync(written, vibe_home, *told_since)

    async with shown() as chat:
        chat.presenter = ChatPresenter(chat.log, read=journals_of(vibe_home, None))
        chat.presenter.resume(SavedPart(saved))
        await chat.presenter.show_older()
        for start in range(0, len(events), 50):
            chat.see(*events[start : start + 50])
            assert len(chat.log.entries) <= MOST_LOGGED + 50
        assert len(chat.log.entries) < MOST_LOGGED
        while chat.said[0] != ("user", "message 0"):
            await chat.presenter.show_older()

        assert [text for _, text in chat.said] == [f"message {number}" for number in range(count)]


@pytest.mark.parametrize("index", [0, 150, 390, 450, 700], ids=lambda index: f"to message {index}")
@pytest.mark.parametrize("looked", [0, 2], ids=["", "after a look at some"])
async def test_what_was_taken_back_to_before_the_first_that_the_log_has_does_not_come_again(
    index: int, looked: int, vibe_home: Path
) -> None:
    saved = [UserMessage(f"message {number}") for number in range(CHUNK)]
    before = [told(f"message {number}", number) for number in range(CHUNK, 2 * MOST_LOGGED)]
    after = [told(f"other {number}", number) for number in range(index, index + 9)]
    rewound = e.ConversationRewoundEvent(message_index=index, **CHAT)
    events = await to_thread.run_sync(written, vibe_home, *before, rewound, *after)
    back = len(before)

    async with shown() as chat:
        chat.presenter = ChatPresenter(chat.log, read=journals_of(vibe_home, None))
        chat.presenter.resume(SavedPart(saved))
        for start in range(0, back, 50):
            chat.see(*events[start : start + 50])
        assert chat.said[0] != ("user", "message 0")
        for _ in range(looked):
            await chat.presenter.show_older()
        chat.see(*events[back:])
        for _ in range(20):
            await chat.presenter.show_older()
        left = [f"message {number}" for number in range(index)]
        since = ["back to an earlier prompt", *(event.text for event in after)]
        assert [text for _, text in chat.said] == [*left, *since]

        chat.presenter.show(chat.view, "chat")
        for _ in range(20):
            await chat.presenter.show_older()
        assert [text for _, text in chat.said] == [*left[CHUNK:], *since]


async def test_what_was_taken_back_does_not_come_again_as_something_older() -> None:
    async with shown() as chat:
        chat.presenter.resume(SavedPart([UserMessage(f"message {number}") for number in range(2 * CHUNK)]))
        chat.see(e.ConversationRewoundEvent(message_index=3, **CHAT))
        await chat.presenter.show_older()

        assert [text for _, text in chat.said] == [
            *("message 0", "message 1", "message 2"),
            "back to an earlier prompt",
        ]


async def test_entries_that_the_view_dropped_before_they_were_shown_are_read_when_asked_for() -> None:
    events = [told(f"message {number}") for number in range(3 * MOST_ENTRIES)]
    events = [replace(event, seq=number, source="run") for number, event in enumerate(events, 1)]
    asked: list[tuple[str, tuple[JournalPart, ...]]] = []

    async def read(agent_id: str, parts: tuple[JournalPart, ...]) -> list[EntryView]:
        asked.append((agent_id, parts))
        view = View()
        found: list[EntryView] = []
        for event in events[: 2 * MOST_ENTRIES]:
            give(view, event)
            found.append(next(reversed(view.agents[agent_id].entries.values())))
        return found

    async with shown() as chat:
        chat.presenter = ChatPresenter(chat.log, read=read)
        chat.see(*events)
        assert chat.said[0] == ("user", f"message {2 * MOST_ENTRIES}")
        await chat.presenter.show_older()
        assert chat.said[0] == ("user", f"message {2 * MOST_ENTRIES - CHUNK}")
        for _ in range(9):
            await chat.presenter.show_older()

        assert [text for _, text in chat.said] == [f"message {number}" for number in range(3 * MOST_ENTRIES)]
        first_shown = 2 * MOST_ENTRIES + 1
        assert asked == [("chat", (JournalPart("run", 1, first_shown - 1, first_shown),))]


async def test_of_a_long_talk_the_log_keeps_the_end_and_the_rest_comes_when_asked_for() -> None:
    count = 3 * MOST_LOGGED
    events = [replace(told(f"message {number}"), seq=number + 1, source="run") for number in range(count)]

    async def read(agent_id: str, parts: tuple[JournalPart, ...]) -> list[EntryView]:
        view, found = View(), list[EntryView]()
        for event in events[: parts[0].before - 1]:
            give(view, event)
            found.append(next(reversed(view.agents[agent_id].entries.values())))
        return found

    async with shown() as chat:
        chat.presenter = ChatPresenter(chat.log, read=read)
        chat.presenter.resume(SavedPart([]))
        for start in range(0, count, 50):
            chat.see(*events[start : start + 50])
            assert len(chat.log.entries) <= MOST_LOGGED + 50
            assert chat.said[-1] == ("user", f"message {start + 49}")
        assert len(chat.log.entries) < MOST_LOGGED
        while chat.said[0] != ("user", "message 0"):
            await chat.presenter.show_older()

        assert [text for _, text in chat.said] == [f"message {number}" for number in range(count)]


async def test_a_long_talk_is_left_whole_while_the_person_looks_at_its_beginning() -> None:
    async def read(_: str, _parts: tuple[JournalPart, ...]) -> list[EntryView]:
        return []

    async with shown() as chat:
        chat.presenter = ChatPresenter(chat.log, read=read)
        chat.see(*(told(f"message {number}") for number in range(MOST_ENTRIES)))
        chat.log.scroll_home(animate=False)
        for start in range(MOST_ENTRIES, 2 * MOST_LOGGED, 50):
            chat.see(*(told(f"message {number}") for number in range(start, start + 50)))
        assert chat.said[0] == ("user", "message 0")
        assert len(chat.log.entries) == 2 * MOST_LOGGED


async def test_that_older_entries_can_not_be_read_is_a_line() -> None:
    async def read(_: str, parts: tuple[JournalPart, ...]) -> list[EntryView]:
        raise UnknownSourceError(parts[0].source, "is gone", ())

    async with shown() as chat:
        chat.presenter = ChatPresenter(chat.log, read=read)
        chat.see(*(told(f"message {number}") for number in range(2 * MOST_ENTRIES)))
        await chat.presenter.show_older()
        await chat.presenter.show_older()

        assert chat.said[0][1].startswith("earlier messages can't be shown: ")
        assert len(chat.log.entries) == MOST_ENTRIES + 1


async def test_ten_thousand_messages_open_within_a_second() -> None:
    text = "A paragraph of some words that fills a line or two. " * 6
    messages: list[Message] = []
    for number in range(2_500):
        call = ToolCall(str(number), "bash", '{"command": "ls"}')
        messages += [
            UserMessage(text),
            AssistantMessage(text, tool_calls=(call,)),
            ToolMessage("line\n" * 30, str(number), "bash"),
            AssistantMessage("```python\nx = 1\n```\n" + text),
        ]
    async with shown() as chat:
        begun = process_time()
        chat.presenter.resume(SavedPart(messages))
        assert process_time() - begun < 2
        assert 0 < len(chat.log.entries) <= CHUNK + 1
