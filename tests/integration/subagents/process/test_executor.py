from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest

from ipc.events import WarningEvent
from ipc.sink import MemorySink
from subagents.agent.budget import Limits
from subagents.agent.run_services import RunServices
from subagents.executor import StepResult, StepTask, StopSignal
from subagents.process import executor as module
from subagents.process.child_process import ProcessPool, StepProgram
from subagents.process.executor import ProcessExecutor
from subagents.step.tamper_guard import RunClaims
from tests.fakes.executor import ScriptedExecutor
from tests.fakes.step_links import shared_of_a_run, until
from tests.fakes.tasks import task_of
from vibe.core.config.models import ModelConfig
from vibe.core.messages import NeverStop, Outcome, Usage

PROGRAM = Path(__file__).parents[3] / "fakes" / "step_program.py"
NEVER = NeverStop()


class Stopping:
    """A stop signal that a test sets."""

    requested = False


def program(how: str = "well", python: str = sys.executable) -> StepProgram:
    environ = {"PATH": os.environ["PATH"]}
    return StepProgram(argv=(python, "-I", "-S", str(PROGRAM), how), environ=environ, document=b'{"name": "the run"}')


@asynccontextmanager
async def executor(
    shared: RunServices, folder: Path, pool: ProcessPool | None = None
) -> AsyncGenerator[ProcessExecutor]:
    used = pool or ProcessPool(program(), spares=0)
    try:
        await used.fill()
        yield ProcessExecutor(used, shared, RunClaims(), ScriptedExecutor(), lambda step_id: folder / step_id)
    finally:
        await used.close()


async def run_one(shared: RunServices, folder: Path, prompt: str, **fields: Any) -> StepResult:
    async with executor(shared, folder) as made:
        return await made.run(task_of(prompt=prompt, **fields), NEVER)


def said(shared: RunServices, step_id: str = "step") -> list[str]:
    assert isinstance(shared.sink, MemorySink)
    events = [event for event in shared.sink.events if isinstance(event, WarningEvent)]
    return [event.message for event in events if event.subagent_step_id == step_id]


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


async def test_an_attempt_in_a_process_ends_with_what_the_process_says(tmp_path: Path) -> None:
    shared = shared_of_a_run()

    result = await run_one(shared, tmp_path, "complete")

    name, _, pid = result.summary.rpartition(" ")
    assert (result.outcome, name) == (Outcome.COMPLETED, "the run")
    assert result.duration_s > 0
    assert said(shared) == ["working"]
    assert result.pid == int(pid)
    assert not is_alive(int(pid))


async def test_every_event_arrives_once_in_order_and_before_the_result(tmp_path: Path) -> None:
    shared = shared_of_a_run()
    async with executor(shared, tmp_path) as made, anyio.create_task_group() as group:
        for step_id in ("a", "b", "c"):
            group.start_soon(made.run, task_of(step_id, prompt="events 400"), NEVER)

    expected = [str(number) for number in range(400)]
    assert [said(shared, step_id) for step_id in ("a", "b", "c")] == [expected] * 3


async def test_a_very_large_event_arrives_whole(tmp_path: Path) -> None:
    shared = shared_of_a_run()

    await run_one(shared, tmp_path, "large 5000000")

    assert [len(text) for text in said(shared)] == [5_000_000]


async def test_a_killed_process_fails_its_step_and_no_other(tmp_path: Path) -> None:
    shared = shared_of_a_run()
    results: dict[str, StepResult] = {}

    async def do(made: ProcessExecutor, task: StepTask, stop: StopSignal) -> None:
        results[task.step_id] = await made.run(task, stop)

    stop = Stopping()
    async with executor(shared, tmp_path) as made, anyio.create_task_group() as group:
        group.start_soon(do, made, task_of("victim", prompt="wait"), NEVER)
        group.start_soon(do, made, task_of("other", prompt="stop"), stop)
        await until(lambda: said(shared, "victim") and said(shared, "other"))
        os.kill(int(said(shared, "victim")[0]), signal.SIGKILL)
        await until(lambda: "victim" in results)
        stop.requested = True

    victim = results["victim"]
    assert (victim.outcome, victim.reason) == (Outcome.FAILED, "crashed")
    assert victim.detail == "the step's process was killed by SIGKILL (by another process, or out of memory)"
    assert results["other"].outcome is Outcome.COMPLETED


