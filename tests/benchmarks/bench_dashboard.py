"""The cost of the dashboard's page: for its server, for the run that it shows, and on the wire.

    python -m tests.benchmarks.bench_dashboard [--seconds N] [--events N] [--json]

The run, the server and the pages are processes of their own. ``processor`` is a share of one core over N seconds.
``microseconds an event`` is the cost of publishing for the run, beside the same run without a dashboard. A page here is
a reader of ``/api/stream``; the cost for a browser is tested in tests/e2e/test_dashboard_page.py.
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
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import anyio
import httpx

from ipc import events as e
from tests.fakes.runs import Run, running

ROOT = Path(__file__).parent.parent.parent
VIBE = Path(sys.executable).parent / "vibe"
MODULE = "tests.benchmarks.bench_dashboard"
RATE = 600
MANY = 60
"""Pages at once. 64 are allowed."""
STEPS = 5_000
TICKS = os.sysconf("SC_CLK_TCK")
BEGUN = e.SubAgentStartedEvent(title="Move it", mode="code", model="m", tools=(), max_tokens=1, max_turns=1)
BOUNDS = {
    "start, s to the address": 0.7,
    "idle, % of a core": 1,
    "1 page at 600 events/s, % of a core": 8,
    f"{MANY} pages at 600 events/s, % of a core": 20,
    "publishing 5,000 a second with a page, us an event more": 10,
    "late join, s": 3,
    "first patch, MB": 1,
    "server's memory then, MB": 150,
}


def outlines(count: int) -> tuple[e.StepOutline, ...]:
    """Return steps in layers of 417, each after the one above it."""
    return tuple(
        e.StepOutline(id=f"s{n}", title=f"Module {n}", mode="code", depends_on=(f"s{n - 417}",) if n >= 417 else ())
        for n in range(count)
    )


async def publish(home: Path, count: int, steps: int, rate: float, seconds: float) -> None:
    """Publish ``count`` events at once, then ``rate`` per second. Each line of stdin begins a measured stretch.

    For each stretch, prints the processor time per event in microseconds.
    """
    async with running(home, plan_id="plan-1") as run:
        run.says(e.PlanStartedEvent(goal="Move them all", steps=outlines(steps)))
        for n in range(count):
            turn(run, n, steps)
        told({"published": count})
        async for _ in anyio.wrap_file(sys.stdin):
            before, n, end = time.process_time(), 0, time.monotonic() + seconds
            while (now := time.monotonic()) < end and rate:
                turn(run, n, steps)
                n += 1
                await anyio.sleep(max(0.0, end - seconds + n / rate - now))
            if not rate:
                await anyio.sleep(seconds)
            told({"us": 1e6 * (time.process_time() - before) / max(n, 1)})


def turn(run: Run, n: int, steps: int) -> None:
    """Publish what a run at work does: each of 500 steps begins, and then their agents stream."""
    busy_steps = min(steps, 500)
    name = f"s{n % busy_steps}"
    if n < busy_steps:
        run.moves(name, "in_progress")
        run.agent_says(name, BEGUN)
    else:
        run.agent_says(name, e.AssistantDeltaEvent(message_id=f"{name}-{n // 20_000}", text="some more words "))


def told(row: dict[str, Any]) -> None:
    """Print a row for the parent process."""
    sys.stdout.write(json.dumps(row) + "\n")
    sys.stdout.flush()


@contextmanager
def publisher(home: Path, seconds: float, *, count: int, steps: int, rate: float) -> Generator[subprocess.Popen[str]]:
    """Start a run as a process, and yield it once it has published its first events."""
    words = [home, count, steps, rate, seconds]
    command = [sys.executable, "-m", MODULE, "--role", *map(str, words)]
    with subprocess.Popen(command, cwd=ROOT, stdin=-1, stdout=-1, text=True) as process:
        try:
            assert process.stdout is not None
            process.stdout.readline()
            yield process
        finally:
            process.kill()


@contextmanager
def dashboard(home: Path) -> Generator[tuple[subprocess.Popen[str], str, str]]:
    """Run the installed command's page, and yield its process, address and token."""
    environ = {**os.environ, "VIBE_HOME": str(home)}
    command = [VIBE, "dashboard", "--web", "--output", "json"]
    with subprocess.Popen(command, stdout=-1, stderr=-1, text=True, env=environ, cwd=home) as process:
        try:
            assert process.stdout is not None
            said = json.loads(process.stdout.readline())
            yield process, said["url"].partition("/#")[0], said["token"]
        finally:
            process.terminate()


def busy(pid: int) -> float:
    """Return the processor seconds that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def memory_mb(pid: int) -> float:
    """Return the resident memory of a process in MB."""
    [line] = [line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("VmRSS")]
    return int(line.split()[1]) / 1024


@contextmanager
def pages(address: str, token: str, count: int) -> Generator[float]:
    """Run pages that read the plan's stream in one process, and yield the megabytes of the first patch."""
    command = [sys.executable, "-m", MODULE, "--role-pages", f"{address}#{token}", str(count)]
    with subprocess.Popen(command, cwd=ROOT, stdout=-1, text=True) as process:
        try:
            assert process.stdout is not None
            yield json.loads(process.stdout.readline())["mb"]
        finally:
            process.kill()


