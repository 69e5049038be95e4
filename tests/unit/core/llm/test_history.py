from __future__ import annotations

from hypothesis import given, strategies as st

from vibe.core.llm.history import EMPTY_ANSWER, IMAGES_FOLLOW, NO_RESULT, normalised
from vibe.core.messages import AssistantMessage, Image, Message, SystemMessage, ToolCall, ToolMessage, UserMessage

ids = st.sampled_from(["a", "b", "c"])
arguments = st.sampled_from(["{}", '{"path": "x"}', "[1]", "{torn", "", "null"])
calls = st.lists(st.builds(ToolCall, ids, st.just("grep"), arguments), max_size=3, unique_by=lambda call: call.id)
messages = st.lists(
    st.one_of(
        st.builds(SystemMessage, st.text(max_size=3)),
        st.builds(UserMessage, st.text(max_size=3)),
        st.builds(AssistantMessage, st.text(max_size=3), calls.map(tuple)),
        st.builds(ToolMessage, st.text(max_size=3), ids, st.just("grep")),
    ),
    max_size=12,
)


@given(messages)
def test_any_history_becomes_one_that_apis_take(history: list[Message]) -> None:
    result = normalised(history)

    expected: list[str] = []
    for position, message in enumerate(result):
        if isinstance(message, ToolMessage):
            assert expected, "a result without a call"
            assert message.tool_call_id == expected.pop(0)
            continue
        assert not expected, "a call without a result"
        if isinstance(message, SystemMessage):
            assert position == 0
        if isinstance(message, AssistantMessage):
            assert message.content or message.tool_calls
            expected = [call.id for call in message.tool_calls]
    assert not expected
    assert normalised(result) == result


def test_nothing_a_person_or_the_model_said_is_lost() -> None:
    history: list[Message] = [UserMessage("do it"), AssistantMessage("ok", (ToolCall("1", "bash", "{torn"),))]

    assert normalised(history) == [*history, ToolMessage(NO_RESULT, "1", "bash", status="error")]


def test_an_empty_answer_is_marked_as_one() -> None:
    assert normalised([UserMessage("hi"), AssistantMessage("")])[1] == AssistantMessage(EMPTY_ANSWER)


def test_images_come_from_the_user_after_all_results_of_an_answer() -> None:
    picture = Image("image/png", "aGk=")
    asked = AssistantMessage("", (ToolCall("a", "read_file", "{}"), ToolCall("b", "read_file", "{}")))
    history: list[Message] = [
        asked,
        ToolMessage("a", "a", "read_file", images=(picture,)),
        ToolMessage("b", "b", "read_file"),
    ]

    assert normalised(history) == [
        asked,
        ToolMessage("a", "a", "read_file"),
        ToolMessage("b", "b", "read_file"),
        UserMessage(IMAGES_FOLLOW, (picture,)),
    ]
