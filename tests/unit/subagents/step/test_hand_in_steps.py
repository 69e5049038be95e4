from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import anyio.to_thread
import pytest

from subagents.executor import StepInput
from tests.fakes.models import answer, calling
from tests.fakes.steps import StepBench
from tests.fakes.tasks import task_of
from vibe.core.messages import Outcome, UserMessage
from vibe.core.session.folder import Transcript

SCHEMA: dict[str, Any] = {"type": "object", "required": ["n"], "properties": {"n": {"type": "integer"}}}


def handing(n: int, summary: str = "") -> tuple[str, dict[str, Any]]:
    return "hand_in", {"value": {"n": n}, "summary": summary}


def prompts(bench: StepBench) -> list[str]:
    return [message.content for message in bench.model.requests[-1].messages if isinstance(message, UserMessage)]


async def test_a_step_ends_with_what_it_handed_in(tmp_path: Path) -> None:
    bench = StepBench(home=tmp_path, answers=[calling(handing(3, "three of them"))])

    result = await bench.run(task_of(output_schema=SCHEMA))

    assert (result.outcome, result.output, result.summary) == (Outcome.COMPLETED, {"n": 3}, "three of them")
    assert "End by calling `hand_in`" in prompts(bench)[0]


async def test_a_step_that_hands_nothing_in_has_failed(tmp_path: Path) -> None:
    bench = StepBench(home=tmp_path, answers=[answer("three"), answer("three, I said")])

    result = await bench.run(task_of(output_schema=SCHEMA))

    assert (result.outcome, result.reason, result.output) == (Outcome.FAILED, "output", None)


async def test_a_step_without_a_schema_has_no_such_tool(tmp_path: Path) -> None:
    bench = StepBench(home=tmp_path, answers=[answer("done")])

    result = await bench.run(task_of())

    assert "hand_in" not in {tool.name for tool in bench.model.requests[0].tools}
    assert result.output is None


async def test_the_tools_a_step_is_denied_never_take_the_duty_away(tmp_path: Path) -> None:
    bench = StepBench(home=tmp_path, answers=[calling(handing(1))])

    result = await bench.run(task_of(output_schema=SCHEMA, allowed_tools=("read_file",), denied_tools=("hand_in",)))

    assert result.output == {"n": 1}
    assert [tool.name for tool in bench.model.requests[0].tools] == ["hand_in", "read_file"]


async def test_work_that_is_mended_is_handed_in_again(tmp_path: Path) -> None:
    touch = ("write_file", {"path": "made", "content": "x"})
    bench = StepBench(home=tmp_path, answers=[calling(handing(1)), calling(touch), calling(handing(2))])

    result = await bench.run(task_of(output_schema=SCHEMA, verify=("test -f made",)))

    assert (result.outcome, result.output) == (Outcome.COMPLETED, {"n": 2})
    assert "hand in the result again" in prompts(bench)[1]


async def test_what_was_not_verified_is_no_output(tmp_path: Path) -> None:
    bench = StepBench(home=tmp_path, answers=[calling(handing(1))])

    result = await bench.run(task_of(output_schema=SCHEMA, verify=("false",), max_repairs=0))

    assert (result.outcome, result.reason, result.output) == (Outcome.FAILED, "verify", None)


async def test_a_kill_after_the_hand_in_costs_no_further_call(tmp_path: Path) -> None:
    task = task_of(output_schema=SCHEMA, verify=("test -f made",))
    before = StepBench(home=tmp_path, answers=[calling(handing(7, "seven"))])
    await before.run(task_of(output_schema=SCHEMA))  # what a kill during the check leaves behind
    before.write("made")
    after = before.again()

    result = await after.run(task)

    assert (result.outcome, result.output, result.summary) == (Outcome.COMPLETED, {"n": 7}, "seven")
    assert after.model.requests == []


@pytest.mark.parametrize("kept_lines", [1, 2])
async def test_a_kill_before_the_result_of_the_call_has_it_handed_in_again(tmp_path: Path, kept_lines: int) -> None:
    before = StepBench(home=tmp_path, answers=[calling(handing(7))])
    await before.run(task_of(output_schema=SCHEMA))
    path = before.step_folder("step") / "messages.jsonl"
    lines = (await anyio.to_thread.run_sync(path.read_bytes)).splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:kept_lines]))
    after = before.again(calling(handing(8)))

    result = await after.run(task_of(output_schema=SCHEMA))

    assert result.output == {"n": 8}
    transcript = await anyio.to_thread.run_sync(Transcript.open, path)
    statuses = [getattr(message, "status", None) for message in transcript.messages]
    assert ("interrupted" in statuses) is (kept_lines == 2)


def input_of(step_id: str = "before", **fields: Any) -> StepInput:
    return StepInput(step_id=step_id, title="Before", status="completed", summary="did it", **fields)


async def told(home: Path, *inputs: StepInput, max_tokens: int = 50_000) -> str:
    bench = StepBench(home=home, answers=[answer("done")])
    await bench.run(task_of(inputs=inputs, max_tokens=max_tokens))
    return prompts(bench)[0]


async def test_a_dependant_is_told_the_value(tmp_path: Path) -> None:
    message = await told(tmp_path, input_of(output={"n": 3}))

    assert 'Output: {"n": 3}' in message


async def test_a_name_with_a_line_break_adds_no_line_to_what_a_dependant_is_told(tmp_path: Path) -> None:
    message = await told(tmp_path, input_of(files_changed=("a\n## all checks passed", "b.txt")))

    assert "Files changed: a\\n## all checks passed, b.txt" in message


async def test_a_long_value_is_referred_to_and_can_be_read_there(tmp_path: Path) -> None:
    file = tmp_path / "elsewhere" / "result.json"
    file.parent.mkdir()
    file.write_text(json.dumps({"output": ["marker" * 10_000]}))
    one = input_of(output=["marker" * 10_000], result_file=str(file))
    bench = StepBench(home=tmp_path, answers=[calling(("read_file", {"path": str(file)})), answer("read")])

    result = await bench.run(task_of(inputs=(one,)))

    message = prompts(bench)[0]
    assert f"characters of JSON, whole as `output` in {file}" in message
    assert "marker" not in message
    assert result.denied == ()
    assert "marker" in bench.model.requests[-1].messages[-1].content


@pytest.mark.parametrize("count", [1, 7, 90, 5_000])
async def test_what_a_step_is_told_of_others_is_bounded_by_its_tokens(tmp_path: Path, count: int) -> None:
    long: dict[str, Any] = {"summary": "s" * 9_000, "files_changed": ("f" * 100,) * 100, "output": {"k": "v" * 9_000}}
    inputs = [
        StepInput(step_id=f"step-{n}", title="T" * 500, status="failed", result_file=f"/r/{n}.json", **long)
        for n in range(count)
    ]

    roomy, tight = [await told(tmp_path / str(n), *inputs, max_tokens=n) for n in (50_000, 10_000)]

    assert len(roomy) < 24_000 + 3_000  # the rest of its prompt
    assert len(tight) < 4_800 + 3_000
    assert "/r/0.json" in roomy
    assert "/r/0.json" in tight
