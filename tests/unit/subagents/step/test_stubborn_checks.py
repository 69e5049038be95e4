from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from ipc.events import ToolCallEvent, ToolResultEvent
from tests.fakes.models import answer
from tests.fakes.steps import StepBench
from tests.fakes.tasks import task_of
from vibe.core.messages import Outcome


@dataclass(frozen=True, kw_only=True)
class Case:
    """A check that does not end as it should, with its time limit in ``seconds``. The detail contains ``told``."""

    name: str
    line: str
    told: str
    seconds: float = 120.0


CASES = (
    Case(name="hangs", line="sleep 1000", seconds=0.3, told="was stopped after"),
    Case(name="ignores SIGTERM", line="trap '' TERM; sleep 1000 & wait", seconds=0.3, told="was stopped after"),
    Case(name="traps SIGTERM to pass", line="trap 'exit 0' TERM; sleep 1000 & wait", seconds=0.3, told="was stopped"),
    Case(name="kills its parent", line="kill -9 $PPID; sleep 1000", told="exited with 137"),
    Case(name="kills its session", line="kill -9 0", told="exited with 137"),
    Case(name="leaves a process that holds the pipe", line="sleep 1000 & exit 3", told="exited with 3"),
    Case(name="leaves the session with the pipe", line="setsid sleep 2 & exit 3", told="exited with 3"),
    Case(name="closes its output", line="exec >&- 2>&-; exit 3", told="exited with 3"),
)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
async def test_a_check_that_will_not_end_fails_the_step_and_nothing_else(tmp_path: Path, case: Case) -> None:
    bench = StepBench(home=tmp_path, answers=[answer("done")], verify_seconds=case.seconds)

    result = await bench.run(task_of(verify=(case.line,), max_repairs=0))

    assert (result.outcome, result.reason) == (Outcome.FAILED, "verify")
    assert case.told in result.detail
    ended = [event for event in bench.sink.events if isinstance(event, ToolResultEvent)]
    assert [event.status for event in ended] == ["error"]


async def test_a_flood_of_output_is_cut_to_what_a_repair_needs(tmp_path: Path) -> None:
    bench = StepBench(home=tmp_path, answers=[answer("done"), answer("mended")])
    flood = "head -c 20000000 /dev/zero | tr '\\0' x; echo; echo the end; exit 1"

    result = await bench.run(task_of(verify=(flood,), max_repairs=1))

    assert result.reason == "verify"
    repair = bench.model.requests[-1].messages[-1].content
    assert "the end" in repair
    assert len(repair) < 8_000


async def test_the_time_of_the_step_counts_for_its_checks_too(tmp_path: Path) -> None:
    bench = StepBench(home=tmp_path, answers=[answer("done")])

    result = await bench.run(task_of(verify=("sleep 1000",), timeout_seconds=0.3))

    assert (result.outcome, result.reason) == (Outcome.LIMIT, "timeout")


async def test_a_command_steps_check_has_the_limit_its_command_has_not(tmp_path: Path) -> None:
    bench = StepBench(home=tmp_path, verify_seconds=0.2)

    result = await bench.run(task_of(command="sleep 0.5", verify=("sleep 1000",)))

    assert (result.outcome, result.reason) == (Outcome.FAILED, "verify")
    assert "`sleep 1000` was stopped after" in result.detail


async def test_a_step_without_a_command_of_its_own_is_nothing_but_its_checks(tmp_path: Path) -> None:
    bench = StepBench(home=tmp_path)

    result = await bench.run(task_of(only_checks=True, verify=("echo one", "echo two; exit 3")))

    assert (result.outcome, result.reason, result.summary) == (Outcome.FAILED, "verify", "two")
    called = [event.arguments for event in bench.sink.events if isinstance(event, ToolCallEvent)]
    assert [call["command"] for call in called] == ["echo one", "echo two; exit 3"]
    assert {call["purpose"] for call in called} == {"verify"}
