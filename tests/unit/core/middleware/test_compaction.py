from __future__ import annotations

from pathlib import Path

import anyio
import anyio.to_thread
import pytest

from ipc.events import CompactEndEvent, CompactStartEvent, UsageEvent, WarningEvent
from subagents.agent.budget import Limits
from tests.fakes.engine import Bench
from tests.fakes.models import MODEL, answer, calling
from vibe.core.llm.errors import ContextTooLongError, ModelError, ModelTransportError
from vibe.core.llm.port import Completion, FinishReason
from vibe.core.messages import Message, Outcome, SystemMessage, ToolMessage, Usage, UserMessage
from vibe.core.session.folder import Transcript

SMALL = MODEL.model_copy(update={"auto_compact_threshold": 4_000})
SUMMARY = answer("SUMMARY", usage=Usage(400, 50, 0, 1))


def saying(number: int, *, prompt_tokens: int = 10) -> Completion:
    made = calling(("bash", {"command": f"echo turn {number}"}))
    return Completion(
        message=made.message, finish_reason=made.finish_reason, usage=Usage(prompt_tokens, 10, 0, 1), cost_usd=0.001
    )


def bench_of(
    root: Path, *answers: Completion | ModelError, path: Path | None = None, limit: int | None = None
) -> Bench:
    transcript = Transcript(path=path)
    return Bench(root=root, answers=answers, model_config=SMALL, transcript=transcript, limits=Limits(max_tokens=limit))


def texts(messages: list[Message]) -> str:
    return "\n".join(message.content for message in messages)


async def test_a_full_conversation_is_summarised_and_goes_on(tmp_path: Path) -> None:
    todo = ("todo", {"action": "write", "todos": [{"id": "1", "content": "write the lexer"}]})
    bench = bench_of(tmp_path, calling(todo), saying(1), saying(2, prompt_tokens=4_200), SUMMARY, answer("done"))

    result = await bench.loop.act("write a parser")

    assert (result.outcome, result.text, result.turns) == (Outcome.COMPLETED, "done", 4)
    asked, last = bench.model.requests[3], bench.model.requests[4]
    assert isinstance(asked.messages[0], SystemMessage)
    assert "echo turn 1" in asked.messages[1].content
    assert asked.tools == ()
    stand_in = last.messages[1].content
    assert "SUMMARY" in stand_in
    assert "<request>\nwrite a parser\n</request>" in stand_in
    assert "write the lexer" in stand_in.partition("<state>")[2]
    assert last.tools == bench.model.requests[0].tools
    assert last.messages[0] == bench.model.requests[0].messages[0]


async def test_recent_turns_stay_word_for_word(tmp_path: Path) -> None:
    bench = bench_of(tmp_path, saying(1), saying(2, prompt_tokens=4_200), SUMMARY, answer("done"))

    await bench.loop.act("word " * 400)

    kept = bench.model.requests[-1].messages[2:]
    assert [message.content for message in kept if isinstance(message, ToolMessage)] == ["turn 1", "turn 2"]


async def test_what_a_summary_took_counts(tmp_path: Path) -> None:
    bench = bench_of(tmp_path, saying(1, prompt_tokens=4_200), SUMMARY, answer("done"), limit=100_000)

    result = await bench.loop.act("word " * 400)

    assert result.usage == Usage(4_200 + 400 + 10, 10 + 50 + 10, 0, 3)
    assert bench.account.usage == result.usage
    assert len(bench.events(UsageEvent)) == 3


async def test_start_and_end_are_announced_with_sizes(tmp_path: Path) -> None:
    counting = [calling(("bash", {"command": f"seq {number} 900"})) for number in range(5)]
    bench = bench_of(tmp_path, *counting, saying(1, prompt_tokens=4_200), SUMMARY, answer("done"))

    await bench.loop.act("go")

    start, end = bench.events(CompactStartEvent)[0], bench.events(CompactEndEvent)[0]
    assert isinstance(start, CompactStartEvent)
    assert isinstance(end, CompactEndEvent)
    assert start.threshold == 4_000
    assert start.context_tokens == end.tokens_before >= 4_000
    assert end.tokens_after < 4_000
    assert end.messages_after is not None
    assert end.messages_before is not None
    assert 0 < end.messages_after < end.messages_before


@pytest.mark.parametrize("failure", [ModelTransportError("refused"), answer("  ")], ids=["error", "empty"])
async def test_a_compaction_that_fails_changes_nothing_and_is_said(
    tmp_path: Path, failure: Completion | ModelError
) -> None:
    bench = bench_of(tmp_path, saying(1, prompt_tokens=4_200), failure, answer("done"))

    result = await bench.loop.act("word " * 400)

    assert result.outcome is Outcome.COMPLETED
    assert texts(bench.transcript.messages).startswith("word word")
    warnings = [event for event in bench.events(WarningEvent) if isinstance(event, WarningEvent)]
    assert "compact.failed" in [warning.code for warning in warnings]
    assert bench.account.usage == result.usage


