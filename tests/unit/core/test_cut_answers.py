from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from ipc.events import WarningEvent
from subagents.agent.budget import Limits
from tests.fakes.engine import Bench
from tests.fakes.models import answer, calling
from vibe.core.agent_loop import CONTINUE, MAX_CUTS, SPEAK
from vibe.core.config.models import ModelConfig
from vibe.core.llm.port import Completion, FinishReason
from vibe.core.messages import (
    AssistantMessage,
    Message,
    Outcome,
    ToolCall,
    ToolMessage,
    Usage,
    UserMessage,
)
from vibe.core.middleware.port import HOST_NOTICE
from vibe.core.session.folder import Transcript
from vibe.core.tools.hand_in import HandIn

SENTENCE = "The quick brown fox jumps over the lazy dog, and then "


def cut(text: str) -> Completion:
    return answer(text, finish=FinishReason.LENGTH)


def torn_call() -> Completion:
    return calling(("write_file", '{"path": "a.txt", "content": "hel'), finish=FinishReason.LENGTH)


async def test_an_answer_that_was_cut_off_is_gone_on_with_and_comes_as_one(tmp_path: Path) -> None:
    bench = Bench(root=tmp_path, answers=[cut("one, "), cut("two, "), answer("three")])

    result = await bench.loop.act("count")

    assert (result.outcome, result.reason, result.text) == (Outcome.COMPLETED, None, "one, two, three")
    assert result.turns == 3
    assert bench.model.requests[1].messages[-1] == UserMessage(CONTINUE)


@pytest.mark.parametrize(
    ("more", "whole"),
    [
        ("it sleeps.", SENTENCE + "it sleeps."),
        ("and then it sleeps.", SENTENCE + "and then it sleeps."),
        (SENTENCE[10:] + "it sleeps.", SENTENCE + "it sleeps."),
        (SENTENCE + "it sleeps.", SENTENCE + "it sleeps."),
        (SENTENCE[:45], SENTENCE),
    ],
    ids=["goes on", "chance", "repeats the end", "begins again", "says less"],
)
async def test_what_the_model_says_twice_is_there_once(tmp_path: Path, more: str, whole: str) -> None:
    bench = Bench(root=tmp_path, answers=[cut(SENTENCE), answer(more)])

    assert (await bench.loop.act("tell")).text == whole


async def test_a_ruler_is_not_taken_for_a_repetition(tmp_path: Path) -> None:
    bench = Bench(root=tmp_path, answers=[cut("-" * 60), answer("-" * 60)])

    assert (await bench.loop.act("draw")).text == "-" * 120


async def test_an_answer_that_is_cut_off_again_and_again_ends_at_a_limit_and_keeps_what_there_is(
    tmp_path: Path,
) -> None:
    bench = Bench(root=tmp_path, answers=[cut(f"part {number} ") for number in range(MAX_CUTS + 1)])

    result = await bench.loop.act("go")

    assert (result.outcome, result.reason) == (Outcome.LIMIT, "length")
    assert result.text == "".join(f"part {number} " for number in range(MAX_CUTS))
    assert "output limit" in result.detail
    assert len(bench.model.requests) == MAX_CUTS


async def test_calls_that_are_cut_off_again_and_again_end_at_the_same_limit(tmp_path: Path) -> None:
    bench = Bench(root=tmp_path, answers=[torn_call()] * (MAX_CUTS + 1))

    result = await bench.loop.act("go")

    assert (result.outcome, result.reason) == (Outcome.LIMIT, "length")
    assert len(bench.model.requests) == MAX_CUTS
    assert not (tmp_path / "a.txt").exists()


async def test_thinking_that_used_up_the_limit_is_no_empty_answer(tmp_path: Path) -> None:
    bench = Bench(root=tmp_path, answers=[cut(""), cut(""), answer("here")])

    result = await bench.loop.act("go")

    assert (result.outcome, result.text) == (Outcome.COMPLETED, "here")
    assert bench.model.requests[1].messages[-1] == UserMessage(SPEAK)


async def test_empty_answers_between_cut_ones_do_not_make_it_endless(tmp_path: Path) -> None:
    bench = Bench(root=tmp_path, answers=[cut("a "), answer("")] * (MAX_CUTS + 2))

    assert (await bench.loop.act("go")).reason == "length"


