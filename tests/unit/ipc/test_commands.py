"""Requests and replies as bytes."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, strategies as st

from ipc.commands import (
    KINDS,
    MAX_DEPTH,
    MAX_REQUEST_BYTES,
    Act,
    AnswerQuestion,
    Approve,
    Cancel,
    Command,
    Decide,
    GivePrompt,
    Interrupt,
    Pause,
    Ping,
    Reply,
    Requests,
    Revise,
    Steer,
    StepAction,
    decode_command,
    decode_envelope,
    decode_reply,
    encode_command,
    encode_reply,
    tag_of,
)
from ipc.errors import CodecError, RequestInvalidError

TOKEN = "abc"  # noqa: S105  made up

EXAMPLES: tuple[Command, ...] = (
    Ping(token=TOKEN),
    Pause(token=TOKEN, grace_seconds=0.5),
    Cancel(),
    Decide(decision_id="ship", selections=("yes",)),
    Revise(operations=({"op": "remove_step", "id": "a"},), reason="too much"),
    Act(step_id="a", action=StepAction.RETRY),
    Requests(command_id="one"),
    Approve(request_id="abcdef", allow=False, reason="use make"),
    Approve(request_id="abcdef", allow=True, scope="session", by="page", command_id="two"),
    AnswerQuestion(request_id="abcdef", answers=(("JWT",), ("a", "b"))),
    GivePrompt(text="go on"),
    Steer(text="not there", step_id="a"),
    Interrupt(session_id="s"),
)


def nested(depth: int) -> Any:
    """Return lists nested ``depth`` deep."""
    value: Any = []
    for _ in range(depth - 1):
        value = [value]
    return value


def test_every_kind_has_an_example() -> None:
    assert {type(example) for example in EXAMPLES} == set(KINDS)


@pytest.mark.parametrize("command", EXAMPLES, ids=tag_of)
def test_a_request_comes_back_as_it_was(command: Command) -> None:
    data = encode_command(command)

    assert decode_command(data) == command
    envelope = decode_envelope(data)
    assert (envelope.type, envelope.token) == (tag_of(command), command.token)


@pytest.mark.parametrize(
    ("request_text", "said"),
    [
        ("", "truncated"),
        ("no json", "JSON"),
        ("[]", "array"),
        ('{"type": "fly"}', "fly"),
        ('{"token": "t"}', "type"),
        ('{"type": "pause", "grace_seconds": -1}', ">= 0"),
        ('{"type": "pause", "grace": 1}', "unknown field `grace`"),
        ('{"type": "decide", "decision_id": "d", "selections": []}', "length >= 1"),
        ('{"type": "decide", "decision_id": "d", "selections": "yes"}', "array"),
        ('{"type": "decide", "selections": ["yes"]}', "decision_id"),
        ('{"type": "revise", "operations": [1]}', "object"),
        ('{"type": "step_act", "step_id": "a", "action": "fly"}', "fly"),
        ('{"type": "approve", "request_id": "a", "allow": true, "scope": "forever"}', "forever"),
        ('{"type": "approve", "request_id": "a", "allow": true, "by": ""}', "length >= 1"),
        ('{"type": "answer", "request_id": "a", "answers": [[]]}', "length >= 1"),
        ('{"type": "answer", "request_id": "a"}', "answers"),
        ('{"type": "steer", "text": " "}', "matching regex"),
        (json.dumps({"type": "ping", "command_id": "x" * 101}), "length <= 100"),
        (json.dumps({"type": "revise", "operations": [{"a": nested(MAX_DEPTH)}]}), "deeper than 64"),
        ('{"type": "revise", "operations": [' + '{"a":' * 100_000, "recursion depth"),
    ],
)
def test_what_is_no_request_is_refused_with_the_reason(request_text: str, said: str) -> None:
    with pytest.raises(RequestInvalidError, match=said):
        decode_command(request_text.encode())


def test_what_is_left_at_its_default_is_not_sent_so_that_older_runs_understand() -> None:
    sent = json.loads(encode_command(Approve(request_id="abcdef", allow=True, token=TOKEN)))

    assert sent == {"type": "approve", "token": TOKEN, "version": 1, "request_id": "abcdef", "allow": True}
    assert "by" in json.loads(encode_command(Approve(request_id="abcdef", allow=True, by="page")))


def test_a_request_is_as_large_as_a_run_takes_and_no_larger() -> None:
    large = Revise(operations=({"op": "x" * MAX_REQUEST_BYTES},))

    with pytest.raises(RequestInvalidError, match="bytes"):
        encode_command(large)
    with pytest.raises(RequestInvalidError, match="bytes"):
        decode_envelope(b" " * (MAX_REQUEST_BYTES + 1))


def test_a_reply_always_can_be_sent() -> None:
    whole = Reply(ok=True, message="done", data={"count": 2})
    odd = Reply(ok=True, message="done", data={"count": 2**70, "what": "\udc80"})

    assert decode_reply(encode_reply(whole)) == whole
    assert decode_reply(encode_reply(odd)) == Reply(ok=True, message="done")
    with pytest.raises(CodecError):
        decode_reply(b"{}")


@given(st.binary(max_size=200) | st.text().map(lambda text: json.dumps({"type": text}).encode()))
def test_no_bytes_do_anything_but_be_read_or_refused(data: bytes) -> None:
    for decode in (decode_envelope, decode_command):
        with suppress(RequestInvalidError):
            decode(data)
