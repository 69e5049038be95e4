from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.fakes.engine import Bench
from tests.unit.core.middleware.turn_contexts import Talk
from vibe.core.compactor import ContextLimit, compaction_threshold
from vibe.core.config.models import ModelConfig
from vibe.core.messages import AssistantMessage, Message, Outcome, ToolCall, ToolMessage, UserMessage
from vibe.core.middleware.limits import LoopDetection, SpendingNotice
from vibe.core.middleware.port import (
    HOST_NOTICE,
    Compact,
    Middleware,
    Notice,
    Stop,
    TurnContext,
    Verdict,
    Warn,
)
from vibe.core.tools.guidance import CallGuidance


def turn(number: int, result: str = "same", name: str = "grep", arguments: str = "{}") -> list[Message]:
    call = ToolCall(f"c{number}", name, arguments)
    return [AssistantMessage("", (call,)), ToolMessage(result, call.id, name)]


async def test_spending_is_said_once_at_four_fifths() -> None:
    notice = SpendingNotice()

    assert await notice.before_turn(Talk(spent=799, limit=1000).context) == ()
    (said,) = await notice.before_turn(Talk(spent=800, limit=1000).context)
    assert isinstance(said, Notice)
    assert await notice.before_turn(Talk(spent=900, limit=1000).context) == ()


@pytest.mark.parametrize("most", [*range(2, 130)])
async def test_the_last_fifth_of_the_turns_is_said_once_too(most: int) -> None:
    """With very few turns, it is said before the last one."""
    notice = SpendingNotice()
    first = max(1, int(0.8 * most))

    assert await notice.before_turn(Talk(calls=first - 1, turns=most).context) == ()
    (said,) = await notice.before_turn(Talk(calls=first, turns=most).context)
    assert isinstance(said, Notice)
    assert await notice.before_turn(Talk(calls=first + 1, turns=most).context) == ()


async def test_a_single_turn_is_not_begun_with_a_warning() -> None:
    assert await SpendingNotice().before_turn(Talk(calls=0, turns=1).context) == ()


async def test_who_was_told_before_a_kill_is_not_told_again() -> None:
    (said,) = await SpendingNotice().before_turn(Talk(spent=800, limit=1000).context)
    assert isinstance(said, Notice)
    told = [UserMessage("go"), *turn(1), UserMessage(HOST_NOTICE + said.text), *turn(2)]

    assert await SpendingNotice().before_turn(Talk(messages=told, spent=900, limit=1000).context) == ()


async def test_without_a_limit_nothing_is_said_about_spending() -> None:
    assert await SpendingNotice().before_turn(Talk(spent=10_000_000).context) == ()


SAME, OTHER = "bash", "grep"


def rounds(*names: str) -> list[Message]:
    """Return one turn for each name, with its own arguments and result."""
    return [message for number, name in enumerate(names) for message in turn(number, name=name)]


def polls(result: str, times: int) -> list[Message]:
    return [m for n in range(times) for m in turn(n, name="background", arguments='{"handle": "bg1"}', result=result)]


@pytest.mark.parametrize(
    ("messages", "said"),
    [
        (rounds(*[SAME] * 2), []),
        (rounds(*[SAME] * 3), [Notice, Warn]),
        (rounds(*[SAME] * 4), []),
        (rounds(*[SAME] * 5), []),
        (rounds(*[SAME] * 6), [Stop]),
        (rounds(OTHER, *[SAME] * 3), [Notice, Warn]),
        (rounds(SAME, OTHER, SAME), []),
        (rounds(*[SAME, OTHER] * 3), [Notice, Warn]),
        (rounds(*[SAME, OTHER] * 5), []),
        (rounds(*[SAME, OTHER] * 6), [Stop]),
        (rounds(*[SAME, OTHER, "todo"] * 3), [Notice, Warn]),
        ([*turn(1), *turn(2), *turn(3, result="other")], []),
        ([*turn(1), *turn(2), *turn(3, arguments='{"a": 1}')], []),
        ([*turn(1, result="x"), *turn(2), *turn(3), UserMessage("notice"), *turn(4)], [Notice, Warn]),
        ([*rounds(*[SAME] * 3), AssistantMessage("thinking"), *rounds(*[SAME] * 2)], []),
        (polls("[bg1: still running after 0.0 s]", 8), []),
        ([*rounds(*[SAME] * 5), *polls("[bg1: still running after 0.0 s]", 1), *rounds(*[SAME] * 2)], []),
        (polls("still running after all\n[bg1: ended with exit code 0 after 1.0 s]", 6), [Stop]),
        ([], []),
    ],
)
async def test_equal_turns_are_told_and_then_a_loop(messages: Sequence[Message], said: list[type[Verdict]]) -> None:
    verdicts = await LoopDetection().after_turn(Talk(messages=messages).context)

    assert [type(verdict) for verdict in verdicts] == said
    assert all(verdict.reason == "loop" for verdict in verdicts if isinstance(verdict, Stop))


