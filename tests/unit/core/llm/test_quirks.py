"""Deviations of servers that call themselves OpenAI-compatible, and how they are handled."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any, cast

import pytest

from tests.fakes.llm_ports import MemoryObserver, request
from tests.unit.core.llm.test_reader import ERRORS, CutBody
from vibe.core.config.models import ModelConfig, ProviderConfig
from vibe.core.llm.backend.assembly import AnswerBuilder, estimate_usage
from vibe.core.llm.backend.chat import OPENAI, GenericBackend, encoder_for
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
from vibe.core.llm.port import Completion, FinishReason, ModelRequest
from vibe.core.messages import AssistantMessage, ToolCall, ToolMessage, Usage, UserMessage

Chunk = dict[str, Any]
DONE = b"data: [DONE]\n\n"


def delta(fields: Chunk, finish: str | None = None) -> Chunk:
    return {"id": "c", "choices": [{"index": 0, "delta": fields, "finish_reason": finish}]}


def wire(*chunks: Chunk) -> bytes:
    return b"".join(b"data: " + json.dumps(chunk).encode() + b"\n\n" for chunk in chunks)


def base_resp(code: object, words: str) -> Chunk:
    return {"choices": None, "usage": None, "base_resp": {"status_code": code, "status_msg": words}}


async def read(*pieces: bytes, tag: str = "", seen: MemoryObserver | None = None) -> Completion:
    answer = AnswerBuilder(seen or MemoryObserver(), tag)
    await GenericBackend(ERRORS.provider, api_key=None).read(cast("Any", CutBody(list(pieces))), answer)
    return answer.build(request(), ERRORS)


@dataclass(frozen=True)
class Quirk:
    name: str
    data: bytes
    text: str = ""
    reasoning: str = ""
    calls: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    reason: FinishReason = FinishReason.STOP
    usage: Usage | None = None


READ = {"name": "read", "arguments": '{"a":1}'}
USAGE = {"prompt_tokens": 5, "completion_tokens": 2}
END = delta({}, "stop")
QUIRKS = [
    Quirk("DeepSeek, z.ai, vLLM, llama.cpp", wire(delta({"reasoning_content": "hm", "content": None}), END), "", "hm"),
    Quirk("Groq, Ollama, OpenRouter", wire(delta({"reasoning": "hm"}), delta({"content": "ok"}), END), "ok", "hm"),
    Quirk("Copilot", wire(delta({"reasoning_text": "hm"}), delta({"content": "ok"}), END), "ok", "hm"),
    Quirk("both names", wire(delta({"reasoning": "hm", "reasoning_content": "hm"}), END), "", "hm"),
    Quirk(
        "OpenRouter's details",
        wire(delta({"reasoning": "hm", "reasoning_details": [{"type": "reasoning.text", "text": "hm"}]}), END),
        "",
        "hm",
    ),
    Quirk("reasoning that is no text", wire(delta({"reasoning": {"effort": 1}, "content": "ok"}), END), "ok"),
    Quirk(
        "Mistral's blocks",
        wire(
            delta({"content": [{"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}]}),
            delta({"content": [{"type": "text", "text": "ok"}]}, "stop"),
        ),
        "ok",
        "hm",
    ),
    Quirk("OpenAI's refusal", wire(delta({"content": None, "refusal": "I can't."}), END), "I can't."),
    Quirk("tags are text", wire(delta({"content": "<think>hm</think>ok"}), END), "<think>hm</think>ok"),
    Quirk(
        "a whole call without index and id",
        wire(delta({"tool_calls": [{"function": READ}]}, "tool_calls")),
        calls=[("read", '{"a":1}')],
        reason=FinishReason.TOOL_CALLS,
    ),
    Quirk(
        "two whole calls in one chunk, no ids",
        wire(delta({"tool_calls": [{"function": READ}, {"function": READ}]}, "stop")),
        calls=[("read", '{"a":1}')] * 2,
        reason=FinishReason.TOOL_CALLS,
    ),
    Quirk(
        "arguments as an object",
        wire(
            delta(
                {"tool_calls": [{"index": 0, "id": "x", "function": {"name": "read", "arguments": {"a": 1}}}]}, "stop"
            )
        ),
        calls=[("read", '{"a":1}')],
        reason=FinishReason.TOOL_CALLS,
    ),
    Quirk(
        "fragments without index and id",
        wire(
            delta({"tool_calls": [{"id": "", "function": {"name": "read", "arguments": None}}]}),
            delta({"tool_calls": [{"function": {"name": "", "arguments": '{"a"'}}]}),
            delta({"tool_calls": [{"function": {"name": None, "arguments": ":1}"}}]}, "tool_calls"),
        ),
        calls=[("read", '{"a":1}')],
        reason=FinishReason.TOOL_CALLS,
    ),
    Quirk("the reason eos", wire(delta({"content": "ok"}, "eos")), "ok"),
    Quirk("the reason in capitals", wire(delta({"content": "ok"}, "LENGTH")), "ok", reason=FinishReason.LENGTH),
    Quirk("the reason of z.ai", wire(delta({}, "model_context_window_exceeded")), reason=FinishReason.LENGTH),
    Quirk("no reason but DONE", wire(delta({"content": "ok"})) + DONE, "ok"),
    Quirk("the reason, and no DONE", wire(delta({"content": "ok"}, "stop")), "ok"),
    Quirk("usage in a chunk of its own", wire(END, {"choices": [], "usage": USAGE}) + DONE, usage=Usage(5, 2, calls=1)),
    Quirk(
        "usage with the reason",
        wire(delta({"content": "ok"}, "stop") | {"usage": USAGE}),
        "ok",
        usage=Usage(5, 2, calls=1),
    ),
    Quirk("usage without choices", wire(END, {"choices": None, "usage": USAGE}), usage=Usage(5, 2, calls=1)),
    Quirk("usage that is null", wire(delta({"content": "ok"}, "stop") | {"usage": None}) + DONE, "ok"),
    Quirk(
        "comments between", b": OPENROUTER PROCESSING\n\n: keep-alive\n\n" + wire(delta({"content": "ok"}), END), "ok"
    ),
    Quirk("a mark at the start", b"\xef\xbb\xbf" + wire(delta({"content": "ok"}, "stop")), "ok"),
    Quirk("named events", b"event: message\nid: 1\nretry: 5\n" + wire(delta({"content": "ok"}, "stop")), "ok"),
    Quirk(
        "no space behind the colon", b'data:{"choices":[{"delta":{"content":"ok"},"finish_reason":"stop"}]}\n\n', "ok"
    ),
    Quirk("a chunk without choices first", wire({"id": "x", "prompt_filter_results": []}, END)),
    Quirk(
        "a call without a table for its function",
        wire(delta({"tool_calls": [{"index": 0, "id": "x", "name": "read", "arguments": '{"a":1}'}]}, "tool_calls")),
        calls=[("read", '{"a":1}')],
        reason=FinishReason.TOOL_CALLS,
    ),
    Quirk(
        "parameters in place of arguments",
        wire(delta({"tool_calls": [{"index": 0, "function": {"name": "read", "parameters": {"a": 1}}}]}, "stop")),
        calls=[("read", '{"a":1}')],
        reason=FinishReason.TOOL_CALLS,
    ),
    Quirk("an answer in an envelope", wire({"success": True, "data": delta({"content": "ok"}, "stop")}), "ok"),
    Quirk(
        "a cut's other name", wire(delta({"content": "ok"}, "max_tokens_exceeded")), "ok", reason=FinishReason.LENGTH
    ),
    Quirk(
        "usage under the names of other APIs",
        wire(delta({"content": "ok"}, "stop") | {"usage": {"input_tokens": 5, "output_tokens": 2, "total_tokens": 7}}),
        "ok",
        usage=Usage(prompt_tokens=5, completion_tokens=2, calls=1),
    ),
    Quirk(
        "MiniMax's word for success", wire(delta({"content": "ok"}, "stop") | {"base_resp": {"status_code": 0}}), "ok"
    ),
    Quirk("no delta", wire({"choices": [{"index": 0, "delta": None, "finish_reason": "stop"}]})),
]


@pytest.mark.parametrize("quirk", QUIRKS, ids=lambda quirk: quirk.name)
async def test_a_quirk_is_understood(quirk: Quirk) -> None:
    done = await read(quirk.data)
    assert (done.message.content, done.message.reasoning) == (quirk.text, quirk.reasoning)
    assert [(call.name, call.arguments) for call in done.message.tool_calls] == quirk.calls
    assert len({call.id for call in done.message.tool_calls} - {""}) == len(quirk.calls)
    assert done.finish_reason == quirk.reason
    assert done.usage == (quirk.usage or estimate_usage(request(), done.message))


@pytest.mark.parametrize(
    ("chunk", "expected"),
    [
        ({"error": {"message": "slow down", "type": "rate_limit_error"}}, ModelOverloadedError),
        (
            {"error": {"message": "upstream", "code": 502}, "choices": [{"finish_reason": "error"}]},
            ModelOverloadedError,
        ),
        ({"error": {"message": "no credit", "code": 402}}, ModelCreditError),
        ({"error": {"message": "maximum context length is 5", "code": 400}}, ContextTooLongError),
        ({"error": {"message": "slow down", "code": "429"}}, ModelOverloadedError),
        ({"error": {"message": "wrong", "code": "invalid_api_key"}}, ModelAccessError),
        ({"error": {"message": "no such model", "type": "x", "code": "model_not_found"}}, ModelRequestError),
        ({"error": {"message": "odd", "code": "1302"}}, ModelOverloadedError),
        ({"error": "out of memory"}, ModelOverloadedError),
        (base_resp(1008, "insufficient balance"), ModelCreditError),
        (base_resp(1002, "too many"), ModelOverloadedError),
        (base_resp("1004", "login fail"), ModelAccessError),
        (base_resp(1027, "output sensitive"), ModelRefusalError),
        (base_resp(2013, "invalid params, context window exceeds limit"), ContextTooLongError),
        (base_resp(1000, ""), ModelOverloadedError),
        ({"success": False, "errors": [{"code": 5021, "message": "context window limit"}]}, ContextTooLongError),
        ({"error_code": 336103, "error_msg": "the max input characters is 4800"}, ContextTooLongError),
        ({"choices": [], "usage": None, "message": "Insufficient balance"}, ModelCreditError),
        ({"object": "error", "message": "bad request", "type": "BadRequestError", "code": 400}, ModelRequestError),
        (delta({"content": "x"}, "error"), ModelProtocolError),
        (delta({"content": "x"}, "network_error"), ModelProtocolError),
        (delta({"content": "x"}, "insufficient_system_resource"), ModelProtocolError),
        (delta({"content": "x"}, "content_filter"), ModelRefusalError),
        (delta({"content": "x"}, "sensitive"), ModelRefusalError),
    ],
)
async def test_a_failure_told_in_a_stream_is_an_error(chunk: Chunk, expected: type[ModelError]) -> None:
    with pytest.raises(ModelError) as caught:
        await read(wire(delta({"content": "half"}), chunk) + DONE)
    assert type(caught.value) is expected


@pytest.mark.parametrize(
    ("text", "reasoning", "rest"),
    [
        ("<think>\nhm </b\n</think>\n\nok <think>", "hm </b\n", "ok <think>"),
        (" \n<think>hm</think>ok", "hm", "ok"),
        ("<think></think>ok", "", "ok"),
        ("ok <think>no</think>", "", "ok <think>no</think>"),
        ("<thin", "", "<thin"),
        ("<think>never closed </thi", "never closed </thi", ""),
        ("  ", "", "  "),
    ],
)
@pytest.mark.parametrize("size", [1, 3, 100])
async def test_a_tag_that_is_configured_parts_thoughts_from_text(
    text: str, reasoning: str, rest: str, size: int
) -> None:
    pieces = [text[start : start + size] for start in range(0, len(text), size)]
    seen = MemoryObserver()
    done = await read(*(wire(delta({"content": piece})) for piece in pieces), wire(END), tag="think", seen=seen)
    assert (done.message.reasoning, done.message.content) == (reasoning, rest)
    assert (seen.text, "".join(one.reasoning for one in seen.deltas)) == (rest, reasoning)


CALLED = AssistantMessage("", (ToolCall("a", "read", "{}"),), "I should read")
TURN = (UserMessage("go"), CALLED, ToolMessage("x", "a", "read"), AssistantMessage("done", reasoning="so"))


def said(provider: ProviderConfig, endpoint: str = "http://h") -> Chunk:
    model = ModelConfig(name="gpt-5", provider="p", max_output_tokens=9)
    return json.loads(encoder_for(provider, endpoint).encode(ModelRequest(model=model, messages=TURN)))


def test_thoughts_go_back_with_the_calls_they_led_to_where_that_is_wanted() -> None:
    wanted = ProviderConfig(name="p", returns_reasoning=True)
    assert [m.get("reasoning_content") for m in said(wanted)["messages"]] == [None, "I should read", None, None]
    assert "I should read" not in json.dumps(said(ProviderConfig(name="p")))


@pytest.mark.parametrize(
    ("endpoint", "name", "bound", "has_temperature"),
    [
        (OPENAI, "gpt-5.2", "max_completion_tokens", False),
        (OPENAI, "o4-mini", "max_completion_tokens", False),
        (OPENAI, "gpt-4.1", "max_completion_tokens", True),
        ("https://openrouter.ai", "gpt-5.2", "max_tokens", True),
    ],
)
def test_openai_itself_is_asked_in_its_own_words(endpoint: str, name: str, bound: str, has_temperature: bool) -> None:  # noqa: FBT001  a table
    model = ModelConfig(name=name, provider="p", max_output_tokens=9)
    asked = ModelRequest(model=model, messages=TURN)
    body = json.loads(encoder_for(ProviderConfig(name="p"), endpoint).encode(asked))
    assert body[bound] == 9
    assert {"max_tokens", "max_completion_tokens"} & set(body) == {bound}
    assert ("temperature" in body) == has_temperature
