"""An answer is the same however the network cuts it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from itertools import pairwise
from typing import Any, cast

import anyio
import pytest
from hypothesis import given, strategies as st

from tests.fakes.llm_ports import MemoryObserver, request
from tests.fakes.model_server import Reply, ServedCall, Shape, events_of
from vibe.core.config.models import ProviderConfig
from vibe.core.llm.backend.assembly import AnswerBuilder
from vibe.core.llm.backend.chat import GenericBackend
from vibe.core.llm.error_table import ErrorMapper
from vibe.core.llm.errors import ModelProtocolError
from vibe.core.llm.port import Completion
from vibe.core.messages import ToolCall, Usage

ERRORS = ErrorMapper(provider=ProviderConfig(name="p", api_base="http://127.0.0.1:1/v1"))
CALLS = (
    ServedCall(name="read", arguments='{"p": "grün 🙂"}', id="aaaaaaaa1"),
    ServedCall(name="list", arguments="{}", id="bbbbbbbb2"),
)
REPLY = Reply(text="wörds 🙂 and more", reasoning="hm", tool_calls=CALLS)


class CutBody:
    """A response whose body comes in given pieces."""

    url = "http://127.0.0.1:1/v1"
    status_code = 200
    is_success = True

    def __init__(self, pieces: list[bytes]) -> None:
        self.headers = {"content-type": "text/event-stream"}
        self._pieces = pieces

    async def aiter_bytes(self) -> AsyncIterator[bytes]:
        for piece in self._pieces:
            yield piece


def body(shape: Shape, line_end: str = "\n", *, done: bool = True) -> bytes:
    events = events_of(REPLY, shape)[: None if done else -1]
    return "".join(f": ping{line_end}{line_end}data: {event}{line_end}{line_end}" for event in events).encode()


async def read(pieces: list[bytes]) -> Completion:
    answer = AnswerBuilder(MemoryObserver())
    await GenericBackend(ERRORS.provider, api_key=None).read(cast("Any", CutBody(pieces)), answer)
    return answer.build(request(), ERRORS)


@pytest.mark.parametrize("line_end", ["\n", "\r\n"])
async def test_an_answer_that_is_cut_anywhere_is_whole_or_an_error(line_end: str) -> None:
    data = body("openai", line_end)
    whole = (await read([data])).message
    told = set[str]()
    for end in range(len(data)):
        try:
            assert (await read([data[:end]])).message == whole
        except ModelProtocolError as error:
            told.add(str(error).partition(" (")[0].partition(";")[0])
    assert told == {
        "provider 'p' broke off in the middle of its answer",
        "provider 'p' ended its answer without a finish_reason",
    }


@given(
    st.sampled_from(["openai", "mistral"]),
    st.sampled_from(["\n", "\r\n", "\r"]),
    st.booleans(),
    st.lists(st.floats(min_value=0, max_value=1), max_size=30),
)
def test_any_cut_gives_the_same_completion(shape: Shape, line_end: str, done: bool, cuts: list[float]) -> None:  # noqa: FBT001  drawn
    data = body(shape, line_end, done=done)
    borders = [0, *sorted(int(cut * len(data)) for cut in cuts), len(data)]
    pieces = [data[start:end] for start, end in pairwise(borders)]
    completion = anyio.run(read, pieces)
    assert completion.message.content == "wörds 🙂 and more "
    assert completion.message.reasoning == "hm"
    assert completion.message.tool_calls == (
        ToolCall("aaaaaaaa1", "read", '{"p": "grün 🙂"}'),
        ToolCall("bbbbbbbb2", "list", "{}"),
    )
    assert completion.usage == Usage(11, 7, 0, 1)


async def test_an_event_without_end_is_refused() -> None:
    with pytest.raises(ModelProtocolError, match="bytes"):
        await read([b"data: " + b"x" * 6_000_000])


@pytest.mark.parametrize(
    ("escaped", "text"),
    [
        (r"a\ud800b", "a\ufffdb"),
        (r"\uDC00", "\ufffd"),
        (r"\ud83d\ude00 \ud83d", "\U0001f600 \ufffd"),
        (r"\\ud800 \ud800", "\\ud800 \ufffd"),
        (r"\ud800\ud83d\ude00", "\ufffd\U0001f600"),
    ],
)
async def test_half_a_surrogate_pair_costs_one_character(escaped: str, text: str) -> None:
    chunk = f'data: {{"choices": [{{"delta": {{"content": "{escaped}"}}, "finish_reason": "stop"}}]}}\n\n'
    answer = await read([chunk.encode(), b"data: [DONE]\n\n"])
    assert answer.message.content == text


@pytest.mark.parametrize("field", ["content", "reasoning_content"])
async def test_a_surrogate_pair_that_comes_in_two_events_is_one_character(field: str) -> None:
    pieces = (r"a\ud83d", r"\ude00b\ud83d", r"\ud83d", r"\ude00\ude00", r"c\ud83d")
    chunks = [f'data: {{"choices": [{{"delta": {{"{field}": "{piece}"}}}}]}}\n\n'.encode() for piece in pieces]
    answer = await read([*chunks, b'data: {"choices": [{"finish_reason": "stop"}]}\n\n'])
    said = answer.message.content if field == "content" else answer.message.reasoning
    assert said == "a\U0001f600b\ufffd\U0001f600\ufffdc\ufffd"


async def test_half_a_surrogate_pair_in_a_call_costs_one_character() -> None:
    call = r'{"index": 0, "id": "a", "function": {"name": "x", "arguments": "{\"a\": \"\ud800\"}"}}'
    chunk = f'data: {{"choices": [{{"delta": {{"tool_calls": [{call}]}}, "finish_reason": "tool_calls"}}]}}\n\n'
    answer = await read([chunk.encode(), b"data: [DONE]\n\n"])
    assert answer.message.tool_calls[0].arguments == '{"a": "\ufffd"}'