async def test_what_was_said_before_a_tool_call_is_no_part_of_the_answer(tmp_path: Path) -> None:
    write = calling(("write_file", {"path": "a.txt", "content": "x"}), text="and write it")
    bench = Bench(root=tmp_path, answers=[cut("I will look "), write, answer("Written.")])

    assert (await bench.loop.act("go")).text == "Written."


async def test_a_limit_that_ends_a_cut_answer_keeps_what_was_said(tmp_path: Path) -> None:
    bench = Bench(root=tmp_path, max_turns=1, answers=[cut("half of it")])

    result = await bench.loop.act("go")

    assert (result.outcome, result.reason, result.text) == (Outcome.LIMIT, "turns", "half of it")


async def test_an_agent_that_must_hand_in_goes_on_after_a_cut(tmp_path: Path) -> None:
    duty = HandIn(schema={"type": "string"})
    bench = Bench(root=tmp_path, answers=[cut("thinking aloud "), calling(("hand_in", {"value": "x"}))], hand_in=duty)

    assert (await bench.loop.act("go")).output == "x"
    assert bench.model.requests[1].messages[-1] == UserMessage(CONTINUE)


async def test_a_cut_answer_is_gone_on_with_by_another_process(tmp_path: Path) -> None:
    said: list[Message] = [
        UserMessage("go"),
        AssistantMessage("one, ", cut=True),
        UserMessage(CONTINUE),
        AssistantMessage("two, ", cut=True),
    ]
    kept = [msgspec.json.decode(msgspec.json.encode(message), type=Message) for message in said]

    bench = Bench(root=tmp_path, answers=[answer("three")], transcript=Transcript(kept))
    result = await bench.loop.resume()
    again = await Bench(root=tmp_path, answers=[], transcript=bench.transcript).loop.resume()

    assert (result.outcome, result.text) == (again.outcome, again.text) == (Outcome.COMPLETED, "one, two, three")
    assert bench.model.requests[0].messages[-1] == UserMessage(CONTINUE)


async def test_another_prompt_begins_another_answer(tmp_path: Path) -> None:
    bench = Bench(root=tmp_path, answers=[*[cut("x ")] * MAX_CUTS, cut("y "), answer("z")])

    await bench.loop.act("first")

    assert (await bench.loop.act("second")).text == "y z"


async def test_no_bound_is_sent_that_nobody_set(tmp_path: Path) -> None:
    for limits in (Limits(), Limits(max_tokens=100_000)):
        bench = Bench(root=tmp_path, answers=[answer("ok")], limits=limits)
        await bench.loop.act("go")
        assert bench.model.requests[0].max_tokens is None


async def test_a_budget_that_leaves_less_room_bounds_the_answer(tmp_path: Path) -> None:
    bench = Bench(root=tmp_path, answers=[answer("ok")], limits=Limits(max_tokens=9_000))
    bench.account.book(Usage(1_000, 0, 0, 1), 0.0)

    await bench.loop.act("go")

    bound = bench.model.requests[0].max_tokens
    assert bound is not None
    assert 64 <= bound < 8_000


async def test_the_models_own_bound_stays(tmp_path: Path) -> None:
    model = ModelConfig(name="fake", provider="fake", max_output_tokens=500)
    bench = Bench(root=tmp_path, answers=[answer("ok")], model_config=model)

    await bench.loop.act("go")

    assert bench.model.requests[0].model.max_output_tokens == 500


async def test_an_odd_provider_is_warned_of_once(tmp_path: Path) -> None:
    odd = Completion(
        message=AssistantMessage("", (ToolCall("1", "todo", '{"action": "read"}'),)),
        finish_reason=FinishReason.TOOL_CALLS,
        usage=Usage(1, 1, 0, 1),
        oddity="no reason was told",
    )
    bench = Bench(root=tmp_path, answers=[odd, odd, answer("done")])

    await bench.loop.act("go")

    assert [event.message for event in bench.events(WarningEvent) if isinstance(event, WarningEvent)] == [odd.oddity]
    assert any(isinstance(message, ToolMessage) for message in bench.transcript.messages)
    assert not any(isinstance(m, UserMessage) and m.content.startswith(HOST_NOTICE) for m in bench.transcript.messages)