async def test_half_of_the_context_is_said_once_to_people_and_to_the_model() -> None:
    warning = ContextLimit(1000)

    assert await warning.before_turn(Talk(context_tokens=499).context) == ()
    said = await warning.before_turn(Talk(context_tokens=500).context)
    assert [type(verdict) for verdict in said] == [Warn, Notice]
    assert await warning.before_turn(Talk(context_tokens=900).context) == ()


async def test_half_of_the_context_is_said_again_after_the_conversation_was_shortened() -> None:
    warning = ContextLimit(1000)
    await warning.before_turn(Talk(context_tokens=900).context)
    await warning.before_turn(Talk(context_tokens=100).context)

    assert len(await warning.before_turn(Talk(context_tokens=600).context)) == 2


async def test_compaction_is_asked_for_at_the_threshold() -> None:
    compact = ContextLimit(1000, warns=False)

    assert await compact.before_turn(Talk(context_tokens=999).context) == ()
    assert await compact.before_turn(Talk(context_tokens=1000).context) == (Compact(threshold=1000),)


async def test_compaction_that_did_not_help_is_asked_for_again_only_after_growth() -> None:
    compact = ContextLimit(1000, warns=False)
    await compact.before_turn(Talk(context_tokens=1000).context)

    assert await compact.before_turn(Talk(context_tokens=1050).context) == ()
    assert len(await compact.before_turn(Talk(context_tokens=1100).context)) == 1


async def test_after_compaction_the_threshold_counts_again() -> None:
    compact = ContextLimit(1000, warns=False)
    await compact.before_turn(Talk(context_tokens=5000).context)
    await compact.before_turn(Talk(context_tokens=200).context)

    assert len(await compact.before_turn(Talk(context_tokens=1000).context)) == 1


@pytest.mark.parametrize(
    ("threshold", "context", "expected"),
    [
        (None, 1_000_000, 200_000),
        (None, 100_000, 85_000),
        (50_000, 100_000, 50_000),
        (90_000, 100_000, 85_000),
        (0, 100_000, None),
    ],
)
def test_the_threshold_leaves_room_for_an_answer(threshold: int | None, context: int, expected: int | None) -> None:
    model = ModelConfig(name="m", provider="p", context_size=context, auto_compact_threshold=threshold)

    assert compaction_threshold(model) == expected


def test_a_read_only_agent_is_refused_what_it_lacks_in_either_vocabulary() -> None:
    guard = CallGuidance(profile="plan", refused=frozenset({"write_file", "bash"}))

    assert guard.refusal("write_file") == "the agent 'plan' is read-only and has no write_file"
    assert guard.refusal("write") == "the agent 'plan' is read-only and has no write_file"
    assert guard.refusal("read_file") is None


class Saying(Middleware):
    def __init__(self, *verdicts: Verdict) -> None:
        self.asked = 0
        self._verdicts = verdicts

    async def before_turn(self, context: TurnContext) -> Sequence[Verdict]:  # noqa: ARG002
        self.asked += 1
        return self._verdicts


async def test_nobody_is_asked_after_a_stop(tmp_path: Path) -> None:
    last = Saying(Notice("b"))
    stop = Stop(outcome=Outcome.LIMIT, reason="turns", detail="")
    bench = Bench(root=tmp_path, answers=[], middleware=(Saying(Notice("a")), Saying(stop), last))

    ended = await bench.loop.act("go")

    assert (ended.outcome, ended.reason) == (stop.outcome, stop.reason)
    assert bench.transcript.messages == [UserMessage("go"), UserMessage(f"{HOST_NOTICE}a")]
    assert last.asked == 0
