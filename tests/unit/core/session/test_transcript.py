from __future__ import annotations

from pathlib import Path

import pytest

from vibe.core.messages import AssistantMessage, Message, ToolCall, ToolMessage, Usage, UserMessage
from vibe.core.session.folder import Transcript, TranscriptError

CONVERSATION: list[Message] = [
    UserMessage("héllo\nthere"),
    AssistantMessage("looking", (ToolCall("1", "grep", '{"pattern": "x"}'),), usage=Usage(5, 7, 1, 1), cost_usd=0.5),
    ToolMessage("found", "1", "grep"),
    AssistantMessage("done", usage=Usage(9, 1, 0, 1), cost_usd=0.25),
]


def written(path: Path, messages: list[Message]) -> Transcript:
    transcript = Transcript.open(path)
    for message in messages:
        transcript.append(message)
    return transcript


def test_what_was_written_is_read_back_with_what_it_took(tmp_path: Path) -> None:
    path = tmp_path / "messages.jsonl"
    written(path, CONVERSATION)

    again = Transcript.open(path)

    assert again.messages == CONVERSATION
    assert (again.usage, again.cost_usd, again.turns) == (Usage(14, 8, 1, 2), 0.75, 2)


def test_an_unknown_price_makes_the_sum_unknown(tmp_path: Path) -> None:
    transcript = written(tmp_path / "m", [*CONVERSATION, AssistantMessage("free?", usage=Usage(1, 1, 0, 1))])

    assert transcript.cost_usd is None


@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
def test_a_last_line_that_a_later_version_wrote_is_kept_and_told(tmp_path: Path, mark: bytes) -> None:
    path = tmp_path / "messages.jsonl"
    content = b'{"role":"user","content":"go"}\n' + mark + b'{"role":"thought","content":"hm"}\n'
    path.write_bytes(content)

    with pytest.raises(TranscriptError, match="line 2 is not a message"):
        Transcript.open(path)

    assert path.read_bytes() == content


@pytest.mark.parametrize("cut", range(1, 60, 7))
def test_a_torn_last_line_is_cut_on_disk(tmp_path: Path, cut: int) -> None:
    path = tmp_path / "messages.jsonl"
    written(path, CONVERSATION)
    whole = path.read_bytes()
    path.write_bytes(whole[:-cut])

    torn = Transcript.open(path)

    assert torn.messages == CONVERSATION[:3]
    assert torn.dropped_bytes > 0
    assert path.read_bytes() == b"".join(whole.splitlines(keepends=True)[:3])


@pytest.mark.parametrize("end", [b"\r\n", b"\r\r\n", b"\n\n \t\n", b" \n"])
@pytest.mark.parametrize("start", [b"", b"\xef\xbb\xbf", b"\n"])
def test_what_an_editor_leaves_around_messages_costs_none(tmp_path: Path, start: bytes, end: bytes) -> None:
    path = tmp_path / "messages.jsonl"
    written(path, CONVERSATION)
    edited = start + path.read_bytes().replace(b"\n", end)
    path.write_bytes(edited)

    assert Transcript.open(path).messages == CONVERSATION
    assert path.read_bytes() == edited


def test_a_zero_filled_tail_is_cut(tmp_path: Path) -> None:
    path = tmp_path / "messages.jsonl"
    written(path, CONVERSATION)
    whole = path.read_bytes()
    path.write_bytes(whole + b"\0" * 512)

    assert Transcript.open(path).messages == CONVERSATION
    assert path.read_bytes() == whole


def test_a_broken_line_in_the_middle_is_an_error_that_names_it(tmp_path: Path) -> None:
    path = tmp_path / "messages.jsonl"
    written(path, CONVERSATION)
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(lines[0] + b"{nonsense}\n" + b"".join(lines[1:]))

    with pytest.raises(TranscriptError, match="line 2"):
        Transcript.open(path)


def test_calls_without_a_result_are_closed_as_interrupted(tmp_path: Path) -> None:
    path = tmp_path / "messages.jsonl"
    calls = (ToolCall("a", "bash", "{}"), ToolCall("b", "grep", "{}"))
    transcript = written(path, [UserMessage("go"), AssistantMessage("", calls), ToolMessage("ok", "a", "bash")])

    assert transcript.close_dangling_calls() == 1
    assert transcript.close_dangling_calls() == 0

    last = Transcript.open(path).messages[-1]
    assert isinstance(last, ToolMessage)
    assert (last.tool_call_id, last.status) == ("b", "interrupted")


def test_a_place_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    transcript = Transcript(path=tmp_path / "no" / "such" / "folder")

    with pytest.raises(TranscriptError, match="cannot be written"):
        transcript.append(UserMessage("hello"))

    assert transcript.messages == []


def test_calls_of_another_program_that_are_no_list_cost_no_message(tmp_path: Path) -> None:
    path = tmp_path / "messages.jsonl"
    path.write_bytes(b'{"role":"assistant","content":"on","injected":false,"tool_calls":5}\n')

    assert [message.content for message in Transcript.open(path).messages] == ["on"]
