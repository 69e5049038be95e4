"""A hundred subagents side by side: how long the event loop is blocked, and whether every event arrives.

    python -m tests.benchmarks.bench_subagents [--agents N] [--json]

The whole program runs in one process: plan, journal, bus, agents and tools. The model is a script that streams each
answer in 100 pieces, 50 per second, so 100 agents make 5 000 events per second. Each agent reads a file, searches it,
writes a todo list and reports. Lag is how late a task wakes that sleeps 5 ms again and again in the same loop. A bare
loop with as many tasks that only stream is measured in the same run. A subscriber in another process must get every
event. Memory is what the agents add to a run with one agent.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio

from ipc.events import Event
from planner.plan.loader import load_plan
from planner.store.folder import ApprovalSetting, PlanRunOptions
from tests.integration.ipc.processes import numbers, start
from vibe.app.engine.host import Host
from vibe.app.plan.dispatch import Audience
from vibe.app.plan.run import PlanRun, open_plan

PIECES = 100
PIECES_PER_SECOND = 50.0
PIECE_CHARACTERS = 4
PERIOD = 0.005
PATIENCE_SECONDS = 60.0
BOUND_LAG_MS = 50.0
BOUND_MB = 1.5
Row = dict[str, Any]


@dataclass(slots=True, kw_only=True)
class Watcher:
    """A listener that counts published events, and starts a subscriber in another process with the first one."""

    home: Path
    got: Path
    last: int = 0
    subscriber: subprocess.Popen[str] | None = field(default=None)

    def publish(self, event: Event) -> None:
        """Count the event."""
        if self.subscriber is None:
            self.subscriber = start("consume", self.home, event.source, self.got)
        self.last = event.seq


async def lags_during(work: Callable[[], Awaitable[Any]]) -> list[float]:
    """Return how many milliseconds too late a task woke, again and again while the work was done."""
    lags: list[float] = []

    async def watch() -> None:
        while True:
            begun = time.perf_counter()
            await anyio.sleep(PERIOD)
            lags.append((time.perf_counter() - begun - PERIOD) * 1e3)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(watch)
        await work()
        tasks.cancel_scope.cancel()
    return lags


async def bare(agents: int, pieces: int) -> list[float]:
    """Return the same lags beside tasks that only wait for their pieces."""

    async def stream() -> None:
        for _ in range(pieces):
            await anyio.sleep(1 / PIECES_PER_SECOND)

    async def all_of_them() -> None:
        async with anyio.create_task_group() as tasks:
            for _ in range(agents):
                tasks.start_soon(stream)

    return await lags_during(all_of_them)


def script() -> dict[str, Any]:
    """Return the script of every agent's model."""
    calls = (
        {"name": "read_file", "arguments": {"path": "data.txt"}},
        {"name": "grep", "arguments": {"pattern": "line 7", "path": "data.txt"}},
        {"name": "todo", "arguments": {"action": "write", "todos": [{"id": "1", "content": "write it down"}]}},
    )
    said = {"text": "word" * PIECES, "chunk_size": PIECE_CHARACTERS, "delay_seconds": PIECES / PIECES_PER_SECOND}
    return {"version": 1, "agents": {"*": {"turns": [*({**said, "tool_calls": [call]} for call in calls), said]}}}


def run(root: Path, agents: int) -> tuple[list[float], Watcher]:
    """Run a plan of ``agents`` steps, all side by side.

    Raises:
        SystemExit: It did not complete.
    """
    home, work = root / f"h{agents}", root / f"w{agents}"
    home.mkdir(mode=0o700)
    work.mkdir()
    (work / "data.txt").write_text("".join(f"line {number}\n" for number in range(500)))
    (home / "script.json").write_text(json.dumps(script()))
    (home / "config.toml").write_text(
        f'active_model = "m"\n[[providers]]\nname = "p"\nbackend = "scripted"\nscript = "{home / "script.json"}"\n'
        '[[models]]\nname = "m"\nprovider = "p"\n'
    )
    steps = [{"id": f"s{number}", "title": f"Step {number}", "mode": "research"} for number in range(agents)]
    loaded = load_plan(json.dumps({"version": 1, "goal": "measure", "steps": steps}).encode(), where="bench")
    watcher = Watcher(home=home, got=root / f"got{agents}")
    environ: Mapping[str, str] = {"PATH": os.environ.get("PATH", ""), "HOME": str(root)}
    options = PlanRunOptions(workdir=work, plan_folder=work, approvals=ApprovalSetting.AUTO, max_parallel=agents)
    ended: list[PlanRun] = []

    async def work_through() -> None:
        host = Host(home=home, environ=environ)
        ended.append(await (await open_plan(loaded, options, host, Audience(listeners=[watcher]))).run())

    async def timed() -> list[float]:
        return await lags_during(work_through)

    lags = anyio.run(timed)
    if ended[0].record.exit_code:
        raise SystemExit(f"the plan ended wrongly: {ended[0].record.reason}")
    if watcher.subscriber is not None:
        watcher.subscriber.communicate(timeout=PATIENCE_SECONDS)  # it ends with the publisher
    return lags, watcher


def peak_mb() -> float:
    """Return the largest memory of this process so far, in MB."""
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1024


def measure(agents: int) -> list[Row]:
    """Measure lag, events and memory."""
    with tempfile.TemporaryDirectory(prefix="vb-") as folder:
        root = Path(folder)
        run(root, 1)
        before = peak_mb()
        lags, watcher = run(root, agents)
        memory = (peak_mb() - before) / (agents - 1)
        arrived = numbers(watcher.got)
    plain = anyio.run(bare, agents, 4 * PIECES)
    lost = watcher.last - len(set(arrived))
    twice = len(arrived) - len(set(arrived))
    return [
        _lag_row(f"{agents} subagents", lags) | {"bound": BOUND_LAG_MS},
        _lag_row(f"{agents} tasks of a bare loop", plain),
        {"what": f"lost of {watcher.last} events", "ours": lost, "bound": 0},
        {"what": "events that came twice", "ours": twice, "bound": 0},
        {"what": "MB a subagent", "ours": round(memory, 2), "bound": BOUND_MB},
    ]


def _lag_row(whose: str, lags: list[float]) -> Row:
    p99 = statistics.quantiles(lags, n=100)[98]
    return {
        "what": f"lag p99, ms, {whose}",
        "ours": round(p99, 2),
        "median": round(statistics.median(lags), 2),
        "most": round(max(lags), 2),
    }


def main() -> int:
    """Measure, print, and return 1 if something is over its bound."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    parser.add_argument("--agents", type=int, default=100)
    given = parser.parse_args()
    rows = measure(given.agents)
    load = os.getloadavg()[0]
    if given.json:
        print(json.dumps({"load": load, "rows": rows}, indent=2))
    else:
        print(f"{'':<44}{'ours':>9}{'median':>9}{'most':>9}{'bound':>8}    load {load:.1f}")
        for row in rows:
            figures = "".join(f"{row.get(name, ''):>9}" for name in ("ours", "median", "most"))
            print(f"{row['what']:<44}{figures}{row.get('bound', ''):>8}")
    return int(any("bound" in row and row["ours"] > row["bound"] for row in rows))


if __name__ == "__main__":
    sys.exit(main())
