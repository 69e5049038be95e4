from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from subagents.agent.budget import Limits
from tests.fakes.engine import Bench
from tests.fakes.models import answer, calling
from vibe.core.agent_loop import HAND_IN_NOTICE
from vibe.core.messages import AssistantMessage, Outcome, ToolCall, ToolMessage, UserMessage
from vibe.core.middleware.port import Middleware, Notice, TurnContext
from vibe.core.session.folder import Transcript
from vibe.core.tools.hand_in import MAX_BYTES, HandIn
from vibe.core.tools.permissions import ApprovalMode

SCHEMA = {
    "type": "object",
    "required": ["files"],
    "properties": {"files": {"type": "array", "items": {"type": "string"}}},
}
GOOD = {"files": ["a.py"]}


def handing(value: Any, summary: str = "", name: str = "hand_in") -> tuple[str, dict[str, Any]]:
    return name, {"value": value, "summary": summary}


def bench(root: Path, *answers: Any, duty: HandIn | None = None, **more: Any) -> Bench:
    return Bench(root=root, answers=answers, hand_in=duty or HandIn(schema=SCHEMA), **more)


def notices(agent: Bench) -> list[str]:
    return [message.content for message in agent.transcript.messages if isinstance(message, UserMessage)][1:]


async def test_a_value_that_fits_ends_the_work(tmp_path: Path) -> None:
    agent = bench(tmp_path, calling(handing(GOOD, "one file")), mode=ApprovalMode.ASK)

    result = await agent.loop.act("go")

    assert (result.outcome, result.output, result.text) == (Outcome.COMPLETED, GOOD, "one file")
    assert len(agent.model.requests) == 1


async def test_the_model_is_told_every_problem_and_may_try_again(tmp_path: Path) -> None:
    agent = bench(tmp_path, calling(handing({"files": [1, 2]})), calling(handing(GOOD), text="Two files."))

    result = await agent.loop.act("go")

    refused = next(message for message in agent.transcript.messages if isinstance(message, ToolMessage))
    assert refused.status == "error"
    assert "value.files[0]: 1 is not a string" in refused.content
    assert "value.files[1]: 2 is not a string" in refused.content
    assert (result.outcome, result.output, result.text) == (Outcome.COMPLETED, GOOD, "Two files.")


async def test_the_model_sees_the_schema_as_an_argument(tmp_path: Path) -> None:
    schema = {"$ref": "#/$defs/list", "$defs": {"list": {"type": "array", "items": {"type": "integer"}}}}
    agent = bench(tmp_path, calling(handing([1], name="hand_in_plan")), duty=HandIn(schema=schema, name="hand_in_plan"))

    result = await agent.loop.act("go")

    offered = next(tool for tool in agent.model.requests[0].tools if tool.name == "hand_in_plan")
    assert offered.parameters["properties"]["value"]["$ref"] == "#/properties/value/$defs/list"
    assert result.output == [1]


async def test_who_ends_without_is_reminded_once_and_then_failed(tmp_path: Path) -> None:
    agent = bench(tmp_path, answer("Done."), answer("Really done."))

    result = await agent.loop.act("go")

    assert (result.outcome, result.reason) == (Outcome.FAILED, "output")
    assert "hand_in" in result.detail
    assert notices(agent) == [HAND_IN_NOTICE.format(tool="hand_in")]


async def test_the_reminder_is_heeded(tmp_path: Path) -> None:
    agent = bench(tmp_path, answer("Done."), calling(handing(GOOD)))

    result = await agent.loop.act("go")

    assert (result.outcome, result.output) == (Outcome.COMPLETED, GOOD)


async def test_a_reminder_before_a_kill_is_not_repeated(tmp_path: Path) -> None:
    agent = bench(tmp_path, answer("Done."), answer("Still done."))
    await agent.loop.act("go")
    again = bench(tmp_path, answer("Yes, done."), transcript=Transcript(agent.transcript.messages[:-1]))

    result = await again.loop.resume()

    assert (result.outcome, result.reason) == (Outcome.FAILED, "output")


async def test_why_the_last_value_was_refused_is_in_the_detail(tmp_path: Path) -> None:
    agent = bench(tmp_path, calling(handing({})), answer("I gave up."), answer("I did."))

    result = await agent.loop.act("go")

    assert "'files' is a required property" in result.detail