@pytest.mark.parametrize(
    ("prompt", "detail"),
    [
        ("die-by SIGSEGV", "the step's process was killed by SIGSEGV: the last words"),
        ("exit 3", "the step's process ended with exit code 3 before the step did: MemoryError"),
        ("close", "the step's process ended with exit code 0 before the step did"),
        ("say hello", "the step's process was stopped because of what it sent: not a message"),
        ('say {"type": "event", "event": {"type": "unheard.of"}}', "because of what it sent: unknown event type"),
        ('say {"type": "event", "event": 7}', "because of what it sent: "),
    ],
)
async def test_a_process_that_goes_wrong_is_a_crash_that_says_why(tmp_path: Path, prompt: str, detail: str) -> None:
    result = await run_one(shared_of_a_run(), tmp_path, prompt)

    assert (result.outcome, result.reason) == (Outcome.FAILED, "crashed")
    assert detail in result.detail


async def test_a_process_that_cannot_be_started_is_a_failed_step(tmp_path: Path) -> None:
    pool = ProcessPool(program(python=str(tmp_path / "nothing")), expected=3)
    async with executor(shared_of_a_run(), tmp_path, pool) as made:
        result = await made.run(task_of(prompt="complete"), NEVER)

    assert (result.outcome, result.reason) == (Outcome.FAILED, "environment")
    assert "--executor local" in result.detail


@pytest.mark.parametrize(
    ("how", "sentence"),
    [
        ("protocol", "(protocol 99) there: install one version for both, or restart the run if vibe was updated"),
        ("version", "and vibe 9.9.9 (protocol 5) there"),
        ("unable", "on plan9) cannot do agents: use one that can"),
        ("silent", "the step's process sent no handshake"),
    ],
)
async def test_a_process_of_another_version_begins_nothing_and_is_a_failed_step(
    tmp_path: Path, how: str, sentence: str
) -> None:
    shared = shared_of_a_run()
    async with executor(shared, tmp_path, ProcessPool(program(how))) as made:
        result = await made.run(task_of(prompt="complete"), NEVER)

    assert (result.outcome, result.reason) == (Outcome.FAILED, "environment")
    assert sentence in result.detail
    assert said(shared) == []


async def test_cancelling_ends_a_process_that_heeds_nothing_and_all_it_started(tmp_path: Path) -> None:
    shared = shared_of_a_run()
    pids: list[int] = []
    began = time.monotonic()
    async with executor(shared, tmp_path) as made:
        async with anyio.create_task_group() as group:
            group.start_soon(made.run, task_of(prompt="hang"), NEVER)
            await until(lambda: said(shared))
            pids += map(int, said(shared)[0].split())
            assert all(map(is_alive, pids))
            began = time.monotonic()
            group.cancel_scope.cancel()

        assert time.monotonic() - began < 30, "what it waits for takes minutes"
        assert not any(map(is_alive, pids)), "a session of its own hides nothing"


async def test_the_last_events_of_a_cancelled_process_are_heard(tmp_path: Path) -> None:
    shared = shared_of_a_run()
    async with executor(shared, tmp_path) as made, anyio.create_task_group() as group:
        group.start_soon(made.run, task_of(prompt="leave"), NEVER)
        await until(lambda: said(shared))
        group.cancel_scope.cancel()

    assert said(shared) == ["working", "leaving"]


async def test_a_process_that_does_not_watch_the_clock_is_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "LATE_SECONDS", 0.2)
    monkeypatch.setattr(module, "LEAVE_SECONDS", 0.1)

    result = await run_one(shared_of_a_run(), tmp_path, "hang", timeout_seconds=0.3)

    assert (result.outcome, result.reason) == (Outcome.LIMIT, "timeout")


