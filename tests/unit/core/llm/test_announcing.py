"""Events of a model call: its start, its arguments while they are written, its end."""

from __future__ import annotations

import json

import pytest
from anyio import CancelScope, sleep_forever

from ipc.events import AssistantDeltaEvent, ModelEndedEvent, ModelStartedEvent, ToolArgumentsEvent, WarningEvent
from ipc.sink import MemorySink
from vibe.core.config.models import ModelConfig
from vibe.core.llm.announcing import CallAnnouncer
from vibe.core.llm.errors import ModelTransportError
from vibe.core.llm.port import CallDelta, Delta, RetryNotice
from vibe.core.messages import Usage
from vibe.system.redaction import Mask

MODEL = ModelConfig(name="m", provider="p", context_size=9000)
SECRET = "zq83hfn-402jfps"  # noqa: S105  made up


def announcer(sink: MemorySink) -> CallAnnouncer:
    return CallAnnouncer(sink, MODEL, Mask({"SOME_TOKEN": SECRET}).printed)


def pieces(text: str, size: int = 7) -> list[str]:
    return [text[start : start + size] for start in range(0, len(text), size)]


def write(to: CallAnnouncer, text: str, *, index: int = 0, attempt: int = 1, size: int = 7) -> None:
    for piece in pieces(text, size):
        to.delta(Delta(call=CallDelta(index=index, name="write_file", arguments=piece, id="c1"), attempt=attempt))


def arguments(sink: MemorySink) -> list[ToolArgumentsEvent]:
    return [event for event in sink.events if isinstance(event, ToolArgumentsEvent)]


def told(sink: MemorySink) -> str:
    return "".join(event.text for event in arguments(sink))


def test_a_call_is_announced_from_its_start_to_its_end() -> None:
    sink = MemorySink()
    call = announcer(sink)

    with call.announced(context_tokens=1200):
        call.delta(Delta(text="hello"))

    started, delta, ended = sink.events
    assert isinstance(started, ModelStartedEvent)
    assert isinstance(delta, AssistantDeltaEvent)
    assert isinstance(ended, ModelEndedEvent)
    assert started.message_id == delta.message_id == ended.message_id == call.message_id
    assert (started.model, started.context_tokens, started.context_limit, started.purpose) == ("m", 1200, 9000, "turn")
    assert (ended.status, ended.attempt) == ("ok", 1)
    assert ended.first_token_s is not None
    assert 0 <= ended.first_token_s <= ended.duration_s


def test_the_first_word_of_the_last_attempt_counts() -> None:
    sink = MemorySink()
    call = announcer(sink)

    def fails() -> None:
        with call.announced(0):
            call.delta(Delta(text="torn"))
            call.notice(RetryNotice(attempt=1, wait_seconds=0.5, reason="cut"))
            raise ModelTransportError("gone", provider="p")

    with pytest.raises(ModelTransportError):
        fails()

    ended = sink.events[-1]
    assert isinstance(ended, ModelEndedEvent)
    assert (ended.status, ended.attempt, ended.first_token_s) == ("failed", 2, None)


@pytest.mark.parametrize(("unreachable", "what"), [(True, "model not reachable"), (False, "model call failed")])
def test_the_next_try_is_told_with_its_time_and_reason(*, unreachable: bool, what: str) -> None:
    sink = MemorySink()

    announcer(sink).notice(RetryNotice(attempt=2, wait_seconds=1.0, reason="no route", unreachable=unreachable))

    [warning] = sink.events
    assert isinstance(warning, WarningEvent)
    assert (warning.message, warning.wait_seconds) == (f"{what} · try 3 in 1.0 s · no route", 1.0)


async def test_a_call_that_is_stopped_says_so() -> None:
    sink = MemorySink()

    with CancelScope() as scope, CallAnnouncer(sink, MODEL, None, "compact").announced(0):
        scope.cancel()
        await sleep_forever()

    started, ended = sink.events
    assert isinstance(started, ModelStartedEvent)
    assert started.purpose == "compact"
    assert isinstance(ended, ModelEndedEvent)
    assert ended.status == "cancelled"


def test_arguments_are_told_while_they_are_written_in_few_events() -> None:
    sink = MemorySink()
    text = json.dumps({"path": "a.txt", "content": "one line of many words\n" * 40})

    write(announcer(sink), text, size=3)

    events = arguments(sink)
    assert (events[0].tool, events[0].text, events[0].tool_call_id, events[0].index) == ("write_file", "", "c1", 0)
    assert text.startswith(told(sink))
    assert len(told(sink)) > len(text) - 100
    assert len(events) < len(text) / 40


def test_the_text_of_an_answer_that_broke_off_is_no_part_of_the_next_but_counts() -> None:
    call = announcer(MemorySink())

    with call.announced(context_tokens=1200):
        call.delta(Delta(text="one two "))
        call.notice(RetryNotice(attempt=1, wait_seconds=0.1, reason="cut"))
        call.notice(RetryNotice(attempt=2, wait_seconds=0.1, reason="refused"))
        call.delta(Delta(text="one", attempt=3))
        call.delta(Delta(reasoning="hm, tw", attempt=4))  # others had answers meanwhile, so no notice came
        call.delta(Delta(text="one two three", attempt=4))

    assert call.text == "one two three"
    assert call.broken_off.usage == Usage(prompt_tokens=2400, completion_tokens=3, calls=2)


def test_an_attempt_that_is_repeated_begins_anew() -> None:
    sink = MemorySink()
    call = announcer(sink)
    text = json.dumps({"content": "word " * 60})

    write(call, text)
    write(call, text, attempt=2)

    again = [event for event in arguments(sink) if event.attempt == 2]
    assert again[0].text == ""
    assert text.startswith("".join(event.text for event in again))


@pytest.mark.parametrize("size", [1, 5, 1000])
@pytest.mark.parametrize(
    ("before", "secret"),
    [
        ("use it ", SECRET),
        ("a header: Authorization: Bearer ", "c2VjcmV0LXRva2VuLXZhbHVl"),
        ("", "ghp_0123456789abcdefghij0123"),
        ("a key\n-----BEGIN RSA PRIVATE KEY-----\n", "MIIEpAIBAAKCAQEA1234567890abcdefghij"),
    ],
    ids=["value", "header", "shape", "key"],
)
def test_no_secret_is_told_wherever_the_pieces_are_cut(size: int, before: str, secret: str) -> None:
    for filler in range(0, 140, 3):
        sink = MemorySink()

        write(
            announcer(sink), json.dumps({"content": "x" * filler + " " + before + secret + " and on " * 40}), size=size
        )

        assert secret not in told(sink), filler
