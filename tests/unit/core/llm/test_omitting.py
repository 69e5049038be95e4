"""A refusal that blames a part of a request costs that part, not the conversation."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from tests.fakes.llm_ports import ListBackend, MemoryObserver, completion, request
from vibe.core.llm.errors import ModelRequestError
from vibe.core.llm.factory import MOST_TOOLS, OmittingBackend
from vibe.core.llm.port import ModelRequest, ToolSchema
from vibe.core.messages import AssistantMessage, Image, Thought, ToolCall, ToolMessage, UserMessage

PICTURE = Image("image/png", "AAAA")
THOUGHT = Thought(source="p/m", text="hm", signature="S")
TALK = (
    UserMessage("look", (PICTURE,)),
    AssistantMessage("", (ToolCall("1", "read", "{}"),), thoughts=(THOUGHT,)),
    ToolMessage("text", "1", "read"),
)


def tools(*names: str, ends_work: str = "") -> tuple[ToolSchema, ...]:
    return tuple(
        ToolSchema(name=name, description="", parameters={"type": "object"}, ends_work=name == ends_work)
        for name in names
    )


def asked(*names: str) -> ModelRequest:
    return replace(request(*TALK), tools=tools(*names))


def refusal(words: str, status: int = 400) -> ModelRequestError:
    return ModelRequestError(f"provider 'p' answered with an error (HTTP {status}): {words}", status=status)


def left_of(sent: ModelRequest) -> tuple[int, int, list[str]]:
    """Return the number of pictures and of thoughts that were sent, and the names of the tools."""
    pictures = sum(len(one.images) for one in sent.messages if isinstance(one, UserMessage))
    thoughts = sum(len(one.thoughts) for one in sent.messages if isinstance(one, AssistantMessage))
    return pictures, thoughts, [tool.name for tool in sent.tools]


@pytest.mark.parametrize(
    ("words", "left"),
    [
        ("Could not process image", (0, 1, ["read", "s_a"])),
        ("Invalid content type. image_url is only supported by certain models.", (0, 1, ["read", "s_a"])),
        ("this model does not support multimodal input", (0, 1, ["read", "s_a"])),
        ("messages.1.content.0: Invalid `signature` in `thinking` block", (1, 0, ["read", "s_a"])),
        ("Function call is missing a thought_signature in functionCall parts", (1, 0, ["read", "s_a"])),
        ("reasoning_content is missing in assistant tool call message", (1, 0, ["read", "s_a"])),
        ("Invalid schema for function 's_a': array schema missing items", (1, 1, ["read"])),
        ("tools.1.custom.input_schema: JSON schema is invalid", (1, 1, ["read"])),
        ("Invalid value at 'tools[1].function.parameters'", (1, 1, ["read"])),
    ],
)
@pytest.mark.parametrize("status", [400, 422])
async def test_what_a_refusal_blames_is_left_out_once_and_said(
    words: str, left: tuple[int, int, list[str]], status: int
) -> None:
    inner = ListBackend([refusal(words, status), completion(), completion()])
    backend = OmittingBackend(inner)

    answer = await backend.complete(asked("read", "s_a"), MemoryObserver())

    assert answer.message.content == "done"
    assert "provider 'p' refuses" in answer.oddity
    assert left_of(inner.requests[1]) == left
    again = await backend.complete(asked("read", "s_a"), MemoryObserver())
    assert (left_of(inner.requests[2]), len(inner.requests)) == (left, 3)
    assert again.oddity == answer.oddity


@pytest.mark.parametrize(
    "words", ["the model is wrong", "tool 'other' is unknown", "temperature must be at most 1", "messages: too few"]
)
async def test_a_refusal_that_blames_nothing_is_told(words: str) -> None:
    inner = ListBackend([refusal(words)])
    with pytest.raises(ModelRequestError):
        await OmittingBackend(inner).complete(replace(request(), tools=tools("read")), MemoryObserver())
    assert len(inner.requests) == 1


async def test_a_model_that_does_not_exist_is_told_at_once() -> None:
    inner = ListBackend([refusal("no vision model of that name", 404)])
    with pytest.raises(ModelRequestError):
        await OmittingBackend(inner).complete(asked("read"), MemoryObserver())


async def test_what_did_not_help_is_sent_again_the_next_time() -> None:
    refused = refusal("image and signature and the schema of function s_a")
    inner = ListBackend([*[refused] * 4, completion()])
    backend = OmittingBackend(inner)
    with pytest.raises(ModelRequestError):
        await backend.complete(asked("read", "s_a"), MemoryObserver())
    await backend.complete(asked("read", "s_a"), MemoryObserver())
    assert left_of(inner.requests[-1]) == (1, 1, ["read", "s_a"])


async def test_a_new_picture_is_sent_though_another_was_refused() -> None:
    inner = ListBackend([refusal("bad image"), completion(), completion()])
    backend = OmittingBackend(inner)
    await backend.complete(asked("read"), MemoryObserver())
    new = UserMessage("and this?", (Image("image/png", "BBBB"),))
    await backend.complete(replace(asked("read"), messages=(*TALK, new)), MemoryObserver())
    assert left_of(inner.requests[-1]) == (1, 1, ["read"])
    assert "There was a picture here" in str(inner.requests[-1].messages[0])


async def test_no_more_tools_are_sent_than_go_and_never_without_the_one_that_ends_the_work() -> None:
    names = [f"t{number}" for number in range(MOST_TOOLS + 3)]
    inner = ListBackend([completion()])
    wanted = replace(request(), tools=tools(*names, ends_work=names[-1]))
    answer = await OmittingBackend(inner).complete(wanted, MemoryObserver())
    sent = left_of(inner.requests[0])[2]
    assert (len(sent), names[-1] in sent, sent[1]) == (MOST_TOOLS, True, "t0")
    assert "t127, t128, t129" in answer.oddity
