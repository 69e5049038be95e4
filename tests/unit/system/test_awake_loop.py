from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

WAITS = """
import os, sys, time
import anyio
from vibe.system.awake_loop import run_awake

async def works(kind):
    async with anyio.create_task_group() as group:
        group.start_soon(talks if kind == "busy" else anyio.sleep, 1.0)
        with anyio.move_on_after(2) as scope:
            print("begun", flush=True)
            await anyio.sleep(1.0)
    print("late" if scope.cancelled_caught else "in time", flush=True)

async def talks(seconds):
    with anyio.move_on_after(seconds):
        while True:
            await anyio.sleep(0.01)

run_awake(works, sys.argv[1])
"""


@pytest.mark.parametrize("kind", ["idle", "busy"])
def test_no_limit_runs_out_while_the_process_is_stopped(kind: str, tmp_path: Path) -> None:
    process = subprocess.Popen([sys.executable, "-c", WAITS, kind], stdout=subprocess.PIPE, text=True, cwd=tmp_path)
    assert process.stdout is not None
    assert process.stdout.readline() == "begun\n"

    os.kill(process.pid, signal.SIGSTOP)
    os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WNOWAIT)
    stopped = time.monotonic()
    while time.monotonic() < stopped + 2.5:  # longer than the limit
        time.sleep(0.1)
    os.kill(process.pid, signal.SIGCONT)

    assert process.communicate(timeout=30)[0] == "in time\n"


def test_a_loop_that_runs_keeps_its_time(tmp_path: Path) -> None:
    code = "import anyio\nfrom vibe.system.awake_loop import run_awake\nrun_awake(anyio.sleep, 1.5)"
    began = time.monotonic()

    subprocess.run([sys.executable, "-c", code], check=True, cwd=tmp_path)

    assert 1.5 <= time.monotonic() - began < 10
