from __future__ import annotations

from vibe.core.compactor import conversation_text, last_request, split_recent, summary_message
from vibe.core.llm.tokens import estimate_messages
from vibe.core.messages import AssistantMessage, Message, ToolCall, ToolMessage, UserMessage
from vibe.system.plain_text import both_ends

CALLS = (ToolCall("1", "grep", "{}"), ToolCall("2", "bash", "{}"))
TALK: list[Message] = [
    UserMessage("go"),
    AssistantMessage("a" * 400, CALLS),
    ToolMessage("r" * 400, "1", "grep"),
    ToolMessage("r" * 400, "2", "bash"),
    AssistantMessage("b" * 400, (ToolCall("3", "bash", "{}"),)),
    ToolMessage("r" * 400, "3", "bash"),
]


def test_recent_turns_are_whole_and_fit() -> None:
    two_messages = estimate_messages(TALK[4:])

    assert split_recent(TALK, two_messages) == 4
    assert split_recent(TALK, two_messages - 1) == len(TALK)
    assert split_recent(TALK, 10_000) == 0


def test_a_call_is_never_parted_from_its_results() -> None:
    for keep in range(0, 800, 7):
        start = split_recent(TALK, keep)
        assert start == len(TALK) or not isinstance(TALK[start], ToolMessage)


def test_a_record_keeps_its_beginning_and_its_end() -> None:
    record = conversation_text([UserMessage("first"), *TALK * 50, UserMessage("last")], 1_000)

    assert len(record) < 4_200
    assert record.startswith("[user]\nfirst")
    assert record.endswith("last")
    assert "characters left out" in record


def test_clipped_text_counts_what_is_missing() -> None:
    assert both_ends("x" * 30, 10) == "xxxxx\n[... 20 characters left out ...]\nxxxxx"


def test_the_last_request_is_the_last_one_a_person_made() -> None:
    notice = UserMessage("Notice from the host: hurry")

    assert last_request([UserMessage("one"), UserMessage("two"), notice], []) == "two"


def test_a_request_survives_a_summary_of_a_summary() -> None:
    first = summary_message("so far", "write\na parser", ["[ ] 1: lexer"])

    assert last_request([], [first]) == "write\na parser"
    assert "[ ] 1: lexer" in first.content