async def test_a_wish_to_stop_reaches_the_process(tmp_path: Path) -> None:
    shared, stop = shared_of_a_run(), Stopping()
    stop.requested = True
    async with executor(shared, tmp_path) as made:
        result = await made.run(task_of(prompt="stop"), stop)

    assert result.summary == "stop"


async def test_eight_processes_never_pass_the_plans_budget(tmp_path: Path) -> None:
    shared = shared_of_a_run(limits=Limits(max_tokens=5_000))
    summaries: list[str] = []

    async def do(made: ProcessExecutor, number: int) -> None:
        summaries.append((await made.run(task_of(f"s{number}", prompt="spend 100"), NEVER)).summary)

    async with executor(shared, tmp_path) as made, anyio.create_task_group() as group:
        for number in range(8):
            group.start_soon(do, made, number)

    assert 5_000 - 74 < shared.account.usage.total_tokens <= 5_000
    assert all(summary.startswith("refused") for summary in summaries)
    assert shared.account.usage.calls == sum(int(summary.split()[-1]) for summary in summaries)


async def test_a_call_under_way_in_a_crash_counts_for_step_and_plan(tmp_path: Path) -> None:
    shared = shared_of_a_run(limits=Limits(max_tokens=1_000))

    result = await run_one(shared, tmp_path, "hold 200")

    assert result.reason == "crashed"
    assert result.usage == shared.account.usage == Usage(100, 200, 0, 1)
    assert result.cost_usd == shared.account.cost_usd == pytest.approx(0.0003)
    assert (await shared.account.reserve(unpriced_model(), 100, 900)).max_completion_tokens == 600


async def test_a_command_is_done_without_a_process_of_ours(tmp_path: Path) -> None:
    pool = ProcessPool(program(python=str(tmp_path / "nothing")), spares=0)
    async with executor(shared_of_a_run(), tmp_path, pool) as made:
        result = await made.run(task_of(command="true"), NEVER)

    assert result.outcome is Outcome.COMPLETED


async def test_what_a_process_prints_never_stops_it(tmp_path: Path) -> None:
    result = await run_one(shared_of_a_run(), tmp_path, "print 1000000")

    assert result.outcome is Outcome.COMPLETED


async def test_spares_are_used_replaced_as_far_as_expected_and_never_left_behind(tmp_path: Path) -> None:
    shared = shared_of_a_run()
    pool = ProcessPool(program(), spares=2, expected=3)
    async with executor(shared, tmp_path, pool) as made:
        first = children()
        used = [int((await made.run(task_of(prompt="complete"), NEVER)).summary.split()[-1]) for _ in range(2)]
        later = children()

    assert len(first) == 2
    assert set(used) == first
    assert len(later) == 1, "three are expected in all"
    assert not any(map(is_alive, first | later))


async def test_a_spare_that_did_not_survive_is_not_given_out(tmp_path: Path) -> None:
    pool = ProcessPool(program(), spares=1, expected=1)
    async with executor(shared_of_a_run(), tmp_path, pool) as made:
        (spare,) = children()
        os.kill(spare, signal.SIGKILL)
        await until(lambda: made._pool._spares[0].exit_code is not None)  # pyright: ignore[reportPrivateUsage]
        result = await made.run(task_of(prompt="complete"), NEVER)

    assert result.outcome is Outcome.COMPLETED


async def test_a_program_that_never_starts_properly_is_a_crash(tmp_path: Path) -> None:
    pool = ProcessPool(program("stillborn"), spares=1, expected=1)
    async with executor(shared_of_a_run(), tmp_path, pool) as made:
        result = await made.run(task_of(prompt="complete"), NEVER)

    assert (result.reason, "exit code 4" in result.detail) == ("crashed", True)


def children() -> set[int]:
    """Return the ids of the step programs that this process has started and that still run."""
    found: set[int] = set()
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
            mine = parent == os.getpid() and str(PROGRAM) in (folder / "cmdline").read_text(errors="replace")
        except OSError:
            continue
        if mine:
            found.add(int(folder.name))
    return found


def unpriced_model() -> ModelConfig:
    return ModelConfig(name="m", provider="p")