async def read_pages(address: str, token: str, count: int) -> None:
    """Read ``count`` streams, and print once all have received their first patch."""
    sizes: list[float] = []

    async def read() -> None:
        first = 0
        async with client.stream("GET", "/api/stream", params={"run": "plan-1"}) as reply:
            reply.raise_for_status()
            async for line in reply.aiter_lines():
                if not first and line.startswith("data: [") and '"step:s0"' in line:
                    first = len(line)
                    sizes.append(first / 1e6)
                    if len(sizes) == count:
                        told({"mb": max(sizes)})

    async with (
        httpx.AsyncClient(
            base_url=address,
            headers={"authorization": f"Bearer {token}"},
            timeout=60,
            limits=httpx.Limits(max_connections=None),
        ) as client,
        anyio.create_task_group() as tasks,
    ):
        for _ in range(count):
            tasks.start_soon(read)


def stretch(run: subprocess.Popen[str], server: int | None) -> tuple[float, float]:
    """Measure a stretch: microseconds per event of the run, and the server's share of a core in percent."""
    assert run.stdin is not None
    assert run.stdout is not None
    began, before = time.monotonic(), busy(server) if server else 0
    run.stdin.write("\n")
    run.stdin.flush()
    row = json.loads(run.stdout.readline())
    share = (busy(server) - before) / (time.monotonic() - began) if server else 0
    return row["us"], 100 * share


def start_seconds(home: Path) -> float:
    """Return the median of five starts, up to the printed address."""
    times = list[float]()
    for _ in range(5):
        began = time.monotonic()
        with dashboard(home):
            times.append(time.monotonic() - began)
    return statistics.median(times)


def at_rate(home: Path, seconds: float) -> dict[str, float]:
    """Measure a run of 600 events per second, with one page and with many."""
    with ExitStack() as stack:
        run = stack.enter_context(publisher(home, seconds, count=0, steps=14, rate=RATE))
        server, address, token = stack.enter_context(dashboard(home))
        with pages(address, token, 1):
            _, one = stretch(run, server.pid)
        with pages(address, token, MANY):
            _, many = stretch(run, server.pid)
    return {
        "1 page at 600 events/s, % of a core": one,
        f"{MANY} pages at 600 events/s, % of a core": many,
    }


def publishing(home: Path, seconds: float) -> dict[str, float]:
    """Measure the additional cost per event of a page, for a run of 5,000 events per second."""
    with publisher(home, seconds, count=0, steps=14, rate=5_000) as run:
        alone, _ = stretch(run, None)
        with dashboard(home) as (_, address, token), pages(address, token, 1):
            shown, _ = stretch(run, None)
    return {"publishing 5,000 a second with a page, us an event more": shown - alone}


def idle(home: Path, seconds: float) -> dict[str, float]:
    """Measure one live run that publishes nothing, with a page."""
    with (
        publisher(home, seconds, count=0, steps=14, rate=0) as run,
        dashboard(home) as (server, address, token),
        pages(address, token, 1),
    ):
        _, share = stretch(run, server.pid)
    return {"idle, % of a core": share}


def late(home: Path, events: int) -> dict[str, float]:
    """Measure a page that opens on a run with many earlier events."""
    with publisher(home, 0, count=events, steps=STEPS, rate=0), dashboard(home) as (server, address, token):
        began = time.monotonic()
        with pages(address, token, 1) as megabytes:
            joined = time.monotonic() - began
            return {
                "late join, s": joined,
                "first patch, MB": megabytes,
                "server's memory then, MB": memory_mb(server.pid),
            }


def measure(seconds: float, events: int) -> dict[str, float]:
    """Return all rows, each measured in a home of its own."""
    rows = dict[str, float]()
    with tempfile.TemporaryDirectory() as name:
        homes = [Path(name, str(number)) for number in range(5)]
        for home in homes:
            home.mkdir()
        rows["start, s to the address"] = start_seconds(homes[0])
        rows |= idle(homes[1], seconds)
        rows |= at_rate(homes[2], seconds)
        rows |= publishing(homes[3], seconds)
        rows |= late(homes[4], events)
    return rows


def main() -> None:
    """Measure, and print each figure beside its bound."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--events", type=int, default=100_000)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--role", nargs=5, help=argparse.SUPPRESS)
    parser.add_argument("--role-pages", nargs=2, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.role:
        home, count, steps, rate, seconds = args.role
        anyio.run(publish, Path(home), int(count), int(steps), float(rate), float(seconds))
    elif args.role_pages:
        link, count = args.role_pages
        address, _, token = link.partition("#")
        anyio.run(read_pages, address, token, int(count))
    else:
        report(measure(args.seconds, args.events), as_json=args.json)


def report(rows: dict[str, float], *, as_json: bool) -> None:
    """Print the rows."""
    if as_json:
        sys.stdout.write(json.dumps({"rows": rows, "bounds": BOUNDS}, indent=2) + "\n")
        return
    for name, value in rows.items():
        sys.stdout.write(f"{name:<56} {value:8.2f}   bound {BOUNDS[name]:g}\n")


if __name__ == "__main__":
    main()
