"""Every event of the Messages API is handled in its place, and unknown ones do no harm."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any, cast

import anyio
import pytest
from hypothesis import given, strategies as st

from tests.fakes.llm_ports import MemoryObserver, request
from tests.unit.core.llm.test_reader import ERRORS, CutBody
from vibe.core.llm.backend.anthropic import PAUSED, AnthropicBackend
from vibe.core.llm.backend.assembly import AnswerBuilder
from vibe.core.llm.errors import (
    ContextTooLongError,
    ModelAccessError,
    ModelCreditError,
    ModelError,
    ModelOverloadedError,
    ModelProtocolError,
    ModelRefusalError,
    ModelRequestError,
)
from vibe.core.llm.port import Completion, FinishReason
from vibe.core.messages import Thought, ToolCall, Usage

Event = dict[str, Any]
STARTED: Event = {
    "type": "message_start",
    "message": {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "content": [],
        "stop_reason": None,
        "usage": {
            "input_tokens": 10,
            "cache_creation_input_tokens": 200,
            "cache_read_input_tokens": 3000,
            "output_tokens": 1,
            "service_tier": "standard",
            "cache_creation": {"ephemeral_5m_input_tokens": 200},
        },
    },
}
STOPPED: Event = {"type": "message_stop"}


def block(index: int, opened: Event, *deltas: Event) -> list[Event]:
    return [
        {"type": "content_block_start", "index": index, "content_block": opened},
        *({"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas),
        {"type": "content_block_stop", "index": index},
    ]


def text(index: int, *words: str) -> list[Event]:
    return block(index, {"type": "text", "text": ""}, *({"type": "text_delta", "text": word} for word in words))


def thinking(index: int, thought: str, *signature: str) -> list[Event]:
    deltas: list[Event] = [{"type": "thinking_delta", "thinking": thought}] if thought else []
    signed = [{"type": "signature_delta", "signature": part} for part in signature]
    return block(index, {"type": "thinking", "thinking": "", "signature": ""}, *deltas, *signed)


def call(index: int, name: str, *parts: str, identity: str = "") -> list[Event]:
    opened: Event = {"type": "tool_use", "id": identity or f"toolu_{index}", "name": name, "input": {}}
    return block(index, opened, *({"type": "input_json_delta", "partial_json": part} for part in parts))


def ended(reason: str | None, **usage: Any) -> Event:
    counted = {"usage": usage or {"output_tokens": 50}}
    return {"type": "message_delta", "delta": {"stop_reason": reason, "stop_sequence": None}, **counted}


def wire(events: list[Event], line_end: str = "\n") -> bytes:
    lines = (
        f"event: {event.get('type', 'message')}{line_end}data: {json.dumps(event, ensure_ascii=False)}{line_end * 2}"
        for event in events
    )
    return "".join(lines).encode()


async def read(data: bytes | list[bytes], seen: MemoryObserver | None = None) -> Completion:
    answer = AnswerBuilder(seen or MemoryObserver())
    pieces = data if isinstance(data, list) else [data]
    await AnthropicBackend(ERRORS.provider, api_key=None).read(cast("Any", CutBody(pieces)), answer)
    return answer.build(request(), ERRORS)


async def answer_of(*events: Event, reason: str | None = "end_turn") -> Completion:
    return await read(wire([STARTED, *events, ended(reason), STOPPED]))


FULL = [
    STARTED,
    {"type": "ping"},
    *thinking(0, "Let me seé 🙂. ", "Eq", "QBC="),
    *block(1, {"type": "redacted_thinking", "data": "EmwKAhgB"}),
    *text(2, "I will ", "read wörds."),
    *thinking(3, "And list.", "sig2"),
    *call(4, "read_file", "", '{"pa', 'th": "grün 🙂"}'),
    *call(5, "list_dir"),
    ended("tool_use"),
    STOPPED,
]


@given(
    st.sampled_from(["\n", "\r\n", "\r"]),
    st.lists(st.floats(min_value=0, max_value=1), max_size=30),
)
def test_any_cut_gives_the_same_completion(line_end: str, cuts: list[float]) -> None:
    data = wire(FULL, line_end)
    borders = [0, *sorted(int(cut * len(data)) for cut in cuts), len(data)]

    done = anyio.run(read, [data[start:end] for start, end in pairwise(borders)])

    message = done.message
    assert (message.content, message.reasoning) == ("I will read wörds.", "Let me seé 🙂. And list.")
    assert message.tool_calls == (
        ToolCall("toolu_4", "read_file", '{"path": "grün 🙂"}'),
        ToolCall("toolu_5", "list_dir", "{}"),
    )
    assert message.thoughts == (
        Thought("p/m", "Let me seé 🙂. ", "EqQBC="),
        Thought("p/m", sealed="EmwKAhgB"),
        Thought("p/m", "And list.", "sig2", after_characters=18),
    )
    assert done.finish_reason is FinishReason.TOOL_CALLS
    assert done.usage == Usage(3210, 50, 3000, 1, 200)
    assert not done.oddity


async def test_pieces_are_shown_as_they_come() -> None:
    seen = MemoryObserver()
    await read(wire(FULL), seen)
    assert [delta.text for delta in seen.deltas if delta.text] == ["I will ", "read wörds."]
    assert [delta.reasoning for delta in seen.deltas if delta.reasoning] == ["Let me seé 🙂. ", "And list."]
    calls = [delta.call for delta in seen.deltas if delta.call]
    assert [(one.index, one.name) for one in calls if not one.arguments] == [(0, "read_file"), (1, "list_dir")]
    assert "".join(one.arguments for one in calls if one.index == 0) == '{"path": "grün 🙂"}'


@pytest.mark.parametrize("cut", range(1, len(FULL) - 1))
async def test_a_stream_that_ends_early_is_no_answer_unless_it_said_why(cut: int) -> None:
    data = wire(FULL[:cut])
    if FULL[cut - 1]["type"] == "message_delta":
        assert (await read(data)).finish_reason is FinishReason.TOOL_CALLS
        return
    with pytest.raises(ModelProtocolError, match="without a finish_reason"):
        await read(data)


@pytest.mark.parametrize(
    ("reason", "expected", "oddity"),
    [
        ("end_turn", FinishReason.STOP, ""),
        ("stop_sequence", FinishReason.STOP, ""),
        ("max_tokens", FinishReason.LENGTH, ""),
        ("model_context_window_exceeded", FinishReason.LENGTH, ""),
        ("pause_turn", FinishReason.LENGTH, PAUSED),
        ("something_new", FinishReason.STOP, ""),
        (None, FinishReason.STOP, "finish_reason"),
    ],
)
async def test_stop_reasons_are_translated(reason: str | None, expected: FinishReason, oddity: str) -> None:
    done = await answer_of(*text(0, "so far"), reason=reason)
    assert (done.message.content, done.finish_reason) == ("so far", expected)
    assert oddity in done.oddity
    assert bool(oddity) == bool(done.oddity)


@pytest.mark.parametrize(
    ("details", "words"),
    [
        ({}, "refused to answer;"),
        ({"stop_details": None}, "refused to answer;"),
        (
            {"stop_details": {"type": "refusal", "category": "cyber", "explanation": None}},
            r"refused to answer \(cyber\)",
        ),
        ({"stop_details": {"category": "bio", "explanation": "too risky"}}, r"refused to answer \(too risky\)"),
    ],
)
async def test_a_refusal_is_an_error_with_its_reason(details: Event, words: str) -> None:
    event = {"type": "message_delta", "delta": {"stop_reason": "refusal", **details}, "usage": {"output_tokens": 1}}
    with pytest.raises(ModelRefusalError, match=words):
        await read(wire([STARTED, *text(0, "I"), event, STOPPED]))


async def test_blocks_events_and_deltas_of_other_kinds_are_passed_over() -> None:
    done = await answer_of(
        {"type": "brand_new", "index": 0, "delta": {"type": "text_delta", "text": "no"}},
        *block(
            0,
            {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {}},
            {"type": "input_json_delta", "partial_json": '{"query": "x"}'},
        ),
        *block(
            1, {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": [{"type": "x", "text": 5}]}
        ),
        *block(2, {"type": "holograms", "text": {"deep": 1}, "id": 7}, {"type": "text_delta", "text": "no"}),
        *block(
            3,
            {"type": "text", "text": "", "citations": None},
            {"type": "text_delta", "text": "yes"},
            {"type": "citations_delta", "citation": {"cited_text": "a"}},
            {"type": "unheard_of", "text": "no"},
        ),
    )
    assert (done.message.content, done.message.tool_calls) == ("yes", ())


async def test_an_index_written_as_text_is_understood() -> None:
    events = [event | ({"index": str(event["index"])} if "index" in event else {}) for event in FULL]

    assert await read(wire(events)) == await read(wire(FULL))


async def test_what_opens_with_its_content_is_not_lost() -> None:
    done = await answer_of(
        *block(0, {"type": "thinking", "thinking": "all at once", "signature": "s"}),
        *block(1, {"type": "text", "text": "Hel"}, {"type": "text_delta", "text": "lo"}),
        *block(2, {"type": "tool_use", "id": "t", "name": "read", "input": {"a": [1]}}),
        reason="tool_use",
    )
    assert done.message.content == "Hello"
    assert done.message.thoughts == (Thought("p/m", "all at once", "s"),)
    assert done.message.tool_calls == (ToolCall("t", "read", '{"a":[1]}'),)


async def test_arguments_that_stream_replace_those_the_call_opened_with() -> None:
    opened = {"type": "tool_use", "id": "t", "name": "read", "input": {"draft": True}}
    done = await answer_of(
        *block(0, opened, {"type": "input_json_delta", "partial_json": '{"a":1}'}), reason="tool_use"
    )
    assert done.message.tool_calls == (ToolCall("t", "read", '{"a":1}'),)


@pytest.mark.parametrize(
    ("opened", "arguments"), [('{"x":1}', '{"x":1}'), ("{oops", "{oops"), ("", "{}"), (None, "{}"), ([1], "[1]")]
)
async def test_arguments_a_call_opens_with_are_kept_whatever_they_are(opened: object, arguments: str) -> None:
    block_opened: Event = {"type": "tool_use", "id": "a", "name": "read", "input": opened}
    done = await answer_of(*block(0, block_opened), reason="tool_use")
    assert [call.arguments for call in done.message.tool_calls] == [arguments]


async def test_what_a_message_begins_with_counts_and_so_does_its_reason_once_it_ended() -> None:
    said: list[Event] = [
        {"type": "text", "text": "so"},
        {"type": "tool_use", "id": "a", "name": "r", "input": {"x": 1}},
    ]
    start = {"type": "message_start", "message": {"content": said, "stop_reason": "tool_use"}}
    done = await read(wire([start, STOPPED]))
    assert (done.message.content, done.message.tool_calls) == ("so", (ToolCall("a", "r", '{"x":1}'),))
    assert (done.finish_reason, done.oddity) == (FinishReason.TOOL_CALLS, "")
    with pytest.raises(ModelProtocolError, match="without a finish_reason"):
        await read(wire([start]))


async def test_a_pause_with_a_call_of_ours_is_a_turn_with_calls() -> None:
    done = await answer_of(*text(0, "so far"), *call(1, "read", "{}"), reason="pause_turn")
    assert (done.finish_reason, done.oddity) == (FinishReason.TOOL_CALLS, "")


async def test_an_error_after_the_stop_reason_harms_nothing() -> None:
    failed: Event = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
    done = await read(wire([STARTED, *text(0, "whole"), ended("end_turn"), failed]))
    assert (done.message.content, done.finish_reason) == ("whole", FinishReason.STOP)


async def test_calls_that_stream_at_the_same_time_keep_apart() -> None:
    one, other = call(0, "read", '{"a"', ":1}"), call(1, "list", '{"b"', ":2}")
    done = await answer_of(one[0], other[0], one[1], other[1], one[2], other[2], one[3], other[3], reason="tool_use")
    assert [call.arguments for call in done.message.tool_calls] == ['{"a":1}', '{"b":2}']


async def test_an_id_given_twice_does_not_merge_two_calls() -> None:
    events = [*call(0, "read", '{"a":1}', identity="same"), *call(1, "read", '{"a":2}', identity="same")]
    done = await answer_of(*events, reason="tool_use")
    assert [call.arguments for call in done.message.tool_calls] == ['{"a":1}', '{"a":2}']
    assert len({call.id for call in done.message.tool_calls}) == 2


async def test_a_call_torn_by_the_limit_is_told_as_such() -> None:
    events = [STARTED, *call(0, "write", '{"text": "a')[:-1], ended("max_tokens"), STOPPED]
    done = await read(wire(events))
    assert (done.finish_reason, done.message.tool_calls[0].arguments) == (FinishReason.LENGTH, '{"text": "a')


async def test_a_block_without_an_index_is_the_last_one() -> None:
    events = [*call(0, "read", '{"a":1}'), *text(1, "and"), *call(2, "list")]
    done = await answer_of(*({k: v for k, v in event.items() if k != "index"} for event in events), reason="tool_use")
    assert done.message.content == "and"
    assert [(call.name, call.arguments) for call in done.message.tool_calls] == [("read", '{"a":1}'), ("list", "{}")]


async def test_text_of_a_block_that_never_opened_is_kept() -> None:
    done = await answer_of({"type": "content_block_delta", "index": 4, "delta": {"type": "text_delta", "text": "hi"}})
    assert done.message.content == "hi"


async def test_a_thought_without_words_keeps_its_signature() -> None:
    done = await answer_of(*thinking(0, "", "only-sig"), *text(1, "ok"))
    assert (done.message.reasoning, done.message.thoughts) == ("", (Thought("p/m", "", "only-sig"),))


@pytest.mark.parametrize(
    ("started", "at_end", "expected"),
    [
        ({"input_tokens": 5, "output_tokens": 1}, {"output_tokens": 9}, Usage(5, 9, 0, 1)),
        ({"input_tokens": 0, "output_tokens": 0}, {"input_tokens": 5, "output_tokens": 9}, Usage(5, 9, 0, 1)),
        ({"input_tokens": 5, "output_tokens": 1}, {"input_tokens": 0, "output_tokens": 9}, Usage(5, 9, 0, 1)),
        ({"input_tokens": 5}, {"output_tokens": 9, "cache_read_input_tokens": 7}, Usage(12, 9, 7, 1)),
        ({"input_tokens": 5, "cache_read_input_tokens": None}, {"output_tokens": 9}, Usage(5, 9, 0, 1)),
        (None, {"input_tokens": 2, "output_tokens": 9}, Usage(2, 9, 0, 1)),
    ],
)
async def test_usage_is_put_together_from_both_ends(started: Event | None, at_end: Event, expected: Usage) -> None:
    start = {"type": "message_start", "message": {"usage": started} if started else {}}
    done = await read(wire([start, *text(0, "x"), ended("end_turn", **at_end), STOPPED]))
    assert done.usage == expected


async def test_usage_after_the_stop_counts_and_nothing_else_does() -> None:
    finished = {"type": "message_delta", "delta": {"stop_reason": "end_turn"}}
    late = {"type": "message_delta", "delta": {}, "usage": {"input_tokens": 5, "output_tokens": 2}}
    done = await read(wire([*text(0, "x"), finished, STOPPED, *text(1, "no"), late]))
    assert (done.message.content, done.usage) == ("x", Usage(5, 2, 0, 1))


async def test_usage_that_is_never_told_is_estimated() -> None:
    finished = {"type": "message_delta", "delta": {"stop_reason": "end_turn"}}
    assert (await read(wire([*text(0, "x"), finished, STOPPED]))).usage.completion_tokens == 1


@pytest.mark.parametrize(
    ("kind", "message", "expected", "status"),
    [
        ("overloaded_error", "Overloaded", ModelOverloadedError, 529),
        ("rate_limit_error", "slow down", ModelOverloadedError, 429),
        ("api_error", "oops", ModelOverloadedError, 500),
        ("timeout_error", "late", ModelOverloadedError, 504),
        ("new_error", "hm", ModelOverloadedError, 500),
        ("authentication_error", "invalid x-api-key", ModelAccessError, 401),
        ("billing_error", "pay", ModelCreditError, 402),
        ("permission_error", "no", ModelAccessError, 403),
        ("not_found_error", "model: x", ModelRequestError, 404),
        ("invalid_request_error", "bad", ModelRequestError, 400),
        ("invalid_request_error", "prompt is too long: 9 tokens > 8 maximum", ContextTooLongError, 400),
        ("request_too_large", "32 MB", ContextTooLongError, 413),
    ],
)
async def test_an_error_in_the_stream_is_the_one_it_names(
    kind: str, message: str, expected: type[ModelError], status: int
) -> None:
    error = {"type": "error", "error": {"type": kind, "message": message}, "request_id": "req_1"}
    with pytest.raises(ModelError, match=message) as caught:
        await read(wire([STARTED, *text(0, "half"), error]))
    assert (type(caught.value), caught.value.status) == (expected, status)


@pytest.mark.parametrize(
    "told", [{"detail": "no such route"}, {"message": "no such route"}, {"error": "no such route"}]
)
async def test_a_failure_in_a_gateways_own_form_is_told(told: Event) -> None:
    with pytest.raises(ModelOverloadedError, match="no such route"):
        await read(wire([STARTED, told]))


@pytest.mark.parametrize(
    "data",
    [
        b'data: {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": 5}}\n\n',
        b'data: {"type": "content_block_delta", "index": "x"}\n\n',
        b'data: {"type": "content_block_start", "content_block": {"type": "tool_use", "id": 5}}\n\n',
        b'data: {"type": "message_de\n\n',
        b"data: []\n\n",
    ],
)
async def test_an_event_that_cannot_be_read_is_told(data: bytes) -> None:
    with pytest.raises(ModelProtocolError, match="not a completion chunk"):
        await read(wire([STARTED]) + data)


async def test_data_over_many_lines_comments_and_a_mark_at_the_start_are_understood() -> None:
    spread = b'data: {"type": "content_block_delta", "index": 0,\r\ndata: "delta": {"type": "text_delta", "text": "x"}}'
    data = b"\xef\xbb\xbf: keep-alive\n\n" + wire([STARTED]) + spread + b"\r\n\r\n" + wire([ended("end_turn"), STOPPED])
    assert (await read(data)).message.content == "x"


async def test_a_gateways_done_ends_the_answer_too() -> None:
    data = wire([STARTED, *text(0, "x"), ended("end_turn")]) + b"data: [DONE]\n\ndata: {oops\n\n"
    assert (await read(data)).message.content == "x"


@pytest.mark.parametrize("kind", ["text", "thinking"])
async def test_half_a_surrogate_pair_costs_one_character(kind: str) -> None:
    delta = '{"type": "%s_delta", "%s": "a\\ud800b"}' % (kind, kind)  # noqa: UP031  braces
    data = '{"type": "content_block_delta", "index": 0, "delta": %s}' % delta  # noqa: UP031  as above
    opened = {"type": "content_block_start", "index": 0, "content_block": {"type": kind}}
    done = await read(wire([opened]) + f"data: {data}\n\n".encode() + wire([ended("end_turn"), STOPPED]))
    assert done.message.content + done.message.reasoning == "a�b"


@pytest.mark.parametrize("deltas", [(), ("",)])
async def test_a_call_cut_before_its_arguments_never_looks_whole(deltas: tuple[str, ...]) -> None:
    done = await answer_of(*call(0, "list"), *call(1, "write", *deltas), reason="max_tokens")
    assert done.finish_reason is FinishReason.LENGTH
    assert [call.arguments for call in done.message.tool_calls] == ["{}", ""]


async def test_arguments_cut_inside_escapes_come_together() -> None:
    text = json.dumps({"text": 'a "quoted" \\ line\n ü 🙂'})
    done = await answer_of(*call(0, "write", *text), reason="tool_use")
    assert done.message.tool_calls[0].arguments == text


async def test_nulls_where_there_is_nothing_to_tell_are_passed_over() -> None:
    done = await read(
        wire([
            {"type": "message_start", "message": None},
            {"type": None},
            {"type": "content_block_start", "index": 0, "content_block": None},
            {"type": "content_block_delta", "index": 0, "delta": None},
            *text(1, "ok"),
            {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": []},
            STOPPED,
        ])
    )
    assert (done.message.content, done.finish_reason) == ("ok", FinishReason.STOP)


async def test_a_message_that_was_not_streamed_is_read() -> None:
    body: Event = {
        "type": "message",
        "content": [
            {"type": "thinking", "thinking": "hm", "signature": "s"},
            {"type": "text", "text": "ok"},
            {"type": "tool_use", "id": "t", "name": "list", "input": {}},
        ],
        "stop_reason": "tool_use",
        "usage": {"input_tokens": 5, "output_tokens": 2},
    }
    done = await read(json.dumps(body, indent=1).encode())
    assert (done.message.content, done.message.reasoning) == ("ok", "hm")
    assert done.message.thoughts == (Thought("p/m", "hm", "s"),)
    assert done.message.tool_calls == (ToolCall("t", "list", "{}"),)
    assert (done.finish_reason, done.usage) == (FinishReason.TOOL_CALLS, Usage(5, 2, 0, 1))
