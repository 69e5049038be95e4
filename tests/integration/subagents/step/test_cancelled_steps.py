from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import pytest

from ipc.events import SubAgentFinishedEvent
from subagents.executor import StepTask
from tests.fakes.models import answer, calling
from tests.fakes.steps import StepBench
from tests.fakes.tasks import task_of
from vibe.core.llm.port import Completion
from vibe.system import process

STUBBORN = "trap '' TERM HUP INT; sleep 1000 & echo $! >> pids; echo $$ >> pids; touch started; while :; do wait; done"
DETACHED = "setsid sh -c 'echo $$ >> pids; touch started; exec sleep 1000' & sleep 1000"


@dataclass(frozen=True, kw_only=True)
class Case:
    name: str
    task: StepTask
    answers: Sequence[Completion] = ()


def by_bash(line: str, **more: Any) -> Completion:
    return calling(("bash", {"command": line, **more}))


CASES = (
    Case(name="a command that ignores SIGTERM", task=task_of(command=STUBBORN)),
    Case(name="a command that leaves its session", task=task_of(command=DETACHED)),
    Case(name="a check that ignores SIGTERM", task=task_of(verify=(STUBBORN,)), answers=(answer("done"),)),
    Case(name="an agent's line that ignores SIGTERM", task=task_of(), answers=(by_bash(STUBBORN),)),
    Case(
        name="a line in the background that ignores SIGTERM",
        task=task_of(),
        answers=(by_bash(STUBBORN, background=True), by_bash("sleep 1000")),
    ),
)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="processes are found in /proc")
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
async def test_nothing_keeps_a_cancelled_step_or_outlives_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, case: Case
) -> None:
    monkeypatch.setattr(process, "GRACE_SECONDS", 1000.0)  # for commands that end for another reason
    bench = StepBench(home=tmp_path, answers=case.answers)

    with anyio.fail_after(60):
        async with anyio.create_task_group() as group:
            group.start_soon(bench.run, case.task)
            while not (bench.root / "started").exists():  # noqa: ASYNC110  a file announces nothing
                await anyio.sleep(0.01)
            group.cancel_scope.cancel()

    pids = (bench.root / "pids").read_text().split()
    assert pids
    assert [pid for pid in pids if is_alive(pid)] == []
    ended = [(event.outcome, event.reason) for event in bench.sink.events if isinstance(event, SubAgentFinishedEvent)]
    assert ended == [("interrupted", "stopped")] * bool(case.answers)


async def test_a_step_that_was_not_cancelled_may_leave_what_it_detached(tmp_path: Path) -> None:
    bench = StepBench(home=tmp_path)
    detached = "setsid sh -c 'echo $$ > pids; touch started; exec sleep 600' >/dev/null 2>&1 & until [ -e started ]; do :; done"

    await bench.run(task_of(command=detached))

    pid = (bench.root / "pids").read_text().strip()
    assert is_alive(pid)
    await anyio.run_process(["kill", "-9", pid])


def is_alive(pid: str) -> bool:
    """Return True if the process exists and has not ended (a zombie has)."""
    try:
        stat = Path("/proc", pid, "stat").read_bytes()
    except OSError:
        return False
    return stat[stat.rfind(b")") + 2 :].split(b" ", 1)[0] not in {b"Z", b"X"}