async def test_a_check_of_the_host_can_refuse(tmp_path: Path) -> None:
    duty = HandIn(schema=SCHEMA, check=lambda value: "name a.py, too" if "a.py" not in value["files"] else None)
    agent = bench(tmp_path, calling(handing({"files": ["b.py"]})), calling(handing(GOOD)), duty=duty)

    result = await agent.loop.act("go")

    assert result.output == GOOD
    assert "not accepted: name a.py, too" in agent.transcript.messages[2].content


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ({"files": ["x" * MAX_BYTES]}, "bytes long"),
        ({"files": [], "deep": json.loads("[" * 100 + "]" * 100)}, "nested deeper than 64"),
        ({"files": [], "number": float("inf")}, "too large, infinite or no number"),
        ({"files": [], "number": float("nan")}, "too large, infinite or no number (NaN)"),
        ({"files": ["\ud800"]}, "not JSON that can be kept"),
    ],
)
def test_what_can_not_be_kept_is_refused(value: Any, said: str) -> None:
    duty = HandIn(schema=SCHEMA)

    assert said in (duty.offer(value) or "")
    assert not duty.accepted


async def test_a_new_prompt_wants_a_value_anew(tmp_path: Path) -> None:
    agent = bench(tmp_path, calling(handing(GOOD)), answer("Mended."), calling(handing({"files": ["b.py"]})))
    await agent.loop.act("go")

    result = await agent.loop.act("mend it")

    assert result.output == {"files": ["b.py"]}


async def test_what_was_handed_in_before_a_kill_is_taken_up(tmp_path: Path) -> None:
    before = bench(tmp_path, calling(handing(GOOD, "one file")))
    await before.loop.act("go")
    after = bench(tmp_path, transcript=Transcript(before.transcript.messages))

    result = await after.loop.resume()

    assert (result.outcome, result.output, result.text) == (Outcome.COMPLETED, GOOD, "one file")


@pytest.mark.parametrize("status", ["interrupted", "error"])
async def test_a_call_that_was_cut_off_or_refused_is_not_taken_up(tmp_path: Path, status: str) -> None:
    call = ToolCall("call0", "hand_in", json.dumps({"value": GOOD}))
    messages = [UserMessage("go"), AssistantMessage("", (call,)), ToolMessage("?", "call0", "hand_in", status=status)]
    agent = bench(tmp_path, calling(handing({"files": ["b.py"]})), transcript=Transcript(messages))

    result = await agent.loop.resume()

    assert result.output == {"files": ["b.py"]}


async def test_a_call_beside_it_that_was_cut_off_comes_first(tmp_path: Path) -> None:
    calls = (ToolCall("call0", "hand_in", json.dumps({"value": GOOD})), ToolCall("call1", "bash", "{}"))
    messages = [UserMessage("go"), AssistantMessage("", calls), ToolMessage("ok", "call0", "hand_in", status="ok")]
    agent = bench(tmp_path, calling(handing({"files": ["b.py"]})), transcript=Transcript(messages))

    result = await agent.loop.resume()

    assert result.output == {"files": ["b.py"]}


async def test_other_calls_of_the_same_answer_are_run_first(tmp_path: Path) -> None:
    write = ("write_file", {"path": "a.py", "content": "x = 1\n"})
    agent = bench(tmp_path, calling(handing(GOOD), write))

    result = await agent.loop.act("go")

    assert (result.outcome, result.files_changed) == (Outcome.COMPLETED, ("a.py",))


async def test_a_denied_call_still_blocks_and_the_value_is_kept(tmp_path: Path) -> None:
    write = ("write_file", {"path": "a.py", "content": "x = 1\n"})
    agent = bench(tmp_path, calling(write), calling(handing(GOOD)), mode=ApprovalMode.ASK)

    result = await agent.loop.act("go")

    assert (result.outcome, result.output) == (Outcome.BLOCKED, GOOD)


class SendsBackOnce(Middleware):
    def __init__(self) -> None:
        self.asked = 0

    async def before_end(self, context: TurnContext, answer: str) -> list[Notice]:
        del context, answer
        self.asked += 1
        return [Notice("run the linter first")] if self.asked == 1 else []


async def test_who_is_sent_back_hands_in_again(tmp_path: Path) -> None:
    agent = bench(tmp_path, calling(handing(GOOD)), calling(handing({"files": []})), middleware=(SendsBackOnce(),))

    result = await agent.loop.act("go")

    assert result.output == {"files": []}


async def test_no_room_is_left_for_the_value_is_a_limit_not_a_fault(tmp_path: Path) -> None:
    agent = bench(tmp_path, answer("Done."), limits=Limits(max_tokens=30), max_turns=1)

    result = await agent.loop.act("go")

    assert result.outcome is Outcome.LIMIT
