"""A reader that stops reading holds nobody up: the work goes on, and signals and commands still work.

Covers ``vibe.cli``, ``ipc``.
"""

from __future__ import annotations

import fcntl
import json
import signal
import subprocess
from collections.abc import Callable

import pytest

from tests.e2e.conftest import VIBE, VibeCommand, command_step, interrupt
from tests.fakes.waiting import until

WritePlan = Callable[..., str]
Process = subprocess.Popen[bytes]


EXECUTES = True  # they are about the standard streams


def unread(vibe: VibeCommand, *words: str) -> Process:
    """Start ``vibe`` with a stdout and a stderr of one page each, which nobody reads."""
    process = subprocess.Popen(
        [VIBE, *words],
        cwd=vibe.workdir,
        env=vibe.variables(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    vibe.running.append(process)
    for stream in (process.stdout, process.stderr):
        assert stream is not None
        fcntl.fcntl(stream, fcntl.F_SETPIPE_SZ, 4096)
    return process


@pytest.fixture(params=["text", "streaming"])
def busy(vibe: VibeCommand, write_plan: WritePlan, request: pytest.FixtureRequest) -> Process:
    """Start a plan whose output fills more than a page, and wait until its long last step has begun."""
    steps = [command_step(f"s{number}", f"echo {'x' * 200}") for number in range(30)]
    last = command_step("last", "touch started; sleep 600", depends_on=[step["id"] for step in steps])
    process = unread(vibe, "plan", "run", "--output", request.param, write_plan(*steps, last))
    until((vibe.workdir / "started").exists)
    return process


@pytest.mark.parametrize(("which", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130), (signal.SIGHUP, 129)])
def test_a_signal_ends_a_run_that_nobody_reads(
    vibe: VibeCommand, busy: Process, which: signal.Signals, code: int
) -> None:
    interrupt(busy, which)  # the first signal gives the running step time to end
    busy.send_signal(which)

    assert busy.wait(timeout=60) == code
    assert vibe("plan", "list", "--output", "json").document[0]["status"] == "paused"


def test_a_run_that_nobody_reads_can_be_cancelled(vibe: VibeCommand, busy: Process) -> None:
    assert vibe("plan", "cancel", vibe.plan_ids()[0]).code == 0

    busy.wait(timeout=60)
    assert vibe("plan", "list", "--output", "json").document[0]["status"] == "cancelled"


def test_a_reader_that_comes_late_gets_everything(vibe: VibeCommand, write_plan: WritePlan) -> None:
    plan = write_plan(*(command_step(f"s{number}", f"echo {'x' * 2_000}; touch s{number}") for number in range(40)))
    process = unread(vibe, "plan", "run", "--output", "streaming", "--max-parallel", "1", plan)
    until((vibe.workdir / "s39").exists)

    out, err = process.communicate(timeout=60)

    *events, record = [json.loads(line) for line in out.decode().splitlines()]
    assert (process.returncode, record["exit_code"], err) == (0, 0, b"")
    assert [event["seq"] for event in events] == list(range(1, len(events) + 1))


def test_a_signal_ends_following_that_nobody_reads(vibe: VibeCommand, write_plan: WritePlan) -> None:
    vibe("plan", "run", write_plan(*(command_step(f"s{number}", f"echo {'x' * 2_000}") for number in range(40))))
    process = unread(vibe, "events", "tail", vibe.plan_ids()[0], "--from", "1", "--output", "json")
    assert process.stdout is not None
    assert process.stdout.read(1) == b"{"

    process.send_signal(signal.SIGTERM)

    # A shell reports both as 143: it ends by itself, or dies of the signal if it has nothing left to do but wait.
    assert process.wait(timeout=60) in {143, -signal.SIGTERM}
