"""Streams recorded from compatible servers give exactly their text, thoughts, calls, counts and failures."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any, cast

import msgspec
import pytest

from tests.fakes.llm_ports import MemoryObserver, request
from tests.unit.core.llm.test_quirks import DONE, END, Chunk, delta, read, wire
from tests.unit.core.llm.test_reader import ERRORS, CutBody
from vibe.core.config.models import ModelConfig
from vibe.core.llm.backend.anthropic import MessagesEncoder
from vibe.core.llm.backend.assembly import AnswerBuilder
from vibe.core.llm.backend.chat import GenericBackend, PayloadEncoder
from vibe.core.llm.errors import (
    ContextTooLongError,
    ModelAccessError,
    ModelError,
    ModelOverloadedError,
    ModelProtocolError,
    ModelRefusalError,
    ModelRequestError,
)
from vibe.core.llm.port import Completion, FinishReason
from vibe.core.messages import AssistantMessage, Usage, UserMessage

Calls = list[tuple[str, str]]


def piece(index: Any = None, identity: Any = None, name: Any = None, arguments: Any = None, **more: Any) -> Chunk:
    """Return one chunk with one fragment of a call, leaving out what is None."""
    told = {"index": index, "id": identity, "type": "function" if name else None, **more}
    function = {key: value for key, value in (("name", name), ("arguments", arguments)) if value is not None}
    return delta({
        "tool_calls": [{key: value for key, value in told.items() if value is not None} | {"function": function}]
    })


@dataclass(frozen=True)
class Fragments:
    name: str
    chunks: list[Chunk]
    calls: Calls = field(default_factory=lambda: [("read", '{"a":1}')])


ONE = [("read", '{"a":1}')]
TWO = [("read", '{"a":1}'), ("list", "{}")]
FRAGMENTS = [
    Fragments("an id in each chunk", [piece(0, "a", "read", '{"a"'), piece(0, "a", None, ":1}")]),
    Fragments(
        "another id in each chunk", [piece(0, "a", "read", ""), piece(0, "b", None, '{"a"'), piece(0, "c", None, ":1}")]
    ),
    Fragments("another id and the name in each chunk", [piece(0, "a", "read", '{"a"'), piece(0, "b", "read", ":1}")]),
    Fragments("blank ids later", [piece(0, "a", "read", ""), piece(0, "", "", '{"a":1}')]),
    Fragments("an index as text, an id as a number", [piece("0", 7, "read", '{"a"'), piece("0", None, None, ":1}")]),
    Fragments("an index that is a float", [piece(0.0, "a", "read", '{"a"'), piece(0, None, None, ":1}")]),
    Fragments("an index that begins with one", [piece(1, "a", "read", '{"a":1}'), piece(2, "b", "list", "{}")], TWO),
    Fragments("arguments under an index of their own", [piece(2, "a", "read", ""), piece(1, None, None, '{"a":1}')]),
    Fragments("a blank name first", [piece(0, "a", "", ""), piece(0, "a", "read", '{"a":1}')]),
    Fragments(
        "a name in two parts", [piece(0, "a", "re", ""), piece(0, None, "ad", ""), piece(0, None, None, '{"a":1}')]
    ),
    Fragments(
        "a name that grows", [piece(0, "a", "re", ""), piece(0, "a", "read", ""), piece(0, None, None, '{"a":1}')]
    ),
    Fragments("a whole call twice", [piece(0, "a", "read", '{"a":1}'), piece(0, "a", "read", '{"a":1}')]),
    Fragments("one id for two calls", [piece(0, "a", "read", '{"a":1}'), piece(1, "a", "list", "{}")], TWO),
    Fragments(
        "one id and one index for two calls", [piece(0, "a", "read", '{"a":1}'), piece(0, "a", "list", "{}")], TWO
    ),
    Fragments(
        "no index, no id, no arguments",
        [piece(None, None, "list", ""), piece(None, None, "read", '{"a":1}')],
        TWO[::-1],
    ),
    Fragments("no arguments at all", [piece(0, "a", "list")], [("list", "{}")]),
    Fragments("arguments that say null", [piece(0, "a", "list", "null")], [("list", "{}")]),
    Fragments("blank arguments", [piece(0, "a", "list", "")], [("list", "{}")]),
    Fragments("arguments that are a list", [piece(0, "a", "list", [1])], [("list", "[1]")]),
    Fragments("arguments as an object", [piece(0, "a", "read", {"a": 1})]),
    Fragments("a call that says nothing", [piece(0, "a", "read", '{"a":1}'), piece(1, "", "", "")]),
    Fragments("a field nobody knows", [piece(0, "a", "read", '{"a":1}', extra_content={"google": {}})]),
    Fragments(
        "the old function_call",
        [
            delta({"function_call": {"name": "read", "arguments": ""}}),
            delta({"function_call": {"arguments": '{"a":1}'}}),
        ],
    ),
    Fragments(
        "two calls side by side",
        [
            piece(0, "a", "read", "{"),
            piece(1, "b", "list", "{"),
            piece(0, None, None, '"a":1}'),
            piece(1, None, None, "}"),
        ],
        TWO,
    ),
    Fragments(
        "the whole message in place of a delta",
        [
            {
                "choices": [
                    {
                        "message": {
                            "tool_calls": [
                                {"id": "", "function": {"name": "read", "arguments": '{"a":1}'}},
                                {"id": "", "function": {"name": "list", "arguments": ""}},
                            ]
                        }
                    }
                ]
            },
        ],
        TWO,
    ),
]


@pytest.mark.parametrize("case", FRAGMENTS, ids=lambda case: case.name)
@pytest.mark.parametrize("reason", ["tool_calls", "stop", "function_call"])
async def test_calls_come_together(case: Fragments, reason: str) -> None:
    done = await read(wire(*case.chunks, delta({}, reason)) + DONE)
    assert [(call.name, call.arguments) for call in done.message.tool_calls] == case.calls
    assert len({call.id for call in done.message.tool_calls} - {""}) == len(case.calls)
    assert done.finish_reason is FinishReason.TOOL_CALLS


@pytest.mark.parametrize("arguments", ["", '{"a"', "null"])
async def test_a_call_cut_by_the_limit_never_looks_whole(arguments: str) -> None:
    done = await read(wire(piece(0, "a", "read", arguments), delta({}, "length"), delta({}, "stop")) + DONE)
    assert (done.finish_reason, done.message.tool_calls[0].arguments) == (FinishReason.LENGTH, arguments)


async def test_a_call_that_says_nothing_calls_nothing() -> None:
    done = await read(wire(delta({"content": "ok"}), piece(0, "", "", ""), delta({}, "stop")))
    assert (done.message.tool_calls, done.finish_reason) == ((), FinishReason.STOP)


@pytest.mark.parametrize(
    ("data", "text", "reasoning"),
    [
        (wire(delta({"content": ["a", {"type": "text", "text": "b"}, {"type": "x"}, 5]}), END), "ab", ""),
        (wire(delta({"content": {"type": "text", "text": "a"}}), END), "a", ""),
        (
            wire(delta({"content": [{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "a"}]}), END),
            "a",
            "hm",
        ),
        (wire(delta({"content": [{"type": "reasoning", "text": "hm"}]}), END), "", "hm"),
        (
            wire(delta({"reasoning_details": [{"type": "reasoning.summary", "summary": "hm", "index": 0}]}), END),
            "",
            "hm",
        ),
        (
            wire({"choices": [{"message": {"content": "a"}}]}, {"choices": [{"message": {"content": "b"}}]}, END),
            "ab",
            "",
        ),
        (
            wire(
                delta({"content": "a"}),
                {"choices": [{"delta": {}, "message": {"content": "a"}, "finish_reason": "stop"}]},
            ),
            "a",
            "",
        ),
        (wire({"choices": [{"index": 1, "delta": {"content": "no"}}]}, delta({"content": "a"}), END), "a", ""),
        (wire({"choices": {"delta": {"content": "a"}, "finish_reason": "stop"}}), "a", ""),
        (wire(delta({"role": "assistant"}), delta({"role": "assistant", "content": "a", "audio": None}), END), "a", ""),
        (wire(delta({"content": 5, "refusal": {}, "tool_calls": "x"}), delta({"content": "a"}), END), "a", ""),
        (
            wire({"choices": [None, 5]}, {"error": None, "choices": [{"delta": "x"}]}, delta({"content": "a"}), END),
            "a",
            "",
        ),
        (wire({"error": "", "choices": []}, {"error": {}, "choices": []}, delta({"content": "a"}), END), "a", ""),
        (
            b'data: {"choices":[{"delta":{"content":"a"},"logprobs":{"x":[NaN,-Infinity,1e999]}}]}\n\n' + wire(END),
            "a",
            "",
        ),
        (b'data: {"choices":[{"delta":{"content":"a\tb"}}]}\n\n' + wire(END), "a\tb", ""),
        (wire(delta({"content": "a"})).rstrip() + b"\n" + wire(END).rstrip() + b"\ndata: [DONE]\n\n", "a", ""),
        (wire(delta({"content": "a"}), END) + DONE + wire(delta({"content": "no"})) + b"and more", "a", ""),
        (wire(delta({"content": "a"}), END) + b"data: [done]", "a", ""),
        (b"\r\n\r\n: hello\r\n\r\n" + wire(delta({"content": "a"}), END).replace(b"\n", b"\r\n"), "a", ""),
        (b'data: {"choices":\ndata: [{"delta": {"content": "a"}}]}\n\n' + wire(END), "a", ""),
        (
            json.dumps({
                "choices": [{"message": {"content": "a", "reasoning": "hm"}, "finish_reason": "stop"}]
            }).encode(),
            "a",
            "hm",
        ),
        (
            json.dumps({"choices": [{"message": {"content": "a"}, "finish_reason": "stop"}]}, indent=1).encode()
            + b"\n\n",
            "a",
            "",
        ),
    ],
)
async def test_text_and_thoughts_are_exact(data: bytes, text: str, reasoning: str) -> None:
    done = await read(*(data[start : start + 7] for start in range(0, len(data), 7)))
    assert (done.message.content, done.message.reasoning) == (text, reasoning)
    assert (done.finish_reason, done.oddity) == (FinishReason.STOP, "")


@pytest.mark.parametrize(
    ("told", "usage"),
    [
        (
            {"usage": {"prompt_tokens": 9, "completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": 4}}},
            Usage(9, 2, 4, 1),
        ),
        ({"usage": {"prompt_tokens": 9, "completion_tokens": 2, "cached_tokens": 4}}, Usage(9, 2, 4, 1)),
        (
            {
                "usage": {
                    "prompt_tokens": 9,
                    "completion_tokens": 5,
                    "total_tokens": 14,
                    "completion_tokens_details": {"reasoning_tokens": 3},
                }
            },
            Usage(9, 5, 0, 1),
        ),
        (
            {
                "usage": {
                    "prompt_tokens": 9,
                    "completion_tokens": 2,
                    "total_tokens": 14,
                    "completion_tokens_details": {"reasoning_tokens": 3},
                }
            },
            Usage(9, 5, 0, 1),
        ),
        (
            {
                "usage": {
                    "prompt_tokens": 9,
                    "completion_tokens": 2,
                    "prompt_tokens_details": {"cached_tokens": 4, "cache_write_tokens": 3},
                }
            },
            Usage(9, 2, 4, 1, 3),
        ),
        (
            {"usage": {"prompt_tokens": 9.0, "completion_tokens": 2.0, "completion_tokens_details": None}},
            Usage(9, 2, 0, 1),
        ),
        (
            {"usage": None, "x_groq": {"id": "r", "usage": {"prompt_tokens": 9, "completion_tokens": 2}}},
            Usage(9, 2, 0, 1),
        ),
        ({"choices": [{"delta": {}, "usage": {"prompt_tokens": 9, "completion_tokens": 2}}]}, Usage(9, 2, 0, 1)),
    ],
)
async def test_counts_are_found_and_the_last_one_wins(told: Chunk, usage: Usage) -> None:
    early = delta({"content": "a"}) | {"usage": {"prompt_tokens": 9, "completion_tokens": 1}}
    late: list[Chunk] = [{"choices": [], **told}, {"choices": [], "usage": None}]
    for rest in (wire(*late) + DONE, DONE + wire(*late), DONE + wire(*late).rstrip()):
        done = await read(wire(early, END) + rest)
        assert done.usage == usage


@pytest.mark.parametrize(
    ("data", "expected", "words"),
    [
        (
            wire({"choices": [{"error": {"code": 502, "message": "gone"}, "finish_reason": "error"}]}),
            ModelOverloadedError,
            "gone",
        ),
        (wire({"error": "no slot", "error_type": "overloaded"}), ModelOverloadedError, "no slot"),
        (wire({"error": True, "message": "it broke"}), ModelOverloadedError, "it broke"),
        (wire({"x_groq": {"error": "over capacity"}, "choices": []}), ModelOverloadedError, "over capacity"),
        (wire({"message": "Unauthorized", "code": 401}), ModelAccessError, "Unauthorized"),
        (wire({"detail": "odd"}), ModelOverloadedError, "odd"),
        (b"event: error\ndata: upstream timed out\n\n", ModelOverloadedError, "upstream timed out"),
        (b'event: error\ndata: {"message":"context length is only 4096"}\n\n', ContextTooLongError, "4096"),
        (
            b'event: error\ndata: {"error":{"message":"bad","type":"invalid_request_error"}}\n\n',
            ModelRequestError,
            "bad",
        ),
        (b'error: {"code":500,"message":"slot gone","type":"server_error"}\n\n', ModelOverloadedError, "slot gone"),
        (b'{"error":{"message":"no model loaded","code":404}}\n', ModelRequestError, "no model loaded"),
        (b"event: error\n\n" + wire(delta({"content": "x"})), ModelProtocolError, "finish_reason"),
        (
            wire({"choices": [{"delta": {}, "finish_reason": "stop", "native_finish_reason": "network_error"}]}),
            ModelProtocolError,
            "network_error",
        ),
        (wire(delta({}, "MALFORMED_FUNCTION_CALL")), ModelProtocolError, "MALFORMED"),
        (wire(delta({}, "abort"), delta({}, "stop")), ModelProtocolError, "abort"),
        (wire(delta({}, "content_filter: OTHER")), ModelRefusalError, "put it in other words"),
        (wire(delta({}, ""), delta({}, "null")), ModelProtocolError, "without a finish_reason"),
        (wire(piece(0, "a", "read", '{"a"')) + DONE, ModelProtocolError, "without a finish_reason"),
        (b"data: [1]\n\n", ModelProtocolError, "not a completion chunk"),
        (b'data: [{"error": {"code": 401, "message": "no such key"}}]\n\n', ModelAccessError, "no such key"),
        (wire({"code": 7, "msg": "token expired"}), ModelOverloadedError, "token expired"),
        (b"event: error\ndata: <html><title>502 Bad</title></html>\n\n", ModelOverloadedError, ": 502 Bad;"),
        (b"data: {oops\n\n", ModelProtocolError, "not a completion chunk"),
    ],
)
async def test_a_failure_is_told(data: bytes, expected: type[ModelError], words: str) -> None:
    with pytest.raises(ModelError, match=words) as caught:
        await read(wire(delta({"content": "half"})) + data)
    assert type(caught.value) is expected


@pytest.mark.parametrize("data", [b"data: null\n\n", b"data: []\n\n", b"data: ping\n\n", b"data: [ ]\n\n"])
async def test_what_only_keeps_a_connection_open_is_no_failure(data: bytes) -> None:
    assert (await read(data + wire(delta({"content": "ok"}), END) + data)).message.content == "ok"


@pytest.mark.parametrize("end", [b"", b"\n"])
async def test_chunks_in_a_list_are_an_answer(end: bytes) -> None:
    chunks = [delta({"content": "o"}), delta({"content": "k"}), END]
    body = b"[" + b"\n,\n".join(map(msgspec.json.encode, chunks)) + b"]"
    for data in (body + end, wire() + b"data: " + msgspec.json.encode(chunks) + b"\n\n"):
        assert (await read(data)).message.content == "ok"


async def test_what_fails_after_the_finish_reason_harms_nothing() -> None:
    failed: Chunk = {"error": {"code": 400, "message": "Token limit reached"}, "choices": [{"delta": {"content": ""}}]}
    for more in (wire(failed), b"data: {oops\n\n"):
        done = await read(wire(delta({"content": "half"}), delta({}, "length")) + more + DONE)
        assert (done.message.content, done.finish_reason) == ("half", FinishReason.LENGTH)


@pytest.mark.parametrize("kind", ["text/plain; charset=utf-8", "application/octet-stream", "text/html"])
async def test_events_under_another_type_are_read_and_other_words_are_told(kind: str) -> None:
    async def answered(data: bytes) -> Completion:
        answer, response = AnswerBuilder(MemoryObserver()), cast("Any", CutBody([data]))
        response.headers = {"content-type": kind}
        reader = GenericBackend(ERRORS.provider, api_key=None)
        await reader.check(response)
        await reader.read(response, answer)
        return answer.build(request(), ERRORS)

    assert (await answered(wire(delta({"content": "ok"}), END))).message.content == "ok"
    for words in (b"Internal Server Error", b""):
        with pytest.raises(ModelProtocolError, match=f"answered with '{kind}' instead of"):
            await answered(words)


@pytest.mark.parametrize("body", [b"{}", b'{"id": "x"}', b'{"choices": []}'])
async def test_json_that_is_no_answer_is_told(body: bytes) -> None:
    with pytest.raises(ModelProtocolError, match="instead of an event stream"):
        await read(body)


@pytest.mark.parametrize("body", [b"{oops", b"data: [D", b'data: {"choices": nothing}'])
async def test_a_body_that_ends_with_what_is_no_json_is_told(body: bytes) -> None:
    with pytest.raises(ModelProtocolError, match="sent an event that is not a completion chunk"):
        await read(body)


@pytest.mark.parametrize("body", [b'{"choices": [{"message"', b'data: {"choices": [{"del'])
async def test_a_body_that_ends_in_the_middle_of_an_event_is_told(body: bytes) -> None:
    with pytest.raises(ModelProtocolError, match="broke off in the middle of its answer"):
        await read(body)


async def test_a_json_body_that_tells_of_a_failure_is_that_failure() -> None:
    with pytest.raises(ModelAccessError, match="no credit"):
        await read(b'{"error": {"message": "no credit", "code": 402}}')


DETAILS: list[list[Chunk]] = [
    [{"type": "reasoning.text", "text": "Let ", "format": "anthropic-claude-v1", "index": 0}],
    [{"type": "reasoning.text", "text": "me see", "format": "anthropic-claude-v1", "index": 0}],
    [{"type": "reasoning.text", "signature": "sig", "format": "anthropic-claude-v1", "index": 0}],
    [{"type": "reasoning.text", "text": "again", "signature": None, "index": 1}],
    [{"type": "reasoning.encrypted", "data": "AAA", "id": "rs_1", "index": 0}],
    [{"type": "reasoning.encrypted", "data": "BBB", "id": "rs_2", "index": 0}],
]


async def test_what_openrouter_tells_of_thinking_goes_back_as_it_came() -> None:
    answer = await read(wire(*(delta({"reasoning_details": one}) for one in DETAILS), piece(0, "a", "read", "{}"), END))
    turn = [UserMessage("hi"), answer.message]
    encoder = PayloadEncoder()
    assert answer.message.reasoning == "Let me seeagain"
    own, other = (
        json.loads(encoder.encode(request(*turn, model=ModelConfig(name=name, provider="p"))))["messages"][1]
        for name in ("m", "n")
    )
    assert own["reasoning_details"] == [
        {
            "type": "reasoning.text",
            "text": "Let me see",
            "format": "anthropic-claude-v1",
            "index": 0,
            "signature": "sig",
        },
        {"type": "reasoning.text", "text": "again", "signature": None, "index": 1},
        {"type": "reasoning.encrypted", "data": "AAA", "id": "rs_1", "index": 0},
        {"type": "reasoning.encrypted", "data": "BBB", "id": "rs_2", "index": 0},
    ]
    assert "reasoning_details" not in other


SIGNED: Chunk = {"google": {"thought_signature": "EjQKMg=="}}


def gemini_call(identity: str, arguments: str, extra: Chunk | None) -> Chunk:
    call: Chunk = {"function": {"name": "read", "arguments": arguments}, "id": identity, "type": "function", "index": 0}
    return delta({"role": "assistant", "tool_calls": [call | ({"extra_content": extra} if extra else {})]})


async def test_what_gemini_signs_goes_back_beside_the_call_to_the_same_model_alone() -> None:
    chunks = (gemini_call("a", '{"x":1}', SIGNED), gemini_call("b", '{"x":2}', None))
    text: Chunk = {"google": {"thought_signature": "of the text"}}
    answer = await read(wire(delta({"content": "hm", "extra_content": text}), *chunks, delta({}, "tool_calls")))
    again = msgspec.json.decode(msgspec.json.encode(answer.message), type=AssistantMessage)
    encoder = PayloadEncoder()
    own, other = (
        json.loads(encoder.encode(request(UserMessage("hi"), again, model=ModelConfig(name=name, provider="p"))))
        for name in ("m", "n")
    )
    said = own["messages"][1]
    assert [(call["id"], call.get("extra_content")) for call in said["tool_calls"]] == [("a", SIGNED), ("b", None)]
    assert said["extra_content"] == text
    assert "extra_content" not in json.dumps(other)
    assert "EjQKMg" not in MessagesEncoder().encode(request(UserMessage("hi"), again)).decode()