async def test_a_summary_that_was_cut_off_is_not_taken_for_whole(tmp_path: Path) -> None:
    half = answer("SUMMARY of half", usage=Usage(400, 50, 0, 1), finish=FinishReason.LENGTH)
    bench = bench_of(tmp_path, saying(1), saying(2, prompt_tokens=4_200), half, answer("done"))

    assert (await bench.loop.act("write a parser")).outcome is Outcome.COMPLETED

    assert "SUMMARY of half\n[The summary was cut off here" in bench.model.requests[-1].messages[1].content
    assert "compact.cut" in [event.code for event in bench.events(WarningEvent) if isinstance(event, WarningEvent)]


async def test_on_disk_the_whole_conversation_stays_and_a_reader_gets_the_short_one(tmp_path: Path) -> None:
    path = tmp_path / "messages.jsonl"
    bench = bench_of(tmp_path, saying(1, prompt_tokens=4_200), SUMMARY, answer("done"), path=path)
    await bench.loop.act("word " * 400)

    again = await anyio.to_thread.run_sync(Transcript.open, path)

    assert again.messages == bench.transcript.messages
    assert (again.usage, again.turns) == (bench.transcript.usage, bench.transcript.turns)
    assert "word word" in await anyio.Path(path).read_text()
    assert again.prompts[0].content.startswith("word word")


async def test_a_context_that_is_too_long_is_shortened_once_and_tried_again(tmp_path: Path) -> None:
    too_long = ContextTooLongError("too long", status=400)
    bench = bench_of(tmp_path, saying(1), too_long, SUMMARY, answer("done"))

    result = await bench.loop.act("word " * 400)

    assert (result.outcome, result.text) == (Outcome.COMPLETED, "done")
    assert "SUMMARY" in bench.model.requests[-1].messages[1].content


async def test_a_context_that_stays_too_long_ends_the_work(tmp_path: Path) -> None:
    too_long = ContextTooLongError("too long", status=400)
    bench = bench_of(tmp_path, saying(1), too_long, SUMMARY, too_long)

    result = await bench.loop.act("word " * 400)

    assert (result.outcome, result.reason, result.error) == (Outcome.FAILED, "context", too_long)


async def test_a_record_too_long_for_the_model_is_halved(tmp_path: Path) -> None:
    too_long = ContextTooLongError("too long", status=400)
    bench = bench_of(tmp_path, saying(1, prompt_tokens=3_900), too_long, too_long, SUMMARY, answer("done"))

    result = await bench.loop.act("word " * 2_000)

    assert result.outcome is Outcome.COMPLETED
    first, second = (len(request.messages[1].content) for request in bench.model.requests[2:4])
    assert second < first * 0.7


async def test_prompts_are_remembered_beyond_a_summary(tmp_path: Path) -> None:
    bench = bench_of(tmp_path, saying(1, prompt_tokens=4_200), SUMMARY, answer("done"))

    await bench.loop.act("word " * 400)

    assert bench.transcript.prompts[0] == UserMessage("word " * 400)


async def test_a_long_request_stays_word_for_word_and_what_is_cut_of_a_longer_one_is_told(tmp_path: Path) -> None:
    path = tmp_path / "messages.jsonl"
    for length, is_cut in ((3_900, False), (60_000, True)):
        model = SMALL.model_copy(update={"auto_compact_threshold": 16_000})
        answers = [saying(1), saying(2, prompt_tokens=17_000), SUMMARY, answer("done")]
        bench = Bench(root=tmp_path, answers=answers, model_config=model, transcript=Transcript(path=path))
        request = ("0123456789" * length)[:length]

        assert (await bench.loop.act(request)).text == "done"

        told = bench.model.requests[-1].messages[1].content
        warnings = [event for event in bench.sink.events if isinstance(event, WarningEvent)]
        cut = [event.message for event in warnings if event.code == "compact.cut"]
        assert (request in told) is not is_cut
        if is_cut:
            assert "characters left out" in told
            assert f"all of it is in {path}" in told
            assert cut == [
                f"the summary keeps 16,000 of the 60,000 characters of the last request; all of it is in {path}"
            ]
        path.unlink()


async def test_what_nobody_has_answered_yet_is_not_summarised(tmp_path: Path) -> None:
    transcript = Transcript()
    earlier = Bench(root=tmp_path, answers=[answer("fine " * 100)], model_config=SMALL, transcript=transcript)
    await earlier.loop.act("one " * 500)
    bench = Bench(root=tmp_path, answers=[SUMMARY, answer("done")], model_config=SMALL, transcript=transcript)
    request = "two " * 3_700

    assert (await bench.loop.act(request)).text == "done"

    assert UserMessage(request) in bench.model.requests[-1].messages
    assert "two two" not in bench.model.requests[0].messages[1].content
