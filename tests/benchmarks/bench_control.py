"""A run that streams: how soon it answers commands while many agents write their answers side by side.

    python -m tests.benchmarks.bench_control [--agents N] [--commands N] [--json]

The installed ``vibe`` runs a plan whose agents stream 50 pieces per second each. This process sends it requests over
one connection: whether it is there, what is open, an answer to nothing, and an act on a missing step, which the plan's
run itself must refuse. A bare ``rep0`` socket that answers at once is measured beside it. Medians are judged.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anyio
from msgspec import structs

from ipc._nng import ReqSocket
from ipc.commands import Act, Approve, Ping, Requests, RunCommand, StepAction, decode_reply, encode_command
from ipc.registry import Entry, Registry
from ipc.subscriber import subscribe

VIBE = Path(sysconfig.get_path("scripts")) / "vibe"
PIECES_PER_SECOND = 50
SECONDS = 600
PATIENCE_SECONDS = 60.0
BOUND_MS = 10.0
BARE = """
import sys, pynng
with pynng.Rep0(listen=sys.argv[1]) as socket:
    print("ready", flush=True)
    while True:
        socket.recv()
        socket.send(b"{}")
"""
COMMANDS: dict[str, Ping | RunCommand] = {
    "ping": Ping(),
    "requests": Requests(),
    "approve, of nothing": Approve(request_id="nothing", allow=True),
    "step_act, of no step": Act(step_id="nothing", action=StepAction.SKIP),
}
Row = dict[str, Any]


@contextmanager
def streaming(root: Path, agents: int) -> Generator[Entry]:
    """Run a plan whose agents stream until it is killed, and yield the run's registry entry."""
    home = root / "home"
    home.mkdir(mode=0o700)
    pieces = SECONDS * PIECES_PER_SECOND
    said = {"text": "word" * pieces, "chunk_size": 4, "delay_seconds": SECONDS}
    (home / "script.json").write_text(json.dumps({"version": 1, "agents": {"*": {"turns": [said]}}}))
    (home / "config.toml").write_text(
        f'active_model = "m"\n[[providers]]\nname = "p"\nbackend = "scripted"\nscript = "{home / "script.json"}"\n'
        '[[models]]\nname = "m"\nprovider = "p"\n'
    )
    steps = [{"id": f"s{number}", "title": f"Step {number}", "mode": "research"} for number in range(agents)]
    (root / "plan.json").write_text(json.dumps({"version": 1, "goal": "stream", "steps": steps}))
    command = [str(VIBE), "plan", "run", "plan.json", "--wait", "--max-parallel", str(agents)]
    environ = {"PATH": os.environ.get("PATH", ""), "HOME": str(root), "VIBE_HOME": str(home)}
    run = subprocess.Popen(command, cwd=root, env=environ, stdout=subprocess.DEVNULL)
    try:
        yield anyio.run(_once_all_stream, home, agents)
    finally:
        run.kill()
        run.wait()


async def _once_all_stream(home: Path, agents: int) -> Entry:
    """Return the run's registry entry once every agent has streamed something."""
    with anyio.fail_after(PATIENCE_SECONDS):
        while not (running := Registry(home).running()):  # noqa: ASYNC110  another process
            await anyio.sleep(0.05)
        heard: set[str | None] = set()
        async with subscribe(running[0].source, home=home) as records:
            async for record in records:
                if record.topic.startswith("assistant.delta"):
                    heard.add(record.topic)
                if len(heard) == agents:
                    break
    return Registry(home).running()[0]


async def answered(address: str, request: bytes, count: int) -> list[float]:
    """Return the milliseconds to each answer."""
    socket = ReqSocket(address)
    taken: list[float] = []
    try:
        for _ in range(count):
            begun = time.perf_counter()
            reply = await socket.ask(request)
            taken.append((time.perf_counter() - begun) * 1e3)
            await anyio.sleep(0.01)
            if reply != b"{}":
                decode_reply(reply)
    finally:
        socket.close()
    return taken


def row(what: str, taken: list[float]) -> Row:
    """Return a line of the table."""
    return {
        "what": what,
        "median_ms": round(statistics.median(taken), 2),
        "p99_ms": round(statistics.quantiles(taken, n=100)[98], 2),
    }


def measure(root: Path, agents: int, count: int) -> list[Row]:
    """Measure every command ``count`` times on one run."""
    rows: list[Row] = []
    with streaming(root, agents) as entry:
        address = f"ipc://{root / 'bare.ipc'}"
        bare = subprocess.Popen([sys.executable, "-c", BARE, address], stdout=subprocess.PIPE, text=True)
        try:
            if bare.stdout is not None:
                bare.stdout.readline()
            rows.append(row("bare socket", anyio.run(answered, address, b"?", count)))
        finally:
            bare.kill()
            bare.communicate()
        for what, command in COMMANDS.items():
            request = encode_command(structs.replace(command, token=entry.token))
            rows.append(row(what, anyio.run(answered, entry.control, request, count)))
    return rows


def main() -> int:
    """Measure, print, and return 1 if a bound is missed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--agents", type=int, default=8)
    parser.add_argument("--commands", type=int, default=200)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        rows = measure(Path(folder), args.agents, args.commands)
    late = [each for each in rows if each["median_ms"] > BOUND_MS]
    if args.json:
        print(json.dumps({"agents": args.agents, "load": os.getloadavg()[0], "rows": rows, "bound_ms": BOUND_MS}))
    else:
        print(f"{args.agents} agents stream, load {os.getloadavg()[0]:.1f}")
        for each in rows:
            print(f"{each['what']:<22} median {each['median_ms']:6.2f} ms   p99 {each['p99_ms']:6.2f} ms")
    for each in late:
        print(f"{each['what']}: {each['median_ms']} ms is over {BOUND_MS:g} ms", file=sys.stderr)
    return 1 if late else 0


if __name__ == "__main__":
    sys.exit(main())
