"""Bodies, topics, frames and answers."""

from __future__ import annotations

import json

import pytest

from ipc.codec import (
    WIRE_VERSION,
    EventRecord,
    Heartbeat,
    ReplayHeader,
    ReplayRequest,
    decode_answer,
    decode_event,
    decode_frame,
    decode_request,
    encode_answer,
    encode_event,
    encode_request,
    event_frame,
    heartbeat_frame,
)
from ipc.errors import CodecError
from ipc.events import PlanStepUpdateEvent, ToolCallEvent, UserMessageEvent
from tests.fakes.events import examples

NEWER = b'{"type":"from.tomorrow","seq":3,"source":"run-1","plan_id":"p","subagent_step_id":"s","novelty":[1]}'


def header(count: int, version: int = WIRE_VERSION) -> ReplayHeader:
    return ReplayHeader(version=version, source="run-1", seq=9, end=False, first=4, count=count, journal="/j")


def test_an_event_frame_is_topic_nul_body() -> None:
    event = ToolCallEvent(seq=1, plan_id="p1", subagent_step_id="s1", tool_call_id="c", tool="bash", arguments={"a": 1})
    body = encode_event(event)

    assert event_frame(event, body) == b"tool.call|p1|s1\x00" + body
    assert decode_frame(event_frame(event, body)) == ("tool.call|p1|s1", body)


def test_an_event_has_the_type_that_its_body_names() -> None:
    for event in examples():
        assert json.loads(encode_event(event))["type"] == event.type


def test_missing_ids_are_dashes_in_the_topic() -> None:
    event = UserMessageEvent(seq=1, text="hi")

    assert event_frame(event, b"{}").startswith(b"user.message|-|-\x00")


def test_the_topic_of_a_step_update_names_the_step() -> None:
    event = PlanStepUpdateEvent(plan_id="p1", step_id="s2", title="t", status="running", previous="ready")

    assert event_frame(event, b"{}").startswith(b"plan.step|p1|s2\x00")
    assert EventRecord(1, "run-1", encode_event(event)).topic == "plan.step|p1|s2"


def test_a_heartbeat_is_as_documented() -> None:
    frame = heartbeat_frame(Heartbeat(source="run-1", seq=12))

    assert frame == b'hb\x00{"source":"run-1","seq":12}'
    assert decode_frame(frame) == Heartbeat(source="run-1", seq=12)
    assert decode_frame(heartbeat_frame(Heartbeat(source="r", seq=1, end=True))) == Heartbeat(
        source="r", seq=1, end=True
    )


def test_an_event_of_a_newer_publisher_is_kept_as_it_is() -> None:
    record = EventRecord(3, "run-1", NEWER)

    assert record.event is None
    assert record.topic == "from.tomorrow|p|s"
    assert record.body == NEWER


def test_unknown_fields_of_a_known_event_are_ignored() -> None:
    event = decode_event(b'{"type":"user.message","seq":1,"text":"hi","mood":"good"}')

    assert event == UserMessageEvent(seq=1, text="hi")


@pytest.mark.parametrize("data", [b"", b"{", b"\xff\xfe"])
def test_what_is_no_json_is_refused(data: bytes) -> None:
    with pytest.raises(CodecError, match="not a valid event"):
        decode_event(data)


@pytest.mark.parametrize("frame", [b"", b"no separator", b"hb\x00nonsense"])
def test_foreign_messages_are_refused(frame: bytes) -> None:
    with pytest.raises(CodecError):
        decode_frame(frame)


def test_what_json_can_not_hold_is_replaced_and_not_refused() -> None:
    event = ToolCallEvent(
        seq=1,
        tool_call_id="c",
        tool="bash",
        arguments={"half": "a\ud800b", "object": object, "number": 2**80, "list": [("x", None, 1.5, True)]},
    )
    decoded = decode_event(encode_event(event))

    assert isinstance(decoded, ToolCallEvent)
    assert decoded.arguments["half"] == "a?b"
    assert decoded.arguments["list"] == [["x", None, 1.5, True]]
    assert decoded.tool == "bash"


def test_requests_use_the_documented_words() -> None:
    assert json.loads(encode_request(ReplayRequest(first=3, last=9))) == {"from": 3, "to": 9}
    assert json.loads(encode_request(ReplayRequest())) == {}
    assert decode_request(b'{"from": 2}') == ReplayRequest(first=2)
    with pytest.raises(CodecError, match="replay request"):
        decode_request(b"give me all")


def test_an_answer_carries_its_bodies() -> None:
    bodies = [b'{"a":1}', b'{"b":2}']

    assert decode_answer(encode_answer(header(2), bodies)) == (header(2), bodies)
    assert decode_answer(encode_answer(header(0), [])) == (header(0), [])


def test_an_answer_of_another_wire_version_is_refused() -> None:
    with pytest.raises(CodecError, match="wire version 99"):
        decode_answer(encode_answer(header(0, version=99), []))


def test_a_cut_answer_is_refused() -> None:
    with pytest.raises(CodecError, match="2 events announced, 1 received"):
        decode_answer(encode_answer(header(2), [b"{}"]))
